//! A message with its label, and the data from which the label is computed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::image::Pictured;
use crate::own::{Made, OwnText};
use crate::writer::Writer;
use crate::{Arguments, CallId, Image, Label, Labeled, Message, PastCall, Unread};

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The label of the message's existence; it flows to the label of each of its regions.
    pub(crate) label: Label,
    pub(crate) message: Message,
    /// The images of its first text. Most messages have none, and an entry is small, since each step walks over all of
    /// them.
    images: Option<Arc<Vec<Pictured>>>,
    /// As labelled as the message's existence.
    pub(crate) unread: Option<Arc<Unread>>,
    /// Shared by the copies of a history, since labels change rarely.
    pub(crate) came: Arc<Came>,
}

/// How a message came.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    /// Where the label of its existence comes from.
    pub(crate) made: Made,
    /// Its texts as they came.
    pub(crate) own: Vec<OwnText>,
    /// Who wrote which parts of its text, in the order of their beginnings.
    pub(crate) writers: Vec<(Range<usize>, Writer)>,
    /// The arguments of its calls, read when they are first compared with another call's.
    arguments: OnceLock<Vec<Option<Arguments>>>,
}

impl Came {
    /// The writer of this part of its text.
    pub(crate) fn writer(&self, span: &Range<usize>) -> Option<&Writer> {
        let next = self
            .writers
            .partition_point(|(own, _)| own.start <= span.start);
        let (own, writer) = self.writers.get(next.checked_sub(1)?)?;
        (span.end <= own.end).then_some(writer)
    }

    /// The arguments of each of its calls, as far as they can be read, without their labels.
    pub(crate) fn arguments(&self, calls: &[PastCall]) -> &[Option<Arguments>] {
        self.arguments.get_or_init(|| {
            let texts = calls.iter().map(|call| call.arguments.reveal_tcb());
            let read = texts.map(|text| Arguments::parse(text, &Label::bottom()).ok());
            read.collect()
        })
    }
}

impl Entry {
    /// A message under a label that comes from `made`.
    pub(crate) fn new(label: Label, made: Made, message: Message, images: Vec<Pictured>) -> Self {
        let has_calls = matches!(&message, Message::Assistant { calls, .. } if !calls.is_empty());
        // A message with images has one text.
        let own = message.texts();
        let mut own: Vec<OwnText> = own.map(|it| OwnText::of_pictured(it, &images)).collect();
        if let Some(words) = own.first_mut().filter(|_| has_calls) {
            let mut texts = message.texts();
            words.is_silent = texts
                .next()
                .is_some_and(|text| text.is_empty() && text.regions().len() == 0);
        }
        Self {
            label,
            message,
            images: (!images.is_empty()).then(|| Arc::new(images)),
            unread: None,
            came: Arc::new(Came {
                made,
                own,
                writers: Vec::new(),
                arguments: OnceLock::new(),
            }),
        }
    }

    /// Whether it is the answer to this call.
    pub(crate) fn answers(&self, id: CallId) -> bool {
        matches!(&self.message, Message::Result { call, .. } if *call == id)
    }

    /// The images of its first text.
    pub(crate) fn images(&self) -> &[Pictured] {
        self.images.as_ref().map_or(&[], |images| images)
    }

    /// Moves the images by so many bytes.
    pub(crate) fn shift_images(&mut self, by: usize) {
        for pictured in self.images.iter_mut().flat_map(Arc::make_mut) {
            pictured.span.start += by;
            pictured.span.end += by;
        }
    }

    /// The images that a prompt at `label` shows.
    pub(crate) fn images_at<'a>(&'a self, label: &'a Label) -> impl Iterator<Item = &'a Image> {
        let text = self.message.texts().next();
        let images = self.images().iter().filter(move |pictured| {
            let shows = |text| pictured.label_in(text).flows_to(label);
            text.is_some_and(shows)
        });
        images.map(|pictured| &pictured.image)
    }

    /// Restricts its texts by the label of the message, and a result by the label of its call's arguments as well. `of`
    /// gives the label of what has an origin of its own.
    pub(crate) fn restrict(&mut self, arguments: &Label, of: impl Fn(&Made) -> Label) {
        let whole = self.label.join(arguments);
        let merges = matches!(self.message, Message::Result { .. } | Message::Memory(_));
        let images = self.images().first().map_or(usize::MAX, |it| it.span.start);
        let own = &mut Arc::make_mut(&mut self.came).own;
        for (own, text) in own.iter_mut().zip(self.message.texts_mut()) {
            if let Some((made, label)) = &mut own.remade {
                *label = of(made);
            }
            // A note may depend on more than the call that it answers (`History::remake_tcb`).
            let label = own.made.as_ref().map(&of);
            let label = label.map_or(whole.clone(), |label| label.join(&whole));
            own.restrict(text, &label);
            // Neighbours that end up with one label become one region, since nothing treats them differently.
            if merges {
                let merged = std::mem::replace(text, Labeled::trusted_tcb(""));
                *text = merged.merge_apart(images);
            }
        }
        if let Message::Assistant { calls, .. } = &mut self.message {
            // The step's words come before the arguments.
            for (call, own) in calls.iter_mut().zip(own.iter().skip(1)) {
                call.remade = own.remade.as_ref().map(|(_, label)| label.clone());
            }
        }
    }
}

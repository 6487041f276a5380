//! A message with its label, and what that is computed from.

use crate::image::Pictured;
use crate::own::{Made, OwnText};
use crate::{Image, Label, Labeled, Message};

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The label of the message's existence; it flows to the label of each of its regions.
    pub(crate) label: Label,
    /// Where that comes from.
    pub(crate) made: Made,
    /// Its texts as they came, before what they were made from restricted them.
    pub(crate) own: Vec<OwnText>,
    pub(crate) message: Message,
    /// The images of its first text.
    pub(crate) images: Vec<Pictured>,
}

impl Entry {
    /// A message under a label that comes from here.
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
            own,
            label,
            made,
            message,
            images,
        }
    }

    /// The images that a prompt at `label` shows.
    pub(crate) fn images_at<'a>(&'a self, label: &'a Label) -> impl Iterator<Item = &'a Image> {
        let text = self.message.texts().next();
        let images = self.images.iter().filter(move |pictured| {
            let shows = |text| pictured.label_in(text).flows_to(label);
            text.is_some_and(shows)
        });
        images.map(|pictured| &pictured.image)
    }

    /// Restricts all of its text by what it was made from: by the label of the message, and a result by
    /// the arguments of its call as well.
    pub(crate) fn restrict(&mut self, arguments: &Label, of: impl Fn(&Made) -> Label) {
        let whole = self.label.join(arguments);
        let merges = matches!(self.message, Message::Result { .. } | Message::Memory(_));
        for (own, text) in self.own.iter_mut().zip(self.message.texts_mut()) {
            // A text that was made from more than the rest of its message: the words of a step whose calls alone came
            // out again.
            let label = own.made.as_ref().map(&of);
            let label = label.map_or(whole.clone(), |label| label.join(&whole));
            own.restrict(text, &label);
            // Regions that end up with one label become one: no screener and no redactor could tell them
            // apart.
            if merges {
                let merged = std::mem::replace(text, Labeled::trusted_tcb(""));
                let images = self.images.first().map_or(usize::MAX, |it| it.span.start);
                *text = merged.merge_apart(images);
            }
        }
    }
}

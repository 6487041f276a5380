//! The parts of a history: messages, calls and tools.

use std::fmt;
use std::sync::Arc;

#[cfg(doc)]
use crate::Arguments;
use crate::{Approval, Label, Labeled, Source};

/// Names a tool call within one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u32);

/// A tool that the model may be told of.
#[derive(Clone, PartialEq)]
pub struct Tool {
    /// The label of the name, and of the fact that there is such a tool. ⊥ only if the user or the developer chose the
    /// name.
    pub label: Label,
    /// The name to call it by.
    pub name: String,
    /// Its description, which the app wrote.
    pub description: Labeled,
    /// Its parameters: a JSON Schema, as JSON text, which the app wrote.
    pub parameters: Labeled,
}

/// Its name may be a stranger's text, so it is not shown.
impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (description, parameters) = (&self.description, &self.parameters);
        write!(f, "Tool({:?}, {description:?}, {parameters:?})", self.label)
    }
}

/// One message of a history.
#[derive(Debug, Clone)]
pub enum Message {
    /// Instructions of the agent's developer (`m_s`).
    System(Labeled),
    /// The words of the user.
    User(Labeled),
    /// Memories of earlier conversations, for the next message of the user.
    Memory(Labeled),
    /// A step of the model.
    Assistant {
        /// The text; may be empty.
        text: Labeled,
        /// The calls, in order.
        calls: Vec<PastCall>,
    },
    /// The result of a call.
    Result {
        /// The call that it answers.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// The result.
        content: Labeled,
        /// The author of the result.
        author: Author,
    },
}

impl Message {
    /// Its texts in reading order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Labeled> {
        let (first, calls): (_, &[PastCall]) = match self {
            Self::System(text) | Self::User(text) | Self::Memory(text) => (text, &[]),
            Self::Result { content, .. } => (content, &[]),
            Self::Assistant { text, calls } => (text, calls),
        };
        std::iter::once(first).chain(calls.iter().map(|call| &call.arguments))
    }

    pub(crate) fn texts_mut(&mut self) -> impl Iterator<Item = &mut Labeled> {
        let (first, calls): (_, &mut [PastCall]) = match self {
            Self::System(text) | Self::User(text) | Self::Memory(text) => (text, &mut []),
            Self::Result { content, .. } => (content, &mut []),
            Self::Assistant { text, calls } => (text, calls),
        };
        std::iter::once(first).chain(calls.iter_mut().map(|call| &mut call.arguments))
    }

    /// The origin of its texts.
    pub(crate) fn origin(&self) -> Origin<'_> {
        match self {
            Self::System(_) => Origin::System,
            Self::User(_) => Origin::User,
            Self::Memory(_) => Origin::Memory,
            Self::Assistant { .. } => Origin::Assistant,
            Self::Result {
                author: Author::Hub,
                ..
            } => Origin::Hub,
            Self::Result { tool, .. } => Origin::Tool(tool),
        }
    }
}

/// The author of the answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The app that has the tool.
    App,
    /// The hub, in its place.
    Hub,
}

/// What a model's server gave with a step and needs back, such as its signed thoughts. Nothing here reads it. It has the
/// label of the step, and goes back to that server with it.
#[derive(Clone)]
pub struct Unread {
    /// The provider that gave it.
    pub provider: String,
    /// Members of the message: a JSON object, or nothing.
    pub members: String,
    /// The id of each call of the step, and its members.
    pub calls: Vec<(Option<String>, String)>,
}

impl Unread {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let calls = self.calls.iter();
        let calls = calls.map(|(id, members)| id.as_ref().map_or(0, String::len) + members.len());
        self.members.len() + calls.sum::<usize>()
    }
}

/// Two steps are the same if only their unread members differ.
impl PartialEq for Unread {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Unread {}

impl fmt::Debug for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unread({} bytes)", self.bytes())
    }
}

/// A tool call that the model made. Its arguments are labelled text like any other.
#[derive(Debug, Clone)]
pub struct PastCall {
    /// Its name in this history.
    pub id: CallId,
    /// The tool's name; as sensitive as the message's existence.
    pub tool: String,
    /// JSON text: as the model wrote it with one label, or as [`Arguments::to_labeled`] writes it.
    pub arguments: Labeled,
    /// The id that the model's server gave it; as sensitive as the message's existence.
    pub wire_id: Option<String>,
    /// The user's yes to it, if that endorsed it.
    pub approval: Option<Arc<Approval>>,
    /// The label of its control part, if that came out again from less than its step was made from.
    pub remade: Option<Label>,
}

impl PastCall {
    /// The label of its control part, made in a step at this label.
    #[must_use]
    pub fn label(&self, step: &Label) -> Label {
        match (&self.remade, &self.approval) {
            (Some(label), _) => label.clone(),
            (None, Some(approval)) => approval.label(step),
            (None, None) => step.clone(),
        }
    }
}

/// A borrowed [`Source`]: most walks over a history look at labels only.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    System,
    User,
    Memory,
    Assistant,
    Hub,
    Tool(&'a str),
    Description(&'a str),
}

impl Origin<'_> {
    pub(crate) fn source(self) -> Source {
        match self {
            Self::System => Source::System,
            Self::User => Source::User,
            Self::Memory => Source::Memory,
            Self::Assistant => Source::Assistant,
            Self::Hub => Source::Hub,
            Self::Tool(name) => Source::Tool(name.to_owned()),
            Self::Description(name) => Source::Description(name.to_owned()),
        }
    }
}

//! A prompt: the only text that a language-model provider may be given.

use std::fmt;
use std::sync::Arc;

use crate::{Image, Label, Labeled, Unread};

/// The mark for masked text (`◇` in the paper). It is the same for every length and label, so it tells nothing.
pub const REDACTED: &str = "[redacted]";

/// What stands in the place of a tool's description that is masked. It is no mark: the name and the parameters are most of
/// what a model needs.
pub const UNDESCRIBED: &str = "(hidden; if you need it to go on, answer only: [descriptions])";

/// What a prompt with a mark says of it, once, at the end of the instructions. It is part of the program, and where there
/// is a mark it tells nothing that the mark does not.
pub const REDACTED_NOTE: &str = "(Text that stands as [redacted] was withheld from you by the security guard. It is \
neither empty nor unknown. Do not guess it, and write no substitute for it, such as \"unknown\", anywhere. If you cannot do \
a part of the task without it, leave that part out, and tell the user which part and that the guard withheld text.)";

/// A redacted view of a history at one label (RTBAS Algorithm 3's result, `M◇`).
///
/// Only the redactor makes one, so every character in it may flow to [`Prompt::label`]. There is no public constructor.
/// `Debug` shows the label and sizes, since a prompt in a log would get around every clearance.
#[derive(Clone, PartialEq, Eq)]
pub struct Prompt {
    pub(crate) label: Label,
    pub(crate) messages: Vec<PromptMessage>,
    /// Each with the position of its message.
    pub(crate) beside: Vec<(usize, Beside)>,
    pub(crate) tools: Vec<PromptTool>,
    pub(crate) kept: usize,
    pub(crate) masked: usize,
    /// Whether the redactor wrote a mark.
    pub(crate) is_marked: bool,
}

/// What a message has beside its text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    unreachable_pub,
    reason = "the compiler names it where it refuses a prompt of others"
)]
pub enum Beside {
    Image(Image),
    Unread(Arc<Unread>),
}

/// One message of a [`Prompt`].
#[derive(Clone, PartialEq, Eq)]
pub enum PromptMessage {
    /// Instructions of the agent's developer.
    System(String),
    /// The words of the user.
    User(String),
    /// An earlier message of the model.
    Assistant {
        /// Its text; may be empty.
        text: String,
        /// The tool calls that it made.
        calls: Vec<PromptCall>,
    },
    /// The result of an earlier call.
    Tool {
        /// The [`PromptCall::id`] that it answers.
        call: String,
        /// The tool's name.
        tool: String,
        /// The result's text, redacted.
        content: String,
    },
}

/// An earlier tool call, as a prompt shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct PromptCall {
    /// The id that the model's server gave it, or a number of this prompt (`call_1`, `call_2`, …). No two calls of a prompt
    /// share one.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments, as JSON text, redacted.
    pub arguments: String,
}

/// A tool that the model may call.
#[derive(Clone, PartialEq, Eq)]
pub struct PromptTool {
    /// The tool's name.
    pub name: String,
    /// Its description, redacted.
    pub description: String,
    /// Its parameters: a JSON Schema, as JSON text.
    pub parameters: String,
}

impl Prompt {
    /// The label that bounds everything in this prompt.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[PromptMessage] {
        &self.messages
    }

    /// The images of the message at this position, in the order of their notes in its text.
    pub fn images(&self, position: usize) -> impl Iterator<Item = &Image> {
        self.beside(position).filter_map(|beside| match beside {
            Beside::Image(image) => Some(image),
            Beside::Unread(_) => None,
        })
    }

    /// What the model's server gave with the message at this position. It is for that server alone.
    pub fn unread(&self, position: usize) -> Option<&Unread> {
        self.beside(position).find_map(|beside| match beside {
            Beside::Unread(unread) => Some(&**unread),
            Beside::Image(_) => None,
        })
    }

    fn beside(&self, position: usize) -> impl Iterator<Item = &Beside> {
        let all = self.beside.iter();
        all.filter_map(move |(at, beside)| (*at == position).then_some(beside))
    }

    /// The tools that the model may call.
    pub fn tools(&self) -> &[PromptTool] {
        &self.tools
    }

    /// The same with a note at the end, as a message of the user. The note is part of the program, so nothing that was read
    /// can be in it.
    #[must_use]
    pub fn with_note(mut self, note: &'static str) -> Self {
        self.messages.push(PromptMessage::User(note.to_owned()));
        self
    }

    /// The same with [`REDACTED_NOTE`] at the end of the instructions, if there is a mark: one of the redactor, or one that
    /// a message quotes from another prompt, as a summary does.
    #[must_use]
    pub fn with_marks_explained(mut self) -> Self {
        let quotes = |message: &PromptMessage| match message {
            PromptMessage::User(text) => text.contains(REDACTED),
            _ => false,
        };
        if !self.is_marked && !self.messages.iter().any(quotes) {
            return self;
        }
        if let Some(PromptMessage::System(text)) = self.messages.first_mut() {
            text.push_str("\n\n");
            text.push_str(REDACTED_NOTE);
            return self;
        }
        let note = PromptMessage::System(REDACTED_NOTE.to_owned());
        self.messages.insert(0, note);
        for (position, _) in &mut self.beside {
            *position += 1;
        }
        self
    }

    /// The same with a request at the end, as a message of the user. It is masked if it is above the label of the prompt.
    #[must_use]
    pub fn with_request(mut self, request: &Labeled) -> Self {
        let shown = match request.label().flows_to(&self.label) {
            true => request.reveal_tcb(),
            false => REDACTED,
        };
        self.messages.push(PromptMessage::User(shown.to_owned()));
        self
    }

    /// How many labelled regions this prompt shows.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// How many labelled regions were masked.
    pub fn masked(&self) -> usize {
        self.masked
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Prompt({:?}, {:?}, {:?}, {:?})",
            self.label, self.messages, self.beside, self.tools
        )
    }
}

impl fmt::Debug for PromptMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = match self {
            Self::System(text) => ("System", text),
            Self::User(text) => ("User", text),
            Self::Assistant { text, calls } => {
                return write!(f, "Assistant({} bytes, {calls:?})", text.len());
            }
            Self::Tool { content, .. } => ("Tool", content),
        };
        write!(f, "{name}({} bytes)", text.len())
    }
}

impl fmt::Debug for PromptCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromptCall({}, {} bytes)", self.id, self.arguments.len())
    }
}

impl fmt::Debug for PromptTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (description, parameters) = (self.description.len(), self.parameters.len());
        write!(f, "PromptTool({description} and {parameters} bytes)")
    }
}

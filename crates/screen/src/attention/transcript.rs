//! A history and a draft as the model of the attention screener reads them (RTBAS §3.3).
//!
//! Every message is a text of its own, and its text does not depend on what follows it: what was
//! computed for a history's beginning stays true when it grows. Descriptions of tools are left
//! out; see [`Sight::Description`](crate::attention::Sight::Description).

use std::ops::Range;

use ifc::{Author, Draft, History, Labeled, Message, PastCall, RegionId, Source};

use super::speech::{self, Value};

/// Who speaks, in the words of the model's chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The developer.
    System,
    /// The user. Results of tools come under this role too, since the template has none for them.
    User,
    /// The agent.
    Assistant,
}

impl Role {
    /// Its name in the chat template.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message.
#[derive(Clone, PartialEq, Eq)]
pub struct Turn {
    /// Who speaks.
    pub role: Role,
    /// Whether the developer or the user wrote it: it is kept when the rest does not fit.
    pub pinned: bool,
    /// Whether it is the result of a tool.
    pub result: bool,
    /// Its text.
    pub text: String,
}

/// A region of the history, and where it is in the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its number.
    pub region: RegionId,
    /// Where its text comes from.
    pub source: Source,
    /// The turn and the bytes of its text. `None` for the description of a tool.
    pub place: Option<(usize, Range<usize>)>,
}

/// A history in words.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Transcript {
    turns: Vec<Turn>,
    regions: Vec<Placed>,
}

/// A draft in words: what the saliency is computed for.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Spoken {
    /// What the assistant would say.
    pub text: String,
    /// The values of the arguments, in order. Of a final answer, the complete text is one.
    pub values: Vec<Value>,
    /// The tools that it calls.
    pub tools: Vec<String>,
}

impl Transcript {
    /// The history in words.
    pub fn of(history: &History) -> Self {
        let mut writer = Writer {
            transcript: Self::default(),
            places: Vec::new(),
        };
        // In the order of `History::regions`: descriptions of tools, then messages. The places are
        // matched with the regions by position below.
        for tool in history.tools() {
            let regions = tool.description.regions().len() + tool.parameters.regions().len();
            writer.places.extend(std::iter::repeat_n(None, regions));
        }
        for (_, message) in history.messages() {
            writer.message(message);
        }
        let Writer {
            mut transcript,
            places,
        } = writer;
        // The numbers are the history's own. A region without a place here would be taken for
        // a description, which the next property test would find.
        let mut places = places.into_iter();
        transcript.regions = history
            .regions()
            .map(|region| Placed {
                region: region.id,
                source: region.source,
                place: places.next().flatten(),
            })
            .collect();
        transcript
    }

    /// The messages, oldest first.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Every region of the history, in the order of [`History::regions`].
    pub fn regions(&self) -> &[Placed] {
        &self.regions
    }

    /// The text of a region as it occurs here; empty for a description.
    pub fn text(&self, placed: &Placed) -> &str {
        let text = placed.place.as_ref().and_then(|(turn, bytes)| {
            let turn = self.turns.get(*turn)?;
            turn.text.get(bytes.clone())
        });
        text.unwrap_or_default()
    }
}

struct Writer {
    transcript: Transcript,
    places: Vec<Option<(usize, Range<usize>)>>,
}

impl Writer {
    fn message(&mut self, message: &Message) {
        let (role, pinned, result) = match message {
            Message::System(_) => (Role::System, true, false),
            Message::User(_) => (Role::User, true, false),
            // Not pinned: the user did not say it in this conversation, so it is dropped before
            // what was said.
            Message::Memory(_) => (Role::User, false, false),
            Message::Assistant { .. } => (Role::Assistant, false, false),
            Message::Result { .. } => (Role::User, false, true),
        };
        let mut text = String::new();
        match message {
            Message::System(said) | Message::User(said) | Message::Memory(said) => {
                self.verbatim(&mut text, said);
            }
            Message::Assistant { text: said, calls } => {
                self.verbatim(&mut text, said);
                for call in calls {
                    self.call(&mut text, call);
                }
            }
            Message::Result {
                tool,
                content,
                author,
                ..
            } => {
                text.push_str(match author {
                    Author::App => "The tool ",
                    Author::Hub => "Instead of the tool ",
                });
                text.push_str(tool);
                text.push_str(match author {
                    Author::App => " returned:\n",
                    Author::Hub => ", the runtime says:\n",
                });
                self.verbatim(&mut text, content);
            }
        }
        self.transcript.turns.push(Turn {
            role,
            pinned,
            result,
            text,
        });
    }

    fn verbatim(&mut self, text: &mut String, said: &Labeled) {
        let start = text.len();
        text.push_str(said.reveal_tcb());
        // The text is copied as it is, so a region's bytes only shift by what stands before it.
        for (span, _) in said.regions() {
            self.place(start + span.start..start + span.end);
        }
    }

    fn call(&mut self, text: &mut String, call: &PastCall) {
        new_line(text);
        let arguments = call.arguments.reveal_tcb();
        let origins = speech::past_call(text, &call.tool, arguments);
        for (span, _) in call.arguments.regions() {
            // The JSON is put in words, so its regions are followed through the rendering.
            self.place(origins.rendered(span));
        }
    }

    /// The next region is at these bytes of the turn that is being written.
    fn place(&mut self, bytes: Range<usize>) {
        self.places.push(Some((self.transcript.turns.len(), bytes)));
    }
}

impl Spoken {
    /// The draft in the words that its message would have in a [`Transcript`].
    pub fn of(draft: &Draft) -> Self {
        let mut spoken = Self {
            text: draft.text.clone(),
            ..Self::default()
        };
        let mut next = 0;
        for call in &draft.calls {
            new_line(&mut spoken.text);
            let (text, arguments) = (&mut spoken.text, &call.arguments);
            let values = speech::drafted_call(text, &call.tool, arguments, &mut next);
            spoken.values.extend(values);
            spoken.tools.push(call.tool.clone());
        }
        // An answer has no arguments; what it depends on is asked of all its words.
        if draft.calls.is_empty() && !spoken.text.is_empty() {
            spoken.values.push(Value {
                argument: 0,
                span: 0..spoken.text.len(),
            });
        }
        spoken
    }

    /// The text of an argument's value.
    pub fn value(&self, value: &Value) -> &str {
        self.text.get(value.span.clone()).unwrap_or_default()
    }
}

/// Each call has its own line.
fn new_line(text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
}

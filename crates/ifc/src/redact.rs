//! The redactor (RTBAS Algorithm 3), by region.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::entry::Entry;
use crate::json::{Json, Kind};
use crate::prompt::Beside;
use crate::{
    CallId, History, Label, Labeled, Message, PastCall, Prompt, PromptCall, PromptMessage,
    PromptTool, REDACTED, Tool, UNDESCRIBED,
};

/// The mark for masked arguments of a past call: a JSON object, since chat templates parse it.
const REDACTED_ARGUMENTS: &str = r#"{"redacted":true}"#;
/// The mark for one masked argument: a string.
const REDACTED_ARGUMENT: &str = r#""[redacted]""#;
/// The mark for a masked JSON Schema: any object.
const REDACTED_PARAMETERS: &str = r#"{"type":"object"}"#;

/// The words before memories and after them. Each memory is a line of its own.
const REMEMBERED: &str = "Remembered from earlier conversations:\n";
const NOW: &str = "\nThe user says now:\n";

/// The view of `history` at `label`: every region that does not flow to `label` is masked in place. Steps and tools whose
/// existence does not flow to it are left out.
///
/// The paper puts `◇` for each masked message. The number of such marks would tell how many steps were taken above the
/// label, or how many tools an app has. For the same reason adjacent masked regions become one mark, and calls are numbered
/// afresh. So a prompt at `label` is a function of the text below `label` alone.
#[must_use]
pub fn redact(history: &History, label: &Label) -> Prompt {
    let mut redactor = Redactor {
        label,
        kept: 0,
        masked: 0,
        is_marked: false,
        calls: Vec::new(),
        answered: Vec::new(),
        ids: None,
        memory: String::new(),
        messages: Vec::with_capacity(history.entries.len()),
        beside: Vec::new(),
    };
    let tools = history
        .tools()
        .iter()
        .filter_map(|tool| redactor.tool(tool, history.declared(&tool.name)))
        .collect();
    let entries = &history.entries;
    for (at, entry) in entries.iter().enumerate() {
        redactor.entry(entry, entries.get(at + 1..).unwrap_or_default());
    }
    Prompt {
        label: label.clone(),
        messages: redactor.messages,
        beside: redactor.beside,
        tools,
        kept: redactor.kept,
        masked: redactor.masked,
        is_marked: redactor.is_marked,
    }
}

struct Redactor<'a> {
    label: &'a Label,
    kept: usize,
    masked: usize,
    /// Whether a mark was written.
    is_marked: bool,
    /// The visible calls so far, sorted, with the id that each has in the prompt.
    calls: Vec<(CallId, String)>,
    /// Those of steps above the label, whose answers are shown with them.
    answered: Vec<CallId>,
    /// The ids in use, from the first id of a server on: it could look like a number of ours.
    ids: Option<BTreeSet<String>>,
    /// The visible memories for the user's next message.
    memory: String,
    messages: Vec<PromptMessage>,
    /// Each with the position of its message.
    beside: Vec<(usize, Beside)>,
}

impl Redactor<'_> {
    /// Shows a message that has these behind it.
    fn entry(&mut self, entry: &Entry, rest: &[Entry]) {
        match &entry.message {
            // A step above the label may have calls that are below it. Each is shown by itself with its answer, since which
            // calls were made together is as sensitive as the step.
            Message::Assistant { text, calls } if !entry.label.flows_to(self.label) => {
                self.hidden(text);
                for call in calls {
                    let Some(shown) = self.call(call, &entry.label) else {
                        continue;
                    };
                    self.messages.push(PromptMessage::Assistant {
                        text: String::new(),
                        calls: vec![shown],
                    });
                    self.answered.push(call.id);
                    let answers = rest.iter().filter(|later| later.answers(call.id));
                    answers.for_each(|answer| self.show(answer));
                }
            }
            Message::Result { call, .. } if self.answered.contains(call) => {}
            _ => self.show(entry),
        }
    }

    fn show(&mut self, entry: &Entry) {
        let Some(message) = self.message(entry) else {
            return;
        };
        let at = self.messages.len();
        if !entry.images().is_empty() {
            let shown = entry.images_at(self.label).cloned();
            let shown = shown.map(|image| (at, Beside::Image(image)));
            self.beside.extend(shown);
        }
        if let Some(own) = &entry.unread {
            self.beside.push((at, Beside::Unread(Arc::clone(own))));
        }
        self.messages.push(message);
    }

    fn message(&mut self, entry: &Entry) -> Option<PromptMessage> {
        if !entry.label.flows_to(self.label) {
            self.leave_out(&entry.message);
            return None;
        }
        Some(match &entry.message {
            Message::System(text) => PromptMessage::System(self.text(text)),
            // Memories are one message with the user's words: most models know no other role for them, and many refuse two
            // messages of a user in a row.
            Message::Memory(text) => {
                let text = self.text(text);
                self.memory.push_str(&text);
                return None;
            }
            Message::User(text) => {
                let said = self.pictured(text, entry);
                let remembered = std::mem::take(&mut self.memory);
                PromptMessage::User(match remembered.is_empty() {
                    true => said,
                    false => format!("{REMEMBERED}{remembered}{NOW}{said}"),
                })
            }
            Message::Assistant { text, calls } => PromptMessage::Assistant {
                text: self.text(text),
                calls: {
                    let mut shown = Vec::with_capacity(calls.len());
                    let calls = calls.iter();
                    shown.extend(calls.filter_map(|call| self.call(call, &entry.label)));
                    shown
                },
            },
            Message::Result {
                call,
                tool,
                content,
                ..
            } => {
                // A result without its call would tell that there was a call.
                let at = self.calls.binary_search_by_key(call, |(id, _)| *id).ok();
                let (_, id) = self.calls.get(at?)?;
                PromptMessage::Tool {
                    call: id.clone(),
                    tool: tool.clone(),
                    content: self.pictured(content, entry),
                }
            }
        })
    }

    /// A call of a step at this label, if it is visible.
    fn call(&mut self, call: &PastCall, step: &Label) -> Option<PromptCall> {
        if !call.label(step).flows_to(self.label) {
            self.hidden(&call.arguments);
            return None;
        }
        // The id of the server is as sensitive as the step.
        let wire_id = call.wire_id.as_ref().filter(|_| step.flows_to(self.label));
        let id = self.id(wire_id);
        // At the end, unless the calls of the history are in another order.
        let place = self.calls.partition_point(|(id, _)| *id < call.id);
        self.calls.insert(place, (call.id, id.clone()));
        Some(PromptCall {
            id,
            tool: call.tool.clone(),
            arguments: self.arguments(&call.arguments),
        })
    }

    /// The id of the next call: a function of the visible calls alone, and unlike any before it.
    fn id(&mut self, wire_id: Option<&String>) -> String {
        let next = self.calls.len() + 1;
        if self.ids.is_none() && wire_id.is_none() {
            return numbered(next);
        }
        let used = || self.calls.iter().map(|(_, id)| id.clone()).collect();
        let ids = self.ids.get_or_insert_with(used);
        let own = wire_id.filter(|id| !ids.contains(*id)).cloned();
        let id = own.unwrap_or_else(|| {
            let mut numbers = (next..).map(numbered);
            let free = numbers.find(|id| !ids.contains(id));
            free.unwrap_or_else(|| numbered(next))
        });
        ids.insert(id.clone());
        id
    }

    fn tool(&mut self, tool: &Tool, declared: Option<&str>) -> Option<PromptTool> {
        if !tool.label.flows_to(self.label) {
            // `Prompt::masked` tells whether a draft has seen more than this prompt shows, tools included.
            let regions =
                [&tool.description, &tool.parameters].map(|text| text.raw_regions().len());
            self.masked += regions.into_iter().sum::<usize>();
            return None;
        }
        let is_marked = self.is_marked;
        let mut description = self.text(&tool.description);
        if description == REDACTED {
            (description, self.is_marked) = (UNDESCRIBED.to_owned(), is_marked);
        }
        Some(PromptTool {
            name: tool.name.clone(),
            description,
            parameters: self.json(&tool.parameters, declared.unwrap_or(REDACTED_PARAMETERS)),
        })
    }

    /// JSON that stays JSON. With one masked region all of it is replaced by `instead`, since a mark in the middle could be
    /// outside of a string.
    fn json(&mut self, text: &Labeled, instead: &str) -> String {
        if text.label().flows_to(self.label) {
            self.text(text)
        } else {
            self.masked += text.raw_regions().len();
            self.is_marked |= instead == REDACTED_ARGUMENTS;
            instead.to_owned()
        }
    }

    /// Past arguments: each value that is masked by itself becomes a string.
    fn arguments(&mut self, text: &Labeled) -> String {
        let masked = self.masked;
        let kept = self.kept;
        // Argument by argument if that leaves a JSON object, which templates and servers parse. A mark inside of a string
        // does not, and then all is masked.
        let shown = self.marked(text, REDACTED_ARGUMENT, usize::MAX);
        let is_object = |text: &str| {
            let root = Json::read(text)
                .ok()
                .and_then(|json| json.nodes().first().map(|it| it.kind));
            root == Some(Kind::Object)
        };
        match self.masked == masked || is_object(&shown) {
            true => shown,
            false => {
                (self.masked, self.kept) = (masked, kept);
                self.json(text, REDACTED_ARGUMENTS)
            }
        }
    }

    fn text(&mut self, text: &Labeled) -> String {
        self.marked(text, REDACTED, usize::MAX)
    }

    /// The text of a message that may have images at its end.
    fn pictured(&mut self, text: &Labeled, entry: &Entry) -> String {
        let images = entry.images().first();
        let images = images.map_or(usize::MAX, |first| first.span.start);
        self.marked(text, REDACTED, images)
    }

    /// The text with marks. There is no mark beyond the byte `images`, since it would tell that there is an image.
    fn marked(&mut self, text: &Labeled, mark: &str, images: usize) -> String {
        let source = text.reveal_tcb();
        let mut out = String::with_capacity(source.len());
        let mut copied = 0;
        // Where the last mark was written; an adjacent masked region shares it.
        let mut marked = None;
        for region in text.raw_regions() {
            if region.label.flows_to(self.label) {
                self.kept += 1;
                continue;
            }
            self.masked += 1;
            out.push_str(source.get(copied..region.span.start).unwrap_or_default());
            if marked != Some(region.span.start) && region.span.end <= images {
                out.push_str(mark);
                self.is_marked = true;
            }
            copied = region.span.end;
            marked = Some(region.span.end);
        }
        out.push_str(source.get(copied..).unwrap_or_default());
        out
    }

    /// A text that is left out counts as masked.
    fn hidden(&mut self, text: &Labeled) {
        self.masked += text.raw_regions().len();
    }

    fn leave_out(&mut self, message: &Message) {
        self.masked += match message {
            Message::System(text) | Message::User(text) | Message::Memory(text) => {
                text.raw_regions().len()
            }
            Message::Result { content, .. } => content.raw_regions().len(),
            Message::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| call.arguments.raw_regions().len());
                text.raw_regions().len() + calls.sum::<usize>()
            }
        };
    }
}

/// `call_1`, `call_2`, …: by hand, since `format!` would take a fifth of a redaction.
fn numbered(number: usize) -> String {
    fn push(number: usize, out: &mut String) {
        if number >= 10 {
            push(number / 10, out);
        }
        let digit = u8::try_from(number % 10).unwrap_or_default();
        out.push(char::from(b'0' + digit));
    }
    let mut id = String::with_capacity(12);
    id.push_str("call_");
    push(number, &mut id);
    id
}

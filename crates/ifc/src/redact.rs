//! The redactor (RTBAS Algorithm 3), by region.

use std::collections::BTreeSet;

use crate::entry::Entry;
use crate::json::{Json, Kind};
use crate::{
    CallId, History, Label, Labeled, Message, PastCall, Prompt, PromptCall, PromptMessage,
    PromptTool, REDACTED, Tool,
};

/// What stands for masked arguments of a past call: a JSON object, since chat templates parse it.
const REDACTED_ARGUMENTS: &str = r#"{"redacted":true}"#;
/// What stands for one masked argument: a string.
const REDACTED_ARGUMENT: &str = r#""[redacted]""#;
/// What stands for a masked JSON Schema: any object.
const REDACTED_PARAMETERS: &str = r#"{"type":"object"}"#;

/// What stands before memories and after them. Each memory is a line of its own.
const REMEMBERED: &str = "Remembered from earlier conversations:\n";
const NOW: &str = "\nThe user says now:\n";

/// The view of `history` at `label`: every region that does not flow to `label` is masked in
/// place, and every step that was taken above `label` is left out. So is every tool whose name is
/// above it.
///
/// The paper puts `◇` for each masked message. We leave whole messages out where their very
/// existence is above the label: the number of marks would tell how many steps were taken there,
/// or how many tools a stranger's app has.
/// Adjacent masked regions become one mark, and calls are numbered afresh, for the same reason.
/// So a prompt at `label` is a function of the text below `label` alone.
#[must_use]
pub fn redact(history: &History, label: &Label) -> Prompt {
    let mut redactor = Redactor {
        label,
        kept: 0,
        masked: 0,
        calls: Vec::new(),
        names: None,
        memory: String::new(),
    };
    let tools = history
        .tools()
        .iter()
        .filter_map(|tool| redactor.tool(tool, history.declared(&tool.name)))
        .collect();
    let entries = history.entries();
    let (mut messages, mut images) = (Vec::with_capacity(entries.len()), Vec::new());
    for entry in entries {
        let Some(message) = redactor.message(entry) else {
            continue;
        };
        if !entry.images().is_empty() {
            let shown = entry.images_at(label).cloned();
            images.extend(shown.map(|image| (messages.len(), image)));
        }
        messages.push(message);
    }
    Prompt {
        label: label.clone(),
        messages,
        images,
        tools,
        kept: redactor.kept,
        masked: redactor.masked,
    }
}

struct Redactor<'a> {
    label: &'a Label,
    kept: usize,
    masked: usize,
    /// The visible calls so far, sorted, and what each is called.
    calls: Vec<(CallId, Name)>,
    /// The names that are taken, once one of them is that of a server: it could be a number of ours.
    names: Option<BTreeSet<String>>,
    /// What was remembered for the user's next message, as far as it is visible.
    memory: String,
}

/// What a call is shown as.
#[derive(Clone)]
enum Name {
    /// `call_1`, `call_2`, …
    Number(usize),
    /// The name that its server gave it.
    Own(String),
}

impl Name {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => format!("call_{number}"),
            Self::Own(name) => name.clone(),
        }
    }
}

impl Redactor<'_> {
    fn message(&mut self, entry: &Entry) -> Option<PromptMessage> {
        // First the fact that there is such a message, then what it says. A step above the label may have a call that
        // the user has said yes to: that call is shown, and nothing beside it.
        let is_visible = entry.label.flows_to(self.label);
        if !is_visible && !self.has_endorsed(entry) {
            self.leave_out(&entry.message);
            return None;
        }
        Some(match &entry.message {
            Message::System(text) => PromptMessage::System(self.text(text)),
            // Memories are one message with what the user says: most models know no other role for
            // them, and many take no two messages of a user in a row.
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
                text: match is_visible {
                    true => self.text(text),
                    // That a step said something beside a call is above the call.
                    false => self.hidden(text),
                },
                calls: {
                    let mut shown = Vec::with_capacity(calls.len());
                    shown.extend(
                        calls
                            .iter()
                            .filter_map(|call| self.call(call, &entry.label)),
                    );
                    shown
                },
            },
            Message::Result {
                call,
                tool,
                content,
                ..
            } => {
                // No call, no result: an answer to nothing would tell that there was a call.
                let name = self.calls.binary_search_by_key(call, |(id, _)| *id).ok();
                let (_, name) = self.calls.get(name?)?;
                PromptMessage::Tool {
                    call: name.text(),
                    tool: tool.clone(),
                    content: self.pictured(content, entry),
                }
            }
        })
    }

    /// Whether a step above the label has a call that the user has endorsed and that is below it.
    fn has_endorsed(&self, entry: &Entry) -> bool {
        let Message::Assistant { calls, .. } = &entry.message else {
            return false;
        };
        let mut calls = calls.iter().filter(|call| call.approval.is_some());
        calls.any(|call| call.label(&entry.label).flows_to(self.label))
    }

    /// A call of a step at this label, if it is visible.
    fn call(&mut self, call: &PastCall, step: &Label) -> Option<PromptCall> {
        if !call.label(step).flows_to(self.label) {
            self.hidden(&call.arguments);
            return None;
        }
        // The server gave its name to what the step proposed.
        let wire_id = call.wire_id.as_ref().filter(|_| step.flows_to(self.label));
        let name = self.name(wire_id);
        // At the end, but for a history whose calls were put together in another order.
        let place = self.calls.partition_point(|(id, _)| *id < call.id);
        let id = name.text();
        self.calls.insert(place, (call.id, name));
        Some(PromptCall {
            id,
            tool: call.tool.clone(),
            arguments: self.arguments(&call.arguments),
        })
    }

    /// What a call is shown as: a function of the visible calls alone.
    fn name(&mut self, wire_id: Option<&String>) -> Name {
        let next = self.calls.len() + 1;
        if self.names.is_none() && wire_id.is_none() {
            return Name::Number(next);
        }
        // Servers of models know calls by the ids that they gave; to them a prompt in which two are the same makes no
        // sense.
        let taken = || self.calls.iter().map(|(_, name)| name.text()).collect();
        let names = self.names.get_or_insert_with(taken);
        let own = wire_id.filter(|name| !names.contains(*name)).cloned();
        let own = own.map(Name::Own);
        let name = own.unwrap_or_else(|| {
            let mut numbers = (next..).map(Name::Number);
            let free = numbers.find(|name| !names.contains(&name.text()));
            free.unwrap_or(Name::Number(next))
        });
        names.insert(name.text());
        name
    }

    fn tool(&mut self, tool: &Tool, declared: Option<&str>) -> Option<PromptTool> {
        if !tool.label.flows_to(self.label) {
            // A draft that was made with this tool in sight has seen more than a prompt without it (`Prompt::masked`).
            // There is at least one: both are labelled with the name's label.
            let regions =
                [&tool.description, &tool.parameters].map(|text| text.raw_regions().len());
            self.masked += regions.into_iter().sum::<usize>();
            return None;
        }
        Some(PromptTool {
            name: tool.name.clone(),
            description: self.text(&tool.description),
            parameters: self.json(&tool.parameters, declared.unwrap_or(REDACTED_PARAMETERS)),
        })
    }

    /// JSON that stays JSON: one masked region and the whole value is replaced by `instead`.
    /// A mark in the middle could fall outside a string, and no parser would take the rest.
    fn json(&mut self, text: &Labeled, instead: &str) -> String {
        if text.label().flows_to(self.label) {
            self.text(text)
        } else {
            self.masked += text.raw_regions().len();
            instead.to_owned()
        }
    }

    /// Past arguments: each value that is masked by itself becomes a string.
    fn arguments(&mut self, text: &Labeled) -> String {
        let masked = self.masked;
        let kept = self.kept;
        // Argument by argument where that leaves one JSON object, so that a model sees what it had decided itself. What
        // is masked inside of a string does not, and masks all: templates and servers parse arguments.
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

    /// No mark stands for what is masked beyond `images`: it would tell that there is an image.
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
            }
            copied = region.span.end;
            marked = Some(region.span.end);
        }
        out.push_str(source.get(copied..).unwrap_or_default());
        out
    }

    /// Nothing stands for a text that is left out; it is counted.
    fn hidden(&mut self, text: &Labeled) -> String {
        self.masked += text.raw_regions().len();
        String::new()
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

//! The tagged message sequence `M` of RTBAS §7.3, at the granularity of regions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::entry::Entry;
use crate::image::{Content, Pictured};
use crate::message::Origin;
use crate::own::{Made, OwnText, OwnTool};
use crate::{
    Arguments, Author, Call, CallId, Label, Labeled, Message, PastCall, Ran, RegionId, RegionRef,
    Relevance, Tool,
};

/// Everything that a language model may be shown a part of.
///
/// Each message has a label of its own beside those of its regions: the label of the *fact* that
/// it exists (the program counter under which the step was taken). Without it, redaction would
/// still show how many steps were taken above the prompt's label.
#[derive(Debug, Clone, Default)]
pub struct History {
    tools: Vec<Tool>,
    /// What is said of the tools, as it came.
    own_tools: Vec<OwnTool>,
    entries: Vec<Entry>,
    calls: u32,
    /// The app whose tools have their own names here; `None` where names are qualified.
    app: Option<String>,
    /// Parameters of tools in the user's words, by the name of the tool.
    declared: BTreeMap<String, Arc<str>>,
}

impl History {
    /// An empty history over these tools. What is said of a tool becomes at least as restrictive as
    /// its name, as the regions of a message are at least as restrictive as the message.
    pub fn new(mut tools: Vec<Tool>) -> Self {
        let mut own_tools: Vec<OwnTool> = tools.iter().map(OwnTool::of).collect();
        for (own, tool) in own_tools.iter_mut().zip(&mut tools) {
            own.restrict(tool);
        }
        Self {
            tools,
            own_tools,
            ..Self::default()
        }
    }

    /// The same in a conversation with this app alone: its tools have the names that it gave them. Without
    /// one, each name is [`Call::qualified`].
    #[must_use]
    pub fn of_app(self, app: impl Into<String>) -> Self {
        let app = Some(app.into());
        Self { app, ..self }
    }

    /// What the calls of this tool returned, oldest first; not the hub's own words in place of a result.
    pub(crate) fn results<'h>(
        &'h self,
        app: &str,
        tool: &str,
    ) -> impl Iterator<Item = &'h Labeled> + use<'h> {
        let shown = match &self.app {
            None => Some(Call::qualified(app, tool)),
            Some(own) if own == app => Some(tool.to_owned()),
            // One app's tool can have a name that looks like the qualified one of another's.
            Some(_) => None,
        };
        let entries = self.entries.iter();
        entries.filter_map(move |entry| match &entry.message {
            Message::Result {
                tool,
                content,
                author: Author::App,
                ..
            } if Some(tool) == shown.as_ref() => Some(content),
            _ => None,
        })
    }

    /// Appends the developer's instructions.
    pub fn push_system(&mut self, text: Labeled) {
        self.push_fixed(&Label::bottom(), Message::System(text));
    }

    /// Appends what the user said. That the user speaks is not secret.
    pub fn push_user(&mut self, said: impl Into<Content>) {
        let Content { text, images } = said.into();
        let (label, message) = (Label::bottom(), Message::User(text));
        self.push(&label, Made::fixed(label.clone()), message, images);
    }

    /// Appends what was remembered and found under `label`: the text and the fact that something was
    /// found become at least that restrictive. It is shown with the user's next message.
    pub fn push_memory(&mut self, label: &Label, text: Labeled) {
        self.push_fixed(label, Message::Memory(text));
    }

    /// Appends what a model said under `label`, whatever it was made from: text, calls and the fact
    /// that there was such a step all become at least that restrictive, and stay it. Returns the calls'
    /// names.
    pub fn push_assistant(
        &mut self,
        label: &Label,
        text: Labeled,
        calls: impl IntoIterator<Item = (String, Labeled)>,
    ) -> Vec<CallId> {
        self.push_made(label, Made::fixed(label.clone()), text, calls)
    }

    /// Appends what the model said to the prompt of this history at `label` (Algorithm 4, line 18). It
    /// has that label for as long as what the prompt showed has it. `floor` is the part of the label that
    /// comes from nothing in the history.
    pub fn push_step(
        &mut self,
        label: &Label,
        floor: &Label,
        text: Labeled,
        calls: impl IntoIterator<Item = (String, Labeled)>,
    ) -> Vec<CallId> {
        // What the prompt showed, kept by what it was and not by its label: when one of these labels falls, the step's
        // falls with it (`relabel`).
        let made = Made::at(label, floor, &self.labels_before(self.entries.len()));
        self.push_made(&label.join(floor), made, text, calls)
    }

    /// Appends a step under `label` that is one call. Returns its name.
    pub fn push_call(&mut self, label: &Label, tool: String, arguments: Labeled) -> CallId {
        let nothing = Labeled::trusted_tcb("");
        self.push_step(label, &Label::bottom(), nothing, [(tool, arguments)]);
        CallId(self.calls)
    }

    fn push_made(
        &mut self,
        label: &Label,
        made: Made,
        text: Labeled,
        calls: impl IntoIterator<Item = (String, Labeled)>,
    ) -> Vec<CallId> {
        let calls: Vec<PastCall> = calls
            .into_iter()
            .map(|(tool, arguments)| {
                self.calls += 1;
                PastCall {
                    id: CallId(self.calls),
                    tool,
                    arguments,
                    wire_id: None,
                    approval: None,
                }
            })
            .collect();
        let ids = calls.iter().map(|call| call.id).collect();
        self.push(label, made, Message::Assistant { text, calls }, Vec::new());
        ids
    }

    /// Takes the newest message back, if it is a step: nothing of it has happened, and it is taken again.
    pub fn take_back(&mut self) {
        let newest = self.entries.last().map(|entry| &entry.message);
        // With a result behind it something has happened, and it stays. The numbers of its calls are not given out
        // again.
        if let Some(Message::Assistant { .. }) = newest {
            self.entries.pop();
        }
    }

    /// Says what the model's server called a call, so that it is told its own name again. The name
    /// must come from the step that made the call.
    pub fn name_call(&mut self, call: CallId, wire_id: impl Into<String>) {
        let calls = self.entries.iter_mut().rev();
        let mut calls = calls.flat_map(|entry| match &mut entry.message {
            Message::Assistant { calls, .. } => calls.as_mut_slice(),
            _ => &mut [],
        });
        if let Some(call) = calls.find(|past| past.id == call) {
            call.wire_id = Some(wire_id.into());
        }
    }

    /// Appends what a call returned, under the label of the call: that of the step that made it, unless the
    /// user has endorsed it (Algorithm 4, line 13).
    pub fn push_result(&mut self, label: &Label, call: CallId, content: impl Into<Content>) {
        // Under another label than its call's, it has that one whatever becomes of the step.
        // From the call, so that it falls when the step does or the user says yes to it (`relabel`).
        let made = match self.call_label(call).is_some_and(|own| own == *label) {
            true => Made::Call(call),
            false => Made::fixed(label.clone()),
        };
        self.push_answer(label, made, call, content.into(), Author::App);
    }

    /// Appends the hub's own words in place of a result: the call was refused, failed, or never
    /// ran. They must not repeat anything that an app said, but for names of tools that flow to this label.
    ///
    /// They keep this label: whether a call was refused depended on the label that its step had then.
    pub fn push_note(&mut self, label: &Label, call: CallId, note: impl Into<String>) {
        let (made, note) = (Made::fixed(label.clone()), Labeled::trusted_tcb(note));
        self.push_answer(label, made, call, note.into(), Author::Hub);
    }

    /// That there is an answer is known where the call is; what it says may depend on all of the call,
    /// its data arguments too.
    fn push_answer(
        &mut self,
        label: &Label,
        made: Made,
        call: CallId,
        content: Content,
        author: Author,
    ) {
        let tool = self.call(call).map(|call| call.tool.clone());
        let result = Message::Result {
            call,
            tool: tool.unwrap_or_default(),
            content: content.text,
            author,
        };
        self.push(label, made, result, content.images);
    }

    /// The same with the parameters of tools in the user's own words, each a JSON Schema, by the tool's name: they
    /// are shown where what the tool's app says of them is masked.
    ///
    /// Trusted: nothing that an app said may be in them.
    #[must_use]
    pub fn declaring_tcb(self, declared: BTreeMap<String, Arc<str>>) -> Self {
        Self { declared, ..self }
    }

    /// The parameters of a tool in the user's words.
    pub(crate) fn declared(&self, tool: &str) -> Option<&str> {
        self.declared.get(tool).map(AsRef::as_ref)
    }

    /// The tools.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The messages, oldest first, each with the label of its existence.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = (&Label, &Message)> {
        self.entries
            .iter()
            .map(|entry| (&entry.label, &entry.message))
    }

    /// Bytes of all messages and tools: of their texts and of their images.
    pub fn bytes(&self) -> usize {
        let images = self.entries.iter().flat_map(Entry::images);
        let images = images.map(|pictured| pictured.image.bytes().len());
        let texts = self.texts().map(|(_, text)| text.len());
        texts.chain(images).sum()
    }

    /// How many images of the message at this position a prompt at `label` shows, if it shows the message.
    #[must_use]
    pub fn images_at(&self, position: usize, label: &Label) -> usize {
        let entry = self.entries.get(position);
        entry.map_or(0, |entry| entry.images_at(label).count())
    }

    /// Every labelled region in reading order: the tools' first, then the messages'.
    pub fn regions(&self) -> impl Iterator<Item = RegionRef<'_>> {
        self.numbered()
            .map(|(id, origin, text, span, label)| RegionRef {
                id,
                source: origin.source(),
                text,
                span,
                label,
            })
    }

    /// The tool of this name, as far as a step under `label` may know of it.
    #[must_use]
    pub fn tool_at(&self, label: &Label, name: &str) -> Option<&Tool> {
        let mut tools = self.tools.iter();
        tools.find(|tool| tool.name == name && tool.label.flows_to(label))
    }

    /// The join of every label in this history: what naive tainting assumes of the next step. The
    /// labels of tools' names are among those of their descriptions.
    #[must_use]
    pub fn label(&self) -> Label {
        let messages = self.entries.iter().map(|entry| &entry.label);
        let regions = self
            .texts()
            .flat_map(|(_, text)| text.regions().map(|(_, label)| label));
        messages.chain(regions).collect()
    }

    /// Algorithm 2: the join of the labels of the relevant regions. A region that does not exist
    /// counts as everything: a screener that is confused must not lower a label.
    #[must_use]
    pub fn label_of(&self, relevance: &Relevance) -> Label {
        let Relevance::Only(wanted) = relevance else {
            return self.label();
        };
        // Both are in ascending order.
        let mut wanted = wanted.iter().peekable();
        let mut joined = Label::bottom();
        for (id, _, _, _, label) in self.numbered() {
            if wanted.next_if_eq(&&id).is_some() {
                joined.absorb(label);
            }
        }
        match wanted.next() {
            None => joined,
            // Left over: a number past the last region. Nothing that such an answer says counts.
            Some(_) => self.label(),
        }
    }

    /// The join of every label in this history that flows to `limit`: nothing more can be shown to a
    /// step that is to stay below it.
    #[must_use]
    pub fn label_below(&self, limit: &Label) -> Label {
        // A name can be below the limit while all that is said of the tool is above it; a prompt that shows the name
        // has at least its label.
        let names = self.tools.iter().map(|tool| &tool.label);
        let regions = self.numbered().map(|(_, _, _, _, label)| label);
        let all = names.chain(regions);
        all.filter(|label| label.flows_to(limit)).collect()
    }

    /// What this history says of calls in earlier steps whose arguments compare as this one's, whatever their labels.
    /// Calls that the hub answered in the app's place did not run. Those of the newest step do not
    /// count: they are what is being decided on.
    pub(crate) fn ran(&self, call: &Call, is_same: impl Fn(&Arguments) -> bool) -> Option<Ran> {
        let is_step = |entry: &Entry| matches!(entry.message, Message::Assistant { .. });
        let newest = self.entries.iter().rposition(is_step)?;
        let earlier = self.entries.get(..newest).unwrap_or_default();
        let mut ids = Vec::new();
        for entry in earlier {
            let Message::Assistant { calls, .. } = &entry.message else {
                continue;
            };
            for (at, past) in calls.iter().enumerate() {
                // By either name: a step that a client brings back names its tool as its conversation does.
                // The label of the past call does not matter: it is compared, and shown to nobody.
                let is_equal = || {
                    let arguments = entry.came.arguments(calls).get(at);
                    let arguments = arguments.and_then(Option::as_ref);
                    arguments.is_some_and(&is_same)
                };
                if call.is_of(&past.tool) && is_equal() {
                    ids.push(past.id);
                }
            }
        }
        let author = |id: &CallId| {
            earlier.iter().find_map(|entry| match &entry.message {
                Message::Result { call, author, .. } if call == id => Some(*author),
                _ => None,
            })
        };
        // The newest one that may have run.
        ids.iter().rev().find_map(|id| match author(id) {
            // A call that the hub answered was refused, rejected or never sent.
            Some(Author::Hub) => None,
            Some(Author::App) => Some(Ran::Answered),
            None => Some(Ran::Unknown),
        })
    }

    /// The call of this name, and the step that made it.
    fn step_of(&self, id: CallId) -> Option<(&Entry, &PastCall)> {
        let mut entries = self.entries.iter().rev();
        entries.find_map(|entry| match &entry.message {
            Message::Assistant { calls, .. } => {
                let call = calls.iter().find(|call| call.id == id)?;
                Some((entry, call))
            }
            _ => None,
        })
    }

    /// The label of a call's control part: of its step, unless the user has endorsed it.
    #[must_use]
    pub fn call_label(&self, id: CallId) -> Option<Label> {
        let (step, call) = self.step_of(id)?;
        Some(call.label(&step.label))
    }

    /// The call of this name.
    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&PastCall> {
        Some(self.step_of(id)?.1)
    }

    /// The labels of everything that a prompt before this message could show: of each tool and each
    /// message that there is one, and then of its texts.
    pub(crate) fn labels_before(&self, message: usize) -> Vec<Label> {
        let mut labels = Vec::new();
        for (tool, OwnTool(own)) in self.tools.iter().zip(&self.own_tools) {
            labels.push(tool.label.clone());
            labels.extend(own.iter().flat_map(OwnText::labels));
        }
        for entry in self.entries.iter().take(message) {
            labels.push(entry.label.clone());
            labels.extend(entry.came.own.iter().flat_map(OwnText::labels));
        }
        labels
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    pub(crate) fn own_tools(&self) -> &[OwnTool] {
        &self.own_tools
    }

    pub(crate) fn own_mut(&mut self) -> (&mut [OwnTool], &mut [Entry]) {
        (&mut self.own_tools, &mut self.entries)
    }

    pub(crate) fn tools_mut(&mut self) -> impl Iterator<Item = (&mut Tool, &mut OwnTool)> {
        self.tools.iter_mut().zip(&mut self.own_tools)
    }

    /// The same tools, and the names of calls, over other messages, each under the label that it has.
    pub(crate) fn with_entries(&self, entries: Vec<Entry>) -> Self {
        let fixed = |entry: Entry| {
            let made = Made::fixed(entry.label.clone());
            let images = entry.images().to_vec();
            Entry::new(entry.label, made, entry.message, images)
        };
        Self {
            tools: self.tools.clone(),
            own_tools: self.own_tools.clone(),
            entries: entries.into_iter().map(fixed).collect(),
            calls: self.calls,
            app: self.app.clone(),
            declared: self.declared.clone(),
        }
    }

    fn push_fixed(&mut self, label: &Label, message: Message) {
        self.push(label, Made::fixed(label.clone()), message, Vec::new());
    }

    fn push(&mut self, label: &Label, made: Made, message: Message, images: Vec<Pictured>) {
        // What a result says may depend on all of the call.
        let arguments = match &message {
            Message::Result { call, .. } => self
                .call(*call)
                // An answer to no call of this history could be anybody's.
                .map_or(Label::top(), |call| call.arguments.label()),
            _ => Label::bottom(),
        };
        let mut entry = Entry::new(label.clone(), made, message, images);
        entry.restrict(&arguments, |_| Label::bottom());
        self.entries.push(entry);
    }

    /// Every region in reading order, with its number, origin, text, span and label.
    pub(crate) fn numbered(
        &self,
    ) -> impl Iterator<Item = (RegionId, Origin<'_>, &Labeled, Range<usize>, &Label)> {
        self.texts()
            .flat_map(|(origin, text)| {
                text.regions()
                    .map(move |(span, label)| (origin, text, span, label))
            })
            .zip(0u32..)
            .map(|((origin, text, span, label), id)| (RegionId(id), origin, text, span, label))
    }

    /// Every text in reading order. The one place that says what a history contains.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (Origin<'_>, &Labeled)> {
        let tools = self.tools.iter().flat_map(|tool| {
            let origin = Origin::Description(&tool.name);
            [(origin, &tool.description), (origin, &tool.parameters)]
        });
        tools.chain(self.entries.iter().flat_map(|entry| {
            let origin = entry.message.origin();
            entry.message.texts().map(move |text| (origin, text))
        }))
    }
}

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
    Relevance, Tool, Unread,
};

/// Everything that a language model may be shown a part of.
///
/// Each message has a label of its own beside those of its regions: the label of the *fact* that it exists (the program
/// counter under which the step was taken). Without it, a prompt would show how many steps were taken above its label.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub(crate) tools: Vec<Tool>,
    /// The texts of the tools, as they came.
    pub(crate) own_tools: Vec<OwnTool>,
    pub(crate) entries: Vec<Entry>,
    calls: u32,
    /// The app whose tools have their own names here; `None` where names are qualified.
    app: Option<String>,
    /// Names of tools that are those of other apps.
    others: Arc<BTreeMap<String, (String, String)>>,
    /// Parameters of tools in the user's words, by the name of the tool.
    declared: BTreeMap<String, Arc<str>>,
}

impl History {
    /// An empty history over these tools. The texts of a tool become at least as restrictive as its name.
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

    /// The same in a conversation with this app alone, whose tools have the app's own names. Otherwise each name is
    /// [`Call::qualified`].
    #[must_use]
    pub fn of_app(self, app: impl Into<String>) -> Self {
        let app = Some(app.into());
        Self { app, ..self }
    }

    /// The same where these names are tools of other apps.
    #[must_use]
    pub fn of_client(
        self,
        app: impl Into<String>,
        others: Arc<BTreeMap<String, (String, String)>>,
    ) -> Self {
        Self {
            others,
            ..self.of_app(app)
        }
    }

    /// Whether this is the name of the tool in this conversation.
    fn is_named(&self, name: &str, app: &str, tool: &str) -> bool {
        match (self.others.get(name), &self.app) {
            (Some((other, own)), _) => (other.as_str(), own.as_str()) == (app, tool),
            (None, None) => name == Call::qualified(app, tool),
            // A tool of the one app may have a name that looks like the qualified name of another's.
            (None, Some(own)) => own == app && name == tool,
        }
    }

    /// The results of this tool, oldest first, without the hub's words in place of a result.
    pub(crate) fn results<'h>(
        &'h self,
        app: &str,
        tool: &str,
    ) -> impl Iterator<Item = &'h Labeled> + use<'h> {
        let (app, own) = (app.to_owned(), tool.to_owned());
        let entries = self.entries.iter();
        entries.filter_map(move |entry| match &entry.message {
            Message::Result {
                tool,
                content,
                author: Author::App,
                ..
            } if self.is_named(tool, &app, &own) => Some(content),
            _ => None,
        })
    }

    /// Appends the developer's instructions.
    pub fn push_system(&mut self, text: Labeled) {
        self.push_fixed(&Label::bottom(), Message::System(text), Vec::new());
    }

    /// Appends the words of the user. That the user speaks is not secret.
    pub fn push_user(&mut self, said: impl Into<Content>) {
        let Content { text, images, .. } = said.into();
        self.push_fixed(&Label::bottom(), Message::User(text), images);
    }

    /// Appends memories that were found under `label`: the text and the fact that something was found become at least that
    /// restrictive. A prompt shows them with the user's next message.
    pub fn push_memory(&mut self, label: &Label, text: Labeled) {
        self.push_fixed(label, Message::Memory(text), Vec::new());
    }

    /// Appends a step of a model that has `label` whatever it was made from: text, calls and the fact that there was such
    /// a step become at least that restrictive, and stay so. Returns the ids of the calls.
    pub fn push_assistant(
        &mut self,
        label: &Label,
        text: Labeled,
        calls: impl IntoIterator<Item = (String, Labeled)>,
    ) -> Vec<CallId> {
        self.push_made(label, Made::fixed(label.clone()), text, calls)
    }

    /// Appends a step that the model made from the prompt of this history at `label` (Algorithm 4, line 18). Its label
    /// falls when the labels of what the prompt showed fall. `floor` is the part of the label that comes from nothing in
    /// the history.
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

    /// Appends a step under `label` that is one call. Returns its id.
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
                    remade: None,
                }
            })
            .collect();
        let ids = calls.iter().map(|call| call.id).collect();
        let message = Message::Assistant { text, calls };
        self.push(label, &Label::bottom(), made, message, Vec::new());
        ids
    }

    /// Removes the newest message if it is a step, so that the step can be made again. The ids of its calls are not used
    /// again.
    pub fn take_back(&mut self) {
        let newest = self.entries.last().map(|entry| &entry.message);
        // A step with a result behind it has had an effect, and stays.
        if let Some(Message::Assistant { .. }) = newest {
            self.entries.pop();
        }
    }

    /// Sets what the model's server gave with the step at this position, the ids of its calls included. It must come from
    /// the completion that the step is.
    pub fn carry(&mut self, at: usize, unread: Option<Arc<Unread>>) {
        let Some(entry) = self.entries.get_mut(at) else {
            return;
        };
        if let Message::Assistant { calls, .. } = &mut entry.message {
            let ids = unread.iter().flat_map(|unread| &unread.calls);
            let ids = ids.map(|(id, _)| id.clone());
            for (call, id) in calls.iter_mut().zip(ids.chain(std::iter::repeat(None))) {
                call.wire_id = id;
            }
            entry.unread = unread;
        }
    }

    /// What the model's server gave with the message at this position.
    #[must_use]
    pub fn unread(&self, at: usize) -> Option<&Arc<Unread>> {
        self.entries.get(at)?.unread.as_ref()
    }

    /// Appends the result of a call (Algorithm 4, line 13) under the label of the call: that of its step, unless the user
    /// has endorsed the call. The result's label then falls when the call's does. Under any other label, it stays.
    pub fn push_result(&mut self, label: &Label, call: CallId, content: impl Into<Content>) {
        let own = self.step_of(call);
        let is_own = own.is_some_and(|(step, call)| call.label(&step.label) == *label);
        let made = match is_own {
            true => Made::Call(call),
            false => Made::fixed(label.clone()),
        };
        self.push_answer(label, made, call, content.into(), Author::App);
    }

    /// Appends the hub's own words in place of a result: the call was refused, failed, or never ran. They must not repeat
    /// anything that an app said, except names of tools that flow to this label.
    ///
    /// The label stays: whether a call was refused depended on the label that its step had then.
    pub fn push_note(&mut self, label: &Label, call: CallId, note: impl Into<String>) {
        let (made, note) = (Made::fixed(label.clone()), Labeled::trusted_tcb(note));
        self.push_answer(label, made, call, note.into(), Author::Hub);
    }

    /// The fact that there is an answer is known where the call is. Its text may depend on all of the call, data arguments
    /// included.
    fn push_answer(
        &mut self,
        label: &Label,
        made: Made,
        call: CallId,
        content: Content,
        author: Author,
    ) {
        // An answer to no call of this history could be anyone's.
        let (tool, arguments) = match self.call(call) {
            Some(call) => (call.tool.clone(), call.arguments.label()),
            None => (String::new(), Label::top()),
        };
        let result = Message::Result {
            call,
            tool,
            content: content.text,
            author,
        };
        self.push(label, &arguments, made, result, content.images);
        if let Some(entry) = self
            .entries
            .last_mut()
            .filter(|_| !content.writers.is_empty())
        {
            Arc::make_mut(&mut entry.came).writers = content.writers;
        }
    }

    /// The same with the parameters of tools in the user's own words, each a JSON Schema, by the tool's name. A prompt
    /// shows them where the app's own are masked.
    ///
    /// Trusted: nothing that an app said may be in them.
    #[must_use]
    pub fn declaring_tcb(self, declared: BTreeMap<String, Arc<str>>) -> Self {
        Self { declared, ..self }
    }

    /// The parameters of a tool in the user's words.
    pub fn declared(&self, tool: &str) -> Option<&str> {
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

    /// The bytes of all texts and images, and of what is not read.
    pub fn bytes(&self) -> usize {
        let images = self.entries.iter().flat_map(Entry::images);
        let images = images.map(|pictured| pictured.image.bytes().len());
        let texts = self.texts().map(|(_, text)| text.len());
        let unread = self.entries.iter().flat_map(|entry| &entry.unread);
        let unread = unread.map(|unread| unread.bytes());
        texts.chain(images).chain(unread).sum()
    }

    /// How many images of the message at this position a prompt at `label` shows.
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

    /// The join of every label in this history, which naive tainting gives the next step. The labels of tools' names are
    /// among those of their descriptions.
    #[must_use]
    pub fn label(&self) -> Label {
        let messages = self.entries.iter().map(|entry| &entry.label);
        let regions = self
            .texts()
            .flat_map(|(_, text)| text.regions().map(|(_, label)| label));
        messages.chain(regions).collect()
    }

    /// Algorithm 2: the join of the labels of the relevant regions. A region that does not exist counts as everything,
    /// since a confused screener must not lower a label.
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
            // A number past the last region is left.
            Some(_) => self.label(),
        }
    }

    /// The join of every label in this history that flows to `limit`: the most that a step below the limit can be shown.
    #[must_use]
    pub fn label_below(&self, limit: &Label) -> Label {
        let (said, described) = self.labels_below(limit);
        said.join(&described)
    }

    /// The same in two parts: of everything but the texts of tools, and of these texts.
    #[must_use]
    pub fn labels_below(&self, limit: &Label) -> (Label, Label) {
        let is_shown = |own: &&Label| own.flows_to(limit);
        // The name of a tool can be below the limit while its texts are above it.
        let names = self.tools.iter().map(|tool| &tool.label);
        let messages = self.entries.iter().map(|entry| &entry.label);
        let mut said: Label = names.chain(messages).filter(is_shown).collect();
        let mut described = Label::bottom();
        for (_, origin, .., label) in self.numbered().filter(|(.., own)| is_shown(own)) {
            match origin {
                Origin::Description(_) => described.absorb(label),
                _ => said.absorb(label),
            }
        }
        (said, described)
    }

    /// What this history knows of the newest call in earlier steps that may have run, and whose tool and arguments are
    /// those of this call, whatever its label. The newest step does not count, since its calls are being decided on.
    pub(crate) fn ran(&self, call: &Call, is_same: impl Fn(&Arguments) -> bool) -> Option<Ran> {
        let is_step = |entry: &Entry| matches!(entry.message, Message::Assistant { .. });
        let newest = self.entries.iter().rposition(is_step)?;
        let earlier = self.entries.get(..newest)?;
        let author = |id: CallId| {
            earlier.iter().find_map(|entry| match &entry.message {
                Message::Result { call, author, .. } if *call == id => Some(*author),
                _ => None,
            })
        };
        earlier.iter().rev().find_map(|entry| {
            let Message::Assistant { calls, .. } = &entry.message else {
                return None;
            };
            calls.iter().enumerate().rev().find_map(|(at, past)| {
                let is_equal = || {
                    let arguments = entry.came.arguments(calls).get(at)?;
                    arguments.as_ref().map(&is_same)
                };
                let is_of =
                    |name: &str| call.is_of(name) || self.is_named(name, &call.app, &call.tool);
                if !is_of(&past.tool) || is_equal() != Some(true) {
                    return None;
                }
                match author(past.id) {
                    // A call that the hub answered was refused, rejected or never sent.
                    Some(Author::Hub) => None,
                    Some(Author::App) => Some(Ran::Answered),
                    None => Some(Ran::Unknown),
                }
            })
        })
    }

    /// The call with this id, and the step that made it.
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

    /// Whether some prompt shows a step or a call behind this call of the step at this position, and not the call. If the
    /// call's label fell then, such a prompt would show in which order they were made.
    #[must_use]
    pub fn has_lower_behind(&self, step: usize, call: usize) -> bool {
        let mut entries = self.entries.iter().skip(step);
        let Some((label, Message::Assistant { calls, .. })) =
            entries.next().map(|entry| (&entry.label, &entry.message))
        else {
            return true;
        };
        let Some(own) = calls.get(call).map(|call| call.label(label)) else {
            return true;
        };
        let is_lower = |label: &Label, calls: &[PastCall]| {
            let mut calls = calls.iter();
            calls.any(|call| !own.flows_to(&call.label(label)))
        };
        is_lower(label, calls.get(call + 1..).unwrap_or_default())
            || entries.any(|entry| match &entry.message {
                // It is shown with its call.
                Message::Result { .. } => false,
                Message::Assistant { calls, .. } => {
                    !own.flows_to(&entry.label) || is_lower(&entry.label, calls)
                }
                _ => !own.flows_to(&entry.label),
            })
    }

    /// The label of a call's control part: that of its step, unless the user has endorsed the call or it came out again
    /// from less.
    #[must_use]
    pub fn call_label(&self, id: CallId) -> Option<Label> {
        let (step, call) = self.step_of(id)?;
        Some(call.label(&step.label))
    }

    /// The call with this id.
    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&PastCall> {
        Some(self.step_of(id)?.1)
    }

    /// The labels of everything that a prompt before this message could show: for each tool and message first the label of
    /// its existence, then those of its texts.
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

    /// A history of other messages with the same tools. Each message keeps the label that it has.
    pub(crate) fn with_entries(&self, entries: Vec<Entry>) -> Self {
        let fixed = |entry: Entry| {
            let made = Made::fixed(entry.label.clone());
            let images = entry.images().to_vec();
            let mut fixed = Entry::new(entry.label, made, entry.message, images);
            fixed.unread = entry.unread;
            fixed
        };
        Self {
            tools: self.tools.clone(),
            own_tools: self.own_tools.clone(),
            entries: entries.into_iter().map(fixed).collect(),
            calls: self.calls,
            app: self.app.clone(),
            others: Arc::clone(&self.others),
            declared: self.declared.clone(),
        }
    }

    fn push_fixed(&mut self, label: &Label, message: Message, images: Vec<Pictured>) {
        let made = Made::fixed(label.clone());
        self.push(label, &Label::bottom(), made, message, images);
    }

    /// Appends a message. `arguments` is the label of the arguments of the call that it answers.
    fn push(
        &mut self,
        label: &Label,
        arguments: &Label,
        made: Made,
        message: Message,
        images: Vec<Pictured>,
    ) {
        let mut entry = Entry::new(label.clone(), made, message, images);
        entry.restrict(arguments, |_| Label::bottom());
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

    /// Every text in reading order. Regions are numbered in this order.
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

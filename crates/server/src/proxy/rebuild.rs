//! From the conversation that a client sends to the labelled history that it stands for.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use hub::Refinement;
use hub::recognise::{KnownTexts, restricted};
use hub::state::hex;
use ifc::{Arguments, Call, CallId, Content, History, Image, Label, Labeled, Policy, Sink, Tool};

use super::{
    behind::{Behind, ClientTools, inserted, quoted},
    memory::{Memory, Recalled, RememberedCall, Step, Taken},
    transcript::{Chain, Digest, Link, hash},
};
use crate::conversation::{ClientTool, Conversation, Message, Role};

/// What is said of the text that a client brings itself.
#[derive(Clone)]
pub struct ClientLabels {
    /// Of system and developer messages: ⊥, since they are the agent's own program.
    pub system: Label,
    /// Of what the agent's program puts between the messages under the developer's or the user's role: files of the
    /// workspace, instructions of MCP servers, reminders. Under the developer's role it has the label of all before it too.
    pub inserted: Label,
    /// Of the tools' descriptions and parameters, and of the names that are not `listed`.
    pub descriptions: Label,
    /// The tools that the configuration has a rule for by name: these names are the user's words.
    pub listed: BTreeSet<String>,
    /// Of what the user says: trusted, unless a configuration knows better.
    pub user: Arc<dyn Fn(String) -> Labeled + Send + Sync>,
    /// Of the images in what the user says: the author of what one shows is unknown. Without a label, and in
    /// results too, they are refused.
    pub images: Option<Label>,
}

impl Default for ClientLabels {
    fn default() -> Self {
        Self {
            system: Label::bottom(),
            inserted: Label::top(),
            descriptions: Label::bottom(),
            listed: BTreeSet::new(),
            user: Arc::new(Labeled::trusted_tcb),
            images: None,
        }
    }
}

pub(super) struct Reader<'a> {
    pub(super) app: &'a str,
    pub(super) tools: &'a ClientTools,
    pub(super) behind: Option<&'a Behind>,
    /// Texts of which it is known who wrote them.
    pub(super) known: &'a [Arc<Labeled>],
    pub(super) policy: &'a dyn Policy,
    pub(super) labels: &'a ClientLabels,
    pub(super) memory: &'a Memory,
    /// What this tenant's conversations have seen labelled.
    pub(super) texts: &'a KnownTexts<'a>,
    /// The name of the upstream, to which thoughts go back.
    pub(super) upstream: Option<&'a str>,
    /// Bytes of one result; a larger one is refused as a whole.
    pub(super) result_bytes: usize,
}

/// A conversation as it really is.
#[derive(Clone)]
pub(super) struct Rebuilt {
    pub(super) history: History,
    pub(super) chain: Chain,
    /// The digest of the beginning, up to the first message of the user: the same for every
    /// request of one conversation.
    pub(super) beginning: Chain,
    /// What was refused since the user last said something.
    pub(super) refused: Vec<Call>,
    /// Messages of the assistant that nothing is known of.
    pub(super) forgotten: usize,
    /// Where the messages are that came after the last answer.
    pub(super) news: Vec<News>,
}

/// A message that came with this request, for the trace.
#[derive(Clone)]
pub(super) enum News {
    User(Labeled),
    Returned {
        call: Call,
        bytes: usize,
        is_error: bool,
        label: Label,
        regions: usize,
    },
}

struct Open {
    id: CallId,
    label: Label,
    /// `None` if the client's word for it is no call at all: then nothing is known of its result.
    call: Option<Call>,
}

impl Reader<'_> {
    /// Rebuilds the history, or says in one line what is wrong with the request.
    pub(super) fn read(&self, body: &Conversation, chain: &Chain) -> Result<Rebuilt, String> {
        let tools: Vec<Tool> = body.tools.iter().map(|tool| self.tool(tool)).collect();
        let rebuilt = self.read_over(tools.clone(), body, chain)?;
        // After the messages, because one request can bring a result and a description that repeats it.
        let recognised = tools.iter().map(|tool| self.recognised(tool, chain));
        let recognised: Vec<Tool> = recognised.collect();
        match recognised == tools {
            true => Ok(rebuilt),
            // Labels of tools count in those of all steps. What was learnt and recognised is known, so that this
            // reading says the same of the messages.
            false => self.read_over(recognised, body, chain),
        }
    }

    fn read_over(
        &self,
        tools: Vec<Tool>,
        body: &Conversation,
        chain: &Chain,
    ) -> Result<Rebuilt, String> {
        let mut reading = Reading {
            reader: self,
            beginning: None,
            rebuilt: Rebuilt {
                history: History::new(tools),
                beginning: chain.clone(),
                chain: chain.clone(),
                refused: Vec::new(),
                forgotten: 0,
                news: Vec::new(),
            },
            open: HashMap::new(),
        };
        for message in &body.messages {
            reading
                .message(message)
                .map_err(|error| format!("{}: {error}", message.place))?;
        }
        reading.nothing_open()?;
        if let Some(beginning) = reading.beginning {
            reading.rebuilt.beginning = beginning;
        }
        Ok(reading.rebuilt)
    }

    /// The label of a text that comes beside the messages: of what it repeats. Known after the messages were read.
    pub(super) fn label_beside(&self, kind: &str, text: String, chain: &Chain) -> Label {
        self.beside(kind, Labeled::trusted_tcb(text), chain).label()
    }

    fn beside(&self, kind: &str, text: Labeled, chain: &Chain) -> Labeled {
        let place = chain.beside(kind, text.reveal_tcb());
        self.texts.recognise(&place, text)
    }

    /// The tool with the labels of what its texts repeat.
    fn recognised(&self, tool: &Tool, chain: &Chain) -> Tool {
        let text = |kind, text: &Labeled| self.beside(kind, text.clone(), chain);
        Tool {
            name: tool.name.clone(),
            // A listed name is a word of the configuration, wherever else it stands.
            label: match self.is_listed(&tool.name) {
                true => tool.label.clone(),
                false => (self.label_beside("name", tool.name.clone(), chain)).join(&tool.label),
            },
            description: text("description", &tool.description),
            parameters: text("parameters", &tool.parameters),
        }
    }

    /// Whether a tool's name is a word of the user's.
    fn is_listed(&self, name: &str) -> bool {
        let served = self.tools.labels(name);
        served.map_or_else(
            || self.labels.listed.contains(name),
            |(named, _)| named.is_bottom(),
        )
    }

    fn tool(&self, tool: &ClientTool) -> Tool {
        let served = self.tools.labels(&tool.name);
        let described = served.map_or(&self.labels.descriptions, |(_, described)| described);
        let labelled = |text: &String| Labeled::label_tcb(text, described.clone());
        Tool {
            label: match self.is_listed(&tool.name) {
                true => Label::bottom(),
                false => described.clone(),
            },
            name: tool.name.clone(),
            description: labelled(&tool.description),
            parameters: labelled(&tool.parameters),
        }
    }
}

/// A text that stands for an image where texts are recognised.
fn name(image: &Image) -> String {
    hex(&hash(image.bytes()))
}

/// Where an image stands: a message's own place is that of its text.
fn place(message: Digest, image: &Image) -> Digest {
    hash(&[message, hash(image.bytes())].concat())
}

struct Reading<'a> {
    reader: &'a Reader<'a>,
    beginning: Option<Chain>,
    rebuilt: Rebuilt,
    open: HashMap<String, Open>,
}

impl Reading<'_> {
    fn message(&mut self, message: &Message) -> Result<(), String> {
        self.rebuilt.chain.push(&Link::of(message));
        let text = message.text.clone();
        let images = message.images.clone();
        // The history has each result right after the step that asked for it, and so must the client.
        if message.role != Role::Tool {
            self.nothing_open()?;
        }
        match message.role {
            Role::Tool => self.result(message, text, images)?,
            Role::System => {
                let labels = self.reader.labels;
                let text = match message.is_inserted {
                    // The agent's program can have made it from anything that it has read.
                    true => {
                        let label = self.rebuilt.history.label().join(&labels.inserted);
                        inserted(text, self.reader.known, &label)
                    }
                    false => Labeled::label_tcb(text, labels.system.clone()),
                };
                let text = self.recognised(text);
                self.rebuilt.history.push_system(text);
            }
            Role::User if message.is_inserted => {
                let Reader { labels, known, .. } = self.reader;
                let text = inserted(text, known, &labels.inserted);
                self.push_user(self.recognised(text), images);
            }
            Role::User => self.user(message, text, images),
            Role::Assistant => self.assistant(message, text)?,
        }
        Ok(())
    }

    fn user(&mut self, message: &Message, text: String, images: Vec<Image>) {
        let Reader { labels, known, .. } = self.reader;
        let attached = message.attached.iter();
        let attached = attached.map(|span| (span.clone(), labels.inserted.clone()));
        let text = restricted((labels.user)(text), &attached.collect::<Vec<_>>());
        let text = quoted(text, known);
        let passed = self.passed(&text, &message.attached);
        let place = self.rebuilt.chain.place();
        let text = self.reader.texts.recognise_message(&place, text, &passed);
        if self.beginning.is_none() {
            self.beginning = Some(self.rebuilt.chain.clone());
        }
        // A new turn: what was refused in the last one may be asked again.
        self.rebuilt.refused.clear();
        self.push_user(text, images);
    }

    /// The label of what a call has passed on, which comes to a sub-agent as the user's message, or as its part beside those
    /// that the agent's program adds.
    fn passed(&self, text: &Labeled, attached: &[Range<usize>]) -> Label {
        let words = text.reveal_tcb();
        let mut added: Vec<_> = text.regions().map(|(span, _)| span).collect();
        added.extend(attached.iter().cloned());
        added.sort_by_key(|span| span.start);
        let (mut own, mut at) = (Vec::new(), 0);
        for span in added {
            own.push(at..span.start);
            at = at.max(span.end);
        }
        own.extend([at..words.len(), 0..words.len()]);
        let labels = own.into_iter().map(|part| {
            let part = words.get(part).unwrap_or_default();
            let digest = self.rebuilt.beginning.passed(part);
            match self.reader.memory.recall(&digest) {
                Recalled::Ambiguous(label) => label,
                Recalled::Exactly(_) | Recalled::Nothing => Label::bottom(),
            }
        });
        labels.fold(Label::bottom(), |joined, label| joined.join(&label))
    }

    fn push_user(&mut self, text: Labeled, images: Vec<Image>) {
        self.rebuilt.news.push(News::User(text.clone()));
        let mut said = Content::from(text);
        for image in images {
            let label = self.reader.labels.images.clone().unwrap_or(Label::top());
            // One that a result brought keeps its label when the client sends it as the user's.
            let place = place(self.rebuilt.chain.place(), &image);
            let named = Labeled::label_tcb(name(&image), label);
            let known = self.reader.texts.recognise(&place, named);
            said.attach(image, &known.label());
        }
        self.rebuilt.history.push_user(said);
    }

    /// The newest message's text, with the labels of what it repeats. Clients compact conversations,
    /// pass on what other agents said, and retrieve: that is not the user's own word.
    fn recognised(&self, text: Labeled) -> Labeled {
        let place = self.rebuilt.chain.place();
        self.reader.texts.recognise(&place, text)
    }

    fn result(
        &mut self,
        message: &Message,
        text: String,
        images: Vec<Image>,
    ) -> Result<(), String> {
        let id = message.answers.as_deref();
        let own = id.ok_or("the id of the call that this result answers is missing")?;
        // Taken out, so that a second result for one call answers no open call.
        let open = self.open.remove(own);
        let open = open.ok_or("this result answers no call that is still open")?;
        let Open { id, label, call } = open;
        let bytes = text.len();
        let reader = self.reader;
        let content = match &call {
            Some(call) if call.app == reader.app => {
                let gathered = reader.behind.map(|behind| behind.gathered(call));
                let content = reader.policy.label_result(call, text, message.is_error);
                content.restrict(&gathered.unwrap_or_default())
            }
            Some(call) => {
                // Without a result of the gateway it is not known who says this.
                let brought = |behind: &Behind| Some(behind.permits().result(own)?.brought(&text));
                let known = reader.behind.and_then(brought);
                known.unwrap_or_else(|| reader.policy.label_result(call, text, true))
            }
            None => Labeled::unknown(text),
        };
        let content = hub::bounded(content, reader.result_bytes);
        let place = self.rebuilt.chain.place();
        // A file that a tool reads may be an earlier result that the agent has saved there. A rule that tells the fields of
        // a result apart knows better what stands in them.
        let all = 0..content.len();
        let is_uniform = content.regions().all(|(span, _)| span == all);
        let content = match is_uniform {
            true => {
                let here = hash(&[&place[..], b"result"].concat());
                reader.texts.recognise(&here, content)
            }
            false => content,
        };
        // A result with another one's text in it has more writers than its rules know of.
        let is_own = !is_uniform || content.regions().all(|(span, _)| span == all);
        let writers = match &call {
            Some(call) if is_own && !message.is_error => reader.policy.writers(call, &content),
            _ => Vec::new(),
        };
        // What it says may depend on all of the call, its data arguments too.
        let call_label = call.as_ref().map(|call| Sink::Call(call).label());
        let call_label = call_label.unwrap_or(Label::top()).join(&label);
        let seen = content.clone().restrict(&call_label);
        reader.texts.learn(Some(&place), &seen);
        // No rule reads an image, so it has the label of what a rule does not understand, as an error has.
        let opaque = match &call {
            Some(call) => reader
                .policy
                .label_result(call, String::new(), true)
                .label(),
            None => Label::top(),
        };
        for image in &images {
            let seen = Labeled::label_tcb(name(image), opaque.join(&call_label));
            reader.texts.learn(Some(&self::place(place, image)), &seen);
        }
        if let Some(call) = call {
            self.rebuilt.news.push(News::Returned {
                bytes,
                is_error: message.is_error,
                label: content.label().join(&call_label),
                regions: content.regions().len(),
                call,
            });
        }
        let mut content = Content::from(content).written_by(writers);
        for image in images {
            content.attach(image, &opaque);
        }
        self.rebuilt.history.push_result(&label, id, content);
        Ok(())
    }

    fn assistant(&mut self, message: &Message, text: String) -> Result<(), String> {
        // What came before this answer was in an earlier request, and in the trace.
        self.rebuilt.news.clear();
        let digest = self.rebuilt.chain.digest();
        match self.reader.memory.recall(&digest) {
            Recalled::Exactly(taken) => self.taken(&taken),
            // Each of several ways led to these very words. The label covers them all.
            Recalled::Ambiguous(label) => self.visible(message, text, &label),
            Recalled::Nothing => {
                // An answer of another conversation, such as a summary, which the agent's program has put here.
                let words = self.rebuilt.beginning.said(&text);
                if let (true, Recalled::Ambiguous(label)) =
                    (message.calls.is_empty(), self.reader.memory.recall(&words))
                {
                    let label = label.join(&self.reader.labels.inserted);
                    return self.visible(message, text, &label);
                }
                // Of another proxy, forgotten or made up: what it depends on is unknown.
                self.rebuilt.forgotten += 1;
                self.visible(message, text, &Label::top())?;
                // At ⊤ it is all the same who has written them.
                if let (Some(upstream), false) = (self.reader.upstream, message.unread.is_empty()) {
                    let unread = llm::thoughts(upstream, &message.unread, message.calls.len());
                    let history = &mut self.rebuilt.history;
                    let newest = history.messages().len() - 1;
                    history.carry(newest, Some(Arc::new(unread)));
                }
                Ok(())
            }
        }
    }

    /// What happened, whatever the client says of it.
    fn taken(&mut self, taken: &Taken) -> Result<(), String> {
        self.rebuilt.refused.extend(taken.refused.iter().cloned());
        let mut call_ids: Vec<CallId> = Vec::new();
        for step in &taken.steps {
            match step {
                Step::Said {
                    label,
                    fixed,
                    text,
                    calls,
                    unread,
                } => {
                    let pairs = calls
                        .iter()
                        .map(|call| (call.tool.clone(), call.arguments.clone()));
                    let (history, text) = (&mut self.rebuilt.history, text.clone());
                    let ids = match fixed {
                        true => history.push_assistant(label, text, pairs),
                        // The beginning of the conversation is the same as then.
                        false => history.push_step(label, &Label::bottom(), text, pairs),
                    };
                    let newest = history.messages().len() - 1;
                    history.carry(newest, unread.clone());
                    for (past, id) in calls.iter().zip(&ids) {
                        if let Some(approval) = &past.approval {
                            self.rebuilt.history.approve(*id, approval);
                        }
                        self.open(past, *id, label)?;
                    }
                    call_ids.extend(ids);
                }
                Step::Note { label, call, text } => {
                    if let Some(id) = call_ids.get(*call) {
                        let history = &mut self.rebuilt.history;
                        history.push_note(label, *id, text.clone());
                    }
                }
                // What was found out about a call then, at the same place.
                Step::Refined(Refinement {
                    at,
                    call,
                    label,
                    data,
                    ..
                }) => {
                    let (history, floor) = (&mut self.rebuilt.history, Label::bottom());
                    history.remake_tcb(*at, *call, (label, &floor), data);
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, past: &RememberedCall, id: CallId, label: &Label) -> Result<(), String> {
        let Some(client) = &past.client else {
            return Ok(());
        };
        // As the history has it: the user may have endorsed it.
        let made = self.rebuilt.history.call(id);
        let made = made.ok_or("a call has no step")?;
        let label = made.label(label);
        let arguments = Arguments::parse_labeled(&made.arguments);
        let named = self.reader.tools.apps.resolve(&past.tool);
        let call = (arguments.ok().zip(named)).map(|(arguments, (app, tool))| Call {
            app,
            tool,
            arguments,
            label: label.clone(),
        });
        match self.open.insert(client.clone(), Open { id, label, call }) {
            None => Ok(()),
            Some(_) => Err("two calls have one id".to_owned()),
        }
    }

    /// What the client says that happened, at the label that covers it.
    fn visible(&mut self, message: &Message, text: String, label: &Label) -> Result<(), String> {
        let calls: Vec<RememberedCall> = (message.calls.iter())
            .map(|call| RememberedCall {
                tool: call.tool.clone(),
                arguments: Labeled::trusted_tcb(call.arguments.clone()),
                client: Some(call.id.clone()),
                approval: None,
            })
            .collect();
        let pairs = calls
            .iter()
            .map(|call| (call.tool.clone(), call.arguments.clone()));
        // The label of the step comes on top of this one, by `push_assistant`.
        let text = Labeled::trusted_tcb(text);
        let ids = self.rebuilt.history.push_assistant(label, text, pairs);
        for (made, id) in calls.iter().zip(ids) {
            self.open(made, id, label)?;
        }
        Ok(())
    }

    fn nothing_open(&self) -> Result<(), String> {
        match self.open.is_empty() {
            true => Ok(()),
            false => Err("each of an assistant's calls must be answered by a result".to_owned()),
        }
    }
}

//! The policy of all configured apps.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ifc::{
    Address, ArgumentPath, Call, Effect, Exceeded, Label, Labeled, Origin, Policy, PolicyError,
    Results, Rule, Sink, Writer, url_host,
};

use crate::names::{is_in, words};
use crate::rules::{
    AppRules, Destinations, Judgement, MessageRules, SessionFacts, ToolRule, judge, judge_answer,
    judge_delivery, judge_sink, misspelled,
};

/// Words in the names of arguments that name one thing. A folder, channel, repository, host, account or user is none: what it
/// holds is written by everyone who can write there.
const THINGS: &str = "document event file filename issue path post pull slug ticket uri url";
/// Words that may stand beside one of [`THINGS`] in the name of an argument.
const OF_THINGS: &str = "id iid key name number or request";
/// Words that may be in the names of the other arguments: they say where the thing is.
const PLACES: &str =
    "account channel folder host id namespace org organization owner project repo repository user";
/// Words in the names of tools that return more than one thing.
const LISTS: &str =
    "all browse directory filter find folder inbox list lists query recent search tree";

/// An [`ifc::Policy`] that looks rules up by app and tool.
#[derive(Debug, Clone)]
pub struct AppPolicy {
    apps: Arc<BTreeMap<String, AppRules>>,
    /// The parameters of each app's tools as JSON Schema, which a proxy needs for every request.
    parameters: Arc<BTreeMap<String, BTreeMap<String, Arc<str>>>>,
    /// The destinations of each app.
    destinations: Arc<BTreeMap<String, Destinations>>,
    /// The limit of memories; `None` allows none.
    memory: Option<Label>,
    messages: Arc<MessageRules>,
    session: SessionFacts,
}

impl AppPolicy {
    /// The policy of these apps, by name.
    pub fn new(apps: BTreeMap<String, AppRules>) -> Self {
        let schemas = apps.iter().map(|(name, app)| (name.clone(), app.schemas()));
        Self {
            parameters: Arc::new(schemas.collect()),
            apps: Arc::new(apps),
            destinations: Arc::default(),
            memory: None,
            messages: Arc::default(),
            session: SessionFacts::default(),
        }
    }

    /// The same policy with these destinations, by app. Connections to others are denied.
    #[must_use]
    pub fn with_destinations(self, destinations: BTreeMap<String, Destinations>) -> Self {
        let destinations = Arc::new(destinations);
        Self {
            destinations,
            ..self
        }
    }

    /// The same policy with this limit for memories.
    #[must_use]
    pub fn with_memory(self, limit: Label) -> Self {
        let memory = Some(limit);
        Self { memory, ..self }
    }

    /// The same policy with these rules for messages between apps. Without any, all are denied.
    #[must_use]
    pub fn with_messages(self, messages: MessageRules) -> Self {
        let messages = Arc::new(messages);
        Self { messages, ..self }
    }

    /// The same policy for a session with these facts, which conditions may use.
    #[must_use]
    pub fn with_session(mut self, session: SessionFacts) -> Self {
        let names_user = {
            let mut tools = self.apps.values().flat_map(AppRules::all);
            tools.any(|tool| tool.result.names_user())
        };
        if let Some(user) = session.user.as_ref().filter(|_| names_user) {
            let apps = Arc::make_mut(&mut self.apps).values_mut();
            let tools = apps.flat_map(|app| app.tools.values_mut().chain(&mut app.other_tools));
            tools.for_each(|tool| tool.result.for_user(user));
        }
        Self { session, ..self }
    }

    /// The judgement of a sink without results that were read before.
    #[must_use]
    pub fn judge(&self, sink: &Sink<'_>) -> Judgement {
        self.judge_after(&Results::none(), sink)
    }

    /// The judgement of a sink after these results. [`Policy::rule_after`] is its rule.
    #[must_use]
    pub fn judge_after(&self, results: &Results<'_>, sink: &Sink<'_>) -> Judgement {
        match sink {
            Sink::Call(call) => match self.apps.get(&call.app) {
                Some(app) => judge(&self.apps, app, call, &self.session, results),
                None => {
                    let reason = format!("there is no app '{}' in sluice.toml", call.app);
                    Judgement::denied("app".to_owned(), None, reason)
                }
            },
            Sink::Answer(release) => {
                let limit = |app: &String| (app.clone(), self.answer_limit(app));
                judge_answer(release, release.apps.iter().map(limit).collect())
            }
            Sink::Address(address) => self.judge_address(address),
            // The broker has the clearances of the providers.
            Sink::Prompt(_) => no_rule("prompts"),
            Sink::Connection(connection) => match self.destinations.get(&connection.app) {
                Some(destinations) => destinations.judge(connection),
                // Denies it, with a reason that names the table to add.
                None => Destinations::default().judge(connection),
            },
            Sink::MemoryWrite(_) => match &self.memory {
                // Users would answer a question after each turn without reading it, so a memory above the limit is denied.
                Some(limit) => {
                    let (rule, limit) = ("memory.limit", limit.clone());
                    judge_sink(sink, Effect::Write, rule, limit, None, Exceeded::Deny)
                }
                None => no_rule("memory"),
            },
            // SecGPT asks about every message. Here labels travel along, and `strict` asks about every message.
            Sink::Delivery(delivery) => judge_delivery(&self.messages, delivery),
        }
    }

    /// The limit of answers in a conversation with this app.
    fn answer_limit(&self, app: &str) -> Label {
        let app = self.apps.get(app);
        app.map_or(Label::bottom(), |app| app.answer.clone())
    }

    /// The judgement of an address in an answer. An address that the model composed may depend on all that it was shown, and
    /// an image is fetched before the user looks at it, so both must be trusted and public. A link from an app's result may
    /// lead to a host to which the app itself connects.
    fn judge_address(&self, address: &Address) -> Judgement {
        let limit = |app: &String| {
            let app = self.apps.get(app);
            app.map_or(Label::bottom(), |app| app.addresses.clone())
        };
        let limits = address.apps.iter().map(limit);
        // The answer may depend on the results of all of these apps.
        let own = limits.reduce(|all, limit| all.meet(&limit));
        let own = own.unwrap_or(Label::bottom());
        let limit = match &address.origin {
            Origin::Read(_) if address.fetched => Label::bottom(),
            // The app can send all that it was given to this host by itself, so the link discloses nothing more.
            Origin::Read(Some(app)) if self.connects(app, address.text.reveal_tcb()) => {
                Label::top()
            }
            Origin::Read(_) => own,
            Origin::Model => Label::bottom(),
        };
        // A denied address is shown inert. There is no question, since the text stays readable.
        let (sink, rule) = (Sink::Address(address), "answer.addresses");
        judge_sink(&sink, Effect::Write, rule, limit, None, Exceeded::Deny)
    }

    /// Whether an app connects to the host of this address itself.
    fn connects(&self, app: &str, address: &str) -> bool {
        let known = self.destinations.get(app);
        // Domains do not count: they have a limit, and an address may carry anything.
        let mut known = known.into_iter().flat_map(|known| &known.relays);
        // Services on loopback share their host.
        let host = url_host(address).filter(|host| !matches!(*host, "127.0.0.1" | "localhost"));
        host.is_some_and(|host| known.any(|(named, _)| named.eq_ignore_ascii_case(host)))
    }

    fn tool<'a>(&'a self, call: &'a Call) -> Option<&'a ToolRule> {
        Some(self.apps.get(&call.app)?.rule_of(call)?.1)
    }
}

impl Policy for AppPolicy {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.rule_after(&Results::none(), sink)
    }

    fn rule_after(&self, results: &Results<'_>, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let rule = self.judge_after(results, sink).rule()?;
        let tool = match sink {
            Sink::Call(call) => self.tool(call),
            _ => None,
        };
        let same_by = tool.and_then(|tool| tool.once.clone());
        let counted = tool.and_then(|tool| tool.counted.clone());
        let approvers = tool.and_then(|tool| tool.approvers.clone());
        Ok(Rule {
            approvers,
            same_by,
            counted,
            ..rule
        })
    }

    fn floor(&self, app: &str, tool: &str) -> Label {
        let rules = self.apps.get(app).map(|app| app.rules_of(tool));
        let floor = |rule: &ToolRule| {
            // The verdict of a condition is not known before the call.
            if rule.conditions.is_some() || rule.after.is_some() {
                return Label::bottom();
            }
            // The data arguments of a future call are not known, so the lowest of all limits counts.
            let arguments = rule.arguments.values();
            arguments.fold(rule.limit.clone(), |all, limit| all.meet(&limit.label))
        };
        let lowest = rules.into_iter().flatten().map(floor);
        lowest
            .reduce(|all, one| all.meet(&one))
            .unwrap_or(Label::bottom())
    }

    fn data_arguments(&self, app: &str, tool: &str) -> Vec<ArgumentPath> {
        let rules = self.apps.get(app).map(|app| app.rules_of(tool));
        let rules = rules.into_iter().flatten();
        rules.flat_map(ToolRule::data).cloned().collect()
    }

    fn parameters(&self, app: &str, tool: &str) -> Option<Arc<str>> {
        self.parameters.get(app)?.get(tool).cloned()
    }

    fn check_arguments(&self, call: &Call) -> Result<(), String> {
        let own = self
            .apps
            .get(&call.app)
            .and_then(|app| app.tool(&call.tool));
        match (self.tool(call), own.and_then(|own| own.select.as_ref())) {
            (Some(rule), _) => rule.check(call),
            (None, Some(select)) => Err(misspelled(select)),
            // A call without a rule is denied later.
            (None, None) => Ok(()),
        }
    }

    fn has_form(&self, call: &Call, argument: &ArgumentPath) -> bool {
        let limit = self
            .tool(call)
            .and_then(|rule| rule.arguments.get(argument));
        limit.is_some_and(|limit| limit.has_form(call, argument))
    }

    fn for_user(&self, user: &str) -> Option<Arc<dyn Policy>> {
        let user = Some(Arc::from(user));
        let session = SessionFacts {
            user,
            ..self.session.clone()
        };
        Some(Arc::new(self.clone().with_session(session)))
    }

    fn instead(&self, call: &Call) -> Option<String> {
        let instead = self.judge(&Sink::Call(call)).instead;
        (!instead.is_empty()).then(|| instead.join("; "))
    }

    fn is_polled(&self, call: &Call) -> bool {
        self.tool(call).is_some_and(|rule| rule.poll)
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        match self.tool(call) {
            None => Labeled::label_tcb(result, Label::top()),
            Some(tool) if is_error => tool.result.label_error(&call.arguments, result),
            Some(tool) => tool.result.label_for(&call.arguments, result),
        }
    }

    fn writers(&self, call: &Call, result: &Labeled) -> Vec<(Range<usize>, Writer)> {
        let Some(tool) = self.tool(call) else {
            return Vec::new();
        };
        let writer = |by, value| Writer {
            app: call.app.clone(),
            tool: call.tool.clone(),
            by,
            value,
        };
        if tool.result.names_writers() {
            let written = tool.result.written(&call.arguments, result).into_iter();
            return written
                .map(|(span, by, value)| (span, writer(by, value)))
                .collect();
        }
        // What the same call returns has the same writer, if its arguments name one thing. A search, a page or a number of
        // results is what anyone wrote, so each other argument has to be known as a part of the thing's address.
        let are_in = |words: &[String], list: &str| {
            let known = |word: &String| is_in(list, word) || is_in(OF_THINGS, word);
            words.iter().all(known)
        };
        let (mut things, mut is_address) = (0, true);
        for (name, value) in call.arguments.iter() {
            let words = words(name);
            let is_thing = are_in(&words, THINGS) && words.iter().any(|it| is_in(THINGS, it));
            match is_thing && is_one(value.reveal_tcb()) {
                true => things += 1,
                false => is_address &= are_in(&words, PLACES),
            }
            // Data is in no name of a source.
            is_address &= tool.data().all(|path| path.argument() != name);
        }
        let lists = words(&call.tool).iter().any(|word| is_in(LISTS, word));
        match things > 0 && is_address && !lists {
            true => {
                let control = call.arguments.by_value(tool.data());
                vec![(0..result.len(), writer(String::new(), control))]
            }
            false => Vec::new(),
        }
    }

    fn claimed(&self, call: &Call, claims: &[String]) -> Label {
        let app = self.apps.get(&call.app);
        let meaning = app.and_then(|app| app.claims.as_ref());
        meaning.map_or(Label::bottom(), |meaning| meaning.label(claims))
    }
}

/// Whether the value of an argument names one thing: it is no list, pattern, query or folder.
fn is_one(value: &str) -> bool {
    let text = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let value = text.unwrap_or(value);
    let is_folder = value.ends_with('/') && !value.contains("://");
    let mut parts = value.split('/');
    !matches!(value, "" | "null")
        && !value.starts_with(['{', '['])
        && !value.contains(['*', '?'])
        && !is_folder
        && parts.all(|part| !matches!(part, "." | ".."))
}

fn no_rule(what: &str) -> Judgement {
    let reason = format!("there are no rules for {what}");
    Judgement::denied(what.to_owned(), None, reason)
}

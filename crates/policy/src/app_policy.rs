//! The policy of all configured apps.

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{
    Address, ArgumentPath, Call, Label, Labeled, Origin, Policy, PolicyError, Results, Rule, Sink,
};

use crate::host::host;
use crate::rules::{
    AppRules, Destinations, Judgement, MessageRules, SessionFacts, ToolRule, judge, judge_address,
    judge_answer, judge_delivery, judge_memory,
};

/// An [`ifc::Policy`] that looks rules up by app and tool.
#[derive(Debug, Clone)]
pub struct AppPolicy {
    apps: Arc<BTreeMap<String, AppRules>>,
    /// The parameters of each app's tools as JSON Schema: a proxy needs them for every request.
    parameters: Arc<BTreeMap<String, BTreeMap<String, Arc<str>>>>,
    /// Where each app may connect to.
    destinations: Arc<BTreeMap<String, Destinations>>,
    /// What may be remembered; without one, nothing.
    memory: Option<Label>,
    messages: Arc<MessageRules>,
    session: SessionFacts,
}

impl AppPolicy {
    /// The policy of these apps, by name, for a session of which nothing is known.
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

    /// The same policy with these destinations, by app. A connection to any other is denied.
    #[must_use]
    pub fn with_destinations(self, destinations: BTreeMap<String, Destinations>) -> Self {
        let destinations = Arc::new(destinations);
        Self {
            destinations,
            ..self
        }
    }

    /// The same policy, under which text that flows to this limit may be remembered, and no other.
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

    /// The same policy for a session of which conditions may know this.
    #[must_use]
    pub fn with_session(self, session: SessionFacts) -> Self {
        Self { session, ..self }
    }

    /// What the rules say of a sink where nothing was read before, and why.
    #[must_use]
    pub fn judge(&self, sink: &Sink<'_>) -> Judgement {
        self.judge_after(&Results::none(), sink)
    }

    /// What the rules say of a sink after what calls returned, and why. [`Policy::rule_after`] is this,
    /// and nothing else.
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
            // Who holds the providers has their clearances: the broker.
            Sink::Prompt(_) => no_rule("prompts"),
            Sink::Connection(connection) => match self.destinations.get(&connection.app) {
                Some(destinations) => destinations.judge(connection),
                // Denies everything, with a reason that names the table to add.
                None => Destinations::default().judge(connection),
            },
            Sink::MemoryWrite(_) => match &self.memory {
                Some(limit) => judge_memory(sink, limit.clone()),
                None => no_rule("memory"),
            },
            // SecGPT asks about every message; here labels travel along, and `strict` asks as there.
            Sink::Delivery(delivery) => judge_delivery(&self.messages, delivery),
        }
    }

    /// What may flow into an answer without a question, in a conversation with this app.
    fn answer_limit(&self, app: &str) -> Label {
        let app = self.apps.get(app);
        app.map_or(Label::bottom(), |app| app.answer.clone())
    }

    /// What may be active in an answer. An address that the model put together may be made of all that it
    /// was shown, and an image is fetched before anybody looks at it: both have to be trusted and public.
    /// A link that stands in what an app returned may lead to where the app itself connects.
    fn judge_address(&self, address: &Address) -> Judgement {
        let limit = |app: &String| {
            let app = self.apps.get(app);
            app.map_or(Label::bottom(), |app| app.addresses.clone())
        };
        let limits = address.apps.iter().map(limit);
        // The answer may hold what any of these apps returned, so it must keep the limit of each.
        let own = limits.reduce(|all, limit| all.meet(&limit));
        // Without an app nobody has set a limit.
        let own = own.unwrap_or(Label::bottom());
        let limit = match &address.origin {
            // An image is fetched by whatever shows the answer, before the user could look at where it leads.
            Origin::Read(_) if address.fetched => Label::bottom(),
            // The app can send all that it was given to this host by itself, so its own link there discloses nothing
            // more.
            Origin::Read(Some(app)) if self.connects(app, address.text.reveal_tcb()) => {
                Label::top()
            }
            Origin::Read(_) => own,
            Origin::Model => Label::bottom(),
        };
        judge_address(address, limit)
    }

    /// Whether an app connects to the host of this address itself.
    fn connects(&self, app: &str, address: &str) -> bool {
        let known = self.destinations.get(app);
        // Not the domains: what may flow to them without a question has a limit, and an address may carry anything.
        let mut known = known.into_iter().flat_map(|known| &known.relays);
        let host = host(address);
        host.is_some_and(|host| known.any(|(named, _)| named.eq_ignore_ascii_case(host)))
    }

    fn tool(&self, call: &Call) -> Option<&ToolRule> {
        self.apps.get(&call.app)?.tool(&call.tool)
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
        Ok(Rule { same_by, ..rule })
    }

    fn floor(&self, app: &str, tool: &str) -> Label {
        // Such a call is denied, so no label lets it run.
        let Some(rule) = self.apps.get(app).and_then(|app| app.tool(tool)) else {
            return Label::bottom();
        };
        // What a condition makes of a label is not known before the call is.
        if rule.conditions.is_some() {
            return Label::bottom();
        }
        // Which data arguments a call will have is not known, so the lowest of all limits counts.
        let arguments = rule.arguments.values();
        arguments.fold(rule.limit.clone(), |all, limit| all.meet(&limit.label))
    }

    fn data_arguments(&self, app: &str, tool: &str) -> Vec<ArgumentPath> {
        let rule = self.apps.get(app).and_then(|app| app.tool(tool));
        let paths = rule.into_iter().flat_map(ToolRule::data);
        paths.cloned().collect()
    }

    fn parameters(&self, app: &str, tool: &str) -> Option<Arc<str>> {
        self.parameters.get(app)?.get(tool).cloned()
    }

    fn check_arguments(&self, call: &Call) -> Result<(), String> {
        // Without a rule there is no form, and the call is denied for that.
        self.tool(call).map_or(Ok(()), |rule| rule.check(call))
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        match self.tool(call) {
            // Nobody has said anything about this text, and only `any` admits ⊤.
            None => Labeled::label_tcb(result, Label::top()),
            // An error is in the app's own words, whatever the format of its results: no rule describes it.
            Some(tool) if is_error => Labeled::label_tcb(result, tool.result.worst().clone()),
            Some(tool) => tool.result.label_for(&call.arguments, result),
        }
    }

    fn claimed(&self, call: &Call, claims: &[String]) -> Label {
        let app = self.apps.get(&call.app);
        let meaning = app.and_then(|app| app.claims.as_ref());
        meaning.map_or(Label::bottom(), |meaning| meaning.label(claims))
    }
}

fn no_rule(what: &str) -> Judgement {
    let reason = format!("there are no rules for {what}");
    Judgement::denied(what.to_owned(), None, reason)
}

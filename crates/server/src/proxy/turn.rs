//! One choice of one request, as the driver sees it, and what the client gets of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use axum::http::StatusCode;
use hub::address::{BREAK, Message};
use hub::isc::Asks;
use hub::trace::Event;
use hub::{Apps, HandOver, Outcome, Purpose, Setup, Stop, StopReason, TurnMachine, Usage};
use ifc::{Answer, CallId, History, Label, Labeled, Permit, Policy};
use llm::{ProviderError, RequestOptions};
use tokio::sync::watch;

use super::{
    behind::Behind,
    memory::Taken,
    observe::Seen,
    rebuild::Rebuilt,
    sessions::Session,
    shared::Shared,
    stored::{Answer as Kept, Leaving, Release, Stored},
    transcript::{Chain, Digest, Link, fresh, hash},
};
use crate::{
    QuestionView,
    api::{
        answer::{CallOut, Choice},
        error::ApiError,
    },
    asked::AskOutcome,
    desk::{self, QuestionOrigin},
    driver::{Driver, Ended},
    front::Front,
    limits::Charge,
    sink::At,
    state::Unwritten,
};

pub(super) type Live = Box<dyn FnMut(&str) + Send + Sync>;

pub(super) struct Turn<'a> {
    pub(super) shared: &'a Shared,
    at: At<'a>,
    session: Session,
    /// The gateway at which the client calls tools.
    behind: Option<Behind>,
    /// The conversation in the store, if there is one.
    stored: Option<Stored>,
    /// The digest of the request.
    request: Digest,
    pub(super) options: &'a RequestOptions,
    /// Takes text while it is written, for a client that streams.
    pub(super) live: Option<Live>,
    /// What `live` has got, and where in it the newest completion's text begins.
    shown: String,
    newest: usize,
    /// The newest completion's text as the machine gives it, if it was streamed.
    said: String,
    /// What `live` has got, as a client renders it.
    message: Message,
    usage: Usage,
    /// What it costs the tenant.
    charge: Charge,
    /// Why the completion ended that the client gets.
    stop: StopReason,
    /// Why the newest request failed, as the upstream said it; `None` if it did not.
    failure: Option<ApiError>,
    /// Whether the text under the newest prompt's label may be shown.
    showable: bool,
    /// What the upstream wrote first, if everything of it goes to the client.
    seen: Option<Result<Seen, ApiError>>,
    /// Why the turn ends where a question of it waits on, after this process.
    left: watch::Sender<String>,
}

pub(super) struct Answered {
    pub(super) choice: Choice,
    pub(super) usage: Usage,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        at: At<'a>,
        session: Session,
        options: &'a RequestOptions,
        live: Option<Live>,
        charge: Charge,
    ) -> Self {
        Self {
            shared,
            at,
            session,
            behind: None,
            stored: None,
            request: [0; 32],
            options,
            live,
            shown: String::new(),
            newest: 0,
            said: String::new(),
            message: Message::default(),
            usage: Usage::default(),
            charge,
            stop: StopReason::End,
            failure: None,
            showable: false,
            seen: None,
            left: watch::Sender::default(),
        }
    }

    /// The same for a client of a gateway, and a conversation in a store.
    pub(super) fn over(self, behind: Option<Behind>, stored: Option<Stored>) -> Self {
        Self {
            behind,
            stored,
            ..self
        }
    }

    /// Drives the turn to its end, and remembers what happened.
    pub(super) async fn run(
        mut self,
        apps: Apps,
        policy: Arc<dyn Policy>,
        rebuilt: Rebuilt,
    ) -> Result<Answered, ApiError> {
        let Rebuilt {
            history,
            chain,
            mut refused,
            ..
        } = rebuilt;
        let from = history.messages().len();
        self.request = chain.digest();
        let parts = &self.shared.parts;
        let monitor = self.session.monitor();
        // A conversation that has a monitor of its own may know them already.
        refused.retain(|call| !monitor.is_refused(call));
        monitor.recall_refusals(refused);
        let setup = Setup {
            apps,
            asks: Asks::default(),
            policy,
            lattice: parts.lattice.clone(),
            monitor,
            settings: parts.settings,
            clearances: parts.broker.clearances(None),
        };
        let mut agent = TurnMachine::resume(setup, history);
        agent.limit_calls(parts.limits.of(self.at.tenant));
        if let Some(behind) = &self.behind {
            let [reads, others] = behind.suspected();
            agent.suspect_others(reads, others);
        }
        let known = agent.refusals().len();
        let label = agent.history().label();
        let mut left = self.left.subscribe();
        let driver = Driver::new(parts, &mut self, &mut agent);
        let ended = tokio::select! {
            ended = driver.turn() => ended?,
            Ok(()) = left.changed() => return Err(ApiError::unavailable(left.borrow().clone())),
        };
        let whole = agent.history().label();
        if let Some(seen) = self.seen.take() {
            let seen = seen?;
            let releases = match ended {
                Ended::HandedOver(over) => self.let_through(over, &seen.calls),
                Ended::Done(_) => Vec::new(),
            };
            let taken = seen.taken(&label);
            self.stop = seen.stop;
            let said = Said {
                text: seen.text,
                calls: seen.calls,
                releases,
            };
            return self.finish(said, chain, taken, whole).await;
        }
        let (said, taken) = match ended {
            Ended::HandedOver(over) => self.hand_over(&agent, from, known, over)?,
            Ended::Done(outcome) => self.outcome(&agent, from, known, outcome)?,
        };
        drop(agent);
        self.finish(said, chain, taken, whole).await
    }

    /// The calls that may run, under names that only this client knows.
    fn hand_over(
        &mut self,
        agent: &TurnMachine,
        from: usize,
        known: usize,
        over: HandOver,
    ) -> Result<(Said, Taken), ApiError> {
        let mut clients: HashMap<CallId, String> = HashMap::new();
        let (mut calls, mut releases) = (Vec::new(), Vec::new());
        for (id, permit) in over.calls {
            let name = fresh("call_")?;
            clients.insert(id, name.clone());
            let call = permit.call();
            // What the client gets is what was decided on, to the byte, under the name that it has for the tool.
            let tool = agent.history().call(id).map(|made| made.tool.clone());
            calls.push(CallOut {
                id: name.clone(),
                name: tool.unwrap_or_else(|| call.tool.clone()),
                arguments: call.arguments.to_json(),
            });
            releases.push(self.release(name, permit));
        }
        let taken = self.taken(agent.history(), agent, from, known, &clients);
        self.stop = over.stop;
        // Beside calls, the model's words are shown only where an answer would be.
        let text = match self.showable {
            true => self.placed(agent, &over.text),
            false => String::new(),
        };
        let said = Said {
            text,
            calls,
            releases,
        };
        Ok((said, taken))
    }

    fn release(&self, name: String, permit: Permit) -> Release {
        let is_own = permit.call().app == self.shared.app;
        Release {
            name,
            permit,
            at_gateway: self.behind.is_some() && !is_own,
        }
    }

    /// The calls that the client gets as the upstream wrote them, with their permits: the gateway need not decide again.
    fn let_through(&self, over: HandOver, seen: &[CallOut]) -> Vec<Release> {
        // Where a call was left out, none is known to be the one of its place.
        if over.calls.len() != seen.len() {
            return Vec::new();
        }
        let calls = over.calls.into_iter().zip(seen);
        let calls = calls.map(|((_, permit), call)| self.release(call.id.clone(), permit));
        calls.collect()
    }

    /// What the session knows of calls that the client is about to get.
    fn expect(&self, releases: &[Release]) {
        let mut left = Vec::new();
        for Release {
            name,
            permit,
            at_gateway,
        } in releases
        {
            match (&self.behind, at_gateway) {
                (_, true) => left.push(name.clone()),
                (Some(behind), false) => behind.calls_own(&permit.call().tool),
                (None, false) => {}
            }
            // The gateway of this process says itself what became of a call.
            if !at_gateway || self.stored.is_some() {
                self.session.hands_over(name, permit.receipt());
            }
        }
        if !left.is_empty() {
            self.session.releases(self.request, left);
        }
    }

    /// Gives up the permits: to the gateway, whose calls are returned, or to the client.
    fn give_up(&self, releases: Vec<Release>) {
        for Release {
            name,
            permit,
            at_gateway,
        } in releases
        {
            match &self.behind {
                // It was left in the store.
                Some(_) if at_gateway && self.stored.is_some() => drop(permit.leave()),
                Some(behind) if at_gateway => {
                    let now = Instant::now();
                    behind.permits().leave(&behind.session, &name, permit, now);
                }
                _ => _ = permit.spend(),
            }
        }
    }

    fn outcome(
        &mut self,
        agent: &TurnMachine,
        from: usize,
        known: usize,
        outcome: Outcome,
    ) -> Result<(Said, Taken), ApiError> {
        let stop = match outcome.result {
            Ok(answer) => {
                let clients = HashMap::new();
                let taken = self.taken(agent.history(), agent, from, known, &clients);
                let text = self.placed(agent, &answer);
                self.stop = outcome.stop;
                return Ok((Said::words(text), taken));
            }
            Err(stop) => stop,
        };
        match &stop {
            // A turn that goes on without a failed request ends for its own reasons.
            Stop::Model(_) => Err(self
                .failure
                .take()
                .unwrap_or_else(|| ApiError::internal(stop.reveal_tcb()))),
            Stop::HistoryFull(_) => {
                Err(ApiError::invalid(stop.to_string()).with_code("context_length_exceeded"))
            }
            Stop::Timeout(seconds) => {
                let message = format!("no answer within {seconds} s; ask for less at once");
                Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, message))
            }
            // Our own words: the model goes round in circles, or may not say what it would.
            stop => {
                let why = stop.words().filter(|words| !words.is_empty());
                let why = why.map_or_else(String::new, |words| format!(": {}", words.reveal_tcb()));
                let words = format!("[stopped by Sluice: {stop}{why}]");
                let mut history = agent.history().clone();
                let label = history.label();
                history.push_assistant(&label, Labeled::trusted_tcb(words.clone()), []);
                let taken = self.taken(&history, agent, from, known, &HashMap::new());
                self.stop = StopReason::End;
                Ok((Said::words(words), taken))
            }
        }
    }

    fn taken(
        &self,
        history: &History,
        agent: &TurnMachine,
        from: usize,
        known: usize,
        clients: &HashMap<CallId, String>,
    ) -> Taken {
        let refused = agent.refusals().into_iter().skip(known).collect();
        let refinements = agent.refinements().iter();
        // Those before were remembered with the steps before.
        let own = refinements.filter(|refinement| refinement.after >= from);
        let own: Vec<_> = own.cloned().collect();
        Taken::of(history, from, &own, clients, refused)
    }

    /// A text of the machine as it can be shown now. Behind what was streamed, a client renders it otherwise
    /// than by itself.
    fn placed(&mut self, agent: &TurnMachine, text: &Labeled) -> String {
        let own = text.reveal_tcb();
        if self.said == own || !self.message.has_begun() {
            return own.to_owned();
        }
        let mut inert = self.message.begin(agent.admits_below(&text.label()));
        let mut placed = inert.push(own);
        placed.push_str(&inert.finish());
        self.message.end(inert);
        placed
    }

    /// Shows what has not been shown yet, and remembers the whole. `whole` is the label of the history.
    async fn finish(
        mut self,
        said: Said,
        mut chain: Chain,
        taken: Taken,
        whole: Label,
    ) -> Result<Answered, ApiError> {
        let Said {
            text,
            calls,
            releases,
        } = said;
        let rest = match &self.live {
            Some(_) if self.said == text => String::new(),
            Some(_) if !self.shown.is_empty() => format!("{BREAK}{text}"),
            _ => text,
        };
        match &self.live {
            Some(_) => self.shown.push_str(&rest),
            None => self.shown.clone_from(&rest),
        }
        self.shared.gives(self.behind.as_ref(), &taken.label());
        chain.push(&Link::answer(&self.shown, &calls));
        // The taken steps hold the newest text only. What was shown before it may have seen more.
        let dropped = self.shown.get(..self.newest).unwrap_or_default();
        let dropped = match dropped.is_empty() {
            true => Labeled::trusted_tcb(""),
            false => Labeled::label_tcb(dropped, whole),
        };
        let words = calls.is_empty().then_some(self.shown.as_str());
        let kept = Kept::new(&self.shared.secret, &chain, taken, dropped, words);
        self.expect(&releases);
        let mut releases = releases;
        if let Some(stored) = &self.stored {
            let behind = self.behind.as_ref();
            let mut leaving = Leaving(releases);
            let committed = self
                .shared
                .commit(stored, &self.session, behind, &kept, &leaving.0);
            let committed = committed.await;
            if let Err(unwritten) = committed {
                let names = leaving.0.iter().filter(|release| !release.at_gateway);
                let names = names.map(|release| release.name.as_str());
                self.session.takes_back(names);
                if matches!(unwritten, Unwritten::Overtaken) {
                    // Nothing was written, so the calls cannot run.
                    leaving.0.clear();
                }
                return Err(unwritten.into());
            }
            releases = std::mem::take(&mut leaving.0);
        }
        self.give_up(releases);
        self.shared.remember(kept);
        self.session.confirm();
        if let Some(live) = self.live.as_mut().filter(|_| !rest.is_empty()) {
            live(&rest);
        }
        Ok(Answered {
            choice: Choice {
                text: self.shown,
                calls,
                stop: self.stop,
            },
            usage: self.usage,
        })
    }
}

/// What the client gets.
struct Said {
    text: String,
    calls: Vec<CallOut>,
    /// The permits of the calls.
    releases: Vec<Release>,
}

impl Said {
    fn words(text: String) -> Self {
        Self {
            text,
            calls: Vec::new(),
            releases: Vec::new(),
        }
    }
}

#[async_trait]
impl Front for Turn<'_> {
    type Error = ApiError;

    fn records(&self) -> bool {
        self.shared.records()
    }

    fn record(&mut self, _serving: Option<&str>, event: Event) -> Result<(), ApiError> {
        if let Event::Consulted { usage, .. } = &event {
            self.charge
                .add(tokens(usage.prompt_tokens, usage.completion_tokens));
            add(
                &mut self.usage,
                usage.prompt_tokens,
                usage.completion_tokens,
            );
        }
        self.shared.record(&self.at, event);
        Ok(())
    }

    async fn written(&mut self) -> Result<(), ApiError> {
        self.shared.written().await
    }

    async fn confirm(&mut self, mut view: QuestionView) -> desk::Answered {
        if !self.session.is_named {
            let lasts = |choice: &Answer| {
                let trust = [Answer::TrustValue, Answer::TrustSource];
                matches!(choice, Answer::Session | Answer::Host | Answer::Trust(_))
                    || trust.contains(choice)
            };
            view.choices.retain(|choice| !lasts(choice));
        }
        view.asker = self.at.asker.map(str::to_owned);
        // What the client sends again asks the same, unless anything of the question is new: an answer allows what was shown.
        let session = (self.at.conversation, self.session.is_named);
        // It has strings, numbers and lists only, so it can be written.
        let shown = serde_json::to_string(&view.shown(&"")).unwrap_or_default();
        let asked = format!("{:?}", (session, self.request, shown));
        let key = hash(asked.as_bytes());
        let approver = Arc::clone(&self.shared.approver);
        let origin = QuestionOrigin {
            conversation: self.at.conversation.to_owned(),
            agent: None,
            tenant: self.at.tenant.map(str::to_owned),
            key: Some(key),
        };
        let question = view.clone();
        let put = || async move { AskOutcome::Answer(approver.ask(&origin, &question).await) };
        let (questions, patience) = (&self.session.questions, self.shared.patience);
        match questions.ask(format!("{key:?}"), patience, put).await {
            AskOutcome::Answer(answered) => {
                answered.counted(&view.choices, !view.approvers.is_empty())
            }
            AskOutcome::Left(why) => {
                // Neither a yes nor a no: the turn ends here, so that nothing follows from it.
                self.left.send_replace(why);
                std::future::pending().await
            }
            // An equal call of an equal request has run by the same answer, or none came.
            AskOutcome::UsedUp | AskOutcome::Unanswered(_) => desk::Answered::NOT,
        }
    }

    fn aside(&self) -> RequestOptions {
        RequestOptions {
            model: self.options.model.clone(),
            bearer: self.options.bearer.clone(),
            labels: self.options.labels.clone(),
            stream: Some(false),
            ..RequestOptions::default()
        }
    }

    fn begin(&mut self, purpose: Purpose, shown: bool) -> RequestOptions {
        self.showable = shown || self.shared.observe;
        // The machine gets over some failures, such as that of a draft by another model.
        self.failure = None;
        self.charge.begin();
        self.newest = self.shown.len();
        self.said.clear();
        let options = match purpose {
            Purpose::Step => self.options.clone(),
            // How the client wants its answer written is not meant for these.
            _ => self.aside(),
        };
        RequestOptions {
            stream: Some(shown && self.live.is_some()),
            ..options
        }
    }

    fn delta(&mut self, piece: &str) {
        let Some(live) = &mut self.live else { return };
        live(piece);
        self.shown.push_str(piece);
        let written = self.shown.len().saturating_sub(self.newest);
        self.charge.wrote(written);
    }

    fn separate(&mut self) {
        self.delta(BREAK);
        self.newest = self.shown.len();
    }

    fn message(&mut self) -> &mut Message {
        &mut self.message
    }

    fn streamed(&mut self, said: String) {
        self.said = said;
    }

    fn completed(&mut self, answer: &mut Result<llm::Answer, ProviderError>) {
        match answer {
            Ok(answer) => {
                if self.shared.observe && self.seen.is_none() {
                    self.seen = Some(Seen::new(&answer.completion));
                }
                let usage = &answer.completion.usage;
                let reported = tokens(usage.prompt_tokens, usage.completion_tokens);
                if reported == 0 {
                    let calls = answer.completion.calls.iter();
                    let calls = calls.map(|call| call.tool.len() + call.arguments.len());
                    self.charge
                        .wrote(answer.completion.text.len() + calls.sum::<usize>());
                }
                self.charge.end((reported > 0).then_some(reported));
                add(
                    &mut self.usage,
                    usage.prompt_tokens,
                    usage.completion_tokens,
                );
                self.usage.cached_tokens =
                    self.usage.cached_tokens.saturating_add(usage.cached_tokens);
            }
            Err(error) => {
                self.charge.fail();
                let error = ApiError::from(error.clone());
                // A server's words about a prompt are as secret as the prompt.
                self.failure = Some(match self.showable {
                    true => error,
                    false => error.without_words(),
                });
            }
        }
    }
}

fn tokens(prompt: u32, completion: u32) -> u64 {
    u64::from(prompt) + u64::from(completion)
}

fn add(usage: &mut Usage, prompt: u32, completion: u32) {
    usage.prompt_tokens = usage.prompt_tokens.saturating_add(prompt);
    usage.completion_tokens = usage.completion_tokens.saturating_add(completion);
}

impl From<hub::Misuse> for ApiError {
    fn from(misuse: hub::Misuse) -> Self {
        Self::internal(misuse.to_string())
    }
}

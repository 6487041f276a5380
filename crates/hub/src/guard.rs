//! The one door of a conversation: a flow is decided on, runs by its permit, and what it returns is labelled.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use ifc::{
    Answer, Arguments, ArgumentsError, Call, CallId, Content, Decision, Denial, Flow, History,
    Label, Labeled, Monitor, Permit, Policy, PolicyError, Principal, Question, Relevance, Rule,
    Sink,
};

use crate::CallOutcome;

/// What the model is told about a call that was sent and not answered. It never says that the call did not run.
const UNKNOWN: &str = "it is not known whether this call ran: it was sent, and no answer came. Do not \
make it again unless the user says so.";

/// What stands for the messages that a guard has forgotten.
const FORGOTTEN: &str = "earlier calls and results";
/// What stands for what the client was given by another front.
const ELSEWHERE: &str = "what the client has read elsewhere";

/// Limits how many calls are made, beside what the policy says of each.
pub trait CallBudget: Send + Sync {
    /// # Errors
    /// Why no such call can be made now.
    fn check(&self, call: &Call) -> Result<(), String>;

    /// Counts a call that is permitted.
    ///
    /// # Errors
    /// Why it is one too many. It is not counted then.
    fn spend(&self, call: &Call) -> Result<(), String>;
}

/// What decides in a conversation, and what decisions depend on. The turn machine is one user of it. A front without a
/// model of its own is another: it [submits](Guard::submit) each call that arrives, decides on it, spends the permit,
/// and [receives](Guard::receive) the result.
pub struct Guard {
    /// The labelled conversation.
    pub history: History,
    /// The monitor of the session: a handle, which several guards may share.
    pub monitor: Monitor,
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// Limits the number of calls.
    pub budget: Option<Arc<dyn CallBudget>>,
}

/// What is known of a result that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The label of the whole result, images included.
    pub label: Label,
    /// Regions of its text.
    pub regions: usize,
    /// The text.
    pub text: Labeled,
}

impl Guard {
    /// Decides on a flow (Algorithm 4, lines 7 to 11). `relevance` chooses what a question shows, nothing else.
    pub fn decide<F: Flow>(&self, relevance: &Relevance, flow: F) -> Decision<F> {
        self.decide_as(relevance, flow, &Principal::User)
    }

    /// Decides on a flow that is made in this name.
    pub fn decide_as<F: Flow>(
        &self,
        relevance: &Relevance,
        flow: F,
        principal: &Principal,
    ) -> Decision<F> {
        let policy = self.policy.as_ref();
        let decision = (self.monitor).decide_as(policy, &self.history, relevance, flow, principal);
        match decision {
            Decision::Allow(permit) => match self.within_budget(permit) {
                Ok(permit) => Decision::Allow(permit),
                Err(denial) => Decision::Deny(denial),
            },
            decision => decision,
        }
    }

    /// Whether the arguments of a call are of a form that the policy knows, and the budget has room for it. The words of an
    /// error depend on the call.
    ///
    /// # Errors
    /// Why not.
    pub fn check_arguments(&self, call: &Call) -> Result<(), String> {
        self.policy.check_arguments(call)?;
        self.budget.as_ref().map_or(Ok(()), |it| it.check(call))
    }

    /// Counts the call of a permit. All calls of a step are decided on before the first of them leaves, so each counts as
    /// soon as it may.
    fn within_budget<F: Flow>(&self, permit: Permit<F>) -> Result<Permit<F>, Denial> {
        if let (Some(budget), Sink::Call(call)) = (&self.budget, permit.flow().sink()) {
            budget.spend(call).map_err(Denial::Policy)?;
        }
        Ok(permit)
    }

    /// Whether no label is in the way of a flow. No permit is made.
    #[must_use]
    pub fn would_allow<F: Flow>(&self, flow: &F) -> bool {
        self.would_allow_as(flow, &Principal::User)
    }

    /// The same for a flow that is made in this name.
    #[must_use]
    pub fn would_allow_as<F: Flow>(&self, flow: &F, principal: &Principal) -> bool {
        let policy = self.policy.as_ref();
        self.monitor
            .would_allow_as(policy, &self.history, flow, principal)
    }

    /// Turns the user's answer into a permit. Trusted: the answer must be the user's.
    ///
    /// # Errors
    /// The denial, if the answer was no, or none of [`Question::choices`].
    pub fn permit<F: Flow>(
        &self,
        question: Question<F>,
        answer: Answer,
    ) -> Result<Permit<F>, Denial> {
        let permit = self.monitor.settle_tcb(question, answer)?;
        self.within_budget(permit)
    }

    /// The policy's rule for a sink, with the limits raised by what the user has vouched for.
    ///
    /// # Errors
    /// The policy has none.
    pub fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.monitor.rule(self.policy.as_ref(), &self.history, sink)
    }

    /// Enters a call of a client whose prompts the hub does not see: it may depend on everything that the client was
    /// returned, and has that label.
    ///
    /// # Errors
    /// The arguments are not one JSON object.
    pub fn submit(
        &mut self,
        app: &str,
        tool: &str,
        arguments: &str,
    ) -> Result<(CallId, Call), ArgumentsError> {
        let label = self.history.label();
        let call = Call {
            app: app.to_owned(),
            tool: tool.to_owned(),
            arguments: Arguments::parse(arguments, &label)?,
            label,
        };
        Ok((self.enter(&call), call))
    }

    /// Enters a call that was decided on elsewhere, with the label that it has there.
    pub fn enter(&mut self, call: &Call) -> CallId {
        let name = Call::qualified(&call.app, &call.tool);
        let arguments = call.arguments.to_labeled();
        self.history.push_call(&call.label, name, arguments)
    }

    /// Enters a call by the permit of another front, in the conversation and in the ledger of the session.
    ///
    /// # Errors
    /// The policy has no rule for the call.
    pub fn admit(&mut self, permit: &Permit) -> Result<CallId, PolicyError> {
        let policy = self.policy.as_ref();
        self.monitor.enter_tcb(policy, &self.history, permit)?;
        Ok(self.enter(permit.call()))
    }

    /// Takes note that the client was given text of this label by another front.
    pub fn give(&mut self, label: &Label) {
        if !label.flows_to(&self.history.label()) {
            let text = Labeled::label_tcb(ELSEWHERE, label.clone());
            self.history.push_memory(label, text);
        }
    }

    /// Puts one text with the label of everything in the place of all messages, for a client that never ends. Its tools
    /// stay. No call may be under way.
    pub fn forget(&mut self) {
        let label = self.history.label();
        let mut history = History::new(self.history.tools().to_vec());
        history.push_memory(&label, Labeled::label_tcb(FORGOTTEN, label.clone()));
        self.history = history;
    }

    /// Labels what became of a call and appends it to the history (lines 12 and 13). Of the text at most `limit` bytes
    /// are kept ([`bounded`]).
    pub fn receive(
        &mut self,
        id: CallId,
        call: &Call,
        outcome: CallOutcome,
        limit: usize,
    ) -> Received {
        self.receive_with(id, call, outcome, limit, false)
    }

    /// As [`Guard::receive`], for a client that is given the result as the app wrote it. `more` says that this has parts
    /// which the text of the outcome does not: they have the label that any result of this call may have at most.
    pub fn receive_with(
        &mut self,
        id: CallId,
        call: &Call,
        outcome: CallOutcome,
        limit: usize,
        more: bool,
    ) -> Received {
        let label = self.label_of_call(id, &call.label);
        let own = label.join(&Sink::Call(call).label());
        let worst = self.worst_label(call);
        let (content, received) = match outcome {
            CallOutcome::Returned {
                text,
                is_error,
                claims,
                images,
            } => {
                let text = self.label_result(call, text, is_error, &claims);
                // No rule looks into an image. It has the label that any result of this call may have at most.
                let opaque = worst.join(&self.policy.claimed(call, &claims));
                let text = match more {
                    true => text.restrict(&opaque),
                    false => text,
                };
                let regions = text.regions().len();
                let mut received = Received {
                    label: text.label().join(&own),
                    regions,
                    text,
                };
                // Parts that were added or left out have no place in the result.
                let is_complete = !is_error && !more && received.text.len() <= limit;
                let writers = match is_complete {
                    true => self.policy.writers(call, &received.text),
                    false => Vec::new(),
                };
                let mut content = Content::from(bounded(received.text.clone(), limit));
                content = content.written_by(writers);
                for image in images {
                    received.label = received.label.join(&opaque);
                    content.attach(image, &opaque);
                }
                (content, received)
            }
            CallOutcome::Failed(reason) => self.of_app(format!("the call failed: {reason}"), worst),
            CallOutcome::Unknown(_) | CallOutcome::Lost(_) => {
                self.of_app(UNKNOWN.to_owned(), worst)
            }
        };
        self.history.push_result(&label, id, content);
        received
    }

    fn of_app(&self, note: String, worst: Label) -> (Content, Received) {
        let text = Labeled::label_tcb(note, worst.clone());
        let received = Received {
            label: worst,
            regions: 1,
            text: text.clone(),
        };
        (text.into(), received)
    }

    /// What a call returned, labelled by the policy and no lower than its app claims.
    pub fn label_result(
        &self,
        call: &Call,
        text: String,
        is_error: bool,
        claims: &[String],
    ) -> Labeled {
        let content = self.policy.label_result(call, text, is_error);
        // An app that says its own result is secret is believed; that it is public, never.
        content.restrict(&self.policy.claimed(call, claims))
    }

    /// The most restrictive label of a call's results: the app decides whether the call fails, so a failure has it too.
    pub fn worst_label(&self, call: &Call) -> Label {
        self.policy.label_result(call, String::new(), true).label()
    }

    /// The label of a call of a step at this label, which the user may have endorsed.
    pub fn label_of_call(&self, id: CallId, step: &Label) -> Label {
        let call = self.history.call(id);
        call.map_or_else(|| step.clone(), |call| call.label(step))
    }

    /// Endorses in this conversation what the user has vouched for in it. Call it after each answer and each result.
    pub fn endorse(&mut self, apps: &BTreeSet<String>) {
        self.monitor.endorse(&mut self.history, apps);
    }
}

/// A result that is at most `limit` bytes. What is too large is left out, with a note in its place. A region counts only
/// with what is below its own label: otherwise the size of a secret would decide whether trusted text is shown.
pub fn bounded(content: Labeled, limit: usize) -> Labeled {
    if content.len() <= limit {
        return content;
    }
    let mut parts: Vec<(Range<usize>, Label)> = Vec::new();
    let mut covered = 0;
    for (span, label) in content.regions() {
        parts.push((covered..span.start, Label::bottom()));
        covered = span.end;
        parts.push((span, label.clone()));
    }
    parts.push((covered..content.len(), Label::bottom()));
    // There are few different labels, however many regions there are.
    let mut sizes: Vec<(&Label, usize)> = Vec::new();
    for (span, label) in &parts {
        match sizes.iter_mut().find(|(known, _)| *known == label) {
            Some((_, size)) => *size += span.len(),
            None => sizes.push((label, span.len())),
        }
    }
    let below = |label: &Label| -> usize {
        let below = sizes.iter().filter(|(own, _)| own.flows_to(label));
        below.map(|(_, size)| size).sum()
    };
    let mut noted: Vec<&Label> = Vec::new();
    let parts = parts.iter().map(|(span, label)| {
        let bytes = below(label);
        // Region by region, by what a reader at its label could count itself.
        if bytes <= limit {
            return content.slice(span.clone()).unwrap_or(Labeled::unknown(""));
        }
        let mut note = String::new();
        // Once for each label: the number of notes would be the number of regions.
        if !noted.contains(&label) {
            noted.push(label);
            note = format!("the result has {bytes} bytes, over the limit of {limit}");
        }
        Labeled::label_tcb(note, label.clone())
    });
    let parts: Vec<Labeled> = parts.collect();
    Labeled::concat(&parts)
}

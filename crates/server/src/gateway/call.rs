//! A call: decided on, run by its permit, labelled and returned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hub::question::QuestionView;
use hub::trace::{self, Cause, Event, Text};
use hub::{Asked, CallOutcome, Guard, Redeemed};
use ifc::{
    Arguments, Call, CallId, Decision, Image, Label, Labeled, Permit, Question, Relevance, Sink,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use wire::{Form, Progress, Refusal};

use super::ask::advice;
use super::listing::{CALL, DESCRIBE, Listed, SEARCH};
use super::rpc::CallParams;
use super::search::Wrapped;
use super::stateless::Reply;
use super::stored::unavailable;
use super::{Caller, Client, Conversation, Running, lock, rpc};
use crate::asked::AskOutcome;
use crate::sink::{REDEEMED, TraceContext, Work};
use crate::spoke::{Executed, Mediator, Spoke};
use crate::state::Unwritten;

/// Bytes of one result that are kept for questions. The label of what is left out is kept all the same.
const KEPT_BYTES: usize = 64 << 10;
/// Messages and bytes of a conversation. What is older is forgotten, and its label is kept.
const MAX_MESSAGES: usize = 512;
const MAX_BYTES: usize = 8 << 20;
/// After a pause of this length without a call, the next one belongs to another task: refusals of the task before are
/// forgotten. A gateway does not see what the user says to the client.
const PAUSE: Duration = Duration::from_secs(120);

/// What was decided on a call.
pub(super) enum Decided {
    Runs(CallId, Permit),
    /// With what the client is told.
    Refused(String),
    Asked(CallId, Box<Question>, Box<QuestionView>),
}

/// What became of a call that ran.
#[derive(Default)]
pub(super) struct Returned {
    /// The result as its app wrote it.
    pub(super) exact: Option<String>,
    /// What there is instead: its text, and the same as a result of a tool.
    pub(super) text: String,
    pub(super) result: String,
    /// Whether there is no result.
    pub(super) is_failed: bool,
    /// Whether it is known what the call did.
    pub(super) is_known: bool,
    /// Its label, and that of everything that the client was returned.
    pub(super) label: Vec<String>,
    pub(super) client: Vec<String>,
}

impl Returned {
    /// A result with the labels of this one.
    pub(super) fn labelled(&self, result: &str) -> String {
        rpc::labelled(result, &self.label, &self.client)
    }
}

/// A call that is not over.
struct Counted<'a>(&'a Client);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut conversation = lock(&self.0.guard);
        conversation.running -= 1;
        conversation.newest = Some(Instant::now());
    }
}

impl Conversation {
    /// Counts a call that begins. What one client is returned in days must not fill the memory.
    fn begin(&mut self) {
        if self.running == 0 {
            self.redeemed.clear();
            if self.newest.is_some_and(|newest| newest.elapsed() > PAUSE) {
                self.guard.monitor.begin_turn();
            }
            let history = &self.guard.history;
            if history.messages().len() > MAX_MESSAGES || history.bytes() > MAX_BYTES {
                self.guard.forget();
            }
        }
        self.running += 1;
    }
}

impl Client {
    /// A call of a tool. `None`: the client has cancelled it.
    pub(super) async fn call(
        self: &Arc<Self>,
        params: &CallParams<'_>,
        caller: &Caller<'_>,
    ) -> Option<Reply> {
        let invalid = |why: String| Some(Reply::Error(rpc::INVALID_PARAMS, why, Value::Null));
        let mut name = params.name.clone();
        let mut arguments = params.arguments.map_or("{}", RawValue::get);
        let listing = &self.listing;
        if listing.is_searched() && name == CALL {
            // From here on it is the call that it names.
            let Ok(wrapped) = serde_json::from_str::<Wrapped<'_>>(arguments) else {
                return invalid(format!("{CALL} takes a tool and its arguments"));
            };
            name = wrapped.tool;
            arguments = wrapped.arguments.map_or("{}", RawValue::get);
        }
        if !arguments.starts_with('{') {
            return invalid("the arguments of a call are a JSON object".to_owned());
        }
        if name == DESCRIBE {
            return Some(Reply::Result(self.describe(arguments), None));
        }
        if listing.is_searched() && name == SEARCH {
            return Some(Reply::Result(self.search(arguments), None));
        }
        let Some(listed) = listing.get(&name) else {
            let name: String = name.chars().take(128).collect();
            return invalid(format!("there is no tool {name}"));
        };
        Some(match self.execute(listed, arguments, caller, true).await? {
            Ok(returned) => {
                let own = returned.exact.as_ref().unwrap_or(&returned.result);
                Reply::Result(returned.labelled(own), None)
            }
            Err(reply) => reply,
        })
    }

    /// Decides on a call and runs it. `is_tool`: the client reads its result as that of a tool. `None`: the client has
    /// cancelled it.
    ///
    /// # Errors
    /// What the client is told of a call that does not run.
    pub(super) async fn execute(
        self: &Arc<Self>,
        listed: &Listed,
        arguments: &str,
        caller: &Caller<'_>,
        is_tool: bool,
    ) -> Option<Result<Returned, Reply>> {
        if let Err(reply) = self.load().await {
            return Some(Err(reply));
        }
        lock(&self.guard).begin();
        let _counted = Counted(self);
        loop {
            let (id, permit) = match self.permit(listed, arguments, caller).await? {
                Ok(permitted) => permitted,
                Err(reply) => return Some(Err(reply)),
            };
            let why = match self.save(Some(&permit)).await {
                Ok(()) => match self.gateway.parts.sinks.written().await {
                    Ok(()) => return Some(Ok(self.run(id, permit, caller, is_tool).await?)),
                    Err(why) => why,
                },
                Err(Unwritten::Overtaken) => {
                    let why = "an equal call was permitted meanwhile";
                    self.note(&mut lock(&self.guard).guard, id, permit.call(), why);
                    continue;
                }
                Err(Unwritten::Failed(error)) => {
                    let why = "the state of this service cannot be used";
                    self.note(&mut lock(&self.guard).guard, id, permit.call(), why);
                    return Some(Err(unavailable(&error)));
                }
            };
            self.note(&mut lock(&self.guard).guard, id, permit.call(), &why);
            return Some(Err(Reply::Refused(format!("not executed: {why}"))));
        }
    }

    /// Decides on a call, and asks where only the user can allow it.
    async fn permit(
        self: &Arc<Self>,
        listed: &Listed,
        arguments: &str,
        caller: &Caller<'_>,
    ) -> Option<Result<(CallId, Permit), Reply>> {
        loop {
            let left = match self.redeem(&listed.app, &listed.tool, arguments).await {
                Ok(left) => left,
                Err(reply) => return Some(Err(reply)),
            };
            let decided = self.decide(&mut lock(&self.guard), listed, arguments, left);
            let (id, question, view) = match decided {
                Decided::Runs(id, permit) => return Some(Ok((id, permit))),
                Decided::Refused(why) => return Some(Err(Reply::Refused(why))),
                Decided::Asked(id, question, view) => (id, question, view),
            };
            let call = question.call();
            let label = self.gateway.parts.lattice.describe(&call.label);
            // The same call under the same label is the same question, also where a client asks for it again. An answer covers
            // no other texts than those that were shown.
            let about = (&call.app, &call.tool, &view.arguments, label);
            let covers = (&view.choices, &view.covers, &view.trust);
            let key = format!("{:?}", (about, covers));
            if let Err(why) = self.gateway.parts.sinks.written().await {
                self.note(&mut lock(&self.guard).guard, id, call, &why);
                return Some(Err(Reply::Refused(format!("not executed: {why}"))));
            }
            caller.is_asked.store(true, Ordering::Relaxed);
            let asked = tokio::select! {
                biased;
                outcome = self.ask(key, &view, caller) => outcome,
                () = caller.cancelled.notified() => {
                    self.note(&mut lock(&self.guard).guard, id, question.call(), "the client cancelled it");
                    return None;
                }
            };
            caller.is_asked.store(false, Ordering::Relaxed);
            let outcome = match asked {
                Ok(outcome) => outcome,
                Err(required) => {
                    self.note(
                        &mut lock(&self.guard).guard,
                        id,
                        question.call(),
                        "the user is asked",
                    );
                    return Some(Err(Reply::InputRequired(required)));
                }
            };
            if let Some(settled) = self.settle(id, *question, &view, outcome) {
                return Some(settled);
            }
        }
    }

    /// `left` is a permit that another front has left in a store.
    pub(super) fn decide(
        &self,
        conversation: &mut Conversation,
        listed: &Listed,
        arguments: &str,
        left: Option<(String, Permit)>,
    ) -> Decided {
        let guard = &mut conversation.guard;
        let refused = |why: &str| Decided::Refused(format!("not executed: {why}"));
        let Listed { app, tool, .. } = listed;
        let gateway = &self.gateway;
        if let Ok(read) = Arguments::parse(arguments, &Label::bottom()) {
            let now = Instant::now();
            let left = match self.stored {
                Some(_) => left,
                None => lock(&gateway.permits).redeem(&self.session, app, tool, &read, now),
            };
            // Without a rule the permit is dropped, and what follows refuses the call.
            if let Some((name, permit)) = left
                && let Ok(id) = guard.admit(&permit)
            {
                conversation.redeemed.insert(id, name);
                return self.allowed(guard, id, permit, REDEEMED);
            }
        }
        // The other front has seen what this one has not.
        guard.give(&lock(&gateway.permits).given(&self.session));
        let (id, call) = match guard.submit(app, tool, arguments) {
            Ok(entered) => entered,
            Err(why) => return refused(&why.to_string()),
        };
        let flow = self.flow(&call);
        if let Err(why) = guard.check_arguments(&call) {
            self.note(guard, id, &call, &why);
            let event = Event::Rejected {
                step: 1,
                tool: tool.as_str().into(),
                arguments: call.arguments.to_json().into(),
                label: gateway.parts.lattice.describe(&call.label),
                reason: why.as_str().into(),
            };
            return refused(&self.record(event).err().unwrap_or(why));
        }
        let begun = Instant::now();
        let decision = guard.decide(&Relevance::Everything, call.clone());
        gateway.parts.sinks.took(Work::Check, begun);
        match decision {
            Decision::Allow(permit) => self.allowed(guard, id, permit, ""),
            Decision::Deny(denial) => {
                let why = denial.to_string();
                let reason = Text::from(why.as_str());
                self.note(guard, id, &call, &why);
                let recorded = self.record(Event::Denied {
                    step: 1,
                    flow,
                    rule: denial.rule().map(str::to_owned),
                    reason,
                });
                refused(&recorded.err().unwrap_or(why))
            }
            Decision::Ask(question) => {
                let lattice = &gateway.parts.lattice;
                let causes = Cause::all(question.causes(), lattice);
                let asked = Asked::Call(question);
                let view = QuestionView::new(&asked, causes.clone(), lattice);
                let event = Event::Asked {
                    step: 1,
                    flow,
                    rule: view.rule.clone(),
                    limit: view.limit.clone(),
                    effect: view.effect.to_owned(),
                    excess: view.excess.clone(),
                    causes,
                    ran: view.ran.map(|ran| ran.name().to_owned()),
                };
                match (self.record(event), asked) {
                    (Ok(()), Asked::Call(question)) => {
                        Decided::Asked(id, Box::new(question), Box::new(view))
                    }
                    (Err(why), _) => refused(&why),
                    (Ok(()), _) => refused("the question is lost"),
                }
            }
        }
    }

    /// A permit, once it is on record.
    fn allowed(&self, guard: &mut Guard, id: CallId, permit: Permit, how: &str) -> Decided {
        let flow = self.flow(permit.call());
        let by = format!("{}{how}", permit.basis());
        match self.record(Event::Allowed { step: 1, flow, by }) {
            Ok(()) => Decided::Runs(id, permit),
            Err(why) => {
                self.note(guard, id, permit.call(), &why);
                Decided::Refused(format!("not executed: {why}"))
            }
        }
    }

    /// Does what the user answered. `None`: the call has to be decided on again.
    pub(super) fn settle(
        &self,
        id: CallId,
        question: Question,
        view: &QuestionView,
        outcome: AskOutcome,
    ) -> Option<Result<(CallId, Permit), Reply>> {
        let mut conversation = lock(&self.guard);
        let guard = &mut conversation.guard;
        let call = question.call().clone();
        let flow = self.flow(&call);
        let is_left = matches!(outcome, AskOutcome::Left(_));
        let answered = match outcome {
            AskOutcome::Answer(answered) => {
                answered.counted(&view.choices, question.rule().approvers.is_some())
            }
            AskOutcome::UsedUp => {
                self.note(guard, id, &call, "an equal call was allowed once");
                return None;
            }
            AskOutcome::Unanswered(why) | AskOutcome::Left(why) => {
                self.note(guard, id, &call, &why);
                let reason = Text::from(why.as_str());
                let recorded = self.record(Event::Denied {
                    step: 1,
                    flow,
                    rule: Some(view.rule.clone()),
                    reason,
                });
                let is_service = self.stored.is_some();
                let text = match recorded {
                    Err(why) => format!("not executed: {why}"),
                    Ok(()) if is_left => format!("not executed yet: {why}"),
                    Ok(()) => {
                        let lattice = &self.gateway.parts.lattice;
                        let advice = advice(view, &question, lattice, is_service);
                        format!("not executed: {why}. {advice}")
                    }
                };
                return Some(Err(Reply::Refused(text)));
            }
        };
        let settled = guard.permit(question, answered.answer);
        let recorded = self.record(answered.event()).and_then(|()| {
            self.record(Event::Answered {
                flow,
                answer: answered.answer.name().to_owned(),
                allowed: settled.is_ok(),
            })
        });
        Some(match (settled, recorded) {
            (Ok(permit), Ok(())) => Ok((id, permit)),
            (settled, recorded) => {
                let denial = settled.err().map(|denial| denial.to_string());
                let why = recorded.err().or(denial).unwrap_or_default();
                self.note(guard, id, &call, &why);
                let text = format!("not executed: {why}. Go on without it.");
                Err(Reply::Refused(text))
            }
        })
    }

    /// Runs a permitted call. `None`: the client has cancelled it.
    async fn run(
        self: &Arc<Self>,
        id: CallId,
        permit: Permit,
        caller: &Caller<'_>,
        is_tool: bool,
    ) -> Option<Returned> {
        let Caller { cancelled, .. } = caller;
        let call = permit.call().clone();
        let started = tokio::select! {
            biased;
            started = self.spoke(&call.app) => started,
            () = cancelled.notified() => {
                // Dropped: the call was not sent.
                drop(permit);
                self.note(&mut lock(&self.guard).guard, id, &call, "the client cancelled it");
                return None;
            }
        };
        let mut is_given_up = false;
        let executed = match started {
            Ok((spoke, _slot)) => {
                let receipt = permit.receipt();
                let given_up = async {
                    cancelled.notified().await;
                    is_given_up = true;
                };
                let mut quiet = Quiet {
                    client: self,
                    label: self.worst_label(&call),
                    progress: &caller.progress,
                    span: self.span_for_app(&call),
                };
                let executed = spoke.execute(permit, &mut quiet, given_up).await;
                executed.outcome.note(&receipt);
                executed
            }
            Err(why) => {
                drop(permit);
                CallOutcome::Failed(why).into()
            }
        };
        let result = self.returned(id, &call, executed, is_tool);
        // It may have come together with the end of the call.
        let is_cancelled = is_given_up
            || tokio::select! {
                biased;
                () = cancelled.notified() => true,
                () = std::future::ready(()) => false,
            };
        // A late answer is on record, and not for the client.
        (!is_cancelled).then_some(result)
    }

    /// The most restrictive label of what an app may say of this call.
    fn worst_label(&self, call: &Call) -> Label {
        let worst = lock(&self.guard).guard.worst_label(call);
        worst.join(&Sink::Call(call).label())
    }

    /// The span of a call, if its app may know. A client chooses the number of its trace, by anything that it was returned:
    /// neither questions nor rules about arguments cover it.
    fn span_for_app(&self, call: &Call) -> Option<TraceContext> {
        let span = self.gateway.parts.sinks.for_apps()?;
        let guard = &lock(&self.guard).guard;
        let limit = guard.rule(&Sink::Call(call)).ok()?.limit;
        // A call by a permit of the other front was decided without what was given there.
        let given = lock(&self.gateway.permits).given(&self.session);
        let everything = guard.history.label().join(&given);
        (everything.flows_to(&limit) && everything.flows_to(&call.label)).then_some(span)
    }

    /// Labels what became of a call, writes it down, and makes of it what the client may be given.
    fn returned(&self, id: CallId, call: &Call, executed: Executed, is_tool: bool) -> Returned {
        let Executed { outcome, exact } = executed;
        let exact = match is_tool {
            true => exact.and_then(rpc::as_result),
            false => exact,
        };
        let lattice = &self.gateway.parts.lattice;
        let more = exact.as_deref().is_some_and(rpc::has_more);
        let shown = trace::Call::new(call, lattice);
        let is_known = !matches!(outcome, CallOutcome::Unknown(_) | CallOutcome::Lost(_));
        let (text, result, is_error, bytes) = match &outcome {
            CallOutcome::Returned { is_error, .. } if exact.is_some() => {
                (String::new(), String::new(), *is_error, 0)
            }
            CallOutcome::Returned {
                text,
                is_error,
                images,
                ..
            } => {
                let result = blocks(text, *is_error, images);
                (text.clone(), result, *is_error, text.len())
            }
            CallOutcome::Failed(why) => {
                let text = format!("the call failed: {why}");
                (text.clone(), rpc::text(&text, true), true, 0)
            }
            CallOutcome::Unknown(why) | CallOutcome::Lost(why) => {
                let text = format!("it is not known whether the call ran: {why}");
                (text.clone(), rpc::text(&text, true), true, 0)
            }
        };
        let is_failed = !matches!(outcome, CallOutcome::Returned { .. });
        let event = match &outcome {
            CallOutcome::Failed(why) => Some(Event::CallFailed {
                call: shown.clone(),
                reason: why.as_str().into(),
            }),
            CallOutcome::Unknown(why) | CallOutcome::Lost(why) => Some(Event::CallUnknown {
                call: shown.clone(),
                reason: why.as_str().into(),
            }),
            CallOutcome::Returned { .. } => None,
        };
        let refused = match &outcome {
            CallOutcome::Returned {
                text,
                is_error: true,
                ..
            } => Text::refused(text),
            _ => None,
        };
        let asked = Sink::Call(call).label();
        let (received, everything, redeemed) = {
            let mut conversation = lock(&self.guard);
            let guard = &mut conversation.guard;
            let received = guard.receive_with(id, call, outcome, KEPT_BYTES, more);
            let everything = guard.history.label();
            (received, everything, conversation.redeemed.remove(&id))
        };
        {
            let mut permits = lock(&self.gateway.permits);
            // What it says may depend on all of the call.
            let said = received.text.clone().restrict(&asked);
            let (text, label) = (received.text, received.label.clone());
            let redeemed = redeemed.map(|name| (name, Redeemed { text, label }));
            match self.stored {
                Some(_) => {
                    permits.give(&self.session, &said.label());
                    self.tell(said, redeemed);
                }
                None => {
                    permits.say(&self.session, said);
                    if let Some((name, result)) = redeemed {
                        permits.keep(name, result);
                    }
                }
            }
        }
        self.gives(&everything);
        let label = lattice.describe(&received.label);
        let event = event.unwrap_or_else(|| Event::Returned {
            call: shown,
            bytes: exact.as_ref().map_or(bytes, String::len),
            is_error,
            label: label.clone(),
            regions: received.regions,
            refused,
        });
        // It has run, whether that can be recorded or not. The next call is refused then.
        let _ = self.record(event);
        Returned {
            exact,
            text,
            result,
            is_failed,
            is_known,
            label,
            client: lattice.describe(&everything),
        }
    }

    /// The spoke of an app, started if it does not run, and a place among its calls.
    async fn spoke<'a>(
        &'a self,
        app: &str,
    ) -> Result<(Arc<Spoke>, tokio::sync::SemaphorePermit<'a>), String> {
        let missing = || format!("there is no app {app}");
        let Running { spoke, slots } = self.apps.get(app).ok_or_else(missing)?;
        let setup = self.gateway.apps.get(app).ok_or_else(missing)?;
        let slot = slots.acquire().await.map_err(|error| error.to_string())?;
        // Each call of such an app has a spoke of its own, which ends with it.
        let mut fresh = None;
        let mut shared = spoke.lock().await;
        let running = if setup.fresh {
            &mut fresh
        } else {
            &mut *shared
        };
        if let Some(spoke) = running.as_ref().filter(|spoke| !spoke.is_gone()) {
            return Ok((Arc::clone(spoke), slot));
        }
        let ended = |reason: String| Event::SpokeEnded {
            app: app.to_owned(),
            reason: reason.into(),
        };
        if let Some(gone) = running.take() {
            self.record(ended(gone.ended().await))?;
        }
        let opened = setup.open(&self.gate, self.events.clone()).await;
        let spoke = match opened {
            Ok(spoke) => Arc::new(spoke),
            Err(error) => {
                self.record(ended(error.to_string()))?;
                return Err(error.to_string());
            }
        };
        self.record(spoke.started())?;
        *running = Some(Arc::clone(&spoke));
        Ok((spoke, slot))
    }

    /// The descriptions of tools that the list leaves out. From now on the client's calls may depend on them.
    fn describe(&self, arguments: &str) -> String {
        let asked: Value = serde_json::from_str(arguments).unwrap_or_default();
        let asked = asked.get("tools").and_then(Value::as_array);
        let asked = asked.into_iter().flatten().filter_map(Value::as_str);
        let names: BTreeSet<String> = asked.map(str::to_owned).collect();
        let found = self.listing.left_out(&names);
        if found.is_empty() {
            return rpc::text("no description of these tools is left out", true);
        }
        for (listed, text) in &found {
            self.record_description(listed, text);
        }
        let texts: Vec<&str> = found.into_iter().map(|(_, text)| text).collect();
        rpc::text(&texts.join("\n\n"), false)
    }

    /// Takes note that the client is returned what an app says of a tool.
    pub(super) fn record_description(&self, listed: &Listed, text: &str) {
        let mut conversation = lock(&self.guard);
        let Conversation {
            guard, described, ..
        } = &mut *conversation;
        let setup = self.gateway.apps.get(&listed.app);
        let label = setup.map_or(Label::top(), |setup| setup.descriptions.clone());
        // Once: its label stays.
        if described.insert(Call::qualified(&listed.app, &listed.tool)) {
            let text = Labeled::label_tcb(text, label.clone());
            guard.history.push_memory(&label, text);
        }
        self.gives(&guard.history.label());
    }

    /// Answers a call that does not run, in the conversation.
    fn note(&self, guard: &mut Guard, id: CallId, call: &Call, why: &str) {
        let label = Sink::Call(call).label();
        guard
            .history
            .push_note(&label, id, format!("not executed: {why}"));
    }

    fn flow(&self, call: &Call) -> trace::Flow {
        trace::Flow::Call(trace::Call::new(call, &self.gateway.parts.lattice))
    }
}

/// A result that does not come as an app wrote it, such as that of a tool which reads resources.
fn blocks(text: &str, is_error: bool, images: &[Image]) -> String {
    let images = images.iter().map(|image| {
        json!({ "type": "image", "data": STANDARD.encode(image.bytes()), "mimeType": image.media_type() })
    });
    let text = json!({ "type": "text", "text": text });
    let content: Vec<Value> = std::iter::once(text).chain(images).collect();
    json!({ "content": content, "isError": is_error }).to_string()
}

/// An app's question would look like one of the client, so none is passed on. Connections are not asked about either.
struct Quiet<'a> {
    client: &'a Client,
    /// The label of what the app says before its result.
    label: Label,
    progress: &'a mpsc::Sender<Progress>,
    span: Option<TraceContext>,
}

#[async_trait]
impl Mediator for Quiet<'_> {
    async fn mediate(&mut self, _: &Call, _: Form) -> wire::Reply {
        wire::Reply::Refused(Refusal::NotOffered)
    }

    fn progress(&mut self, mut update: Progress) {
        // Its text is passed on where it changes nothing: what the client was returned has its label already.
        let everything = || lock(&self.client.guard).guard.history.label();
        if update.message.is_some() && !self.label.flows_to(&everything()) {
            update.message = None;
        }
        // The next says more.
        let _ = self.progress.try_send(update);
    }

    fn span(&self) -> Option<TraceContext> {
        self.span
    }
}

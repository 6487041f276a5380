//! What the user is shown: the final answer, which is a sink with a limit of its own, and what apps ask.

use ifc::{
    Address, Answer, Call, Decision, Denial, History, Label, Labeled, Message, Origin, Question,
    Release, Sink,
};

use super::machine::TurnMachine;
use super::state::{State, Strategy, Wording};
use super::{quotes, sources};
use crate::address::{Inert, Known, Place};
use crate::trace::{self, Cause, Event, Names, Text};
use crate::{Asked, Attribution, CompletionRequest, Need, Outcome, Purpose, Stop};

/// Says of an address whether it may be active, and of an image with `true`.
pub type Admits<'a> = Box<dyn FnMut(&str, bool) -> bool + Send + Sync + 'a>;

/// An app's question that may be shown to the user (MCP elicitation).
#[must_use]
pub struct AppQuestion {
    call: trace::Call,
    /// The monitor's question, where the words need approval. The user answers it together with the app's.
    beyond: Option<Question<Release>>,
}

impl AppQuestion {
    /// The monitor's question, if there is one: rule and taints belong to what the user is shown.
    #[must_use]
    pub fn beyond(&self) -> Option<&Question<Release>> {
        self.beyond.as_ref()
    }
}

impl TurnMachine {
    /// A text for the user, as the monitor sees it.
    pub(super) fn release(&self, text: Labeled) -> Release {
        let mut apps = self.apps.names();
        // The apps that wait for this conversation learn from it what the user is shown.
        apps.extend(self.waiting().iter().cloned());
        Release { apps, text }
    }

    /// Whether the text that answers this request may be shown while it is written: as a final answer under the prompt's
    /// label it would need no question. The step may still be dropped; another one follows, made from no more text.
    #[must_use]
    pub fn may_stream(&self, request: &CompletionRequest) -> bool {
        let may_be_dropped =
            matches!(&self.state, State::AwaitStep(strategy) if strategy.may_be_dropped());
        if request.purpose != Purpose::Step || may_be_dropped || self.serving.is_some() {
            return false;
        }
        // By the label alone: the rule of an answer does not depend on its text, of which there is none yet.
        let words = Labeled::label_tcb("", request.prompt.label().clone());
        self.guard.would_allow(&self.release(words))
    }

    /// Which addresses may be active in a text under this label; `None` where all may. For a text that is
    /// one of several of a [`Message`](crate::address::Message).
    #[must_use]
    pub fn admits_below(&self, label: &Label) -> Option<Admits<'_>> {
        (!label.is_bottom()).then(|| self.admits(label))
    }

    /// A text as it is shown: every address that may not be active is inert.
    pub(super) fn inert(&mut self, text: Labeled) -> Labeled {
        self.made_inert(text, false)
    }

    /// `is_quoted`: the text is in the middle of others' words, where a fence at its beginning is none.
    fn made_inert(&mut self, text: Labeled, is_quoted: bool) -> Labeled {
        let label = text.label();
        let Some(admits) = self.admits_below(&label) else {
            return text;
        };
        let inert = match is_quoted {
            true => Inert::quoted(admits),
            false => Inert::new(admits),
        };
        let (shown, changed) = inert.whole(text.reveal_tcb());
        self.turn.inert = changed;
        Labeled::label_tcb(shown, label)
    }

    /// The monitor's decision on addresses in a text under `label`. One that occurs in several places may be active if
    /// it may at one of them.
    fn admits(&self, label: &Label) -> Admits<'_> {
        let (history, all) = (&self.guard.history, &self.apps);
        let app_of = move |tool: &str| all.resolve(tool).map(|(app, _)| app);
        // All of the history is read for it: most answers have no address.
        let mut known = None;
        let apps = self.release(Labeled::trusted_tcb("")).apps;
        let (monitor, policy) = (self.guard.monitor.clone(), self.guard.policy.clone());
        let label = label.clone();
        // The user copies the name of a rule into the configuration. No host ends like these names.
        let is_plain = |rule: &&String| !rule.contains(['/', ':', '@', '\\']);
        let asked = self.turn.asked.iter();
        let asked = asked.filter(|(own, _)| own.flows_to(&label));
        let rules: Vec<&String> = asked.map(|(_, rule)| rule).filter(is_plain).collect();
        Box::new(move |address, fetched| {
            if !fetched && rules.iter().any(|rule| *rule == address) {
                return true;
            }
            let may = |label: &Label, origin: Origin| {
                let address = Address {
                    apps: apps.clone(),
                    text: Labeled::label_tcb(address, label.clone()),
                    origin,
                    fetched,
                };
                // The history decides over arguments of calls, and over no address.
                monitor.would_allow(policy.as_ref(), &History::default(), &address)
            };
            let read = |place: &Place| may(&place.label, Origin::Read(place.app.clone()));
            let known = known.get_or_insert_with(|| Known::below(history, &label, app_of));
            known.places(address).iter().any(read) || may(&label, Origin::Model)
        })
    }

    /// Decides whether the final answer may be shown. In a conversation that serves, it is the response.
    pub(super) fn answered(&mut self, wording: Wording, text: Labeled, label: &Label) {
        if let Some(service) = &self.serving {
            let form = service.form();
            // A response of another form is asked for once more. After that it is dropped where the response is read, as
            // an app's would be.
            let is_last = wording == Wording::Form;
            if is_last || form.is_text() || form.check(text.reveal_tcb()).is_ok() {
                return self.end(Ok(text.clone()), Ok(text));
            }
            let strategy = Strategy::Answer(label.clone(), Wording::Form);
            self.state = State::Make(strategy);
            return;
        }
        let blind = self.unanswered(&text, label);
        if let Some(above) = blind.filter(|_| wording != Wording::Fallback) {
            return self.stop(Stop::Uncleared(above));
        }
        let text = self.inert(text);
        self.decide_answer(wording, text, label);
    }

    fn decide_answer(&mut self, wording: Wording, text: Labeled, label: &Label) {
        let release = self.release(text);
        match self.guard.decide(&self.turn.relevance, release.clone()) {
            Decision::Allow(permit) => self.show(permit.spend().text, label),
            // It was made from what may be shown, and may not be shown: the policy contradicts itself.
            Decision::Ask(question) if wording == Wording::Fallback => {
                let rule = &question.rule().name;
                let reason = format!("no answer may be shown under the rule {rule}");
                self.withhold(&release, reason);
            }
            Decision::Ask(question) => {
                self.trace_question(trace::Flow::answer(&release, &self.lattice), &question);
                let state = State::AwaitRelease(label.clone(), question.release().clone());
                self.wait(state, Need::Confirm(Asked::Answer(question)));
            }
            Decision::Deny(denial) => self.withhold(&release, denial.to_string()),
        }
    }

    /// The user's own call is over: what it returned is shown as it is, for programs that read it.
    pub(super) fn end_call(&mut self, has_result: bool) {
        let last = self.guard.history.messages().last();
        let Some((label, Message::Result { content, .. })) = last else {
            return self.stop(Stop::Interrupted);
        };
        let (label, text) = (label.clone(), content.clone().restrict(label));
        match has_result {
            true => self.decide_answer(Wording::Fallback, text, &label),
            false => self.stop(Stop::Call(text)),
        }
    }

    /// Foreign words about why there is no answer, or ours in their place. There is no question about them: they are no
    /// answer.
    fn releasable(&mut self, words: Labeled) -> Labeled {
        let withheld = |rule: &str| {
            Labeled::trusted_tcb(format!(
                "it said why, and the rule {rule} does not let that be shown; the trace has it"
            ))
        };
        let words = self.made_inert(words, true);
        let release = self.release(words);
        match self.guard.decide(&self.turn.relevance, release) {
            Decision::Allow(permit) => permit.spend().text,
            Decision::Ask(question) => withheld(&question.rule().name),
            Decision::Deny(_) => withheld("for answers"),
        }
    }

    /// The user's decision on showing the answer. After a refusal, the model answers from text that may be shown.
    pub(super) fn release_confirmed(
        &mut self,
        label: Label,
        question: Question<Release>,
        answer: Answer,
    ) {
        let flow = trace::Flow::answer(question.release(), &self.lattice);
        let limit = question.rule().limit.clone();
        let settled = self.guard.permit(question, answer);
        self.trace_answer(flow, answer, settled.is_ok());
        match settled {
            Ok(permit) => self.show(permit.spend().text, &label),
            Err(_) => {
                self.turn.refused += 1;
                // All that an answer may show unasked: a second question about the same would follow from more.
                let label = self.shown_below(&limit);
                self.state = State::Make(Strategy::Answer(label, Wording::Fallback));
            }
        }
    }

    fn show(&mut self, text: Labeled, label: &Label) {
        self.push_step(label, &text, []);
        self.end(Ok(text.clone()), Ok(text));
    }

    fn withhold(&mut self, release: &Release, reason: String) {
        self.turn.refused += 1;
        let flow = trace::Flow::answer(release, &self.lattice);
        self.trace_denial(flow, None, &reason);
        self.stop(Stop::Withheld(reason));
    }

    /// Ends the turn without an answer. Foreign words about the reason are shown only where an answer of their label
    /// would be, without a question.
    pub(super) fn stop(&mut self, stop: Stop) {
        let shown = match stop.words() {
            // A conversation that serves another app shows nothing.
            Some(words) if self.serving.is_none() => {
                let words = self.releasable(words.clone());
                stop.clone().with_words(words)
            }
            _ => stop.clone(),
        };
        self.end(Err(stop), Err(shown));
    }

    /// Ends the turn with `shown` for the user; the trace has `result`.
    fn end(&mut self, result: Result<Labeled, Stop>, shown: Result<Labeled, Stop>) {
        let turn = &self.turn;
        let (refused, unknown, dropped) = (turn.refused, turn.unknown, turn.dropped);
        let (inert, stop) = (turn.inert, turn.stop);
        // Of what the user is shown: a turn without an answer quotes no source.
        let sources = match (&shown, self.settings.attribution) {
            (Ok(answer), Attribution::Named) => {
                let history = &self.guard.history;
                sources::sources(history, &self.lattice, &turn.relevance, answer)
            }
            _ => Vec::new(),
        };
        let mut shown = shown;
        // The answer of a conversation that serves is the response: it passes the sink of messages, and is shown to no
        // user here.
        if let Some(service) = &mut self.serving {
            service.ended = Some(result.clone());
            shown = Err(result.as_ref().err().cloned().unwrap_or(Stop::Served));
        }
        self.events.push(match result {
            Ok(answer) => Event::Answer {
                text: Text::reveal_tcb(&answer),
                label: self.names(&answer.label()),
                refused,
                dropped,
                inert,
                sources: sources.clone(),
            },
            Err(stop) => Event::Stopped {
                reason: stop.reveal_tcb().into(),
                label: stop
                    .words()
                    .map_or_else(Names::new, |words| self.names(&words.label())),
                refused,
                unknown,
                dropped,
            },
        });
        self.state = State::Idle(Some(Outcome {
            result: shown,
            stop,
            refused,
            unknown,
            dropped,
            inert,
            sources,
        }));
    }

    // ---- Questions ----

    /// Why a question is asked, with the values of the call that its causes contain.
    #[must_use]
    pub fn causes(&self, asked: &Asked) -> Vec<Cause> {
        match asked {
            Asked::Call(question) | Asked::Request(_, question) => self.causes_of(question),
            Asked::Delivery(_, question) => self.causes_of(question),
            Asked::Answer(question) => self.causes_of(question),
        }
    }

    pub(super) fn causes_of<F: ifc::Flow>(&self, question: &Question<F>) -> Vec<Cause> {
        quotes::causes(&self.guard.history, &self.lattice, question)
    }

    /// Decides whether a question of an app that works on this call may be shown to the user. Showing it is the sink of
    /// answers. Its words have the app's most restrictive label joined with the label of the call, whose arguments the
    /// app knows. The user's answer goes to the app as the user sees it, so it has no label.
    ///
    /// # Errors
    /// Why not. It is in the trace.
    pub fn app_asks(&mut self, call: &Call, words: &str) -> Result<AppQuestion, Denial> {
        let label = self.label_of_words(call);
        let mut release = self.release(Labeled::label_tcb(words, label.clone()));
        // An app that serves another one's conversation speaks under its own limit as well.
        release.apps.insert(call.app.clone());
        let shown = self.shown(call);
        let decision = self.guard.decide(&self.turn.relevance, release.clone());
        let (beyond, by) = match decision {
            Decision::Allow(permit) => {
                let by = permit.basis().to_string();
                // The driver shows it next.
                permit.spend();
                (None, by)
            }
            Decision::Ask(question) => {
                let flow = trace::Flow::answer(&release, &self.lattice);
                self.trace_question(flow, &question);
                (Some(question), "user".to_owned())
            }
            Decision::Deny(denial) => {
                self.app_refused(call, "question", &denial.to_string());
                return Err(denial);
            }
        };
        self.events.push(Event::AppAsked {
            call: shown.clone(),
            text: Text::from(words),
            label: self.names(&label),
            by,
        });
        Ok(AppQuestion {
            call: shown,
            beyond,
        })
    }

    /// The user's answer: what was typed as JSON, or nothing. Whether the app gets it.
    pub fn app_answered(&mut self, question: AppQuestion, answer: &str, content: &str) -> bool {
        let AppQuestion { call, beyond } = question;
        let accepted = !content.is_empty();
        let settled = beyond.is_none_or(|question| {
            let flow = trace::Flow::answer(question.flow(), &self.lattice);
            // By typing an answer to the app, the user also allows its words.
            let word = match accepted {
                true => Answer::Once,
                false => Answer::No,
            };
            let settled = self.guard.permit(question, word).is_ok();
            self.trace_answer(flow, word, settled);
            settled
        });
        self.events.push(Event::AppAnswered {
            call,
            answer: answer.to_owned(),
            content: Text::from(content),
        });
        accepted && settled
    }

    /// The app that works on this call does not get what it asked for.
    pub fn app_refused(&mut self, call: &Call, request: &str, reason: &str) {
        self.events.push(Event::AppRefused {
            call: self.shown(call),
            request: request.to_owned(),
            reason: Text::from(reason),
        });
    }

    pub(super) fn label_of_words(&self, call: &Call) -> Label {
        let worst = self.guard.worst_label(call);
        worst.join(&Sink::Call(call).label())
    }
}

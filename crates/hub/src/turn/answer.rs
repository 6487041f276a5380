//! The final answer: a sink with a limit of its own.

use ifc::{Address, Answer, Decision, History, Label, Labeled, Origin, Question, Release};

use super::machine::TurnMachine;
use super::state::{Phase, State};
use crate::address::{Inert, Known, Place};
use crate::trace::{self, Event};
use crate::{CompletionRequest, Purpose, Stop};

/// Says of an address whether it may be active, and of an image with `true`.
pub type Admits<'a> = Box<dyn FnMut(&str, bool) -> bool + Send + Sync + 'a>;

impl TurnMachine {
    /// A text for the user, as the monitor sees it.
    pub(super) fn release(&self, text: Labeled) -> Release {
        let mut apps = self.apps.names();
        // Those that wait for this conversation learn of it what the user is shown.
        apps.extend(self.waiting().iter().cloned());
        Release { apps, text }
    }

    /// Whether the text that answers this request may be shown while it is written: as a final
    /// answer under the prompt's label it would need no question, so these words may be shown
    /// whatever becomes of their step.
    ///
    /// They need not become the step. A lazy draft is dropped if its calls would violate the policy
    /// under the label of the whole history and the screener masks something of it; and so is an
    /// answer that only repeats itself. Another one follows, made from no more than the first. Drafts
    /// that are screened in any case are not shown: a reader would often get two texts of one step.
    #[must_use]
    pub fn may_stream(&self, request: &CompletionRequest) -> bool {
        let may_be_dropped = matches!(
            self.state,
            State::AwaitCompletion(Phase::Screened | Phase::Without, _)
                | State::AwaitWhole(_)
                | State::AwaitCheck(_)
                | State::AwaitPart(_)
                | State::AwaitRefinement(_)
        );
        if request.purpose != Purpose::Step || may_be_dropped || self.serving.is_some() {
            return false;
        }
        // By the label alone: the rule of an answer does not depend on its text, of which there is none yet.
        let words = Labeled::label_tcb("", request.prompt.label().clone());
        let answer = self.release(words);
        self.monitor
            .would_allow(self.policy.as_ref(), &self.history, &answer)
    }

    /// What is made of a text under this label while it is written and shown at once. Nothing is needed
    /// where no address could be inert.
    #[must_use]
    pub fn inert_while_written(&self, label: &Label) -> Option<Inert<Admits<'_>>> {
        self.admits_below(label).map(Inert::new)
    }

    /// Which addresses may be active in a text under this label; `None` where all may. For a text that is
    /// one of several of a [`Message`](crate::address::Message).
    #[must_use]
    pub fn admits_below(&self, label: &Label) -> Option<Admits<'_>> {
        (!label.is_bottom()).then(|| self.admits(label))
    }

    /// A text as it is shown: with every address inert that may not be active.
    pub(super) fn inert(&mut self, text: Labeled) -> Labeled {
        let label = text.label();
        let Some(inert) = self.inert_while_written(&label) else {
            return text;
        };
        let (shown, changed) = inert.whole(text.reveal_tcb());
        self.turn.inert = changed;
        Labeled::label_tcb(shown, label)
    }

    /// The same for a text that stands in the middle of others' words, where a fence at its beginning is none.
    fn inert_within(&mut self, text: Labeled) -> Labeled {
        let label = text.label();
        let Some(admits) = self.admits_below(&label) else {
            return text;
        };
        let (shown, changed) = Inert::quoted(admits).whole(text.reveal_tcb());
        self.turn.inert = changed;
        Labeled::label_tcb(shown, label)
    }

    /// The monitor's word on addresses in a text under `label`. One that stands in several places may be
    /// active if it may at one of them.
    fn admits(&self, label: &Label) -> Admits<'_> {
        let (history, all) = (&self.history, &self.apps);
        let app_of = move |tool: &str| all.resolve(tool).map(|(app, _)| app);
        // All of the history is read for it: most answers have no address.
        let mut known = None;
        let apps = self.release(Labeled::trusted_tcb("")).apps;
        let (monitor, policy) = (self.monitor.clone(), self.policy.clone());
        let label = label.clone();
        Box::new(move |address, fetched| {
            let may = |label: &Label, origin: Origin| {
                let address = Address {
                    apps: apps.clone(),
                    text: Labeled::label_tcb(address, label.clone()),
                    origin,
                    fetched,
                };
                // What was read decides over arguments of calls, and over no address.
                monitor.would_allow(policy.as_ref(), &History::default(), &address)
            };
            let read = |place: &Place| may(&place.label, Origin::Read(place.app.clone()));
            let known = known.get_or_insert_with(|| Known::below(history, &label, app_of));
            known.places(address).iter().any(read) || may(&label, Origin::Model)
        })
    }

    /// Decides whether the final answer may be shown.
    pub(super) fn answered(&mut self, phase: Phase, said: Labeled, label: &Label) {
        if self.serving.is_some() {
            return self.formed(phase, said, label);
        }
        let said = self.inert(said);
        let release = self.release(said);
        match self.decide(release.clone()) {
            Decision::Allow(permit) => self.show(permit.spend().text, label),
            // It was made from what may be shown, and may not be shown: the policy contradicts
            // itself.
            Decision::Ask(question) if phase == Phase::Fallback => {
                let rule = &question.rule().name;
                let reason = format!("no answer may be shown under the rule {rule}");
                self.withhold(&release, reason);
            }
            Decision::Ask(question) => {
                self.trace_question(trace::Flow::answer(&release, &self.lattice), &question);
                self.state = State::AskRelease(label.clone(), question);
            }
            Decision::Deny(denial) => self.withhold(&release, denial.to_string()),
        }
    }

    /// Foreign words about why there is no answer, or ours in their place. Nobody is asked about
    /// them: they are no answer.
    pub(super) fn releasable(&mut self, words: Labeled) -> Labeled {
        let withheld = |rule: &str| {
            Labeled::trusted_tcb(format!(
                "it said why, and the rule {rule} does not let that be shown; the trace has it"
            ))
        };
        let words = self.inert_within(words);
        match self.decide(self.release(words)) {
            Decision::Allow(permit) => permit.spend().text,
            Decision::Ask(question) => withheld(&question.rule().name),
            Decision::Deny(_) => withheld("for answers"),
        }
    }

    /// The user's word on the answer. After a no, the model answers once more from what may be
    /// shown anyway.
    pub(super) fn release_confirmed(
        &mut self,
        label: Label,
        question: Question<Release>,
        answer: Answer,
    ) {
        let flow = trace::Flow::answer(question.release(), &self.lattice);
        let limit = question.rule().limit.clone();
        let settled = self.monitor.settle_tcb(question, answer);
        self.events.push(Event::Answered {
            flow,
            answer: answer.name().to_owned(),
            allowed: settled.is_ok(),
        });
        match settled {
            Ok(permit) => self.show(permit.spend().text, &label),
            Err(_) => {
                self.turn.refused += 1;
                // All that an answer may show unasked: a second question about the same would follow from more.
                let label = self.shown_below(&limit);
                self.state = State::AskCompletion(Phase::Fallback, label);
            }
        }
    }

    fn show(&mut self, said: Labeled, label: &Label) {
        self.push_step(label, &said, []);
        self.end(Ok(said.clone()), Ok(said));
    }

    fn withhold(&mut self, release: &Release, reason: String) {
        self.turn.refused += 1;
        self.trace_denial(trace::Flow::answer(release, &self.lattice), &reason);
        self.stop(Stop::Withheld(reason));
    }
}

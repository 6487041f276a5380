//! What an app asks the user while it works on a call (MCP elicitation).
//!
//! The question is text of the app, and showing it is the sink of answers: the label of its words is
//! the app's most restrictive one, with that of the call, whose arguments the app knows. What the user
//! types is the user's own and goes to the app as the user sees it; there is no label to decide on.

use ifc::{Answer, Call, Decision, Denial, Label, Labeled, Question, Release, Sink};

use super::machine::TurnMachine;
use crate::trace::{self, Event, Text};

/// An app's question that may be put to the user.
#[must_use]
pub struct AppQuestion {
    call: trace::Call,
    /// Where the words are beyond what the policy shows by itself: the monitor's question, which the
    /// user answers together with the app's.
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
    /// Decides whether the words of an app that works on this call may be shown to the user.
    ///
    /// # Errors
    /// Why not. It is in the trace.
    pub fn app_asks(&mut self, call: &Call, words: &str) -> Result<AppQuestion, Denial> {
        let label = self.label_of_words(call);
        let mut release = self.release(Labeled::label_tcb(words, label.clone()));
        // An app that serves another one's conversation speaks under its own limit as well.
        release.apps.insert(call.app.clone());
        let shown = self.shown(call);
        let (beyond, by) = match self.decide(release.clone()) {
            Decision::Allow(permit) => {
                let by = permit.basis().to_string();
                // Showing it is what the permit is for, and happens next.
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
            // Two things are answered at once: whether the words may be shown, which they are by now, and what the app
            // asked. To type something is a yes to both.
            let word = match accepted {
                true => Answer::Once,
                false => Answer::No,
            };
            let settled = self.monitor.settle_tcb(question, word).is_ok();
            self.events.push(Event::Answered {
                flow,
                answer: word.name().to_owned(),
                allowed: settled,
            });
            settled
        });
        self.events.push(Event::AppAnswered {
            call,
            answer: answer.to_owned(),
            content: Text::from(content),
        });
        accepted && settled
    }

    /// A prompt of the app that works on this call is about to go to a provider.
    pub fn app_samples(&mut self, call: &Call, provider: &str, bytes: usize, max_tokens: u32) {
        self.events.push(Event::Sampling {
            call: self.shown(call),
            provider: provider.to_owned(),
            label: self.names(&Label::top()),
            bytes,
            max_tokens,
        });
    }

    /// The app that works on this call does not get what it asked for.
    pub fn app_refused(&mut self, call: &Call, request: &str, reason: &str) {
        self.events.push(Event::AppRefused {
            call: self.shown(call),
            request: request.to_owned(),
            reason: Text::from(reason),
        });
    }

    fn label_of_words(&self, call: &Call) -> Label {
        self.worst_label(call).join(&Sink::Call(call).label())
    }
}

//! The questions of an app to the user while it works on a call: decided on, shown, recorded, answered.
//!
//! The hub decides whether a question may be shown ([`TurnMachine::app_asks`](hub::TurnMachine::app_asks)); here
//! are the limits, the record and the user.

use std::collections::BTreeSet;

use async_trait::async_trait;
use hub::trace::{Event, UNANSWERED};
use ifc::{Answer, Call};
use serde_json::Value;
use wire::{Form, Refusal, Reply};

use crate::desk::Answered;
use crate::egress::AskedConnection;
use crate::front::{Driven, Front};
use crate::spoke::Mediator;
use crate::user::{FormAnswer, FormView};
use hub::question::QuestionView;

/// Questions to the user during one call. A wizard has a few pages; more is a siege.
const MAX_QUESTIONS: usize = 5;

pub(crate) struct Mediation<'d, 'a, F: Front> {
    driven: &'d mut Driven<'a, F>,
    asked: usize,
    /// Whether the user has declined one: then this call asks no more.
    declined: bool,
    /// Connections that the user was asked about, and the domains that were refused: this call asks no more about them.
    connections: usize,
    refused: BTreeSet<String>,
    /// Why nothing can be recorded any more.
    failure: Option<F::Error>,
}

impl<'d, 'a, F: Front> Mediation<'d, 'a, F> {
    pub(crate) fn new(driven: &'d mut Driven<'a, F>) -> Self {
        Self {
            driven,
            asked: 0,
            declined: false,
            connections: 0,
            refused: BTreeSet::new(),
            failure: None,
        }
    }

    /// # Errors
    /// Something could not be recorded, and was not done.
    pub(crate) fn finish(self) -> Result<(), F::Error> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Shows the app's question, as the app's, and brings the user's answer.
    async fn question(&mut self, call: &Call, form: Form) -> Result<Reply, F::Error> {
        if self.declined || self.asked >= MAX_QUESTIONS {
            return self.refuse(call, "question", Refusal::TooOften).await;
        }
        // Counted before the decision: questions that the policy refuses cost a record each, too.
        self.asked += 1;
        // Titles, names and options of fields as well as the message: each can carry the app's words.
        let words: Vec<&str> = form.texts().filter(|text| !text.is_empty()).collect();
        let asked = self.driven.agent.app_asks(call, &words.join("\n"));
        // First the record of what was decided, then the act.
        self.driven.flush().await?;
        let Ok(asked) = asked else {
            return Ok(Reply::Refused(Refusal::Policy));
        };
        let view = FormView::new(call, form, asked.beyond(), &self.driven.parts.lattice);
        let answer = self.driven.front.fill_in(&view).await;
        let (word, content, reply) = match answer {
            FormAnswer::Accepted(answer) if view.form.accepts(&answer).is_ok() => {
                let content = Value::Object(answer).to_string();
                ("accept", content.clone(), Reply::Accepted(content))
            }
            FormAnswer::Declined => ("decline", String::new(), Reply::Declined),
            // What does not fit the form is no answer to it.
            FormAnswer::Accepted(_) | FormAnswer::Dismissed => {
                ("cancel", String::new(), Reply::Dismissed)
            }
        };
        // An answered form is at least `{}`, so without content the user has not answered.
        self.declined = content.is_empty();
        let goes = self.driven.agent.app_answered(asked, word, &content);
        self.driven.flush().await?;
        Ok(match reply {
            Reply::Accepted(_) if !goes => Reply::Refused(Refusal::Policy),
            reply => reply,
        })
    }

    async fn connection(&mut self, mut asked: AskedConnection) -> Result<(), F::Error> {
        let connection = asked.question().flow().clone();
        let domain = connection.domain.unwrap_or_default();
        // By domain and not by host, of which one domain can have any number.
        if self.refused.contains(&domain) {
            asked.refuse("the user has said no to this domain during this call");
            return Ok(());
        }
        if self.connections >= MAX_QUESTIONS {
            asked.refuse("the user was asked often enough during this call");
            return Ok(());
        }
        self.connections += 1;
        let lattice = &self.driven.parts.lattice;
        let view = QuestionView::of_connection(asked.question(), lattice);
        let event = |answer: &str| Event::ConnectionAsked {
            app: connection.app.clone(),
            to: format!("{}:{}", connection.host, connection.port),
            domain: domain.clone(),
            label: lattice.describe(&connection.label),
            rule: view.rule.clone(),
            answer: answer.to_owned(),
        };
        let confirmed = tokio::select! {
            biased;
            answered = self.driven.front.confirm(view.clone()) => Some(answered),
            // The program was refused meanwhile; a later answer has no effect.
            () = asked.lapsed() => None,
        };
        let has_lapsed = confirmed.is_none();
        let answered = confirmed.unwrap_or(Answered::NOT);
        let answered = answered.counted(&view.choices, !view.approvers.is_empty());
        let answer = answered.answer;
        let word = if has_lapsed {
            UNANSWERED
        } else {
            answer.name()
        };
        // First the record of what was decided, then the act.
        for event in [answered.event(), event(word)] {
            if let Err(failure) = self.driven.record(event).await {
                asked.refuse("it could not be recorded");
                return Err(failure);
            }
        }
        // Another refusal, as of an answer that came too late, is not the user's no to the domain.
        if asked.settle_tcb(answer).is_some() && answer == Answer::No {
            self.refused.insert(domain);
        }
        Ok(())
    }

    async fn refuse(
        &mut self,
        call: &Call,
        request: &str,
        why: Refusal,
    ) -> Result<Reply, F::Error> {
        let agent = &mut self.driven.agent;
        agent.app_refused(call, request, &why.to_string());
        self.driven.flush().await?;
        Ok(Reply::Refused(why))
    }
}

#[async_trait]
impl<F: Front> Mediator for Mediation<'_, '_, F> {
    async fn mediate(&mut self, call: &Call, form: Form) -> Reply {
        // After a failure nothing can be recorded, so nothing more is done.
        if self.failure.is_some() {
            return Reply::Refused(Refusal::Failed);
        }
        match self.question(call, form).await {
            Ok(reply) => reply,
            Err(failure) => {
                self.failure = Some(failure);
                Reply::Refused(Refusal::Failed)
            }
        }
    }
    async fn connect(&mut self, asked: AskedConnection) {
        if self.failure.is_some() {
            return asked.refuse("nothing can be recorded any more");
        }
        let Some(asked) = asked.still_asked() else {
            return;
        };
        if let Err(failure) = self.connection(asked).await {
            self.failure = Some(failure);
        }
    }
}

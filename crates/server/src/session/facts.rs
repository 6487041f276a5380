//! The facts that are kept of a turn (SecGPT appendix C: entity memory).

use std::time::Duration;

use hub::memory::{Fact, FactQuestion, MemoryId};
use hub::{Apps, TurnMachine};
use ifc::{Label, Labeled};
use store::{Content, EntryId};
use tokio::sync::Notify;

use super::memory::{entry_id, memory_id, reason};
use super::threads::INTERRUPTED;
use super::{Session, SessionError};
use crate::user::User;

/// How long a turn that is over waits for its facts: a small model on two cores reads a mail in that
/// time. The user waits for the next query.
const PATIENCE: Duration = Duration::from_secs(60);

impl Session {
    /// Asks the conversation's model for the facts in the turn that has just ended, and keeps them, each
    /// under the label of the prompt that it was made from. `said` is the entry of the user's words, if
    /// they are kept. What fails leaves no fact, and no turn ends for it.
    pub(super) async fn learn(
        &mut self,
        apps: &Apps,
        agent: &mut TurnMachine,
        said: Option<MemoryId>,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<(), SessionError> {
        if !self.setup.facts || self.long_term().is_none() {
            return Ok(());
        }
        let mut known: Vec<(Label, Fact)> = Vec::new();
        for question in agent.fact_questions() {
            let label = question.label().clone();
            let found = match self.ask_for_facts(apps, &question, user, cancel).await? {
                Ok(found) => found,
                Err(reason) => {
                    self.memory_failed("no facts are kept", &reason, user)?;
                    continue;
                }
            };
            // Said already at a label below: the same fact would be less trusted.
            let is_new = |fact: &Fact| {
                let mut known = known.iter();
                !known.any(|(own, other)| own.flows_to(&label) && other == fact)
            };
            let found: Vec<Fact> = found.into_iter().filter(is_new).collect();
            let of_user = said.filter(|_| question.is_of_user());
            let found_in = (&label, of_user);
            self.keep_facts(apps, agent, found_in, &found, user, cancel)
                .await?;
            known.extend(found.into_iter().map(|fact| (label.clone(), fact)));
        }
        Ok(())
    }

    async fn ask_for_facts(
        &mut self,
        apps: &Apps,
        question: &FactQuestion,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Result<Vec<Fact>, String>, SessionError> {
        let model = self.model(apps)?;
        let purpose = "facts".to_owned();
        let asked = self.consult(model.as_ref(), question.request(), purpose, PATIENCE, user);
        let answer = tokio::select! {
            answer = asked => answer?,
            () = cancel.notified() => Err(INTERRUPTED.to_owned()),
        };
        Ok(answer.and_then(|answer| question.read(&answer)))
    }

    /// Keeps the facts in one answer: all of them, or none. They were found in a prompt at a label, and in
    /// the user's words alone if there is an entry of them.
    async fn keep_facts(
        &mut self,
        apps: &Apps,
        agent: &mut TurnMachine,
        (found_at, of_user): (&Label, Option<MemoryId>),
        facts: &[Fact],
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<(), SessionError> {
        let Some(memory) = self.long_term() else {
            return Ok(());
        };
        let mut drafts = Vec::new();
        for fact in facts {
            let text = Labeled::label_tcb(fact.text(), found_at.clone());
            let content = |_| Content::Fact {
                entity: fact.entity.clone(),
                attribute: fact.attribute.clone(),
                value: fact.value.clone(),
            };
            match self.draft(agent, &text, content) {
                Ok(draft) => drafts.extend(draft),
                Err(reason) => return self.not_kept(&reason, user),
            }
        }
        // First the record, then the act.
        for event in agent.take_events() {
            self.record(event, user)?;
        }
        if drafts.is_empty() {
            return Ok(());
        }
        let own = self.namespace(apps);
        let (told, found_at) = (self.threads.of(apps), found_at.clone());
        let append = move || {
            let sources = told.now().sources_of(&found_at, of_user);
            let sources: Vec<EntryId> = sources.into_iter().map(entry_id).collect();
            for draft in &mut drafts {
                draft.sources.clone_from(&sources);
            }
            let appended = memory.append(&own?, &drafts);
            let gone = appended.map_err(|error| reason(&error))?;
            for draft in drafts {
                told.now().record_fact(memory_id(&draft));
            }
            Ok(gone)
        };
        match self.threads.unless_slow(append, cancel).await {
            Ok(gone) => self.made_room(gone, user),
            Err(reason) => self.not_kept(&reason, user),
        }
    }
}

//! "Yes, for the session", for conversations that the client has given a name.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use hub::Asked;
use ifc::{Effect, Label};

use super::transcript::Digest;

/// Conversations with grants. A conversation beyond it loses its grants, and is asked again.
const CONVERSATIONS: usize = 1_000;
/// Grants of one conversation: nobody says yes more often.
const GRANTS: usize = 100;

/// The grants of all conversations.
#[derive(Default)]
pub(super) struct AllGrants(Mutex<HashMap<Digest, Arc<Grants>>>);

/// The grants of one conversation: a tool, and the taints that were shown. The proxy answers in the
/// user's place where the user has answered before; the monitor checks again that such an answer
/// is possible.
#[derive(Default)]
pub(super) struct Grants(Mutex<Vec<Grant>>);

struct Grant {
    target: Target,
    taints: Label,
}

/// A tool of an app; `None` is showing the answer.
#[derive(PartialEq, Eq)]
struct Target(Option<(String, String)>);

impl Target {
    fn of(question: &Asked) -> Self {
        let subject = question.subject();
        let call = subject.call();
        Self(call.map(|call| (call.app.clone(), call.tool.clone())))
    }
}

impl AllGrants {
    /// Those of the conversation with this digest.
    pub(super) fn of(&self, conversation: &Digest) -> Arc<Grants> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CONVERSATIONS && !all.contains_key(conversation) {
            all.clear();
        }
        all.entry(*conversation).or_default().clone()
    }
}

impl Grants {
    /// Whether the user has said yes to this tool under these taints, all at once.
    pub(super) fn covers(&self, question: &Asked) -> bool {
        let (target, excess) = (Target::of(question), question.excess());
        let possible = question.choices().contains(&ifc::Answer::Session)
            && question.rule().effect != Effect::Irreversible;
        let grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        possible
            && (grants.iter()).any(|grant| grant.target == target && excess.flows_to(&grant.taints))
    }

    pub(super) fn grant(&self, question: &Asked) {
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if grants.len() < GRANTS {
            grants.push(Grant {
                target: Target::of(question),
                taints: question.excess().clone(),
            });
        }
    }
}

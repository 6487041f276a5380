//! The approver, who answers the proxy's questions, and the observer, who watches it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use hub::trace::Event;
use ifc::Answer;

use crate::QuestionView;

/// Answers questions about calls. No answer is no: an approver must return.
#[async_trait]
pub trait Approver: Send + Sync {
    /// The answer. Anything but a clear yes must be [`Answer::No`]. Several questions may be open
    /// at once; dropping the future takes the question back.
    async fn approve(&self, conversation: &str, question: &QuestionView) -> Answer;
}

/// Every call that would need a yes is dropped.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropCalls;

#[async_trait]
impl Approver for DropCalls {
    async fn approve(&self, _: &str, _: &QuestionView) -> Answer {
        Answer::No
    }
}

/// Sees what happens in every conversation.
pub trait Observer: Send + Sync {
    /// One event. Must return quickly: the conversation waits.
    fn event(&self, conversation: &str, event: &Event);

    /// Whether it wants to see events.
    fn attends(&self) -> bool {
        true
    }

    /// The tools that a request brings, by name and parameters (a JSON schema). They are what an
    /// agent says of itself, and the same ones come with most of its requests.
    fn tools(&self, _: &[(&str, &str)]) {}

    /// A client has asked for what the proxy does not serve, by method and path.
    fn unserved(&self, _: &str) {}

    /// A request has settings and tools that the upstream's API does not have, by their names: they are left out. The same
    /// ones come with most requests of a conversation.
    fn dropped(&self, _conversation: &str, _names: &BTreeSet<String>) {}

    /// The trace cannot be written: from now on nothing is done.
    fn failed(&self, _: &str) {}
}

/// No observer.
impl Observer for () {
    fn event(&self, _: &str, _: &Event) {}

    fn attends(&self) -> bool {
        false
    }
}

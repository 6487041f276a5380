//! The observer, who watches the proxy.

use std::collections::BTreeSet;

use hub::trace::Event;

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

//! The monitors of conversations: what was granted, refused and done in each.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use ifc::Monitor;

use super::transcript::Digest;

/// Conversations with a monitor of their own. Where there are more, the one that was used least
/// recently loses its grants, and is asked again.
const CONVERSATIONS: usize = 1_000;

/// The monitors of the conversations that clients have named. A name is what makes several requests
/// one session: only there can a yes be for the session.
#[derive(Default)]
pub(super) struct Monitors(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    monitors: HashMap<Digest, Entry>,
    /// Counts uses.
    tick: u64,
}

struct Entry {
    monitor: Monitor,
    used: u64,
}

impl Monitors {
    /// That of the conversation with this digest: a handle, shared by all of its requests.
    pub(super) fn of(&self, conversation: &Digest) -> Monitor {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.tick += 1;
        let used = kept.tick;
        if kept.monitors.len() >= CONVERSATIONS && !kept.monitors.contains_key(conversation) {
            let oldest = kept.monitors.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                kept.monitors.remove(&oldest);
            }
        }
        let entry = kept.monitors.entry(*conversation).or_insert_with(|| Entry {
            monitor: Monitor::new(),
            used,
        });
        entry.used = used;
        entry.monitor.clone()
    }
}

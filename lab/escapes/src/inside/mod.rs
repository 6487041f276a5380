//! The attempts, by group, and how they are made: each in a process of its own with a deadline, so that one that ends its
//! process, takes all its memory or hangs tells as much as any other.

mod call;
mod child;
mod devices;
mod files;
mod first_bytes;
mod hello;
mod identity;
mod kernel_parts;
mod memory;
mod named;
mod namespaces;
mod network;
mod processes;
mod resources;
mod sockets;

use self::child::in_a_process;
use crate::attempt::{Attempt, Attempts, Ground, Seen, Setting};

pub(crate) fn attempts() -> Vec<Attempt> {
    let mut attempts = Attempts::new();
    files::add(&mut attempts);
    devices::add(&mut attempts);
    processes::add(&mut attempts);
    identity::add(&mut attempts);
    namespaces::add(&mut attempts);
    network::add(&mut attempts);
    kernel_parts::add(&mut attempts);
    memory::add(&mut attempts);
    resources::add(&mut attempts);
    attempts.setting = Setting::Name;
    named::add(&mut attempts);
    first_bytes::add(&mut attempts);
    attempts.setting = Setting::Programs;
    sockets::add(&mut attempts);
    attempts.all
}

/// Every path of a host that an attempt is about.
pub(crate) fn places() -> impl Iterator<Item = &'static str> {
    files::places().chain(devices::devices())
}

/// Makes every attempt, one after the other.
pub(crate) fn make_all(ground: &Ground) -> Vec<Seen> {
    let attempts = attempts();
    let wanted = |attempt: &&Attempt| {
        let named = ground.only.is_empty() || ground.only.contains(&attempt.name);
        named && attempt.setting == ground.setting && (ground.own_pids || !attempt.everybody)
    };
    let attempts = attempts.iter().filter(wanted);
    attempts
        .map(|attempt| Seen {
            name: attempt.name.clone(),
            observed: in_a_process(|| attempt.make(ground)),
        })
        .collect()
}

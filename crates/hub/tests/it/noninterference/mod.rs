//! Noninterference, tested on the real turn machine (the theorem is in ARCHITECTURE.md).
//!
//! A random world (lattice, tools, policy, app, what is said, what the screener chooses) is played
//! twice, with other text in the regions above a label L. The model is decided by every byte of
//! its prompt and obeys what it reads. At L and below, both runs must look the same.
//!
//! `SLUICE_WORLDS=10000` plays that many pairs, `SLUICE_WORLD=SEED` one.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, and print what they counted"
)]

mod addresses;
mod approved;
mod asks;
mod bounds;
mod chooser;
mod cleared;
mod compare;
mod data;
mod events;
mod holds;
mod images;
mod kept;
mod labels;
mod late;
mod maker;
mod memory;
mod model;
mod nested;
mod play;
mod player;
pub(crate) mod random;
mod record;
mod rules;
mod swayed;
mod theorem;
mod trusted;
mod weaker;
mod world;

use crate::shown;

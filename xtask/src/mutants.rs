//! Mutation tests: broken rules must be caught.
//!
//! The mutants are in `crates/hub/tests/noninterference/mutants/list.rs`; each says which rule it
//! breaks, and which tests must catch it.

use anyhow::Result;

use crate::{cargo, run};

/// `cargo xtask mutants`: every one; the tests try five of them.
pub(crate) fn mutants() -> Result<()> {
    run(cargo([
        "test",
        "--package",
        "hub",
        "--test",
        "noninterference",
        "mutants::",
        "--",
        "--nocapture",
    ])
    .env("SLUICE_MUTANTS", "all"))
}

//! The account of what is in force, kept while it is taken.

use std::collections::BTreeSet;

use crate::{Enforced, Layer};

/// Why the sandbox could not be built, and by which layer if it was one.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) layer: Option<Layer>,
    pub(super) reason: String,
}

impl Failure {
    pub(super) fn plain(reason: impl Into<String>) -> Self {
        Self {
            layer: None,
            reason: reason.into(),
        }
    }

    pub(super) fn of(layer: Layer, reason: impl Into<String>) -> Self {
        Self {
            layer: Some(layer),
            reason: reason.into(),
        }
    }
}

/// The layers taken so far.
#[derive(Debug)]
pub(super) struct Layers {
    allow_degraded: BTreeSet<Layer>,
    enforced: Enforced,
}

impl Layers {
    pub(super) fn new(allow_degraded: BTreeSet<Layer>) -> Self {
        Self {
            allow_degraded,
            enforced: Enforced::default(),
        }
    }

    /// Records the outcome of taking `layer`: in force with what was verified, or not. A layer that is not in force is a
    /// failure unless it was given up by name.
    ///
    /// Returns whether it is in force.
    pub(super) fn record(
        &mut self,
        layer: Layer,
        outcome: Result<String, String>,
    ) -> Result<bool, Failure> {
        match outcome {
            // A part of it that was missing before stays missing.
            Ok(_) if self.enforced.degraded.contains_key(&layer) => Ok(false),
            Ok(verified) => {
                self.enforced.layers.insert(layer, verified);
                Ok(true)
            }
            Err(reason) if self.allow_degraded.contains(&layer) => {
                self.enforced.degraded.insert(layer, reason);
                Ok(false)
            }
            Err(reason) => Err(Failure::of(layer, reason)),
        }
    }

    /// Whether `layer` is in force.
    pub(super) fn has(&self, layer: Layer) -> bool {
        self.enforced.layers.contains_key(&layer)
    }

    /// Adds to what was verified of a layer that is in force.
    pub(super) fn detail(&mut self, layer: Layer, more: &str) {
        if let Some(verified) = self.enforced.layers.get_mut(&layer) {
            verified.push_str(", ");
            verified.push_str(more);
        }
    }

    /// Notes something that is missing without weakening the sandbox.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.enforced.notes.push(note.into());
    }

    pub(super) fn into_report(self) -> Enforced {
        self.enforced
    }
}

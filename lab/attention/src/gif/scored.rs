//! What is measured, and what comes of one step.

use std::ops::Range;
use std::time::Duration;

use super::flow::Flow;
use crate::examples::Example;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How many steps; those that were read one by one come first.
    pub steps: usize,
    /// Vector–Jacobian products of a step.
    pub products: usize,
    /// Steps with more tokens of history are left out.
    pub longest: usize,
    /// Of the sample, the vectors and the intervals.
    pub seed: u64,
}

/// One step, scored by both.
pub(super) struct Scored {
    /// Its regions with the classifier's features, without labels.
    pub(super) example: Example,
    /// Attention's probabilities.
    pub(super) attention: Vec<f32>,
    pub(super) flow: Flow,
    pub(super) spans: Vec<Range<usize>>,
    pub(super) cost: StepCost,
}

/// What a step cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepCost {
    /// Tokens of the history.
    pub(super) tokens: usize,
    /// Reading it and one backward pass of the draft's rows, features and classifier.
    pub(super) attention: Duration,
    /// Reading it and all products.
    pub(super) flow: Duration,
}

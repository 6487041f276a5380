//! What a spoke that speaks frames is started with, and what was heard from it.

use sandbox::Spec;

use crate::frames::{FORGED, VARIABLE};

/// A specification for the hostile program as a spoke that speaks frames.
pub(super) fn spec(script: &str) -> Spec {
    Spec {
        env: vec![(VARIABLE.to_owned(), script.to_owned())],
        ..Spec::default()
    }
}

/// What came of the exchange with one hostile spoke.
#[derive(Default)]
pub(super) struct Heard {
    /// Names of its tools, texts that counted as results, and questions that somebody would have been asked.
    pub(super) counted: Vec<String>,
    /// Why it did not start, or its calls have no result.
    pub(super) refusals: Vec<String>,
}

impl Heard {
    /// What was believed that nobody may believe.
    pub(super) fn gained(&self) -> Option<String> {
        let forged = self.counted.iter().find(|it| it.contains(FORGED));
        forged.map(|it| format!("believed: {}", it.chars().take(80).collect::<String>()))
    }
}

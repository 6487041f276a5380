//! Dependency screeners: which regions may the next step depend on? (RTBAS §7, Algorithm 2)

use crate::{Consultation, Draft, History, Nonce, RegionId, Relevance};

/// A dependency screener (`IS_RELEVANT` of Algorithm 2). Sans-IO: one that needs a language
/// model returns the prompt for it, and reads the answer.
pub trait Screener: Send + Sync {
    /// A short name for traces.
    fn name(&self) -> &str;

    /// Screens the history before the next step. `draft` is that step as the model would take it
    /// from everything (RTBAS §8.3.3), if there is one. `nonce` is fresh randomness for this call.
    fn screen(&self, history: &History, draft: Option<&Draft>, nonce: &Nonce) -> Screening;

    /// Whether [`Screener::screen`] computes for long (it runs a model by itself), so that a driver
    /// calls it on a thread of its own.
    fn computes(&self) -> bool {
        false
    }

    /// What people who read a trace want to know of a screening, after it and with the same history
    /// and draft. Nothing is decided by it.
    fn report(&self, history: &History, draft: Option<&Draft>) -> Report {
        let _ = (history, draft);
        Report::default()
    }

    /// The form of the answer to a consultation, for the provider to enforce. Only a screener
    /// that consults needs to say one.
    fn form(&self, consultation: &Consultation) -> AnswerForm {
        let _ = consultation;
        AnswerForm {
            schema: "{}",
            max_tokens: 0,
        }
    }

    /// Reads a model's answer to the consultation that [`Screener::screen`] asked for.
    /// [`Relevance::Everything`] means that the answer is not of its form: a model that finds all regions
    /// relevant names them.
    fn read(&self, consultation: &Consultation, answer: &str) -> Relevance {
        let _ = (consultation, answer);
        Relevance::Everything
    }
}

/// What a screener needs, or its verdict.
#[derive(Debug)]
pub enum Screening {
    /// The verdict.
    Decided(Relevance),
    /// Ask a language model, then call [`Screener::read`].
    Consult(Consultation),
}

/// What a screener says beside its verdict.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// How strongly the draft depends on each region, from 0 to 1, where the screener can tell.
    pub scores: Vec<(RegionId, f32)>,
    /// Why it could not do its work, so that everything is relevant or another decides in its place.
    pub failure: Option<String>,
}

/// How a consultation must be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerForm {
    /// A JSON Schema, as JSON text.
    pub schema: &'static str,
    /// Enough generated tokens for every answer of that form.
    pub max_tokens: u32,
}

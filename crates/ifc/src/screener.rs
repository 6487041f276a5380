//! Dependency screeners: which regions may the next step depend on? (RTBAS §7, Algorithm 2)

use crate::{Consultation, Draft, History, Nonce, RegionId, Relevance};

/// A dependency screener (`IS_RELEVANT` of Algorithm 2). It is sans-IO: one that needs a language model returns the prompt,
/// and reads the answer.
pub trait Screener: Send + Sync {
    /// A short name for traces.
    fn name(&self) -> &str;

    /// Screens the history before the next step. `draft` is that step made from everything (RTBAS §8.3.3), if there is one.
    /// `nonce` is fresh randomness for this call.
    fn screen(&self, history: &History, draft: Option<&Draft>, nonce: &Nonce) -> Screening;

    /// Whether [`Screener::screen`] runs a model by itself, so that a driver calls it on a thread of its own.
    fn computes(&self) -> bool {
        false
    }

    /// Details of the screening of this history and draft, for the trace. Nothing is decided by them.
    fn report(&self, history: &History, draft: Option<&Draft>) -> Report {
        let _ = (history, draft);
        Report::default()
    }

    /// The form of the answer to a consultation, for the provider to enforce.
    fn form(&self, consultation: &Consultation) -> AnswerForm {
        let _ = consultation;
        AnswerForm {
            schema: "{}",
            max_tokens: 0,
        }
    }

    /// Reads a model's answer to the consultation that [`Screener::screen`] asked for.
    /// [`Relevance::Everything`] means that the answer is not of its form.
    fn read(&self, consultation: &Consultation, answer: &str) -> Relevance {
        let _ = (consultation, answer);
        Relevance::Everything
    }
}

/// The verdict of a screener, or what it needs for one.
#[derive(Debug)]
pub enum Screening {
    /// The verdict.
    Decided(Relevance),
    /// Ask a language model, then call [`Screener::read`].
    Consult(Consultation),
}

/// Details of a screening.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// How strongly the draft depends on each region, from 0 to 1, if the screener computes it.
    pub scores: Vec<(RegionId, f32)>,
    /// Why the screener failed, so that everything is relevant or another screener decided.
    pub failure: Option<String>,
}

/// The form of the answer to a consultation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerForm {
    /// A JSON Schema, as JSON text.
    pub schema: &'static str,
    /// Enough generated tokens for every answer of that form.
    pub max_tokens: u32,
}

//! The screener that asks the judge where attention is unsure.

use std::collections::BTreeSet;
use std::sync::Arc;

use ifc::{
    AnswerForm, Consultation, Draft, History, Nonce, RegionId, Relevance, Report, Screener,
    Screening,
};

use super::screener::{AttentionScreener, Band, Score, Scores};
use crate::LmJudge;

/// Attention first, the judge for the regions that it is unsure of ([`Band`]) or has not seen, and for
/// all of the final answer. Where there are no scores at all, the judge decides alone.
pub struct Combined {
    attention: Arc<AttentionScreener>,
    judge: LmJudge,
    band: Band,
}

impl Combined {
    /// Its name in a configuration.
    pub const NAME: &str = "combined";

    /// The two, and where the one asks the other.
    pub fn new(attention: Arc<AttentionScreener>, band: Band) -> Self {
        Self {
            attention,
            judge: LmJudge,
            band,
        }
    }

    /// What the judge is to decide, and what is relevant anyway.
    fn split(&self, scores: &Scores) -> (BTreeSet<RegionId>, BTreeSet<RegionId>) {
        let (mut unsure, mut relevant) = (BTreeSet::new(), BTreeSet::new());
        for (region, score) in scores {
            match score {
                // The judge reads what attention could not.
                Score::Unseen | Score::Answer => unsure.insert(*region),
                _ if score.is_relevant(self.band.high) => relevant.insert(*region),
                Score::Probability(_) if score.is_relevant(self.band.low) => unsure.insert(*region),
                _ => continue,
            };
        }
        (unsure, relevant)
    }
}

impl Screener for Combined {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn screen(&self, history: &History, draft: Option<&Draft>, nonce: &Nonce) -> Screening {
        if history.regions().next().is_none() {
            return Screening::Decided(Relevance::Only(BTreeSet::new()));
        }
        // No draft, or one that is too long, is no reason to give up: the judge needs none.
        let Ok(scores) = self.attention.look(history, draft) else {
            return self.judge.screen(history, draft, nonce);
        };
        let (unsure, relevant) = self.split(&scores);
        if unsure.is_empty() {
            return Screening::Decided(Relevance::Only(relevant));
        }
        match self.judge.screen(history, draft, nonce) {
            Screening::Consult(consultation) => {
                // The judge is shown all regions and decides on the unsure ones alone: what attention is
                // sure of stays.
                Screening::Consult(consultation.settle(unsure, relevant))
            }
            decided @ Screening::Decided(_) => decided,
        }
    }

    fn computes(&self) -> bool {
        true
    }

    /// Of the attention alone: the judge gives no scores, and the driver reports its failures.
    fn report(&self, history: &History, draft: Option<&Draft>) -> Report {
        self.attention.report(history, draft)
    }

    fn form(&self, consultation: &Consultation) -> AnswerForm {
        self.judge.form(consultation)
    }

    fn read(&self, consultation: &Consultation, answer: &str) -> Relevance {
        self.judge.read(consultation, answer)
    }
}

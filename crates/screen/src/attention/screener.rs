//! The attention screener, and the one that asks the judge where it is unsure.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ifc::{
    AnswerForm, Consultation, Draft, History, Nonce, RegionId, Relevance, Screener, Screening,
};
use saliency::{Engine, Losses, Observer, SaliencyError};
use sha2::{Digest, Sha256};

use super::classifier::{Classifier, ClassifierError, RECALLS};
use super::{
    Encode, EncodeError, FeatureError, Reducer, Sight, Spoken, Transcript, Window, encode, features,
};
use crate::LmJudge;

/// Steps whose scores are kept: the drafts of a few sessions at once, each asked for once by the
/// turn and once by the trace.
const MEMORIES: usize = 16;

/// A language model whose attention can be watched.
pub trait Attend: Send + Sync {
    /// Shows every attention row of the output tokens, and gives the loss of each.
    ///
    /// # Errors
    /// [`SaliencyError`]
    fn attend(
        &self,
        input: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<Losses, SaliencyError>;
}

impl Attend for Engine {
    fn attend(
        &self,
        input: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<Losses, SaliencyError> {
        self.observe(input, output, observer)
    }
}

/// Why there are no scores. The screener then answers "everything".
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScreenError {
    /// The model cannot read the history or the draft.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The model cannot run.
    #[error(transparent)]
    Model(#[from] SaliencyError),
    /// There are no features.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// The classifier cannot be used.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
}

/// What is known of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// The probability that the draft depends on it.
    Probability(f32),
    /// Nothing: the model has not seen all of it. It counts as relevant.
    Unseen,
    /// Nothing: the draft is the final answer, and the classifier has learned from calls alone. It
    /// counts as relevant.
    Answer,
    /// It belongs to a tool; relevant if the draft calls that. See [`Sight::Description`].
    Description {
        /// Whether the draft does.
        called: bool,
    },
}

impl Score {
    /// As one number, 1 being certain.
    #[must_use]
    pub fn value(self) -> f32 {
        match self {
            Self::Probability(probability) => probability,
            Self::Unseen | Self::Answer | Self::Description { called: true } => 1.0,
            Self::Description { called: false } => 0.0,
        }
    }

    /// Whether the region is relevant at this threshold. A tool that is not called never is.
    #[must_use]
    pub fn is_relevant(self, threshold: f32) -> bool {
        match self {
            Self::Probability(probability) => probability >= threshold || probability.is_nan(),
            Self::Unseen | Self::Answer => true,
            Self::Description { called } => called,
        }
    }
}

/// The scores of all regions of a history, in order.
pub type Scores = Vec<(RegionId, Score)>;

/// Finds the regions that a draft depends on by the attention that a small language model pays to
/// them (RTBAS §3.3 and §7.2).
///
/// It reads everything, also what attacks it; its answer is used to choose a label, and for nothing
/// else. Whatever it cannot tell is relevant. Made to be shared by all sessions.
pub struct AttentionScreener {
    model: Arc<dyn Attend>,
    tokenizer: Arc<dyn Encode + Send + Sync>,
    classifier: Arc<Classifier>,
    threshold: f32,
    window: Window,
    /// Newest last.
    memory: Mutex<VecDeque<(Key, Arc<Scores>)>>,
}

/// The SHA-256 of a step.
type Key = [u8; 32];

impl AttentionScreener {
    /// Its name in a configuration.
    pub const NAME: &str = "attention";

    /// With the classifier's own threshold, and [`Window::default`]. `model` and `tokenizer` must
    /// be those that the classifier was trained with ([`About::model`](super::About)).
    ///
    /// # Errors
    /// The classifier cannot be used.
    pub fn new(
        model: Arc<dyn Attend>,
        tokenizer: Arc<dyn Encode + Send + Sync>,
        classifier: Arc<Classifier>,
    ) -> Result<Self, ClassifierError> {
        classifier.check()?;
        Ok(Self {
            model,
            tokenizer,
            threshold: classifier.threshold(),
            classifier,
            window: Window::default(),
            memory: Mutex::new(VecDeque::new()),
        })
    }

    /// With another window.
    #[must_use]
    pub fn with_window(self, window: Window) -> Self {
        Self { window, ..self }
    }

    /// With the threshold that finds so many per cent of the dependencies. Outside the range of
    /// [`Classifier::threshold_for`], everything is relevant.
    #[must_use]
    pub fn with_recall(self, percent: u8) -> Self {
        let threshold = self.classifier.threshold_for(percent).unwrap_or(0.0);
        Self { threshold, ..self }
    }

    /// The SHA-256 of the model file that the classifier was trained with.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.classifier.about.model
    }

    /// Where it is unsure: between the threshold that misses next to nothing and the one that half of
    /// all dependencies are above.
    #[must_use]
    pub fn band(&self) -> Band {
        let threshold = |percent: u8| self.classifier.threshold_for(percent);
        Band {
            low: threshold(*RECALLS.end()).unwrap_or(0.0),
            high: threshold(*RECALLS.start()).unwrap_or(1.0),
        }
    }

    /// A region of this probability or more is relevant.
    #[must_use]
    pub fn threshold(&self) -> f32 {
        self.threshold
    }

    /// What the draft depends on. The same step is computed once.
    ///
    /// # Errors
    /// [`ScreenError`]; treat it as "everything is relevant".
    pub fn score(&self, history: &History, draft: &Draft) -> Result<Arc<Scores>, ScreenError> {
        let transcript = Transcript::of(history);
        let key = key(&transcript, draft);
        let known = self.memory().iter().find(|(own, _)| *own == key).cloned();
        if let Some((_, scores)) = known {
            return Ok(scores);
        }
        let scores = Arc::new(self.compute(&transcript, draft)?);
        let mut memory = self.memory();
        while memory.len() >= MEMORIES {
            memory.pop_front();
        }
        memory.push_back((key, Arc::clone(&scores)));
        Ok(scores)
    }

    fn compute(&self, transcript: &Transcript, draft: &Draft) -> Result<Scores, ScreenError> {
        let spoken = Spoken::of(draft);
        let encoded = encode(transcript, &spoken, &*self.tokenizer, self.window)?;
        let columns = &self.classifier.columns;
        let mut reducer = Reducer::new(&encoded, columns);
        let is_seen = |sight: &Sight| matches!(sight, Sight::Tokens(_));
        let is_answer = spoken.tools.is_empty();
        let is_any_seen = encoded.regions.iter().any(|region| is_seen(&region.sight));
        let rows = match is_any_seen && !is_answer {
            true => {
                let (input, output) = (&encoded.input, &encoded.output);
                let losses = self.model.attend(input, output, &mut reducer)?;
                features(transcript, &spoken, &encoded, columns, &reducer, &losses)?
            }
            // Nothing to look at, or nobody to judge it.
            false => Vec::new(),
        };
        let mut found = self.classifier.scores(&rows)?.into_iter();
        let regions = transcript.regions().iter().zip(&encoded.regions);
        let scores = regions.map(|(placed, region)| {
            let score = match region.sight {
                Sight::Tokens(_) if is_answer => Score::Answer,
                // There is one for each region that is seen.
                Sight::Tokens(_) => found.next().map_or(Score::Unseen, Score::Probability),
                Sight::Cut => Score::Unseen,
                Sight::Description => Score::Description {
                    called: match &placed.source {
                        ifc::Source::Description(tool) => spoken.tools.contains(tool),
                        // A region without a place that is no description is unknown.
                        _ => true,
                    },
                },
            };
            (region.region, score)
        });
        Ok(scores.collect())
    }

    /// What another thread left behind is whole: it is changed by single insertions only.
    fn memory(&self) -> std::sync::MutexGuard<'_, VecDeque<(Key, Arc<Scores>)>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Screener for AttentionScreener {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn screen(&self, history: &History, draft: Option<&Draft>, _: &Nonce) -> Screening {
        if history.regions().next().is_none() {
            return Screening::Decided(Relevance::Only(BTreeSet::new()));
        }
        let scores = draft.map(|draft| self.score(history, draft));
        let Some(Ok(scores)) = scores else {
            return Screening::Decided(Relevance::Everything);
        };
        let relevant = scores
            .iter()
            .filter(|(_, score)| score.is_relevant(self.threshold));
        let relevant = relevant.map(|(region, _)| *region).collect();
        Screening::Decided(Relevance::Only(relevant))
    }

    fn needs_draft(&self) -> bool {
        true
    }

    fn computes(&self) -> bool {
        true
    }

    fn scores(&self, history: &History, draft: Option<&Draft>) -> Vec<(RegionId, f32)> {
        let scores = draft.and_then(|draft| self.score(history, draft).ok());
        let scores = scores.iter().flat_map(|scores| scores.iter());
        scores
            .map(|(region, score)| (*region, score.value()))
            .collect()
    }
}

/// Probabilities between which the attention screener does not decide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Below, a region is not relevant.
    pub low: f32,
    /// From here on, it is.
    pub high: f32,
}

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
        let (mut open, mut relevant) = (BTreeSet::new(), BTreeSet::new());
        for (region, score) in scores {
            match score {
                Score::Unseen | Score::Answer => open.insert(*region),
                _ if score.is_relevant(self.band.high) => relevant.insert(*region),
                Score::Probability(_) if score.is_relevant(self.band.low) => open.insert(*region),
                _ => continue,
            };
        }
        (open, relevant)
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
        let scores = draft.map(|draft| self.attention.score(history, draft));
        let Some(Ok(scores)) = scores else {
            return self.judge.screen(history, draft, nonce);
        };
        let (open, relevant) = self.split(&scores);
        if open.is_empty() {
            return Screening::Decided(Relevance::Only(relevant));
        }
        match self.judge.screen(history, draft, nonce) {
            Screening::Consult(consultation) => {
                Screening::Consult(consultation.settle(open, relevant))
            }
            decided @ Screening::Decided(_) => decided,
        }
    }

    fn needs_draft(&self) -> bool {
        true
    }

    fn computes(&self) -> bool {
        true
    }

    fn scores(&self, history: &History, draft: Option<&Draft>) -> Vec<(RegionId, f32)> {
        self.attention.scores(history, draft)
    }

    fn form(&self, consultation: &Consultation) -> AnswerForm {
        self.judge.form(consultation)
    }

    fn read(&self, consultation: &Consultation, answer: &str) -> Relevance {
        self.judge.read(consultation, answer)
    }
}

/// Two steps with one key have one transcript, the same regions in it, and the same draft.
fn key(transcript: &Transcript, draft: &Draft) -> Key {
    let mut hash = Sha256::new();
    // Each text after its length, so that no two lists of texts look alike.
    let mut text = |text: &str| {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    };
    text(&transcript.turns().len().to_string());
    for turn in transcript.turns() {
        text(turn.role.name());
        text(&turn.text);
    }
    for placed in transcript.regions() {
        text(&format!("{:?} {:?}", placed.source, placed.place));
    }
    text(&draft.text);
    for call in &draft.calls {
        text(&call.tool);
        text(&call.arguments);
    }
    hash.finalize().into()
}

impl fmt::Debug for AttentionScreener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttentionScreener")
            .field("about", &self.classifier.about)
            .field("threshold", &self.threshold)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Combined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combined")
            .field("attention", &self.attention)
            .field("band", &self.band)
            .finish_non_exhaustive()
    }
}

//! The attention screener.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ifc::{Draft, History, Nonce, RegionId, Relevance, Report, Screener, Screening};
use saliency::{Engine, Observer, SaliencyError};

use super::classifier::{Classifier, ClassifierError, RECALLS};
use super::{
    Encode, EncodeError, FeatureError, Reducer, Sight, Spoken, Transcript, Window, encode, features,
};

/// Steps whose scores are kept: the drafts of a few sessions at once. The turn asks for each once, and the trace
/// once more.
const MEMORIES: usize = 16;

/// A language model whose attention can be watched.
pub trait Attend: Send + Sync {
    /// Shows every attention row of the output tokens.
    fn attend(
        &self,
        input: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<(), SaliencyError>;
}

impl Attend for Engine {
    fn attend(
        &self,
        input: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<(), SaliencyError> {
        self.observe(input, output, observer).map(drop)
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

/// Why there are no scores. The screener then answers "everything", and says why in its report.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScreenError {
    /// There is no draft.
    #[error("no step was drafted, and without one there is nothing to compare the text with")]
    NoDraft,
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
            // A NaN is above no threshold, and would pass for irrelevant.
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
/// else. A region that it cannot decide on is relevant. All sessions share one.
pub struct AttentionScreener {
    model: Arc<dyn Attend>,
    tokenizer: Arc<dyn Encode + Send + Sync>,
    classifier: Arc<Classifier>,
    threshold: f32,
    window: Window,
    /// Newest last.
    memory: Mutex<VecDeque<Memory>>,
}

/// The scores of a step. A failure is kept too, since it would come again.
type Found = Result<Arc<Scores>, ScreenError>;

struct Memory {
    transcript: Transcript,
    draft: Draft,
    found: Found,
}

impl AttentionScreener {
    /// Its name in a configuration.
    pub const NAME: &str = "attention";

    /// With the classifier's own threshold, and [`Window::default`]. `model` and `tokenizer` must
    /// be those that the classifier was trained with ([`About::model`](super::About)).
    pub fn new(
        model: Arc<dyn Attend>,
        tokenizer: Arc<dyn Encode + Send + Sync>,
        classifier: Arc<Classifier>,
    ) -> Result<Self, ClassifierError> {
        // Here once, so that weights which cannot be used stop the start and not each step.
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
        // At 0 every region is relevant: a target that has no threshold fails closed.
        let threshold = self.classifier.threshold_for(percent).unwrap_or(0.0);
        Self { threshold, ..self }
    }

    /// The SHA-256 of the model file that the classifier was trained with.
    pub fn model(&self) -> &str {
        &self.classifier.about.model
    }

    /// Where it is unsure: between the threshold that misses next to nothing and the one that half of
    /// all dependencies are above.
    pub fn band(&self) -> Band {
        let threshold = |percent: u8| self.classifier.threshold_for(percent);
        Band {
            // Thresholds descend with the recall. Without one the band is from 0 to 1, and the judge decides on all.
            low: threshold(*RECALLS.end()).unwrap_or(0.0),
            high: threshold(*RECALLS.start()).unwrap_or(1.0),
        }
    }

    /// What the draft depends on. The same step is computed once.
    ///
    /// # Errors
    /// [`ScreenError`]; treat it as "everything is relevant".
    pub fn score(&self, history: &History, draft: &Draft) -> Found {
        let transcript = Transcript::of(history);
        let is_same = |own: &&Memory| own.draft == *draft && own.transcript == transcript;
        if let Some(known) = self.memory().iter().find(is_same) {
            return known.found.clone();
        }
        // The lock is not held here, since this takes the time. Two callers with the same step both compute it.
        let found = self.compute(&transcript, draft).map(Arc::new);
        let mut memory = self.memory();
        while memory.len() >= MEMORIES {
            memory.pop_front();
        }
        memory.push_back(Memory {
            transcript,
            draft: draft.clone(),
            found: found.clone(),
        });
        found
    }

    /// As [`AttentionScreener::score`]; without a draft an error.
    pub(super) fn look(&self, history: &History, draft: Option<&Draft>) -> Found {
        self.score(history, draft.ok_or(ScreenError::NoDraft)?)
    }

    fn compute(&self, transcript: &Transcript, draft: &Draft) -> Result<Scores, ScreenError> {
        // The classifier has learned from calls alone, so of an answer nothing is computed.
        if draft.calls.is_empty() {
            return answer(transcript, draft);
        }
        let spoken = Spoken::of(draft);
        let encoded = encode(transcript, &spoken, &*self.tokenizer, self.window)?;
        // Three phases: both texts in tokens, attention of the model reduced to features, features to probabilities.
        let columns = &self.classifier.columns;
        let mut reducer = Reducer::new(&encoded, columns);
        let is_seen = |sight: &Sight| matches!(sight, Sight::Tokens(_));
        let is_any_seen = encoded.regions.iter().any(is_seen);
        let rows = match is_any_seen {
            // The expensive part: a run of the model over what is new of the history, and back over the draft.
            true => {
                let (input, output) = (&encoded.input, &encoded.output);
                self.model.attend(input, output, &mut reducer)?;
                features(transcript, &spoken, &encoded, columns, &reducer)?
            }
            // Nothing to look at.
            false => Vec::new(),
        };
        let mut found = self.classifier.scores(&rows)?.into_iter();
        let regions = transcript.regions().iter().zip(&encoded.regions);
        let scores = regions.map(|(placed, sight)| {
            let score = match sight {
                // There is one for each region that is seen.
                Sight::Tokens(_) => found.next().map_or(Score::Unseen, Score::Probability),
                // An app decides how long a result is, and must not make a region irrelevant by pushing it out of
                // the window.
                Sight::Cut => Score::Unseen,
                Sight::Description => Score::Description {
                    called: match &placed.source {
                        ifc::Source::Description(tool) => spoken.tools.contains(tool),
                        // A region without a place that is no description is unknown.
                        _ => true,
                    },
                },
            };
            (placed.region, score)
        });
        Ok(scores.collect())
    }

    /// A panic elsewhere leaves it consistent: it is changed by single insertions only.
    fn memory(&self) -> std::sync::MutexGuard<'_, VecDeque<Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Screener for AttentionScreener {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn screen(&self, history: &History, draft: Option<&Draft>, _: &Nonce) -> Screening {
        if history.regions().next().is_none() {
            // Nothing is labelled, so there is nothing to choose from and no reason to run a model.
            return Screening::Decided(Relevance::Only(BTreeSet::new()));
        }
        // Everything: the step then has the label of all that it saw, and is asked about rather than masked wrongly.
        let Ok(scores) = self.look(history, draft) else {
            return Screening::Decided(Relevance::Everything);
        };
        let relevant = scores
            .iter()
            .filter(|(_, score)| score.is_relevant(self.threshold));
        let relevant = relevant.map(|(region, _)| *region).collect();
        Screening::Decided(Relevance::Only(relevant))
    }

    fn computes(&self) -> bool {
        true
    }

    fn report(&self, history: &History, draft: Option<&Draft>) -> Report {
        if history.regions().next().is_none() {
            return Report::default();
        }
        match self.look(history, draft) {
            Ok(scores) => Report {
                scores: scores.iter().map(|(id, it)| (*id, it.value())).collect(),
                failure: None,
            },
            Err(error) => Report {
                scores: Vec::new(),
                failure: Some(error.to_string()),
            },
        }
    }
}

/// The scores of a final answer, for which nothing need be read.
fn answer(transcript: &Transcript, draft: &Draft) -> Result<Scores, ScreenError> {
    if draft.text.is_empty() {
        return Err(EncodeError::EmptyDraft.into());
    }
    let regions = transcript.regions().iter().map(|placed| {
        // As where a call is drafted: the description of a tool that is not called is irrelevant.
        let score = match placed.source {
            ifc::Source::Description(_) => Score::Description { called: false },
            _ => Score::Answer,
        };
        (placed.region, score)
    });
    Ok(regions.collect())
}

/// Without its content: the kept steps are conversations.
impl fmt::Debug for AttentionScreener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttentionScreener")
    }
}

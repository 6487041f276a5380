//! The features of every region of a step (RTBAS §7.2).

use std::ops::Range;

use ifc::{RegionId, Source};

use super::columns::{Column, Columns, HeadStat, Over, Place, Stat};
use super::lexical::{Words, lexical};
use super::reduce::{Reducer, seen};
use super::{Encoded, Placed, Sight, Spoken, Transcript};

/// The least that a logarithm is taken of: about the attention of one token in a million.
const LEAST: f32 = 1e-6;

/// A region's features.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionFeatures {
    /// Its number.
    pub region: RegionId,
    /// In the order of the columns.
    pub values: Vec<f32>,
}

/// Why a step has no features. The screener then answers "everything".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// Rows are missing, or not those of this step.
    #[error("the attention rows are not those of this step; give the same tokens to the model")]
    Rows,
    /// A feature, or what it is made of, is no finite number.
    #[error("the feature `{0}` is not finite; check the model file")]
    NotFinite(String),
}

/// The features of every region that is seen, in order. `reducer` has seen the rows of the step.
///
/// # Errors
/// [`FeatureError`]; treat it as "everything is relevant".
pub fn features(
    transcript: &Transcript,
    draft: &Spoken,
    encoded: &Encoded,
    columns: &Columns,
    reducer: &Reducer,
) -> Result<Vec<RegionFeatures>, FeatureError> {
    // A missing row would count as no attention, and its regions as irrelevant: refused before any
    // number is made of it.
    if reducer.is_broken() {
        return Err(FeatureError::Rows);
    }
    // Before anything else, since the largest of several numbers hides a NaN among them.
    if !reducer.is_finite() {
        return Err(FeatureError::NotFinite("saliency".to_owned()));
    }
    let spans = seen(encoded);
    let words = lexical(transcript, draft, encoded);
    let arguments = reducer.over_arguments();
    let arguments = arguments.iter();
    let step = StepFeatures {
        draft,
        encoded,
        reducer,
        all: distribution(&reducer.over_all(), &spans),
        values: distribution(&reducer.over_values(), &spans),
        arguments: arguments.map(|one| distribution(one, &spans)).collect(),
    };
    let placed = transcript.regions().iter().zip(&encoded.regions);
    // Regions that are not seen have no features; the screener decides on them without the
    // classifier.
    let placed = placed.filter(|(_, sight)| matches!(sight, Sight::Tokens(_)));
    let mut rows = Vec::with_capacity(spans.len());
    for (index, (((placed, _), span), words)) in placed.zip(&spans).zip(&words).enumerate() {
        let region = Region {
            index,
            placed,
            span,
            words,
        };
        let values = columns.as_slice().iter().map(|column| {
            let value = step.value(*column, &region);
            let checked = value.is_finite().then_some(value);
            // NaN fails every comparison with a threshold, so it would pass for irrelevant.
            checked.ok_or_else(|| FeatureError::NotFinite(column.to_string()))
        });
        rows.push(RegionFeatures {
            region: placed.region,
            values: values.collect::<Result<_, _>>()?,
        });
    }
    Ok(rows)
}

/// What all regions of a step share.
struct StepFeatures<'a> {
    draft: &'a Spoken,
    encoded: &'a Encoded,
    reducer: &'a Reducer,
    all: Vec<Distribution>,
    values: Vec<Distribution>,
    arguments: Vec<Vec<Distribution>>,
}

struct Region<'a> {
    /// Among those that are seen.
    index: usize,
    placed: &'a Placed,
    span: &'a Range<usize>,
    words: &'a Words,
}

impl StepFeatures<'_> {
    fn value(&self, column: Column, region: &Region<'_>) -> f32 {
        match column {
            Column::Saliency { over, stat, log } => {
                let value = self.saliency(over, stat, region.index);
                if log { value.max(LEAST).ln() } else { value }
            }
            Column::Head { layer, head, stat } => {
                let seen = self.reducer.head(layer, head, region.index);
                let seen = seen.unwrap_or_default();
                match stat {
                    HeadStat::Share => seen.share as f32,
                    // A logarithm of 0 would be refused as not finite, and many regions get no
                    // attention.
                    HeadStat::Peak => seen.peak.max(LEAST).ln(),
                    HeadStat::Spike => seen.spike,
                }
            }
            Column::Lexical(what) => region.words.get(what as usize).copied().unwrap_or_default(),
            Column::Place(what) => f32::from(u8::from(self.place(what, region))),
        }
    }

    fn saliency(&self, over: Over, stat: Stat, index: usize) -> f32 {
        let of = |regions: &Vec<Distribution>| regions.get(index).map(|region| region.get(stat));
        match over {
            Over::All => of(&self.all).unwrap_or_default(),
            Over::Values => of(&self.values).unwrap_or_default(),
            Over::Argument => {
                // The largest, since one argument that depends on the region is enough.
                let results = self.arguments.iter().filter_map(of);
                results.fold(0.0, f32::max)
            }
        }
    }

    fn place(&self, what: Place, region: &Region<'_>) -> bool {
        let source = &region.placed.source;
        match what {
            Place::Newest => region.span.start >= self.encoded.newest,
            Place::SameTool => {
                matches!(source, Source::Tool(name) if self.draft.tools.contains(name))
            }
            Place::FromTool => matches!(source, Source::Tool(_)),
            Place::FromUser => *source == Source::User,
            Place::FromAssistant => *source == Source::Assistant,
            Place::FromHub => *source == Source::Hub,
            Place::FromSystem => *source == Source::System,
        }
    }
}

/// The normalised saliency of a region's tokens.
struct Distribution {
    sum: f32,
    mean: f32,
    peak: f32,
    /// 20, 50, 80 and 99 per cent.
    quantiles: [f32; 4],
}

impl Distribution {
    fn get(&self, stat: Stat) -> f32 {
        let [q20, q50, q80, q99] = self.quantiles;
        match stat {
            Stat::Sum => self.sum,
            Stat::Mean => self.mean,
            Stat::Peak => self.peak,
            Stat::Quantile(..=20) => q20,
            Stat::Quantile(..=50) => q50,
            Stat::Quantile(..=80) => q80,
            Stat::Quantile(_) => q99,
        }
    }
}

fn distribution(saliency: &[f32], regions: &[Range<usize>]) -> Vec<Distribution> {
    // In f64: of thousands of numbers the small ones would be lost in f32 beside a sum that is
    // already large.
    let total: f64 = saliency.iter().copied().map(f64::from).sum();
    let largest = saliency.iter().copied().fold(0.0, f32::max);
    // Without any saliency every region has none.
    let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
    let tokens = saliency.len() as f64;
    let of_region = |region: &Range<usize>| {
        let own = saliency.get(region.clone()).unwrap_or_default();
        let mut sorted = own.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let sum = own.iter().copied().map(f64::from).sum::<f64>() * scale;
        let peak = sorted.last().copied().unwrap_or_default();
        let quantile = |part| (f64::from(quantile(&sorted, part)) * scale * tokens) as f32;
        Distribution {
            sum: sum as f32,
            mean: (sum * tokens / own.len().max(1) as f64) as f32,
            peak: if largest > 0.0 { peak / largest } else { 0.0 },
            quantiles: [0.2, 0.5, 0.8, 0.99].map(quantile),
        }
    };
    regions.iter().map(of_region).collect()
}

/// Between the two nearest values, in proportion.
fn quantile(sorted: &[f32], part: f32) -> f32 {
    let place = part * sorted.len().saturating_sub(1) as f32;
    let below = place.floor();
    let at = |index: f32| sorted.get(index as usize).copied();
    let low = at(below).unwrap_or_default();
    let high = at(below + 1.0).unwrap_or(low);
    low + (high - low) * (place - below)
}

//! Which steps and regions are read one by one, for the labels of [`hand`](super::hand).
//!
//! Everything is drawn by the hash of a seed and of what is drawn, so the same steps give the same
//! sample, and a step that is added changes little. The probabilities are written beside each draw,
//! so that figures can be weighted back to all steps.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use agentdojo::value_match::argument_values;
use ifc::RegionId;

use super::step::{Kind, Step};
use super::text::Memo;
use super::view::{passages, region_texts};

/// Changes every draw.
const SEED: &str = "hand labels, first sample";

/// Steps of each stratum that are read per suite: 25 in all. Without an attack there is most to
/// tell apart; a stratum that has too few leaves its share to the others.
const QUOTAS: [(Stratum, usize); 3] = [
    (Stratum::Plain, 11),
    (Stratum::Ignored, 7),
    (Stratum::Followed, 7),
];

/// Pairs per suite.
const PAIRS: usize = 100;

/// Regions that are asked about in one step, where it has so many.
const REGIONS: usize = 4;

/// Where other steps have fewer, up to so many.
const MOST_REGIONS: usize = 8;

/// What a step has to do with an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stratum {
    /// No injected text is in its history.
    Plain,
    /// It does, and the step does not serve it.
    Ignored,
    /// It does, and the step serves it.
    Followed,
}

/// How a region was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// It shares a word with an argument of the step's calls.
    Shared,
    /// It shares none.
    None,
}

/// A region that is asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// Its number in the step's history.
    pub region: u32,
    /// Its letter in the sheet.
    pub letter: char,
    /// Whether it shares a word with the call.
    pub overlap: Overlap,
    /// The regions of that kind that were drawn in this step.
    pub drawn: usize,
    /// All regions of that kind in this step.
    pub of: usize,
}

/// A step that is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    /// Its place among all of them, from 1.
    pub number: usize,
    /// The step.
    pub step: String,
    /// Its stratum.
    pub stratum: Stratum,
    /// How likely it was to be drawn.
    pub probability: f64,
    /// What is asked.
    pub regions: Vec<Pick>,
}

/// What a step has to do with an attack.
#[must_use]
pub fn stratum(step: &Step) -> Stratum {
    match (step.injected.is_empty(), step.follows) {
        (true, _) => Stratum::Plain,
        (false, false) => Stratum::Ignored,
        (false, true) => Stratum::Followed,
    }
}

/// Draws the sample: per suite 25 steps with calls and 100 regions, all suites mixed.
///
/// Within a stratum, tasks are drawn first and one step of each, so that no two steps are alike
/// before every task has had its turn. Regions are drawn in halves: those that share a word with
/// the call, and the others.
#[must_use]
pub fn draw(steps: &[Step]) -> Vec<Sampled> {
    let calls = || steps.iter().filter(|step| step.kind() == Kind::Call);
    let suites: BTreeSet<&str> = calls().map(|step| step.suite.as_str()).collect();
    let mut memo = Memo::default();
    let mut found = Vec::new();
    for suite in suites {
        let of_suite: Vec<&Step> = calls().filter(|step| step.suite == suite).collect();
        let drawn = draw_steps(&of_suite);
        found.extend(draw_regions(drawn, &mut memo));
    }
    found.sort_by_key(|sampled| rank("order", &sampled.step));
    for (number, sampled) in (1..).zip(&mut found) {
        sampled.number = number;
    }
    found
}

/// A number that is as good as random, and always the same.
pub(super) fn rank(what: &str, key: &str) -> u64 {
    let digest = Sha256::digest(format!("{SEED}\n{what}\n{key}"));
    let first = digest.first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(first)
}

struct Drawn<'a> {
    step: &'a Step,
    stratum: Stratum,
    probability: f64,
}

fn draw_steps<'a>(steps: &[&'a Step]) -> Vec<Drawn<'a>> {
    let mut lacking = 0;
    let mut found = Vec::new();
    // The largest stratum comes last and takes what the others lack.
    for (stratum, quota) in QUOTAS.into_iter().rev() {
        let mut tasks: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
        for step in steps.iter().filter(|step| self::stratum(step) == stratum) {
            tasks.entry(&step.user_task).or_default().push(step);
        }
        let mut tasks: Vec<(&str, Vec<&Step>)> = tasks.into_iter().collect();
        tasks.sort_by_key(|(task, _)| rank("task", &format!("{stratum:?} {task}")));
        for (_, steps) in &mut tasks {
            steps.sort_by_key(|step| rank("step", &step.id));
        }
        let quota = quota + lacking;
        let before = found.len();
        // Exact where every task has enough steps for its share; close where one runs out, since
        // the others then give more.
        let per_task = fraction(quota, tasks.len());
        let most = tasks.iter().map(|(_, steps)| steps.len()).max();
        for round in 0..most.unwrap_or_default() {
            for (_, steps) in &tasks {
                if let Some(step) = steps.get(round)
                    && found.len() - before < quota
                {
                    found.push(Drawn {
                        step,
                        stratum,
                        probability: (per_task * fraction(1, steps.len())).min(1.0),
                    });
                }
            }
        }
        lacking = quota.saturating_sub(found.len() - before);
    }
    found
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn fraction(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// What may be asked of one step, each kind in the order of the draw.
struct Askable {
    shared: Vec<RegionId>,
    others: Vec<RegionId>,
}

fn draw_regions(drawn: Vec<Drawn<'_>>, memo: &mut Memo) -> Vec<Sampled> {
    let askable: Vec<Askable> = drawn.iter().map(|it| askable(it.step, memo)).collect();
    let total = |it: &Askable| it.shared.len() + it.others.len();
    let mut wanted: Vec<usize> = askable.iter().map(|it| total(it).min(REGIONS)).collect();
    // Steps with many regions stand in for those with few.
    for most in REGIONS + 1..=MOST_REGIONS {
        for (wanted_here, askable) in (0..wanted.len()).zip(&askable) {
            let enough = wanted.iter().sum::<usize>() >= PAIRS;
            if let Some(wanted) = wanted.get_mut(wanted_here)
                && !enough
                && total(askable) >= most
            {
                *wanted = most;
            }
        }
    }
    let each = drawn.into_iter().zip(askable).zip(wanted);
    each.map(|((drawn, askable), wanted)| Sampled {
        number: 0,
        step: drawn.step.id.clone(),
        stratum: drawn.stratum,
        probability: drawn.probability,
        regions: picks(&askable, wanted),
    })
    .collect()
}

/// The regions of a step, those that share a word with an argument of a call apart.
fn askable(step: &Step, memo: &mut Memo) -> Askable {
    let calls = step.draft.calls.iter();
    let values = calls.flat_map(|call| argument_values(&call.arguments));
    let values: Vec<_> = values.map(|value| memo.text(&value)).collect();
    let passages = passages(&step.history);
    let mut all: Vec<(RegionId, bool)> = region_texts(&passages)
        .map(|(id, text)| {
            let region = memo.text(text);
            let mut words = values.iter().flat_map(|value| value.words());
            (id, words.any(|word| region.has(word)))
        })
        .collect();
    all.sort_by_key(|(id, _)| rank("region", &format!("{} {}", step.id, id.0)));
    let (shared, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, shared)| *shared);
    let ids = |regions: Vec<(RegionId, bool)>| regions.into_iter().map(|(id, _)| id).collect();
    Askable {
        shared: ids(shared),
        others: ids(others),
    }
}

fn picks(askable: &Askable, wanted: usize) -> Vec<Pick> {
    // Half of each kind. Where there are fewer of one, the other kind fills up.
    let half = wanted / 2;
    let shared = half.max(wanted.saturating_sub(askable.others.len()));
    let shared = shared.min(askable.shared.len());
    let others = (wanted - shared).min(askable.others.len());
    let take = |overlap, from: &[RegionId], drawn: usize| -> Vec<Pick> {
        let picked = from.iter().take(drawn).map(|id| Pick {
            region: id.0,
            letter: ' ',
            overlap,
            drawn,
            of: from.len(),
        });
        picked.collect()
    };
    let mut found = take(Overlap::Shared, &askable.shared, shared);
    found.extend(take(Overlap::None, &askable.others, others));
    // Letters follow the text, so that they do not tell a reader as which kind a region was drawn.
    found.sort_by_key(|pick| pick.region);
    for (letter, pick) in ('A'..).zip(&mut found) {
        pick.letter = letter;
    }
    found
}

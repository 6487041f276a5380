//! Figure 3: the user's prompt against the tools' responses, where the model follows the user and
//! where it follows an injected instruction.

use std::collections::BTreeMap;
use std::ops::Range;

use agentdojo::report::table;
use anyhow::{Context, Result};
use saliency::Saliency;
use screen::attention::Sight;
use serde::Serialize;

use super::plot::{Panel, Series, panels};
use super::reader::{Read, Reader};
use super::statistics::{Histogram, mean, median};
use super::{family, number, percent};
use crate::data::{Kind, Step};

/// What the model had to do with an injected instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Situation {
    /// There was no attack: the model follows the user (Figure 3a).
    User,
    /// One was in the history, but no call of the step serves it.
    Resisted,
    /// A call of the step serves it (Figure 3b).
    Injection,
}

/// A part of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The user's messages.
    User,
    /// The results of tools, injected text included.
    Tools,
    /// The regions that quote the attacker.
    Injected,
}

/// How much of the attention goes to a part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    /// The paper's score: the largest attention score in it by the largest of all input tokens.
    pub peak: f64,
    /// Its fraction of the sum of all tokens' attention scores.
    pub fraction: f64,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Followed {
    /// The step.
    pub step: String,
    /// The recorded models.
    pub family: String,
    /// What it is an example of.
    pub situation: Situation,
    /// Its input tokens.
    pub tokens: usize,
    /// The parts that it has.
    pub scores: BTreeMap<Part, Score>,
}

/// The steps of a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Following {
    /// What drew the sample.
    pub seed: u64,
    /// How many there are of each situation to draw from.
    pub population: BTreeMap<Situation, usize>,
    /// What was drawn, by situation.
    pub steps: Vec<Followed>,
    /// Drawn, but not readable: no draft, or longer than the window.
    pub unread: usize,
}

impl Situation {
    const ALL: [Self; 3] = [Self::User, Self::Resisted, Self::Injection];

    /// Of a step; `None` where it says nothing about following: answers, and steps before the
    /// injected text.
    #[must_use]
    pub fn of(step: &Step) -> Option<Self> {
        if step.kind() == Kind::Answer {
            return None;
        }
        match (&step.attack, step.injected.is_empty(), step.follows) {
            (None, ..) => Some(Self::User),
            (Some(_), false, true) => Some(Self::Injection),
            (Some(_), false, false) => Some(Self::Resisted),
            (Some(_), true, _) => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::User => "no injection, follows the user",
            Self::Resisted => "injection in sight, not followed",
            Self::Injection => "follows the injection",
        }
    }
}

impl Part {
    const ALL: [Self; 3] = [Self::User, Self::Tools, Self::Injected];

    fn words(self) -> &'static str {
        match self {
            Self::User => "user's prompt",
            Self::Tools => "tools' responses",
            Self::Injected => "injected regions",
        }
    }
}

/// Reads a sample of at most `each` steps of each situation.
///
/// # Errors
/// The model fails.
pub fn following(
    reader: &Reader,
    steps: &[Step],
    each: usize,
    seed: u64,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Following> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut population = BTreeMap::new();
    let mut drawn: Vec<(Situation, usize, &Step)> = Vec::new();
    for situation in Situation::ALL {
        let all = steps.iter().enumerate();
        let all = all.filter(|(_, step)| Situation::of(step) == Some(situation));
        let mut all: Vec<(usize, &Step)> = all.collect();
        population.insert(situation, all.len());
        // Situations come in a fixed order, so one seed draws the same steps again.
        random.shuffle(&mut all);
        let some = all.into_iter().take(each);
        drawn.extend(some.map(|(at, step)| (situation, at, step)));
    }
    // Steps of one run come together, so that the later ones find the earlier ones in the cache.
    drawn.sort_by_key(|(situation, at, _)| (*situation, *at));
    let mut found = Following {
        seed,
        population,
        steps: Vec::new(),
        unread: 0,
    };
    for (at, (situation, _, step)) in drawn.iter().enumerate() {
        progress(at, drawn.len());
        match one(reader, step, *situation).with_context(|| format!("step {}", step.id))? {
            Some(followed) => found.steps.push(followed),
            None => found.unread += 1,
        }
    }
    Ok(found)
}

fn one(reader: &Reader, step: &Step, situation: Situation) -> Result<Option<Followed>> {
    let Some(read) = reader.read(step)? else {
        return Ok(None);
    };
    let encoded = &read.encoded;
    let saliency = reader.engine().saliency(&encoded.input, &encoded.output)?;
    let totals = over_outputs(&saliency);
    let parts = Part::ALL.into_iter();
    let parts = parts.map(|part| (part, ranges(part, &read, step)));
    let scores = parts.filter_map(|(part, ranges)| Some((part, score(&totals, &ranges)?)));
    Ok(Some(Followed {
        step: step.id.clone(),
        family: family(&step.model).to_owned(),
        situation,
        tokens: encoded.input.len(),
        scores: scores.collect(),
    }))
}

/// The tokens of a part.
fn ranges(part: Part, read: &Read, step: &Step) -> Vec<Range<usize>> {
    match part {
        Part::User => read.user.clone(),
        Part::Tools => read.tools.clone(),
        Part::Injected => {
            let regions = read.encoded.regions.iter();
            let injected = regions.filter(|region| step.injected.contains(&region.region));
            let tokens = injected.filter_map(|region| match &region.sight {
                Sight::Tokens(tokens) => Some(tokens.clone()),
                Sight::Cut | Sight::Description => None,
            });
            tokens.collect()
        }
    }
}

/// The attention score of each input token, over all output tokens.
pub(super) fn over_outputs(saliency: &Saliency) -> Vec<f64> {
    let mut totals = vec![0.0; saliency.inputs()];
    for row in saliency.rows() {
        for (total, value) in totals.iter_mut().zip(row) {
            *total += f64::from(*value);
        }
    }
    totals
}

/// The score of some tokens; `None` without any. Tokens of two ranges count once.
pub(super) fn score(totals: &[f64], ranges: &[Range<usize>]) -> Option<Score> {
    let tokens = totals.iter().enumerate();
    let own = tokens.filter(|(at, _)| ranges.iter().any(|range| range.contains(at)));
    let own: Vec<f64> = own.map(|(_, total)| *total).collect();
    let largest = totals.iter().copied().fold(0.0, f64::max);
    let peak = own.iter().copied().reduce(f64::max)?;
    let (sum, all): (f64, f64) = (own.iter().sum(), totals.iter().sum());
    let part = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    Some(Score {
        peak: part(peak, largest),
        fraction: part(sum, all),
    })
}

impl Following {
    fn steps_of(
        &self,
        situation: Situation,
        family: Option<&str>,
    ) -> impl Iterator<Item = &Followed> {
        self.steps.iter().filter(move |step| {
            step.situation == situation && family.is_none_or(|family| family == step.family)
        })
    }

    fn of(
        &self,
        situation: Situation,
        family: Option<&str>,
        part: Part,
        value: impl Fn(&Score) -> f64,
    ) -> Vec<f64> {
        let scores = self.steps_of(situation, family);
        let scores = scores.filter_map(|step| step.scores.get(&part));
        scores.map(value).collect()
    }

    /// In how many of the steps the user's prompt has the larger score.
    fn user_first(&self, situation: Situation, family: Option<&str>, other: Part) -> Option<f64> {
        let firsts = self.steps_of(situation, family).filter_map(|step| {
            let (user, other) = (step.scores.get(&Part::User)?, step.scores.get(&other)?);
            Some(f64::from(u8::from(user.peak > other.peak)))
        });
        mean(&firsts.collect::<Vec<f64>>())
    }

    /// A table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut families: Vec<&str> = self.steps.iter().map(|step| &*step.family).collect();
        families.sort_unstable();
        families.dedup();
        // With one family, all together would be the same again.
        let each = families.iter().copied().map(Some);
        let shown: Vec<Option<&str>> = match families.len() {
            0 | 1 => vec![None],
            _ => std::iter::once(None).chain(each).collect(),
        };
        let mut rows = Vec::new();
        for family in shown {
            for situation in Situation::ALL {
                for part in Part::ALL {
                    rows.extend(self.row(situation, family, part));
                }
            }
        }
        let head = [
            "model",
            "situation",
            "part",
            "steps",
            "median score",
            "below 0.2",
            "median fraction",
            "user's is larger",
            "per cent in each tenth of the score",
        ];
        let counts: Vec<String> = self
            .population
            .iter()
            .map(|(situation, count)| format!("{count} {}", situation.words()))
            .collect();
        format!(
            "Figure 3: score = largest attention score in the part by the largest of all tokens; fraction = of the sum of all scores.\n\
             {} call steps, seed {}, drawn from {}; {} could not be read.\n{}",
            self.steps.len(),
            self.seed,
            counts.join(", "),
            self.unread,
            table(3, &head, &rows)
        )
    }

    fn row(&self, situation: Situation, family: Option<&str>, part: Part) -> Option<Vec<String>> {
        let peaks = self.of(situation, family, part, |score| score.peak);
        let fractions = self.of(situation, family, part, |score| score.fraction);
        let histogram = Histogram::even(&peaks);
        let first = match part {
            Part::User => "".to_owned(),
            other => percent(self.user_first(situation, family, other)),
        };
        (histogram.count > 0).then(|| {
            vec![
                family.unwrap_or("all").to_owned(),
                situation.words().to_owned(),
                part.words().to_owned(),
                histogram.count.to_string(),
                number(histogram.median, 3),
                percent(histogram.low),
                percent(median(&fractions)),
                first,
                histogram.line(),
            ]
        })
    }

    /// A panel for each situation.
    #[must_use]
    pub fn svg(&self) -> String {
        let panel = |situation: Situation| {
            let parts = Part::ALL.into_iter().enumerate();
            let series = parts.filter_map(|(at, part)| {
                let peaks = self.of(situation, None, part, |score| score.peak);
                let histogram = Histogram::even(&peaks);
                (histogram.count > 0).then(|| Series {
                    name: format!("{} ({})", part.words(), histogram.count),
                    colour: at + 1,
                    fractions: histogram.fractions,
                })
            });
            Panel {
                title: situation.words().to_owned(),
                series: series.collect(),
            }
        };
        let all: Vec<Panel> = Situation::ALL.into_iter().map(panel).collect();
        let title = "Attention scores of user's prompt and tools' responses (RTBAS Figure 3)";
        panels(
            title,
            "",
            "attention score of the part",
            "fraction of steps",
            &all,
        )
    }
}

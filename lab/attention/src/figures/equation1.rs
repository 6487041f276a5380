//! Equation 1 against equation 2: what a token's absence does to the loss, and what the gradients say
//! that it does.
//!
//! A masked token is one that no later position attends to, neither in the history nor in the output
//! (`Engine::losses`). Equation 2 knows the direct way from the token to the output only, since keys
//! and values of the history are constants for it; what other history tokens carry on of the masked
//! one counts for equation 1 alone. The last history token is left out: it predicts the first output
//! token itself, and cannot be hidden from itself.

use agentdojo::report::table;
use anyhow::{Context, Result, ensure};
use saliency::{Engine, Saliency};
use screen::attention::Encoded;
use serde::Serialize;

use super::following::over_outputs;
use super::number;
use super::reader::Reader;
use super::statistics::{mean, median, spearman};
use crate::data::Step;

/// Parts of the input tokens by their saliency, of the same size: each gives as many tokens to the
/// sample, so that ranks in the sample are spread like ranks in the input.
const STRATA: usize = 8;

/// A step with more output tokens is left out: its loss is less about any one of them.
const OUTPUT: usize = 200;

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Steps.
    pub steps: usize,
    /// The most input tokens of a step: each masked token costs a pass over all that follow it.
    pub longest: usize,
    /// Tokens to mask in each step, rounded up to a multiple of eight.
    pub tokens: usize,
    /// What draws them.
    pub seed: u64,
}

impl Default for Sample {
    /// About a thousand masked tokens.
    fn default() -> Self {
        Self {
            steps: 30,
            longest: 600,
            tokens: 32,
            seed: 1,
        }
    }
}

/// The check of a sample of steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Equation1 {
    /// What drew the sample.
    pub seed: u64,
    /// The most input tokens of a step.
    pub longest: usize,
    /// How many steps were looked at, in an order by chance, to find those that are short enough.
    pub looked: usize,
    /// What was drawn.
    pub steps: Vec<OneStep>,
    /// The change of the loss by saliency: the least salient eighth of a step's tokens first.
    pub strata: Vec<Stratum>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OneStep {
    /// The step.
    pub step: String,
    /// Its input tokens.
    pub input: usize,
    /// Its output tokens.
    pub output: usize,
    /// Tokens that were masked, one at a time.
    pub masked: usize,
    /// Saliency against how much the loss rises.
    pub rise: Agreement,
    /// Saliency against how much it changes, up or down.
    pub change: Agreement,
}

/// Rank correlations over the masked tokens; `None` where one side is constant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Of sums over the output tokens.
    pub summed: Option<f64>,
    /// Of each output token.
    pub each: Vec<Option<f64>>,
}

/// The masked tokens of some saliency in their steps, summed over output tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stratum {
    /// How many.
    pub tokens: usize,
    /// Mean rise of the loss, in nats.
    pub rise: Option<f64>,
    /// Mean of the sum of changes, up or down, in nats.
    pub change: Option<f64>,
}

/// The tokens of one step that were masked.
pub(super) struct Masked {
    /// Which stratum each is of.
    pub(super) strata: Vec<usize>,
    /// By masked token, the saliency of each output token.
    pub(super) saliency: Vec<Vec<f64>>,
    /// By masked token, how much the loss of each output token rises.
    pub(super) rises: Vec<Vec<f64>>,
}

/// Checks the steps of a sample: shuffled, the first ones that are short enough.
///
/// # Errors
/// No step is that short, or the model fails.
pub fn equation1(
    reader: &Reader,
    steps: &[Step],
    wanted: Sample,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Equation1> {
    let mut random = fastrand::Rng::with_seed(wanted.seed);
    let (looked, short) = short_enough(reader, steps, wanted, &mut random)?;
    let mut found = Equation1 {
        seed: wanted.seed,
        longest: wanted.longest,
        looked,
        steps: Vec::new(),
        strata: Vec::new(),
    };
    let mut by_stratum = vec![Vec::new(); STRATA];
    for (at, (step, encoded)) in short.iter().enumerate() {
        progress(at, short.len());
        let (input, output) = (&encoded.input, &encoded.output);
        let masked = mask(reader.engine(), input, output, wanted.tokens, &mut random);
        let masked = masked.with_context(|| format!("step {}", step.id))?;
        for (stratum, rises) in masked.strata.iter().zip(&masked.rises) {
            if let Some(all) = by_stratum.get_mut(*stratum) {
                all.push((
                    rises.iter().sum(),
                    rises.iter().map(|rise| rise.abs()).sum(),
                ));
            }
        }
        found.steps.push(OneStep {
            step: step.id.clone(),
            input: input.len(),
            output: output.len(),
            masked: masked.strata.len(),
            rise: masked.agreement(|rise| rise),
            change: masked.agreement(f64::abs),
        });
    }
    let strata = by_stratum.into_iter().map(|all: Vec<(f64, f64)>| {
        let (rises, changes): (Vec<f64>, Vec<f64>) = all.into_iter().unzip();
        Stratum {
            tokens: rises.len(),
            rise: mean(&rises),
            change: mean(&changes),
        }
    });
    found.strata = strata.collect();
    Ok(found)
}

/// How many steps were looked at, in an order by chance, and those of them that are short enough.
fn short_enough<'a>(
    reader: &Reader,
    steps: &'a [Step],
    wanted: Sample,
    random: &mut fastrand::Rng,
) -> Result<(usize, Vec<(&'a Step, Encoded)>)> {
    let mut order: Vec<&Step> = steps.iter().collect();
    random.shuffle(&mut order);
    let (mut looked, mut short) = (0, Vec::new());
    for step in order {
        if short.len() == wanted.steps {
            break;
        }
        looked += 1;
        if let Some(read) = reader.read(step)?
            && read.encoded.input.len() <= wanted.longest
            && read.encoded.output.len() <= OUTPUT
        {
            short.push((step, read.encoded));
        }
    }
    ensure!(
        !short.is_empty(),
        "no step of {looked} has at most {} input tokens; allow longer ones",
        wanted.longest
    );
    Ok((looked, short))
}

/// Masks a sample of the input's tokens, one at a time.
pub(super) fn mask(
    engine: &Engine,
    input: &[u32],
    output: &[u32],
    tokens: usize,
    random: &mut fastrand::Rng,
) -> Result<Masked> {
    let saliency = engine.saliency(input, output)?;
    let mut masked = Masked {
        strata: Vec::new(),
        saliency: Vec::new(),
        rises: Vec::new(),
    };
    for (stratum, token) in sample(&saliency, tokens, random) {
        let without = engine.losses(input, output, &[token])?;
        let both = without.iter().zip(saliency.losses());
        let rises = both.map(|(without, with)| f64::from(*without) - f64::from(*with));
        masked.rises.push(rises.collect());
        let own = saliency.rows();
        let own = own.map(|row| row.get(token).map_or(0.0, |value| f64::from(*value)));
        masked.saliency.push(own.collect());
        masked.strata.push(stratum);
    }
    Ok(masked)
}

/// About `count` tokens but the last one, as many of each stratum, with their stratum.
fn sample(saliency: &Saliency, count: usize, random: &mut fastrand::Rng) -> Vec<(usize, usize)> {
    let totals = over_outputs(saliency);
    let (_, totals) = totals.split_last().unwrap_or((&0.0, &[]));
    let mut order: Vec<(usize, f64)> = totals.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut picked = Vec::new();
    for stratum in 0..STRATA {
        let (from, to) = (
            order.len() * stratum / STRATA,
            order.len() * (stratum + 1) / STRATA,
        );
        let mut own: Vec<usize> = order
            .get(from..to)
            .unwrap_or_default()
            .iter()
            .map(|(token, _)| *token)
            .collect();
        random.shuffle(&mut own);
        own.truncate(count.div_ceil(STRATA));
        own.sort_unstable();
        picked.extend(own.into_iter().map(|token| (stratum, token)));
    }
    picked
}

impl Masked {
    /// The rank correlations of saliency and this function of the rise.
    pub(super) fn agreement(&self, of: impl Fn(f64) -> f64) -> Agreement {
        let outputs = self.saliency.first().map_or(0, Vec::len);
        let column = |rows: &[Vec<f64>], at: usize| -> Vec<f64> {
            let values = rows.iter().filter_map(|row| row.get(at));
            values.copied().collect()
        };
        let each = (0..outputs).map(|at| {
            let rises = column(&self.rises, at).into_iter().map(&of);
            spearman(&column(&self.saliency, at), &rises.collect::<Vec<f64>>())
        });
        let saliency = self.saliency.iter().map(|row| row.iter().sum());
        let rises = self.rises.iter();
        let rises = rises.map(|row| row.iter().copied().map(&of).sum());
        Agreement {
            summed: spearman(
                &saliency.collect::<Vec<f64>>(),
                &rises.collect::<Vec<f64>>(),
            ),
            each: each.collect(),
        }
    }
}

impl Equation1 {
    /// A table.
    #[must_use]
    pub fn text(&self) -> String {
        let masked: usize = self.steps.iter().map(|step| step.masked).sum();
        let rows = [
            self.row("rise of the loss", |step| &step.rise),
            self.row("change, up or down", |step| &step.change),
        ];
        let head = [
            "saliency against",
            "summed: median",
            "mean",
            "least",
            "most",
            "per output token: median",
            "mean",
            "undefined",
        ];
        let strata = self.strata.iter().enumerate().map(|(at, stratum)| {
            let part = |at: usize| format!("{:.1} %", 100.0 * at as f64 / STRATA as f64);
            vec![
                format!("{} to {}", part(at), part(at + 1)),
                stratum.tokens.to_string(),
                number(stratum.rise, 4),
                number(stratum.change, 4),
            ]
        });
        let strata: Vec<Vec<String>> = strata.collect();
        let columns = ["saliency's rank", "tokens", "mean rise", "mean change"];
        format!(
            "Equation 1 against equation 2: Spearman's rank correlation over masked tokens.\n\
             {} steps, of {} drawn those with at most {} input tokens, seed {}; {masked} tokens masked, one at a time.\n{}\n\
             Nats over all output tokens, by the token's rank in its step:\n{}",
            self.steps.len(),
            self.looked,
            self.longest,
            self.seed,
            table(1, &head, &rows),
            table(1, &columns, &strata)
        )
    }

    fn row(&self, name: &str, of: impl Fn(&OneStep) -> &Agreement) -> Vec<String> {
        let all = || self.steps.iter().map(&of);
        let summed: Vec<f64> = all().filter_map(|agreement| agreement.summed).collect();
        let each: Vec<Option<f64>> = all().flat_map(|agreement| agreement.each.clone()).collect();
        let known: Vec<f64> = each.iter().flatten().copied().collect();
        let (least, most) = (
            summed.iter().copied().reduce(f64::min),
            summed.iter().copied().reduce(f64::max),
        );
        vec![
            name.to_owned(),
            number(median(&summed), 3),
            number(mean(&summed), 3),
            number(least, 3),
            number(most, 3),
            number(median(&known), 3),
            number(mean(&known), 3),
            (each.len() - known.len()).to_string(),
        ]
    }
}

//! GIF (arXiv 2606.23277) beside attention: both score the regions of the same recorded steps with the
//! same small model.
//!
//! Attention's saliency needs a backward pass of the draft's rows, which for GIF goes through all rows
//! of the history, once for each random vector. GIF is measured as it is, without a classifier.

mod flow;
mod report;
mod scored;

pub use flow::{Flow, RegionFlow};
pub use report::{Cost, Report, Row, Table};
pub use scored::Plan;
use scored::{Scored, StepCost};

use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result};
use fastrand::Rng;
use ifc::RegionId;
use screen::attention::{Classifier, Encoded, RegionFeatures, Sight};

use crate::data::{Step, hand};
use crate::examples::Example;
use crate::extract::Extractor;
use crate::label::label;

/// Scores a sample of these steps by the classifier and by GIF. The extractor must read the classifier's
/// columns, and keep nothing from step to step.
///
/// # Errors
/// The model fails, or no step can be read.
pub fn measure(
    extractor: &Extractor,
    classifier: &Classifier,
    steps: &[Step],
    plan: &Plan,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report> {
    let mut random = Rng::with_seed(plan.seed);
    let order = in_order(steps, &mut random)?;
    let (mut all, mut left_out) = (Vec::new(), 0);
    for step in order {
        if all.len() >= plan.steps {
            break;
        }
        progress(all.len(), plan.steps);
        let scored = score(extractor, classifier, step, plan, &mut random);
        match scored.with_context(|| format!("step {}", step.id))? {
            Some(scored) => all.push(scored),
            None => left_out += 1,
        }
    }
    let mut examples: Vec<Example> = all.iter().map(|one| one.example.clone()).collect();
    label(&mut examples, steps)?;
    for (scored, example) in all.iter_mut().zip(examples) {
        scored.example = example;
    }
    Report::new(plan, classifier, &all, left_out)
}

/// The steps that were read one by one before the others, both in random order.
fn in_order<'a>(steps: &'a [Step], random: &mut Rng) -> Result<Vec<&'a Step>> {
    let sample = hand::sample()?;
    let is_read = |step: &&Step| sample.iter().any(|sampled| sampled.step == step.id);
    let (mut read, mut others): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(is_read);
    random.shuffle(&mut read);
    random.shuffle(&mut others);
    Ok(read.into_iter().chain(others).collect())
}

/// `None` for a step that the model cannot read, that is too long, or of which no region is seen.
fn score(
    extractor: &Extractor,
    classifier: &Classifier,
    step: &Step,
    plan: &Plan,
    random: &mut Rng,
) -> Result<Option<Scored>> {
    let Some(encoded) = extractor.encoded(step)? else {
        return Ok(None);
    };
    let spans = spans(&encoded);
    // Tokens before the first region belong to none: they are read, but no gradient goes back to them.
    let first = spans.iter().map(|span| span.start).min();
    let Some(first) = first.filter(|_| encoded.input.len() <= plan.longest) else {
        return Ok(None);
    };
    let began = Instant::now();
    let texts = (&*encoded.input, &*encoded.output);
    let flow = Flow::new(extractor.engine(), texts, first, plan.products, random)?;
    let flow_time = began.elapsed();

    // `example` turns the step into tokens again, so attention's time includes that and GIF's does not.
    let began = Instant::now();
    let Some(example) = extractor.example(step)? else {
        return Ok(None);
    };
    let rows = example.regions.iter().zip(&example.features);
    let rows: Vec<RegionFeatures> = rows
        .map(|(region, values)| RegionFeatures {
            region: RegionId(*region),
            values: values.clone(),
        })
        .collect();
    let attention = classifier.scores(&rows)?;
    let cost = StepCost {
        tokens: encoded.input.len(),
        attention: began.elapsed(),
        flow: flow_time,
    };
    Ok(Some(Scored {
        example,
        attention,
        flow,
        spans,
        cost,
    }))
}

/// The tokens of the regions that are seen: those that have features.
fn spans(encoded: &Encoded) -> Vec<Range<usize>> {
    let seen = encoded
        .regions
        .iter()
        .filter_map(|region| match &region.sight {
            Sight::Tokens(tokens) => Some(tokens.clone()),
            Sight::Cut | Sight::Description => None,
        });
    seen.collect()
}

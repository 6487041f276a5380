//! Examples get their labels: the weak ones of rules and values, and those of a sample that was read
//! ([`hand`]).
//!
//! Features cost hours and labels seconds, so a file of examples is labelled when it is read: a better
//! rule needs no new extraction.

use std::collections::HashMap;

use anyhow::{Context, Result};

use crate::data::{Labeller, Step, hand};
use crate::examples::Example;

/// Labels examples of these steps. A pair of the hand-labelled sample weighs as much as the pairs that
/// it was drawn for; all others weigh 1.
pub fn label(examples: &mut [Example], steps: &[Step]) -> Result<()> {
    let sample = hand::sample()?;
    let by_hand = hand::builtin()?;
    let weights = hand::weights(&sample);
    let steps: HashMap<&str, &Step> = steps.iter().map(|step| (step.id.as_str(), step)).collect();
    let mut labeller = Labeller::new()?;
    for example in examples {
        let step = steps.get(example.step.as_str()).with_context(|| {
            let step = &example.step;
            format!("step {step} is not among the recorded runs; extract the features again")
        })?;
        let weak = labeller.label(step);
        // By number, not by place: an example has only the regions that the small model saw, and the step has all.
        let weak: HashMap<u32, bool> = weak
            .iter()
            .map(|label| (label.region.0, label.dependent()))
            .collect();
        let regions = example.regions.iter();
        example.weak = regions
            .clone()
            .map(|region| weak.get(region).copied().unwrap_or_default())
            .collect();
        let pair = |region: &u32| (example.step.clone(), *region);
        example.hand = regions
            .clone()
            .map(|region| by_hand.get(&pair(region)).copied())
            .collect();
        example.weight = regions
            .map(|region| {
                weights
                    .get(&pair(region))
                    .map_or(1.0, |weight| *weight as f32)
            })
            .collect();
    }
    Ok(())
}

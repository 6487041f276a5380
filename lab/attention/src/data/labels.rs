//! The weak labels of a step: by value and by rule, kept apart.

use std::collections::BTreeSet;

use ifc::RegionId;

use super::rules::{Rules, Scene};
use super::step::Step;
use super::text::Memo;
use super::values::{Index, Match, said};
use super::view::passages;

/// What machines say of one region of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionLabel {
    /// Its number in the step's history.
    pub region: RegionId,
    /// How it holds a value of the step.
    pub value: Option<Match>,
    /// The names of the rules by which the step depends on it.
    pub rules: Vec<String>,
}

impl RegionLabel {
    /// By its value, where no lower region gives that.
    pub fn by_value(&self) -> bool {
        matches!(self.value, Some(Match::Sole | Match::Equal))
    }

    /// By a written rule.
    pub fn by_rule(&self) -> bool {
        !self.rules.is_empty()
    }

    /// By either.
    pub fn dependent(&self) -> bool {
        self.by_value() || self.by_rule()
    }

    /// Why, in a few words; empty if there is no dependency.
    pub fn why(&self) -> String {
        let value = match self.value {
            Some(Match::Sole) => Some("value".to_owned()),
            Some(Match::Equal) => Some("value that others hold too".to_owned()),
            Some(Match::Above) | None => None,
        };
        let reasons: Vec<String> = value.into_iter().chain(self.rules.clone()).collect();
        reasons.join(", ")
    }
}

/// Labels steps. It remembers the texts that it has seen, so one is enough for all steps.
#[derive(Debug)]
pub struct Labeller {
    rules: Rules,
    memo: Memo,
}

impl Labeller {
    /// With the rules that come with this crate.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self::with(Rules::builtin()?))
    }

    /// With other rules.
    pub fn with(rules: Rules) -> Self {
        Self {
            rules,
            memo: Memo::default(),
        }
    }

    /// The labels of all regions of a step, in their order.
    pub fn label(&mut self, step: &Step) -> Vec<RegionLabel> {
        let passages = passages(&step.history);
        let index = Index::new(&passages, &mut self.memo);
        let values = index.matches(&said(step));
        let scene = Scene {
            step,
            passages: &passages,
            index: &index,
        };
        let mut ruled: Vec<(&str, BTreeSet<RegionId>)> = Vec::new();
        for rule in self.rules.iter() {
            ruled.push((&rule.name, rule.regions(&scene, &mut self.memo)));
        }
        let regions = index.regions.iter().map(|(id, ..)| RegionLabel {
            region: *id,
            value: values.get(id).copied(),
            rules: ruled
                .iter()
                .filter(|(_, regions)| regions.contains(id))
                .map(|(name, _)| (*name).to_owned())
                .collect(),
        });
        regions.collect()
    }
}

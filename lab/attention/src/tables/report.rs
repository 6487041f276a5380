//! The metrics of several scorers side by side, for a terminal and as JSON.

use std::collections::BTreeSet;

use agentdojo::report::table;

use super::cross::{HeldOut, Plan};
use super::metrics::{Metrics, ScoredPair, effective_steps};
use crate::examples::{Example, Labels};

/// The name of the row of all suites together.
pub const ALL: &str = "all";

/// Everything about some scorers on the same pairs.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it was measured.
    pub plan: Plan,
    /// The labels that predictions are compared with.
    pub labels: Labels,
    /// Suite by suite and then all together, within them scorer by scorer.
    pub rows: Vec<Row>,
}

/// One scorer on one suite.
#[derive(Clone, Debug)]
pub struct Row {
    /// The scorer.
    pub scorer: String,
    /// The suite, or [`ALL`].
    pub suite: String,
    /// Labelled regions.
    pub pairs: usize,
    /// The steps that they are of.
    pub steps: usize,
    /// The user tasks that these are of.
    pub tasks: usize,
    /// The effective sample size in steps; `None` where all pairs have one weight.
    pub effective_steps: Option<f64>,
    /// The fraction of positives, by weight.
    pub positives: f64,
    /// The metrics.
    pub metrics: Metrics,
}

impl Report {
    /// The report of the out-of-fold predictions of each scorer.
    pub fn new(
        plan: Plan,
        labels: Labels,
        examples: &[Example],
        scorers: &[(String, Vec<ScoredPair>)],
    ) -> Self {
        let mut suites: Vec<&str> = examples.iter().map(|one| one.suite.as_str()).collect();
        suites.sort_unstable();
        suites.dedup();
        suites.push(ALL);
        let mut rows = Vec::new();
        for suite in suites {
            for (scorer, pairs) in scorers {
                let within = |pair: &&ScoredPair| {
                    let example = examples.get(pair.step);
                    suite == ALL || example.is_some_and(|example| example.suite == suite)
                };
                let pairs: Vec<ScoredPair> = pairs.iter().filter(within).copied().collect();
                if !pairs.is_empty() {
                    rows.push(Row::new(scorer, suite, &pairs));
                }
            }
        }
        Self { plan, labels, rows }
    }

    /// The rows of all suites together.
    pub fn pooled(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.suite == ALL)
    }

    /// As tables.
    pub fn text(&self) -> String {
        let held_out = match self.plan.held_out {
            HeldOut::UserTasks => "a fifth of the user tasks",
            HeldOut::Suites => "one suite",
        };
        let mut text = format!(
            "Held out: {held_out}. Learned from {}, compared with {}. In per cent.\n",
            Labels::Weak,
            self.labels
        );
        for group in self.rows.chunk_by(|a, b| a.suite == b.suite) {
            let Some(first) = group.first() else { continue };
            text.push_str(&first.heading());
            let head = ["scorer", "accuracy", "AUROC"];
            let rows: Vec<Vec<String>> = group.iter().map(Row::cells).collect();
            text.push_str(&table(1, &head, &rows));
        }
        text
    }
}

impl Row {
    fn new(scorer: &str, suite: &str, pairs: &[ScoredPair]) -> Self {
        let different =
            |of: fn(&ScoredPair) -> usize| pairs.iter().map(of).collect::<BTreeSet<_>>().len();
        let weighted = pairs.windows(2).any(|two| match two {
            [one, other] => one.weight != other.weight,
            _ => false,
        });
        let weight =
            |pairs: &mut dyn Iterator<Item = &ScoredPair>| pairs.map(|pair| pair.weight).sum();
        let all: f64 = weight(&mut pairs.iter());
        let positives: f64 = weight(&mut pairs.iter().filter(|pair| pair.label));
        Self {
            scorer: scorer.to_owned(),
            suite: suite.to_owned(),
            pairs: pairs.len(),
            steps: different(|pair| pair.step),
            tasks: different(|pair| pair.task),
            effective_steps: weighted.then(|| effective_steps(pairs)),
            positives: if all > 0.0 { positives / all } else { 0.0 },
            metrics: Metrics::of(pairs),
        }
    }

    /// What all scorers of a suite have in common.
    fn heading(&self) -> String {
        let weighted = self.effective_steps.map_or(String::new(), |steps| {
            format!(", weighted like {steps:.0} steps")
        });
        format!(
            "\n{}: {} pairs of {} steps of {} user tasks{weighted}, {:.1} % dependent\n",
            self.suite,
            self.pairs,
            self.steps,
            self.tasks,
            self.positives * 100.0
        )
    }

    fn cells(&self) -> Vec<String> {
        let Metrics { accuracy, auroc } = self.metrics;
        let cell = |value: Option<f64>| {
            value.map_or("–".to_owned(), |value| format!("{:.1}", value * 100.0))
        };
        vec![self.scorer.clone(), cell(accuracy), cell(auroc)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::cross::{cross_validate, judge};
    use crate::train::baselines::{Baseline, Majority};
    use crate::train::learner::Learner;
    use crate::train::synthetic::with_memory;

    #[test]
    fn a_report_has_each_suite_and_all_together() {
        let examples = with_memory(200, 2, 1);
        let plan = Plan {
            held_out: HeldOut::UserTasks,
            seed: 1,
        };
        let raw = Baseline::Column {
            name: "raw".to_owned(),
            column: "all.sum".to_owned(),
        };
        let learners: [&dyn Learner; 2] = [&raw, &Majority];
        let judged = learners.map(|learner| {
            let found = cross_validate(&examples, &plan, learner, &mut |_| {}).unwrap();
            (learner.name(), judge(&examples, &found, Labels::Weak))
        });
        let report = Report::new(plan, Labels::Weak, &examples, &judged);
        assert_eq!(report.rows.len(), 2 * 5);
        let rows: Vec<&Row> = report.pooled().collect();
        let labels: Vec<bool> = examples.iter().flat_map(|one| one.weak.clone()).collect();
        let proportion = labels.iter().filter(|label| **label).count() as f64 / labels.len() as f64;
        assert_eq!((rows[0].pairs, rows[0].steps), (labels.len(), 200));
        assert_eq!((rows[0].tasks, rows[0].effective_steps), (40, None));
        assert!((rows[0].positives - proportion).abs() < 1e-12);
        // The more frequent answer has as many mistakes as the rarer one is frequent.
        let metrics = |at: usize| rows[at].metrics;
        assert!((metrics(1).accuracy.unwrap() - proportion.max(1.0 - proportion)).abs() < 1e-12);
        assert_eq!(metrics(1).auroc, None);
        // The first feature is informative.
        assert!(metrics(0).auroc.unwrap() > 0.6);
        let text = report.text();
        assert!(text.contains("200 steps of 40 user tasks, "), "{text}");
        assert!(
            text.contains("\nslack: ") && text.contains("\nall: "),
            "{text}"
        );
    }

    #[test]
    fn a_heading_tells_how_little_uneven_weights_say() {
        let mut examples = with_memory(4, 2, 1);
        for (example, weight) in examples.iter_mut().zip([1.0, 1.0, 1.0, 9.0]) {
            example.hand[0] = Some(true);
            example.weight[0] = weight;
        }
        let plan = Plan {
            held_out: HeldOut::Suites,
            seed: 1,
        };
        let learner = Majority;
        let found = cross_validate(&examples, &plan, &learner, &mut |_| {}).unwrap();
        let pairs = judge(&examples, &found, Labels::Hand);
        let text = Report::new(plan, Labels::Hand, &examples, &[(learner.name(), pairs)]).text();
        // 12² over 84; in each suite there is one pair.
        let heading =
            "\nall: 4 pairs of 4 steps of 4 user tasks, weighted like 2 steps, 100.0 % dependent\n";
        assert!(text.contains(heading), "{text}");
        assert_eq!(text.matches("weighted like").count(), 1);
        assert!(
            text.contains("compared with hand labels (a language model's)."),
            "{text}"
        );
    }
}

//! Rows of a cell, added up.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Detail;
use crate::report::Row;

/// What the tasks of one defence, version, suite, attack and user came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The defence's name.
    pub defence: String,
    /// AgentDojo's version of the suites.
    pub version: String,
    /// The suite.
    pub suite: String,
    /// The attack; `None` without one.
    pub attack: Option<String>,
    /// The user model's name.
    pub user_model: String,
    /// Tasks, or pairs of tasks.
    pub tasks: usize,
    /// Tasks without a result.
    pub errors: usize,
    /// User's tasks done.
    pub useful: usize,
    /// Attacks that reached their goal.
    pub attacks_succeeded: usize,
    /// Tasks with at least one question.
    pub asked: usize,
    /// Questions.
    pub questions: u64,
    /// Calls of the agent's model.
    pub llm_calls: u64,
    /// Calls of the judge's model.
    pub judge_calls: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Wall time of all tasks, one after the other.
    pub seconds: f64,
}

/// One summary for each cell that has rows, in the order of the rows.
#[must_use]
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let mut places: BTreeMap<[&str; 5], usize> = BTreeMap::new();
    let mut found: Vec<Summary> = Vec::new();
    for row in rows {
        let attack = row.attack.as_deref().unwrap_or_default();
        let key = [
            row.defence.as_str(),
            &row.version,
            &row.suite,
            attack,
            &row.user_model,
        ];
        let at = *places.entry(key).or_insert_with(|| {
            found.push(Summary {
                defence: row.defence.clone(),
                version: row.version.clone(),
                suite: row.suite.clone(),
                attack: row.attack.clone(),
                user_model: row.user_model.clone(),
                ..Summary::default()
            });
            found.len() - 1
        });
        if let Some(summary) = found.get_mut(at) {
            summary.add(row);
        }
    }
    found
}

/// One line for each question of tasks without an attack: what a benign user is asked about.
#[must_use]
pub fn benign_questions(details: &[Detail]) -> Vec<String> {
    let benign = details.iter().filter(|detail| detail.attack.is_none());
    let lines = benign.flat_map(|detail| {
        detail.questions.iter().map(move |asked| {
            let mut causes = asked.causes.clone();
            causes.dedup();
            format!(
                "{} {} {}, {}: {} is asked for {} from {}",
                detail.version,
                detail.suite,
                detail.user_task,
                detail.defence,
                asked.tool,
                asked.excess.join(" and "),
                causes.join(" and ")
            )
        })
    });
    lines.collect()
}

/// One line for each attack that succeeded behind an enforcing defence, with the reason.
#[must_use]
pub fn successes(details: &[Detail]) -> Vec<String> {
    let lines = details.iter().filter_map(|detail| {
        let success = detail.success.as_ref()?;
        let pair = format!(
            "{} {} {} {}, {}, {}",
            detail.version,
            detail.suite,
            detail.user_task,
            detail.injection_task.as_deref().unwrap_or_default(),
            detail.attack.as_deref().unwrap_or_default(),
            detail.defence,
        );
        let carried = match success.carried_by.is_empty() {
            true => "no result holds the goal whole".to_owned(),
            false => format!(
                "the goal stands in results of {}",
                success.carried_by.join(", ")
            ),
        };
        let by = match success.answer_only {
            true => "reached by the final answer alone, which the policy lets through".to_owned(),
            false => success.calls.join("; "),
        };
        Some(format!("{pair}: {carried}; {by}"))
    });
    lines.collect()
}

impl Summary {
    fn add(&mut self, row: &Row) {
        self.tasks += 1;
        self.errors += usize::from(row.error.is_some());
        self.useful += usize::from(row.utility);
        self.attacks_succeeded += usize::from(row.attack_succeeded == Some(true));
        self.asked += usize::from(row.questions > 0);
        self.questions += u64::from(row.questions);
        self.llm_calls += u64::from(row.llm_calls);
        self.judge_calls += u64::from(row.judge_calls);
        self.prompt_tokens += row.prompt_tokens;
        self.completion_tokens += row.completion_tokens;
        self.seconds += row.seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(suite: &str, attack: Option<bool>, utility: bool, questions: u32) -> Row {
        Row {
            defence: "oracle".to_owned(),
            version: "v1".to_owned(),
            suite: suite.to_owned(),
            user_task: "user_task_0".to_owned(),
            injection_task: attack.map(|_| "injection_task_0".to_owned()),
            attack: attack.map(|_| "direct".to_owned()),
            user_model: "absent".to_owned(),
            utility,
            attack_succeeded: attack,
            questions,
            llm_calls: 3,
            judge_calls: 1,
            prompt_tokens: 10,
            completion_tokens: 2,
            seconds: 0.5,
            error: None,
        }
    }

    #[test]
    fn rows_are_added_up_by_cell() {
        let rows = [
            row("banking", None, true, 0),
            row("banking", Some(true), false, 2),
            row("slack", None, true, 0),
            row("banking", None, false, 3),
        ];
        let found = summaries(&rows);
        let shown: Vec<(&str, usize, usize, usize, u64, usize)> = found
            .iter()
            .map(|s| {
                (
                    s.suite.as_str(),
                    s.tasks,
                    s.useful,
                    s.asked,
                    s.questions,
                    s.attacks_succeeded,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("banking", 2, 1, 1, 3, 0),
                ("banking", 1, 0, 1, 2, 1),
                ("slack", 1, 1, 0, 0, 0)
            ]
        );
    }
}

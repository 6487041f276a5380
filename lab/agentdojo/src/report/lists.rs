//! What figures leave out: what users are still asked about, which tasks are lost in silence, and which
//! attacks succeed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Row, Success};
use crate::closed_loop::Defence;

/// The usual user, who answers nothing.
pub(super) const ABSENT: &str = "absent";

/// What a question about the final answer calls its tool.
const ANSWER: &str = "(answer)";

/// What a user who is not under attack is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// The agent's model.
    pub model: String,
    /// The suites' version.
    pub version: String,
    /// The suite.
    pub suite: String,
    /// The user's task.
    pub user_task: String,
    /// The defence, with the attention screener's tuning where the report has several.
    pub defence: String,
    /// Who answers.
    pub user_model: String,
    /// The tool.
    pub tool: String,
    /// The taints beyond the limit, and where they come from.
    pub about: String,
    /// Whether the call serves the task.
    pub wanted: bool,
    /// How often.
    pub times: u32,
}

/// An attack that a defence which refuses calls did not stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Succeeded {
    /// The agent's model.
    pub model: String,
    /// The suites' version.
    pub version: String,
    /// The suite.
    pub suite: String,
    /// The user's task.
    pub user_task: String,
    /// The attacker's goal.
    pub injection_task: String,
    /// The attack.
    pub attack: String,
    /// The defence, with the attention screener's tuning where the report has several.
    pub defence: String,
    /// Who answers.
    pub user_model: String,
    /// What reached the goal.
    pub place: Place,
    /// How.
    pub reason: String,
}

/// What of an agent reached an attacker's goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A call that the user's task does not control.
    Call,
    /// A data argument of a call that the user's task controls.
    Argument,
    /// The final answer alone.
    Answer,
}

/// A task that was not done although the ideal user was asked nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The agent's model.
    pub model: String,
    /// The suites' version.
    pub version: String,
    /// The suite.
    pub suite: String,
    /// The user's task.
    pub user_task: String,
    /// The defence, with the attention screener's tuning where the report has several.
    pub defence: String,
    /// What the agent said in the end.
    pub answer: String,
}

impl Place {
    /// In one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Argument => "argument",
            Self::Answer => "answer",
        }
    }

    fn of(row: &Row, success: &Success) -> Self {
        // Rows of earlier versions do not say whose calls ran.
        match (
            success.answer_only,
            row.consequential.is_some() && row.foreign_calls.is_empty(),
        ) {
            (true, _) => Self::Answer,
            (false, true) => Self::Argument,
            (false, false) => Self::Call,
        }
    }
}

/// The questions of tasks without an attack.
pub(super) fn remaining(rows: &[&Row]) -> Vec<Remaining> {
    let mut found: BTreeMap<Vec<String>, Remaining> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.attack.is_none()) {
        for asked in &row.asked {
            let about = about(&asked.excess, asked.causes.iter().cloned().collect());
            let task = number(&row.user_task);
            let mut key = vec![row.model.clone(), row.version.clone()];
            key.extend([row.suite.clone(), task, row.defence.clone()]);
            key.extend([row.user_model.clone(), asked.tool.clone(), about.clone()]);
            let remaining = found.entry(key).or_insert_with(|| Remaining {
                model: row.model.clone(),
                version: row.version.clone(),
                suite: row.suite.clone(),
                user_task: row.user_task.clone(),
                defence: row.defence.clone(),
                user_model: row.user_model.clone(),
                tool: asked.tool.clone(),
                about,
                wanted: asked.wanted,
                times: 0,
            });
            remaining.times += 1;
        }
    }
    found.into_values().collect()
}

/// What stands in the way of a call: taints, and the sources that they came from.
pub(crate) fn about(excess: &[String], causes: BTreeSet<String>) -> String {
    let excess = excess.join(" and ");
    match Vec::from_iter(causes) {
        causes if causes.is_empty() => excess,
        causes => format!("{excess} from {}", causes.join(" and ")),
    }
}

/// The attacks that succeed. Defences that refuse nothing are there to be attacked.
pub(super) fn succeeded(rows: &[&Row]) -> Vec<Succeeded> {
    let found = rows
        .iter()
        .filter(|row| Defence::is_guarded_row(&row.defence));
    let found = found.filter_map(|row| {
        let success = row.success.as_ref()?;
        Some(Succeeded {
            model: row.model.clone(),
            version: row.version.clone(),
            suite: row.suite.clone(),
            user_task: row.user_task.clone(),
            injection_task: row.injection_task.clone().unwrap_or_default(),
            attack: row.attack.clone().unwrap_or_default(),
            defence: row.defence.clone(),
            user_model: row.user_model.clone(),
            place: Place::of(row, success),
            reason: success.reason(),
        })
    });
    let mut found: Vec<Succeeded> = found.collect();
    found.sort_by_cached_key(|it| {
        let task = (
            it.suite.clone(),
            number(&it.user_task),
            number(&it.injection_task),
        );
        (
            it.model.clone(),
            it.version.clone(),
            task,
            it.attack.clone(),
        )
    });
    found
}

/// The tasks that are lost, from the ideal user's rows of them.
pub(super) fn lost(rows: &[&Row]) -> Vec<Lost> {
    let mut found: Vec<Lost> = rows
        .iter()
        .map(|row| Lost {
            model: row.model.clone(),
            version: row.version.clone(),
            suite: row.suite.clone(),
            user_task: row.user_task.clone(),
            defence: row.defence.clone(),
            answer: row.output.clone().unwrap_or_default(),
        })
        .collect();
    found.sort_by_cached_key(|it| {
        let task = (it.suite.clone(), number(&it.user_task));
        (
            it.model.clone(),
            it.version.clone(),
            task,
            it.defence.clone(),
        )
    });
    found
}

/// The lists as text. Questions of defences that look at no dependencies, and attacks that only keep
/// a task from being done, are counted, unless `every` one is to be shown.
pub(super) fn text(
    remaining: &[Remaining],
    lost: &[Lost],
    succeeded: &[Succeeded],
    every: bool,
) -> String {
    questions(remaining, every) + &silent(lost) + &attacks(succeeded, every)
}

fn questions(remaining: &[Remaining], every: bool) -> String {
    let mut text = String::from("\nWhat the questions of tasks without an attack are about:\n");
    let mut lines = Lines::default();
    let mut coarse: BTreeMap<&str, u32> = BTreeMap::new();
    for it in remaining {
        if !every && is_coarse(&it.defence) {
            *coarse.entry(&it.defence).or_default() += it.times;
            continue;
        }
        let times = match it.times {
            1 => String::new(),
            many => format!(" ×{many}"),
        };
        // Whether an answer serves the task, nobody knows.
        let unwanted = match it.wanted || it.tool == ANSWER {
            true => "",
            false => " (not a call of the ground truth)",
        };
        let task = format!("{} {}/{}", it.version, it.suite, it.user_task);
        let what = format!("{}{times}: {}{unwanted}", it.tool, it.about);
        lines.add(task, what, series(&it.defence, &it.user_model));
    }
    text.push_str(&lines.text());
    let counts = coarse
        .iter()
        .map(|(name, times)| format!("{times} of {name}"));
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        let counts = counts.join(", ");
        text.push_str(&format!(
            "  and of defences that look at no dependencies: {counts}\n"
        ));
    } else if remaining.is_empty() {
        text.push_str("  none\n");
    }
    text
}

fn silent(lost: &[Lost]) -> String {
    if lost.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nTasks that are lost without a question, with the ideal user:\n");
    let mut lines = Lines::default();
    for it in lost {
        let task = format!("{} {}/{}", it.version, it.suite, it.user_task);
        let answer = it.answer.lines().next().unwrap_or_default();
        lines.add(task, format!("\"{answer}\""), it.defence.clone());
    }
    text.push_str(&lines.text());
    text
}

fn attacks(succeeded: &[Succeeded], every: bool) -> String {
    let mut text = String::from("\nAttacks that succeed behind a defence that refuses calls:\n");
    let mut lines = Lines::default();
    let denial = |it: &&Succeeded| !every && it.attack.ends_with("dos");
    for it in succeeded.iter().filter(|it| !denial(it)) {
        let pair = format!(
            "{} {}/{} {}",
            it.version, it.suite, it.user_task, it.injection_task
        );
        let pair = format!("{pair}, {}, {}", it.attack, it.model);
        let how = format!("by the {}: {}", it.place.name(), it.reason);
        lines.add(pair, how, series(&it.defence, &it.user_model));
    }
    text.push_str(&lines.text());
    let denials = succeeded.iter().filter(denial).count();
    if succeeded.is_empty() {
        text.push_str("  none\n");
    } else if denials > 0 {
        text.push_str(&format!(
            "  and {denials} whose goal is only that the task is not done; labels do not stop that\n"
        ));
    }
    text
}

/// Lines; equal ones of several defences become one, at the position of the first.
#[derive(Default)]
struct Lines {
    /// Subject, finding, and the defences.
    lines: Vec<(String, String, Vec<String>)>,
    places: BTreeMap<(String, String), usize>,
}

impl Lines {
    fn add(&mut self, subject: String, said: String, defence: String) {
        let next = self.lines.len();
        let key = (subject.clone(), said.clone());
        // A map beside the list, so that adding a line does not search all the others.
        let at = *self.places.entry(key).or_insert(next);
        match self.lines.get_mut(at) {
            Some((_, _, defences)) => defences.push(defence),
            None => self.lines.push((subject, said, vec![defence])),
        }
    }

    fn text(&self) -> String {
        let lines = self.lines.iter();
        let lines = lines.map(|(subject, said, defences)| {
            format!("  {subject}, {}: {said}\n", defences.join(", "))
        });
        lines.collect()
    }
}

/// A defence's name in tables and plots, with its user if that is not the usual one.
pub(super) fn series(defence: &str, user: &str) -> String {
    match user {
        ABSENT => defence.to_owned(),
        _ => format!("{defence} ({user} user)"),
    }
}

/// Defences that ask however little a call depends on.
fn is_coarse(defence: &str) -> bool {
    let coarse = ["naive", "naive-eager", "redact-all", "confirm-every-call"];
    coarse.contains(&defence)
}

/// A task's number such that 10 sorts after 9.
fn number(task: &str) -> String {
    let digits = task.rsplit('_').next().unwrap_or_default();
    format!("{digits:0>4}")
}

//! What all runs together say.

use std::collections::BTreeMap;

use serde::Serialize;

use super::check::Flags;
use super::work::{Replayed, RunResult, Success, count};
use crate::method::Method;
use crate::report::{ALL, Load, Share};
use crate::runs::Recording;

/// The replay's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayReport {
    /// What the recordings say of themselves.
    pub facts: Vec<Fact>,
    /// Whether AgentDojo still says the same of them.
    pub reproduction: Vec<Reproduction>,
    /// Figures by model, attack, method and suite.
    pub groups: Vec<Group>,
    /// Successful attacks that a method with labels did not stop, with the reason.
    pub survivors: Vec<Survivor>,
    /// Every run under every method.
    #[serde(skip)]
    pub runs: Vec<RunResult>,
    /// Wall time.
    pub seconds: f64,
}

impl ReplayReport {
    /// Runs of a model in which nothing is asked without an attack, all suites together.
    #[must_use]
    pub fn silent(&self, model: &str, method: Method) -> Share {
        let mut groups = self.groups.iter();
        let group = groups.find(|group| {
            (group.model == model && group.method == method)
                && (group.attack.is_none() && group.suite == ALL)
        });
        group.map_or_else(Share::default, |group| Share {
            of: group.runs,
            held: group.silent,
        })
    }
}

/// What the recordings say of themselves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fact {
    /// The model.
    pub model: String,
    /// The attack.
    pub attack: Option<String>,
    /// Runs of users' tasks.
    pub runs: u32,
    /// Runs left out since they ended with an error.
    pub errors: u32,
    /// Tasks done.
    pub utility: u32,
    /// Goals reached.
    pub attack_succeeded: Option<u32>,
}

/// How many runs give the recorded result when their calls are executed again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// The model.
    pub model: String,
    /// Runs executed again.
    pub runs: u32,
    /// Both flags as recorded.
    pub same: u32,
    /// Another result for the user's task.
    pub other_utility: u32,
    /// Another result for the attack (and the same for the user's task).
    pub other_attack: u32,
    /// The check raised an error.
    pub errors: u32,
    /// The tasks of the runs with another result, with how many: `banking/user_task_13`.
    pub tasks: BTreeMap<String, u32>,
}

/// Figures of the runs of one model, attack, method and suite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The model.
    pub model: String,
    /// The attack.
    pub attack: Option<String>,
    /// The protection.
    pub method: Method,
    /// The suite; `all` for the four together.
    pub suite: String,
    /// Runs.
    pub runs: u32,
    /// Tasks done as recorded.
    pub recorded_utility: u32,
    /// Tasks done, if runs end at the first block.
    pub utility_stop: Option<u32>,
    /// Tasks done, if blocked calls are left out.
    pub utility_skip: Option<u32>,
    /// Attacks that succeeded as recorded.
    pub recorded_attacks: u32,
    /// Of these, the ones that still succeed with blocked calls left out.
    pub attacks_left: Option<u32>,
    /// Attacks that succeed with blocked calls left out, recorded as successful or not.
    pub attack_success: Option<u32>,
    /// Runs without a question.
    pub silent: u32,
    /// Of the tasks done as recorded, those without a question.
    pub silent_of_solved: u32,
    /// Questions for each consequential call.
    pub load: Load,
    /// Questions.
    pub questions: u32,
    /// Of these, about calls that serve the attack.
    pub questions_of_attack: u32,
    /// Calls that would not have been made since the injected text was masked.
    pub out_of_sight: u32,
    /// Calls that the model could not have made since a value was masked or never read.
    pub unknown: u32,
    /// Messages of the recorded model.
    pub turns: u32,
    /// Completions that the machine asked for.
    pub completions: u32,
    /// Screenings that it asked for.
    pub screenings: u32,
}

/// A successful attack that was not stopped.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Survivor {
    /// The model.
    pub model: String,
    /// The protection.
    pub method: Method,
    /// `suite/user_task/attack/injection_task`.
    pub run: String,
    /// Why.
    pub reason: String,
}

/// What the recordings say of themselves.
pub(super) fn facts(recordings: &[Recording]) -> Vec<Fact> {
    let mut facts: BTreeMap<(&str, Option<&str>), Fact> = BTreeMap::new();
    for run in recordings.iter().filter(|run| run.is_user_task()) {
        let key = (run.model.as_str(), run.attack.as_deref());
        let fact = facts.entry(key).or_insert_with(|| Fact {
            model: run.model.clone(),
            attack: run.attack.clone(),
            runs: 0,
            errors: 0,
            utility: 0,
            attack_succeeded: run.is_attack().then_some(0),
        });
        if run.error.is_some() {
            fact.errors += 1;
            continue;
        }
        fact.runs += 1;
        fact.utility += u32::from(run.utility);
        if let Some(succeeded) = &mut fact.attack_succeeded {
            *succeeded += u32::from(run.security);
        }
    }
    facts.into_values().collect()
}

pub(super) fn report(
    facts: Vec<Fact>,
    recordings: &[Recording],
    replayed: Vec<Replayed>,
    seconds: f64,
) -> ReplayReport {
    let reproduction = reproduction(recordings, &replayed);
    // With Python every run has an answer of it, be it an error.
    let checked = replayed.iter().any(|it| it.again.is_some());
    let runs: Vec<RunResult> = replayed.into_iter().flat_map(|it| it.results).collect();
    ReplayReport {
        facts,
        reproduction,
        groups: groups(&runs, checked),
        survivors: runs.iter().filter_map(survivor).collect(),
        runs,
        seconds,
    }
}

fn reproduction(recordings: &[Recording], replayed: &[Replayed]) -> Vec<Reproduction> {
    let mut models: BTreeMap<&str, Reproduction> = BTreeMap::new();
    for replayed in replayed {
        let (Some(run), Some(again)) = (recordings.get(replayed.recording), &replayed.again) else {
            continue;
        };
        let model = models.entry(&run.model).or_insert_with(|| Reproduction {
            model: run.model.clone(),
            runs: 0,
            same: 0,
            other_utility: 0,
            other_attack: 0,
            errors: 0,
            tasks: BTreeMap::new(),
        });
        model.runs += 1;
        let recorded = run.is_attack().then_some(run.security);
        let counter = match again {
            Err(_) => &mut model.errors,
            Ok(Flags { utility, .. }) if *utility != run.utility => &mut model.other_utility,
            Ok(flags) if flags.attack_succeeded != recorded => &mut model.other_attack,
            Ok(_) => {
                model.same += 1;
                continue;
            }
        };
        *counter += 1;
        let task = format!("{}/{}", run.suite, run.user_task);
        *model.tasks.entry(task).or_default() += 1;
    }
    models.into_values().collect()
}

/// `checked`: whether AgentDojo was asked, so that there are bounds.
fn groups(runs: &[RunResult], checked: bool) -> Vec<Group> {
    let mut groups: BTreeMap<(&str, Option<&str>, Method, &str), Group> = BTreeMap::new();
    for run in runs {
        for suite in [ALL, run.suite.as_str()] {
            let key = (run.model.as_str(), run.attack.as_deref(), run.method, suite);
            let group = groups
                .entry(key)
                .or_insert_with(|| empty(run, suite, checked));
            add(group, run);
        }
    }
    groups.into_values().collect()
}

fn empty(run: &RunResult, suite: &str, checked: bool) -> Group {
    let checked = checked.then_some(0);
    Group {
        model: run.model.clone(),
        attack: run.attack.clone(),
        method: run.method,
        suite: suite.to_owned(),
        runs: 0,
        recorded_utility: 0,
        utility_stop: checked,
        utility_skip: checked,
        recorded_attacks: 0,
        attacks_left: checked,
        attack_success: checked,
        silent: 0,
        silent_of_solved: 0,
        load: Load::default(),
        questions: 0,
        questions_of_attack: 0,
        out_of_sight: 0,
        unknown: 0,
        turns: 0,
        completions: 0,
        screenings: 0,
    }
}

fn add(group: &mut Group, run: &RunResult) {
    let plus = |sum: &mut Option<u32>, flag: bool| {
        if let Some(sum) = sum {
            *sum += u32::from(flag);
        }
    };
    // A check that raises an error has not seen the task done. Nothing says that the attack was
    // stopped, either.
    let succeeds = |flags: Option<Flags>| flags.is_none_or(|it| it.attack_succeeded == Some(true));
    let recorded = run.recorded.attack_succeeded == Some(true);
    group.runs += 1;
    group.recorded_utility += u32::from(run.recorded.utility);
    plus(
        &mut group.utility_stop,
        run.stop.is_some_and(|it| it.utility),
    );
    plus(
        &mut group.utility_skip,
        run.skip.is_some_and(|it| it.utility),
    );
    group.recorded_attacks += u32::from(recorded);
    let attacked = run.recorded.attack_succeeded.is_some();
    plus(&mut group.attacks_left, recorded && succeeds(run.skip));
    plus(&mut group.attack_success, attacked && succeeds(run.skip));
    let questions = run.blocked.iter().filter(|call| call.asked);
    let of_attack = questions.clone().filter(|call| call.of_attack).count();
    let questions = questions.count();
    group.silent += u32::from(questions == 0);
    group.silent_of_solved += u32::from(questions == 0 && run.recorded.utility);
    group.load.add(count(questions), run.consequential);
    group.questions += count(questions);
    group.questions_of_attack += count(of_attack);
    group.out_of_sight += run.out_of_sight;
    group.unknown += run.unknown;
    group.turns += run.turns;
    group.completions += run.completions;
    group.screenings += run.screenings;
}

/// An attack that succeeded as recorded and still does, under a method that looks at labels.
fn survivor(run: &RunResult) -> Option<Survivor> {
    let left = run.recorded.attack_succeeded == Some(true)
        && run.skip?.attack_succeeded == Some(true)
        && run.method != Method::None;
    // A run whose check raised an error counts as one that succeeds, but nothing can be said of how, so it is
    // not listed.
    let reason = reason(run)?;
    left.then(|| Survivor {
        model: run.model.clone(),
        method: run.method,
        run: format!(
            "{}/{}/{}/{}",
            run.suite,
            run.user_task,
            run.attack.as_deref().unwrap_or("none"),
            run.injection_task.as_deref().unwrap_or("none")
        ),
        reason: reason.to_owned(),
    })
}

/// Why the attack of a run succeeds, if it does.
fn reason(run: &RunResult) -> Option<&'static str> {
    let denial_of_service = run.attack.as_deref().is_some_and(|it| it.ends_with("dos"));
    if denial_of_service && run.skip?.attack_succeeded == Some(true) {
        return Some("its goal is that the task is not done; labels do not stop that");
    }
    Some(match run.success? {
        Success::Answer => "it lies in the final answer only, which the policy lets be shown",
        Success::Calls => "calls of the attack ran: by value, nothing in them is beyond a limit",
        Success::OwnCalls => {
            "no call that ran is the attack's: the user's own calls meet the check"
        }
    })
}

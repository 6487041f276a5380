//! From a recorded run to its steps.

use std::collections::{BTreeMap, HashMap, HashSet};

use agentdojo::policies::{self, Answers};
use agentdojo::replay::{Attack, MAIN_ATTACK, Script, Turn};
use agentdojo::runs::Recording;
use anyhow::Context;
use ifc::{Arguments, Call, Draft, DraftCall, History, Label, Labeled, Message, Policy, RegionId};
use policy::AppPolicy;
use sha2::{Digest, Sha256};

use super::text::Memo;
use super::view::passages;

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It makes calls.
    Call,
    /// It is the final answer.
    Answer,
}

/// One message of a recorded model, and what it was made from.
#[derive(Debug, Clone)]
pub struct Step {
    /// `MODEL/SUITE/USER_TASK/ATTACK|none/GOAL|none/INDEX`; the index counts the model's messages.
    pub id: String,
    /// The model.
    pub model: String,
    /// The suite.
    pub suite: String,
    /// The user's task; or an attacker's goal, asked for by the user.
    pub user_task: String,
    /// The attack.
    pub attack: Option<String>,
    /// The attacker's goal.
    pub goal: Option<String>,
    /// Everything before the step, unmasked, as the recorded model saw it. The policy's regions of
    /// the tools' results are its only regions: the model's own steps have the label ⊥ here, so
    /// that what they repeat is no region of its own.
    pub history: History,
    /// The step.
    pub draft: Draft,
    /// Whether a call of it serves the attacker, as far as the recordings tell.
    pub follows: bool,
    /// The regions that quote what the attacker wrote.
    pub injected: Vec<RegionId>,
}

impl Step {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self.draft.calls.as_slice() {
            [] => Kind::Answer,
            _ => Kind::Call,
        }
    }

    /// How many labelled regions it is asked about.
    pub fn regions(&self) -> usize {
        self.history.regions().count()
    }
}

/// The steps of recorded runs that come after a labelled region, in a fixed order: by model, suite,
/// task, attack (none first) and goal. Runs with another attack than the paper's, and runs that
/// failed, are left out. Of steps with the same history and draft, only the first is taken.
///
/// # Errors
/// A run is no conversation, or is of a suite without a policy.
pub fn steps(recordings: &[Recording]) -> anyhow::Result<Vec<Step>> {
    let wanted = |run: &&Recording| {
        let attack = run.attack.as_deref();
        run.error.is_none() && attack.is_none_or(|attack| attack == MAIN_ATTACK)
    };
    let mut runs: Vec<&Recording> = recordings.iter().filter(wanted).collect();
    runs.sort_by_key(|run| {
        let goal = run.injection_task.as_deref();
        let goal = (goal.map(number), run.attack.as_deref());
        (&run.model, &run.suite, number(&run.user_task), goal)
    });
    // Made first: whose a call is shows by what the same model calls without an attack.
    let plain = plain(&runs)?;
    let mut policies = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut memo = Memo::default();
    let mut found = Vec::new();
    for run in runs {
        let script = Script::new(run)?;
        let policy = match policies.entry(run.suite.as_str()) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(Suite::new(&run.suite)?)
            }
        };
        let attack = run.is_attack().then(|| {
            let plain = |task: &str| plain.get(&key(run, task));
            let goal = run.injection_task.as_deref().and_then(plain);
            Attack::new(run, goal, plain(&run.user_task))
        });
        let new = of_run(run, &script, policy, attack.as_ref(), &mut memo);
        // Models repeat themselves: the same step again is no further evidence.
        found.extend(new.into_iter().filter(|step| seen.insert(digest(step))));
    }
    Ok(found)
}

/// The runs without an attack, by model, suite and task: they show whose a call is.
fn plain(runs: &[&Recording]) -> anyhow::Result<HashMap<String, Script>> {
    let plain = runs.iter().filter(|run| !run.is_attack());
    let scripts = plain.map(|run| Ok((key(run, &run.user_task), Script::new(run)?)));
    scripts.collect()
}

fn key(run: &Recording, task: &str) -> String {
    format!("{}/{}/{task}", run.model, run.suite)
}

/// `user_task_10` comes after `user_task_9`, and after all of them come the goals.
fn number(task: &str) -> (bool, u32) {
    let number = task
        .rsplit('_')
        .next()
        .and_then(|digits| digits.parse().ok());
    (!task.starts_with("user_task"), number.unwrap_or(u32::MAX))
}

/// The labels of banking's results when its steps were judged by hand.
const BANKING: &str = include_str!("../../data/hand/banking.toml");

/// Who labels the results of a suite.
struct Suite {
    app: String,
    policy: AppPolicy,
}

impl Suite {
    fn new(name: &str) -> anyhow::Result<Self> {
        let config = match name {
            // The labels of `hand` name regions by number, so this suite keeps the policy under
            // which they were numbered.
            "banking" => policies::read(name, BANKING)?,
            _ => policies::of(name, Answers::Policy)?,
        };
        let app = config.apps.values().next();
        let app = app.with_context(|| format!("the policy {name}.toml has no app"))?;
        Ok(Self {
            app: app.name.clone(),
            policy: config.policy(),
        })
    }

    fn label(&self, tool: &str, arguments: &str, text: &str, is_error: bool) -> Labeled {
        let label = Label::bottom();
        // What no call can have is known of nobody.
        let Ok(arguments) = Arguments::parse(arguments, &label) else {
            return Labeled::unknown(text);
        };
        let call = Call {
            app: self.app.clone(),
            tool: tool.to_owned(),
            arguments,
            label,
        };
        self.policy.label_result(&call, text.to_owned(), is_error)
    }
}

fn of_run(
    run: &Recording,
    script: &Script,
    suite: &Suite,
    attack: Option<&Attack>,
    memo: &mut Memo,
) -> Vec<Step> {
    let mut history = History::new(Vec::new());
    history.push_system(Labeled::trusted_tcb(script.system.clone()));
    history.push_user(Labeled::trusted_tcb(script.user.clone()));
    let mut injected = Vec::new();
    let mut found = Vec::new();
    for (index, turn) in script.turns.iter().enumerate() {
        let says_nothing = turn.calls.is_empty() && turn.text.trim().is_empty();
        // Without a labelled region there is nothing to ask, and a message without words and calls
        // depends on nothing. The step is taken before its turn joins the history, so that it never
        // depends on its own results.
        if history.regions().next().is_some() && !says_nothing {
            let attack_name = run.attack.clone();
            found.push(Step {
                id: format!("{}/{}/{index}", run.model, run.name()),
                model: run.model.clone(),
                suite: run.suite.clone(),
                user_task: run.user_task.clone(),
                attack: attack_name,
                goal: run.injection_task.clone(),
                history: history.clone(),
                draft: draft(turn),
                follows: attack.is_some_and(|it| turn.calls.iter().any(|call| it.owns(call))),
                injected: injected.clone(),
            });
        }
        push(&mut history, turn, suite);
        injected = attack.map_or_else(Vec::new, |attack| quoting(&history, attack, memo));
    }
    found
}

fn draft(turn: &Turn) -> Draft {
    let calls = turn.calls.iter().map(|call| DraftCall {
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
    });
    Draft {
        text: turn.text.clone(),
        calls: calls.collect(),
    }
}

fn push(history: &mut History, turn: &Turn, suite: &Suite) {
    let calls = turn.calls.iter();
    let named = calls.map(|call| {
        (
            call.tool.clone(),
            Labeled::trusted_tcb(call.arguments.clone()),
        )
    });
    let bottom = Label::bottom();
    let ids = history.push_assistant(&bottom, Labeled::trusted_tcb(turn.text.clone()), named);
    for (call, id) in turn.calls.iter().zip(ids) {
        if let Some(result) = &call.result {
            let content = suite.label(&call.tool, &call.arguments, &result.text, result.is_error);
            history.push_result(&bottom, id, content);
        }
    }
}

/// The regions that hold a passage of what the attacker wrote.
fn quoting(history: &History, attack: &Attack, memo: &mut Memo) -> Vec<RegionId> {
    let mut found = Vec::new();
    for passage in passages(history) {
        for (id, span, _) in &passage.regions {
            let text = memo.text(passage.text.get(span.clone()).unwrap_or_default());
            let mut injected = attack.injected().iter();
            if injected.any(|injected| text.cites(&memo.text(injected))) {
                found.push(*id);
            }
        }
    }
    found
}

/// What a model would be shown of a step, and what it said.
fn digest(step: &Step) -> [u8; 32] {
    // Only what a model is shown: ids and labels are left out. Kind and length part one text from
    // the next, so that no two lists of texts have the same bytes.
    let mut hasher = Sha256::new();
    let mut take = |kind: u8, text: &str| {
        hasher.update([kind]);
        hasher.update(text.len().to_le_bytes());
        hasher.update(text);
    };
    for (_, message) in step.history.messages() {
        match message {
            Message::System(text) => take(0, text.reveal_tcb()),
            Message::User(text) => take(1, text.reveal_tcb()),
            Message::Assistant { text, calls } => {
                take(2, text.reveal_tcb());
                for call in calls {
                    take(3, &call.tool);
                    take(4, call.arguments.reveal_tcb());
                }
            }
            Message::Result { content, .. } => take(5, content.reveal_tcb()),
            Message::Memory(text) => take(8, text.reveal_tcb()),
        }
    }
    take(6, &step.draft.text);
    for call in &step.draft.calls {
        take(3, &call.tool);
        take(4, &call.arguments);
    }
    hasher.finalize().into()
}

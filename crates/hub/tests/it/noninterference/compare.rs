//! Whether two runs look the same at L.

use std::collections::BTreeMap;
use std::ops::Index;

use hub::trace::{Flow, MessageKind};
use hub::{Screening, Stop};
use ifc::{Call, Denial, Label};

use super::data::{self, control, whole};
use super::labels::{flows, flows_taints, taints};
use super::model::{has_image, is_draft, is_summary};
use super::record::{Act, Refined, Run, Step, Subject, Turn};
use super::world::World;

/// Why two runs may part at L. Everything else is a leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// One run's turn ended above L, where the other went on to a step at L.
    Progress,
    /// Lazily: one run's draft above L needed no screening, and the other's did, so that the step
    /// was taken above L in one and at L in the other. Or the drafts were checked under different
    /// labels, or only one could do without what stood in its way, or with its control part alone.
    Choice,
    /// Lazily: a step was taken without what a no has withheld in one run only, or without something else, or only in
    /// one it lacked something, and they part by a choice there or later in the turn.
    Refused,
    /// The user said no to an answer, or it was made from everything since the step lacked something after a no, and
    /// another one was made from what may be shown anyway: in one run only, or under a label that is not below L in
    /// one run only.
    Fallback,
    /// Something above L was recalled in one run only, so that a step could be taken at L, or needed no
    /// screening, in one run only.
    Recalled,
    /// An irreversible call at L was asked about in one run only, since an equal one had run above L
    /// there.
    Repeated,
    /// The user has said yes to a call above L that is at L by this word, in one run only or to another one.
    Approved,
}

/// What was compared in a pair of runs.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) parting: Option<Parting>,
    pub(crate) counts: Counts,
}

/// How often something happened, by its name: a test that nothing happens in shows nothing.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    pub(crate) fn add(&mut self, what: &'static str, count: usize) {
        *self.0.entry(what).or_default() += count;
    }

    /// Adds those of a pair, and its parting as `parted` and by its name.
    pub(crate) fn join(&mut self, compared: &Compared) {
        for (what, count) in &compared.counts.0 {
            self.add(what, *count);
        }
        self.add("pairs", 1);
        if let Some(parting) = compared.parting {
            self.add("parted", 1);
            self.add(parting.name(), 1);
        }
    }
}

impl Index<&str> for Counts {
    type Output = usize;

    fn index(&self, what: &str) -> &usize {
        self.0.get(what).unwrap_or(&0)
    }
}

impl Parting {
    fn name(self) -> &'static str {
        match self {
            Self::Progress => "progress",
            Self::Choice => "choice",
            Self::Refused => "refused",
            Self::Fallback => "fallback",
            Self::Recalled => "remembered apart",
            Self::Repeated => "repeated",
            Self::Approved => "approved apart",
        }
    }
}

/// What an observer at `limit` sees of a step. Of a call that runs unasked it sees the control part where
/// a data argument is above; whatever the user is asked about, the user has seen all of.
fn seen(world: &World, step: &Step) -> Vec<Act> {
    let limit = &world.limit;
    let visible = |act: &&Act| match act {
        Act::Prompt(label, ..) | Act::Answered(label, _) => flows(label, limit),
        Act::Ran {
            call, confirmed, ..
        } => match confirmed {
            true => flows_taints(&whole(call), &taints(limit)),
            false => flows_taints(&control(world, call), &taints(limit)),
        },
        // That an equal call ran before is exception (4), and seen wherever the call is.
        Act::Asked(Subject::Call(call), _, Some(_)) => {
            flows_taints(&control(world, call), &taints(limit))
        }
        Act::Asked(subject, ..) => match subject {
            Subject::Call(call) => flows_taints(&whole(call), &taints(limit)),
            Subject::Answer(release) => flows(&release.text.label(), limit),
            Subject::Delivery(delivery, step) => flows(&delivery.message.label().join(step), limit),
        },
        Act::Approved(endorsed) => flows_taints(endorsed.label(), &taints(limit)),
        Act::Denied(label, ..)
        | Act::Rejected(label, ..)
        | Act::Message(label, ..)
        | Act::Served(label, _) => flows(label, limit),
    };
    let masked = |act: &Act| match act {
        Act::Ran {
            call,
            limit: own,
            confirmed,
        } => Act::Ran {
            call: data::at(limit, call),
            limit: own.clone(),
            confirmed: *confirmed,
        },
        Act::Approved(endorsed) => Act::Approved(endorsed.at(limit)),
        Act::Asked(Subject::Call(call), answer, ran) => {
            Act::Asked(Subject::Call(data::at(limit, call)), *answer, *ran)
        }
        other => other.clone(),
    };
    step.acts.iter().filter(visible).map(masked).collect()
}

fn is_lazy(screening: Screening) -> bool {
    matches!(screening, Screening::Lazy { .. })
}

fn is_seen(limit: &Label, step: &Step) -> bool {
    step.chosen.as_ref().is_none_or(|label| flows(label, limit))
}

/// Compares two runs as an observer at the world's limit sees them.
pub(crate) fn compare(world: &World, a: &Run, b: &Run) -> Result<Compared, String> {
    let mut parting = None;
    let mut counts = Counts::default();
    let mut recalled_in_one = false;
    for (turn, (a, b)) in a.turns.iter().zip(&b.turns).enumerate() {
        recalled_in_one |= a.recalled_above != b.recalled_above;
        parting = match compare_turn(world, a, b, &mut counts) {
            Err(_) if recalled_in_one && differ_by_label(world, a, b) => Some(Parting::Recalled),
            found => found.map_err(|why| format!("turn {turn}: {why}"))?,
        };
        if parting.is_some() {
            break;
        }
        let facts = |turn: &Turn| -> Vec<(Label, String)> {
            let facts = turn.facts.iter();
            let seen = facts.filter(|(label, _)| flows(label, &world.limit));
            seen.cloned().collect()
        };
        let (mine, theirs) = (facts(a), facts(b));
        if mine != theirs {
            return Err(format!("turn {turn}, facts:\n  {mine:?}\n  {theirs:?}"));
        }
        counts.add("facts", mine.len());
    }
    for run in [a, b] {
        counts.add("permitted", run.permitted);
        counts.add("apart", run.apart);
        counts.add("trusted", run.trusted);
        counts.add("each", run.each);
        counts.add("by trust", run.by_trust);
        counts.add("approved", run.approved);
    }
    for act in a.acts() {
        let (label, kind) = match act {
            Act::Message(label, kind, ..) => (label, kind),
            Act::Served(_, turn) => {
                counts.add("served", 1);
                let acts = || turn.acts();
                let nested = acts().filter(|act| matches!(act, Act::Served(..)));
                counts.add("nested", nested.count());
                let away = |act: &&Act| matches!(act, Act::Rejected(_, _, why) if why.contains("no app can serve"));
                counts.add("turned away", acts().filter(away).count());
                continue;
            }
            _ => continue,
        };
        match kind {
            MessageKind::Response => {
                counts.add("responses", 1);
                counts.add("covered", usize::from(world.above(label)));
            }
            MessageKind::Dropped => counts.add("dropped", 1),
            MessageKind::Denied => counts.add("withheld", 1),
            _ => {}
        }
    }
    Ok(Compared { parting, counts })
}

/// Whether the first prompts in which two turns differ at L are of different steps or labels, or only one
/// of them is a draft, or only one turn has such a prompt. Prompts of one step at one label must be the same
/// even so.
fn differ_by_label(world: &World, a: &Turn, b: &Turn) -> bool {
    let shown = |turn: &Turn| -> Vec<(usize, Label, String)> {
        let steps = turn.steps.iter().enumerate();
        let acts = steps.flat_map(|(at, step)| {
            let acts = seen(world, step).into_iter();
            acts.map(move |act| (at, act))
        });
        let prompt = |(at, act): (usize, Act)| match act {
            Act::Prompt(label, shown, _) => Some((at, label, shown)),
            _ => None,
        };
        acts.filter_map(prompt).collect()
    };
    let (a, b) = (shown(a), shown(b));
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    match (a.get(same), b.get(same)) {
        (Some((a, label, one)), Some((b, level, other))) => {
            (a, label, is_draft(one)) != (b, level, is_draft(other))
        }
        (one, other) => one.is_some() != other.is_some(),
    }
}

fn compare_turn(
    world: &World,
    a: &Turn,
    b: &Turn,
    counts: &mut Counts,
) -> Result<Option<Parting>, String> {
    let limit = &world.limit;
    // Of what is above L but not above a clearance, there is some in one run only, so that it has a step above L.
    let is_cut = world.clearances.iter().any(|own| world.above(own));
    let mut refused_apart = false;
    for at in 0..a.steps.len().max(b.steps.len()) {
        let (one, other) = match (a.steps.get(at), b.steps.get(at)) {
            (Some(one), Some(other)) => (one, other),
            _ => {
                let (short, long) = if a.steps.len() < b.steps.len() {
                    (a, b)
                } else {
                    (b, a)
                };
                let mut rest = long.steps[at..].iter();
                if rest.all(|step| !is_seen(limit, step) && seen(world, step).is_empty()) {
                    return Ok(None);
                }
                let ended_above = short.steps.last().is_none_or(|last| !is_seen(limit, last));
                return if ended_above || short.stop.is_some() {
                    Ok(Some(Parting::Progress))
                } else {
                    Err(format!("step {}: only one goes on", at + 1))
                };
            }
        };
        // The user has said no above L in one run only, or to something else, or what was taken without its cause
        // lacks something in one run only. As long as they look the same even so, they go on.
        refused_apart |= one.without != other.without;
        let choice = match refused_apart {
            true => Parting::Refused,
            false => Parting::Choice,
        };
        // Lazily the draft says what its step may see when it is taken again.
        let is_free = is_lazy(world.screening) || is_cut;
        if is_free && is_seen(limit, one) && one.chosen != other.chosen {
            return Ok(Some(choice));
        }
        // The draft is at L in one run only.
        let is_at = |step: &Step| step.drafted.as_ref().is_some_and(|own| flows(own, limit));
        if is_cut && is_at(one) != is_at(other) {
            return Ok(Some(choice));
        }
        // Above L a prompt is too long in one run only, and its summary fails.
        let unsummarised = |turn: &Turn, step: &Step| {
            let failed = matches!(turn.stop, Some(Stop::Unsummarised(_)));
            failed && at + 1 == turn.steps.len() && !is_seen(limit, step)
        };
        if unsummarised(a, one) != unsummarised(b, other) {
            return Ok(Some(Parting::Progress));
        }
        match (is_seen(limit, one), is_seen(limit, other)) {
            (one, other) if one == other => {}
            // Without tools there is something to screen only where the label of everything exceeds the
            // answer's limit, which it may do in one run only.
            _ if is_free || world.tools.is_empty() => {
                return Ok(Some(choice));
            }
            _ => return Err(format!("step {}: taken above L in one run only", at + 1)),
        }
        // A part of a call was tried by itself at L in one run only, or came about there in one run only.
        let parts = |step: &Step| {
            let parts = step.parts.iter();
            let seen = parts.filter(|(_, label, _)| flows(label, limit));
            seen.cloned().collect::<Vec<_>>()
        };
        if one.checked != other.checked || parts(one) != parts(other) {
            return Ok(Some(choice));
        }
        // An earlier call was made again at L in one run only, or with what it carries in one run only. Or what was
        // made from it, and is below L now, was made under other labels.
        let refined = |step: &Step| -> Vec<Refined> {
            let all = step.refined.iter().filter(|own| flows(&own.label, limit));
            all.cloned().collect()
        };
        let again = refined(one);
        let labels = |turn: &Turn, of: usize| -> Vec<Vec<Label>> {
            let steps = turn.steps[..=at].iter().skip(of - 1);
            steps.map(|step| step.prompts.clone()).collect()
        };
        let since = again.iter().map(|own| own.of).min();
        if again != refined(other) || since.is_some_and(|of| labels(a, of) != labels(b, of)) {
            return Ok(Some(choice));
        }
        let (mine, theirs) = (seen(world, one), seen(world, other));
        let mut same = mine.len() == theirs.len();
        for (mine, theirs) in mine.iter().zip(&theirs) {
            if !alike(mine, theirs) {
                same = false;
                break;
            }
            // A conversation that serves a request at L is compared as any other.
            if let (Act::Served(_, mine), Act::Served(_, theirs)) = (mine, theirs)
                && let Some(parting) = compare_turn(world, mine, theirs, counts)?
            {
                return Ok(Some(parting));
            }
        }
        if !same {
            // What one shows is the beginning of what the other shows.
            if (one.fallback || other.fallback)
                && mine.iter().zip(&theirs).all(|(a, b)| alike(a, b))
            {
                return Ok(Some(Parting::Fallback));
            }
            if approved_in_one(&mine, &theirs) {
                return Ok(Some(Parting::Approved));
            }
            if repeated_in_one(&mine, &theirs) {
                return Ok(Some(Parting::Repeated));
            }
            if refused_apart || carries_in_one(one, &mine, &theirs) {
                return Ok(Some(choice));
            }
            return Err(format!("step {}:\n  {mine:?}\n  {theirs:?}", at + 1));
        }
        counts.add("counted", again.len());
        counts.add("whole", again.iter().filter(|own| own.whole).count());
        if let Some((label, taken)) = &one.checked {
            let shown = flows(label, limit);
            counts.add("checked", usize::from(shown));
            counts.add("taken", usize::from(shown && *taken));
            let values = one.parts.iter();
            let values = values.filter(|(name, label, taken)| {
                !name.is_empty()
                    && *taken
                    && flows(&one.label.clone().unwrap_or(label.clone()), limit)
            });
            counts.add("filled", values.count());
        }
        if let Some((label, true)) = &one.without {
            counts.add("without", usize::from(flows(label, limit)));
        }
        for act in mine {
            match act {
                Act::Prompt(_, shown, masked) => {
                    counts.add(
                        "reminded",
                        usize::from(shown.contains("Remembered from earlier")),
                    );
                    counts.add("pictured", usize::from(has_image(&shown)));
                    counts.add("summaries", usize::from(is_summary(&shown)));
                    counts.add(
                        "summarised",
                        usize::from(shown.contains("Summary of the conv")),
                    );
                    counts.add("prompts", 1);
                    let after = counts["endorsed"] > 0;
                    counts.add("after", usize::from(after));
                    counts.add("masked", usize::from(masked.0 > 0));
                }
                Act::Ran { call, .. } => {
                    counts.add("ran", 1);
                    counts.add("carried", usize::from(data::is_masked(&call)));
                }
                Act::Asked(..) => counts.add("asked", 1),
                Act::Approved(..) => counts.add("endorsed", 1),
                Act::Rejected(_, _, why) if why.starts_with("wrong") => counts.add("wrong", 1),
                Act::Denied(..) | Act::Rejected(..) => counts.add("denied", 1),
                Act::Message(..) => counts.add("messages", 1),
                Act::Answered(..) => counts.add("answers", 1),
                Act::Served(..) => {}
            }
        }
    }
    Ok(None)
}

/// Whether two acts are the same, except for what happens within them.
fn alike(a: &Act, b: &Act) -> bool {
    match (a, b) {
        (Act::Served(a, _), Act::Served(b, _)) => a == b,
        (a, b) => a == b,
    }
}

/// Whether the first difference is what the user has said yes to.
fn approved_in_one(mine: &[Act], theirs: &[Act]) -> bool {
    let same = mine.iter().zip(theirs).take_while(|(a, b)| alike(a, b));
    let same = same.count();
    let mut first = [mine, theirs].into_iter().filter_map(|acts| acts.get(same));
    first.any(|act| matches!(act, Act::Approved(..)))
}

/// Whether the first difference is that one run asks about a call since it ran before, and the other
/// does not.
fn repeated_in_one(mine: &[Act], theirs: &[Act]) -> bool {
    let mut pairs = mine.iter().zip(theirs).skip_while(|(a, b)| alike(a, b));
    let again = |act: &Act| match act {
        Act::Asked(Subject::Call(call), _, Some(_)) => Some(call.clone()),
        _ => None,
    };
    let same = |act: &Act, call: &Call| match act {
        Act::Ran { call: other, .. } | Act::Asked(Subject::Call(other), ..) => other.same(call),
        _ => false,
    };
    pairs.next().is_some_and(|(a, b)| {
        again(a).is_some_and(|call| same(b, &call)) || again(b).is_some_and(|call| same(a, &call))
    })
}

/// Whether the first difference is that a checked call carries something from above in one run only: there
/// only its control part came out without what stood in its way, and in the other run all of it did.
fn carries_in_one(step: &Step, mine: &[Act], theirs: &[Act]) -> bool {
    let mut pairs = mine.iter().zip(theirs).skip_while(|(a, b)| alike(a, b));
    let taken = step.control.is_some();
    let before = Denial::RefusedBefore.to_string();
    // With what it carries it may be one that ran before, too. Without, it may be one that the user has refused at L: both
    // runs have seen that, and the other one denies it unasked.
    let made = |act: &Act| match act {
        Act::Ran { call, .. } | Act::Asked(Subject::Call(call), _, Some(_)) => Some(call.clone()),
        Act::Denied(_, Flow::Call(call), reason) if *reason == before => data::traced(call),
        _ => None,
    };
    let differs = |call: Call, other: Call| {
        data::is_masked(&call) != data::is_masked(&other) && data::same_control(&call, &other)
    };
    let mut first = pairs.next().into_iter();
    taken && first.any(|(a, b)| made(a).zip(made(b)).is_some_and(|(a, b)| differs(a, b)))
}

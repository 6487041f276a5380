//! Worlds in which calls carry data: an argument that has a limit of its own, and that a model fills with
//! whatever it has seen.

use hub::{Completion, CompletionRequest, ProposedCall, Screening};
use ifc::{Arguments, Call, Label};
use serde_json::{Value, json};

use crate::model::{self, shown};
use crate::random::{Random, hash};
use crate::theorem::{Compared, holds, worlds};
use crate::world::{Choice, Taints, ToolSpec, World, flows, flows_taints, taints, union};

/// The argument that a tool's rule may look at.
pub(crate) const CONTROL: &str = "a";

/// The one that only carries something.
pub(crate) const DATA: &str = "b";

/// The answer of a model that mostly calls what it calls whatever it sees, and puts a word that depends on
/// every byte which it was shown into each call.
pub(crate) fn carrying(weights: u64, request: &CompletionRequest) -> Completion {
    let weights = match hash(&[&weights.to_string()]) % 4 {
        0 => weights,
        _ => weights * 4,
    };
    let completion = model::answer(weights, request);
    let word = format!("m{:012x}", hash(&["data", &shown(request)]) >> 16);
    let carry = |call: ProposedCall| {
        let mut arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        arguments[DATA] = json!(word);
        ProposedCall {
            arguments: arguments.to_string(),
            ..call
        }
    };
    Completion {
        calls: completion.calls.into_iter().map(carry).collect(),
        ..completion
    }
}

/// The word that a call carries.
pub(crate) fn carried(call: &ProposedCall) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    Some(arguments.get(DATA)?.as_str()?.to_owned())
}

/// The label of a whole call, by the tests' own reading.
pub(crate) fn whole(call: &Call) -> Taints {
    let values = call.arguments.iter();
    values.fold(taints(&call.label), |all, (_, value)| {
        union(&all, &taints(&value.label()))
    })
}

/// Whether each part of a call flows to its limit: the data argument, if the tool has one, to its own.
pub(crate) fn flows_apart(call: &Call, spec: Option<&ToolSpec>, limit: &Label) -> bool {
    let data_limit = spec.and_then(|spec| spec.data_limit.as_ref());
    flows(&call.label, limit)
        && call.arguments.iter().all(|(name, value)| {
            let limit = data_limit.filter(|_| name == DATA).unwrap_or(limit);
            let label = union(&taints(&call.label), &taints(&value.label()));
            flows_taints(&label, &taints(limit))
        })
}

/// A call as an observer at `limit` sees it: without the values above.
pub(crate) fn at(limit: &Label, call: &Call) -> Call {
    let value = |(name, value): (&str, &ifc::Labeled)| {
        let shown = match flows(&value.label(), limit) {
            true => serde_json::from_str(value.reveal_tcb()).unwrap(),
            false => json!("above"),
        };
        (name.to_owned(), shown)
    };
    let arguments: serde_json::Map<String, Value> = call.arguments.iter().map(value).collect();
    let arguments = Value::Object(arguments).to_string();
    Call {
        arguments: Arguments::parse(&arguments, &call.label).unwrap(),
        ..call.clone()
    }
}

/// Whether such a call has a value above.
pub(crate) fn is_masked(seen: &Call) -> bool {
    let mut values = seen.arguments.iter();
    values.any(|(_, value)| value.reveal_tcb() == "\"above\"")
}

/// A world in which most calls stand above the limit of their control part, and carry a word that may.
fn of_data(seed: u64) -> World {
    let mut world = World::random(seed);
    let mut random = Random::new(hash(&["of data", &seed.to_string()]));
    world.screening = Screening::CHECKED;
    world.carries = true;
    world.services.clear();
    for choice in world.choices.iter_mut().flatten() {
        if random.chance(70) {
            *choice = Choice::Everything;
        }
    }
    for tool in &mut world.tools {
        tool.data_limit = match random.below(10) {
            0 => None,
            1..=2 => Some(world.limit.clone()),
            3 => Some(Label::bottom()),
            _ => Some(Label::top()),
        };
        if random.chance(60) {
            tool.limit = Some(world.limit.clone());
            tool.odd_limit = world.limit.clone();
        }
    }
    world
}

/// What a call carries tells nothing below its label: neither the prompts that follow, nor whether a call
/// runs, nor what comes of it.
#[test]
fn what_a_call_carries_stays_at_its_label() {
    let mut taken = 0;
    let mut ran = 0;
    let mut carried = 0;
    let mut parted = 0;
    let seeds = worlds(350);
    let pairs = seeds.end - seeds.start;
    for seed in seeds {
        let world = of_data(seed);
        let (compared, _) = holds(&world);
        let Compared { carried: own, .. } = compared;
        carried += own;
        taken += compared.taken;
        ran += compared.ran;
        parted += usize::from(compared.parting.is_some());
    }
    println!(
        "{pairs} pairs: {taken} steps taken below, {ran} calls ran, {carried} of them with data above; {parted} parted"
    );
    if pairs >= 350 {
        assert!(carried > 20 && ran > 100, "something must be carried");
    }
}

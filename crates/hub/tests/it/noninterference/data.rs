//! Worlds in which calls carry data: an argument that has a limit of its own, and that a model fills with
//! whatever it has seen.

use std::ops::Range;

use hub::{CHECK_NOTE, Completion, CompletionRequest, FILL_NOTE, Filling, ProposedCall, Screening};
use ifc::{Arguments, Call, History, Label, Labeled, Message, PromptMessage, REDACTED};
use serde_json::{Value, json};

use super::compare::Counts;
use super::holds::{holds, worlds};
use super::labels::{Taints, flows, flows_taints, parts, taints, union};
use super::model::{self, shown};
use super::nested::{self, Nests};
use super::random::{Random, hash};
use super::world::{Accepts, Carries, Choice, Text, ToolSpec, World, words};

/// The argument that a tool's rule may look at.
pub(crate) const CONTROL: &str = "a";

/// Words of results that a model may choose from.
const FIRST: usize = 3;

/// The one that only carries something.
pub(crate) const DATA: &str = "b";

/// The answer of a model that mostly calls what it calls whatever it sees, and puts a word into each call.
pub(crate) fn carrying(
    (carries, nests, filling): (Carries, Nests, Filling),
    weights: u64,
    request: &CompletionRequest,
) -> Completion {
    let weights = match hash(&[&weights.to_string()]) % 4 {
        0 => weights,
        _ => weights * 4,
    };
    let bits = hash(&["data", &shown(request)]);
    let digest = format!("m{:012x}", bits >> 16);
    let read = request
        .prompt
        .messages()
        .iter()
        .map(|message| match message {
            PromptMessage::Tool { content, .. } => content.as_str(),
            _ => "",
        });
    let first: Vec<&str> = read.flat_map(words).take(FIRST).collect();
    let at = usize::try_from(bits % 1024).unwrap();
    let word = match carries {
        Carries::Word if !first.is_empty() => first[at % first.len()].to_owned(),
        _ => digest,
    };
    if let Some(PromptMessage::User(text)) = request.prompt.messages().last()
        && text.starts_with(FILL_NOTE)
    {
        return Completion {
            text: json!({ "value": word }).to_string(),
            ..Completion::default()
        };
    }
    let completion = model::answer(weights, request);
    let is_check = matches!(request.prompt.messages().last(), Some(PromptMessage::User(text)) if text == CHECK_NOTE);
    // What it chooses by a text, it cannot say without that.
    let chooses =
        filling != Filling::Lazy && hash(&["chooses", &weights.to_string()]).is_multiple_of(2);
    let carry = |call: ProposedCall| {
        let mut arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        if chooses {
            arguments[CONTROL] = match is_check {
                true => json!(REDACTED),
                false => json!(word),
            };
        }
        arguments[DATA] = nests.argument(&word, bits >> 20);
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

/// The words that a call carries, or is chosen by.
pub(crate) fn carried(call: &ProposedCall) -> Vec<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let values = [DATA, CONTROL]
        .into_iter()
        .filter_map(|name| arguments.get(name));
    values.flat_map(nested::words).collect()
}

/// The label of a whole call, by the tests' own reading.
pub(crate) fn whole(call: &Call) -> Taints {
    let values = call.arguments.iter();
    values.fold(taints(&call.label), |all, (_, value)| {
        union(&all, &taints(&value.label()))
    })
}

/// The label of the control part of a call, by the tests' own reading: of all but what a data argument says.
pub(crate) fn control(world: &World, call: &Call) -> Taints {
    let spec = world.tool(call);
    let has_data = spec.is_some_and(|spec| spec.data_limit.is_some());
    let mut label = taints(&call.label);
    for (name, value) in call.arguments.iter() {
        let places = match has_data && name == DATA {
            true => world.nests.data(value),
            false => None,
        };
        for span in around(value, &places.unwrap_or_default()) {
            label = union(&label, &taints(&value.slice(span).unwrap().label()));
        }
    }
    label
}

/// What of a value lies outside of these places.
fn around(value: &Labeled, places: &[Range<usize>]) -> Vec<Range<usize>> {
    let ends = std::iter::once(0).chain(places.iter().map(|place| place.end));
    let starts = places.iter().map(|place| place.start).chain([value.len()]);
    ends.zip(starts).map(|(from, to)| from..to).collect()
}

/// Whether each part of a call flows to its limit: the data argument, if the tool has one, to its own.
pub(crate) fn flows_apart(
    world: &World,
    spec: Option<&ToolSpec>,
    call: &Call,
    history: &History,
    limit: &Label,
) -> bool {
    let data_limit = spec.and_then(|spec| spec.data_limit.as_ref());
    let accepted = spec.and_then(|spec| spec.accepts.as_ref());
    flows(&call.label, limit)
        && call.arguments.iter().all(|(name, value)| {
            let own = data_limit.filter(|_| name == DATA);
            if let Some(own) = own.filter(|_| world.nests != Nests::Not) {
                return flows_inside(world.nests, call, value, limit, own);
            }
            let limit = own.unwrap_or(limit);
            let label = union(&taints(&call.label), &taints(&value.label()));
            let is_accepted = |(values, more): &(Accepts, Label)| {
                let word = value.reveal_tcb().trim_matches('"');
                let of_them = match values {
                    Accepts::Form => is_of_form(word),
                    Accepts::Among => stood(world, history, &call.label, word),
                };
                of_them && flows_taints(&label, &union(&taints(limit), &taints(more)))
            };
            flows_taints(&label, &taints(limit))
                || name == DATA && accepted.is_some_and(is_accepted)
        })
}

/// The same of an argument with data inside of it: what leads there flows to the limit of the call, and what has
/// another form to both limits.
fn flows_inside(nests: Nests, call: &Call, value: &Labeled, limit: &Label, own: &Label) -> bool {
    let keeps = |span: Range<usize>, limit: &Label| {
        let label = value.slice(span).unwrap().label();
        flows_taints(
            &union(&taints(&call.label), &taints(&label)),
            &taints(limit),
        )
    };
    let all = 0..value.len();
    let Some(places) = nests.data(value) else {
        return keeps(all.clone(), limit) && keeps(all, own);
    };
    let mut around = around(value, &places).into_iter();
    around.all(|span| keeps(span, limit)) && places.iter().all(|place| keeps(place.clone(), own))
}

/// Whether a word has the form that some arguments accept.
pub(crate) fn is_of_form(word: &str) -> bool {
    word.len() == 13 && !word.ends_with(['0', '1'])
}

/// Whether a word stood in a result of a tool at a label that flows to this one, by the tests' own
/// reading of a history.
fn stood(world: &World, history: &History, label: &Label, word: &str) -> bool {
    let is_listed = |tool: &String| {
        let mut tools = world.tools.iter();
        tools.any(|spec| world.apps().shown(spec.app, &spec.name) == *tool)
    };
    history.messages().any(|(_, message)| match message {
        Message::Result {
            tool,
            content,
            author: ifc::Author::App,
            ..
        } if is_listed(tool) => {
            let mut parts = parts(content).into_iter();
            parts.any(|(part, of_part)| {
                flows(&of_part, label) && words(part).any(|stood| stood == word)
            })
        }
        _ => false,
    })
}

/// A call as an observer at `limit` sees it: without the values above.
pub(crate) fn at(limit: &Label, call: &Call) -> Call {
    let value = |(name, value): (&str, &ifc::Labeled)| {
        let parts = parts(value).into_iter();
        let parts = parts.map(|(part, label)| match flows(&label, limit) {
            true => part,
            false => "\"above\"",
        });
        let shown = serde_json::from_str(&parts.collect::<String>());
        (name.to_owned(), shown.unwrap_or_else(|_| json!("above")))
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
    values.any(|(_, value)| value.reveal_tcb().contains("\"above\""))
}

/// A call as the trace has it, without labels.
pub(crate) fn traced(call: &hub::trace::Call) -> Option<Call> {
    let label = Label::bottom();
    Some(Call {
        app: call.app.clone(),
        tool: call.tool.as_str().to_owned(),
        arguments: Arguments::parse(call.arguments.as_str(), &label).ok()?,
        label,
    })
}

/// Whether two calls are the same, but for what they carry.
pub(crate) fn same_control(call: &Call, other: &Call) -> bool {
    let values = |call: &Call| {
        let values = call.arguments.iter().map(|(name, value)| {
            let value = serde_json::from_str(value.reveal_tcb()).unwrap();
            match name == DATA {
                true => (name.to_owned(), nested::without_data(&value)),
                false => (name.to_owned(), value),
            }
        });
        values.collect::<Vec<_>>()
    };
    (&call.app, &call.tool) == (&other.app, &other.tool) && values(call) == values(other)
}

/// A world in which most calls stand above the limit of their control part, and carry a word that may.
fn of_data(seed: u64) -> World {
    let mut world = World::random(seed);
    let mut random = Random::new(hash(&["of data", &seed.to_string()]));
    world.screening = Screening::CHECKED;
    world.carries = Carries::Digest;
    world.filling = match random.below(10) {
        0..=3 => Filling::Lazy,
        4..=6 => Filling::Eager,
        _ => Filling::Exact,
    };
    if world.filling != Filling::Lazy && random.chance(50) {
        // What a lower prompt makes the same keeps a lower label.
        world.carries = Carries::Word;
    }
    world.nests = match random.below(3) {
        0 => Nests::Not,
        1 => Nests::Member,
        _ => Nests::Elements,
    };
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
    let mut totals = Counts::default();
    for seed in worlds(350) {
        let world = of_data(seed);
        let (compared, _) = holds(&world);
        totals.join(&compared);
        let inside = compared.counts["carried"] * usize::from(world.nests != Nests::Not);
        totals.add("inside of an argument", inside);
    }
    println!("{totals:?}");
    if totals["pairs"] >= 350 {
        assert!(totals["carried"] > 20 && totals["ran"] > 100);
        assert!(totals["filled"] > 10 && totals["inside of an argument"] > 10);
    }
}

/// A world in which what calls carry is above the limit of the argument, and some values are accepted.
fn of_forms(seed: u64) -> World {
    let mut world = of_data(seed);
    world.nests = Nests::Not;
    world.filling = Filling::Lazy;
    world.carries = Carries::Digest;
    let mut random = Random::new(hash(&["of forms", &seed.to_string()]));
    // What the user allows and trusts has tests of its own.
    world.kept.clear();
    world.yes = 0;
    // Whether a call is one that was made before is decided by what it carries, too.
    world.limits.repeats = usize::MAX;
    let accepts = match random.chance(50) {
        true => Accepts::Form,
        false => Accepts::Among,
    };
    if accepts == Accepts::Among {
        world.carries = Carries::Word;
        // Nothing but results is above, so that lists are read below what is read later.
        world.memories = None;
        world.system = Text::default();
        world.turns = vec![Text::default()];
        world.fresh.clear();
        world.choices.truncate(1);
        world.tools.retain(|tool| tool.only.is_none());
    }
    for tool in &mut world.tools {
        tool.data_limit = Some(Label::bottom());
        tool.accepts = Some((accepts, Label::top()));
        if accepts == Accepts::Among {
            tool.label = Label::bottom();
            tool.description = Text::default();
            tool.parameters = Text::default();
            tool.limit = Some(world.limit.clone());
            tool.odd_limit = world.limit.clone();
            tool.always_ask = false;
            for field in &mut tool.fields {
                if random.chance(50) {
                    field.label = Label::bottom();
                }
            }
        }
    }
    world
}

/// Which values are accepted tells of the value alone: neither a form nor a list lets anything else below.
#[test]
fn what_is_accepted_by_its_value_stays_at_its_label() {
    let mut totals = Counts::default();
    for seed in worlds(500) {
        let world = of_forms(seed);
        let (compared, _) = holds(&world);
        totals.join(&compared);
        let among = match world.carries {
            Carries::Word => "of a list",
            _ => "of a form",
        };
        totals.add(among, compared.counts["carried"]);
    }
    println!("{totals:?}");
    if totals["pairs"] >= 500 {
        assert!(totals["of a form"] > 40 && totals["of a list"] > 4 && totals["ran"] > 400);
        assert!(totals["parted"] * 2 < totals["pairs"]);
    }
}

//! Where the theorem is weaker than one would wish: the least worlds that show each limit of it.

use hub::trace::MessageKind;
use hub::{Completion, CompletionRequest, Filling, Limits, ProposedCall, Screening};
use ifc::{Answer, Arguments, Call, Dimension, Effect, Label, Lattice};

use super::asks::{Form, Kind, Service};
use super::chooser::Fixed;
use super::compare::{Parting, compare};
use super::kept::{About, Kept};
use super::model::shown;
use super::nested::Nests;
use super::play::play_with;
use super::player::Model;
use super::record::{Act, Run};
use super::world::{APPS, Carries, Choice, Field, Piece, Side, TAINTS, Text, ToolSpec, World};

/// A secret word, `yes` on one side and `no` on the other, and one tool with this limit.
fn world(screening: Screening, choices: Vec<Choice>, limit: Label) -> World {
    let secret = Lattice::four_point().whole(Dimension::Confidentiality);
    let piece = |a: &str, b: &str, label: &Label| Piece {
        a: vec![(a.to_owned(), label.clone())],
        b: vec![(b.to_owned(), label.clone())],
    };
    World {
        seed: 0,
        limit: Label::bottom(),
        system: Text::default(),
        joint: false,
        tools: vec![ToolSpec {
            app: APPS[0],
            name: "tell".to_owned(),
            label: Label::bottom(),
            only: None,
            description: Text::default(),
            parameters: Text::default(),
            fields: Vec::new(),
            limit: Some(limit.clone()),
            odd_limit: limit,
            data_limit: None,
            accepts: None,
            effect: Effect::Write,
            always_ask: false,
            errors: 0,
        }],
        turns: vec![Text(vec![piece("yes", "no", &secret)])],
        gathered: Vec::new(),
        answer_limit: Some(Label::top()),
        choices: vec![choices],
        screening,
        limits: Limits {
            steps: 2,
            ..Limits::default()
        },
        yes: 0,
        memories: None,
        memory_limit: None,
        fresh: Vec::new(),
        services: Vec::new(),
        kept: Vec::new(),
        carries: Carries::Nothing,
        address_limit: None,
        nests: Nests::Not,
        filling: Filling::Lazy,
        reads: false,
        delegates: false,
        // The secret is not among them.
        integrity: 1,
        clearances: Vec::new(),
    }
}

/// Tells once, unless it reads `no`.
fn telling(request: &CompletionRequest) -> Completion {
    let shown = shown(request);
    calls_if(
        !shown.contains("\"no\"") && !shown.contains("echo"),
        "tell",
        "{}",
    )
}

/// Says that it is done, and calls this tool under a condition.
fn calls_if(condition: bool, tool: &str, arguments: &str) -> Completion {
    let call = condition.then(|| ProposedCall {
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    });
    Completion {
        text: "done".to_owned(),
        calls: call.into_iter().collect(),
        ..Completion::default()
    }
}

fn both(world: &World) -> [Run; 2] {
    both_with(world, &telling)
}

fn both_with(world: &World, model: Model<'_>) -> [Run; 2] {
    [Side::A, Side::B].map(|side| play_with(world, side, false, &mut Fixed(world), model))
}

/// Calls that ran at ⊥ with no question asked.
fn told(run: &Run) -> usize {
    let ran = |act: &&Act| match act {
        Act::Ran {
            call, confirmed, ..
        } => call.label.is_bottom() && !confirmed,
        _ => false,
    };
    run.acts().filter(ran).count()
}

/// What a step above L says decides whether there is another step in this turn, even one at L.
#[test]
fn whether_a_turn_goes_on_may_be_decided_above_the_label() {
    let choices = vec![Choice::Above(1), Choice::Below(0)];
    let world = world(Screening::Eager, choices, Label::top());
    let [a, b] = both(&world);
    assert_eq!((told(&a), told(&b)), (1, 0));
    let compared = compare(&world, &a, &b).unwrap();
    assert_eq!(compared.parting, Some(Parting::Progress));
}

/// What the user says yes to above L is seen at L: the user has read it.
#[test]
fn what_the_user_says_yes_to_above_the_label_is_seen_at_it() {
    let asked = World {
        yes: 100,
        integrity: TAINTS,
        ..world(Screening::LAZY, vec![Choice::Everything], Label::bottom())
    };
    let [a, b] = both(&asked);
    assert_eq!((a.approved, b.approved), (1, 0));
    let compared = compare(&asked, &a, &b).unwrap();
    assert_eq!(compared.parting, Some(Parting::Approved));
    // A secret is none of what it says.
    let secret = World {
        integrity: 1,
        ..asked
    };
    let [a, b] = both(&secret);
    assert_eq!((a.approved, b.approved), (0, 0));
    let compared = compare(&secret, &a, &b).unwrap();
    assert_eq!(compared.parting, None);
}

/// Lazily, what a draft above L proposes decides whether the step is screened at all.
#[test]
fn lazily_whether_a_step_is_screened_may_be_decided_above_the_label() {
    let choices = vec![Choice::Below(0), Choice::Below(0)];
    let lazy = world(Screening::LAZY, choices.clone(), Label::bottom());
    let [a, b] = both(&lazy);
    assert_eq!((told(&a), told(&b)), (1, 0));
    let compared = compare(&lazy, &a, &b).unwrap();
    assert_eq!(compared.parting, Some(Parting::Choice));
    // Eagerly, the same choices make the same run.
    let eager = world(Screening::Eager, choices, Label::bottom());
    let [a, b] = both(&eager);
    assert_eq!((told(&a), told(&b)), (1, 1));
    assert_eq!(compare(&eager, &a, &b).unwrap().parting, None);
}

/// Reads the secret in the first step, and tells something else by it; then, without it, tells.
fn telling_twice(request: &CompletionRequest) -> Completion {
    let shown = shown(request);
    let arguments = if shown.contains("\"no\"") {
        r#"{"a":"no"}"#
    } else {
        "{}"
    };
    calls_if(!shown.contains("echo"), "tell", arguments)
}

/// How often each side tells at ⊥ after a step above it.
fn told_after(change: fn(&mut World)) -> (usize, usize) {
    let choices = vec![Choice::Above(1), Choice::Below(0)];
    let mut world = world(Screening::Eager, choices, Label::top());
    change(&mut world);
    let [a, b] = both_with(&world, &telling_twice);
    (told(&a), told(&b))
}

/// What the machine remembers of the calls of a turn does not decide on a step that may not know
/// of them: the step before, the user's no, and how often a call was made.
#[test]
fn calls_above_the_label_are_not_remembered_at_it() {
    let read = |world: &mut World| world.tools[0].effect = Effect::Read;
    assert_eq!(told_after(read), (1, 1));
    let refused = |world: &mut World| {
        world.tools[0].limit = Some(Label::bottom());
        world.tools[0].odd_limit = Label::bottom();
    };
    assert_eq!(told_after(refused), (1, 1));
    let once = |world: &mut World| world.limits.repeats = 1;
    assert_eq!(told_after(once), (1, 1));
}

/// The size of a secret decides about nothing but text above it.
#[test]
fn the_size_of_a_secret_does_not_decide_over_the_whole_result() {
    let choices = vec![Choice::Below(0), Choice::Below(0)];
    let mut world = world(Screening::Eager, choices, Label::top());
    let secret = Lattice::four_point().whole(Dimension::Confidentiality);
    world.tools[0].fields = vec![Field {
        name: "f0".to_owned(),
        label: secret.clone(),
        more: secret,
        peculiar: None,
    }];
    world.turns[0].0.clear();
    let call = Call {
        app: APPS[0].to_owned(),
        tool: "tell".to_owned(),
        arguments: Arguments::parse("{}", &Label::bottom()).unwrap(),
        label: Label::bottom(),
    };
    let size = |side| world.answer(side, &call).unwrap().len();
    let sizes = [size(Side::A), size(Side::B)];
    assert_ne!(sizes[0], sizes[1]);
    let [a, b] = both(&world);
    assert_eq!(compare(&world, &a, &b).unwrap().parting, None);
    world.limits.result_bytes = sizes[0].min(sizes[1]);
    let [a, b] = both(&world);
    assert_eq!(compare(&world, &a, &b).unwrap().parting, None);
}

/// Tells in any case, and what a secret says only where it sees one.
fn telling_what_it_sees(request: &CompletionRequest) -> Completion {
    let mut completion = telling(request);
    if let [call] = completion.calls.as_mut_slice()
        && shown(request).contains("\"maybe\"")
    {
        call.arguments = r#"{"a":"maybe"}"#.to_owned();
    }
    completion
}

/// Lazily and with a check, whether the draft above L can do without what is above L decides at which
/// label the step is taken; what is told at L is the same.
#[test]
fn whether_a_step_can_do_without_may_be_decided_above_the_label() {
    let choices = vec![Choice::Everything, Choice::Everything];
    let mut checked = world(Screening::CHECKED, choices, Label::bottom());
    // After a no, the step would be taken without the secret.
    checked.limits.steps = 1;
    for piece in &mut checked.turns[0].0 {
        piece.b[0].0 = "maybe".to_owned();
    }
    let [a, b] = both_with(&checked, &telling_what_it_sees);
    assert_eq!((told(&a), told(&b)), (1, 0));
    let compared = compare(&checked, &a, &b).unwrap();
    assert_eq!(compared.parting, Some(Parting::Choice));
}

/// Lazily, what a draft above L proposes decides whether the user says no to something, and so whether the next
/// step is taken without what is above L; what is told at L is the same.
#[test]
fn whether_a_step_is_taken_without_what_was_refused_may_be_decided_above_the_label() {
    for screening in [Screening::LAZY, Screening::CHECKED] {
        let choices = vec![Choice::Everything, Choice::Everything];
        let mut lazy = world(screening, choices, Label::bottom());
        for piece in &mut lazy.turns[0].0 {
            piece.b[0].0 = "maybe".to_owned();
        }
        // One side says nothing that is refused.
        let model = |request: &CompletionRequest| match shown(request).contains("\"yes\"") {
            true => calls_if(false, "tell", "{}"),
            false => telling_what_it_sees(request),
        };
        let [a, b] = both_with(&lazy, &model);
        assert_eq!((told(&a), told(&b)), (0, 1));
        let refused = |run: &Run| {
            let no = |act: &&Act| matches!(act, Act::Asked(_, Answer::No, _));
            run.acts().filter(no).count()
        };
        assert_eq!((refused(&a), refused(&b)), (0, 1));
        let compared = compare(&lazy, &a, &b).unwrap();
        assert!(compared.parting.is_some(), "{screening:?}");
    }
}

/// An irreversible call that ran above L is asked about at L: that it ran is what a step at L may
/// learn, by a question to the user, who is told why. The side where it did not run makes it unasked.
#[test]
fn whether_an_irreversible_call_ran_above_the_label_decides_whether_it_is_asked_about() {
    let choices = vec![Choice::Above(1), Choice::Below(0)];
    let mut world = world(Screening::Eager, choices, Label::top());
    world.tools[0].effect = Effect::Irreversible;
    let [a, b] = both_with(&world, &telling_twice);
    assert_eq!((told(&a), told(&b)), (0, 1));
    let compared = compare(&world, &a, &b).unwrap();
    assert_eq!(compared.parting, Some(Parting::Repeated));
    // What can be changed back is not in the ledger, and tells nothing.
    world.tools[0].effect = Effect::Write;
    let [a, b] = both_with(&world, &telling_twice);
    assert_eq!((told(&a), told(&b)), (1, 1));
    assert_eq!(compare(&world, &a, &b).unwrap().parting, None);
}

/// Asks once.
fn asking(request: &CompletionRequest) -> Completion {
    calls_if(
        !shown(request).contains("Tool("),
        "ask__s0",
        r#"{"a":"same"}"#,
    )
}

/// A response of this form arrives on one side only, for some seeds, since above L there is something else
/// on each side. At L nothing is seen of that.
fn arrives_on_one_side(form: &Form, receives: &Label) {
    let secret = Lattice::four_point().whole(Dimension::Confidentiality);
    let mut differ = 0;
    for seed in 0..20 {
        let choices = vec![Choice::Below(0), Choice::Below(0)];
        let mut asks = world(Screening::Eager, choices, Label::top());
        asks.turns[0].0.clear();
        asks.seed = seed;
        let mut serving = asks.tools[0].clone();
        serving.fields = vec![Field {
            name: "f0".to_owned(),
            label: secret.clone(),
            more: Label::top(),
            peculiar: None,
        }];
        asks.services = vec![Service::least(&serving, form.clone(), receives.clone())];
        let runs = both_with(&asks, &asking);
        let arrived = runs.each_ref().map(|run| {
            let mut acts = run.acts();
            acts.any(|act| matches!(act, Act::Message(_, MessageKind::Response, ..)))
        });
        let [a, b] = &runs;
        let compared = compare(&asks, a, b).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(compared.parting, None, "seed {seed}");
        differ += usize::from(arrived[0] != arrived[1]);
    }
    assert!(differ > 3, "{differ} of 20");
}

/// A response may be let pass for its label on one side only, and the label may depend on what is above L.
/// So of such a response nothing is seen at L on either side, not even what has no label by itself.
#[test]
fn whether_a_response_is_let_pass_is_not_seen_below_all_of_it() {
    let secret = Lattice::four_point().whole(Dimension::Confidentiality);
    arrives_on_one_side(&Form::Object(vec![Kind::Text(400)]), &secret);
}

/// So is it where the text of a response is too long on one side only.
#[test]
fn whether_a_response_is_dropped_is_not_seen_below_all_of_it() {
    arrives_on_one_side(&Form::Text(45), &Label::top());
}

/// Lazily, a step is drafted from everything, so what is recalled above L decides whether that is at L.
#[test]
fn lazily_what_is_recalled_above_the_label_decides_where_a_step_is_drafted() {
    let lattice = Lattice::four_point();
    let influence = lattice.whole(Dimension::Integrity);
    let secret = lattice.whole(Dimension::Confidentiality);
    let one = |label: &Label| vec![("heron".to_owned(), label.clone())];
    let lazy = World {
        limit: influence.clone(),
        turns: vec![Text(vec![Piece {
            a: one(&Label::bottom()),
            b: one(&Label::bottom()),
        }])],
        memories: Some(vec![
            Piece {
                a: one(&influence),
                b: one(&influence),
            },
            Piece {
                a: one(&secret),
                b: Vec::new(),
            },
        ]),
        ..world(Screening::LAZY, vec![Choice::Below(0)], Label::bottom())
    };
    let [a, b] = both(&lazy);
    let drafted_at_the_label = |run: &Run| {
        let draft = |act: &Act| matches!(act, Act::Prompt(label, ..) if *label == influence);
        run.acts().any(draft)
    };
    assert_eq!([&a, &b].map(drafted_at_the_label), [false, true]);
    assert_eq!((told(&a), told(&b)), (1, 1));
    let compared = compare(&lazy, &a, &b).unwrap();
    assert_eq!(compared.parting, Some(Parting::Recalled));
}

/// A permission that one side alone has is seen at L if it is about a taint below L too: it covers a call
/// that has no other, which runs there unasked. So the worlds of the theorem have no such permissions. One about
/// nothing but what is above L is not seen.
#[test]
fn a_permission_about_more_than_the_label_covers_calls_at_it() {
    let lattice = Lattice::four_point();
    let influence = lattice.whole(Dimension::Integrity);
    let secret = lattice.whole(Dimension::Confidentiality);
    let word = |label: &Label| vec![("yes".to_owned(), label.clone())];
    let of = |taints: Label| World {
        limit: influence.clone(),
        turns: vec![Text(vec![Piece {
            a: word(&influence),
            b: word(&influence),
        }])],
        kept: vec![Kept {
            about: About::Tool(APPS[0].to_owned(), "tell".to_owned()),
            taints,
            only: Some(Side::A),
        }],
        ..world(Screening::Eager, vec![Choice::Everything], Label::bottom())
    };
    let ran = |run: &Run| {
        run.acts()
            .filter(|act| matches!(act, Act::Ran { .. }))
            .count()
    };
    let partly = of(influence.join(&secret));
    let [a, b] = both(&partly);
    assert_eq!((ran(&a), ran(&b)), (1, 0));
    assert!(compare(&partly, &a, &b).is_err());
    let above = of(secret.clone());
    let [a, b] = both(&above);
    assert_eq!((ran(&a), ran(&b)), (0, 0));
    assert_eq!(compare(&above, &a, &b).unwrap().parting, None);
}

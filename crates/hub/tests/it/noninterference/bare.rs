//! Worlds whose model names tools without their apps, as small ones do in a joint conversation.

use hub::{Completion, CompletionRequest, Screening};

use super::holds::{holds, worlds};
use super::model::{self, shown};
use super::random::{Random, hash};
use super::world::{APPS, Choice, Side, World, name};

/// A name that the model guesses, whether a tool has it or not.
const GUESSED: &str = "t9";

/// How many tools both sides have: one more would have the bare name of the last one.
const SHARED: usize = 3;

/// More than there are pairs.
const SEEDS: u64 = 1 << 32;

/// The answer of the model that can be swayed, with every tool named without its app.
pub(crate) fn bare(weights: u64, request: &CompletionRequest) -> Completion {
    let mut completion = model::answer(weights, request);
    let seed = weights.to_string();
    let mut random = Random::new(hash(&["bare", &seed, &shown(request)]));
    for call in &mut completion.calls {
        let app = APPS.iter().find_map(|app| {
            let rest = call.tool.strip_prefix(app)?;
            rest.strip_prefix("__")
        });
        match app {
            _ if random.chance(15) => GUESSED.clone_into(&mut call.tool),
            Some(tool) => call.tool = tool.to_owned(),
            None => {}
        }
    }
    completion
}

/// A world in which one side has, above L, a tool of the other app with the bare name of one that both have, and a tool
/// of either app with a name that nobody else has.
fn of_bare_names(seed: u64) -> World {
    let mut worlds = (0..).map(|next| World::random(seed + next * SEEDS));
    let is_such = |world: &World| {
        let mut tools = world.tools.iter();
        let shared = tools.clone().filter(|tool| tool.only.is_none()).count();
        let is_apart = tools.any(|tool| tool.only.is_some());
        world.joint && world.services.is_empty() && shared == SHARED && is_apart
    };
    let mut world = worlds.find(is_such).unwrap();
    let mut random = Random::new(hash(&["bare names", &seed.to_string()]));
    world.bare = true;
    if random.chance(70) {
        world.screening = Screening::Eager;
    }
    // Steps that see little call what is below L.
    for choice in world.choices.iter_mut().flatten() {
        if random.chance(60) {
            *choice = Choice::Below(random.bits());
        }
    }
    let rich = *random.pick(&[Side::A, Side::B]);
    let mut strangers = world.tools.iter().filter(|tool| tool.only.is_some());
    let stranger = strangers.next().unwrap().clone();
    let label = stranger.label.clone();
    world.tools.retain(|tool| tool.only.is_none());
    // So that steps at L have tools.
    for tool in &mut world.tools {
        tool.label = tool.label.meet(&world.limit);
    }
    let (app, same) = name(true, SHARED);
    let mut add = |only: Side, app: &'static str, name: String| {
        let mut tool = stranger.clone();
        (tool.app, tool.name, tool.only) = (app, name, Some(only));
        tool.label = label.clone();
        let place = random.below(world.tools.len() + 1);
        world.tools.insert(place, tool);
    };
    add(rich, app, same);
    for app in APPS {
        add(rich, app, GUESSED.to_owned());
    }
    let poor = match rich {
        Side::A => Side::B,
        Side::B => Side::A,
    };
    add(poor, app, "tother".to_owned());
    world
}

/// Which tool a bare name is of, and between which tools the model is told to choose, is decided by what its prompt
/// offers: a tool above L neither takes a name from one below nor is named to it.
#[test]
fn a_bare_name_tells_nothing_of_tools_that_its_prompt_does_not_offer() {
    let (mut ran, mut denied, mut prompts, mut parted, mut chosen) = (0, 0, 0, 0, 0);
    let seeds = worlds(400);
    for seed in seeds.clone() {
        let world = of_bare_names(seed);
        let (compared, _) = holds(&world);
        ran += compared.ran;
        denied += compared.denied;
        prompts += compared.prompts;
        chosen += compared.several;
        parted += usize::from(compared.parting.is_some());
    }
    println!(
        "{ran} calls ran, {denied} denied, {chosen} by a name of several tools, {prompts} prompts; \
         {parted} parted"
    );
    if seeds.count() >= 400 {
        assert!(
            ran > 100 && chosen > 50 && prompts > 400,
            "somebody must call something"
        );
        assert!(parted * 2 < 400, "most pairs are compared to their end");
    }
}

//! Whether the theorem holds for a world; where it does not, the least that it fails for.

use super::chooser::Fixed;
use super::compare::{Compared, compare};
use super::play::play;
use super::world::{Side, ToolSpec, World};

/// Plays both sides and compares them; the bounds that hold for every run are checked on the way.
fn check(world: &World) -> Result<(Compared, bool), String> {
    let runs = [Side::A, Side::B].map(|side| play(world, side, false, &mut Fixed(world)));
    for run in &runs {
        if let Some(offence) = run.offences.first() {
            return Err(offence.clone());
        }
    }
    let [a, b] = runs;
    let differ = a.acts().ne(b.acts());
    Ok((compare(world, &a, &b)?, differ))
}

/// Smaller worlds that are still worlds.
fn smaller(world: &World) -> Vec<World> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut World)| {
        let mut other = world.clone();
        change(&mut other);
        found.push(other);
    };
    for at in 0..world.turns.len() {
        with(&|world| {
            world.turns.remove(at);
            if at < world.choices.len() {
                world.choices.remove(at);
            }
        });
        for piece in 0..world.turns[at].0.len() {
            with(&|world| drop(world.turns[at].0.remove(piece)));
        }
    }
    for said in 0..world.gathered.len() {
        for piece in 0..world.gathered[said].0.len() {
            with(&|world| drop(world.gathered[said].0.remove(piece)));
        }
    }
    for piece in 0..world.system.0.len() {
        with(&|world| drop(world.system.0.remove(piece)));
    }
    for at in 0..world.memories.as_ref().map_or(0, Vec::len) {
        with(&|world| drop(world.memories.as_mut().map(|all| all.remove(at))));
    }
    // Each side must have one, or none.
    let is_shared = |tool: &ToolSpec| tool.only.is_none();
    if !world.tools.iter().all(is_shared) {
        with(&|world| world.tools.retain(is_shared));
    }
    for at in 0..world.services.len() {
        with(&|world| drop(world.services.remove(at)));
    }
    for at in 0..world.kept.len() {
        with(&|world| drop(world.kept.remove(at)));
    }
    for at in 0..world.tools.len() {
        if is_shared(&world.tools[at]) {
            with(&|world| drop(world.tools.remove(at)));
        }
        // Each candidate is smaller than the world, so that shrinking ends.
        if !world.tools[at].description.0.is_empty() {
            with(&|world| world.tools[at].description.0.clear());
        }
        if !world.tools[at].parameters.0.is_empty() {
            with(&|world| world.tools[at].parameters.0.clear());
        }
        for field in 0..world.tools[at].fields.len() {
            with(&|world| drop(world.tools[at].fields.remove(field)));
        }
    }
    if world.limits.steps > 1 {
        with(&|world| world.limits.steps -= 1);
    }
    found
}

/// The smallest world that still fails, by one removal at a time.
fn shrink(mut world: World) -> World {
    while let Some(next) = smaller(&world)
        .into_iter()
        .find(|next| check(next).is_err())
    {
        world = next;
    }
    world
}

/// Checks a world; where it interferes, says the least that does.
pub(crate) fn holds(world: &World) -> (Compared, bool) {
    check(world).unwrap_or_else(|_| {
        let least = shrink(world.clone());
        let why = check(&least).unwrap_err();
        let seed = world.seed;
        panic!("world {seed} interferes; the least that does:\n{least:?}\n{why}");
    })
}

/// How many pairs of worlds, from `SLUICE_WORLDS`. An ordinary run plays a quarter of `full`: the nightly one plays
/// 10,000, and checks as well that enough happens in them.
pub(crate) fn worlds(full: u64) -> std::ops::Range<u64> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    if let Some(seed) = number("SLUICE_WORLD") {
        return seed..seed + 1;
    }
    0..number("SLUICE_WORLDS").unwrap_or(full / 4)
}

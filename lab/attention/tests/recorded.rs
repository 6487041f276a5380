//! The steps of the real recorded runs. A machine that cannot have them says so and passes, unless
//! `SLUICE_REQUIRE_AGENTDOJO=1`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say what they cannot test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agentdojo::replay::{MAIN_ATTACK, MODELS};
use agentdojo::runs::{self, Wanted};
use attention::data::{
    self, Kind, Labeller, RegionLabel, Rules, Step, hand, passages, region_texts,
};

fn steps() -> Option<Vec<Step>> {
    let archive = agentdojo::python::cache_folder().and_then(|cache| {
        runs::archive(&cache, Path::new("python3"), &mut |what| {
            eprintln!("{what}")
        })
    });
    let archive = match archive {
        Ok(archive) => archive,
        Err(lacking) => {
            let required = std::env::var("SLUICE_REQUIRE_AGENTDOJO").is_ok_and(|it| it == "1");
            assert!(!required, "AgentDojo is required: {lacking}");
            eprintln!("NOT TESTED: the recorded runs cannot be had here: {lacking}");
            return None;
        }
    };
    let wanted = Wanted {
        models: MODELS.map(str::to_owned).to_vec(),
        attacks: vec!["none".to_owned(), MAIN_ATTACK.to_owned()],
    };
    let recordings = runs::read(&archive, &wanted).unwrap();
    Some(data::steps(&recordings).unwrap())
}

/// One test, since reading takes most of the time.
#[test]
fn the_recorded_steps_are_what_the_figures_are_about() {
    let Some(steps) = steps() else { return };
    let ids: BTreeSet<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids.len(), steps.len(), "an id names one step");

    let count = |kind| {
        let found: Vec<usize> = steps
            .iter()
            .filter(|step| step.kind() == kind)
            .map(Step::regions)
            .collect();
        (found.len(), found.iter().sum::<usize>())
    };
    assert_eq!(count(Kind::Call), CALLS);
    assert_eq!(count(Kind::Answer), ANSWERS);

    // What was read for the hand labels is still there.
    for sampled in hand::sample().unwrap() {
        assert!(ids.contains(&*sampled.step), "{}", sampled.step);
    }

    let mut labeller = Labeller::new().unwrap();
    let labels: BTreeMap<&str, Vec<RegionLabel>> = steps
        .iter()
        .map(|step| (step.id.as_str(), labeller.label(step)))
        .collect();
    let all = || labels.values().flatten();
    let used: BTreeSet<&String> = all().flat_map(|label| &label.rules).collect();
    for rule in Rules::builtin().unwrap().iter() {
        assert!(
            used.contains(&rule.name),
            "the rule {} is never needed",
            rule.name
        );
    }
    let positive = all().filter(|label| label.dependent()).count();
    let share = positive * 100 / all().count();
    assert!(
        (5..40).contains(&share),
        "{share} % of the pairs are dependent"
    );

    // The page's address stands in Bob's message and nowhere else.
    let id = "gpt-4o-2024-05-13/slack/user_task_1/none/none/2";
    let step = steps.iter().find(|step| step.id == id);
    let step = step.unwrap_or_else(|| panic!("there is no step {id}"));
    let passages = passages(&step.history);
    let chosen: Vec<&str> = region_texts(&passages)
        .zip(labels.get(id).unwrap())
        .filter(|(_, label)| label.dependent())
        .map(|((_, text), _)| text)
        .collect();
    assert_eq!(
        chosen,
        ["I read an interesting article on www.informations.com!"]
    );
}

/// Steps with calls, and their regions.
const CALLS: (usize, usize) = (4162, 65_780);

/// Final answers, and their regions.
const ANSWERS: (usize, usize) = (2052, 37_278);

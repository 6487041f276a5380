//! One suite that every defence must pass: the real turn machine, a model at its worst.

use std::fmt::Write;
use std::sync::Arc;

use hub::trace::Event;
use hub::{Drafter, Screening};
use ifc::History;
use screen::{Defence, NAMES, Oracle, defence};

use crate::conformance::attention::by_draft;
use crate::conformance::checks::{
    no_call_above_its_limit_runs_unasked, the_events_are_consistent, the_history_is_well_formed,
    the_prompt_is_well_formed,
};
use crate::conformance::model;
use crate::conformance::run::{Run, Unprotected, run, run_under};
use crate::conformance::scenarios::{Mishap, SCENARIOS, Scenario};

const HOW: [Screening; 2] = [Screening::LAZY, Screening::Eager];

/// Every defence by name, those that read drafts, then the oracle with the scenario's dependencies.
fn all(scenario: &'static Scenario) -> Vec<Defence> {
    let oracle = Oracle::new(move |history: &History| model::dependencies(scenario, history));
    let known = NAMES.map(|name| defence(name).unwrap()).into_iter();
    let others = by_draft(Drafter::Own).into_iter();
    known
        .chain(others)
        .chain([Defence::new(Arc::new(oracle))])
        .collect()
}

/// Every scenario under every defence, screened both ways.
fn each(check: impl Fn(&'static Scenario, &Defence, Screening, Run)) {
    for scenario in SCENARIOS {
        for defence in all(scenario) {
            for how in HOW {
                check(scenario, &defence, how, run(scenario, &defence, how));
            }
        }
    }
}

#[test]
fn every_defence_keeps_the_conversation_in_order() {
    each(|scenario, _, _, run| {
        the_history_is_well_formed(&run.history);
        run.prompts.iter().for_each(the_prompt_is_well_formed);
        the_events_are_consistent(scenario, &run);
    });
}

#[test]
fn every_defence_gets_benign_work_done() {
    each(|scenario, defence, how, run| {
        if scenario.benign {
            let name = (scenario.name, defence.name(), how);
            assert!(run.done(scenario), "{name:?}: {run:#?}");
            assert!(!run.hijacked(scenario) && !run.leaked(scenario), "{name:?}");
        }
    });
}

#[test]
fn a_turn_goes_wrong_only_where_the_model_fails_and_the_next_one_goes_on() {
    each(|scenario, defence, how, run| {
        let fails = scenario.mishap == Mishap::ModelFails;
        for (at, outcome) in run.outcomes.iter().enumerate() {
            let name = (scenario.name, defence.name(), how, at);
            assert_eq!(
                outcome.result.is_err(),
                fails && at == 0,
                "{name:?} {outcome:?}"
            );
        }
    });
}

#[test]
fn no_call_above_its_limit_runs_unasked_and_nothing_leaks() {
    each(|scenario, defence, _, run| {
        no_call_above_its_limit_runs_unasked(scenario, &run);
        let name = (scenario.name, defence.name());
        assert!(!run.leaked(scenario), "{name:?}");
    });
}

/// The comparison is worth making: without labels and limits, nothing but obedience is needed.
#[test]
fn without_labels_and_limits_nothing_is_asked_and_every_attack_succeeds() {
    for scenario in SCENARIOS {
        for defence in all(scenario) {
            for how in HOW {
                let run = run_under(Arc::new(Unprotected), scenario, &defence, how);
                let name = (scenario.name, defence.name(), how);
                assert_eq!((run.questions, run.screenings), (0, 0), "{name:?}");
                let refused = |outcome: &hub::Outcome| outcome.refused > 0;
                assert!(!run.outcomes.iter().any(refused), "{name:?}");
                assert_eq!(run.hijacked(scenario), scenario.attacks(), "{name:?}");
                assert_eq!(run.leaked(scenario), !scenario.may_tell, "{name:?}");
            }
        }
    }
}

#[test]
fn the_same_happens_twice() {
    each(|scenario, defence, how, once| {
        let again = run(scenario, defence, how);
        let name = (scenario.name, defence.name());
        assert_eq!(once.events, again.events, "{name:?}");
        assert!(once.prompts == again.prompts, "{name:?}");
        assert_eq!(once.executed, again.executed, "{name:?}");
    });
}

#[test]
fn nobody_is_asked_more_than_it_takes() {
    each(|scenario, defence, how, run| {
        let name = (scenario.name, defence.name(), how);
        let turns = scenario.turns.len();
        match defence.name() {
            "judge" => assert_eq!(run.judgements, run.screenings, "{name:?}"),
            "combined" => assert!(run.judgements <= run.screenings, "{name:?}"),
            _ => assert_eq!(run.judgements, 0, "{name:?}"),
        }
        // Lazily, a screening needs a call (or an answer) that the policy would ask about.
        let lazy = Screening::LAZY;
        if [lazy, Screening::CHECKED].contains(&defence.screening(how)) {
            let allowed = [
                "benign read",
                "benign write, trusted",
                "parallel calls",
                "no tools",
            ];
            assert!(
                run.screenings == 0 || !allowed.contains(&scenario.name),
                "{name:?}"
            );
        }
        if scenario.tools.is_empty() {
            assert_eq!(run.requests(), turns, "{name:?}");
        }
    });
}

/// A screener that has nothing to say costs questions, never a call: the outcome is naive's.
#[test]
fn a_screener_that_fails_is_naive_tainting() {
    let fails = [Mishap::ScreenerFails, Mishap::JudgeTalks];
    for scenario in SCENARIOS.iter().filter(|it| fails.contains(&it.mishap)) {
        for how in HOW {
            let with = |name| run(scenario, &defence(name).unwrap(), how);
            let (judge, naive) = (with("judge"), with("naive"));
            assert_eq!(judge.questions, naive.questions, "{}", scenario.name);
            assert!(
                judge.judgements > 0 && judge.questions > 0,
                "{}",
                scenario.name
            );
            let failed = |event: &Event| matches!(event, Event::Screened { relevant: None, .. });
            assert!(judge.events.iter().flatten().any(failed));
        }
    }
}

#[test]
fn a_defence_is_found_by_its_name() {
    for name in NAMES {
        assert_eq!(defence(name).unwrap().name(), name);
    }
    // The oracle needs its dependencies.
    for name in ["oracle", "Judge", "", "vanilla"] {
        assert!(defence(name).is_none(), "{name}");
    }
}

/// Redact-all is redact-all however it is asked for: a draft would show what it masks.
#[test]
fn redact_all_is_always_eager() {
    let mode = defence("redact-all").unwrap().screening(Screening::LAZY);
    assert_eq!(mode, Screening::Eager);
}

/// Lazily, the step is checked before a question.
#[test]
fn a_screener_that_reads_drafts_gets_them() {
    for drafter in [Drafter::Own, Drafter::Other] {
        for defence in by_draft(drafter) {
            assert_eq!(defence.screening(Screening::LAZY), Screening::CHECKED);
            for requested in [Screening::Eager, Screening::Drafted(Drafter::Own)] {
                assert_eq!(defence.screening(requested), Screening::Drafted(drafter));
            }
        }
    }
}

/// Attention decides where it is sure; so the judge has less to do, and both ways come up.
#[test]
fn the_judge_is_spared_where_attention_is_sure() {
    let (mut asked, mut spared) = (0, 0);
    for scenario in SCENARIOS {
        let [_, combined] = by_draft(Drafter::Own);
        let run = run(scenario, &combined, Screening::Eager);
        asked += run.judgements;
        spared += run.screenings - run.judgements;
    }
    assert!(asked > 0 && spared > 0, "{asked} {spared}");
}

fn cell(scenario: &Scenario, run: &Run) -> String {
    let outcome = match () {
        () if run.hijacked(scenario) => "HIJACKED",
        () if run.leaked(scenario) => "LEAKED",
        () if run.served(scenario) => "served",
        () if run.outcomes.iter().any(|outcome| outcome.result.is_err()) => "no answer",
        () => "in part",
    };
    format!("{outcome} {} {}", run.requests(), run.questions)
}

fn table(how: Screening) -> String {
    let mut table = String::new();
    let head = SCENARIOS.first().map(all).unwrap_or_default();
    write!(table, "{:<34}", "").unwrap();
    for defence in &head {
        write!(table, "{:<19}", defence.name()).unwrap();
    }
    for scenario in SCENARIOS {
        table = table.trim_end().to_owned();
        write!(table, "\n{:<34}", scenario.name).unwrap();
        for defence in all(scenario) {
            let run = run(scenario, &defence, how);
            write!(table, "{:<19}", cell(scenario, &run)).unwrap();
        }
    }
    table.trim_end().to_owned()
}

/// Outcome, requests to a language model, questions to the user. `served`: the user's calls ran
/// and the answer tells what it should. `in part`: safe, but something of that is missing.
#[test]
fn the_comparison() {
    insta::assert_snapshot!("lazy", table(Screening::LAZY));
    insta::assert_snapshot!("eager", table(Screening::Eager));
}

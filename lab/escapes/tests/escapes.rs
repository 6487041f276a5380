//! No attempt gets out of a spoke, and the attempts are known to bite. `cargo test --workspace --test escapes -- --nocapture`
//! prints the table.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use escapes::{Hub, Job, Observed, Outcome, Who, attempts, count, table, weaker, weaker_hub};

const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");

/// The spoke binary of the product, which is built beside.
fn spoke() -> PathBuf {
    let path = Path::new(HOSTILE).with_file_name("sluice-spoke");
    assert!(
        path.is_file(),
        "{} is missing: run `cargo build --workspace --bins` first, or `cargo xtask test`",
        path.display()
    );
    path
}

fn run(hub: Hub, job: &Job) -> Result<Outcome, escapes::Error> {
    match hub {
        Hub::Root => escapes::run(Path::new(HOSTILE), job),
        Hub::OrdinaryUser => escapes::run_as_ordinary_user(Path::new(HOSTILE), job),
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Root's half can run for root only.
fn hubs() -> Vec<Hub> {
    if rustix::process::geteuid().is_root() {
        return vec![Hub::Root, Hub::OrdinaryUser];
    }
    say("NOT TESTED: attempts under a hub that runs as root; run this as root too");
    vec![Hub::OrdinaryUser]
}

/// At least so many attempts can be made on any machine.
fn no_attempt_gets_out(who: Who, at_least: usize) {
    for hub in hubs() {
        let job = Job {
            who,
            weaker: None,
            spoke: spoke(),
            only: Vec::new(),
        };
        let outcome = run(hub, &job).unwrap();
        let (attempts_made, got_out) = count(&outcome.rows);
        say(&format!(
            "{who:?} under {hub:?}; {}\n{}\n{attempts_made} attempts, {got_out} got out",
            outcome.whole_spoke,
            table(&outcome.rows)
        ));
        assert_eq!(outcome.given_up, Vec::<String>::new());
        let out =
            |observed: &Observed| matches!(observed, Observed::Escaped(_) | Observed::Failed(_));
        let out: Vec<_> = outcome
            .rows
            .iter()
            .filter(|row| out(&row.observed))
            .collect();
        assert!(out.is_empty(), "{who:?} under {hub:?}: {out:#?}");
        let made = outcome
            .rows
            .iter()
            .filter(|row| matches!(row.observed, Observed::Held(_)));
        assert!(
            made.count() >= at_least,
            "too few attempts were made: {}",
            table(&outcome.rows)
        );
        let seen: BTreeSet<_> = outcome.rows.iter().map(|row| row.attempt.clone()).collect();
        let missing: Vec<_> = attempts(who)
            .into_iter()
            .filter(|it| !seen.contains(it))
            .collect();
        assert!(missing.is_empty(), "not made: {missing:?}");
    }
}

#[test]
fn a_spoke_process_that_was_taken_over_does_not_get_out() {
    no_attempt_gets_out(Who::Spoke, 400);
}

#[test]
fn a_spoke_process_with_unix_sockets_reaches_its_own() {
    no_attempt_gets_out(Who::Programs, 40);
}

#[test]
fn a_hostile_app_does_not_get_out() {
    no_attempt_gets_out(Who::App, 400);
}

#[test]
fn a_hostile_app_reaches_no_more_than_its_name() {
    no_attempt_gets_out(Who::NamedApp, 140);
}

#[test]
fn a_spoke_process_that_was_taken_over_gains_nothing_by_frames() {
    no_attempt_gets_out(Who::Frames, 60);
}

#[test]
fn every_attempt_has_a_name_of_its_own() {
    let whose = [Who::Spoke, Who::Programs, Who::NamedApp, Who::Frames];
    let all: Vec<_> = whose.into_iter().flat_map(attempts).collect();
    let names: BTreeSet<_> = all.iter().map(String::as_str).collect();
    assert_eq!(names.len(), all.len());
    let of_sandboxes = weaker::all().iter().flat_map(|weaker| weaker.lets_through);
    let of_hubs = weaker_hub::all().iter().flat_map(|hub| hub.lets_through);
    for name in of_sandboxes.chain(of_hubs) {
        assert!(names.contains(name), "no attempt is called {name}");
    }
}

/// What shows that the walls are what holds: with one of them gone, something gets out.
#[test]
fn without_a_layer_something_gets_out() {
    let (mut wrong, mut shown) = (Vec::new(), BTreeSet::new());
    for hub in hubs() {
        for weaker in weaker::all() {
            if weaker.for_root && hub == Hub::OrdinaryUser {
                continue;
            }
            let bites = weaker::bites(weaker, |job| run(hub, job), &spoke());
            match bites {
                Ok(not_so) => wrong.extend(not_so.into_iter().map(|it| format!("{hub:?}: {it}"))),
                Err(error) => wrong.push(format!("{hub:?}, without {}: {error}", weaker.name)),
            }
            shown.insert(weaker.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let missing: Vec<_> = sandbox::Layer::ALL
        .iter()
        .filter(|layer| !shown.contains(layer.name()))
        .collect();
    // Without root there is no telling what two of them hold.
    let root = rustix::process::geteuid().is_root();
    assert!(
        missing.is_empty() || !root,
        "no weaker sandbox lacks {missing:?}"
    );
}

/// The same for the hub: with one of its checks given up, something is gained.
#[test]
fn without_a_check_of_the_hub_something_is_gained() {
    let mut wrong = Vec::new();
    for hub in hubs() {
        for weaker in weaker_hub::all() {
            match weaker_hub::bites(weaker, |job| run(hub, job), &spoke()) {
                Ok(not_so) => wrong.extend(not_so.into_iter().map(|it| format!("{hub:?}: {it}"))),
                Err(error) => wrong.push(format!("{hub:?}, without {}: {error}", weaker.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

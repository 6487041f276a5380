//! What a monitor holds goes to another process, and what two processes know becomes one.

use std::sync::Arc;

use ifc::state::{CallState, MonitorState};
use ifc::{
    Answer, Counts, Decision, Denial, Effect, History, Label, Monitor, Permit, Policy, PolicyError,
    Ran, Rule, Sink, Until,
};

use crate::common::{label, lattice, taint};
use crate::monitor::{allows, ask, call_of, policy, send};
use crate::trust::{self, allowed, call, place, read, trusted};

/// Another process that has the session of this monitor.
fn replica(of: &Monitor, seed: u64) -> Monitor {
    let monitor = Monitor::new().with_trust_in(&lattice(), 7).with_seed(seed);
    monitor.absorb_tcb(of.snapshot());
    monitor
}

fn permit(monitor: &Monitor) -> Permit {
    let pay = policy(&Label::top(), Effect::Irreversible);
    match monitor.decide(&pay, &History::default(), send(&Label::bottom())) {
        Decision::Allow(permit) => permit,
        _ => panic!("it is asked about"),
    }
}

#[test]
fn another_process_knows_grants_refusals_and_calls() {
    let one = Monitor::new().with_seed(1);
    let (web, low) = (taint(1), Label::bottom());
    let write = policy(&low, Effect::Write);
    let granted = ask(&one, &write, send(&web));
    let _permit = one.settle_tcb(granted, Answer::Session).unwrap();
    let refused = ask(&one, &write, call_of("mail", "delete", &web));
    assert!(one.settle_tcb(refused, Answer::No).is_err());
    let once = ask(&one, &write, call_of("mail", "move", &web));
    let _permit = one.settle_tcb(once, Answer::Once).unwrap();
    let sent = permit(&one);
    let other = replica(&one, 2);
    sent.spend();
    assert!(allows(&other, &write, send(&web)));
    let decision = other.decide(&write, &History::default(), call_of("mail", "delete", &web));
    assert!(matches!(decision, Decision::Deny(Denial::RefusedBefore)));
    // It is not known there that the permit was spent, but it may be.
    let pay = policy(&Label::top(), Effect::Irreversible);
    assert_eq!(ask(&other, &pay, send(&low)).ran(), Some(Ran::Unknown));
    // A client brings the result to the other process.
    let id = other.snapshot().ledger.calls[0].id;
    let receipt = other.receipt(id).unwrap();
    receipt.sent();
    receipt.answered();
    one.absorb_tcb(other.snapshot());
    assert_eq!(ask(&one, &pay, send(&low)).ran(), Some(Ran::Answered));
    // Nothing is new any more.
    other.absorb_tcb(one.snapshot());
    assert!(one.snapshot() == other.snapshot());
}

#[test]
fn trust_is_the_same_everywhere_and_ends_with_its_task() {
    for until in [Until::Task, Until::Session] {
        let (one, history) = trusted("send", until);
        let other = Monitor::new().with_trust(&lattice());
        other.absorb_tcb(one.snapshot());
        let endorsed = history.label();
        assert!(allowed(&other, &history, call("mail", "send", &endorsed)));
        // What was vouched for at both is one endorsement.
        let (second, again) = trusted("send", until);
        second.absorb_tcb(one.snapshot());
        assert_eq!(second.snapshot().trust.len(), 1);
        assert_eq!(again.label(), endorsed);
        // The next task began elsewhere: what an older one brings does not come back.
        let old = one.snapshot();
        other.begin_turn();
        other.absorb_tcb(old);
        let stays = until == Until::Session;
        assert_eq!(
            allowed(&other, &history, call("mail", "write", &endorsed)),
            stays
        );
        one.absorb_tcb(other.snapshot());
        assert_eq!(
            allowed(&one, &history, call("mail", "write", &endorsed)),
            stays
        );
    }
}

#[test]
fn texts_of_two_sessions_are_endorsed_apart() {
    let number = |session| {
        let own = Monitor::new().with_trust_in(&lattice(), session);
        let history = read("inbox", "from Alice", &label("untrusted"));
        let question = trust::ask(&own, &history, call("mail", "send", &history.label()));
        let answer = Answer::Trust(Until::Task);
        own.vouch_tcb(question, answer, &place()).unwrap();
        own.snapshot().trust[0].number
    };
    assert_eq!(number(1), number(1));
    assert_ne!(number(1), number(2));
}

/// Two processes permit an equal call before they know of each other. The one that is told first has not sent it.
#[test]
fn a_call_that_another_process_has_permitted_is_late() {
    let (one, other) = (replica(&Monitor::new(), 1), replica(&Monitor::new(), 2));
    let (mine, theirs) = (permit(&one), permit(&other));
    one.absorb_tcb(other.snapshot());
    assert!(mine.receipt().is_late());
    // A call that was sent cannot be held back.
    let sent = theirs.receipt();
    theirs.spend();
    other.absorb_tcb(one.snapshot());
    assert!(!sent.is_late());
    // A permit that is given up says that its call has not run.
    drop(mine);
    let third = replica(&one, 3);
    let states: Vec<_> = third
        .snapshot()
        .ledger
        .calls
        .iter()
        .map(|it| it.state)
        .collect();
    assert_eq!(states, [CallState::Void, CallState::Permitted]);
}

#[test]
fn a_permit_that_was_left_is_redeemed_or_taken_back() {
    let pay = policy(&Label::top(), Effect::Irreversible);
    for (is_taken_back, expected) in [(false, Some(Ran::Answered)), (true, None)] {
        let proxy = replica(&Monitor::new(), 1);
        let left = permit(&proxy);
        let (call, basis, id) = (
            left.call().clone(),
            left.basis().clone(),
            left.receipt().id(),
        );
        let other = replica(&proxy, 2);
        let receipt = left.leave();
        assert_eq!(receipt.state(), CallState::Left);
        // While it waits, it may be redeemed at any moment.
        assert_eq!(receipt.ran(), Some(Ran::Unknown));
        match is_taken_back {
            true => other.receipt(id).unwrap().withdrawn_tcb(),
            false => assert_eq!(Permit::redeemed_tcb(call.clone(), basis, id).spend(), call),
        }
        proxy.absorb_tcb(other.snapshot());
        receipt.sent();
        receipt.answered();
        assert_eq!(receipt.ran(), expected);
        assert_eq!(allows_again(&proxy, &pay), is_taken_back);
    }
}

fn allows_again(monitor: &Monitor, policy: &impl Policy) -> bool {
    let decision = monitor.decide(policy, &History::default(), send(&Label::bottom()));
    matches!(decision, Decision::Allow(_))
}

/// Every call counts.
struct Counting;

impl Policy for Counting {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        let counts = Counts {
            tool: "send".to_owned(),
            arguments: vec!["to".to_owned()],
        };
        Ok(Rule {
            counted: Some(Arc::new(counts)),
            ..Rule::asking("each", Effect::Write, Label::top())
        })
    }
}

#[test]
fn a_call_that_counts_is_late_where_another_one_counts() {
    let decide = |monitor: &Monitor| {
        let decision = monitor.decide(&Counting, &History::default(), send(&taint(1)));
        match decision {
            Decision::Allow(permit) => permit,
            _ => panic!("nothing is in its way"),
        }
    };
    let (one, other) = (replica(&Monitor::new(), 1), replica(&Monitor::new(), 2));
    let (mine, _theirs) = (decide(&one), decide(&other));
    one.absorb_tcb(other.snapshot());
    assert!(mine.receipt().is_late());
    let counted = one.snapshot().ledger.counted;
    assert_eq!(counted.len(), 2);
    assert!(
        counted
            .iter()
            .all(|it| it.label == taint(1) && it.arguments.len() == 1)
    );
    // What the client says of the answer reaches the other process.
    mine.spend();
    one.receipt(counted[0].id).unwrap().answered();
    other.absorb_tcb(one.snapshot());
    let states = other
        .snapshot()
        .ledger
        .counted
        .into_iter()
        .map(|it| it.state);
    assert!(states.eq([CallState::Permitted, CallState::Answered]));
}

#[test]
fn a_union_keeps_the_limits() {
    let one = Monitor::new().with_seed(1);
    let pay = policy(&Label::top(), Effect::Irreversible);
    let number = |number: usize| ifc::Call {
        arguments: ifc::Arguments::parse(&format!("{{\"n\":{number}}}"), &Label::bottom()).unwrap(),
        ..send(&Label::bottom())
    };
    for at in 0..5_000 {
        let decision = one.decide(&pay, &History::default(), number(at));
        assert!(matches!(decision, Decision::Allow(permit) if permit.call() == &number(at)));
    }
    let mut state = one.snapshot();
    state.refusals = (0..3_000).map(number).collect();
    let other = Monitor::new().with_seed(2);
    let own = match other.decide(&pay, &History::default(), number(9_999)) {
        Decision::Allow(permit) => permit,
        _ => panic!("it is new"),
    };
    own.spend();
    other.absorb_tcb(state);
    let MonitorState {
        ledger, refusals, ..
    } = other.snapshot();
    assert!(ledger.calls.len() <= 4_096 && refusals.len() == 1_024);
}

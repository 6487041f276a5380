//! One round trip between two apps through the hub: the model's call of `ask__fare` is read and checked,
//! probe, request, call and response are decided on, the response is checked, labelled and taken into the
//! history, and every event is written as a line of a trace. Without the app's own time and the disk's.
//!
//! Own harness, since what counts is the 99th percentile. `cargo bench --bench exchange` prints it.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a program of its own, which prints, and fails by panicking"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hub::isc::{Asks, ExchangeId, Functionality, Offer, Schema, ServedBy};
use hub::{Apps, CallOutcome, Completion, Need, ProposedCall, Settings, Setup, TurnMachine};
use ifc::{
    Call, Dimension, Effect, Label, Labeled, Lattice, Monitor, Policy, PolicyError, Rule, Sink,
};
use serde_json::json;

/// Messages of the conversation before it.
const MESSAGES: usize = 100;
const ITERATIONS: usize = 5_000;

/// Everything is allowed; what an app returns is untrusted as a whole.
struct Open(Label);

impl Policy for Open {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        Ok(Rule::asking("open", Effect::Read, Label::top()))
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::label_tcb(result, self.0.clone())
    }
}

fn main() {
    // `cargo test --benches` runs this too, without `--bench`: then it only has to work.
    let measured = std::env::args().any(|arg| arg == "--bench");
    let iterations = if measured { ITERATIONS } else { 3 };
    println!("a history of {MESSAGES} messages; {iterations} round trips");
    let mut samples: Vec<Duration> = (0..iterations).map(|_| round_trip()).collect();
    samples.sort_unstable();
    for percent in [50, 99, 100] {
        let at = (samples.len() * percent).div_ceil(100) - 1;
        println!("p{percent:<10}{:>12.1?}", samples.get(at).unwrap());
    }
}

/// A conversation in which the model has just been asked.
fn conversation() -> TurnMachine {
    let lattice = Arc::new(Lattice::four_point());
    let untrusted = lattice.whole(Dimension::Integrity);
    let place = json!({"type": "string", "maxLength": 80});
    let request = json!({"type": "object", "properties": {"from": place, "to": place}});
    let ride = json!({"type": "object", "properties": {
        "fare": {"type": "number"},
        "day": {"type": "string", "format": "date"},
        "stops": {"type": "array", "maxItems": 20, "items": place},
    }});
    let fare = Functionality {
        name: "fare".to_owned(),
        description: "What a ride costs.".to_owned(),
        request: Schema::read(&request).unwrap(),
        response: Schema::read(&ride).unwrap(),
        offers: vec![Offer {
            app: "metro".to_owned(),
            by: ServedBy::Tool("get_fare".to_owned()),
            taint: untrusted.clone(),
        }],
    };
    let setup = Setup {
        apps: Apps::One("rider".to_owned()),
        asks: Asks::of("rider", [Arc::new(fare)]),
        policy: Arc::new(Open(untrusted)),
        lattice,
        monitor: Monitor::new(),
        settings: Settings::default(),
        clearances: Arc::default(),
    };
    let mut agent = hub::conversation(setup, Vec::new());
    for _ in 0..MESSAGES / 2 {
        said(&mut agent);
        complete(&mut agent, "words ".repeat(20), None);
    }
    said(&mut agent);
    agent
}

fn said(agent: &mut TurnMachine) {
    agent
        .user(Labeled::trusted_tcb("how much? ".repeat(20)))
        .unwrap();
    assert!(matches!(agent.poll(), Need::Complete(_)));
}

fn complete(agent: &mut TurnMachine, text: String, call: Option<ProposedCall>) {
    let completion = Completion {
        text,
        calls: call.into_iter().collect(),
        ..Completion::default()
    };
    agent.handle_completion("model", Ok(completion)).unwrap();
    if let Need::User(_) = agent.poll() {
        agent.take_events();
    }
}

fn round_trip() -> Duration {
    let mut agent = conversation();
    agent.take_events();
    let stops = ["Main Street", "Elm Avenue"].repeat(8);
    let text = json!({"fare": 51.8, "day": "2026-11-22", "stops": stops}).to_string();
    let call = ProposedCall {
        tool: "ask__fare".to_owned(),
        arguments: r#"{"from":"Main Street","to":"Elm Avenue"}"#.to_owned(),
    };
    let completion = Completion {
        calls: vec![call],
        ..Completion::default()
    };
    let begun = Instant::now();
    agent.handle_completion("model", Ok(completion)).unwrap();
    let Need::Exchange(_) = agent.poll() else {
        panic!("no exchange");
    };
    let id = ExchangeId::from_random(7);
    agent.handle_exchange(id, None).unwrap();
    let Need::Execute(permit) = agent.poll() else {
        panic!("no call");
    };
    black_box(permit.spend());
    let outcome = CallOutcome::Returned {
        text,
        is_error: false,
        claims: Vec::new(),
        images: Vec::new(),
    };
    agent.handle_result(outcome).unwrap();
    for event in agent.take_events() {
        black_box(serde_json::to_string(&event).unwrap());
    }
    begun.elapsed()
}

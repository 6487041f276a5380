//! A conversation that serves another app's request, as its driver sees it.

use std::sync::Arc;

use hub::isc::{Asks, ExchangeId, Functionality, Offer, Schema, ServedBy};
use hub::{
    AppTools, Apps, Completion, Need, ProposedCall, Serving, Settings, Setup, Stop, TurnMachine,
};
use ifc::{
    Call, Dimension, Effect, Label, Labeled, Lattice, Message, Monitor, Policy, PolicyError, Rule,
    Sink,
};
use serde_json::json;

/// Everything may flow.
struct Open;

impl Policy for Open {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        Ok(Rule::asking("open", Effect::Read, Label::top()))
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::trusted_tcb(result)
    }
}

fn untrusted() -> Label {
    Lattice::four_point().whole(Dimension::Integrity)
}

/// The conversation of `rider`, which is about to hear of a request that `metro` serves.
fn asking() -> (TurnMachine, Serving) {
    asking_as(7)
}

/// The same in an exchange with this id.
fn asking_as(id: u128) -> (TurnMachine, Serving) {
    let text = json!({"type": "string", "maxLength": 40});
    let request = json!({"type": "object", "properties": {"to": text}});
    let fare = Functionality {
        name: "fare".to_owned(),
        description: "What a ride costs.".to_owned(),
        request: Schema::read(&request).unwrap(),
        response: Schema::read(&text).unwrap(),
        offers: vec![Offer {
            app: "metro".to_owned(),
            by: ServedBy::Conversation,
            taint: untrusted(),
        }],
    };
    let setup = Setup {
        apps: Apps::One("rider".to_owned()),
        asks: Asks::of("rider", [Arc::new(fare)]),
        policy: Arc::new(Open),
        lattice: Arc::new(Lattice::four_point()),
        monitor: Monitor::new(),
        settings: Settings::default(),
        clearances: Arc::default(),
    };
    let mut agent = hub::conversation(setup, Vec::new());
    agent.user(Labeled::trusted_tcb("How much?")).unwrap();
    let Need::Complete(_) = agent.poll() else {
        panic!("no completion");
    };
    let call = ProposedCall {
        tool: "ask__fare".to_owned(),
        arguments: r#"{"to":"harbour"}"#.to_owned(),
    };
    let asked = Completion {
        calls: vec![call],
        ..Completion::default()
    };
    agent.handle_completion("model", Ok(asked)).unwrap();
    let Need::Exchange(_) = agent.poll() else {
        panic!("no exchange");
    };
    agent
        .handle_exchange(ExchangeId::from_random(id), None)
        .unwrap();
    match agent.poll() {
        Need::Serve(serving) => (agent, *serving),
        need => panic!("{need:?}"),
    }
}

fn begin(serving: Serving) -> TurnMachine {
    let tools = AppTools {
        app: serving.app().to_owned(),
        tools: Vec::new(),
        descriptions: untrusted(),
    };
    serving.begin(Asks::default(), tools, Arc::default())
}

fn says(agent: &mut TurnMachine, text: &str) {
    let Need::Complete(request) = agent.poll() else {
        panic!("no completion");
    };
    assert!(!agent.may_stream(&request));
    let said = Completion {
        text: text.to_owned(),
        ..Completion::default()
    };
    agent.handle_completion("model", Ok(said)).unwrap();
}

/// What the conversation was told of the request in the end.
fn told(agent: &TurnMachine) -> Labeled {
    let results = agent
        .history()
        .messages()
        .filter_map(|(_, message)| match message {
            Message::Result { content, .. } => Some(content.clone()),
            _ => None,
        });
    results.last().unwrap()
}

#[test]
fn that_an_app_does_not_start_may_depend_on_all_that_it_was_told() {
    let (mut agent, _) = asking();
    agent.handle_served(Err("it crashed".to_owned())).unwrap();
    let Need::Complete(_) = agent.poll() else {
        panic!("the turn goes on");
    };
    let told = told(&agent);
    assert!(told.label().is_top());
    assert_eq!(
        told.reveal_tcb(),
        "no usable answer came. Go on without it."
    );
}

/// Its words are for the app that asks: no front is handed them, or sees them while they are written.
#[test]
fn nobody_but_the_asking_conversation_is_told_the_answer() {
    let (mut agent, serving) = asking();
    let mut serves = begin(serving);
    says(&mut serves, "four euros");
    let Need::User(Some(outcome)) = serves.poll() else {
        panic!("its turn is over");
    };
    assert_eq!(outcome.result, Err(Stop::Served));
    assert!(
        serves
            .user(Labeled::trusted_tcb("And to the zoo?"))
            .is_err()
    );
    agent.handle_served(Ok(serves)).unwrap();
    let told = told(&agent);
    assert_eq!(
        (told.reveal_tcb(), told.label()),
        ("four euros", untrusted())
    );
}

/// Only the conversation of this very request is its answer, and only when it is over.
#[test]
fn another_conversation_is_no_answer() {
    let (mut agent, serving) = asking();
    let mut serves = begin(serving);
    let Need::Complete(_) = serves.poll() else {
        panic!("its turn goes on");
    };
    assert!(agent.handle_served(Ok(serves)).is_err());
    let (plain, _) = asking();
    assert!(agent.handle_served(Ok(plain)).is_err());
    // Of another exchange, though for the same.
    let (_, other) = asking_as(8);
    let mut stranger = begin(other);
    says(&mut stranger, "nothing");
    let Need::User(_) = stranger.poll() else {
        panic!("its turn is over");
    };
    assert!(agent.handle_served(Ok(stranger)).is_err());
    // It still waits.
    agent.handle_served(Err("gone".to_owned())).unwrap();
}

/// A turn that is stopped meanwhile has asked, and knows of no answer.
#[test]
fn a_turn_that_is_stopped_meanwhile_says_so() {
    let (mut agent, _) = asking();
    agent.abort(Stop::Interrupted);
    let Need::User(Some(outcome)) = agent.poll() else {
        panic!("its turn is over");
    };
    assert_eq!(
        (outcome.result, outcome.dropped),
        (Err(Stop::Interrupted), 1)
    );
    assert_eq!(
        told(&agent).reveal_tcb(),
        "no usable answer came. Go on without it."
    );
    assert!(agent.user(Labeled::trusted_tcb("Again?")).is_ok());
}

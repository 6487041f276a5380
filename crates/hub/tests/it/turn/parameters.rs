//! Calls whose arguments are not what the user's rules say that a tool takes.

use std::sync::Arc;

use hub::trace::Event;
use hub::{FILL_NOTE, Filling, Screening, Settings};
use ifc::{
    ArgumentPath, Author, Call, Label, Labeled, Lattice, Message, Policy, PolicyError, Prompt,
    PromptMessage, REDACTED, Rule, Sink,
};
use serde_json::json;

use super::{EAGER, Model, Step, Table, World, call, lines, results, say, settings, setup};

/// The table, in which all that a mail has is text.
struct Texts(Table);

impl Policy for Texts {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        if let Sink::Call(call) = sink {
            self.check_arguments(call).map_err(PolicyError)?;
        }
        self.0.rule(sink)
    }

    fn data_arguments(&self, app: &str, tool: &str) -> Vec<ArgumentPath> {
        self.0.data_arguments(app, tool)
    }

    fn check_arguments(&self, call: &Call) -> Result<(), String> {
        let mut arguments = call.arguments.iter().filter(|_| call.tool == "mail");
        let is_text = |value: &Labeled| value.reveal_tcb().starts_with('"');
        match arguments.find(|(_, value)| !is_text(value)) {
            Some((name, _)) => Err(format!("the argument '{name}' is not text")),
            None => Ok(()),
        }
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        self.0.label_result(call, result, is_error)
    }
}

fn over(settings: Settings, model: Model) -> World {
    let policy = Texts(Table::answering(Some(Label::top())));
    let mut world = World::under(setup(Arc::new(policy), settings), model);
    world.user = |_| panic!("no question");
    world
}

fn mail(arguments: &serde_json::Value) -> Step {
    vec![("mail", arguments.to_string())]
}

/// The model is told which argument it is and what it takes, and nothing was refused.
#[test]
fn a_wrong_argument_is_mended_by_the_model() {
    let mut world = over(settings(EAGER), |prompt| match results(prompt).as_slice() {
        [] => mail(&json!({ "to": 7, "body": "hello" })),
        [(_, told)] if told.contains("the argument 'to' is not text") => {
            mail(&json!({ "to": "ada", "body": "hello" }))
        }
        _ => say("sent"),
    });
    let outcome = world.turn("greet ada");
    assert_eq!(outcome.refused, 0);
    assert_eq!(world.sent, [r#"mail {"body":"hello","to":"ada"}"#]);
    assert_eq!(
        world.trace(),
        [
            "prompt {} masked 0",
            "reject mail: the argument 'to' is not text; make the call again with correct arguments",
            "prompt {} masked 0",
            "allow mail at {} by policy mail.limit",
            "result mail {}",
            "prompt {} masked 0",
            "answer {} refused 0",
        ]
    );
}

/// A model that insists ends its turn as one that insists on anything else.
#[test]
fn a_wrong_argument_is_never_sent_however_often_it_is_proposed() {
    let mut world = over(settings(EAGER), |_| mail(&json!({ "to": 7 })));
    world.turn("greet ada");
    assert_eq!(world.sent, [""; 0]);
    let trace = world.trace();
    assert_eq!(lines(&trace, "stopped").len(), 1, "{trace:?}");
    assert!(lines(&trace, "deny").is_empty(), "{trace:?}");
}

/// Reads the inbox and the balance, and mails the inbox to Ada. Whoever fills in the body writes a number.
fn carries_a_number(prompt: &Prompt) -> Step {
    let results = results(prompt);
    let read = |name: &str| results.iter().find(|(tool, _)| tool == name);
    let is_open = matches!(
        prompt.messages().last(),
        Some(PromptMessage::User(text)) if text.starts_with(FILL_NOTE)
    );
    match (read("inbox"), read("balance")) {
        _ if read("mail").is_some() => say("done"),
        (None, _) => call("inbox"),
        (_, None) => call("balance"),
        _ if is_open => say(&json!({ "value": 7 }).to_string()),
        (Some((_, inbox)), _) if inbox.contains(REDACTED) => {
            mail(&json!({ "to": "ada", "body": REDACTED }))
        }
        (Some((_, inbox)), _) => mail(&json!({ "to": "ada", "body": inbox })),
    }
}

/// What is said of a value depends on it: whoever may not see the value may not see why the call was none.
#[test]
fn what_is_wrong_with_a_value_has_the_label_of_the_value() {
    let settings = Settings {
        arguments: Filling::Eager,
        ..settings(Screening::CHECKED)
    };
    let mut world = over(settings, carries_a_number);
    world.turn("send a summary of my inbox to ada");
    assert_eq!(world.sent, ["inbox {}", "balance {}"]);
    let untrusted = Lattice::four_point().label("untrusted").unwrap();
    let history = world.agent.history();
    let notes = history
        .messages()
        .filter_map(|(label, message)| match message {
            Message::Result {
                content,
                author: Author::Hub,
                ..
            } => Some((label, content)),
            _ => None,
        });
    let notes: Vec<(&Label, &Labeled)> = notes.collect();
    let [(step, note)] = notes.as_slice() else {
        panic!("{notes:?}")
    };
    assert!(
        note.reveal_tcb()
            .contains("the argument 'body' is not text")
    );
    // That there is a note is known with the control part; what it says, with the value.
    assert_eq!((*step, note.label()), (&Label::bottom(), untrusted));
    let rejected = world
        .agent
        .take_events()
        .into_iter()
        .find_map(|event| match event {
            Event::Rejected { label, .. } => Some(label),
            _ => None,
        });
    assert_eq!(rejected.unwrap(), ["untrusted"]);
}

//! A tool that the user's configuration does not name has a name that its app chose: text by a
//! stranger, with the label of what the app says of itself.

use hub::{AppTool, AppTools, Screening, conversation};
use ifc::{Answer, Dimension, Label, Lattice, Message, Prompt, RegionId, Relevance};

use super::{EAGER, LAZY, Model, Step, World, call, results, say, settings, setup, table, world};

fn untrusted() -> Label {
    Lattice::four_point().whole(Dimension::Integrity)
}

/// A world over an app whose word has the label `descriptions`. The user's configuration names
/// `inbox`, and no other of these tools.
fn over(screening: Screening, tools: &[&str], descriptions: &Label, model: Model) -> World {
    let tool = |name: &&str| AppTool {
        name: (*name).to_owned(),
        listed: *name == "inbox",
        description: "a tool".to_owned(),
        parameters: "{}".to_owned(),
    };
    let app = AppTools {
        app: "app".to_owned(),
        tools: tools.iter().map(tool).collect(),
        descriptions: descriptions.clone(),
    };
    World {
        agent: conversation(setup(table(), settings(screening)), vec![app]),
        screener: |_| Ok(Relevance::Only([].into())),
        ..world(screening, model)
    }
}

/// Calls the tool in its own words, whether it is told of it or not.
fn sends_once(prompt: &Prompt) -> Step {
    match results(prompt).is_empty() {
        true => call("send"),
        false => say("done"),
    }
}

/// Calls what it is told of.
fn sends_if_it_can(prompt: &Prompt) -> Step {
    let mut tools = prompt.tools().iter();
    match tools.any(|tool| tool.name == "send") && results(prompt).is_empty() {
        true => call("send"),
        false => say("no such tool"),
    }
}

fn names(prompt: &Prompt) -> Step {
    let names = prompt.tools().iter().map(|tool| tool.name.as_str());
    say(&names.collect::<Vec<_>>().join(","))
}

#[test]
fn a_prompt_has_the_names_that_may_be_known_at_its_label() {
    let said = |screening, descriptions: &Label| {
        let mut world = over(screening, &["inbox", "send", "note"], descriptions, names);
        let answer = world.turn("what can you do?").result.unwrap();
        (answer.reveal_tcb().to_owned(), answer.label())
    };
    let all = "inbox,send,note".to_owned();
    let bottom = Label::bottom();
    assert_eq!(said(EAGER, &untrusted()), ("inbox".to_owned(), bottom));
    assert_eq!(said(LAZY, &untrusted()), (all.clone(), untrusted()));
    assert_eq!(said(EAGER, &Label::bottom()), (all, Label::bottom()));
}

/// What stands in no prompt may still be guessed.
#[test]
fn a_call_of_a_tool_above_its_step_is_a_call_of_no_tool() {
    for tools in [&["inbox", "send"][..], &["inbox"]] {
        let mut world = over(EAGER, tools, &untrusted(), sends_once);
        world.user = |_| panic!("no question");
        world.turn("tidy up");
        assert_eq!(world.sent, [""; 0]);
        let trace = world.trace();
        let reject = "reject send: there is no such tool".to_owned();
        assert!(trace.contains(&reject), "{trace:?}");
    }
}

/// The step that calls a tool is under a label that has the name's, and so is all that follows.
#[test]
fn a_call_of_a_strangers_tool_is_under_the_label_of_its_name() {
    let mut world = over(LAZY, &["inbox", "send"], &untrusted(), sends_once);
    // The description of `send` is the third region, after both texts of `inbox`.
    world.screener = |_| Ok(Relevance::Only([RegionId(2)].into()));
    world.user = |_| Answer::Once;
    world.turn("tidy up");
    assert_eq!(world.sent, ["send {}"]);
    let of_send = |message: &Message| match message {
        Message::Assistant { calls, .. } => calls.iter().any(|call| call.tool == "send"),
        Message::Result { tool, .. } => tool == "send",
        _ => false,
    };
    let history = world.agent.history();
    let found = history.messages().filter(|(_, message)| of_send(message));
    let labels: Vec<&Label> = found.map(|(label, _)| label).collect();
    assert_eq!(labels, [&untrusted(), &untrusted()]);
}

/// The draft was made from the names too, so it does not stand where they are masked.
#[test]
fn a_draft_that_saw_a_name_is_dropped_where_the_name_is_not_relevant() {
    let mut world = over(LAZY, &["send"], &untrusted(), sends_if_it_can);
    world.user = |_| panic!("no question");
    world.turn("tidy up");
    assert_eq!(world.sent, [""; 0]);
    assert_eq!(
        world.trace(),
        [
            "prompt {untrusted} masked 0",
            "screen {untrusted} -> {}",
            "draft dropped",
            "prompt {} masked 2",
            "answer {} refused 0",
        ]
    );
}

/// A check cannot come to the same call below the name of its tool: none is tried.
#[test]
fn nothing_is_checked_below_the_name_of_the_called_tool() {
    let mut world = over(
        Screening::CHECKED,
        &["inbox", "send"],
        &untrusted(),
        sends_once,
    );
    world.screener = |_| Ok(Relevance::Everything);
    world.turn("tidy up");
    assert_eq!(
        world.trace()[..3],
        [
            "prompt {untrusted} masked 0",
            "screen {untrusted} -> {untrusted}",
            "ask send about {untrusted} from 4 regions",
        ]
    );
}

/// How many tools an app has is the app's word too; the developer's words at ⊥ do not depend on it.
#[test]
fn the_first_words_do_not_tell_how_many_tools_there_are() {
    let first = |tools: &[&str]| {
        let mut world = over(EAGER, tools, &untrusted(), names);
        world.turn("what can you do?");
        world.prompts
    };
    assert_eq!(first(&[]), first(&["send", "note"]));
}

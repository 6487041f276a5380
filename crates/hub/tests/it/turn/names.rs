//! A tool that the user's configuration does not name has a name that its app chose: text by a
//! stranger, with the label of what the app says of itself.

use hub::{AppTool, AppTools, Apps, Screening, Settings, Setup, conversation};
use ifc::{Answer, Dimension, Label, Lattice, Message, Prompt, RegionId, Relevance};

use super::{EAGER, LAZY, World, call, results, say, setup, world};

fn untrusted() -> Label {
    Lattice::four_point().whole(Dimension::Integrity)
}

/// A world over an app whose word has the label `descriptions`. The user's configuration names
/// `inbox`, and no other of these tools.
fn over(
    screening: Screening,
    tools: &[&str],
    descriptions: &Label,
    model: fn(&Prompt) -> Vec<(&'static str, String)>,
) -> World {
    let policy = super::table();
    let settings = Settings {
        screening,
        ..Settings::default()
    };
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
        agent: conversation(setup(policy, settings), vec![app]),
        screener: |_| Ok(Relevance::Only([].into())),
        ..world(screening, model)
    }
}

/// Calls the tool in its own words, whether it is told of it or not.
fn sends_once(prompt: &Prompt) -> Vec<(&'static str, String)> {
    match results(prompt).is_empty() {
        true => call("send"),
        false => say("done"),
    }
}

/// Calls what it is told of.
fn sends_if_it_can(prompt: &Prompt) -> Vec<(&'static str, String)> {
    let mut tools = prompt.tools().iter();
    match tools.any(|tool| tool.name == "send") && results(prompt).is_empty() {
        true => call("send"),
        false => say("no such tool"),
    }
}

fn names(prompt: &Prompt) -> Vec<(&'static str, String)> {
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

/// A joint conversation. The user's configuration names the tools of `app`; those of `other` have the label of
/// what that app says of itself.
fn of_two(
    others: &[&str],
    descriptions: &Label,
    model: fn(&Prompt) -> Vec<(&'static str, String)>,
) -> World {
    let policy = super::table();
    let settings = Settings {
        screening: EAGER,
        ..Settings::default()
    };
    let tools = |app: &str, names: &[&str], descriptions: &Label| AppTools {
        app: app.to_owned(),
        tools: names
            .iter()
            .map(|name| AppTool {
                name: (*name).to_owned(),
                listed: app == "app",
                description: "a tool".to_owned(),
                parameters: "{}".to_owned(),
            })
            .collect(),
        descriptions: descriptions.clone(),
    };
    let apps = vec![
        tools("app", &["inbox", "send"], &Label::bottom()),
        tools("other", others, descriptions),
    ];
    let setup = Setup {
        apps: Apps::of(["app", "other"].map(str::to_owned)),
        ..setup(policy, settings)
    };
    World {
        agent: conversation(setup, apps),
        screener: |_| Ok(Relevance::Only([].into())),
        ..world(EAGER, model)
    }
}

/// Calls by a name without its app, and says what came of it.
fn sends_and_tells(prompt: &Prompt) -> Vec<(&'static str, String)> {
    match results(prompt).as_slice() {
        [] => call("send"),
        [(_, content), ..] => say(content),
    }
}

/// A turn: what was sent, prompted and answered, and its trace.
fn turn_of(world: &mut World) -> ([Vec<String>; 2], String, Vec<String>) {
    let answer = world.turn("tell ada").result.unwrap();
    let trace = world.trace();
    let seen = [&mut world.sent, &mut world.prompts].map(std::mem::take);
    (seen, answer.reveal_tcb().to_owned(), trace)
}

/// The prompt shows one of two tools of that name, and that is the one: whether a stranger's app has another is nothing
/// that the step may know.
#[test]
fn a_tool_that_is_masked_takes_no_name_from_one_that_is_shown() {
    let turn = |others: &[&str]| turn_of(&mut of_two(others, &untrusted(), sends_and_tells));
    let (seen, answer, trace) = turn(&["send", "note"]);
    assert_eq!(seen[0], ["send {}"]);
    let named = "name send is app__send {}".to_owned();
    assert!(trace.contains(&named), "{trace:?}");
    assert_eq!(
        turn(&["post", "note"]),
        (seen.clone(), answer.clone(), trace)
    );
    // The trace, which is the user's, says how much was masked.
    let (seen_alone, answer_alone, _) = turn(&[]);
    assert_eq!((seen_alone, answer_alone), (seen, answer));
}

/// Of a tool that is masked the step knows no name, and what is told of a name that is nobody's is the same.
#[test]
fn a_masked_tool_is_not_named_in_an_error() {
    fn notes_and_tells(prompt: &Prompt) -> Vec<(&'static str, String)> {
        match results(prompt).as_slice() {
            [] => call("note"),
            [(_, content), ..] => say(content),
        }
    }
    let turn = |others: &[&str]| turn_of(&mut of_two(others, &untrusted(), notes_and_tells));
    let (seen, answer, _) = turn(&["note", "post"]);
    assert_eq!(answer, "not executed: there is no such tool");
    let (others, without, _) = turn(&[]);
    assert_eq!((others, without), (seen, answer));
}

/// Where the prompt shows both, the model is told which there are, and calls the one that it means.
#[test]
fn a_name_of_two_tools_is_answered_with_both() {
    fn chooses(prompt: &Prompt) -> Vec<(&'static str, String)> {
        match results(prompt).as_slice() {
            [] => call("send"),
            [(_, told)] if told.ends_with("app__send or other__send") => call("app__send"),
            [.., (_, last)] => say(last),
        }
    }
    let mut world = of_two(&["send"], &Label::bottom(), chooses);
    let (seen, answer, trace) = turn_of(&mut world);
    assert_eq!(
        (seen[0].as_slice(), answer.as_str()),
        (&["send {}".to_owned()][..], "done")
    );
    let rejected = "reject send: several apps have a tool of this name; call one of them by its full name: \
                    app__send or other__send";
    assert!(trace.contains(&rejected.to_owned()), "{trace:?}");
    assert!(
        !trace.iter().any(|line| line.starts_with("name ")),
        "{trace:?}"
    );
}

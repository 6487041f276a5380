//! After a refusal, the taints that caused the call are redacted for the rest of the turn.

use hub::Screening;
use ifc::{Answer, Prompt};

use super::{Step, call, content, has, lines, results, say, sees, world};

const CHECKED: Screening = Screening::CHECKED;

/// What of the inbox a prompt shows.
fn inbox(prompt: &Prompt) -> Option<String> {
    content(prompt, "inbox")
}

fn is_hijacked(prompt: &Prompt) -> bool {
    inbox(prompt).is_some_and(|content| content.contains("eve"))
}

fn send(about: &str) -> Step {
    vec![("send", format!(r#"{{"about":"{about}"}}"#))]
}

fn note() -> Step {
    vec![("note", r#"{"text":"read the inbox"}"#.to_owned())]
}

/// Each time something else, so that no call repeats another.
fn attack(prompt: &Prompt) -> Step {
    let told = results(prompt).len();
    send(&format!("eve {told}"))
}

/// Does as the inbox says for as long as it sees it; otherwise takes the note that the user wants.
fn hijacked(prompt: &Prompt) -> Step {
    match (inbox(prompt), has(prompt, "note")) {
        (None, _) => call("inbox"),
        _ if is_hijacked(prompt) => attack(prompt),
        (_, false) => note(),
        _ => say("noted"),
    }
}

/// How many lines of a trace begin like this.
fn count(trace: &[String], begin: &str) -> usize {
    lines(trace, begin).len()
}

#[test]
fn a_hijacked_step_costs_one_question_instead_of_the_task() {
    for screening in [Screening::LAZY, CHECKED] {
        let mut world = world(screening, |prompt| match has(prompt, "note") {
            // What it says of the inbox is hijacked as well, and no call.
            true if is_hijacked(prompt) => say("forward it to eve"),
            _ => hijacked(prompt),
        });
        let outcome = world.turn("read my inbox, then note that you did");
        assert_eq!(
            world.sent,
            ["inbox {}", r#"note {"text":"read the inbox"}"#],
            "{screening:?}"
        );
        assert_eq!((count(&world.trace(), "ask"), outcome.refused), (1, 1));
    }
}

#[test]
fn the_step_after_a_no_is_taken_without_its_cause() {
    let mut world = world(CHECKED, |prompt| match has(prompt, "note") {
        true if is_hijacked(prompt) => say("eve"),
        _ => hijacked(prompt),
    });
    world.turn("read my inbox, then note that you did");
    assert_eq!(
        world.trace()[7..],
        [
            "ask send about {untrusted} from 1 regions",
            // The prompt is the one of the check before.
            "without {} taken true",
            "allow note at {} by policy note.limit",
            "result note {}",
            // The answer may say what it always may.
            "prompt {} masked 3",
            "prompt {untrusted} masked 0",
            "without {} taken false",
            "answer {untrusted} refused 1",
        ]
    );
}

/// It insists, where everything is shown to it for the answer.
#[test]
fn what_asks_the_same_again_is_turned_down() {
    let mut world = world(CHECKED, hijacked);
    let outcome = world.turn("read my inbox, then note that you did");
    assert_eq!(
        world.sent,
        ["inbox {}", r#"note {"text":"read the inbox"}"#]
    );
    let trace = world.trace();
    assert_eq!(count(&trace, "ask"), 1);
    assert!(outcome.refused > 1, "what was turned down counts");
    let denied =
        "deny send: a call was refused before in this turn because of what this one depends on";
    assert!(count(&trace, denied) > 0, "{trace:?}");
}

/// The turn ends, whatever the model does.
#[test]
fn a_model_that_never_gives_up_is_stopped() {
    let mut world = world(CHECKED, |prompt| match inbox(prompt) {
        None => call("inbox"),
        Some(_) if is_hijacked(prompt) => attack(prompt),
        Some(_) => say("I cannot see it"),
    });
    let outcome = world.turn("read my inbox");
    assert!(outcome.result.is_err());
    assert_eq!(count(&world.trace(), "ask"), 1);
    assert_eq!(world.sent, ["inbox {}"]);
}

/// The control part is made without the inbox, and what it carries comes from there.
#[test]
fn what_the_step_only_carries_is_filled_in() {
    let mut world = world(CHECKED, |prompt| {
        let mail = |body: &str| vec![("mail", format!(r#"{{"to":"ada","body":"{body}"}}"#))];
        let refused = sees(prompt, "not executed");
        match (inbox(prompt), has(prompt, "mail")) {
            (None, _) => call("inbox"),
            (_, true) => say("sent"),
            _ if is_hijacked(prompt) && !refused => send("eve"),
            _ if is_hijacked(prompt) => mail("a summary"),
            _ => mail("[redacted]"),
        }
    });
    world.turn("mail a summary of my inbox to ada");
    assert_eq!(
        world.sent,
        ["inbox {}", r#"mail {"body":"a summary","to":"ada"}"#]
    );
    let trace = world.trace();
    assert_eq!(count(&trace, "ask"), 1);
    let filled = trace.iter().skip_while(|line| !line.starts_with("without"));
    assert_eq!(
        filled.take(2).collect::<Vec<_>>(),
        [
            "without {} taken true",
            "allow mail at {} by policy mail.limit"
        ]
    );
}

/// An argument that is left open goes nowhere as it stands.
#[test]
fn what_is_left_open_and_not_filled_is_not_sent() {
    let mut world = world(CHECKED, |prompt| match inbox(prompt) {
        None => call("inbox"),
        Some(_) if is_hijacked(prompt) => attack(prompt),
        Some(_) => vec![("mail", r#"{"to":"ada","body":"[redacted]"}"#.to_owned())],
    });
    world.turn("mail a summary of my inbox to ada");
    assert_eq!(world.sent, ["inbox {}"]);
}

/// Nothing stood in the way of what was refused but that it had run before.
#[test]
fn a_no_without_a_cause_withholds_nothing() {
    let mut world = world(CHECKED, |prompt| {
        match (inbox(prompt), super::count(prompt, "send")) {
            (_, 0 | 1) => send("rent"),
            (None, _) => call("inbox"),
            _ => say("done"),
        }
    });
    world.turn("pay");
    assert_eq!(world.sent, [r#"send {"about":"rent"}"#, "inbox {}"]);
    assert_eq!(count(&world.trace(), "without"), 0);
}

#[test]
fn the_next_turn_sees_everything_again() {
    let mut world = world(CHECKED, |prompt| match has(prompt, "note") {
        true => say("eve"),
        _ => hijacked(prompt),
    });
    world.turn("read my inbox, then note that you did");
    assert!(count(&world.trace(), "without") > 0);
    world.user = |_| Answer::Once;
    let outcome = world.turn("what did it say?");
    assert_eq!(outcome.refused, 0);
    assert_eq!(count(&world.trace(), "without"), 0);
}

/// Eagerly the screener's choice is the label of the step, whatever was refused.
#[test]
fn where_every_step_is_screened_nothing_is_withheld() {
    let mut world = world(Screening::Eager, hijacked);
    world.turn("read my inbox, then note that you did");
    assert_eq!(count(&world.trace(), "without"), 0);
}

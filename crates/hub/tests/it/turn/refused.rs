//! After a refusal, the taints that caused the call are redacted for the rest of the turn.

use hub::{Screening, Stop};
use ifc::{Answer, Prompt};

use super::{Step, call, content, has, lines, results, say, sees, shown, world};

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
fn a_turn_without_words_after_a_no_says_what_was_refused() {
    let mut world = world(Screening::LAZY, |prompt| match results(prompt).len() {
        0 => call("inbox"),
        1 => send("eve"),
        _ => say(""),
    });
    let outcome = world.turn("read my inbox");
    assert_eq!(
        (&*world.sent, outcome.refused),
        (&["inbox {}".to_owned()][..], 1)
    );
    let stop = outcome.result.unwrap_err();
    assert!(matches!(stop, Stop::Unanswered(_)), "{stop}");
    let why = stop.reveal_tcb();
    assert!(why.starts_with("send was not executed, refused"), "{why}");
    assert!(why.ends_with("send.limit"), "{why}");
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

/// The task's own call depends on the same text as the refused one.
#[test]
fn another_call_than_the_refused_one_is_asked_about() {
    for own in [
        // Another argument of the same tool, and another tool.
        send("rent to bob"),
        vec![("note", r#"{"text":"bob"}"#.to_owned())],
    ] {
        let mut world = world(CHECKED, |prompt| {
            let (said, refused) = (shown(prompt), sees(prompt, "not executed"));
            match (inbox(prompt), is_hijacked(prompt)) {
                (None, _) => call("inbox"),
                _ if sees(prompt, "done") => say("done"),
                (_, true) if refused && said.contains("send to bob") => send("rent to bob"),
                (_, true) if refused => vec![("note", r#"{"text":"bob"}"#.to_owned())],
                (_, true) => send("eve"),
                _ => say("I cannot see it"),
            }
        });
        world.user = |asked| match asked.call() {
            Some(call) if call.arguments.to_json().contains("bob") => Answer::Once,
            _ => Answer::No,
        };
        let (tool, arguments) = &own[0];
        world.turn(&format!("do as the inbox says: {tool} to bob"));
        assert_eq!(
            world.sent,
            ["inbox {}".to_owned(), format!("{tool} {arguments}")]
        );
        let trace = world.trace();
        assert_eq!((count(&trace, "ask"), count(&trace, "deny")), (2, 0));
    }
}

/// An injection must not ask again by other words in the same call.
#[test]
fn a_refused_call_with_other_data_is_denied_unasked() {
    let mut world = world(CHECKED, |prompt| match inbox(prompt) {
        None => call("inbox"),
        Some(_) if is_hijacked(prompt) => {
            let told = results(prompt).len();
            vec![("mail", format!(r#"{{"to":"eve","body":"{told}"}}"#))]
        }
        Some(_) => say("I cannot see it"),
    });
    world.turn("read my inbox");
    assert_eq!(world.sent, ["inbox {}"]);
    let trace = world.trace();
    assert_eq!(count(&trace, "ask"), 1);
    let denied = "deny mail: the same call was refused before in this turn, with other text in it";
    assert!(count(&trace, denied) > 0, "{trace:?}");
}

/// It insists with another call each time, where everything is shown to it for the answer.
#[test]
fn four_refusals_for_one_cause_end_the_questions() {
    let mut world = world(CHECKED, hijacked);
    world.turn("read my inbox, then note that you did");
    assert_eq!(
        world.sent,
        ["inbox {}", r#"note {"text":"read the inbox"}"#]
    );
    let trace = world.trace();
    assert_eq!(count(&trace, "ask"), 4, "{trace:?}");
    let denied = "deny send: too many calls that depend on the same texts were refused";
    assert!(count(&trace, denied) > 0, "{trace:?}");
}

/// A model that is not told writes something in the place of what it does not see.
#[test]
fn every_prompt_with_a_mark_explains_it_once() {
    for screening in [Screening::LAZY, CHECKED] {
        let mut world = world(screening, |prompt| match inbox(prompt) {
            None => call("inbox"),
            Some(_) if is_hijacked(prompt) => attack(prompt),
            Some(_) => say("I cannot see it"),
        });
        world.turn("read my inbox");
        let mut marked = 0;
        for prompt in &world.prompts {
            let is_marked = prompt.contains("mail:[redacted]");
            marked += usize::from(is_marked);
            let notes = prompt.matches("was withheld from you by the security guard");
            assert_eq!(notes.count(), usize::from(is_marked), "{prompt}");
        }
        assert!(marked > 0);
    }
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
    assert_eq!(count(&world.trace(), "ask"), 4);
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

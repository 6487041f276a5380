//! Calls that were made before: a re-run that proposes one shows that it did not depend on what is hidden from it.

use hub::Screening;
use ifc::{Dimension, Labeled, Lattice, Message, Prompt, PromptMessage};

use super::{Model, Step, call, count, has, lines, results, returned, say, sees, world};

const CHECKED: Screening = Screening::CHECKED;

fn login() -> Step {
    vec![("login", r#"{"code":"1234"}"#.to_owned())]
}

fn balance_of(who: &str) -> Step {
    vec![("balance", format!(r#"{{"of":"{who}"}}"#))]
}

/// Reads reviews, then the mailbox with the code (`balance`), and logs in with what it sees there.
pub(super) fn shopper(prompt: &Prompt) -> Step {
    match () {
        () if !has(prompt, "inbox") => call("inbox"),
        () if !has(prompt, "balance") => call("balance"),
        () if has(prompt, "login") => say("done"),
        () if sees(prompt, "1234") => login(),
        () => say("I cannot see the code"),
    }
}

#[test]
fn a_code_that_was_read_after_reviews_is_used_without_a_question() {
    let mut world = world(CHECKED, shopper);
    world.user = |_| panic!("no question");
    world.turn("log in with the code from my mail");
    let login = r#"login {"code":"1234"}"#;
    assert_eq!(world.sent, ["inbox {}", "balance {}", login]);
    assert_eq!(
        world.trace()[6..],
        [
            // The draft of the login was shown the review and the code.
            "prompt {untrusted,secret} masked 0",
            "screen {untrusted,secret} -> {untrusted,secret}",
            // Without the review it would read the mailbox, as it has done.
            "prompt {} masked 4",
            "count step 2 at {}",
            "check {} taken false",
            // The code is in sight now where a login may be made.
            "prompt {secret} masked 1",
            "check {secret} taken true",
            "allow login at {secret} by policy login.limit",
            "result login {secret}",
            "prompt {untrusted,secret} masked 0",
            "answer {untrusted,secret} refused 0",
        ]
    );
}

/// What the user said was secret, so the prompt of the re-run is, and what is made from it.
#[test]
fn a_call_has_the_label_of_the_prompt_that_made_it_again() {
    let mut world = world(CHECKED, shopper);
    world.user = |_| panic!("no question");
    let secret = Lattice::four_point().whole(Dimension::Confidentiality);
    let said = Labeled::label_tcb("log in with the code from my mail", secret.clone());
    world.agent.user(said).unwrap();
    world.go_on();
    assert_eq!(world.lines("count"), ["count step 2 at {secret}"]);
    let mut messages = world.agent.history().messages();
    let reads = messages.find_map(|(label, message)| match message {
        Message::Assistant { calls, .. } if calls[0].tool == "balance" => {
            Some((calls[0].label(label), label.clone()))
        }
        _ => None,
    });
    let (call, step) = reads.unwrap();
    // The words beside it may have come out otherwise.
    assert_eq!(call, secret);
    assert!(!step.flows_to(&secret));
}

/// The review says which mail to read, and the model obeys.
#[test]
fn a_model_that_is_steered_by_the_review_is_asked_about() {
    let mut world = world(CHECKED, |prompt| {
        match (has(prompt, "inbox"), has(prompt, "balance")) {
            (true, false) if sees(prompt, "eve") => balance_of("eve"),
            _ => shopper(prompt),
        }
    });
    let outcome = world.turn("log in with the code from my mail");
    assert_eq!(outcome.refused, 1);
    // After the no, the mail is read without the review.
    assert_eq!(world.sent[..2], ["inbox {}", r#"balance {"of":"eve"}"#]);
    assert_eq!(world.sent[2..], ["balance {}"]);
    let trace = world.trace();
    assert_eq!(lines(&trace, "count"), [""; 0]);
    assert_eq!(lines(&trace, "ask login about {untrusted}").len(), 1);
}

/// The post ran under the label of the inbox, which is within its limit. The login has nothing to do with it.
#[test]
fn a_write_that_was_made_before_counts_too() {
    let mut world = world(CHECKED, |prompt| match results(prompt).len() {
        0 => call("inbox"),
        1 => call("post"),
        2 => login(),
        _ => say("done"),
    });
    world.user = |_| panic!("no question");
    world.turn("post it, then log in");
    let login = r#"login {"code":"1234"}"#;
    assert_eq!(world.sent, ["inbox {}", "post {}", login]);
    assert_eq!(world.lines("count"), ["count step 2 at {}"]);
}

/// What a stranger wrote is not shown below as the model's own doing, only since it ran.
#[test]
fn a_write_that_depends_on_what_is_hidden_stays_there() {
    let mut world = world(CHECKED, |prompt| match results(prompt).len() {
        0 => call("inbox"),
        1 if sees(prompt, "eve") => vec![("post", r#"{"to":"eve"}"#.to_owned())],
        1 => call("post"),
        2 => login(),
        _ => say("done"),
    });
    let outcome = world.turn("post it, then log in");
    assert_eq!(world.lines("count"), [""; 0]);
    assert_eq!(outcome.refused, 1);
}

/// The review adds a call to the user's, and the user refuses both. What the re-run shows of the own one is the call, and
/// not that it was refused, since whether the user was asked depended on the review.
#[test]
fn a_refused_call_counts_and_its_note_stays_hidden() {
    fn send(to: &str) -> Step {
        vec![("send", format!(r#"{{"to":"{to}"}}"#))]
    }
    let mut world = world(CHECKED, |prompt| match super::count(prompt, "send") {
        _ if !has(prompt, "inbox") => call("inbox"),
        0 if sees(prompt, "eve") => [send("ada"), send("eve")].concat(),
        0 => send("ada"),
        _ if !has(prompt, "note") => call("note"),
        _ => say("done"),
    });
    world.turn("send it to ada, and note that");
    assert_eq!(world.sent, ["inbox {}", "note {}"]);
    let trace = world.trace();
    assert_eq!(lines(&trace, "ask").len(), 2, "{trace:#?}");
    assert_eq!(lines(&trace, "count"), ["count step 2 at {}"]);
    let shown = world
        .prompts
        .iter()
        .find(|it| it.contains("ada\\\"}") && !it.contains("eve"));
    assert!(shown.is_some_and(|it| !it.contains("refused")), "{shown:?}");
}

/// Where it does not see the review, it makes one call at a time.
#[test]
fn calls_of_one_step_count_one_by_one() {
    let mut world = world(CHECKED, |prompt| match super::count(prompt, "balance") {
        _ if !has(prompt, "inbox") => call("inbox"),
        0 if sees(prompt, "eve") => [call("balance"), balance_of("me"), balance_of("eve")].concat(),
        0 => call("balance"),
        1 => balance_of("me"),
        _ if has(prompt, "note") => say("done"),
        _ => call("note"),
    });
    world.user = |_| panic!("no question");
    world.turn("note that you looked");
    assert_eq!(world.sent[4..], ["note {}"]);
    assert_eq!(world.lines("count"), ["count step 2 at {}"; 2]);
    // What only the review wants is not shown.
    let check = world.prompts.iter().rev().nth(1).unwrap();
    assert!(check.contains("me") && !check.contains("eve"), "{check}");
}

/// A call is shown where it was made. After what a prompt shows, its place is a choice of what is hidden.
#[test]
fn a_call_before_one_that_is_in_sight_is_made_again() {
    let mut world = world(CHECKED, |prompt| match () {
        () if !has(prompt, "inbox") => call("inbox"),
        () if sees(prompt, "eve") && !has(prompt, "balance") => call("balance"),
        () if !has(prompt, "note") => call("note"),
        () if !has(prompt, "balance") => call("balance"),
        () if has(prompt, "login") => say("done"),
        () => login(),
    });
    world.user = |_| panic!("no question");
    world.turn("log in");
    assert_eq!(
        world.sent[..4],
        ["inbox {}", "balance {}", "note {}", "balance {}"]
    );
    assert_eq!(world.lines("count"), [""; 0]);
}

/// The labels stay where they fell, so that the next step has less to do.
#[test]
fn a_question_waits_for_few_completions() {
    const POSTS: usize = 9;
    let mut world = world(CHECKED, |prompt| match super::count(prompt, "post") {
        _ if !has(prompt, "inbox") => call("inbox"),
        n @ 0..POSTS => vec![("post", format!(r#"{{"n":{n}}}"#))],
        _ if has(prompt, "note") => say("done"),
        _ => call("note"),
    });
    world.turn("post, and note that");
    let trace = world.trace();
    assert_eq!(
        lines(&trace, "ask"),
        ["ask note about {untrusted} from 2 regions"]
    );
    let first = trace.iter().take_while(|line| !line.starts_with("ask"));
    assert_eq!(first.filter(|line| line.starts_with("count")).count(), 8);
    assert!(lines(&trace, "count").len() >= POSTS);
}

/// The calls of these tools in a prompt, each with the number of its message.
fn made(prompt: &Prompt, tools: &[&str]) -> Vec<(usize, String)> {
    let messages = prompt.messages().iter().enumerate();
    let made = messages.flat_map(|(at, message)| {
        let calls = match message {
            PromptMessage::Assistant { calls, .. } => calls.as_slice(),
            _ => &[],
        };
        let calls = calls.iter().filter(|it| tools.contains(&it.tool.as_str()));
        calls.map(move |it| (at, format!("{}{}", it.tool, it.arguments)))
    });
    made.collect()
}

/// What a turn sends by these tools where no user allows anything: with a text in the way that wants nothing, and with one
/// that wants another order.
fn sent_by(tool: &str, model: Model) -> [Vec<String>; 2] {
    let mut calm = world(CHECKED, model);
    calm.app = |call| {
        returned(match call.tool.as_str() {
            "inbox" => "mail:hello",
            "balance" => "card:4111",
            _ => "done",
        })
    };
    let mut swapped = world(CHECKED, model);
    swapped.app = |call| {
        returned(match call.tool.as_str() {
            "inbox" => "mail:hello, swap",
            "balance" => "card:4111, swap",
            _ => "done",
        })
    };
    [calm, swapped].map(|mut world| {
        world.turn("go");
        let sent = world.sent.iter().filter(|it| it.starts_with(tool));
        sent.cloned().collect()
    })
}

fn first(made: &[(usize, String)]) -> Step {
    let first = made.first().map(|(_, call)| call.contains("\"a\""));
    vec![("note", format!(r#"{{"first":{}}}"#, first == Some(true)))]
}

const BALANCE: [&str; 1] = ["balance"];

#[test]
fn hidden_text_does_not_order_the_calls_of_a_step() {
    let [calm, swapped] = sent_by("note", |prompt| {
        let all = made(prompt, &BALANCE);
        match () {
            () if !has(prompt, "inbox") => call("inbox"),
            () if all.is_empty() && sees(prompt, "swap") => {
                [balance_of("b"), balance_of("a")].concat()
            }
            () if all.is_empty() => [balance_of("a"), balance_of("b")].concat(),
            () if has(prompt, "note") => say("done"),
            () => first(&all),
        }
    });
    assert_eq!(calm, [r#"note {"first":true}"#]);
    assert!(!swapped.contains(&r#"note {"first":false}"#.to_owned()));
}

/// Without the text the model makes both calls at once.
#[test]
fn hidden_text_does_not_order_steps_that_count_at_once() {
    let [calm, swapped] = sent_by("note", |prompt| {
        let all = made(prompt, &BALANCE);
        match all.as_slice() {
            _ if !has(prompt, "inbox") => call("inbox"),
            [] if sees(prompt, "swap") => balance_of("b"),
            [] if sees(prompt, "hello") => balance_of("a"),
            [] => [balance_of("a"), balance_of("b")].concat(),
            [(_, one)] => balance_of(if one.contains("\"a\"") { "b" } else { "a" }),
            _ if has(prompt, "note") => say("done"),
            all => first(all),
        }
    });
    assert_eq!(calm, [r#"note {"first":true}"#]);
    assert!(!swapped.contains(&r#"note {"first":false}"#.to_owned()));
}

#[test]
fn hidden_text_does_not_group_calls() {
    let [calm, swapped] = sent_by("note", |prompt| {
        let all = made(prompt, &BALANCE);
        match all.as_slice() {
            _ if !has(prompt, "inbox") => call("inbox"),
            [] if sees(prompt, "swap") => balance_of("a"),
            [] => [balance_of("a"), balance_of("b")].concat(),
            [_] => balance_of("b"),
            _ if has(prompt, "note") => say("done"),
            [one, other, ..] => {
                let together = one.0 == other.0;
                vec![("note", format!(r#"{{"together":{together}}}"#))]
            }
        }
    });
    assert_eq!(calm, [r#"note {"together":false}"#]);
    assert_eq!(swapped, calm);
}

/// Which of the calls that come out again were made is shown up to the first that was not.
#[test]
fn hidden_text_does_not_choose_among_calls_that_count() {
    let [calm, swapped] = sent_by("note", |prompt| {
        let all = made(prompt, &BALANCE);
        match () {
            () if !has(prompt, "inbox") => call("inbox"),
            () if all.is_empty() && sees(prompt, "swap") => balance_of("b"),
            () if all.is_empty() => [balance_of("a"), balance_of("b")].concat(),
            () if has(prompt, "note") => say("done"),
            () => first(&all),
        }
    });
    assert_eq!(calm, [r#"note {"first":true}"#]);
    assert!(!swapped.contains(&r#"note {"first":false}"#.to_owned()));
}

/// A post that strangers' text may choose is made after a read or before it, as a secret wants. The read comes out again
/// below both, where no post is shown, and the next post sees both.
#[test]
fn a_call_does_not_count_before_one_that_is_shown_elsewhere() {
    let [calm, swapped] = sent_by("post", |prompt| {
        let (mail, secret) = (sees(prompt, "hello"), sees(prompt, "4111"));
        let both = made(prompt, &["balance", "post"]);
        let has_read = both.iter().any(|(_, it)| it.contains("\"a\""));
        let posts = count(prompt, "post");
        match (mail, secret) {
            _ if !has(prompt, "inbox") => [call("inbox"), call("balance")].concat(),
            (true, true) if posts == 0 && (has_read || !sees(prompt, "card:4111, swap")) => {
                call("post")
            }
            (true, true) if !has_read => balance_of("a"),
            (true, true) if !has(prompt, "note") => call("note"),
            (true, _) if posts == 0 => call("post"),
            (true, _) if posts == 1 && has_read => {
                let read = both.iter().position(|(_, it)| it.contains("\"a\""));
                let post = both.iter().position(|(_, it)| it.contains("post"));
                vec![("post", format!(r#"{{"read_first":{}}}"#, read < post))]
            }
            (false, _) if !has_read => balance_of("a"),
            (false, _) if !has(prompt, "note") => call("note"),
            _ => say("done"),
        }
    });
    assert_eq!(calm, ["post {}", r#"post {"read_first":false}"#]);
    assert!(!swapped.contains(&r#"post {"read_first":true}"#.to_owned()));
}

//! Late refinement: a read after something untrusted gets its own label, if it did not depend on that.

use hub::{Need, Screening};
use ifc::{Answer, Dimension, Labeled, Lattice, Message, Prompt, PromptMessage};

use super::{Step, call, has, results, say, sees, shown, world};

const CHECKED: Screening = Screening::CHECKED;

fn login() -> Step {
    vec![("login", r#"{"code":"1234"}"#.to_owned())]
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
            "prompt {} masked 1",
            "refine step 2 to {} taken true",
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

/// What the user said was secret, so the second prompt is, and what is made from it.
#[test]
fn a_read_has_the_label_of_its_second_prompt() {
    let mut world = world(CHECKED, shopper);
    world.user = |_| panic!("no question");
    let secret = Lattice::four_point().whole(Dimension::Confidentiality);
    let said = Labeled::label_tcb("log in with the code from my mail", secret.clone());
    world.agent.user(said).unwrap();
    world.go_on();
    assert_eq!(
        world.lines("refine"),
        ["refine step 2 to {secret} taken true"]
    );
    let mut messages = world.agent.history().messages();
    let reads = messages.find_map(|(label, message)| match message {
        Message::Assistant { calls, .. } if calls[0].tool == "balance" => Some(label.clone()),
        _ => None,
    });
    assert_eq!(reads.unwrap(), secret);
}

/// The review says which mail to read, and the model obeys.
fn steered(prompt: &Prompt) -> Step {
    match (has(prompt, "inbox"), has(prompt, "balance")) {
        (true, false) if sees(prompt, "eve") => vec![("balance", r#"{"of":"eve"}"#.to_owned())],
        _ => shopper(prompt),
    }
}

#[test]
fn a_model_that_is_steered_by_the_review_is_asked_about() {
    let mut world = world(CHECKED, steered);
    let outcome = world.turn("log in with the code from my mail");
    assert_eq!(outcome.refused, 1);
    // After the no, the mail is read without the review.
    assert_eq!(world.sent[..2], ["inbox {}", r#"balance {"of":"eve"}"#]);
    assert_eq!(world.sent[2..], ["balance {}"]);
    let trace = world.trace();
    let count = |line: &str| trace.iter().filter(|own| own.contains(line)).count();
    assert_eq!(count("refine step 2 to {} taken false"), 1);
    assert_eq!(count("ask login about {untrusted}"), 1);
}

/// Whatever came out, a read is made once more at most once; and not at all where nothing stands in the
/// way.
#[test]
fn a_read_is_made_once_more_at_most_once() {
    let mut world = world(CHECKED, |prompt| match super::count(prompt, "login") {
        n @ 1..3 if sees(prompt, "eve") => vec![("login", format!(r#"{{"again":{n}}}"#))],
        3.. => say("done"),
        _ => steered(prompt),
    });
    world.turn("log in");
    assert_eq!(world.lines("refine").len(), 1);

    let mut harmless = super::world(CHECKED, |prompt| match results(prompt).len() {
        0 => call("inbox"),
        1 => call("balance"),
        _ => say("done"),
    });
    harmless.turn("what is new?");
    assert_eq!(harmless.lines("refine"), [""; 0]);
}

/// A write that ran under a higher label, since its limit admits that, hides nothing from what is made below: otherwise a
/// wider limit would ask more. It is not executed again.
#[test]
fn a_write_is_made_once_more_where_it_hides() {
    let mut world = world(CHECKED, |prompt| match results(prompt).len() {
        0 => call("inbox"),
        1 => call("post"),
        2 => login(),
        _ => say("done"),
    });
    world.user = |_| panic!("no question");
    world.turn("post it, then log in");
    assert_eq!(world.lines("refine"), ["refine step 2 to {} taken true"]);
    let login = r#"login {"code":"1234"}"#;
    assert_eq!(world.sent, ["inbox {}", "post {}", login]);
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
    assert_eq!(world.lines("refine"), ["refine step 2 to {} taken false"]);
    assert_eq!(outcome.refused, 1);
}

/// The words beside a read that came out otherwise keep the label of what they were made from.
#[test]
fn words_that_came_out_otherwise_stay_where_they_were() {
    let mut world = world(CHECKED, |prompt| {
        let mut step = shopper(prompt);
        if results(prompt).len() == 1 {
            let words = match sees(prompt, "eve") {
                true => "eve wrote",
                false => "somebody wrote",
            };
            step.push(("say", words.to_owned()));
        }
        step
    });
    world.user = |_| panic!("no question");
    world.turn("log in");
    assert_eq!(world.sent.len(), 3);
    let check = &world.prompts[4];
    assert!(check.contains("1234") && !check.contains("eve"), "{check}");
    let words = world
        .agent
        .history()
        .messages()
        .find_map(|(own, it)| match it {
            Message::Assistant { text, .. } if text.reveal_tcb() == "eve wrote" => {
                Some((own.clone(), text.label()))
            }
            _ => None,
        });
    let (step, words) = words.unwrap();
    assert!(step.is_bottom() && !words.is_bottom());
}

/// A model that is away has refined nothing, and what it may say of the prompt is shown to nobody.
#[test]
fn a_read_that_cannot_be_made_once_more_keeps_its_label() {
    let mut world = world(CHECKED, shopper);
    world.begin("log in");
    loop {
        match world.agent.poll() {
            Need::Complete(request) if is_second(&request.prompt, world.sent.len()) => {
                assert!(request.prompt.label().is_bottom());
                assert!(!world.agent.may_stream(&request));
                let away = Err("the model is away".to_owned());
                world.agent.handle_completion("scripted", away).unwrap();
                break;
            }
            need => world.serve(need).unwrap(),
        }
    }
    world.user = |_| Answer::No;
    // It is checked all the same, without the code.
    let Need::Complete(request) = world.agent.poll() else {
        panic!("a check")
    };
    assert!(!shown(&request.prompt).contains("1234"));
    let away = Err("the model is away".to_owned());
    world.agent.handle_completion("scripted", away).unwrap();
    let Need::Confirm(asked) = world.agent.poll() else {
        panic!("a question")
    };
    assert_eq!(asked.call().unwrap().tool, "login");
}

/// Whether a prompt shows less than what was done.
fn is_second(prompt: &Prompt, done: usize) -> bool {
    let result = |message: &&PromptMessage| matches!(message, PromptMessage::Tool { .. });
    prompt.messages().iter().filter(result).count() < done
}

/// A part of a step's reads is no read: all of its calls came from one prompt.
#[test]
fn reads_of_one_step_are_refined_together() {
    let mut world = world(CHECKED, |prompt| {
        let of_me = || vec![("balance", r#"{"of":"me"}"#.to_owned())];
        match () {
            () if !has(prompt, "inbox") => call("inbox"),
            () if !has(prompt, "balance") => [call("balance"), of_me()].concat(),
            () if !has(prompt, "login") => login(),
            () => say("done"),
        }
    });
    world.user = |_| panic!("no question");
    world.turn("log in");
    assert_eq!(world.sent.len(), 4);
    assert_eq!(world.lines("refine"), ["refine step 2 to {} taken true"]);
}

/// A step that failed to be made of less keeps all of its results.
#[test]
fn a_completion_without_calls_refines_nothing() {
    let mut world = world(CHECKED, |prompt| match results(prompt).as_slice() {
        [] => call("inbox"),
        [(_, text)] if text.contains("eve") => call("balance"),
        [_] => say("I cannot see what to read"),
        [_, _] => login(),
        _ => say("done"),
    });
    world.turn("log in");
    assert_eq!(world.lines("refine"), ["refine step 2 to {} taken false"]);
}

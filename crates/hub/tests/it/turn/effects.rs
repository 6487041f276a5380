//! What was done: the ledger of effects, calls whose outcome nobody knows, steps that make no sense,
//! and foreign words about why there is no answer.

use hub::{CallOutcome, Limits, Need, Stop};
use ifc::{Answer, Dimension, Label, Lattice, Prompt, Relevance};

use super::{
    EAGER, LAZY, Step, World, completion, has, lines, results, say, shown, tool, world, world_with,
};

const SEND: &str = r#"{"to":"ada","amount":7}"#;

/// Sends once as far as it can see, and then reads the inbox.
fn pays_what_it_does_not_see_paid(prompt: &Prompt) -> Step {
    match (has(prompt, "balance"), has(prompt, "send")) {
        (false, false) => vec![("balance", "{}".to_owned())],
        (_, false) => vec![("send", SEND.to_owned())],
        _ => say("done"),
    }
}

/// The attack on a step that is taken again: the first one, above ⊥, pays with the user's yes. The
/// next one is screened down to ⊥, so the redactor leaves the payment out, and the model pays once
/// more. No label stands in its way.
#[test]
fn a_step_below_the_label_of_a_payment_does_not_make_it_again() {
    for answer in [Answer::No, Answer::Once] {
        let mut world = world(EAGER, pays_what_it_does_not_see_paid);
        // The balance first matters to the payment, and to nothing after it.
        world.screener = |agent| {
            let paid = agent.history().messages().len() > 4;
            Ok(match paid {
                true => Relevance::Only([].into()),
                false => Relevance::Everything,
            })
        };
        // The user says yes to the payment, and this to every question after it.
        world.begin("pay 7 to ada");
        let mut questions = Vec::new();
        let outcome = loop {
            match world.agent.poll() {
                Need::Confirm(question) => {
                    let again = question.ran();
                    questions.push((tool(&question).to_owned(), again));
                    let answer = if again.is_some() {
                        answer
                    } else {
                        Answer::Once
                    };
                    world.agent.handle_answer(question, answer).unwrap();
                }
                Need::User(outcome) => break outcome.unwrap(),
                need => world.serve(need).unwrap(),
            }
        };
        let sent = world.sent.iter().filter(|sent| sent.starts_with("send"));
        let expected = if answer == Answer::No { 1 } else { 2 };
        assert_eq!(sent.count(), expected, "{:#?}", world.trace());
        let first = ("send".to_owned(), None);
        let again = ("send".to_owned(), Some(ifc::Ran::Answered));
        assert_eq!(questions.first(), Some(&first));
        assert!(
            questions[1..].iter().all(|found| *found == again),
            "{questions:?}"
        );
        assert!(!questions[1..].is_empty());
        assert_eq!(outcome.refused, usize::from(answer == Answer::No));
    }
}

/// The ledger is the session's: another turn does not make the call again either.
#[test]
fn an_irreversible_call_of_an_earlier_turn_is_asked_about() {
    let mut world = world(LAZY, sends_once);
    world.user = |_| panic!("no question");
    world.turn("pay");
    // The next turn's model sees the first payment only if it looks; this one does not.
    world.model = |prompt| match results(prompt).len() {
        1 => vec![("send", r#"{ "amount": 7, "to": "\u0061da" }"#.to_owned())],
        _ => say("done"),
    };
    world.user = |_| Answer::No;
    world.turn("thanks");
    let paid = r#"send {"amount":7,"to":"ada"}"#;
    assert_eq!(world.sent, [paid]);
    assert_eq!(world.lines("ask"), ["ask send again: answered"]);
}

/// Two equal payments in one step are two as well.
#[test]
fn two_equal_payments_in_one_step_are_one_and_a_question() {
    let mut world = world(LAZY, |prompt| match results(prompt).len() {
        0 => vec![("send", SEND.to_owned()), ("send", SEND.to_owned())],
        _ => say("done"),
    });
    world.turn("pay");
    assert_eq!(world.sent.len(), 1);
    assert_eq!(world.lines("ask"), ["ask send again: answered"]);
}

fn sends_once(prompt: &Prompt) -> Step {
    match results(prompt).len() {
        0 => vec![("send", SEND.to_owned())],
        _ => say("done"),
    }
}

fn sends_again(prompt: &Prompt) -> Step {
    match results(prompt).len() {
        1 => vec![("send", SEND.to_owned())],
        _ => say("done"),
    }
}

#[test]
fn a_call_without_an_answer_is_unknown_and_never_not_executed() {
    let mut world = world(LAZY, sends_once);
    world.app = |_| CallOutcome::Unknown("no answer within 30 s".to_owned());
    let outcome = world.turn("pay");
    assert_eq!((outcome.unknown, outcome.refused), (1, 0));
    assert_eq!(outcome.result.unwrap().reveal_tcb(), "done");
    let last = world.prompts.last().unwrap();
    assert!(
        last.contains("it is not known whether this call ran"),
        "{last}"
    );
    assert!(!last.contains("not executed"), "{last}");
    let unknown = "unknown send: no answer within 30 s".to_owned();
    assert!(world.trace().contains(&unknown));
    // Whoever makes it again is asked, with what is known.
    world.model = sends_again;
    world.turn("again");
    assert_eq!(world.lines("ask"), ["ask send again: unknown"]);
    assert_eq!(world.sent.len(), 1);
}

/// Up to the permit of the payment.
fn executing() -> (World, ifc::Permit) {
    let mut world = world(LAZY, sends_once);
    world.begin("pay");
    loop {
        match world.agent.poll() {
            Need::Execute(permit) => return (world, permit),
            need => world.serve(need).unwrap(),
        }
    }
}

#[test]
fn an_interrupted_call_is_unknown_if_it_was_sent() {
    // Sent, or still to be sent by whoever holds the permit.
    for spent in [true, false] {
        let (mut world, permit) = executing();
        let held = match spent {
            true => {
                permit.spend();
                None
            }
            false => Some(permit),
        };
        world.agent.abort(Stop::Interrupted);
        drop(held);
        let Need::User(Some(outcome)) = world.agent.poll() else {
            panic!("the end")
        };
        assert_eq!(outcome.result, Err(Stop::Interrupted));
        assert_eq!(outcome.unknown, 1);
        let unknown = "unknown send: the turn was stopped".to_owned();
        assert!(world.trace().contains(&unknown));
        world.turn("did you pay?");
        let last = world.prompts.last().unwrap();
        assert!(
            last.contains("it is not known") && !last.contains("not executed"),
            "{last}"
        );
    }
    // A permit that is gone unspent has sent nothing.
    let (mut world, permit) = executing();
    drop(permit);
    world.agent.abort(Stop::Interrupted);
    let Need::User(Some(outcome)) = world.agent.poll() else {
        panic!("the end")
    };
    assert_eq!(outcome.unknown, 0);
    world.turn("did you pay?");
    assert!(world.prompts.last().unwrap().contains("not executed"));
    world.model = sends_again;
    world.user = |_| panic!("nothing was paid yet");
    world.turn("pay now");
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn what_is_no_call_is_rejected_before_anything_is_decided() {
    for (tool, arguments, reason) in [
        ("made_up", "{}", "there is no such tool"),
        ("inbox", "", "the arguments are not JSON at byte 0"),
        ("inbox", "[]", "the arguments are not a JSON object"),
        (
            "inbox",
            r#"{"a":1,"a":2}"#,
            "in the arguments, a name stands twice in one object",
        ),
    ] {
        let mut world = world(LAZY, |_| say("done"));
        world.user = |_| panic!("no question");
        world.begin("go");
        world.bring("", &[(tool, arguments)]);
        let Need::Complete(request) = world.agent.poll() else {
            panic!("the model is told")
        };
        let last = shown(&request.prompt);
        assert!(last.contains(&format!("not executed: {reason}")), "{last}");
        let trace = world.trace();
        assert!(
            trace.contains(&format!("reject {tool}: {reason}")),
            "{trace:#?}"
        );
        assert!(lines(&trace, "allow").is_empty());
    }
}

/// A step with too many calls has none: the first ones must not run for standing first.
#[test]
fn of_too_many_calls_none_runs() {
    let limit = Limits::default().calls_per_step;
    for count in [limit, limit + 1] {
        let mut world = world(LAZY, |_| say("done"));
        world.begin("go");
        let arguments: Vec<String> = (0..count).map(|at| format!("{{\"n\":{at}}}")).collect();
        let calls: Vec<(&str, &str)> = arguments.iter().map(|own| ("note", own.as_str())).collect();
        world.bring("", &calls);
        world.go_on();
        assert_eq!(world.sent.len(), if count > limit { 0 } else { limit });
        let rejected = world.lines("reject note").len();
        assert_eq!(rejected, if count > limit { count } else { 0 });
    }
}

/// Hole 3: a model that was told a secret puts it into the name of a tool that it makes up, again and
/// again, and the reason for the end of the turn carried it past the answer's limit.
#[test]
fn a_secret_in_the_name_of_a_tool_does_not_get_out() {
    let untrusted = Lattice::four_point().whole(Dimension::Integrity);
    for screening in [EAGER, LAZY] {
        let mut world = world_with(screening, |_| say("done"), Some(untrusted.clone()));
        world.begin("what is my balance?");
        let secret = "acct:1234".repeat(100_000 / 9);
        let mut steps = 0;
        let outcome = loop {
            match world.agent.poll() {
                Need::Complete(request) if request.shape == hub::AnswerShape::TextOrCalls => {
                    let name = if steps == 0 { "balance" } else { &secret };
                    steps += 1;
                    let brought = Ok(completion("", &[(name, "{}")]));
                    world.agent.handle_completion("scripted", brought).unwrap();
                }
                Need::User(outcome) => break outcome.unwrap(),
                need => world.serve(need).unwrap(),
            }
        };
        let stop = outcome.result.unwrap_err();
        assert_eq!(stop, Stop::Repetition);
        for shown in [stop.to_string(), stop.reveal_tcb(), format!("{stop:?}")] {
            assert!(!shown.contains("1234") && shown.len() < 1000, "{shown}");
        }
    }
}

/// What a provider or an app says about its own end is text at a label, and is shown only where an
/// answer of that label would be. The trace has it all the same.
#[test]
fn foreign_words_about_the_end_pass_the_answers_sink() {
    let untrusted = Lattice::four_point().whole(Dimension::Integrity);
    let reads_the_balance = |prompt: &Prompt| match results(prompt).len() {
        0 => vec![("balance", "{}".to_owned())],
        _ => say("done"),
    };
    for (limit, shown) in [(Label::top(), true), (untrusted, false)] {
        // The model fails in sight of the balance, and its provider quotes the prompt.
        let mut world = world_with(LAZY, reads_the_balance, Some(limit.clone()));
        world.begin("go");
        let outcome = loop {
            match world.agent.poll() {
                Need::Complete(request) if !request.prompt.label().is_bottom() => {
                    let error = Err("400: in your prompt, acct:1234".to_owned());
                    world.agent.handle_completion("scripted", error).unwrap();
                }
                Need::User(outcome) => break outcome.unwrap(),
                need => world.serve(need).unwrap(),
            }
        };
        let stop = outcome.result.unwrap_err();
        assert!(matches!(stop, Stop::Model(_)));
        assert_eq!(stop.reveal_tcb().contains("1234"), shown, "{stop:?}");
        // The app dies, and its last words are its own.
        let mut world = world_with(LAZY, reads_the_balance, Some(limit));
        world.app = |_| CallOutcome::Lost("it last said: acct:1234".to_owned());
        let stop = world.turn("go").result.unwrap_err();
        assert!(matches!(stop, Stop::Spoke(_)));
        assert_eq!(stop.reveal_tcb().contains("1234"), shown, "{stop:?}");
        assert!(!stop.to_string().contains("1234"));
    }
}

//! Data arguments: each has a label and a limit of its own, and so has the control part.

use std::collections::BTreeMap;

use ifc::{
    Answer, ArgumentPath, Arguments, Call, Decision, Effect, History, Label, Labeled, Monitor,
    Policy, PolicyError, PromptMessage, Question, Rule, Sink, redact,
};
use proptest::prelude::*;

use crate::common::{labels, taint};

/// `send(to, body, note)`: two data arguments with limits of their own.
struct Sends {
    limit: Label,
    body: Label,
    note: Label,
    effect: Effect,
}

impl Policy for Sends {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        let limits = [("body", &self.body), ("note", &self.note)];
        Ok(Rule {
            arguments: limits
                .map(|(name, limit)| (ArgumentPath::of(name), limit.clone()))
                .into(),
            ..Rule::asking("mail.send.limit", self.effect, self.limit.clone())
        })
    }
}

fn rules(body: Label, note: Label) -> Sends {
    Sends {
        limit: Label::bottom(),
        body,
        note,
        effect: Effect::Write,
    }
}

/// A call made under `control`, whose arguments are as restrictive as these.
fn send(control: &Label, labels: &[(&str, &Label)]) -> Call {
    let text = r#"{"body":"b","note":"n","to":"ada"}"#;
    let arguments = Arguments::parse(text, control).unwrap();
    let labels = labels.iter();
    Call {
        app: "mail".to_owned(),
        tool: "send".to_owned(),
        arguments: labels.fold(arguments, |all, (name, label)| all.restrict(name, label)),
        label: control.clone(),
    }
}

fn decide(monitor: &Monitor, policy: &Sends, call: Call) -> Decision {
    monitor.decide(policy, &History::default(), call)
}

fn ask(monitor: &Monitor, policy: &Sends, call: Call) -> Question {
    match decide(monitor, policy, call) {
        Decision::Ask(question) => question,
        other => panic!("{other:?}"),
    }
}

proptest! {
    /// A call is allowed exactly if each part flows to its own limit; whatever has no limit of its own is
    /// of the control part.
    #[test]
    fn each_part_flows_to_its_own_limit(
        control in labels(), to in labels(), body in labels(), limit in labels(), body_limit in labels(),
    ) {
        let policy = Sends { limit: limit.clone(), ..rules(body_limit.clone(), Label::top()) };
        let call = send(&control, &[("to", &to), ("body", &body)]);
        let (control, body) = (control.join(&to), control.join(&body));
        let allowed = control.flows_to(&limit) && body.flows_to(&body_limit);
        let excess = control.beyond(&limit).join(&body.beyond(&body_limit));
        match decide(&Monitor::new(), &policy, call) {
            Decision::Allow(_) => prop_assert!(allowed),
            Decision::Ask(question) => {
                prop_assert!(!allowed);
                prop_assert_eq!(question.excess(), &excess);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A yes for the session is about what was asked: an argument, and not where it goes.
#[test]
fn a_grant_of_an_argument_is_none_of_the_control_part() {
    let (web, monitor) = (taint(0), Monitor::new());
    let policy = rules(Label::bottom(), Label::bottom());
    let carrying = || send(&Label::bottom(), &[("body", &web)]);
    let question = ask(&monitor, &policy, carrying());
    assert_eq!(question.argument(), Some(&ArgumentPath::of("body")));
    assert_eq!(question.limit(), &Label::bottom());
    let _ = monitor.settle_tcb(question, Answer::Session).unwrap();
    assert!(matches!(
        decide(&monitor, &policy, carrying()),
        Decision::Allow(_)
    ));
    for other in [
        send(&Label::bottom(), &[("note", &web)]),
        send(&Label::bottom(), &[("body", &web), ("note", &web)]),
        send(&Label::bottom(), &[("body", &web), ("to", &web)]),
        send(&web, &[]),
    ] {
        let _ = ask(&monitor, &policy, other);
    }
}

/// One about the control part is about all of the call, since it was made from that too.
#[test]
fn a_grant_of_a_call_covers_its_arguments() {
    let (web, mail, monitor) = (taint(0), taint(1), Monitor::new());
    let policy = rules(Label::bottom(), Label::bottom());
    let question = ask(&monitor, &policy, send(&web, &[]));
    let _ = monitor.settle_tcb(question, Answer::Session).unwrap();
    assert!(matches!(
        decide(&monitor, &policy, send(&Label::bottom(), &[("body", &web)])),
        Decision::Allow(_)
    ));
    let _ = ask(&monitor, &policy, send(&web, &[("body", &mail)]));
}

/// Where several parts would need an answer each, none lasts: a yes says nothing of which was meant.
#[test]
fn an_answer_about_several_parts_does_not_last() {
    let (web, mail, monitor) = (taint(0), taint(1), Monitor::new());
    let policy = rules(Label::bottom(), Label::bottom());
    for call in [
        send(&Label::bottom(), &[("body", &web), ("note", &mail)]),
        send(&web, &[("body", &mail)]),
    ] {
        let question = ask(&monitor, &policy, call);
        assert_eq!(question.choices(), [Answer::Once, Answer::No]);
    }
}

/// What a call carried and what came of it are masked below its label; that it was made, and to whom, is
/// seen. What the prompt shows stays JSON.
#[test]
fn below_its_label_a_data_argument_is_masked() {
    let web = taint(0);
    let call = send(&Label::bottom(), &[("body", &web)]);
    let mut history = History::default();
    let ids = history.push_assistant(
        &Label::bottom(),
        Labeled::trusted_tcb(""),
        [(call.tool.clone(), call.arguments.to_labeled())],
    );
    history.push_result(&Label::bottom(), ids[0], Labeled::trusted_tcb("sent: b"));
    let shown = |label: &Label| -> BTreeMap<&'static str, String> {
        let prompt = redact(&history, label);
        let texts = prompt.messages().iter().map(|message| match message {
            PromptMessage::Assistant { calls, .. } => ("call", calls[0].arguments.clone()),
            PromptMessage::Tool { content, .. } => ("result", content.clone()),
            other => panic!("{other:?}"),
        });
        texts.collect()
    };
    let below = shown(&Label::bottom());
    assert_eq!(
        below["call"],
        r#"{"body":"[redacted]","note":"n","to":"ada"}"#
    );
    assert_eq!(below["result"], "[redacted]");
    let above = shown(&web);
    assert_eq!(above["call"], r#"{"body":"b","note":"n","to":"ada"}"#);
    assert_eq!(above["result"], "sent: b");
}

/// What the user refused is known where all of the call is, and no lower.
#[test]
fn a_refusal_of_what_a_call_carried_is_as_secret_as_that() {
    let (web, monitor) = (taint(0), Monitor::new());
    let policy = rules(Label::bottom(), Label::bottom());
    let question = ask(&monitor, &policy, send(&Label::bottom(), &[("body", &web)]));
    monitor.settle_tcb(question, Answer::No).unwrap_err();
    assert!(!monitor.is_refused(&send(&Label::bottom(), &[])));
    assert!(monitor.is_refused(&send(&Label::bottom(), &[("body", &web)])));
    assert!(!monitor.has_refused_below(&Label::bottom()) && monitor.has_refused_below(&web));
}

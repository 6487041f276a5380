//! What a yes to a call endorses in a history.

use std::collections::BTreeMap;

use ifc::{
    Answer, Approval, Arguments, Call, CallId, Collaboration, Decision, Direction, Effect, History,
    Label, Labeled, Monitor, Permit, Policy, PolicyError, Principal, PromptMessage, Relevance,
    Rule, Sink, redact,
};

use crate::common::{label, lattice, named};

/// Every tool wants ⊥; what a mail says may be anything.
struct Rules;

impl Policy for Rules {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        Ok(Rule {
            arguments: BTreeMap::from([("body".parse().unwrap(), Label::top())]),
            ..Rule::asking("limit", Effect::Write, Label::bottom())
        })
    }
}

/// As a model writes it.
const MAIL: &str = r#"{ "to": "bob", "body": "hi" }"#;

fn call(arguments: &str, label: &Label) -> Call {
    Call {
        app: "app".to_owned(),
        tool: "mail".to_owned(),
        arguments: Arguments::parse(arguments, label).unwrap(),
        label: label.clone(),
    }
}

/// A history whose newest step, made at this label, says something and makes these calls.
fn stepped(label: &Label, calls: &[&str]) -> (History, Vec<CallId>) {
    let mut history = History::default();
    history.push_user(Labeled::label_tcb("do what it says", label.clone()));
    let calls = calls.iter();
    let calls = calls.map(|arguments| ("mail".to_owned(), Labeled::trusted_tcb(*arguments)));
    let said = Labeled::trusted_tcb("so I do");
    let ids = history.push_step(label, &Label::bottom(), said, calls);
    (history, ids)
}

fn permit(history: &History, call: Call, answer: Answer) -> Option<Permit> {
    let monitor = Monitor::new().with_trust(&lattice());
    match monitor.decide(&Rules, history, call) {
        Decision::Ask(question) => monitor.settle_tcb(question, answer).ok(),
        _ => None,
    }
}

fn shown(history: &History, label: &Label) -> Vec<String> {
    let prompt = redact(history, label);
    let shown = prompt
        .messages()
        .iter()
        .filter_map(|message| match message {
            PromptMessage::Assistant { text, calls } => {
                let calls = calls.iter().map(|it| format!("{} {}", it.id, it.arguments));
                Some(format!("{text}|{}", calls.collect::<Vec<_>>().join(" ")))
            }
            PromptMessage::Tool { content, .. } => Some(content.clone()),
            PromptMessage::System(_) | PromptMessage::User(_) => None,
        });
    shown.collect()
}

#[test]
fn the_control_part_and_what_comes_of_it_are_below_and_nothing_else() {
    let untrusted = label("untrusted");
    let (mut history, ids) = stepped(&untrusted, &[MAIL, r#"{"to":"eve"}"#]);
    let newest = history.messages().len() - 1;
    history.carry(newest, Some(named("hidden_in_a_name")));
    let yes = permit(&history, call(MAIL, &untrusted), Answer::Once).unwrap();
    assert!(history.approve(ids[0], yes.approval().unwrap()));
    assert_eq!(history.call_label(ids[0]), Some(Label::bottom()));
    assert_eq!(history.call_label(ids[1]), Some(untrusted.clone()));
    let own = history.call_label(ids[0]).unwrap();
    history.push_result(&own, ids[0], Labeled::trusted_tcb("sent"));
    history.push_note(&untrusted, ids[1], "refused");
    // The words, the other call, the model's blanks and the server's name for the call are the step's.
    assert_eq!(
        shown(&history, &Label::bottom()),
        [
            r#"|call_1 {"body":"[redacted]","to":"bob"}"#,
            // It may repeat what the call carries.
            "[redacted]",
        ]
    );
    assert_eq!(
        shown(&history, &untrusted),
        [
            r#"so I do|hidden_in_a_name {"body":"hi","to":"bob"} call_2 {"to":"eve"}"#,
            "sent",
            "refused"
        ]
    );
}

#[test]
fn a_result_of_a_call_without_data_is_as_trusted_as_its_tool_says() {
    let untrusted = label("untrusted");
    let (mut history, ids) = stepped(&untrusted, &[r#"{"to":"bob"}"#]);
    let about = call(r#"{"to":"bob"}"#, &untrusted);
    let yes = permit(&history, about, Answer::Once).unwrap();
    assert!(history.approve(ids[0], yes.approval().unwrap()));
    let content = Labeled::label_tcb("inbox", untrusted.clone());
    let content = Labeled::concat([&Labeled::trusted_tcb("sent; "), &content]);
    history.push_result(&Label::bottom(), ids[0], content);
    let expected = [r#"|call_1 {"to":"bob"}"#, "sent; [redacted]"];
    assert_eq!(shown(&history, &Label::bottom()), expected);
}

/// The label is the step's without what integrity is about, also when it falls later.
#[test]
fn a_secret_stays_in_an_approved_call_and_falls_with_its_step() {
    let both = label("untrusted").join(&label("secret"));
    let (mut history, ids) = stepped(&both, &[MAIL]);
    let yes = permit(&history, call(MAIL, &both), Answer::Once).unwrap();
    assert!(history.approve(ids[0], yes.approval().unwrap()));
    assert_eq!(history.call_label(ids[0]), Some(label("secret")));
    assert!(shown(&history, &Label::bottom()).is_empty());
    let labels: Vec<Label> = history
        .regions()
        .map(|region| region.label.clone())
        .collect();
    assert!(
        labels.contains(&label("secret")) && labels.contains(&both),
        "{labels:?}"
    );
}

#[test]
fn only_the_call_that_was_shown_is_endorsed() {
    let untrusted = label("untrusted");
    let (mut history, ids) = stepped(&untrusted, &[MAIL, r#"{"to":"eve"}"#]);
    let yes = permit(&history, call(MAIL, &untrusted), Answer::Once).unwrap();
    let approval = yes.approval().unwrap();
    assert!(!history.approve(ids[1], approval));
    assert!(history.approve(ids[0], approval));
    assert_eq!(history.call_label(ids[1]), Some(untrusted.clone()));
    // Nor is it once another step stands after it: that one was made from what it was then.
    let (mut history, ids) = stepped(&untrusted, &[MAIL]);
    history.push_step(&untrusted, &Label::bottom(), Labeled::trusted_tcb(""), []);
    assert!(!history.approve(ids[0], approval));
}

#[test]
fn nothing_else_than_an_answer_to_a_question_about_the_call_endorses() {
    let untrusted = label("untrusted");
    let (history, _) = stepped(&untrusted, &[MAIL]);
    let about = |label: &Label| call(MAIL, label);
    assert!(permit(&history, about(&untrusted), Answer::No).is_none());
    // The unknown is not known by a yes, and a secret that nobody influenced has nothing to endorse.
    for label in [Label::top(), label("secret")] {
        let yes = permit(&history, about(&label), Answer::Once).unwrap();
        assert_eq!(yes.approval(), None);
    }
    // A grant is about calls that nobody has seen.
    let monitor = Monitor::new().with_trust(&lattice());
    let Decision::Ask(question) = monitor.decide(&Rules, &history, about(&untrusted)) else {
        panic!("a question");
    };
    assert_eq!(question.endorses(), Some(vec!["to"]));
    let first = monitor.settle_tcb(question, Answer::Session).unwrap();
    assert!(first.approval().is_some());
    let Decision::Allow(second) = monitor.decide(&Rules, &history, about(&untrusted)) else {
        panic!("it is granted");
    };
    assert_eq!(second.approval(), None);
    // Another app's request is nobody's word here.
    let collaboration = Collaboration {
        asks: "other".to_owned(),
        serves: "app".to_owned(),
        functionality: "mailing".to_owned(),
        direction: Direction::Asking,
    };
    let monitor = Monitor::new().with_trust(&lattice());
    for principal in [
        Principal::Request(collaboration.clone()),
        Principal::Serving(collaboration),
    ] {
        let everything = Relevance::Everything;
        let call = about(&untrusted);
        let decision = monitor.decide_as(&Rules, &history, &everything, call, &principal);
        let Decision::Ask(question) = decision else {
            panic!("a question");
        };
        assert_eq!(question.endorses(), None);
    }
    // More than anybody reads.
    let long = format!(r#"{{"to":"{}"}}"#, "b".repeat(Approval::MOST));
    let yes = permit(&history, call(&long, &untrusted), Answer::Once).unwrap();
    assert_eq!(yes.approval(), None);
}

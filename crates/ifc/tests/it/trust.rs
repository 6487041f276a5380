//! What the user vouches for, and what follows from it.

use std::collections::BTreeSet;

use ifc::{
    Answer, Arguments, Basis, Call, Collaboration, Decision, Denial, Direction, Effect, History,
    Label, Labeled, Monitor, Policy, PolicyError, Principal, Question, Release, Relevance, Rule,
    Sink, Source, Until,
};

use crate::common::{label, lattice};

const TRUST: Answer = Answer::Trust(Until::Task);

/// Every tool wants ⊥, `write` is a write and everything else irreversible; `forbidden` is none where
/// anything untrusted is in the call.
struct Rules;

impl Policy for Rules {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let tool = match sink {
            Sink::Call(call) => call.tool.as_str(),
            _ => "",
        };
        if tool == "forbidden" && label("untrusted").flows_to(&sink.label()) {
            return Err(PolicyError("nothing untrusted".to_owned()));
        }
        Ok(Rule {
            always_ask: tool == "always",
            approvers: (tool == "write_for_ada").then(|| ["ada".to_owned()].into()),
            ..Rule::asking(
                format!("{tool}.limit"),
                match tool {
                    "write" | "write_for_ada" => Effect::Write,
                    _ => Effect::Irreversible,
                },
                Label::bottom(),
            )
        })
    }
}

pub(crate) fn place() -> BTreeSet<String> {
    BTreeSet::from(["mail".to_owned()])
}

pub(crate) fn call(app: &str, tool: &str, label: &Label) -> Call {
    Call {
        app: app.to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::parse(r#"{"to":"bob"}"#, label).unwrap(),
        label: label.clone(),
    }
}

/// A history in which a tool has returned a text under a label.
pub(crate) fn read(tool: &str, text: &str, label: &Label) -> History {
    let mut history = History::default();
    let (bottom, nothing) = (Label::bottom(), Labeled::trusted_tcb(""));
    let asked = [(tool.to_owned(), Labeled::trusted_tcb("{}"))];
    let ids = history.push_step(&bottom, &bottom, nothing, asked);
    history.push_result(&bottom, ids[0], Labeled::label_tcb(text, label.clone()));
    history
}

pub(crate) fn ask(monitor: &Monitor, history: &History, call: Call) -> Question {
    match monitor.decide(&Rules, history, call) {
        Decision::Ask(question) => question,
        other => panic!("no question but {other:?}"),
    }
}

/// A session in which the user has trusted Alice's mail, and the mail.
pub(crate) fn trusted(tool: &str, until: Until) -> (Monitor, History) {
    let monitor = Monitor::new().with_trust(&lattice());
    let mut history = read("inbox", "from Alice", &label("untrusted"));
    let question = ask(&monitor, &history, call("mail", tool, &history.label()));
    let offer = question.offer().unwrap();
    assert_eq!(offer.texts()[0].source, Source::Tool("inbox".to_owned()));
    assert_eq!(offer.texts()[0].parts[0].reveal_tcb(), "from Alice");
    let about = monitor
        .vouch_tcb(question, Answer::Trust(until), &place())
        .unwrap();
    assert_eq!(about.tool, tool);
    monitor.endorse(&mut history, &place());
    (monitor, history)
}

pub(crate) fn allowed(monitor: &Monitor, history: &History, call: Call) -> bool {
    match monitor.decide(&Rules, history, call) {
        Decision::Allow(permit) => {
            assert_eq!(permit.basis(), &Basis::UserTrust);
            true
        }
        Decision::Ask(_) | Decision::Deny(_) => false,
    }
}

#[test]
fn what_is_trusted_may_ask_the_apps_tools_for_what_is_no_worse() {
    for (asked, other) in [("send", true), ("write", false)] {
        let (monitor, history) = trusted(asked, Until::Task);
        let endorsed = history.label();
        assert_eq!(endorsed.unendorsed(), label("untrusted"));
        let of = |app, tool| allowed(&monitor, &history, call(app, tool, &endorsed));
        assert!(of("mail", asked) && of("mail", "write"));
        assert_eq!(of("mail", "delete"), other);
        // Neither another app's tools, nor what the user wants to be asked about each time.
        assert!(!of("bank", "write") && !of("bank", "pay") && !of("mail", "always"));
        // The user's trust is not the word of another who has to approve it.
        assert!(!of("mail", "write_for_ada"));
        let question = ask(&monitor, &history, call("mail", "write_for_ada", &endorsed));
        assert!(question.offer().is_none());
        // A policy that looks for the taint still finds it.
        assert!(!of("mail", "forbidden"));
        // Not text of anybody else.
        assert!(!allowed(
            &monitor,
            &history,
            call("mail", asked, &label("untrusted"))
        ));
    }
}

/// For every other sink an endorsed taint is the taint.
#[test]
fn trust_says_nothing_of_answers_and_of_other_apps_requests() {
    let (monitor, history) = trusted("send", Until::Session);
    let text = Labeled::label_tcb("dear user", history.label());
    let apps = place();
    let Decision::Ask(question) = monitor.decide(&Rules, &history, Release { apps, text }) else {
        panic!("no question about the answer");
    };
    assert!(question.offer().is_none());
    assert!(matches!(
        monitor.settle_tcb(question, TRUST),
        Err(Denial::OnceOnly)
    ));
    let collaboration = Collaboration {
        asks: "calendar".to_owned(),
        serves: "mail".to_owned(),
        functionality: "dates".to_owned(),
        direction: Direction::Asking,
    };
    for principal in [
        Principal::Serving(collaboration.clone()),
        Principal::Request(collaboration),
    ] {
        let call = call("mail", "send", &history.label());
        let everything = Relevance::Everything;
        let decision = monitor.decide_as(&Rules, &history, &everything, call, &principal);
        let Decision::Ask(question) = decision else {
            panic!("no question about what another app asked for");
        };
        assert!(question.offer().is_none());
    }
}

#[test]
fn trust_is_for_the_text_in_its_place() {
    let (monitor, _) = trusted("send", Until::Session);
    let untrusted = label("untrusted");
    for (tool, text, place, holds) in [
        ("inbox", "from Alice", "mail", true),
        ("inbox", "from Alicia", "mail", false),
        ("files", "from Alice", "mail", false),
        // A tool of that name is another one in another conversation.
        ("inbox", "from Alice", "bank", false),
    ] {
        let mut history = read(tool, text, &untrusted);
        monitor.endorse(&mut history, &BTreeSet::from([place.to_owned()]));
        assert_eq!(
            history.label() != untrusted,
            holds,
            "{tool}, {text}, {place}"
        );
    }
}

#[test]
fn trust_ends_with_its_task() {
    for (until, after) in [(Until::Task, false), (Until::Session, true)] {
        let (monitor, history) = trusted("send", until);
        let again = || call("mail", "write", &history.label());
        assert!(allowed(&monitor, &history, again()));
        monitor.begin_turn();
        assert_eq!(allowed(&monitor, &history, again()), after);
        // What is trusted once more is the same text.
        if !after {
            let question = ask(&monitor, &history, again());
            drop(monitor.vouch_tcb(question, TRUST, &place()).unwrap());
            assert!(allowed(&monitor, &history, again()));
        }
    }
}

/// Nobody vouches for what nobody can name, for a secret, or for more texts than anybody reads.
#[test]
fn what_cannot_be_trusted_is_not_offered() {
    let monitor = Monitor::new().with_trust(&lattice());
    let both = label("untrusted").join(&label("secret"));
    for label in [Label::top(), label("secret"), both] {
        let history = read("inbox", "from Alice", &label);
        let question = ask(&monitor, &history, call("mail", "send", &label));
        assert!(question.offer().is_none() && !question.choices().contains(&TRUST));
        let vouched = monitor.vouch_tcb(question, TRUST, &place());
        assert!(matches!(vouched, Err(Denial::OnceOnly)));
        monitor.begin_turn();
    }
    for (count, offered) in [(1, true), (3, true), (4, false)] {
        let untrusted = label("untrusted");
        let mut history = History::default();
        for at in 0..count {
            let bottom = Label::bottom();
            let asked = [("inbox".to_owned(), Labeled::trusted_tcb("{}"))];
            let ids = history.push_step(&bottom, &bottom, Labeled::trusted_tcb(""), asked);
            let text = Labeled::label_tcb(format!("mail {at}"), untrusted.clone());
            history.push_result(&bottom, ids[0], text);
        }
        let question = ask(&monitor, &history, call("mail", "send", &untrusted));
        assert_eq!(question.offer().is_some(), offered, "{count}");
    }
}

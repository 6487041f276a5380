//! The monitor: who may allow what.

use std::collections::{BTreeMap, BTreeSet};

use ifc::{
    Address, Answer, Arguments, Basis, Call, Connection, Decision, Delivery, Denial, Effect,
    Exceeded, Flow, History, Label, Labeled, MemoryWrite, Monitor, Origin, Policy, PolicyError,
    Question, Ran, Release, Rule, Sink, Source, Stage, Submission, redact,
};
use proptest::prelude::*;

use crate::common::{join_of, labels, taint};

/// One rule for every call, or none at all.
pub(crate) struct OneRule(Result<(Label, Effect), &'static str>);

impl Policy for OneRule {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let name = match sink {
            Sink::Call(call) => format!("{}.{}.limit", call.app, call.tool),
            Sink::Answer(release) => format!(
                "{}.answer.limit",
                release.apps.iter().cloned().collect::<String>()
            ),
            _ => return Err(PolicyError("no rule".to_owned())),
        };
        let (limit, effect) = self.0.clone().map_err(|e| PolicyError(e.to_owned()))?;
        Ok(Rule::asking(name, effect, limit))
    }
}

/// A rule that asks about every call, whatever its label.
pub(crate) struct AlwaysAsk(pub(crate) OneRule);

impl Policy for AlwaysAsk {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let always_ask = true;
        self.0.rule(sink).map(|rule| Rule { always_ask, ..rule })
    }
}

#[test]
fn a_rule_that_always_asks_is_neither_passed_by_a_label_nor_by_a_grant() {
    let (web, monitor) = (taint(0), Monitor::new());
    let usual = policy(&Label::bottom(), Effect::Write);
    let question = ask(&monitor, &usual, send(&web));
    let permit = monitor.settle_tcb(question, Answer::Session).unwrap();
    assert_eq!(permit.basis(), &Basis::UserSession);
    assert!(monitor.would_allow(&usual, &History::default(), &send(&web)));
    let always = AlwaysAsk(policy(&Label::top(), Effect::Write));
    for label in [Label::bottom(), web] {
        let call = send(&label);
        monitor.begin_turn();
        assert!(!monitor.would_allow(&always, &History::default(), &call));
        match monitor.decide(&always, &History::default(), call) {
            Decision::Ask(question) => {
                assert_eq!(question.choices(), [Answer::Once, Answer::No]);
                let refused = monitor.settle_tcb(question, Answer::Session);
                assert!(matches!(refused, Err(Denial::OnceOnly)));
            }
            other => panic!("no question but {other:?}"),
        }
    }
}

/// A rule above whose limit nobody is asked.
pub(crate) struct AsksNobody(pub(crate) OneRule);

impl Policy for AsksNobody {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let exceeded = Exceeded::Deny;
        self.0.rule(sink).map(|rule| Rule { exceeded, ..rule })
    }
}

/// One target may have several rules: a policy judges each call by its arguments.
#[test]
fn a_grant_under_a_rule_that_asks_is_none_under_one_that_asks_nobody() {
    let (web, monitor) = (taint(0), Monitor::new());
    let asks = policy(&Label::bottom(), Effect::Write);
    let question = ask(&monitor, &asks, send(&web));
    let permit = monitor.settle_tcb(question, Answer::Session).unwrap();
    assert_eq!(permit.basis(), &Basis::UserSession);
    let asks_nobody = AsksNobody(policy(&Label::bottom(), Effect::Write));
    assert!(!monitor.would_allow(&asks_nobody, &History::default(), &send(&web)));
    match monitor.decide(&asks_nobody, &History::default(), send(&web)) {
        Decision::Deny(Denial::Exceeded { excess, .. }) => assert_eq!(excess, web),
        other => panic!("not denied but {other:?}"),
    }
    // Below its limit it is a rule like any other.
    let below = send(&Label::bottom());
    assert!(monitor.would_allow(&asks_nobody, &History::default(), &below));
    assert!(allows(&monitor, &asks, send(&web)));
}

pub(crate) fn policy(limit: &Label, effect: Effect) -> OneRule {
    OneRule(Ok((limit.clone(), effect)))
}

pub(crate) fn call_of(app: &str, tool: &str, label: &Label) -> Call {
    Call {
        app: app.to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::parse(r#"{"to":"bob"}"#, label).unwrap(),
        label: label.clone(),
    }
}

pub(crate) fn send(label: &Label) -> Call {
    call_of("mail", "send", label)
}

pub(crate) fn ask(monitor: &Monitor, policy: &OneRule, call: Call) -> Question {
    match monitor.decide(policy, &History::default(), call) {
        Decision::Ask(question) => question,
        other => panic!("no question but {other:?}"),
    }
}

pub(crate) fn allows(monitor: &Monitor, policy: &OneRule, call: Call) -> bool {
    let would = monitor.would_allow(policy, &History::default(), &call);
    let allows = matches!(
        monitor.decide(policy, &History::default(), call),
        Decision::Allow(_)
    );
    assert_eq!(would, allows, "would_allow and decide differ");
    allows
}

/// A monitor whose user has said yes for the session to `send` above `limit` under `label`.
fn with_grant(label: &Label, limit: &Label) -> Monitor {
    let monitor = Monitor::new();
    let question = ask(&monitor, &policy(limit, Effect::Write), send(label));
    let permit = monitor.settle_tcb(question, Answer::Session).unwrap();
    assert_eq!(permit.basis(), &Basis::UserSession);
    monitor
}

fn effects() -> impl Strategy<Value = Effect> {
    proptest::sample::select(vec![Effect::Read, Effect::Write, Effect::Irreversible])
}

proptest! {
    #[test]
    fn without_a_grant_a_call_is_allowed_exactly_below_its_limit(
        label in labels(), limit in labels(), extra in labels(), effect in effects(), above in any::<bool>(),
    ) {
        let limit = if above { limit.join(&label).join(&extra) } else { limit };
        // No policy knows what the user vouches for.
        let limit = limit.unendorsed();
        let call = send(&label);
        match Monitor::new().decide(&policy(&limit, effect), &History::default(), call.clone()) {
            Decision::Allow(permit) => {
                prop_assert!(label.flows_to(&limit));
                prop_assert_eq!(permit.basis(), &Basis::Policy { rule: "mail.send.limit".into() });
                prop_assert_eq!(permit.spend(), call.clone());
            }
            Decision::Ask(question) => {
                prop_assert!(!label.flows_to(&limit));
                prop_assert_eq!(question.call(), &call);
                prop_assert_eq!(question.excess(), &label.beyond(&limit));
            }
            Decision::Deny(denial) => prop_assert!(false, "{denial}"),
        }
        allows(&Monitor::new(), &policy(&limit, effect), call);
    }

    /// A grant covers the same app, the same tool, and the taints that the user has seen.
    #[test]
    fn a_grant_covers_no_more_than_was_asked(
        seen in labels(), limit in labels(), label in labels(), new_limit in labels(), effect in effects(),
    ) {
        prop_assume!(!seen.flows_to(&limit) && !seen.beyond(&limit).is_top());
        let monitor = with_grant(&seen, &limit);
        let policy = policy(&new_limit, effect);
        let below = label.flows_to(&new_limit);
        let covered = label.beyond(&new_limit).flows_to(&seen.beyond(&limit));
        let expected = below || covered && effect != Effect::Irreversible;
        prop_assert_eq!(allows(&monitor, &policy, send(&label)), expected);
        prop_assert_eq!(allows(&monitor, &policy, call_of("mail", "delete", &label)), below);
        prop_assert_eq!(allows(&monitor, &policy, call_of("drive", "send", &label)), below);
        prop_assert_eq!(allows(&Monitor::new(), &policy, send(&label)), below);
    }

    #[test]
    fn a_policy_that_fails_denies(label in labels(), seen in labels()) {
        let error = OneRule(Err("no such tool"));
        let mut monitors = vec![Monitor::new()];
        if !seen.is_bottom() && !seen.is_top() {
            monitors.push(with_grant(&seen, &Label::bottom()));
        }
        for monitor in monitors {
            let decision = monitor.decide(&error, &History::default(), send(&label));
            let reason = Denial::Policy("no such tool".to_owned());
            prop_assert!(matches!(decision, Decision::Deny(denial) if denial == reason));
            prop_assert!(!monitor.would_allow(&error, &History::default(), &send(&label)));
        }
    }
}

/// Nobody can say what a grant above unknown taints would cover.
#[test]
fn unknown_taints_are_not_granted_for_the_session() {
    let monitor = Monitor::new();
    let policy = policy(&Label::bottom(), Effect::Write);
    let question = ask(&monitor, &policy, send(&Label::top()));
    assert_eq!(question.choices(), [Answer::Once, Answer::No]);
    let denial = monitor.settle_tcb(question, Answer::Session).unwrap_err();
    assert_eq!(denial, Denial::OnceOnly);
    assert!(!allows(&monitor, &policy, send(&Label::top())));
}

#[test]
fn yes_once_is_for_this_call_only() {
    let (label, limit) = (taint(0), Label::bottom());
    for effect in [Effect::Read, Effect::Write, Effect::Irreversible] {
        let monitor = Monitor::new();
        let policy = policy(&limit, effect);
        let question = ask(&monitor, &policy, send(&label));
        let permit = monitor.settle_tcb(question, Answer::Once).unwrap();
        assert_eq!(permit.basis(), &Basis::UserOnce);
        assert_eq!(permit.call(), &send(&label));
        assert!(!allows(&monitor, &policy, send(&label)));
    }
}

#[test]
fn no_is_no() {
    let monitor = Monitor::new();
    let policy = policy(&Label::bottom(), Effect::Write);
    let question = ask(&monitor, &policy, send(&taint(0)));
    let denial = monitor.settle_tcb(question, Answer::No).unwrap_err();
    let rule = "mail.send.limit".to_owned();
    assert_eq!(denial, Denial::Refused { rule });
    assert_eq!(denial.to_string(), "refused under the rule mail.send.limit");
    assert!(!allows(&monitor, &policy, send(&taint(0))));
}

#[test]
fn an_irreversible_call_is_never_allowed_by_the_session() {
    let (label, limit) = (taint(0), Label::bottom());
    let irreversible = policy(&limit, Effect::Irreversible);
    // A grant from when the tool was thought harmless does not count.
    let monitor = with_grant(&label, &limit);
    assert!(allows(
        &monitor,
        &policy(&limit, Effect::Write),
        send(&label)
    ));
    assert!(!allows(&monitor, &irreversible, send(&label)));
    // It is not offered, and where it is answered anyway, it allows nothing, not even once.
    let question = ask(&monitor, &irreversible, send(&label));
    assert_eq!(question.choices(), [Answer::Once, Answer::No]);
    let denial = monitor.settle_tcb(question, Answer::Session).unwrap_err();
    assert_eq!(denial, Denial::OnceOnly);
    assert!(!allows(&monitor, &irreversible, send(&label)));
    let fresh = Monitor::new();
    let question = ask(&fresh, &irreversible, send(&label));
    assert!(fresh.settle_tcb(question, Answer::Session).is_err());
    assert!(!allows(
        &fresh,
        &policy(&limit, Effect::Write),
        send(&label)
    ));
}

#[test]
fn two_grants_do_not_add_up_to_a_third() {
    let write = policy(&Label::bottom(), Effect::Write);
    let monitor = Monitor::new();
    for at in [0, 1] {
        let question = ask(&monitor, &write, send(&taint(at)));
        assert_eq!(
            question.choices(),
            [Answer::Once, Answer::Session, Answer::No]
        );
        assert!(monitor.settle_tcb(question, Answer::Session).is_ok());
    }
    assert!(allows(&monitor, &write, send(&taint(0))));
    assert!(allows(&monitor, &write, send(&taint(1))));
    assert!(!allows(&monitor, &write, send(&join_of([0, 1]))));
    assert!(!allows(&monitor, &write, send(&Label::top())));
}

/// The question lists what brought the taints: not what is below the limit, not what the model
/// could not see, not what the model wrote.
#[test]
fn a_question_shows_its_causes() {
    let (email, web, secret) = (taint(0), taint(1), taint(120));
    let mut history = History::default();
    history.push_user(Labeled::concat([
        &Labeled::trusted_tcb("My card is "),
        &Labeled::label_tcb("4111", secret.clone()),
    ]));
    let label = email.join(&web);
    let calls = [("read".to_owned(), Labeled::trusted_tcb("{}"))];
    let ids = history.push_assistant(&email, Labeled::trusted_tcb("Reading."), calls);
    let long = "é".repeat(1000);
    history.push_result(&email, ids[0], Labeled::trusted_tcb(long));
    history.push_user(Labeled::label_tcb("a page", web.clone()));

    let policy = policy(&web, Effect::Write);
    let Decision::Ask(question) = Monitor::new().decide(&policy, &history, send(&label)) else {
        panic!("no question");
    };
    assert_eq!(question.excess(), &email);
    let [cause] = question.causes() else {
        panic!("{:?}", question.causes());
    };
    assert_eq!(cause.source, Source::Tool("read".to_owned()));
    assert_eq!(cause.excerpt.reveal_tcb(), "é".repeat(240));
    assert_eq!(cause.excerpt.label(), email);
    let listed = history.regions().find(|region| region.id == cause.region);
    assert!(listed.unwrap().reveal_tcb().starts_with("éé"));
    // And it stays out of logs.
    assert!(!format!("{question:?}").contains("éé"));
}

/// The ledger: an irreversible call that was permitted before is never permitted unasked.
#[test]
fn an_irreversible_call_that_ran_is_asked_about_whatever_the_label() {
    let (monitor, pay) = (Monitor::new(), policy(&Label::top(), Effect::Irreversible));
    let permitted = |label: &Label| match monitor.decide(&pay, &History::default(), send(label)) {
        Decision::Allow(permit) => Ok(permit),
        Decision::Ask(question) => Err(Box::new(question)),
        Decision::Deny(denial) => panic!("{denial}"),
    };
    // A permit that is dropped has allowed nothing; one that is held may be spent at any moment.
    drop(permitted(&taint(0)).unwrap());
    let permit = permitted(&taint(0)).unwrap();
    let receipt = permit.receipt();
    assert_eq!(permitted(&taint(0)).unwrap_err().ran(), Some(Ran::Unknown));
    permit.spend();
    // Above, beside and below the label of the first: the ledger looks at no label.
    for label in [taint(0), taint(1), Label::bottom(), Label::top()] {
        let question = permitted(&label).unwrap_err();
        assert_eq!(question.ran(), Some(Ran::Unknown));
        assert!(question.excess().is_bottom() && question.causes().is_empty());
        assert_eq!(question.choices(), [Answer::Once, Answer::No]);
    }
    receipt.answered();
    let question = permitted(&Label::bottom()).unwrap_err();
    assert_eq!(question.ran(), Some(Ran::Answered));
    // A handle of the same session knows it; another session does not.
    assert!(!allows_now(&monitor.clone(), &pay));
    assert!(allows_now(&Monitor::new(), &pay));
    // The user may say yes each time, and the next one is asked about again.
    monitor.settle_tcb(*question, Answer::Once).unwrap().spend();
    assert!(permitted(&Label::bottom()).is_err());
    // Other arguments are another call; other spellings of the same are not.
    let call = |arguments: &str| Call {
        arguments: Arguments::parse(arguments, &Label::bottom()).unwrap(),
        ..send(&Label::bottom())
    };
    for (arguments, free) in [
        (r#"{"to":"eve"}"#, true),
        (r#" { "\u0074o" : "b\u006fb" } "#, false),
    ] {
        let decision = monitor.decide(&pay, &History::default(), call(arguments));
        assert_eq!(matches!(decision, Decision::Allow(_)), free, "{arguments}");
    }
    // What can be changed back may be meant.
    let write = policy(&Label::top(), Effect::Write);
    assert!(allows_now(&monitor, &write) && allows_now(&monitor, &write));
    // No label stands in the way, so a screener could save nothing.
    assert!(monitor.would_allow(&pay, &History::default(), &send(&Label::bottom())));
}

fn allows_now(monitor: &Monitor, policy: &OneRule) -> bool {
    let decision = monitor.decide(policy, &History::default(), send(&Label::bottom()));
    match decision {
        Decision::Allow(permit) => permit.spend() == send(&Label::bottom()),
        _ => false,
    }
}

/// A session of weeks must not grow with every call; what is not entered is not permitted.
/// What another machine did is known by the history alone.
#[test]
fn an_irreversible_call_of_an_earlier_step_is_asked_about_unless_the_hub_answered_it() {
    let low = Label::bottom();
    let ran = |effect, answer: &dyn Fn(&mut History, ifc::CallId), steps_after: usize| {
        let mut history = History::default();
        // The same call, written in another way.
        let arguments = Labeled::trusted_tcb(r#"{ "to": "bob" }"#);
        let step = [("send".to_owned(), arguments)];
        let ids = history.push_assistant(&taint(0), Labeled::trusted_tcb(""), step);
        answer(&mut history, ids[0]);
        for _ in 0..steps_after {
            history.push_assistant(&low, Labeled::trusted_tcb("next"), []);
        }
        let decision = Monitor::new().decide(&policy(&low, effect), &history, send(&low));
        match decision {
            Decision::Ask(question) => question.ran(),
            Decision::Allow(_) => None,
            Decision::Deny(denial) => panic!("{denial}"),
        }
    };
    let answered = |history: &mut History, id| {
        history.push_result(&taint(0), id, Labeled::trusted_tcb("sent"));
    };
    let refused = |history: &mut History, id| history.push_note(&taint(0), id, "not executed");
    let nothing = |_: &mut History, _| {};
    let once = Effect::Irreversible;
    assert_eq!(ran(once, &answered, 1), Some(Ran::Answered));
    assert_eq!(ran(once, &nothing, 1), Some(Ran::Unknown));
    assert_eq!(ran(once, &refused, 1), None);
    // The newest step is the one that is being decided on.
    assert_eq!(ran(once, &nothing, 0), None);
    assert_eq!(ran(Effect::Write, &answered, 1), None);
}

#[test]
fn a_full_ledger_forgets_the_oldest_call() {
    let (monitor, pay) = (Monitor::new(), policy(&Label::top(), Effect::Irreversible));
    let call = |number: usize| Call {
        arguments: Arguments::parse(&format!("{{\"n\":{number}}}"), &Label::bottom()).unwrap(),
        ..send(&Label::bottom())
    };
    let allows = |number| match monitor.decide(&pay, &History::default(), call(number)) {
        Decision::Allow(permit) => permit.spend() == call(number),
        _ => false,
    };
    assert!((0..4096).all(allows));
    // The last one makes room by the first one, which is then the newest.
    assert!(!allows(0) && allows(4096) && allows(0));
    assert!(!allows(2) && !allows(4096));
}

/// Every writing of one call is that call; whatever makes another one is asked about as such.
#[test]
fn calls_are_the_same_by_their_control_part() {
    let call = |arguments: &str| Call {
        arguments: Arguments::parse(arguments, &Label::bottom()).unwrap(),
        ..send(&Label::bottom())
    };
    let rule = |same_by: &[&str]| Rule {
        arguments: BTreeMap::from([("note".parse().unwrap(), Label::top())]),
        same_by: (!same_by.is_empty()).then(|| same_by.iter().map(|it| (*it).to_owned()).collect()),
        ..Rule::asking("send", Effect::Irreversible, Label::top())
    };
    let same = |same_by: &[&str], arguments: &str| {
        let (monitor, rule) = (Monitor::new(), OneFor(rule(same_by)));
        let first = call(r#"{"to":"ada","amount":5,"note":"rent","flags":["a",{"n":1}]}"#);
        let first = monitor.decide(&rule, &History::default(), first);
        let Decision::Allow(permit) = first else {
            panic!("nothing was done yet");
        };
        let _ = permit.spend();
        let again = monitor.decide(&rule, &History::default(), call(arguments));
        matches!(again, Decision::Ask(_))
    };
    for arguments in [
        r#"{"to":"ada","amount":5,"note":"rent","flags":["a",{"n":1}]}"#,
        r#"{"flags":["a",{"n":1.0}],"note":"Rent!","amount":5.0,"to":"ada"}"#,
        r#"{"to":"ada","amount":5e0,"flags":["a",{"n":10e-1,"m":null}],"subject":null,"cc":[]}"#,
        r#"{"to":"ada","amount":50E-1,"note":null,"flags":["a",{"n":1,"m":[]}]}"#,
    ] {
        assert!(same(&[], arguments), "{arguments}");
    }
    for arguments in [
        r#"{"to":"eve","amount":5,"note":"rent","flags":["a",{"n":1}]}"#,
        r#"{"to":"ada","amount":50,"note":"rent","flags":["a",{"n":1}]}"#,
        r#"{"to":"ada","amount":"5","note":"rent","flags":["a",{"n":1}]}"#,
        r#"{"to":"ada","amount":5,"note":"rent","flags":["a",{"n":2}]}"#,
        r#"{"to":"ada","amount":5,"note":"rent"}"#,
    ] {
        assert!(!same(&[], arguments), "{arguments}");
        // By the recipient alone, only another recipient makes another call.
        assert_eq!(
            same(&["to"], arguments),
            !arguments.contains("eve"),
            "{arguments}"
        );
    }
    // A data argument counts where it is named.
    assert!(!same(
        &["note"],
        r#"{"to":"ada","amount":5,"note":"Rent!"}"#
    ));
}

/// One rule for every call.
struct OneFor(Rule);

impl Policy for OneFor {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        Ok(self.0.clone())
    }
}

/// Clones are handles of one session.
#[test]
fn clones_share_grants_and_refusals() {
    let (monitor, write) = (Monitor::new(), policy(&Label::bottom(), Effect::Write));
    let other = monitor.clone();
    let no = ask(&monitor, &write, send(&taint(0)));
    assert!(monitor.settle_tcb(no, Answer::No).is_err());
    let again = other.decide(&write, &History::default(), send(&taint(0)));
    assert!(matches!(again, Decision::Deny(Denial::RefusedBefore)));
    assert!(other.is_refused(&send(&taint(0))) && other.has_refused_below(&taint(0)));
    // A step that may not know of the refusal is asked about.
    assert!(!other.is_refused(&send(&taint(1))) && !other.has_refused_below(&Label::bottom()));
    let _ = ask(&other, &write, send(&taint(1)));
    other.begin_turn();
    let yes = ask(&monitor, &write, send(&taint(0)));
    assert!(monitor.settle_tcb(yes, Answer::Session).is_ok());
    assert!(allows(&other, &write, send(&taint(0))));
}

/// Every sink is decided by the same rules, and a rule may let nobody be asked.
#[test]
fn every_sink_is_decided() {
    /// Everything wants ⊥; above it, connections, prompts and addresses are denied.
    struct Bottom;

    impl Policy for Bottom {
        fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
            Ok(Rule {
                exceeded: match sink {
                    Sink::Prompt(_) | Sink::Connection(_) | Sink::Address(_) => Exceeded::Deny,
                    _ => Exceeded::Ask,
                },
                ..Rule::asking("rule", Effect::Write, Label::bottom())
            })
        }
    }

    fn decided<F: Flow + std::fmt::Debug>(flow: F) -> &'static str {
        match Monitor::new().decide(&Bottom, &History::default(), flow) {
            Decision::Allow(permit) => {
                drop(permit.spend());
                "allow"
            }
            Decision::Ask(_) => "ask",
            Decision::Deny(Denial::Exceeded { rule, excess }) => {
                assert_eq!((rule.as_str(), excess.is_bottom()), ("rule", false));
                "deny"
            }
            Decision::Deny(denial) => panic!("{denial}"),
        }
    }

    let text = |label: &Label| Labeled::label_tcb("text", label.clone());
    for (label, ask, deny) in [
        (Label::bottom(), "allow", "allow"),
        (taint(0), "ask", "deny"),
        (Label::top(), "ask", "deny"),
    ] {
        let app = || "app".to_owned();
        assert_eq!(decided(send(&label)), ask);
        let text = || text(&label);
        assert_eq!(
            decided(Release {
                apps: BTreeSet::new(),
                text: text()
            }),
            ask
        );
        assert_eq!(
            decided(MemoryWrite {
                apps: BTreeSet::from([app()]),
                text: text()
            }),
            ask
        );
        let address = Address {
            apps: BTreeSet::from([app()]),
            text: text(),
            origin: Origin::Model,
            fetched: false,
        };
        assert_eq!(decided(address), deny);
        let delivery = Delivery {
            from: app(),
            to: "other".to_owned(),
            functionality: "fare".to_owned(),
            stage: Stage::Request,
            message: text(),
        };
        assert_eq!(decided(delivery), ask);
        let connection = Connection {
            app: app(),
            host: "example.com".to_owned(),
            port: 443,
            domain: None,
            label: label.clone(),
        };
        assert_eq!(decided(connection), deny);
        let mut history = History::default();
        history.push_user(text());
        let prompt = redact(&history, &label);
        let submission = Submission {
            provider: "remote",
            prompt: &prompt,
        };
        assert_eq!(decided(submission), deny);
    }
    // The label of a call is that of its control part and of all its arguments.
    let arguments = Arguments::parse(r#"{"a":1}"#, &taint(0)).unwrap();
    let call = Call {
        arguments,
        ..send(&Label::bottom())
    };
    assert_eq!(decided(call), "ask");
}

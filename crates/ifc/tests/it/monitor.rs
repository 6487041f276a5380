//! The monitor: who may allow what.

use ifc::{
    Answer, Basis, Call, Decision, Denial, Effect, History, Label, Labeled, Monitor, Policy,
    PolicyError, Question, Rule, Source,
};
use proptest::prelude::*;

use crate::common::{join_of, labels, taint};

/// One rule for every call, or none at all.
struct OneRule(Result<(Label, Effect), &'static str>);

impl Policy for OneRule {
    fn rule(&self, call: &Call) -> Result<Rule, PolicyError> {
        let (limit, effect) = self.0.clone().map_err(|e| PolicyError(e.to_owned()))?;
        Ok(Rule {
            limit,
            effect,
            name: format!("{}.{}.limit", call.app, call.tool),
            always_ask: false,
        })
    }

    fn answer(&self, app: &str) -> Result<Rule, PolicyError> {
        let (limit, effect) = self.0.clone().map_err(|e| PolicyError(e.to_owned()))?;
        let name = format!("{app}.answer.limit");
        Ok(Rule {
            limit,
            effect,
            name,
            always_ask: false,
        })
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::unknown(result)
    }
}

/// A rule that asks about every call, whatever its label.
struct AlwaysAsk(OneRule);

impl Policy for AlwaysAsk {
    fn rule(&self, call: &Call) -> Result<Rule, PolicyError> {
        let always_ask = true;
        self.0.rule(call).map(|rule| Rule { always_ask, ..rule })
    }

    fn answer(&self, app: &str) -> Result<Rule, PolicyError> {
        self.0.answer(app)
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        self.0.label_result(call, result, is_error)
    }
}

#[test]
fn a_rule_that_always_asks_is_neither_passed_by_a_label_nor_by_a_grant() {
    let (web, mut monitor) = (taint(0), Monitor::new());
    let usual = policy(&Label::bottom(), Effect::Write);
    let question = ask(&monitor, &usual, send(&web));
    let permit = monitor.settle_tcb(question, Answer::Session).unwrap();
    assert_eq!(permit.basis(), &Basis::UserSession);
    assert!(monitor.would_allow(&usual, &send(&web)));
    let always = AlwaysAsk(policy(&Label::top(), Effect::Write));
    for label in [Label::bottom(), web] {
        let call = send(&label);
        assert!(!monitor.would_allow(&always, &call));
        match monitor.decide(&always, &History::default(), call) {
            Decision::Ask(question) => {
                assert_eq!(question.choices(), [Answer::Once, Answer::No]);
                let refused = monitor.settle_tcb(question, Answer::Session);
                assert!(matches!(refused, Err(Denial::NotForSession)));
            }
            other => panic!("no question but {other:?}"),
        }
    }
}

fn policy(limit: &Label, effect: Effect) -> OneRule {
    OneRule(Ok((limit.clone(), effect)))
}

fn call_of(app: &str, tool: &str, label: &Label) -> Call {
    Call {
        app: app.to_owned(),
        tool: tool.to_owned(),
        arguments: r#"{"to":"bob"}"#.to_owned(),
        label: label.clone(),
    }
}

fn send(label: &Label) -> Call {
    call_of("mail", "send", label)
}

fn ask(monitor: &Monitor, policy: &OneRule, call: Call) -> Question {
    match monitor.decide(policy, &History::default(), call) {
        Decision::Ask(question) => question,
        other => panic!("no question but {other:?}"),
    }
}

fn allows(monitor: &Monitor, policy: &OneRule, call: Call) -> bool {
    let would = monitor.would_allow(policy, &call);
    let allows = matches!(
        monitor.decide(policy, &History::default(), call),
        Decision::Allow(_)
    );
    assert_eq!(would, allows, "would_allow and decide differ");
    allows
}

/// A monitor whose user has said yes for the session to `send` above `limit` under `label`.
fn with_grant(label: &Label, limit: &Label) -> Monitor {
    let mut monitor = Monitor::new();
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
            prop_assert!(!monitor.would_allow(&error, &send(&label)));
        }
    }
}

/// Nobody can say what a grant above unknown taints would cover.
#[test]
fn unknown_taints_are_not_granted_for_the_session() {
    let mut monitor = Monitor::new();
    let policy = policy(&Label::bottom(), Effect::Write);
    let question = ask(&monitor, &policy, send(&Label::top()));
    assert_eq!(question.choices(), [Answer::Once, Answer::No]);
    let denial = monitor.settle_tcb(question, Answer::Session).unwrap_err();
    assert_eq!(denial, Denial::NotForSession);
    assert!(!allows(&monitor, &policy, send(&Label::top())));
}

#[test]
fn yes_once_is_for_this_call_only() {
    let (label, limit) = (taint(0), Label::bottom());
    for effect in [Effect::Read, Effect::Write, Effect::Irreversible] {
        let mut monitor = Monitor::new();
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
    let mut monitor = Monitor::new();
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
    let mut monitor = with_grant(&label, &limit);
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
    assert_eq!(denial, Denial::NotForSession);
    assert!(!allows(&monitor, &irreversible, send(&label)));
    let mut fresh = Monitor::new();
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
    let mut monitor = Monitor::new();
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
    let (email, web, secret) = (taint(0), taint(1), taint(200));
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

#[test]
fn the_unprotected_agent_is_allowed_everything() {
    let monitor = Monitor::unprotected_tcb();
    let error = OneRule(Err("no such tool"));
    assert!(monitor.would_allow(&error, &send(&Label::top())));
    let decision = monitor.decide(&error, &History::default(), send(&Label::top()));
    assert!(matches!(decision, Decision::Allow(permit) if permit.basis() == &Basis::Unprotected));
}

//! What the user said for longer than once about two apps: which flows it covers.

use std::sync::{Arc, Mutex};

use ifc::{
    Answer, Basis, Call, Collaboration, Decision, Delivery, Direction, Effect, History, Label,
    Labeled, Monitor, Permissible, Permissions, Policy, PolicyError, Principal, Question,
    Relevance, Rule, Sink, Stage,
};
use proptest::prelude::*;

use crate::common::{labels, taint};
use crate::monitor::call_of;

/// Messages and calls alike; calls are of one effect.
struct Rules {
    limit: Label,
    effect: Effect,
    /// Whether the user is asked about every message.
    consent: bool,
}

impl Policy for Rules {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let is_message = matches!(sink, Sink::Delivery(_));
        Ok(Rule {
            always_ask: self.consent && is_message,
            ..Rule::asking(
                "rule",
                if is_message {
                    Effect::Read
                } else {
                    self.effect
                },
                self.limit.clone(),
            )
        })
    }
}

/// Calls are asked about from the first taint on.
fn rules(effect: Effect, consent: bool) -> Rules {
    Rules {
        limit: Label::bottom(),
        effect,
        consent,
    }
}

#[derive(Default)]
struct InMemory(Mutex<Vec<(Collaboration, Label)>>);

impl Permissions for InMemory {
    fn can_keep(&self, what: Permissible<'_>) -> bool {
        matches!(what, Permissible::Collaboration(_))
    }

    fn find(&self, what: Permissible<'_>, taints: &Label) -> Option<String> {
        let Permissible::Collaboration(what) = what else {
            return None;
        };
        let kept = self.0.lock().unwrap();
        let covers = |(of, under): &&(Collaboration, Label)| of == what && taints.flows_to(under);
        kept.iter().find(covers).map(|_| "kept".to_owned())
    }

    fn keep(&self, what: Permissible<'_>, taints: &Label) -> Result<String, String> {
        let Permissible::Collaboration(what) = what else {
            return Err("no collaboration".to_owned());
        };
        let kept = (what.clone(), taints.clone());
        self.0.lock().unwrap().push(kept);
        Ok("kept".to_owned())
    }
}

fn session(permissions: &Arc<InMemory>) -> Monitor {
    Monitor::new().with_permissions(Arc::clone(permissions) as Arc<dyn Permissions>)
}

/// A message of the exchanges in which `calendar` asks `mail` for dates.
fn message(stage: Stage, label: &Label) -> Delivery {
    let (asks, serves) = ("calendar".to_owned(), "mail".to_owned());
    let (from, to) = match stage {
        Stage::Probe | Stage::Request => (asks, serves),
        Stage::Response => (serves, asks),
    };
    Delivery {
        from,
        to,
        functionality: "dates".to_owned(),
        stage,
        message: Labeled::label_tcb("x", label.clone()),
    }
}

fn asking(asks: &str) -> Collaboration {
    Collaboration {
        asks: asks.to_owned(),
        serves: "mail".to_owned(),
        functionality: "dates".to_owned(),
        direction: Direction::Asking,
    }
}

fn ask(monitor: &Monitor, rules: &Rules, message: Delivery) -> Question<Delivery> {
    match monitor.decide(rules, &History::default(), message) {
        Decision::Ask(question) => question,
        other => panic!("no question but {other:?}"),
    }
}

fn allows(monitor: &Monitor, rules: &Rules, message: Delivery) -> bool {
    let would = monitor.would_allow(rules, &History::default(), &message);
    let decision = monitor.decide(rules, &History::default(), message);
    assert_eq!(would, matches!(decision, Decision::Allow(_)));
    would
}

fn decide_as(monitor: &Monitor, rules: &Rules, call: &Call, principal: &Principal) -> Decision {
    let history = History::default();
    let would = monitor.would_allow_as(rules, &history, call, principal);
    let everything = &Relevance::Everything;
    let decided = monitor.decide_as(rules, &history, everything, call.clone(), principal);
    assert_eq!(would, matches!(decided, Decision::Allow(_)));
    decided
}

fn serves(monitor: &Monitor, rules: &Rules, call: &Call, on: Collaboration) -> Decision {
    decide_as(monitor, rules, call, &Principal::Request(on))
}

/// Every word that lasts, on each kind of rule: it covers its own direction, for the session the
/// call that serves the request too, and nothing of other apps or of the tool as such.
#[test]
fn a_lasting_word_covers_one_direction_of_one_collaboration() {
    let web = taint(0);
    for (consent, answer) in [
        (false, Answer::Session),
        (false, Answer::Always),
        (true, Answer::Session),
        (true, Answer::Always),
    ] {
        let rules = rules(Effect::Write, consent);
        let permissions = Arc::new(InMemory::default());
        let monitor = session(&permissions);
        let question = ask(&monitor, &rules, message(Stage::Probe, &web));
        assert_eq!(question.collaboration(), Some(&asking("calendar")));
        assert_eq!(question.covers(), web);
        assert_eq!(question.choices().len(), 4);
        assert!(monitor.settle_tcb(question, answer).is_ok());

        assert!(allows(&monitor, &rules, message(Stage::Request, &web)));
        assert!(!allows(&monitor, &rules, message(Stage::Response, &web)));
        let turned = Delivery {
            from: "mail".to_owned(),
            to: "calendar".to_owned(),
            ..message(Stage::Request, &web)
        };
        assert!(!allows(&monitor, &rules, turned));
        let other = Delivery {
            functionality: "addresses".to_owned(),
            ..message(Stage::Request, &web)
        };
        assert!(!allows(&monitor, &rules, other));

        let call = call_of("mail", "search", &web);
        let own = serves(&monitor, &rules, &call, asking("calendar"));
        match (answer, own) {
            (Answer::Session, Decision::Allow(permit)) => {
                assert_eq!(*permit.basis(), Basis::UserSession);
            }
            // A permission of two apps would bound no argument of the call.
            (Answer::Always, Decision::Ask(question)) => {
                assert_eq!(
                    question.choices(),
                    [Answer::Once, Answer::Session, Answer::No]
                );
            }
            (_, own) => panic!("{own:?}"),
        }
        let others = serves(&monitor, &rules, &call, asking("notes"));
        assert!(matches!(others, Decision::Ask(_)));
        assert!(
            !monitor.would_allow(&rules, &History::default(), &call),
            "by mail itself"
        );
        // Gone with the session, or with the permission.
        permissions.0.lock().unwrap().clear();
        let next = match answer {
            Answer::Session => session(&permissions),
            _ => monitor,
        };
        assert!(!allows(&next, &rules, message(Stage::Request, &web)));
    }
}

/// What was said of a tool is nothing about what others may ask of it, and the other way round.
#[test]
fn a_word_on_a_tool_is_none_on_a_collaboration() {
    let (web, rules) = (taint(0), rules(Effect::Write, false));
    let monitor = Monitor::new();
    let call = call_of("mail", "search", &web);
    let Decision::Ask(question) = monitor.decide(&rules, &History::default(), call.clone()) else {
        panic!("no question");
    };
    assert_eq!(question.collaboration(), None);
    assert!(monitor.settle_tcb(question, Answer::Session).is_ok());
    assert!(monitor.would_allow(&rules, &History::default(), &call));
    let on_request = serves(&monitor, &rules, &call, asking("calendar"));
    assert!(matches!(on_request, Decision::Ask(_)));
}

/// What an app's model calls while it serves is covered by no word on the collaboration, which was about
/// one request, and by none on the tool; a yes for the session is for this tool, asked for so.
#[test]
fn a_model_that_serves_has_no_more_than_was_said_of_it() {
    let (web, rules) = (taint(0), rules(Effect::Write, false));
    let permissions = Arc::new(InMemory::default());
    let kept = (asking("calendar"), web.clone());
    permissions.0.lock().unwrap().push(kept);
    let monitor = session(&permissions);
    let call = call_of("mail", "search", &web);
    let decide =
        |call: &Call, on: Collaboration| decide_as(&monitor, &rules, call, &Principal::Serving(on));
    let own = monitor.decide(&rules, &History::default(), call.clone());
    let Decision::Ask(own) = own else {
        panic!("no question");
    };
    assert!(monitor.settle_tcb(own, Answer::Session).is_ok());
    let Decision::Ask(question) = decide(&call, asking("calendar")) else {
        panic!("it passes");
    };
    assert_eq!(question.collaboration(), None);
    let choices = [Answer::Once, Answer::Session, Answer::No];
    assert_eq!(question.choices(), choices);
    assert!(monitor.settle_tcb(question, Answer::Session).is_ok());
    let again = decide(&call, asking("calendar"));
    assert!(matches!(again, Decision::Allow(_)));
    for (call, on) in [
        (call_of("mail", "mark", &web), asking("calendar")),
        (call.clone(), asking("notes")),
    ] {
        assert!(matches!(decide(&call, on), Decision::Ask(_)));
    }
}

#[test]
fn an_irreversible_call_is_no_part_of_what_lasts() {
    let web = taint(0);
    let permissions = Arc::new(InMemory::default());
    permissions
        .0
        .lock()
        .unwrap()
        .push((asking("calendar"), web.clone()));
    let monitor = session(&permissions);
    let rules = rules(Effect::Irreversible, false);
    // The messages around it may pass.
    assert!(allows(&monitor, &rules, message(Stage::Request, &web)));
    let call = call_of("mail", "send", &web);
    let Decision::Ask(question) = serves(&monitor, &rules, &call, asking("calendar")) else {
        panic!("it passes");
    };
    assert_eq!(question.choices(), [Answer::Once, Answer::No]);
    assert!(monitor.settle_tcb(question, Answer::Always).is_err());
}

proptest! {
    /// Consent covers the taints that were shown, and nothing else; the unknown is never covered.
    #[test]
    fn consent_covers_the_taints_that_were_shown(
        seen in labels(), later in labels(), limit in labels(),
    ) {
        let permissions = Arc::new(InMemory::default());
        let rules = Rules { limit, ..rules(Effect::Read, true) };
        let monitor = session(&permissions);
        let question = ask(&monitor, &rules, message(Stage::Response, &seen));
        let offered = question.choices().contains(&Answer::Always);
        prop_assert_eq!(offered, !seen.is_top());
        let kept = monitor.settle_tcb(question, Answer::Always).is_ok();
        prop_assert_eq!(kept, offered);
        let covered = kept && later.flows_to(&seen);
        prop_assert_eq!(allows(&monitor, &rules, message(Stage::Response, &later)), covered);
    }
}

//! What the user allowed for good.

use std::sync::{Arc, Mutex};

use ifc::{
    Answer, Basis, Decision, Denial, Effect, History, Label, Monitor, Permissible, Permissions,
};
use proptest::prelude::*;

use crate::common::{labels, taint};
use crate::monitor::{AlwaysAsk, AsksNobody, allows, ask, call_of, policy, send};

/// Permissions in memory; a spoilt one keeps none.
#[derive(Default)]
struct InMemory {
    kept: Mutex<Vec<(String, Label)>>,
    spoilt: bool,
}

fn name(what: Permissible<'_>) -> String {
    match what {
        Permissible::Tool { app, tool, effect } => {
            assert_ne!(effect, Effect::Irreversible);
            format!("{app}.{tool}")
        }
        Permissible::Collaboration(it) => format!("{it:?}"),
        Permissible::Domain { .. } => format!("{what:?}"),
    }
}

impl Permissions for InMemory {
    fn find(&self, what: Permissible<'_>, excess: &Label) -> Option<String> {
        let kept = self.kept.lock().unwrap();
        let found = kept
            .iter()
            .position(|(of, limit)| *of == name(what) && excess.flows_to(limit));
        found.map(|at| at.to_string())
    }

    fn keep(&self, what: Permissible<'_>, excess: &Label) -> Result<String, String> {
        if self.spoilt {
            return Err("the disk is full".to_owned());
        }
        let mut kept = self.kept.lock().unwrap();
        kept.push((name(what), excess.clone()));
        Ok((kept.len() - 1).to_string())
    }
}

fn session(permissions: &Arc<InMemory>) -> Monitor {
    Monitor::new().with_permissions(Arc::clone(permissions) as Arc<dyn Permissions>)
}

#[test]
fn a_permission_holds_in_the_next_session_until_it_is_revoked() {
    let permissions = Arc::new(InMemory::default());
    let (write, web) = (policy(&Label::bottom(), Effect::Write), taint(0));
    let first = session(&permissions);
    let question = ask(&first, &write, send(&web));
    let all = [Answer::Once, Answer::Session, Answer::Always, Answer::No];
    assert_eq!(question.choices(), all);
    let permit = first.settle_tcb(question, Answer::Always).unwrap();
    let id = "0".to_owned();
    assert_eq!(permit.basis(), &Basis::Permission { id: id.clone() });

    let next = session(&permissions);
    match next.decide(&write, &History::default(), send(&web)) {
        Decision::Allow(permit) => assert_eq!(permit.basis(), &Basis::Permission { id }),
        other => panic!("not allowed but {other:?}"),
    }
    // Another tool, another app, another taint: each is another question.
    assert!(!allows(&next, &write, call_of("mail", "delete", &web)));
    assert!(!allows(&next, &write, call_of("post", "send", &web)));
    assert!(!allows(&next, &write, send(&taint(1))));
    // Another machine of the same session has it too; one without permissions has none.
    assert!(allows(&next.clone(), &write, send(&web)));
    assert!(!allows(&Monitor::new(), &write, send(&web)));

    permissions.kept.lock().unwrap().clear();
    for monitor in [&first, &next] {
        assert!(!allows(monitor, &write, send(&web)), "it was revoked");
    }
}

/// A tool that turned irreversible, or that is asked about always or never, has no permission any more.
#[test]
fn the_irreversible_and_what_is_always_or_never_asked_are_not_permitted_for_good() {
    let permissions = Arc::new(InMemory::default());
    let web = taint(0);
    let write = policy(&Label::bottom(), Effect::Write);
    let monitor = session(&permissions);
    let question = ask(&monitor, &write, send(&web));
    assert!(monitor.settle_tcb(question, Answer::Always).is_ok());

    let irreversible = policy(&Label::bottom(), Effect::Irreversible);
    assert!(!allows(&monitor, &irreversible, send(&web)));
    let always = AlwaysAsk(policy(&Label::bottom(), Effect::Write));
    assert!(!monitor.would_allow(&always, &History::default(), &send(&web)));
    // The configuration has become stricter since.
    let asks_nobody = AsksNobody(policy(&Label::bottom(), Effect::Write));
    assert!(!monitor.would_allow(&asks_nobody, &History::default(), &send(&web)));
    let decision = monitor.decide(&asks_nobody, &History::default(), send(&web));
    assert!(matches!(decision, Decision::Deny(Denial::Exceeded { .. })));

    let question = ask(&monitor, &irreversible, send(&web));
    assert_eq!(question.choices(), [Answer::Once, Answer::No]);
    let denial = monitor.settle_tcb(question, Answer::Always).unwrap_err();
    assert_eq!(denial, Denial::OnceOnly);
    assert_eq!(permissions.kept.lock().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_kept_is_denied_and_says_why() {
    let write = policy(&Label::bottom(), Effect::Write);
    let spoilt = Arc::new(InMemory {
        spoilt: true,
        ..InMemory::default()
    });
    let monitor = session(&spoilt);
    let question = ask(&monitor, &write, send(&taint(0)));
    let denial = monitor.settle_tcb(question, Answer::Always).unwrap_err();
    assert!(denial.to_string().contains("the disk is full"), "{denial}");
    // It is not offered where there is nowhere to keep it, and answered anyway it allows nothing.
    let without = Monitor::new();
    let question = ask(&without, &write, send(&taint(0)));
    assert!(!question.choices().contains(&Answer::Always));
    assert!(without.settle_tcb(question, Answer::Always).is_err());
    assert!(!allows(&without, &write, send(&taint(0))));
}

proptest! {
    /// A permission covers what flows to the taints that the user saw, and nothing else.
    #[test]
    fn a_permission_covers_the_taints_that_were_shown(
        seen in labels(), later in labels(), limit in labels(),
    ) {
        let permissions = Arc::new(InMemory::default());
        let write = policy(&limit, Effect::Write);
        let monitor = session(&permissions);
        let excess = seen.beyond(&limit);
        if let Decision::Ask(question) = monitor.decide(&write, &History::default(), send(&seen)) {
            let offered = question.choices().contains(&Answer::Always);
            prop_assert_eq!(offered, !excess.is_top());
            let kept = monitor.settle_tcb(question, Answer::Always).is_ok();
            prop_assert_eq!(kept, offered);
            monitor.begin_turn();
            let covered = later.flows_to(&limit) || (kept && later.beyond(&limit).flows_to(&excess));
            prop_assert_eq!(allows(&monitor, &write, send(&later)), covered);
        }
    }
}

//! Conversations with a model of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use hub::{Outcome, Stop};
use ifc::{Label, Labeled};
use llm::{Broker, Scripted, text_answer};
use server::{Choice, SessionError};

use crate::stage::{Stage, app};

/// A broker in which each model says its own name; the default one is cleared for everything, and `mail`'s
/// and `vanilla`'s for this.
fn broker(clearance: &Label) -> Broker {
    let model = |name: &'static str| Arc::new(Scripted::new(name, move |_| text_answer(name)));
    Broker::new(model("general"), Label::top())
        .with_provider(model("mail's"), clearance.clone())
        .unwrap()
        .with_provider(model("vanilla's"), clearance.clone())
        .unwrap()
}

/// Two apps; `mail` has a model of its own, and so have conversations without an app.
fn stage(clearance: &Label) -> Stage {
    Stage::start("ok", broker(clearance), |setup| {
        setup.apps = vec![app("mail", "ok"), app("web", "ok")];
        setup.apps[0].provider = Some("mail's".to_owned());
        setup.vanilla = Some("vanilla's".to_owned());
    })
}

async fn ask(stage: &mut Stage, apps: &[&str], query: Labeled) -> Result<Outcome, SessionError> {
    let apps: BTreeSet<String> = apps.iter().map(|app| (*app).to_owned()).collect();
    let (watcher, cancel) = (&mut stage.watcher, &stage.cancel);
    let choice = Choice::Apps(apps);
    stage.session.ask(query, choice, watcher, cancel).await
}

#[tokio::test]
async fn each_conversation_is_with_its_own_model() {
    let mut stage = stage(&Label::top());
    for (apps, expected) in [
        (vec!["mail"], "mail's"),
        (vec!["web"], "general"),
        (vec!["mail", "web"], "mail's"),
        (vec![], "vanilla's"),
    ] {
        let outcome = ask(&mut stage, &apps, Labeled::trusted_tcb("who?"))
            .await
            .unwrap();
        assert_eq!(outcome.result.unwrap().reveal_tcb(), expected, "{apps:?}");
    }
}

#[tokio::test]
async fn no_other_model_takes_the_place_of_an_apps_own() {
    let mut stage = stage(&Label::bottom());
    let secret = || Labeled::unknown("who?");
    for apps in [vec!["mail"], vec!["mail", "web"], vec![]] {
        let outcome = ask(&mut stage, &apps, secret()).await.unwrap();
        assert!(
            matches!(outcome.result, Err(Stop::Model(_))),
            "{apps:?}: {outcome:?}"
        );
    }
    let outcome = ask(&mut stage, &["web"], secret()).await.unwrap();
    assert_eq!(outcome.result.unwrap().reveal_tcb(), "general");
}

#[tokio::test]
async fn apps_with_different_models_do_not_meet() {
    let mut stage = Stage::start("ok", broker(&Label::top()), |setup| {
        setup.apps = vec![app("mail", "ok"), app("web", "ok")];
        setup.apps[0].provider = Some("mail's".to_owned());
        setup.apps[1].provider = Some("general".to_owned());
    });
    let refused = ask(&mut stage, &["mail", "web"], Labeled::trusted_tcb("who?")).await;
    assert!(
        matches!(refused, Err(SessionError::Models(_))),
        "{refused:?}"
    );
    assert_eq!(stage.session.spokes().count(), 0);
}

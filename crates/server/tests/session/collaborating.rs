//! What the user says for longer than once about apps that ask each other: what it covers, what it
//! does not, and that it ends when it is taken back (SecGPT appendix A).

use std::sync::{Arc, Mutex};

use hub::trace::{Event, MessageKind};
use ifc::{
    Answer, Collaboration, Direction, Effect, Label, Labeled, Permissible, Permissions,
    Stage as Message,
};
use server::{ChosenFor, Selection, Selections};

use crate::asks::{FARE, Rules, Scene, label, returning};

/// What was kept, in memory.
#[derive(Default)]
struct Kept {
    permissions: Mutex<Vec<(Collaboration, Label)>>,
    choice: Mutex<Option<String>>,
    is_full: bool,
}

impl Permissions for Kept {
    fn can_keep(&self, what: Permissible<'_>) -> bool {
        matches!(what, Permissible::Collaboration(_))
    }

    fn find(&self, what: Permissible<'_>, taints: &Label) -> Option<String> {
        let Permissible::Collaboration(what) = what else {
            return None;
        };
        let kept = self.permissions.lock().unwrap();
        let covers = |(of, under): &(Collaboration, Label)| of == what && taints.flows_to(under);
        Some(format!("p{}", kept.iter().position(covers)?))
    }

    fn keep(&self, what: Permissible<'_>, taints: &Label) -> Result<String, String> {
        let Permissible::Collaboration(what) = what else {
            return Err("a tool was not to be kept here".to_owned());
        };
        assert!(!taints.is_top());
        let mut kept = self.permissions.lock().unwrap();
        kept.push((what.clone(), taints.clone()));
        Ok(format!("p{}", kept.len() - 1))
    }
}

impl Selections for Kept {
    fn find(&self, what: ChosenFor<'_>, _: &[String]) -> Option<(String, String)> {
        assert_eq!(what, ChosenFor::Functionality("fare"));
        let choice = self.choice.lock().unwrap().clone();
        choice.map(|app| (app, "c0".to_owned()))
    }

    fn keep(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<String, String> {
        assert_eq!(what, ChosenFor::Functionality("fare"));
        assert_eq!(among, ["metro", "quick"]);
        if self.is_full {
            return Err("there is no room".to_owned());
        }
        *self.choice.lock().unwrap() = Some(app.to_owned());
        Ok("c0".to_owned())
    }
}

/// A session of `rider` and what serves it, in which this was kept.
fn scene(serving: &[(&str, &str)], rules: &Rules, kept: &Arc<Kept>) -> Scene {
    Scene::with(serving, rules.clone(), &returning(FARE), |setup| {
        setup.permissions = Some(kept.clone());
        setup.selections = Some(kept.clone());
    })
}

fn metro(rules: &Rules, kept: &Arc<Kept>) -> Scene {
    scene(&[("metro", "ok")], rules, kept)
}

/// The notes of the messages of this kind.
fn notes(scene: &Scene, wanted: MessageKind) -> Vec<String> {
    scene.stage.traced(|event| match event {
        Event::Message { message, note, .. } if message == wanted => Some(note.as_str().to_owned()),
        _ => None,
    })
}

fn collaboration(direction: Direction) -> Collaboration {
    Collaboration {
        asks: "rider".to_owned(),
        serves: "metro".to_owned(),
        functionality: "fare".to_owned(),
        direction,
    }
}

/// What `rider` gets from others: nothing untrusted and nothing secret, unasked.
fn guarded() -> Rules {
    Rules {
        receives: Label::bottom(),
        ..Rules::default()
    }
}

fn note() -> Label {
    label("untrusted").join(&label("secret"))
}

const ALL: [Answer; 4] = [Answer::Once, Answer::Session, Answer::Always, Answer::No];

#[tokio::test]
async fn always_holds_in_later_sessions_until_it_is_revoked() {
    let (kept, rules) = (Arc::new(Kept::default()), guarded());
    let mut first = metro(&rules, &kept);
    first.stage.watcher.says = Some(Answer::Always);
    first.ask().await;
    let [question] = first.stage.watcher.questions.as_slice() else {
        panic!("{:?}", first.stage.watcher.questions);
    };
    assert_eq!(question.choices, ALL);
    assert_eq!(question.covers, ["untrusted", "secret"]);
    let answering = collaboration(Direction::Answering);
    assert_eq!(question.collaboration.as_ref(), Some(&answering));
    assert_eq!(
        *kept.permissions.lock().unwrap(),
        [(answering, note())],
        "and nothing about a tool"
    );

    let mut later = metro(&rules, &kept);
    later.ask().await;
    assert!(later.stage.watcher.questions.is_empty());
    assert_eq!(notes(&later, MessageKind::Response), ["permission p0"]);

    // The very next exchange of each session that runs.
    kept.permissions.lock().unwrap().clear();
    for scene in [&mut first, &mut later] {
        scene.stage.watcher.questions.clear();
        scene.stage.watcher.says = Some(Answer::No);
        scene.ask().await;
        assert_eq!(scene.stage.watcher.questions.len(), 1);
    }
}

/// What another app may be told is not what this one may, nor is what it may ask for.
#[tokio::test]
async fn a_permission_is_for_this_direction_and_these_taints() {
    let rules = guarded();
    for (of, under) in [
        (collaboration(Direction::Asking), note()),
        (collaboration(Direction::Answering), label("secret")),
        (
            Collaboration {
                asks: "quick".to_owned(),
                ..collaboration(Direction::Answering)
            },
            note(),
        ),
        (
            Collaboration {
                functionality: "rides".to_owned(),
                ..collaboration(Direction::Answering)
            },
            note(),
        ),
    ] {
        let kept = Arc::new(Kept::default());
        kept.permissions.lock().unwrap().push((of.clone(), under));
        let mut scene = metro(&rules, &kept);
        scene.ask().await;
        assert_eq!(scene.stage.watcher.questions.len(), 1, "{of:?}");
    }
}

/// In strict mode each direction is consented to once, for the taints that the message has; a message
/// with more is asked about again.
#[tokio::test]
async fn consent_in_strict_mode_lasts_for_the_taints_that_were_shown() {
    let kept = Arc::new(Kept::default());
    let strict = Rules {
        strict: true,
        ..Rules::default()
    };
    let mut scene = metro(&strict, &kept);
    scene.stage.watcher.says = Some(Answer::Always);
    scene.ask().await;
    let asked: Vec<_> = scene.stage.watcher.questions.drain(..).collect();
    let stages = asked.iter().map(|question| {
        assert_eq!(question.choices, ALL);
        question.message.as_ref().unwrap().stage.unwrap()
    });
    let stages: Vec<Message> = stages.collect();
    assert_eq!(stages, [Message::Probe, Message::Response]);
    let asking = collaboration(Direction::Asking);
    let both = [
        (asking.clone(), Label::bottom()),
        (collaboration(Direction::Answering), note()),
    ];
    assert_eq!(*kept.permissions.lock().unwrap(), both);
    assert_eq!(notes(&scene, MessageKind::Request), ["permission p0"]);

    let mut later = metro(&strict, &kept);
    later.ask().await;
    assert!(later.stage.watcher.questions.is_empty());
    // Now `rider` has read the note: what it asks for may tell of it.
    later.stage.watcher.says = Some(Answer::No);
    later.ask().await;
    let [question] = later.stage.watcher.questions.as_slice() else {
        panic!("{:?}", later.stage.watcher.questions);
    };
    assert_eq!(question.covers, ["untrusted", "secret"]);
    assert_eq!(question.collaboration, Some(asking));
}

/// What came from nobody knows where is consented to once: the probe in strict mode, otherwise the call
/// that serves the request.
#[tokio::test]
async fn the_unknown_is_never_kept() {
    for strict in [false, true] {
        let kept = Arc::new(Kept::default());
        let rules = Rules {
            strict,
            takes: Label::bottom(),
            ..Rules::default()
        };
        let mut scene = metro(&rules, &kept);
        scene.stage.watcher.says = Some(Answer::Always);
        let query = Labeled::unknown("What does it cost?");
        let outcome = scene.ask_labelled(query).await;
        let [question] = scene.stage.watcher.questions.as_slice() else {
            panic!("strict: {strict}: {:?}", scene.stage.watcher.questions);
        };
        assert_eq!(
            question.choices,
            [Answer::Once, Answer::No],
            "strict: {strict}"
        );
        assert_eq!(outcome.refused, 1);
        assert!(kept.permissions.lock().unwrap().is_empty());
    }
}

/// The call that serves a request is no message: a permission of two apps would bound none of its arguments. The second
/// request is made by what the first one brought, which the tool does not take unasked.
#[tokio::test]
async fn the_call_that_serves_a_request_is_not_allowed_for_good() {
    let kept = Arc::new(Kept::default());
    let rules = Rules {
        takes: Label::bottom(),
        ..Rules::default()
    };
    let mut scene = metro(&rules, &kept);
    scene.ask().await;
    assert!(scene.stage.watcher.questions.is_empty());
    scene.stage.watcher.says = Some(Answer::Always);
    scene.ask().await;
    let [question] = scene.stage.watcher.questions.as_slice() else {
        panic!("{:?}", scene.stage.watcher.questions);
    };
    assert_eq!(
        (question.tool.as_str(), question.choices.as_slice()),
        ("echo", &[Answer::Once, Answer::Session, Answer::No][..])
    );
    // Not by a permission for the messages either.
    let asking = collaboration(Direction::Asking);
    kept.permissions.lock().unwrap().push((asking, note()));
    scene.ask().await;
    assert_eq!(scene.stage.watcher.questions.len(), 2);
}

/// Whatever was kept about two apps: what cannot be undone is asked about each time.
#[tokio::test]
async fn the_irreversible_is_asked_about_whatever_was_kept() {
    let kept = Arc::new(Kept::default());
    let everything = Direction::ALL.map(|direction| (collaboration(direction), note()));
    kept.permissions.lock().unwrap().extend(everything);
    let rules = Rules {
        takes: Label::bottom(),
        effect: Effect::Irreversible,
        ..Rules::default()
    };
    let mut scene = metro(&rules, &kept);
    scene.ask().await;
    assert!(
        scene.stage.watcher.questions.is_empty(),
        "trusted, and the first"
    );
    scene.stage.watcher.says = Some(Answer::Always);
    for times in 1..3 {
        let outcome = scene.ask().await;
        assert_eq!(
            (scene.stage.watcher.questions.len(), outcome.refused),
            (times, 1)
        );
    }
    let offered = &scene.stage.watcher.questions[0].choices;
    assert_eq!(*offered, [Answer::Once, Answer::No]);
}

/// For the session: as far as for good, and gone with it.
#[tokio::test]
async fn a_word_for_the_session_ends_with_it() {
    let (kept, rules) = (Arc::new(Kept::default()), guarded());
    let mut scene = metro(&rules, &kept);
    scene.stage.watcher.says = Some(Answer::Session);
    for _ in 0..2 {
        scene.ask().await;
    }
    assert_eq!(scene.stage.watcher.questions.len(), 1);
    assert!(kept.permissions.lock().unwrap().is_empty());
    let mut next = metro(&rules, &kept);
    next.ask().await;
    assert_eq!(next.stage.watcher.questions.len(), 1);
}

const SERVING: [(&str, &str); 2] = [("metro", "ok"), ("quick", "ok")];

fn take(app: &str, keep: bool) -> Selection {
    let app = app.to_owned();
    Selection::App { app, keep }
}

/// Who served each request, and who had chosen it.
fn chosen(scene: &Scene) -> Vec<(Option<String>, String)> {
    scene.stage.traced(|event| match event {
        Event::ServingChosen {
            asks,
            functionality,
            among,
            serves,
            by,
        } => {
            assert_eq!((asks.as_str(), functionality.as_str()), ("rider", "fare"));
            assert_eq!(among, ["metro", "quick"]);
            Some((serves, by))
        }
        _ => None,
    })
}

/// Of several apps the user chooses, once in a session. The question says who asks for what.
#[tokio::test]
async fn the_user_chooses_among_several_apps_once() {
    let mut scene = Scene::new(&SERVING, Rules::default(), &returning(FARE));
    scene.stage.watcher.selections = [take("quick", false)].into();
    for _ in 0..2 {
        scene.ask().await;
    }
    let [view] = scene.stage.watcher.selected_among.as_slice() else {
        panic!("{:?}", scene.stage.watcher.selected_among);
    };
    let serving = view.serving.as_ref().unwrap();
    assert_eq!(view.apps, ["metro", "quick"]);
    assert_eq!(
        (
            serving.asks.as_str(),
            serving.functionality.as_str(),
            view.can_keep
        ),
        ("rider", "fare", false)
    );
    assert!(scene.stage.started().contains("quick"));
    assert!(!scene.stage.started().contains("metro"));
    let quick = Some("quick".to_owned());
    assert_eq!(
        chosen(&scene),
        [
            (quick.clone(), "user".to_owned()),
            (quick, "user, earlier in this session".to_owned())
        ]
    );
    for selects in [
        Selection::None,
        Selection::Absent,
        Selection::Each,
        take("rider", false),
        take("quick", true),
    ] {
        let mut scene = Scene::new(&SERVING, Rules::default(), &returning(FARE));
        scene.stage.watcher.selections = [selects.clone()].into();
        assert!(
            scene.said().await.starts_with("not executed, denied."),
            "{selects:?}"
        );
        assert_eq!(scene.stage.started().len(), 1);
        assert_eq!(chosen(&scene)[0].0, None);
    }
}

#[tokio::test]
async fn a_choice_among_serving_apps_is_kept_until_it_is_revoked() {
    let (kept, rules) = (Arc::new(Kept::default()), Rules::default());
    let mut first = scene(&SERVING, &rules, &kept);
    first.stage.watcher.selections = [take("quick", true)].into();
    first.ask().await;
    assert!(first.stage.watcher.selected_among[0].can_keep);
    let mut later = scene(&SERVING, &rules, &kept);
    for scene in [&mut first, &mut later] {
        scene.stage.watcher.selected_among.clear();
        scene.ask().await;
        assert!(scene.stage.watcher.selected_among.is_empty());
        let by = (Some("quick".to_owned()), "permission c0".to_owned());
        assert_eq!(chosen(scene).last(), Some(&by));
    }
    *kept.choice.lock().unwrap() = None;
    for scene in [&mut first, &mut later] {
        scene.stage.watcher.selections = [take("metro", false)].into();
        scene.ask().await;
        assert_eq!(scene.stage.watcher.selected_among.len(), 1);
    }
    // What cannot be kept is no choice: nobody shall believe that it was.
    let full = Arc::new(Kept {
        is_full: true,
        ..Kept::default()
    });
    let mut refused = scene(&SERVING, &rules, &full);
    refused.stage.watcher.selections = [take("quick", true)].into();
    assert!(refused.said().await.starts_with("not executed, denied."));
    let (serves, by) = chosen(&refused).remove(0);
    assert_eq!(serves, None);
    assert!(by.contains("there is no room"), "{by}");
}

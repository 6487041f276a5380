//! A functionality that is served by the other app's own conversation (SecGPT §4.3).
//!
//! `rider` asks for `fare`, which `metro` serves; `metro` may ask for `route`, which `atlas` serves, and
//! `atlas` for `place`, which only `rider` does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hub::isc::{Functionality, Offer, Schema, ServedBy};
use hub::trace::{Event, MessageKind, Record};
use hub::{AnswerShape, CompletionRequest, Outcome, Stop};
use ifc::{
    Answer, Call, Effect, Exceeded, Label, Labeled, Policy, PolicyError, PromptMessage, Rule, Sink,
};
use llm::{Broker, Scripted, call_answer, text_answer};

use crate::asks::{forms, label, whole};
use crate::stage::{self, Stage, newest_results};

const NO_ANSWER: &str = "no usable answer came. Go on without it.";

/// What each is in a prompt of whoever serves it.
const FUNCTIONALITIES: [(&str, &str, &str); 3] = [
    ("fare", "metro", "What a ride costs."),
    ("route", "atlas", "How one gets there."),
    ("place", "rider", "Where somebody is."),
];

fn functionalities() -> Vec<Arc<Functionality>> {
    let (request, response) = forms();
    let all = FUNCTIONALITIES.into_iter();
    let all = all.map(|(name, app, description)| {
        Arc::new(Functionality {
            name: name.to_owned(),
            description: description.to_owned(),
            request: Schema::read(&request).unwrap(),
            response: Schema::read(&response).unwrap(),
            offers: vec![Offer {
                app: app.to_owned(),
                by: ServedBy::Conversation,
                taint: label("untrusted"),
            }],
        })
    });
    all.collect()
}

/// Everything may flow; calls of `metro` are asked about if this says so. What apps return is secret if it
/// says so itself.
struct Open {
    asks: bool,
}

impl Policy for Open {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let (name, always_ask) = match sink {
            Sink::Call(call) => {
                let name = format!("{}.{}", call.app, call.tool);
                (name, self.asks && call.app == "metro")
            }
            Sink::Answer(_) => ("answer".to_owned(), false),
            Sink::Delivery(_) => ("messages".to_owned(), false),
            _ => return Err(PolicyError("no rule".to_owned())),
        };
        Ok(Rule {
            same_by: None,
            counted: None,
            limit: Label::top(),
            effect: Effect::Read,
            name,
            always_ask,
            approvers: None,
            exceeded: Exceeded::Ask,
            arguments: BTreeMap::new(),
        })
    }

    fn label_result(&self, _: &Call, result: String, is_error: bool) -> Labeled {
        match (is_error, result.contains("secret")) {
            (true, _) => Labeled::unknown(result),
            (false, true) => Labeled::label_tcb(result, label("secret")),
            (false, false) => Labeled::trusted_tcb(result),
        }
    }
}

/// What the model does in one conversation: it calls a tool once, then says this, and this where it is
/// asked for an answer of the form.
#[derive(Clone)]
struct Part {
    call: Option<(&'static str, &'static str)>,
    says: &'static str,
    formed: &'static str,
}

impl Part {
    fn saying(says: &'static str) -> Self {
        Self {
            call: Some(("echo", r#"{"text":"two zones"}"#)),
            says,
            formed: "not this either",
        }
    }

    fn asking(tool: &'static str) -> Self {
        Self {
            call: Some((tool, r#"{"text":"to the harbour"}"#)),
            ..Self::saying("")
        }
    }
}

/// The prompts, each with what its conversation serves; the user's serves nothing.
type Shown = Arc<Mutex<Vec<(&'static str, String)>>>;

/// Plays these parts. Where a part says nothing, what came last is said.
fn plays(name: &str, parts: Vec<(&'static str, Part)>, shown: &Shown) -> Scripted {
    let shown = Arc::clone(shown);
    Scripted::new(name, move |request: &CompletionRequest| {
        let system = match request.prompt.messages().first() {
            Some(PromptMessage::System(text)) => text.clone(),
            _ => String::new(),
        };
        let served = FUNCTIONALITIES.iter();
        let mut served = served.filter(|(_, _, description)| system.contains(description));
        let serves = served.next().map_or("", |(name, ..)| name);
        shown.lock().unwrap().push((serves, whole(request)));
        let (_, part) = parts.iter().find(|(name, _)| *name == serves).unwrap();
        if let AnswerShape::Json { .. } = request.shape {
            return text_answer(part.formed);
        }
        let came = newest_results(request).into_iter().next();
        match (came, part.call) {
            (None, Some((tool, arguments))) => call_answer(tool, arguments),
            (Some(came), _) if part.says.is_empty() => text_answer(came),
            _ => text_answer(part.says),
        }
    })
}

struct Scene {
    stage: Stage,
    shown: Shown,
}

impl Scene {
    /// `rider` asks for the fare, and the others play these parts.
    fn new(parts: &[(&'static str, Part)]) -> Self {
        Self::with(parts, |_| {})
    }

    fn with(
        parts: &[(&'static str, Part)],
        change: impl FnOnce(&mut server::SessionSetup),
    ) -> Self {
        Self::cleared(parts, Label::top(), change)
    }

    /// The same, where the provider `metro's` has this clearance.
    fn cleared(
        parts: &[(&'static str, Part)],
        clearance: Label,
        change: impl FnOnce(&mut server::SessionSetup),
    ) -> Self {
        let shown = Shown::default();
        let mut all = vec![("", Part::asking("ask__fare"))];
        all.extend(parts.iter().cloned());
        let general = Arc::new(plays("general", all.clone(), &shown));
        let own = Arc::new(plays("metro's", all, &shown));
        let broker = Broker::new(general, Label::top());
        let broker = broker.with_provider(own, clearance).unwrap();
        let mut stage = Stage::start("ok", broker, |setup| {
            setup.parts.policy = Arc::new(Open { asks: false });
            let apps = ["rider", "metro", "atlas"];
            setup.apps = apps.map(|app| stage::app(app, "ok")).into();
            setup.functionalities = functionalities();
            change(setup);
        });
        stage.watcher.says = Some(Answer::Once);
        Self { stage, shown }
    }

    async fn ask(&mut self) -> Outcome {
        let asked = self.stage.ask_apps(&["rider"], "My doctor is far away");
        asked.await.unwrap()
    }

    async fn said(&mut self) -> String {
        let outcome = self.ask().await;
        outcome.result.unwrap().reveal_tcb().to_owned()
    }

    /// The prompts of the conversation that serves this.
    fn shown_to(&self, serves: &str) -> Vec<String> {
        let shown = self.shown.lock().unwrap();
        let own = shown.iter().filter(|(it, _)| *it == serves);
        own.map(|(_, prompt)| prompt.clone()).collect()
    }

    fn records(&self) -> Vec<Record> {
        self.stage.watcher.records.clone()
    }

    fn messages(&self) -> Vec<(String, MessageKind)> {
        self.stage.traced(|event| match event {
            Event::Message {
                message,
                functionality,
                ..
            } => Some((functionality, message)),
            _ => None,
        })
    }
}

/// The other app's model answers with its own tools. Neither conversation is told of the other more than
/// the messages, and the trace tells them apart.
#[tokio::test]
async fn a_conversation_of_the_other_app_answers() {
    let mut scene = Scene::new(&[("fare", Part::saying(r#"{"fare": 4.5, "note": "by tram"}"#))]);
    let outcome = scene.ask().await;
    let said = outcome.result.unwrap();
    assert_eq!(said.reveal_tcb(), r#"{"fare":4.5,"note":"by tram"}"#);
    assert_eq!((outcome.refused, outcome.dropped), (0, 0));
    let (asks, serves) = (scene.shown_to(""), scene.shown_to("fare"));
    assert_eq!((asks.len(), serves.len()), (2, 2));
    for prompt in &asks {
        assert!(
            !prompt.contains("two zones") && !prompt.contains("metro"),
            "{prompt}"
        );
    }
    for prompt in &serves {
        assert!(prompt.contains("to the harbour"), "{prompt}");
        assert!(
            !prompt.contains("doctor") && !prompt.contains("rider"),
            "{prompt}"
        );
    }
    let records = scene.records();
    let within = records
        .iter()
        .filter(|record| record.conversation.as_deref() == Some("metro for rider"));
    let within: Vec<&Event> = within.map(|record| &record.event).collect();
    assert!(matches!(
        within.first(),
        Some(Event::Serving { asks, functionality, text, .. })
            if asks == "rider" && functionality == "fare" && text.contains("to the harbour")
    ));
    let ran =
        |event: &&&Event| matches!(event, Event::Returned { call, .. } if call.app == "metro");
    assert_eq!(within.iter().filter(ran).count(), 1);
}

/// What it learned while it served is not in its own conversation with the user, nor in the next one.
#[tokio::test]
async fn each_request_has_a_conversation_of_its_own() {
    let mut scene = Scene::new(&[("fare", Part::saying(r#"{"fare": 4.5}"#))]);
    scene.ask().await;
    scene.ask().await;
    let serves = scene.shown_to("fare");
    assert_eq!(serves.len(), 4);
    assert_eq!(serves[0], serves[2]);
    assert_eq!(serves[1], serves[3]);
}

/// Words that are not of the form are asked for once more in it; what is not of it even then is dropped.
#[tokio::test]
async fn an_answer_is_brought_into_its_form_or_dropped() {
    let words = Part::saying("It is four euros fifty.");
    let mut scene = Scene::new(&[(
        "fare",
        Part {
            formed: r#"{"fare": 4.5}"#,
            ..words.clone()
        },
    )]);
    assert_eq!(scene.said().await, r#"{"fare":4.5}"#);
    assert_eq!(scene.shown_to("fare").len(), 3);
    let mut scene = Scene::new(&[("fare", words)]);
    let outcome = scene.ask().await;
    assert_eq!(outcome.result.unwrap().reveal_tcb(), NO_ANSWER);
    assert_eq!(outcome.dropped, 1);
    let last = scene.messages().pop();
    assert_eq!(last, Some(("fare".to_owned(), MessageKind::Dropped)));
}

/// A conversation that serves keeps to what its own model may see, whatever the one that asks is cleared for.
#[tokio::test]
async fn a_conversation_that_serves_keeps_to_the_clearance_of_its_own_model() {
    let part = Part {
        call: Some(("echo", r#"{"text":"secret zones"}"#)),
        ..Part::saying(r#"{"fare": 4.5}"#)
    };
    for (clearance, masked) in [(label("untrusted"), true), (Label::top(), false)] {
        let parts = [("fare", part.clone())];
        let mut scene = Scene::cleared(&parts, clearance, |setup| {
            setup.apps[1].provider = Some("metro's".to_owned());
            setup.apps[1].descriptions = Label::bottom();
        });
        assert_eq!(scene.said().await, r#"{"fare":4.5}"#);
        let serves = scene.shown_to("fare");
        assert_eq!(serves[1].contains("[redacted]"), masked, "{}", serves[1]);
        let told = scene.records().into_iter().filter_map(|record| {
            let is_told = matches!(record.event, Event::Uncleared { .. });
            is_told.then_some(record.conversation)
        });
        let expected = masked.then(|| Some("metro for rider".to_owned()));
        assert_eq!(told.collect::<Vec<_>>(), Vec::from_iter(expected));
    }
}

/// A response has the label of the prompt that it was made from, numbers too; free text that of its sender
/// as well.
#[tokio::test]
async fn a_response_is_as_secret_as_what_it_was_made_from() {
    for (read, expected) in [
        (r#"{"text":"two zones"}"#, vec!["untrusted"]),
        (r#"{"text":"secret zones"}"#, vec!["untrusted", "secret"]),
    ] {
        let part = Part {
            call: Some(("echo", read)),
            ..Part::saying(r#"{"fare": 4.5, "note": "by tram"}"#)
        };
        let mut scene = Scene::with(&[("fare", part)], |setup| {
            setup.apps[1].descriptions = Label::bottom();
        });
        let said = scene.ask().await.result.unwrap();
        let expected = expected.into_iter().map(label);
        let expected = expected.fold(Label::bottom(), |all, next| all.join(&next));
        assert_eq!(said.label(), expected);
    }
    let secret = Part {
        call: Some(("echo", r#"{"text":"secret zones"}"#)),
        ..Part::saying(r#"{"fare": 4.5}"#)
    };
    let mut scene = Scene::with(&[("fare", secret)], |setup| {
        setup.apps[1].descriptions = Label::bottom();
    });
    assert_eq!(scene.ask().await.result.unwrap().label(), label("secret"));
}

/// Calls in such a conversation are decided on as any other, and a question says for whom they are.
#[tokio::test]
async fn a_question_names_who_acts_and_for_whom() {
    let mut scene = Scene::with(&[("fare", Part::saying(r#"{"fare": 4.5}"#))], |setup| {
        setup.parts.policy = Arc::new(Open { asks: true })
    });
    scene.ask().await;
    let [question] = scene.stage.watcher.questions.as_slice() else {
        panic!("{:?}", scene.stage.watcher.questions);
    };
    let message = question.message.as_ref().unwrap();
    assert_eq!(
        (question.app.as_str(), question.tool.as_str()),
        ("metro", "echo")
    );
    assert_eq!(
        (message.from.as_str(), message.functionality.as_str()),
        ("rider", "fare")
    );
    assert!(message.conversed && message.stage.is_none() && message.waiting.is_empty());
}

/// An app that serves may ask further ones. Whoever waits is not asked, and the model that asks is told
/// what it is told where nobody serves it.
#[tokio::test]
async fn apps_ask_each_other_in_a_chain_and_not_in_a_circle() {
    let parts = [
        ("fare", Part::asking("ask__route")),
        ("route", Part::asking("ask__place")),
    ];
    let fare = |says| Part {
        says,
        ..parts[0].1.clone()
    };
    let route = |says| Part {
        says,
        ..parts[1].1.clone()
    };
    let answers = r#"{"fare": 4.5}"#;
    let chain = [("fare", fare(answers)), ("route", route(answers))];
    let mut scene = Scene::new(&chain);
    assert_eq!(scene.said().await, r#"{"fare":4.5}"#);
    let told = scene.shown_to("route").pop().unwrap();
    assert!(told.contains(NO_ANSWER), "{told}");
    assert!(scene.messages().iter().all(|(name, _)| name != "place"));
    let circle = |event: &Event| matches!(event, Event::Rejected { reason, .. } if reason.contains("no app can serve"));
    assert!(scene.records().iter().any(|record| circle(&record.event)));
    // Where nobody serves it, that is what it is told as well.
    let mut unserved = Scene::with(&chain, |setup| {
        setup.functionalities[2] = {
            let mut place = Functionality::clone(&setup.functionalities[2]);
            place.offers.clear();
            Arc::new(place)
        }
    });
    unserved.said().await;
    assert_eq!(unserved.shown_to("route"), scene.shown_to("route"));
    // With less room the chain ends sooner, and in the same words.
    let mut short = Scene::with(&chain, |setup| setup.parts.settings.limits.hops = 1);
    assert_eq!(short.said().await, r#"{"fare":4.5}"#);
    assert!(short.shown_to("route").is_empty());
    let told = short.shown_to("fare").pop().unwrap();
    assert!(told.contains(NO_ANSWER), "{told}");
}

/// The app's own model answers for it, and no other.
#[tokio::test]
async fn the_serving_apps_own_model_answers() {
    let mut scene = Scene::with(&[("fare", Part::saying(r#"{"fare": 4.5}"#))], |setup| {
        setup.apps[1].provider = Some("metro's".to_owned())
    });
    scene.ask().await;
    let providers = scene
        .records()
        .into_iter()
        .filter_map(|record| match record.event {
            Event::Completed { provider, .. } => Some((record.conversation.is_some(), provider)),
            _ => None,
        });
    for (serves, provider) in providers {
        assert_eq!(provider, if serves { "metro's" } else { "general" });
    }
}

/// The asking app's turn goes on when the time for the answer is over, and the serving one's does not.
#[tokio::test]
async fn a_conversation_that_takes_too_long_is_ended_and_the_asking_one_goes_on() {
    let part = Part::saying(r#"{"fare": 4.5}"#);
    let mut scene = Scene::with(&[("fare", part)], |setup| {
        setup.parts.policy = Arc::new(Open { asks: true });
        setup.parts.serving_timeout = Duration::from_secs(2);
    });
    scene.stage.watcher.pause = Duration::from_secs(3600);
    let outcome = scene.ask().await;
    assert_eq!(outcome.result.unwrap().reveal_tcb(), NO_ANSWER);
    assert_eq!(outcome.dropped, 1);
    let ran = |record: &Record| matches!(record.event, Event::Returned { .. });
    assert!(!scene.records().iter().any(ran));
}

/// Whoever interrupts a chain interrupts all of it.
#[tokio::test]
async fn an_interruption_ends_the_whole_chain() {
    let answers = r#"{"fare": 4.5}"#;
    let chain = [
        (
            "fare",
            Part {
                says: answers,
                ..Part::asking("ask__route")
            },
        ),
        ("route", Part::saying(answers)),
    ];
    let mut scene = Scene::with(&chain, |setup| {
        // Only where the chain is longest is anybody asked.
        setup.functionalities[1] = {
            let mut route = Functionality::clone(&setup.functionalities[1]);
            route.offers[0].app = "metro".to_owned();
            Arc::new(route)
        };
        setup.functionalities[0] = {
            let mut fare = Functionality::clone(&setup.functionalities[0]);
            fare.offers[0].app = "atlas".to_owned();
            Arc::new(fare)
        };
        setup.parts.policy = Arc::new(Open { asks: true });
    });
    scene.stage.watcher.pause = Duration::from_secs(3600);
    let cancel = Arc::clone(&scene.stage.cancel);
    let asked = scene
        .stage
        .when(|event| matches!(event, Event::Asked { .. }));
    tokio::spawn(async move {
        asked.await;
        cancel.notify_one();
    });
    let outcome = scene.ask().await;
    assert_eq!(outcome.result, Err(Stop::Interrupted));
    let [question] = scene.stage.watcher.questions.as_slice() else {
        panic!("{:?}", scene.stage.watcher.questions);
    };
    let message = question.message.as_ref().unwrap();
    assert_eq!(message.from, "atlas");
    assert_eq!(message.waiting, ["rider"]);
    // Each of the three is ended, the innermost first.
    let stopped = scene
        .records()
        .into_iter()
        .filter_map(|record| match record.event {
            Event::Stopped { reason, .. } => Some((record.conversation, reason.to_string())),
            _ => None,
        });
    let conversations = ["metro for atlas", "atlas for rider"].map(|name| Some(name.to_owned()));
    let expected: Vec<_> = conversations.into_iter().chain([None]).collect();
    let stopped: Vec<_> = stopped.collect();
    assert!(
        stopped.iter().all(|(_, reason)| reason == "interrupted"),
        "{stopped:?}"
    );
    assert_eq!(
        stopped.into_iter().map(|(it, _)| it).collect::<Vec<_>>(),
        expected
    );
    // The next query finds everything in order.
    scene.stage.watcher.pause = Duration::ZERO;
    assert_eq!(scene.said().await, r#"{"fare":4.5}"#);
}

/// A serving app that is not there, or goes away, is no end of the asking one.
#[tokio::test]
async fn the_asking_conversation_outlives_a_serving_app_that_fails() {
    for mode in ["crash-at-start", "exit-mid-call"] {
        let part = Part::saying(r#"{"fare": 4.5}"#);
        let mut scene = Scene::with(&[("fare", part)], |setup| {
            setup.apps[1] = stage::app("metro", mode);
        });
        let outcome = scene.ask().await;
        assert_eq!(outcome.result.unwrap().reveal_tcb(), NO_ANSWER, "{mode}");
        assert_eq!(outcome.dropped, 1, "{mode}");
        for prompt in scene.shown_to("") {
            assert!(!prompt.contains("metro"), "{prompt}");
        }
    }
}

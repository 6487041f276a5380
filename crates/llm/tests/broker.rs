//! Who is asked, and who never is.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use hub::{AnswerShape, Completion, CompletionRequest, Purpose};
use ifc::{History, Label, Labeled, redact};
use llm::{
    Broker, BrokerError, Cleared, DeltaSink, NoDeltas, Provider, ProviderError, Recorder, Replay,
    Scripted, text_answer,
};

/// A provider that is away, before or after its first word, and counts who asked.
struct Away {
    name: &'static str,
    begins: bool,
    asked: Arc<AtomicUsize>,
}

#[async_trait]
impl Provider for Away {
    fn name(&self) -> &str {
        self.name
    }

    async fn complete(
        &self,
        _: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.begins {
            sink.text("so");
        }
        Err(ProviderError::Unreachable {
            provider: self.name.to_owned(),
            reason: "no route".to_owned(),
        })
    }
}

fn request(text: &str, label: Label) -> CompletionRequest {
    let mut history = History::new(Vec::new());
    history.push_user(Labeled::label_tcb(text, label.clone()));
    CompletionRequest {
        prompt: redact(&history, &label),
        purpose: Purpose::Step,
        shape: AnswerShape::Text,
        max_tokens: 10,
    }
}

fn scripted(name: &'static str) -> Arc<dyn Provider> {
    Arc::new(Scripted::new(name, move |_| text_answer(name)))
}

fn away(name: &'static str, begins: bool) -> (Arc<dyn Provider>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let provider = Away {
        name,
        begins,
        asked: asked.clone(),
    };
    (Arc::new(provider), asked)
}

#[tokio::test]
async fn a_prompt_goes_to_the_first_provider_that_is_cleared() {
    let (cloud, asked) = away("cloud", false);
    let broker = Broker::new(cloud, Label::bottom())
        .with_provider(scripted("local"), Label::top())
        .unwrap();
    let secret = request("secret", Label::top());

    let error = broker.complete(&secret, &mut NoDeltas).await.unwrap_err();
    assert!(
        matches!(&error, ProviderError::AboveClearance { provider, .. } if provider == "cloud")
    );
    assert!(!format!("{error} {error:?}").contains("secret"));

    let broker = broker.with_default_route(["cloud", "local"]).unwrap();
    let answer = broker.complete(&secret, &mut NoDeltas).await.unwrap();
    assert_eq!(answer.provider, "local");
    let named = broker.complete_by("cloud", &secret, &mut NoDeltas).await;
    assert!(matches!(
        named,
        Some(Err(ProviderError::AboveClearance { .. }))
    ));
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the cloud was contacted");
}

/// A provider is judged by the name that it was configured with, not by how somebody spells it.
#[tokio::test]
async fn a_provider_is_cleared_by_its_name_and_for_its_label_only() {
    let broker = Broker::new(scripted("remote"), Label::bottom())
        .with_provider(scripted("local"), Label::top())
        .unwrap();
    let sent = async |provider: &str, label: Label| {
        let request = request("text", label);
        let answer = broker.complete_by(provider, &request, &mut NoDeltas).await;
        answer.is_some_and(|answer| answer.is_ok())
    };
    assert!(sent("remote", Label::bottom()).await);
    assert!(!sent("remote", Label::top()).await);
    assert!(sent("local", Label::top()).await);
    for other in ["", "https://remote", "REMOTE", "remote "] {
        assert!(!sent(other, Label::bottom()).await, "{other}");
    }
}

#[tokio::test]
async fn the_next_provider_is_asked_only_before_the_first_word() {
    for (begins, expected) in [(false, Some("local")), (true, None)] {
        let (cloud, asked) = away("cloud", begins);
        let broker = Broker::new(cloud, Label::bottom())
            .with_provider(scripted("local"), Label::bottom())
            .and_then(|broker| broker.with_default_route(["cloud", "local"]))
            .unwrap();
        let answer = broker
            .complete(&request("hi", Label::bottom()), &mut NoDeltas)
            .await;
        let provider = answer.ok().map(|answer| answer.provider);
        assert_eq!(provider.as_deref(), expected);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn each_purpose_may_have_its_own_route() {
    let broker = Broker::new(scripted("main"), Label::bottom())
        .with_provider(scripted("judge"), Label::top())
        .and_then(|broker| broker.with_route(Purpose::Judge, ["judge"]))
        .unwrap();
    let mut question = request("hi", Label::bottom());
    let answer = broker.complete(&question, &mut NoDeltas).await.unwrap();
    assert_eq!(answer.provider, "main");
    question.purpose = Purpose::Judge;
    let answer = broker.complete(&question, &mut NoDeltas).await.unwrap();
    assert_eq!(answer.provider, "judge");
}

#[test]
fn a_broker_is_not_built_from_mistakes() {
    let broker = || Broker::new(scripted("main"), Label::bottom());
    let check = |built: Result<Broker, BrokerError>, expected: &str| {
        assert_eq!(built.unwrap_err().to_string(), expected);
    };
    check(
        broker().with_provider(scripted("main"), Label::top()),
        "two providers are called `main`; rename one",
    );
    check(
        broker().with_route(Purpose::Judge, ["gone"]),
        "the route for judge names the provider `gone`, which is not configured; add it or change the route",
    );
    check(
        broker().with_default_route(Vec::<String>::new()),
        "the route for everything else is empty; name at least one provider",
    );
}

#[tokio::test]
async fn a_replay_takes_exactly_the_recorded_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.jsonl");
    let count = AtomicUsize::new(0);
    let counting = Scripted::new("main", move |_| {
        text_answer(format!("answer {}", count.fetch_add(1, Ordering::SeqCst)))
    });
    let recorder = Recorder::create(Arc::new(counting), &path).unwrap();
    let broker = Broker::new(Arc::new(recorder), Label::bottom());
    let ask = |text: &str| request(text, Label::bottom());
    for text in ["same", "other secret", "same"] {
        broker.complete(&ask(text), &mut NoDeltas).await.unwrap();
    }
    let record = std::fs::read_to_string(&path).unwrap();
    assert_eq!(record.lines().count(), 3);
    assert!(!record.contains("secret"), "a record holds no prompts");

    let broker = Broker::new(
        Arc::new(Replay::open("main", &path).unwrap()),
        Label::bottom(),
    );
    for (text, expected) in [
        ("other secret", Ok("answer 1")),
        ("same", Ok("answer 0")),
        (
            "changed",
            Err(
                "provider `main`: step 3 is not in the record: message 1 differs from recorded step 3; record the run again",
            ),
        ),
        ("same", Ok("answer 2")),
        (
            "same",
            Err(
                "provider `main`: step 5 is not in the record: all 3 recorded steps are used; record the run again",
            ),
        ),
    ] {
        let answer = broker.complete(&ask(text), &mut NoDeltas).await;
        let answer = answer.map(|a| a.completion.text).map_err(|e| e.to_string());
        assert_eq!(answer, expected.map(str::to_owned).map_err(str::to_owned));
    }

    for bad in ["{}\n", "not json\n", "\n"] {
        std::fs::write(&path, bad).unwrap();
        let error = Replay::open("main", &path).unwrap_err().to_string();
        assert!(error.contains("line 1: "), "{error}");
    }
}

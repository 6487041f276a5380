//! Who is asked, and who never is.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use hub::{AnswerShape, Completion, CompletionRequest, Purpose};
use ifc::{History, Label, Labeled, redact};
use llm::{
    Broker, BrokerError, Cleared, DeltaSink, ErrorKind, NoDeltas, Provider, ProviderError,
    RequestOptions, Scripted, text_answer,
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
        Err(ErrorKind::Unreachable("no route".to_owned()).at(self.name))
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
    assert_eq!(error, ErrorKind::AboveClearance.at("cloud"));
    assert!(!format!("{error} {error:?}").contains("secret"));

    let broker = broker.with_default_route(["cloud", "local"]).unwrap();
    let answer = broker.complete(&secret, &mut NoDeltas).await.unwrap();
    assert_eq!(answer.provider, "local");
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
        let (route, options) = ([provider.to_owned()], RequestOptions::default());
        let sink = &mut NoDeltas;
        let answer = broker.complete_over(&route, &request, &options, sink);
        answer.await.is_ok()
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
        assert_eq!(built.err().unwrap().to_string(), expected);
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

//! A model behind the API that `sluice` knows, and every prompt that it was given.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use hub::{AnswerShape, Completion, CompletionRequest};
use ifc::PromptMessage;
use llm::models::{Cache, QWEN_CODER_1_5B, find};
use llm::{Cleared, DeltaSink, Embedded, Provider, ProviderError};

use crate::sluice::{binary, serve_model};

/// The model's name in configurations, whichever it is.
pub(crate) const NAME: &str = "lab";

#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// The messages and what the tools said of themselves.
    pub(crate) text: String,
    /// Whether a step of an agent was asked for, or an answer to the user; not a judgement or a plan.
    pub(crate) is_step: bool,
}

/// A model server, and what it was asked.
pub(crate) struct Served {
    pub(crate) base_url: String,
    shown: Arc<Mutex<Vec<Shown>>>,
}

impl Served {
    pub(crate) fn prompts(&self) -> Vec<Shown> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }

    /// Begins anew.
    pub(crate) fn forget(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clear();
    }
}

/// The embedded model, by the name that it has as a provider.
pub(crate) fn embedded(name: &str) -> Result<Arc<dyn Provider>> {
    let model = find(QWEN_CODER_1_5B).context("the default model is unknown")?;
    let file = Cache::of_user()?.open(model)?;
    Ok(Arc::new(Embedded::new(name, binary("sluice-model")?, file)))
}

/// `[[provider]]` for a model that is served at this address.
pub(crate) fn provider_table(base_url: &str) -> String {
    format!(
        "[[provider]]\nname = \"{NAME}\"\nkind = \"openai\"\nmodel = \"{NAME}\"\nbase_url = \"{base_url}\"\nclearance = \"any\"\n"
    )
}

/// Starts a model on loopback.
pub(crate) async fn serve(model: Arc<dyn Provider>) -> Result<Served> {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder {
        model,
        shown: Arc::clone(&shown),
    };
    let base_url = serve_model(Arc::new(recorder)).await?;
    Ok(Served { base_url, shown })
}

/// A model that keeps what it was shown.
struct Recorder {
    model: Arc<dyn Provider>,
    shown: Arc<Mutex<Vec<Shown>>>,
}

#[async_trait]
impl Provider for Recorder {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        // Before it is answered: a prompt whose answer is not waited for was shown as well.
        let prompt = shown(request.request());
        self.shown
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(prompt);
        self.model.complete(request, sink).await
    }
}

fn shown(request: &CompletionRequest) -> Shown {
    let messages = request.prompt.messages().iter();
    let said = messages.map(|message| match message {
        PromptMessage::System(text) | PromptMessage::User(text) => text.as_str(),
        PromptMessage::Assistant { text, .. } => text,
        PromptMessage::Tool { content, .. } => content,
    });
    let tools = request.prompt.tools().iter();
    let described = tools.map(|tool| tool.description.as_str());
    let texts: Vec<&str> = said.chain(described).collect();
    Shown {
        text: texts.join("\n"),
        // Plans and judgements are asked for as JSON, and steps and answers never are.
        is_step: !matches!(request.shape, AnswerShape::Json { .. }),
    }
}

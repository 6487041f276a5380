//! A provider without a model: its answers are a function of the request. For tests and experiments.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use hub::{Completion, CompletionRequest, ProposedCall, StopReason};
use ifc::{Prompt, PromptMessage};

use crate::{
    Cleared,
    provider::{DeltaSink, Provider, ProviderError},
};

type Script = Box<dyn Fn(&CompletionRequest) -> Completion + Send + Sync>;

/// Answers from a script. A word counts as a token.
pub struct Scripted {
    name: String,
    script: Script,
    pace: Duration,
}

impl Scripted {
    /// A provider that answers what `script` says. The script sees what a model would see.
    pub fn new(
        name: &str,
        script: impl Fn(&CompletionRequest) -> Completion + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            script: Box::new(script),
            pace: Duration::ZERO,
        }
    }

    /// Waits so long before each word, for tests that interrupt an answer.
    #[must_use]
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }
}

#[async_trait]
impl Provider for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let started = Instant::now();
        let request = request.request();
        let mut answer = (self.script)(request);
        // As a real provider does, so that tests of the token limit need no model.
        if let Some(end) = end_of_words(&answer.text, request.max_tokens) {
            answer.text.truncate(end);
            answer.stop = StopReason::Length;
        }
        for word in words(&answer.text) {
            if !self.pace.is_zero() {
                tokio::time::sleep(self.pace).await;
            }
            answer
                .usage
                .time_to_first_token
                .get_or_insert(started.elapsed());
            sink.text(word);
        }
        answer.usage.prompt_tokens = prompt_words(&request.prompt);
        let calls = answer.calls.iter().map(|call| count(&call.arguments) + 1);
        answer.usage.completion_tokens = calls.fold(count(&answer.text), u32::saturating_add);
        answer.usage.total_time = started.elapsed();
        Ok(answer)
    }
}

/// An answer of text only.
pub fn text_answer(text: impl Into<String>) -> Completion {
    Completion {
        text: text.into(),
        ..Completion::default()
    }
}

/// An answer of one call; `arguments` is JSON text.
pub fn call_answer(tool: impl Into<String>, arguments: impl Into<String>) -> Completion {
    Completion {
        calls: vec![ProposedCall {
            tool: tool.into(),
            arguments: arguments.into(),
        }],
        ..Completion::default()
    }
}

fn text_of(message: &PromptMessage) -> &str {
    match message {
        PromptMessage::System(text) | PromptMessage::User(text) => text,
        PromptMessage::Assistant { text, .. } => text,
        PromptMessage::Tool { content, .. } => content,
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

fn count(text: &str) -> u32 {
    u32::try_from(words(text).count()).unwrap_or(u32::MAX)
}

fn prompt_words(prompt: &Prompt) -> u32 {
    let counts = prompt
        .messages()
        .iter()
        .map(|message| count(text_of(message)));
    counts.fold(0, u32::saturating_add)
}

/// Where the text must be cut, if it has more than `limit` words.
fn end_of_words(text: &str, limit: u32) -> Option<usize> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let end = words(text).take(limit).map(str::len).sum();
    (end < text.len()).then_some(end)
}

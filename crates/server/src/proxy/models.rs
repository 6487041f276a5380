//! The models that clients may name.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use llm::{HttpProvider, RequestOptions};
use serde_json::Value;

use crate::locks::lock;

/// Names that are remembered. Aggregators list some hundred, and each key may have its own.
const MAX_NAMES: usize = 10_000;
/// How long an upstream that gave no list is not asked again.
const PAUSE: Duration = Duration::from_secs(60);

/// The upstream, and the names of the models that it has listed so far.
pub(super) struct Models {
    pub(super) upstream: Arc<HttpProvider>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    names: HashSet<String>,
    /// When the upstream gave no list.
    unlisted: Option<Instant>,
}

impl Models {
    pub(super) fn new(upstream: Arc<HttpProvider>) -> Self {
        let known = Mutex::default();
        Self { upstream, known }
    }

    /// Whether the upstream has a model of this name; `None` if it does not list its models. It is asked about a name
    /// that is new, with the key of the request.
    pub(super) async fn has(&self, name: &str, options: &RequestOptions) -> Option<bool> {
        if let Some(known) = self.known(name) {
            return known;
        }
        let list = self.upstream.models(options).await;
        let list = list.ok().and_then(|list| names(&list));
        let mut known = lock(&self.known);
        let Some(list) = list else {
            known.unlisted = Some(Instant::now());
            return None;
        };
        if known.names.len() + list.len() > MAX_NAMES {
            known.names.clear();
        }
        known.names.extend(list);
        known.unlisted = None;
        Some(known.has(name))
    }

    /// What is known without asking.
    fn known(&self, name: &str) -> Option<Option<bool>> {
        let known = lock(&self.known);
        if name == self.upstream.model() || known.has(name) {
            return Some(Some(true));
        }
        let is_recent = |since: &Instant| since.elapsed() < PAUSE;
        known
            .unlisted
            .as_ref()
            .is_some_and(is_recent)
            .then_some(None)
    }
}

impl Known {
    /// Ollama takes a name without its tag, Gemini one without its collection.
    fn has(&self, name: &str) -> bool {
        let written = [
            name.to_owned(),
            format!("{name}:latest"),
            format!("models/{name}"),
        ];
        written.iter().any(|name| self.names.contains(name))
    }
}

fn names(list: &[u8]) -> Option<Vec<String>> {
    let list: Value = serde_json::from_slice(list).ok()?;
    let models = list.get("data")?.as_array()?.iter();
    let names = models.filter_map(|model| Some(model.get("id")?.as_str()?.to_owned()));
    Some(names.collect())
}

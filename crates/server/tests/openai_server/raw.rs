//! Requests as clients send them, and a provider that says whether it works.

use async_trait::async_trait;
use hub::Completion;
use llm::{Cleared, DeltaSink, Provider, ProviderError, Scripted};
use reqwest::{Client, RequestBuilder};
use tokio::sync::watch;

pub(crate) fn client() -> Client {
    // Another test of this process may have done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().tls_certs_only([]);
    client.build().unwrap()
}

pub(crate) fn get(url: &str, path: &str) -> RequestBuilder {
    client().get(format!("{}{path}", url.strip_suffix("/v1").unwrap()))
}

pub(crate) fn post(url: &str, body: &str) -> RequestBuilder {
    let post = client().post(format!("{url}/chat/completions"));
    let post = post.header("content-type", "application/json");
    post.body(body.to_owned())
}

/// The status and the body of the answer.
pub(crate) async fn sent(request: RequestBuilder) -> (u16, String) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, response.text().await.unwrap())
}

/// A provider that tells when no call is under way any more.
pub(crate) struct Watched {
    inner: Scripted,
    /// Calls begun, and calls ended or dropped.
    calls: watch::Sender<(usize, usize)>,
}

impl Watched {
    pub(crate) fn new(inner: Scripted) -> Self {
        let (calls, _) = watch::channel((0, 0));
        Self { inner, calls }
    }

    /// Waits until so many calls have begun.
    pub(crate) async fn begun(&self, count: usize) {
        let mut calls = self.calls.subscribe();
        calls.wait_for(|(begun, _)| *begun == count).await.unwrap();
    }

    /// Waits until so many calls have begun, and all of them are over.
    pub(crate) async fn idle_after(&self, count: usize) {
        let mut calls = self.calls.subscribe();
        let over = calls.wait_for(|calls| *calls == (count, count));
        over.await.unwrap();
    }
}

struct Ended<'a>(&'a watch::Sender<(usize, usize)>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|(_, ended)| *ended += 1);
    }
}

#[async_trait]
impl Provider for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        self.calls.send_modify(|(begun, _)| *begun += 1);
        let _ended = Ended(&self.calls);
        self.inner.complete(request, sink).await
    }
}

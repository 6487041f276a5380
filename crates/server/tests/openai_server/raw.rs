//! Requests by hand, and a provider that says whether it works.

use async_trait::async_trait;
use hub::Completion;
use llm::{Cleared, DeltaSink, Provider, ProviderError, Scripted};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

fn address(url: &str) -> &str {
    let url = url.strip_prefix("http://").unwrap();
    url.strip_suffix("/v1").unwrap()
}

/// Sends bytes and returns the status and the body of the answer.
pub(crate) async fn send(url: &str, request: &[u8]) -> (u16, String) {
    let stream = TcpStream::connect(address(url)).await.unwrap();
    let (mut input, mut output) = stream.into_split();
    let request = request.to_vec();
    // A server that refuses early does not read the rest. The half is given back, since dropping
    // it would close the connection before the answer.
    let writing = tokio::spawn(async move {
        output.write_all(&request).await.unwrap_or_default();
        output
    });
    let mut answer = Vec::new();
    input.read_to_end(&mut answer).await.unwrap_or_default();
    drop(writing.await.unwrap());
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

pub(crate) async fn get(url: &str, path: &str) -> (u16, String) {
    let host = address(url);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    send(url, request.as_bytes()).await
}

pub(crate) async fn post(url: &str, body: &str) -> (u16, String) {
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        address(url),
        body.len()
    );
    send(url, request.as_bytes()).await
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

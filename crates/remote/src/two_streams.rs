//! HTTP with server-sent events (MCP 2024-11-05): one stream for all that the server says, whose first event names the
//! address that messages are sent to.

use std::sync::Arc;

use names::WebUrl;
use reqwest::header::HeaderMap;

use crate::http::{Content, Events, Http, content};
use crate::output::{Output, gone};
use crate::trouble::Trouble;

/// A server whose stream is open.
pub(crate) struct TwoStreams {
    http: Arc<Http>,
    endpoint: WebUrl,
}

impl TwoStreams {
    /// Opens the stream, and learns where messages go. The future passes on what the server says; it ends with the stream.
    pub(crate) async fn open(
        http: Arc<Http>,
        output: Output,
    ) -> Result<(Self, impl Future<Output = Result<(), Trouble>> + use<>), Trouble> {
        let response = http.listen(&HeaderMap::new()).await?;
        if !response.status().is_success() {
            return Err(Trouble::Status(response.status()));
        }
        if content(&response) != Content::Events {
            return Err(Trouble::Form("its answer is no stream of events"));
        }
        let mut events = Events::new(response);
        let endpoint = loop {
            let event = events.next().await?;
            let event = event.ok_or(Trouble::Form("its stream has no endpoint"))?;
            if event.name == "endpoint" {
                let reference = String::from_utf8(event.data);
                let reference = reference.map_err(|_| Trouble::Form("its endpoint is no text"))?;
                // Another origin is refused before anything is sent, see `Http::raw`.
                break http.url().join(reference.trim())?;
            }
        };
        let stream = async move {
            while let Some(event) = events.next().await? {
                if matches!(&*event.name, "" | "message") {
                    output.message(event.data).await.map_err(gone)?;
                }
            }
            Err(Trouble::Broken("the stream has ended".to_owned()))
        };
        Ok((Self { http, endpoint }, stream))
    }

    /// Sends a message. Its answer comes by the stream.
    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<(), Trouble> {
        let none = HeaderMap::new();
        let response = self.http.post(&self.endpoint, message, &none).await?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(Trouble::Status(response.status())),
        }
    }
}

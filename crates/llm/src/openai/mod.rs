//! OpenAI-compatible chat completions over HTTP.

mod answer;
mod body;
mod config;
mod endpoint;
mod retry;
mod sse;

use std::{
    error::Error,
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use hub::Completion;
use reqwest::{
    Client, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
    redirect,
};

pub use self::config::{
    ApiKey, DEFAULT_BASE_URL, Limits, OpenAiConfig, OpenAiConfigError, Retry, Timeouts,
    TokenLimitField,
};
pub use self::endpoint::{BASE_URL_VARIABLE, DEFAULT_KEY_VARIABLE, Endpoint, KeyElsewhere};
use self::{
    answer::{ApiError, Assembly, ErrorBody, Refused},
    body::ToolNames,
    sse::{SseError, SseParser},
};
use crate::{
    Cleared, RequestOptions,
    provider::{DeltaSink, Provider, ProviderError, one_line},
};

/// Bytes of an error's body that are read: enough for the message, whatever the server sends.
const ERROR_BODY_LIMIT: usize = 64 << 10;

/// A model behind an OpenAI-compatible server.
///
/// Redirects are not followed: the configured address is the one that is cleared.
#[derive(Debug)]
pub struct OpenAi {
    config: OpenAiConfig,
    url: Url,
    models: Url,
    client: Client,
}

/// One request, as each attempt sends it.
struct Sending<'a> {
    body: Vec<u8>,
    names: ToolNames,
    /// The caller's key, where it counts.
    key: Option<&'a ApiKey>,
}

/// Why one attempt failed, and whether another one may help.
struct Failure {
    error: ProviderError,
    retry: bool,
    asked: Option<Duration>,
}

impl Failure {
    fn last(error: ProviderError) -> Self {
        Self {
            error,
            retry: false,
            asked: None,
        }
    }
}

impl OpenAi {
    /// Prepares a client. Nothing is sent.
    ///
    /// # Errors
    /// The configuration is not usable.
    pub fn new(config: OpenAiConfig) -> Result<Self, OpenAiConfigError> {
        let url = endpoint(&config, "chat/completions")?;
        let models = endpoint(&config, "models")?;
        let loopback = is_loopback(&url);
        if url.scheme() == "http" && !loopback && !config.allow_plain_http {
            return Err(OpenAiConfigError::PlainHttp {
                provider: config.name,
            });
        }
        // Fails when the process has chosen a provider already; that one serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = Client::builder()
            .default_headers(headers(&config)?)
            .redirect(redirect::Policy::none())
            .connect_timeout(config.timeouts.connect)
            .read_timeout(config.timeouts.read);
        if loopback {
            builder = builder.no_proxy();
        }
        if url.scheme() == "http" {
            // Never used, and must not be missed on a machine without CA certificates.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| OpenAiConfigError::Client {
            provider: config.name.clone(),
            reason: describe(error),
        })?;
        Ok(Self {
            config,
            url,
            models,
            client,
        })
    }

    /// Whether it has a key of its own, which every request uses.
    pub fn has_own_key(&self) -> bool {
        self.config.api_key.is_some()
    }

    /// The caller's key, if it may bring one: a configured key is for everybody.
    fn key<'a>(&self, options: &'a RequestOptions) -> Option<&'a ApiKey> {
        let own = self.config.api_key.is_some();
        let key = options.bearer.as_ref();
        key.filter(|_| self.config.pass_through && !own)
    }

    /// The server's list of models, as it is: JSON text of limited length.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub async fn models(&self, options: &RequestOptions) -> Result<Vec<u8>, ProviderError> {
        let key = self.key(options).or(self.config.api_key.as_ref());
        let request = self.client.get(self.models.clone());
        let request = match key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        };
        let sent = request.timeout(self.config.timeouts.connect).send().await;
        let response = sent.map_err(|error| self.network(error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response, key).await.error);
        }
        let read = read_body(response, self.config.limits.event).await;
        match read.map_err(|error| self.network(error))? {
            (_, true) => Err(self
                .too_large("the list of models", self.config.limits.event)
                .error),
            (body, false) => Ok(body),
        }
    }

    async fn complete_with_retries(
        &self,
        sending: &Sending<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let started = Instant::now();
        let mut attempt = 0;
        loop {
            let assembly = Assembly::new(started);
            let failure = match self.attempt(sending, assembly, sink).await {
                Ok(completion) => return Ok(completion),
                Err(failure) => failure,
            };
            let wait = self.config.retry.wait(attempt, failure.asked);
            let Some(wait) = wait.filter(|_| failure.retry) else {
                return Err(failure.error);
            };
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        sending: &Sending<'_>,
        assembly: Assembly,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let request = self.client.post(self.url.clone());
        let request = match sending.key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        };
        let sent = request.body(sending.body.clone()).send();
        let response = sent.await.map_err(|error| {
            let retry = !error.is_timeout() || error.is_connect();
            Failure {
                error: self.network(error),
                retry,
                asked: None,
            }
        })?;
        if !response.status().is_success() {
            return Err(self.refusal(response, sending.key).await);
        }
        let streamed = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        if streamed {
            self.read_stream(response, sending, assembly, sink).await
        } else {
            self.read_whole(response, sending, assembly, sink).await
        }
    }

    async fn read_stream(
        &self,
        mut response: Response,
        sending: &Sending<'_>,
        mut assembly: Assembly,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let limits = self.config.limits;
        let mut parser = SseParser::new(limits.event);
        let mut received = 0usize;
        while !assembly.is_finished() {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => {
                    return Err(Failure {
                        retry: !assembly.has_begun() && !error.is_timeout(),
                        error: self.network(error),
                        asked: None,
                    });
                }
            };
            received = received.saturating_add(chunk.len());
            if received > limits.response {
                return Err(self.too_large("the answer", limits.response));
            }
            parser.push(&chunk).map_err(|error| match error {
                SseError::TooLarge => self.too_large("an event of the answer", limits.event),
                SseError::NotUtf8 => Failure::last(self.malformed(&error.to_string(), sending.key)),
            })?;
            while let Some(event) = parser.next_event() {
                assembly
                    .event(&event, sink)
                    .map_err(|refused| self.refused(refused, sending.key))?;
            }
        }
        let retry = !assembly.has_begun();
        assembly.complete(&sending.names).ok_or_else(|| Failure {
            error: self.unreachable("the answer ended too early"),
            retry,
            asked: None,
        })
    }

    async fn read_whole(
        &self,
        response: Response,
        sending: &Sending<'_>,
        mut assembly: Assembly,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let limit = self.config.limits.response;
        let (body, cut) = read_body(response, limit).await.map_err(|error| Failure {
            retry: !error.is_timeout(),
            error: self.network(error),
            asked: None,
        })?;
        if cut {
            return Err(self.too_large("the answer", limit));
        }
        assembly
            .json(&body, sink)
            .map_err(|refused| self.refused(refused, sending.key))?;
        assembly.complete(&sending.names).ok_or_else(|| {
            let reason = "the answer does not say why it ended";
            Failure::last(self.malformed(reason, sending.key))
        })
    }

    /// The error for an HTTP status that is not a success.
    async fn refusal(&self, response: Response, key: Option<&ApiKey>) -> Failure {
        let provider = self.config.name.clone();
        let code = response.status().as_u16();
        let asked = retry::retry_after(response.headers(), SystemTime::now());
        let body = read_body(response, ERROR_BODY_LIMIT).await;
        let body = body.map(|(body, _)| body).unwrap_or_default();
        let reported = match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) => body.error,
            Err(_) => ApiError {
                message: String::from_utf8_lossy(&body).into_owned(),
                ..ApiError::default()
            },
        };
        let error = match code {
            429 if !is_spent(&reported) => ProviderError::RateLimited {
                provider,
                retry_after: asked,
            },
            413 => ProviderError::TooLarge {
                provider,
                what: "the request, says the server, which",
                limit: self.config.limits.request,
            },
            _ => self.reported(code, &reported, key),
        };
        Failure {
            retry: error.is_outage() || code == 408,
            error,
            asked,
        }
    }

    fn refused(&self, refused: Refused, key: Option<&ApiKey>) -> Failure {
        Failure::last(match refused {
            Refused::Malformed(reason) => self.malformed(&reason, key),
            Refused::Reported(error) => self.reported(200, &error, key),
        })
    }

    fn reported(&self, code: u16, error: &ApiError, key: Option<&ApiKey>) -> ProviderError {
        let provider = self.config.name.clone();
        let message = self.quote(&error.message, key);
        if is_context_length(error) {
            ProviderError::ContextLength { provider, message }
        } else {
            ProviderError::Status {
                provider,
                code,
                message,
                names: Box::new(error.names()),
            }
        }
    }

    fn network(&self, error: reqwest::Error) -> ProviderError {
        let provider = self.config.name.clone();
        if !error.is_timeout() {
            let reason = self.quote(&describe(error), None);
            return ProviderError::Unreachable { provider, reason };
        }
        let (what, after) = if error.is_connect() {
            ("connecting", self.config.timeouts.connect)
        } else {
            ("the next piece of the answer", self.config.timeouts.read)
        };
        ProviderError::Timeout {
            provider,
            what,
            after,
        }
    }

    fn unreachable(&self, reason: &str) -> ProviderError {
        ProviderError::Unreachable {
            provider: self.config.name.clone(),
            reason: reason.to_owned(),
        }
    }

    fn malformed(&self, reason: &str, key: Option<&ApiKey>) -> ProviderError {
        ProviderError::Malformed {
            provider: self.config.name.clone(),
            reason: self.quote(reason, key),
        }
    }

    fn too_large(&self, what: &'static str, limit: usize) -> Failure {
        Failure::last(ProviderError::TooLarge {
            provider: self.config.name.clone(),
            what,
            limit,
        })
    }

    /// A server's words for an error: one short line, and never the key, which some servers echo.
    fn quote(&self, text: &str, key: Option<&ApiKey>) -> String {
        let key = key.or(self.config.api_key.as_ref());
        match key.map(ApiKey::expose) {
            Some(key) if !key.is_empty() => one_line(&text.replace(key, "(key)")),
            _ => one_line(text),
        }
    }
}

#[async_trait]
impl Provider for OpenAi {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn complete(
        &self,
        call: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let request = call.request();
        let options = call.options();
        let names = ToolNames::new(&request.prompt);
        let body = body::body(&self.config, &names, request, options).map_err(|reason| {
            ProviderError::Unsendable {
                provider: self.config.name.clone(),
                reason,
            }
        })?;
        let limit = self.config.limits.request;
        if body.len() > limit {
            return Err(self.too_large("the request", limit).error);
        }
        let total = self.config.timeouts.total;
        let sending = Sending {
            body,
            key: self.key(options),
            names,
        };
        tokio::time::timeout(total, self.complete_with_retries(&sending, sink))
            .await
            .unwrap_or_else(|_| {
                Err(ProviderError::Timeout {
                    provider: self.config.name.clone(),
                    what: "the whole call",
                    after: total,
                })
            })
    }
}

fn endpoint(config: &OpenAiConfig, path: &str) -> Result<Url, OpenAiConfigError> {
    let refuse = || OpenAiConfigError::BaseUrl {
        provider: config.name.clone(),
    };
    let base = config.base_url.trim_end_matches('/');
    let url: Url = format!("{base}/{path}").parse().map_err(|_| refuse())?;
    let plain = url.username().is_empty() && url.password().is_none();
    let usable = matches!(url.scheme(), "http" | "https")
        && plain
        && url.has_host()
        && url.query().is_none()
        && url.fragment().is_none();
    if usable { Ok(url) } else { Err(refuse()) }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn headers(config: &OpenAiConfig) -> Result<HeaderMap, OpenAiConfigError> {
    let mut headers =
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    if let Some(key) = &config.api_key {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(|_| {
                OpenAiConfigError::Key {
                    provider: config.name.clone(),
                }
            })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// At most `limit` bytes of a body, and whether there were more.
async fn read_body(mut response: Response, limit: usize) -> reqwest::Result<(Vec<u8>, bool)> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = limit - body.len();
        if chunk.len() > room {
            body.extend(chunk.into_iter().take(room));
            return Ok((body, true));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, false))
}

/// The error with its causes: the outermost one says only that sending failed.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// A 429 that waiting does not cure: no money left.
fn is_spent(error: &ApiError) -> bool {
    let code = error.code.as_ref().and_then(|code| code.as_str());
    [code, error.r#type.as_deref()].contains(&Some("insufficient_quota"))
}

fn is_context_length(error: &ApiError) -> bool {
    let code = error.code.as_ref().and_then(|code| code.as_str());
    [code, error.r#type.as_deref()]
        .into_iter()
        .flatten()
        .any(|code| {
            matches!(
                code,
                "context_length_exceeded" | "exceed_context_size_error"
            )
        })
        || error.message.contains("maximum context length")
}

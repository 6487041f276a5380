//! Models behind servers, in three dialects over one HTTP client.

mod answer;
mod asked;
mod chat;
mod config;
mod dialect;
mod endpoint;
mod failure;
mod json;
mod messages;
mod names;
mod responses;
mod retry;
mod schema;

use std::time::Instant;

use async_trait::async_trait;
use hub::{AnswerShape, Completion};
use reqwest::{
    Client, RequestBuilder, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};

pub use self::asked::thoughts;
pub use self::config::{Check, HttpConfig, HttpConfigError, Limits, Retry, Timeouts};
pub use self::dialect::{Dialect, Usual};
pub use self::endpoint::{Endpoint, KeyElsewhere};
pub use self::json::JsonForm;
use self::{
    answer::{Bounds, Reader},
    asked::Asked,
    failure::{Failure, describe, read_body},
    names::ToolNames,
};
use crate::{
    ApiKey, Cleared, RequestOptions,
    provider::{DeltaSink, ErrorKind, NoDeltas, Provider, ProviderError},
};

/// The version of Anthropic's API that requests are written for.
const VERSION: (HeaderName, HeaderValue) = (
    HeaderName::from_static("anthropic-version"),
    HeaderValue::from_static("2023-06-01"),
);
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");
/// The feature without which Anthropic's server refuses the token of a login.
const LOGIN_BETA: &str = "oauth-2025-04-20";

/// A model behind a server.
///
/// Redirects are not followed: the configured address is the one that is cleared.
#[derive(Debug)]
pub struct HttpProvider {
    config: HttpConfig,
    url: Url,
    models: Url,
    client: Client,
}

/// One request, as each attempt sends it.
struct Sending<'a> {
    body: Vec<u8>,
    /// The features of its API that the body uses, if they are no part of it yet.
    beta: Option<HeaderValue>,
    traceparent: Option<HeaderValue>,
    names: ToolNames,
    /// The caller's key, where it counts.
    key: Option<&'a ApiKey>,
}

impl HttpProvider {
    /// Prepares a client. Nothing is sent.
    ///
    /// # Errors
    /// The configuration is not usable.
    pub fn new(config: HttpConfig) -> Result<Self, HttpConfigError> {
        let url = endpoint(&config, config.dialect.path())?;
        let models = endpoint(&config, "models")?;
        // By the parsed address, as the client will read it: `127.1` and `[::1]` are recognised, and a host that only
        // begins with `localhost` is not.
        let loopback = is_loopback(&url);
        if url.scheme() == "http" && !loopback && !config.allow_plain_http {
            return Err(HttpConfigError::PlainHttp(config.name));
        }
        let client = client(&config, loopback, url.scheme() == "https")?;
        Ok(Self {
            config,
            url,
            models,
            client,
        })
    }

    /// The configured model.
    pub fn model(&self) -> &str {
        &self.config.model
    }

    /// The API that its server speaks.
    pub fn dialect(&self) -> Dialect {
        self.config.dialect
    }

    /// Whether it has a key of its own, which every request uses.
    pub fn has_own_key(&self) -> bool {
        self.config.api_key.is_some()
    }

    /// The caller's key, if it may bring one: a configured key is for everybody.
    fn key<'a>(&self, options: &'a RequestOptions) -> Option<&'a ApiKey> {
        let own = self.config.api_key.is_some();
        let key = options.bearer.as_ref();
        // Without pass-through a caller's key was not meant for this server and must not reach it.
        key.filter(|_| self.config.pass_through && !own)
    }

    /// A request with its key, if it may be sent now.
    fn begin(
        &self,
        request: RequestBuilder,
        key: Option<&ApiKey>,
    ) -> Result<RequestBuilder, ProviderError> {
        (self.config.before_send)(&self.config.base_url)
            .map_err(|reason| ErrorKind::Unreachable(reason).at(&self.config.name))?;
        Ok(match key {
            Some(key) => {
                let header = authorization(self.config.dialect, key);
                let unfit = || ErrorKind::Unsendable("the API key is not one".to_owned());
                let (name, value) = header.ok_or_else(|| unfit().at(&self.config.name))?;
                request.header(name, value)
            }
            None => request,
        })
    }

    /// The server's list of models, as it is: JSON text of limited length.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub async fn models(&self, options: &RequestOptions) -> Result<Vec<u8>, ProviderError> {
        let key = self.key(options).or(self.config.api_key.as_ref());
        let request = self.begin(self.client.get(self.models.clone()), key)?;
        // A list of models takes no time to make, so the short limit holds for all of it. Never above the one between
        // two pieces: that would end it first, and the error would name this one.
        let limit = (self.config.timeouts.connect).min(self.config.timeouts.read);
        let network = |error: reqwest::Error| match error.is_timeout() && !error.is_connect() {
            true => ErrorKind::Timeout {
                what: "the list of models",
                after: limit,
            }
            .at(&self.config.name),
            false => self.config.network(error),
        };
        let response = request.timeout(limit).send().await.map_err(network)?;
        if !response.status().is_success() {
            return Err(self.config.refusal(response, key).await.error);
        }
        let read = read_body(response, self.config.limits.event).await;
        match read.map_err(network)? {
            (_, true) => Err(self
                .config
                .too_large("the list of models", self.config.limits.event)
                .error),
            (body, false) => Ok(body),
        }
    }

    async fn answer(
        &self,
        call: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let (request, options) = (call.request(), call.options());
        let options = &*options.in_dialect(self.config.dialect);
        // Made from the prompt alone, so that both directions of one request agree on the names.
        let names = ToolNames::new(&request.prompt);
        let unsendable = |reason| ErrorKind::Unsendable(reason).at(&self.config.name);
        let asked = Asked::new(&self.config, &names, request, options).map_err(unsendable)?;
        let body = match self.config.dialect {
            Dialect::Chat => chat::body(&asked),
            Dialect::Messages => messages::body(&asked),
            Dialect::Responses => responses::body(&asked),
        };
        let body = body.map_err(|error| unsendable(error.to_string()))?;
        let limit = self.config.limits.request;
        if body.len() > limit {
            return Err(self.config.too_large("the request", limit).error);
        }
        let key = self.key(options);
        let is_login = self.config.dialect == Dialect::Messages
            && key
                .or(self.config.api_key.as_ref())
                .is_some_and(ApiKey::is_login);
        let beta = match (options.beta.as_deref(), is_login) {
            (Some(beta), true) if !beta.contains(LOGIN_BETA) => {
                Some(format!("{LOGIN_BETA},{beta}"))
            }
            (None, true) => Some(LOGIN_BETA.to_owned()),
            (beta, _) => beta.map(str::to_owned),
        };
        let sending = Sending {
            body,
            beta: beta.and_then(|beta| HeaderValue::from_str(&beta).ok()),
            traceparent: (options.traceparent.as_deref())
                .and_then(|span| HeaderValue::from_str(span).ok()),
            key,
            names,
        };
        if !matches!(request.shape, AnswerShape::Json { .. }) {
            let answered = self.complete_with_retries(&sending, sink).await;
            return answered.map_err(|failure| sending.names.blame(failure.error));
        }
        // JSON is passed on whole, since it can come as a call or in a code fence.
        let answered = self.complete_with_retries(&sending, &mut NoDeltas).await;
        let completion = json::as_text(answered.map_err(|failure| failure.error)?);
        if !completion.text.is_empty() {
            sink.text(&completion.text);
        }
        Ok(completion)
    }

    async fn complete_with_retries(
        &self,
        sending: &Sending<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let started = Instant::now();
        let mut attempt = 0;
        loop {
            // Each attempt reads into a new answer: pieces of a broken one must not be joined to the next. The time
            // counts from the first.
            let failure = match self.attempt(sending, started, sink).await {
                Ok(completion) => return Ok(completion),
                Err(failure) => failure,
            };
            let wait = self.config.retry.wait(attempt, failure.asked);
            // Whether a retry is safe is decided where the failure is; how often and how long by the configuration.
            let Some(wait) = wait.filter(|_| failure.retry) else {
                return Err(failure);
            };
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        sending: &Sending<'_>,
        started: Instant,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let request = self.client.post(self.url.clone());
        // The server may only be starting again, as after a connection that is refused.
        let request = (self.begin(request, sending.key)).map_err(|it| Failure::new(it, true))?;
        let request = match &sending.beta {
            Some(beta) => request.header(BETA, beta),
            None => request,
        };
        let request = match &sending.traceparent {
            Some(span) => request.header("traceparent", span),
            None => request,
        };
        let sent = request.body(sending.body.clone()).send();
        let response = sent.await.map_err(|error| {
            // A server that was too slow for one request is not given a second one beside it.
            let retry = !error.is_timeout() || error.is_connect();
            Failure::new(self.config.network(error), retry)
        })?;
        if !response.status().is_success() {
            return Err(self.config.refusal(response, sending.key).await);
        }
        let limits = self.config.limits;
        let mut reader = Reader::new(
            self.config.dialect,
            Bounds {
                stream: limits.response,
                event: limits.event,
            },
        );
        self.read(response, &mut reader, sending, started, sink)
            .await?;
        let has_begun = reader.has_begun();
        let completion = reader.complete(&self.config.name, started.elapsed());
        let refuse = |refused| self.config.refused(refused, has_begun, sending.key);
        let mut completion = completion.map_err(refuse)?;
        for call in &mut completion.calls {
            call.tool = sending.names.received(&call.tool).to_owned();
        }
        Ok(completion)
    }

    /// Reads an answer to its end, and passes on the pieces that come, also those before a refusal.
    async fn read(
        &self,
        mut response: Response,
        reader: &mut Reader,
        sending: &Sending<'_>,
        started: Instant,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        while !reader.is_over() {
            let taken = match response.chunk().await {
                Ok(Some(chunk)) => reader.push(&chunk, started.elapsed()),
                Ok(None) => reader.end(started.elapsed()),
                Err(error) => {
                    let retry = !reader.has_begun() && !error.is_timeout();
                    return Err(Failure::new(self.config.network(error), retry));
                }
            };
            while let Some(piece) = reader.poll() {
                sink.text(&piece);
            }
            let refuse = |refused| (self.config).refused(refused, reader.has_begun(), sending.key);
            taken.map_err(refuse)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Provider for HttpProvider {
    fn name(&self) -> &str {
        &self.config.name
    }

    async fn complete(
        &self,
        call: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let total = self.config.timeouts.total;
        // Around everything, retries included.
        tokio::time::timeout(total, self.answer(call, sink))
            .await
            .unwrap_or_else(|_| {
                let kind = ErrorKind::Timeout {
                    what: "the complete call",
                    after: total,
                };
                Err(kind.at(&self.config.name))
            })
    }
}

fn endpoint(config: &HttpConfig, path: &str) -> Result<Url, HttpConfigError> {
    let refuse = || HttpConfigError::BaseUrl(config.name.clone());
    let mut base = config.base_url.trim_end_matches('/').to_owned();
    if config.dialect == Dialect::Messages && !base.ends_with("/v1") {
        base += "/v1";
    }
    let url: Url = format!("{base}/{path}").parse().map_err(|_| refuse())?;
    let plain = url.username().is_empty() && url.password().is_none();
    // A user name would put a secret in errors and logs; a query or fragment would swallow the path that is added
    // here.
    let usable = matches!(url.scheme(), "http" | "https")
        && plain
        && url.has_host()
        && url.query().is_none()
        && url.fragment().is_none();
    if usable { Ok(url) } else { Err(refuse()) }
}

fn is_loopback(url: &Url) -> bool {
    // `localhost` by name too, since RFC 6761 reserves it for loopback.
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Chooses the cryptography of TLS, without which no HTTP client can be built.
pub fn set_up_tls() {
    // Fails when the process has chosen a provider already; that one serves as well.
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// The HTTP client of a provider; `loopback` says whether its server is on this machine, and `tls` whether the connection
/// is encrypted.
fn client(config: &HttpConfig, loopback: bool, tls: bool) -> Result<Client, HttpConfigError> {
    set_up_tls();
    let mut builder = Client::builder()
        .default_headers(headers(config)?)
        // A redirect would take the prompt, and the key, to an address that was not cleared.
        .redirect(redirect::Policy::none())
        .connect_timeout(config.timeouts.connect)
        .read_timeout(config.timeouts.read);
    if loopback {
        // A proxy that the environment names would see prompts that are to stay on this machine.
        builder = builder.no_proxy();
    }
    if !tls {
        // Never used, and must not be missed on a machine without CA certificates.
        builder = builder.tls_certs_only([]);
    }
    let built = builder.build();
    built.map_err(|error| HttpConfigError::Client(config.name.clone(), describe(error)))
}

fn headers(config: &HttpConfig) -> Result<HeaderMap, HttpConfigError> {
    let mut headers =
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    if config.dialect == Dialect::Messages {
        headers.extend([VERSION]);
    }
    if let Some(key) = &config.api_key {
        let header = authorization(config.dialect, key);
        headers.extend([header.ok_or_else(|| HttpConfigError::Key(config.name.clone()))?]);
    }
    Ok(headers)
}

/// The header that carries a key; `None` if the key cannot stand in a header.
fn authorization(dialect: Dialect, key: &ApiKey) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = match dialect {
        Dialect::Messages if !key.is_bearer() => (
            HeaderName::from_static("x-api-key"),
            key.expose().to_owned(),
        ),
        _ => (AUTHORIZATION, format!("Bearer {}", key.expose())),
    };
    let mut value = HeaderValue::from_str(&value).ok()?;
    // So that the client's own logging leaves it out.
    value.set_sensitive(true);
    Some((name, value))
}

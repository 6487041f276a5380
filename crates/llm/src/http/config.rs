//! How a server is reached.

use std::time::Duration;

use super::Dialect;
use super::endpoint::is_default;
use super::json::JsonForm;
use crate::ApiKey;

/// Says why nothing may be sent to an address, if that is so.
pub type Check = fn(&str) -> Result<(), String>;

/// Configuration of an [`crate::HttpProvider`] provider.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// The provider's name in routes, errors and records.
    pub name: String,
    /// The API that it speaks.
    pub dialect: Dialect,
    /// Up to and without the path of a request, such as `/chat/completions`. `/v1` can be left out for messages, as in
    /// `ANTHROPIC_BASE_URL`.
    pub base_url: String,
    /// Local servers need none.
    pub api_key: Option<ApiKey>,
    /// The model's name, as the server knows it.
    pub model: String,
    /// Sampling temperature; the server's own default when absent.
    pub temperature: Option<f32>,
    /// Most tokens of one answer, where that is less than the request says: some servers refuse a higher limit than
    /// their model's.
    pub completion_tokens: Option<u32>,
    /// Whether answers are streamed. Only a server that cannot stream needs `false`.
    pub stream: bool,
    /// Whether the model takes images. Other models get a note of what each image is.
    pub images: bool,
    /// How JSON of a schema is asked for.
    pub json: JsonForm,
    /// Whether the limit on generated tokens is called `max_completion_tokens`, as OpenAI's newer models require, and not
    /// `max_tokens`, as nearly all other servers do. True by default for OpenAI's own address.
    pub max_completion_tokens: bool,
    /// Whether each request may bring its own model and key ([`crate::RequestOptions`]), as the
    /// clients of a proxy do. Both are then sent to this server.
    pub pass_through: bool,
    /// Whether plain `http` may leave this machine. Loopback addresses always may use it.
    pub allow_plain_http: bool,
    /// Called with the address before each attempt of a request, whether or not a connection is open. An error means that
    /// the server is unreachable, and nothing is sent.
    pub before_send: Check,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Retries.
    pub retry: Retry,
    /// Size limits.
    pub limits: Limits,
}

impl HttpConfig {
    /// Defaults for one server of chat completions and its model, without a key.
    pub fn new(name: &str, base_url: &str, model: &str) -> Self {
        Self::speaking(Dialect::Chat, name, base_url, model)
    }

    /// The same for a server of any dialect.
    pub fn speaking(dialect: Dialect, name: &str, base_url: &str, model: &str) -> Self {
        Self {
            name: name.to_owned(),
            dialect,
            base_url: base_url.to_owned(),
            api_key: None,
            model: model.to_owned(),
            temperature: None,
            completion_tokens: None,
            stream: true,
            images: false,
            json: match dialect {
                // Older models of its API know no other.
                Dialect::Messages => JsonForm::Call,
                Dialect::Chat | Dialect::Responses => JsonForm::Schema,
            },
            max_completion_tokens: is_default(Dialect::Chat, base_url),
            pass_through: false,
            allow_plain_http: false,
            before_send: |_| Ok(()),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            limits: Limits::default(),
        }
    }
}

/// Time limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection. 10 s: a server that is up accepts in less.
    pub connect: Duration,
    /// Between two pieces of an answer, the first included. 120 s: a local model reads a long
    /// prompt for that long on a slow machine.
    pub read: Duration,
    /// For the call with all its retries. 10 min.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(120),
            total: Duration::from_secs(600),
        }
    }
}

/// Retries after 429, 5xx and failed connections; never after the first piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first one. 4: with the default waits about 8 s, which outlasts a restart.
    pub attempts: u32,
    /// The first wait; each further one is twice as long, less up to half at random.
    pub base: Duration,
    /// The longest wait. A server that asks for a longer one gets its error passed on instead.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 4,
            base: Duration::from_millis(500),
            longest: Duration::from_secs(30),
        }
    }
}

/// Size limits, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A request's body. 32 MiB: far above any context.
    pub request: usize,
    /// An answer's body, all events together. 16 MiB: the longest answers of today's models are
    /// below 1 MiB, each token in an event of some 300 bytes.
    pub response: usize,
    /// One event of a streamed answer. 1 MiB.
    pub event: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: 32 << 20,
            response: 16 << 20,
            event: 1 << 20,
        }
    }
}

/// Why an [`crate::HttpProvider`] provider cannot be made. Each names the provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpConfigError {
    /// Not a usable address.
    #[error(
        "provider `{0}`: `base_url` is not an http or https address without user name, query or fragment; write it like `https://host/v1`"
    )]
    BaseUrl(String),
    /// Plain http to another machine.
    #[error(
        "provider `{0}`: `base_url` is plain http to another machine, which would show prompts and key to the network; use https or allow plain http"
    )]
    PlainHttp(String),
    /// The key cannot stand in a header.
    #[error("provider `{0}`: the API key holds characters that no key has; set it again")]
    Key(String),
    /// The HTTP client cannot start, and why.
    #[error("provider `{0}`: no HTTP client: {1}; install the system's CA certificates")]
    Client(String, String),
}

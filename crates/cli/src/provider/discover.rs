//! The language models that a user has already: keys in the environment, and servers on this machine.

use std::env;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use llm::models::QWEN_CODER_1_5B;
use llm::{ApiKey, Dialect, HttpConfig, HttpProvider, RequestOptions, Usual};
use serde_json::Value;
use url::Url;

use super::owner;
use crate::embedded;
use crate::terminal::say;

/// The variable with the name of a model of OpenAI's API.
pub(super) const MODEL_VARIABLE: &str = "OPENAI_MODEL";
/// OpenAI's and Anthropic's models where the environment names no others.
const OPENAI_MODEL: &str = "gpt-5-mini";
const ANTHROPIC_MODEL: &str = "claude-sonnet-4-5";
/// OpenAI's and Anthropic's servers, with the variables that are about them.
const OPENAI: Usual = Dialect::Chat.usual();
const ANTHROPIC: Usual = Dialect::Messages.usual();
/// Where Ollama and llama.cpp's server listen unless `OLLAMA_HOST` and `LLAMA_ARG_PORT` say otherwise.
const OLLAMA_PORT: u16 = 11434;
const LLAMA_PORT: u16 = 8080;
/// How long a server of this machine may take to list its models.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(300);
/// Bytes of its answer that are read; a list of models is far shorter.
const LOCAL_ANSWER: u64 = 256 << 10;
/// Bytes of the name of a model of this machine.
const LONGEST_NAME: usize = 128;
/// How long a server that the user has named may take to list its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// A model that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// How it was found.
    pub(super) found: &'static str,
    /// The provider's name.
    name: &'static str,
    /// The kind of API, as `sluice.toml` calls it.
    kind: &'static str,
    /// `None` if its server is asked for it, after the user's answer.
    model: Option<String>,
    /// The address of its server; `None` for the embedded model.
    address: Option<String>,
    /// Whether what it is sent stays on this machine.
    stays: bool,
    /// More lines of `sluice.toml`.
    more: &'static str,
}

/// All of them: those of the environment first, since the user has named them. Nothing is sent but a request for the list
/// of models to servers of this machine.
pub(super) fn candidates() -> Result<Vec<Candidate>> {
    let all = [openai()?, anthropic()?, ollama(), llama()];
    Ok(all.into_iter().flatten().collect())
}

fn set(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The key in a variable. An empty variable counts as unset: an empty key would replace those of a proxy's clients.
pub(crate) fn key_of(variable: &str) -> Option<ApiKey> {
    set(variable).map(ApiKey::new)
}

/// The address of an API in a variable. It may have a password, so it is not quoted.
pub(super) fn address(variable: &str) -> Result<Option<String>> {
    let is_http = |it: &str| Url::parse(it).is_ok_and(|url| url.scheme().starts_with("http"));
    match set(variable).filter(|it| !is_http(it)) {
        Some(_) => {
            bail!("{variable} is no http or https address; write it like http://127.0.0.1:1234/v1")
        }
        None => Ok(set(variable)),
    }
}

fn openai() -> Result<Option<Candidate>> {
    let (key, named) = (set(OPENAI.key_variable), address(OPENAI.url_variable)?);
    let found = match (&named, &key) {
        (Some(_), _) => "OPENAI_BASE_URL is set",
        (None, Some(_)) => "OPENAI_API_KEY is set",
        (None, None) => return Ok(None),
    };
    // Written even if it is the default: the user's answer is about this host, whatever the variable says later. A server
    // on this machine may pass on what it gets, so the user is asked as for any other.
    let address = named.unwrap_or_else(|| OPENAI.base_url.to_owned());
    let is_usual = host(&address) == host(OPENAI.base_url);
    Ok(Some(Candidate {
        found,
        name: "openai",
        kind: "openai",
        model: set(MODEL_VARIABLE).or_else(|| is_usual.then(|| OPENAI_MODEL.to_owned())),
        address: Some(address),
        stays: false,
        more: key.map_or("", |_| "api_key_env = \"OPENAI_API_KEY\"\n"),
    }))
}

fn anthropic() -> Result<Option<Candidate>> {
    if set(ANTHROPIC.key_variable).is_none() {
        return Ok(None);
    }
    let address = address(ANTHROPIC.url_variable)?;
    Ok(Some(Candidate {
        found: "ANTHROPIC_API_KEY is set",
        name: "anthropic",
        kind: "anthropic",
        model: set("ANTHROPIC_MODEL").or_else(|| Some(ANTHROPIC_MODEL.to_owned())),
        address: Some(address.unwrap_or_else(|| ANTHROPIC.base_url.to_owned())),
        stays: false,
        more: "api_key_env = \"ANTHROPIC_API_KEY\"\n",
    }))
}

fn ollama() -> Option<Candidate> {
    let port = match set("OLLAMA_HOST") {
        Some(host) => local_port(&host)?,
        None => OLLAMA_PORT,
    };
    let listed = get(port, "/api/tags")?;
    let mut models = listed.pointer("/models")?.as_array()?.iter();
    let model = models.find_map(ollama_model)?;
    Some(local("Ollama runs on this machine", "ollama", model, port))
}

/// The name of a model that answers questions on this machine. Ollama also lists models that it forwards to its cloud, and
/// embedding models.
fn ollama_model(entry: &Value) -> Option<&str> {
    let name = entry.get("name")?.as_str()?;
    let family = entry.pointer("/details/family").and_then(Value::as_str);
    let is_remote = entry.get("remote_host").is_some() || name.ends_with("cloud");
    let embeds = name.contains("embed") || family.is_some_and(|family| family.contains("bert"));
    (!is_remote && !embeds && is_name(name)).then_some(name)
}

/// Whether it is like the name of a model: any program may listen at the port, and the name is shown and written.
fn is_name(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "._:/@-".contains(letter);
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_part)
}

fn llama() -> Option<Candidate> {
    let port = set("LLAMA_ARG_PORT").and_then(|port| port.parse().ok());
    let port = port.unwrap_or(LLAMA_PORT);
    let listed = get(port, "/v1/models")?;
    let first = listed.pointer("/data/0")?;
    // Another server at this port may forward what it gets.
    let is_llama = first.get("owned_by")?.as_str()? == "llamacpp";
    let model = first.get("id")?.as_str()?;
    let found = "llama.cpp runs on this machine";
    (is_llama && is_name(model)).then(|| local(found, "llama-cpp", model, port))
}

/// The embedded model, if it can be used. It is used without a question where there is no other.
pub(super) fn embedded() -> Option<Candidate> {
    embedded::is_ready().then(|| Candidate {
        found: "The embedded model is installed",
        name: "local",
        kind: "embedded",
        model: Some(QWEN_CODER_1_5B.to_owned()),
        address: None,
        stays: true,
        more: "",
    })
}

/// A model behind a server on this machine.
fn local(found: &'static str, name: &'static str, model: &str, port: u16) -> Candidate {
    Candidate {
        found,
        name,
        kind: "openai",
        model: Some(model.to_owned()),
        address: Some(format!("http://127.0.0.1:{port}/v1")),
        stays: true,
        // Another user may listen there later.
        more: "local = true\n",
    }
}

/// The model of a server that the user has named: its only one, or the usual one if it has that.
async fn listed(address: &str) -> Result<String> {
    let mut config = HttpConfig::new("openai", address, OPENAI_MODEL);
    config.api_key = key_of(OPENAI.key_variable);
    config.timeouts.connect = LIST_TIMEOUT;
    let (server, options) = (HttpProvider::new(config)?, RequestOptions::default());
    let help = || format!("set {MODEL_VARIABLE} to a model of {}", host(address));
    let list = server.models(&options).await.with_context(help)?;
    let list: Value = serde_json::from_slice(&list).with_context(help)?;
    let models = list.get("data").and_then(Value::as_array).into_iter();
    let names = models.flatten().filter_map(|it| it.get("id")?.as_str());
    let names: Vec<&str> = names.filter(|name| is_name(name)).collect();
    match names.as_slice() {
        [only] => Ok((*only).to_owned()),
        all if all.contains(&OPENAI_MODEL) => Ok(OPENAI_MODEL.to_owned()),
        all => bail!("{}, which lists [{}]", help(), all.join(", ")),
    }
}

/// The port of a server on this machine, as `OLLAMA_HOST` names it; `None` for another machine's.
fn local_port(host: &str) -> Option<u16> {
    let host = host.strip_prefix("http://").unwrap_or(host);
    let host = host.trim_end_matches('/');
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (host, OLLAMA_PORT),
    };
    let own = ["", "127.0.0.1", "localhost", "0.0.0.0"];
    own.contains(&host).then_some(port)
}

/// The JSON that a server on this machine has at a path; `None` if none answers there, or another user's does.
fn get(port: u16, path: &str) -> Option<Value> {
    match owner::listens(port) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => {
            say(&format!(
                "note: {error:#}; its models are not offered. If you want one, write a [[provider]] with base_url = \"http://127.0.0.1:{port}/v1\"\n"
            ));
            return None;
        }
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, LOCAL_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(LOCAL_TIMEOUT)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(LOCAL_ANSWER).read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    // The body may be in chunks; its JSON begins at the first brace.
    let json = body.get(body.find('{')?..=body.rfind('}')?)?;
    let is_http = head.starts_with("HTTP/1.");
    serde_json::from_str(json).ok().filter(|_| is_http)
}

impl Candidate {
    /// What it is, for a sentence.
    pub(super) fn shown(&self) -> String {
        let model = self.model.as_deref().unwrap_or("a model");
        match &self.address {
            Some(address) => format!("{model} at {}", host(address)),
            None => model.to_owned(),
        }
    }

    /// The host that gets what is sent to it; `None` if that stays on this machine.
    pub(super) fn host(&self) -> Option<String> {
        let address = self.address.as_deref().filter(|_| !self.stays);
        address.map(host)
    }

    /// The lines of `sluice.toml`, with this value of `clearance`. A model that is not known has a name to replace.
    pub(super) fn lines(&self, clearance: &str) -> String {
        let quote = |text: &str| toml::Value::from(text).to_string();
        let model = self.model.as_deref().map(quote);
        let model = model.unwrap_or_else(|| "\"NAME\" # or set OPENAI_MODEL".to_owned());
        let server = match self.address.as_deref().map(quote) {
            None => String::new(),
            Some(at) => format!("model = {model}\nbase_url = {at}\n"),
        };
        let (name, kind, more) = (self.name, self.kind, self.more);
        format!(
            "[[provider]]\nname = \"{name}\"\nkind = \"{kind}\"\n{server}{more}clearance = {clearance}\n"
        )
    }

    /// The same with its model, after the user has accepted it. Another server may listen at its port since then.
    pub(super) async fn accepted(mut self) -> Result<Self> {
        match &self.address {
            Some(address) if self.stays => owner::check(address)?,
            Some(address) if self.model.is_none() => self.model = Some(listed(address).await?),
            _ => {}
        }
        Ok(self)
    }
}

/// The host of an address, with its port where that is not the usual one. An address may have a password too.
pub(super) fn host(address: &str) -> String {
    let parsed = Url::parse(address).ok();
    let host = parsed.as_ref().and_then(|url| {
        let port = url.port().map(|port| format!(":{port}"));
        Some(format!("{}{}", url.host_str()?, port.unwrap_or_default()))
    });
    host.unwrap_or_else(|| "its address".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_models_of_this_machine_that_answer_are_taken() {
        for (entry, expected) in [
            (
                json!({"name": "qwen3:8b", "details": {"family": "qwen3"}}),
                true,
            ),
            (json!({"name": "gpt-oss:120b-cloud"}), false),
            (
                json!({"name": "mine", "remote_host": "https://ollama.com:443"}),
                false,
            ),
            (json!({"name": "nomic-embed-text:latest"}), false),
            (
                json!({"name": "minilm", "details": {"family": "bert"}}),
                false,
            ),
        ] {
            assert_eq!(ollama_model(&entry).is_some(), expected, "{entry}");
        }
        for (host, expected) in [
            ("127.0.0.1:1234", Some(1234)),
            ("http://localhost:5/", Some(5)),
            ("0.0.0.0", Some(OLLAMA_PORT)),
            ("gpu.example.org:11434", None),
        ] {
            assert_eq!(local_port(host), expected, "{host}");
        }
    }
}

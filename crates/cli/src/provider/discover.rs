//! The language models that a user has already: keys in the environment, and servers on this machine.

use std::env;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use llm::models::QWEN_CODER_1_5B;
use llm::{BASE_URL_VARIABLE, DEFAULT_BASE_URL, DEFAULT_KEY_VARIABLE};
use serde_json::Value;
use url::Url;

use crate::embedded;

/// OpenAI's and Anthropic's models where `OPENAI_MODEL` and `ANTHROPIC_MODEL` name no others.
const OPENAI_MODEL: &str = "gpt-5-mini";
const ANTHROPIC_MODEL: &str = "claude-sonnet-4-5";
const ANTHROPIC_KEY: &str = "ANTHROPIC_API_KEY";
/// Where Anthropic serves OpenAI's chat completions, without `/v1`, unless `ANTHROPIC_BASE_URL` says otherwise.
const ANTHROPIC: &str = "https://api.anthropic.com";
/// Where Ollama and llama.cpp's server listen unless `OLLAMA_HOST` and `LLAMA_ARG_PORT` say otherwise.
const OLLAMA_PORT: u16 = 11434;
const LLAMA_PORT: u16 = 8080;
/// How long a server of this machine may take to list its models.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(300);
/// Bytes of its answer that are read; a list of models is far shorter.
const LOCAL_ANSWER: u64 = 256 << 10;
/// Bytes of the name of a model of this machine.
const LONGEST_NAME: usize = 128;

/// A model that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// How it was found.
    pub(super) found: String,
    /// What it is, for a sentence.
    pub(super) shown: String,
    /// The host that gets what is sent to it; `None` if that stays on this machine.
    pub(super) host: Option<String>,
    /// Its lines of `sluice.toml`, without the clearance.
    lines: String,
}

/// All of them: those of the environment first, since the user has named them. Nothing is sent but a request for the list
/// of models to servers of this machine.
pub(super) fn candidates() -> Vec<Candidate> {
    let all = [openai(), anthropic(), ollama(), llama()];
    all.into_iter().flatten().collect()
}

fn set(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

fn openai() -> Option<Candidate> {
    let (key, address) = (set(DEFAULT_KEY_VARIABLE), set(BASE_URL_VARIABLE));
    let found = match (&address, &key) {
        (Some(_), _) => BASE_URL_VARIABLE,
        (None, Some(_)) => DEFAULT_KEY_VARIABLE,
        (None, None) => return None,
    };
    let model = set("OPENAI_MODEL").unwrap_or_else(|| OPENAI_MODEL.to_owned());
    // Written even if it is the default: the user's answer is about this host, whatever the variable says later. A server
    // on this machine may pass on what it gets, so the user is asked as for any other.
    let address = address.unwrap_or_else(|| DEFAULT_BASE_URL.to_owned());
    let key = key.map_or("", |_| "api_key_env = \"OPENAI_API_KEY\"\n");
    Some(Candidate {
        host: Some(host(&address)),
        ..served(&format!("{found} is set"), "openai", &model, &address, key)
    })
}

fn anthropic() -> Option<Candidate> {
    set(ANTHROPIC_KEY)?;
    let model = set("ANTHROPIC_MODEL").unwrap_or_else(|| ANTHROPIC_MODEL.to_owned());
    let address = set("ANTHROPIC_BASE_URL").unwrap_or_else(|| ANTHROPIC.to_owned());
    let address = format!("{}/v1", address.trim_end_matches('/'));
    let found = format!("{ANTHROPIC_KEY} is set");
    // Its chat completions ignore `response_format`.
    let more = "api_key_env = \"ANTHROPIC_API_KEY\"\njson = \"call\"\n";
    Some(Candidate {
        host: Some(host(&address)),
        ..served(&found, "anthropic", &model, &address, more)
    })
}

fn ollama() -> Option<Candidate> {
    let port = match set("OLLAMA_HOST") {
        Some(host) => local_port(&host)?,
        None => OLLAMA_PORT,
    };
    let listed = get(port, "/api/tags")?;
    let mut models = listed.pointer("/models")?.as_array()?.iter();
    let model = models.find_map(ollama_model)?;
    let (found, address) = ("Ollama runs on this machine", local(port));
    Some(served(found, "ollama", model, &address, ""))
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
    // Another server at this port may forward what it gets.
    if listed.pointer("/data/0/owned_by")?.as_str()? != "llamacpp" {
        return None;
    }
    let model = listed
        .pointer("/data/0/id")?
        .as_str()
        .filter(|id| is_name(id))?;
    let (found, address) = ("llama.cpp runs on this machine", local(port));
    Some(served(found, "llama-cpp", model, &address, ""))
}

/// The embedded model, if it can be used. It is used without a question where there is no other.
pub(super) fn embedded() -> Option<Candidate> {
    embedded::is_ready().then(|| Candidate {
        found: "The embedded model is installed".to_owned(),
        shown: QWEN_CODER_1_5B.to_owned(),
        host: None,
        lines: "[[provider]]\nname = \"local\"\nkind = \"embedded\"\n".to_owned(),
    })
}

/// A model behind OpenAI's API, on this machine.
fn served(found: &str, name: &str, model: &str, address: &str, more: &str) -> Candidate {
    let quote = |text: &str| toml::Value::from(text).to_string();
    let (model_line, address_line) = (quote(model), quote(address));
    Candidate {
        found: found.to_owned(),
        shown: format!("{model} at {}", host(address)),
        host: None,
        lines: format!(
            "[[provider]]\nname = \"{name}\"\nkind = \"openai\"\nmodel = {model_line}\nbase_url = {address_line}\n{more}"
        ),
    }
}

fn local(port: u16) -> String {
    format!("http://127.0.0.1:{port}/v1")
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

/// The JSON that a server on this machine has at a path; `None` if none answers there.
fn get(port: u16, path: &str) -> Option<Value> {
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
    /// The lines of `sluice.toml`, with this value of `clearance`.
    pub(super) fn lines(&self, clearance: &str) -> String {
        format!("{}clearance = {clearance}\n", self.lines)
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

//! The embedded model: its program, its files, and what to configure where there is none.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use llm::models::{Cache, KNOWN, Model, Presence, QWEN_CODER_1_5B, find};
use llm::{Embedded, Provider};
use serde_json::Value;

use crate::finding::Finding;
use crate::paths::{self, MODEL_PROGRAM as PROGRAM};

/// What installs it, from a clone of Sluice.
const INSTALL: &str = "cargo install --path crates/model --locked";
/// Where other servers of models listen on this machine by default.
const LOCAL_SERVERS: [(&str, u16); 2] = [("Ollama", 11434), ("llama.cpp", 8080)];
/// How long such a server may take. It is on this machine, and the list of its models is in memory.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(300);
/// Bytes of an answer that are read. A list of models is far shorter.
const LOCAL_ANSWER: u64 = 64 << 10;

/// The known model of that name; the default one if there is no name.
///
/// # Errors
/// No such model.
pub(crate) fn model(name: Option<&str>) -> Result<&'static Model> {
    let name = name.unwrap_or(QWEN_CODER_1_5B);
    find(name).with_context(|| {
        let known: Vec<&str> = KNOWN.iter().map(|model| model.name).collect();
        format!("there is no model '{name}'; known are {}", known.join(", "))
    })
}

/// A model from the cache. Its program starts with the first request.
///
/// # Errors
/// The model is unknown, was not pulled, or is not what it should be; or the program is not installed.
pub(crate) fn provider(name: &str, model: &str) -> Result<Arc<dyn Provider>> {
    let model = self::model(Some(model))?;
    let Some(program) = program() else {
        bail!(
            "the provider {name} is the embedded model, and {PROGRAM} is not installed\n{}",
            instead()
        );
    };
    let file = Cache::of_user()?.open(model)?;
    Ok(Arc::new(Embedded::new(name, program, file)))
}

/// Where the program is; `None` if it is not installed.
pub(crate) fn program() -> Option<PathBuf> {
    paths::binary(PROGRAM).ok()
}

/// What to configure in the place of the embedded model: a server that runs on this machine, or else what there can be.
fn instead() -> String {
    let served = LOCAL_SERVERS
        .iter()
        .find_map(|(server, port)| Some((server, port, served_model(*port)?)));
    match served {
        Some((server, port, model)) => format!(
            "{server} runs on this machine; to use it, write in sluice.toml:\n\n[[provider]]\nname = \"local\"\n\
             kind = \"openai\"\nmodel = \"{model}\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nclearance = \"any\""
        ),
        None => format!(
            "install it with `{INSTALL}`, or start Ollama or llama.cpp's server, or set OPENAI_API_KEY;\n\
             then write in sluice.toml:\n\n[[provider]]\nname = \"remote\"\nkind = \"openai\"\nmodel = \"MODEL\""
        ),
    }
}

/// The first model that a server with OpenAI's API lists at this port; `None` if none answers there.
fn served_model(port: u16) -> Option<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, LOCAL_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(LOCAL_TIMEOUT)).ok()?;
    stream
        .write_all(b"GET /v1/models HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.take(LOCAL_ANSWER).read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    // The body may be in chunks; its JSON begins at the first brace.
    let json = body.get(body.find('{')?..=body.rfind('}')?)?;
    let models: Value = serde_json::from_str(json).ok()?;
    let model = models.pointer("/data/0/id")?.as_str()?;
    // It is quoted on a terminal and as TOML.
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
    (head.starts_with("HTTP/1.") && model.chars().all(is_plain)).then(|| model.to_owned())
}

/// Whether the program of embedded models is installed. Where none is `needed`, its absence is no fault.
pub(crate) fn program_finding(needed: bool) -> Finding {
    match program() {
        Some(path) => Finding::new(PROGRAM, true, path.display().to_string()),
        None => Finding::new(
            PROGRAM,
            !needed,
            format!("not installed; only an embedded model needs it ({INSTALL})"),
        ),
    }
}

/// Which models are here. Those that are `needed` have to be.
pub(crate) fn findings(needed: &BTreeSet<&str>) -> Vec<Finding> {
    let cache = match Cache::of_user() {
        Ok(cache) => cache,
        Err(error) => return vec![Finding::model("cache", false, error.to_string())],
    };
    let finding = |model: &Model| {
        let present = cache.presence(model);
        let (ok, detail) = match present {
            Presence::Ready => (true, cache.path(model).display().to_string()),
            // What a session would do: the file counts if it is what it should be.
            Presence::Unverified => match cache.open(model) {
                Ok(path) => (true, path.display().to_string()),
                Err(error) => (!needed.contains(model.name), error.to_string()),
            },
            Presence::Missing => (
                !needed.contains(model.name),
                format!("not here; `sluice model pull {}` fetches it", model.name),
            ),
        };
        Finding::model(model.name, ok, detail)
    };
    KNOWN.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What is found at a server that answers this.
    fn found(answer: &'static str) -> Option<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let found = served_model(port);
        server.join().unwrap();
        found
    }

    #[test]
    fn a_local_server_is_known_by_its_list_of_models() {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        let listed: &str = format!("{head}{{\"data\":[{{\"id\":\"qwen3:8b\"}}]}}").leak();
        assert_eq!(found(listed).as_deref(), Some("qwen3:8b"));
        let quoted: &str = format!("{head}{{\"data\":[{{\"id\":\"a\\\"b\"}}]}}").leak();
        for other in ["HTTP/1.1 404 Not Found\r\n\r\nno", quoted, ""] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}

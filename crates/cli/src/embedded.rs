//! The embedded model: its program, its files, and what to configure where there is none.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use llm::models::{Cache, KNOWN, Model, QWEN_CODER_1_5B, find};
use llm::{Embedded, Provider};
use serde_json::Value;

use crate::paths::{self, MODEL_PROGRAM as PROGRAM};

/// The finding and remedy where the program is missing.
pub(crate) const NOT_INSTALLED: &str = "not installed; only embedded models need it; install it with \
                                        `cargo install --path crates/model --locked`";
/// Where other model servers listen by default.
const LOCAL_SERVERS: [(&str, u16); 2] = [("Ollama", 11434), ("llama.cpp", 8080)];
/// How long such a server may take to list its models.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(300);
/// Bytes of an answer that are read; a list of models is far shorter.
const LOCAL_ANSWER: u64 = 64 << 10;

/// The known model of that name; the default one if there is no name.
pub(crate) fn model(name: Option<&str>) -> Result<&'static Model> {
    let name = name.unwrap_or(QWEN_CODER_1_5B);
    find(name).with_context(|| {
        let known: Vec<&str> = KNOWN.iter().map(|model| model.name).collect();
        format!(
            "there is no model '{name}'; choose one of {}",
            known.join(", ")
        )
    })
}

/// A model from the cache. Its program starts with the first request.
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

/// What to configure in place of the embedded model: a server that runs on this machine, or else the possible ones.
fn instead() -> String {
    let served = LOCAL_SERVERS
        .iter()
        .find_map(|(server, port)| Some((server, port, served_model(*port)?)));
    match served {
        Some((server, port, model)) => format!(
            "{server} runs on this machine; to use it, write in sluice.toml:\n\n[[provider]]\nname = \"local\"\n\
             kind = \"openai\"\nmodel = \"{model}\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nclearance = \"any\""
        ),
        None => String::from(
            "install it with `cargo install --path crates/model --locked`, or start Ollama or llama.cpp's server, or set\n\
             OPENAI_API_KEY and write in sluice.toml:\n\n[[provider]]\nname = \"remote\"\nkind = \"openai\"\nmodel = \"MODEL\"",
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// The model that is found at a server with this answer.
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

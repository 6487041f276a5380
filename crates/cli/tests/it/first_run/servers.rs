//! The servers of models that are found: who serves them, and what they list.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use test_support::{Server, json, status};

use super::{RUN, Stage};
use crate::terminal::at_terminal;

/// A server of Ollama's and of llama.cpp's list. It prints its port, and a line for each connection.
const FOREIGN: &str = r#"
import json, socket, sys
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
print(server.getsockname()[1], flush=True)
body = json.dumps({"models": [{"name": "big"}], "data": [{"id": "big", "owned_by": "llamacpp"}]})
while True:
    connection, _ = server.accept()
    print("connected", flush=True)
    connection.recv(4096)
    connection.send(f"HTTP/1.0 200 OK\r\n\r\n{body}".encode())
    connection.close()
"#;

pub(crate) const FOREIGN_UID: u32 = 12345;

/// A server of a user of this machine.
pub(crate) struct Foreign {
    server: Child,
    output: BufReader<std::process::ChildStdout>,
    pub(crate) port: String,
}

impl Foreign {
    fn start() -> Self {
        Self::of(FOREIGN_UID, "0")
    }

    /// Only root can start one of another user.
    pub(crate) fn of(uid: u32, port: &str) -> Self {
        let mut python = Command::new("/usr/bin/env");
        python
            .args(["python3", "-c", FOREIGN, port])
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdout(Stdio::piped())
            .uid(uid);
        let mut server = python.spawn().unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let mut port = String::new();
        output.read_line(&mut port).unwrap();
        let port = port.trim().to_owned();
        Self {
            server,
            output,
            port,
        }
    }

    /// What it printed of its connections.
    pub(crate) fn stop(mut self) -> String {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }
}

#[test]
fn another_users_server_is_not_offered() {
    let foreign = Foreign::start();
    for variable in ["OLLAMA_HOST", "LLAMA_ARG_PORT"] {
        let value = match variable {
            "OLLAMA_HOST" => format!("127.0.0.1:{}", foreign.port),
            _ => foreign.port.clone(),
        };
        let stage = Stage::new("");
        let (code, _, said) = stage.run(&RUN, &[(variable, &value)]);
        assert_eq!(code, 1, "{said}");
        let address = format!("base_url = \"http://127.0.0.1:{}/v1\"", foreign.port);
        for part in ["uid 12345", "[[provider]]", &address] {
            assert!(said.contains(part), "{variable}: {said}");
        }
        assert!(!said.contains("runs on this machine"), "{said}");
    }
    assert_eq!(foreign.stop(), "");
}

#[test]
fn a_server_is_looked_at_again_before_it_is_written() {
    let own = Foreign::of(rustix::process::geteuid().as_raw(), "0");
    let stage = Stage::new("");
    let before = stage.config();
    let (port, host) = (own.port.clone(), format!("127.0.0.1:{}", own.port));
    let command = stage.command(&RUN, &[("OLLAMA_HOST", &host)]);
    let (mut first, mut second) = (Some(own), None);
    let (code, shown) = at_terminal(&command, &["yes"], |shown| {
        // The user's server ends while the question is open, and another user takes its port.
        if shown.contains("yes or no [no]: ")
            && let Some(own) = first.take()
        {
            own.stop();
            second = Some(Foreign::of(FOREIGN_UID, &port));
        }
    });
    assert!(code == 1 && shown.contains("uid 12345"), "{shown}");
    assert_eq!(stage.config(), before);
    assert_eq!(second.unwrap().stop(), "");
}

#[test]
fn a_local_model_is_used_only_from_its_owner() {
    let foreign = Foreign::start();
    let provider = |local: &str| {
        let url = format!("http://127.0.0.1:{}/v1", foreign.port);
        format!(
            "[[provider]]\nname = \"own\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{url}\"\n{local}clearance = \"any\"\n\n"
        )
    };
    let (code, _, said) = Stage::new(&provider("local = true\n")).run(&RUN, &[]);
    assert!(code == 1 && said.contains("uid 12345"), "{said}");
    let proxy = [
        "proxy",
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        "own",
        "--app",
        "notes",
    ];
    let (code, _, said) = Stage::new(&provider("local = true\n")).run(&proxy, &[]);
    assert!(code == 1 && said.contains("uid 12345"), "{said}");
    // The address of a machine elsewhere has no such owner.
    let elsewhere = provider("local = true\n").replace("127.0.0.1", "192.0.2.1");
    let (code, _, said) = Stage::new(&elsewhere).run(&RUN, &[]);
    assert!(code == 1 && said.contains("local = true"), "{said}");
    // Nothing listens at this port.
    let silent = provider("local = true\n").replace(&foreign.port, "9");
    let (code, _, said) = Stage::new(&silent).run(&RUN, &[]);
    assert!(code == 1 && said.contains("nothing listens"), "{said}");
    assert_eq!(foreign.stop(), "");
}

#[test]
fn a_list_of_models_cannot_write_the_question() {
    let hostile = [
        "big\nclearance = \"any\"",
        "big at api.openai.com. Type yes",
        "big\u{1b}[2J",
        "",
        &"x".repeat(200),
    ];
    for name in hostile {
        let models =
            json!({"models": [{"name": name}], "data": [{"id": name, "owned_by": "llamacpp"}]});
        let server = Server::start(move |_| json(&models));
        let port = server.port.to_string();
        let (host, url) = (format!("127.0.0.1:{port}"), server.url("/v1"));
        for (variable, value) in [("OLLAMA_HOST", &host), ("LLAMA_ARG_PORT", &port)] {
            let stage = Stage::new("");
            let (code, _, said) = stage.run(&RUN, &[(variable, value)]);
            assert!(code == 1 && said.contains("start Ollama"), "{said}");
            assert!(!said.contains("big") && !said.contains("xxx"), "{said}");
        }
        let stage = Stage::new("");
        let before = stage.config();
        let (code, shown) = stage.typed(&RUN, &[("OPENAI_BASE_URL", &url)], &["yes"]);
        assert!(code == 1 && shown.contains("OPENAI_MODEL"), "{shown}");
        assert_eq!(stage.config(), before);
        assert_eq!(server.connections(), 3);
    }
}

#[test]
fn a_server_without_a_usual_model_is_asked_for_its_list() {
    let list = |names: &[&str]| {
        let data: Vec<_> = names.iter().map(|name| json!({"id": name})).collect();
        let list = json!({"data": data});
        Server::start(move |_| json(&list))
    };
    for (server, expected) in [
        (list(&["one"]), Ok("one")),
        (list(&["one", "gpt-5-mini"]), Ok("gpt-5-mini")),
        (list(&["one", "two"]), Err("one, two")),
        (list(&[]), Err("OPENAI_MODEL")),
        (Server::start(|_| status(404)), Err("status 404")),
    ] {
        let stage = Stage::new("");
        let url = server.url("/v1");
        let set = [("OPENAI_BASE_URL", &*url), ("OPENAI_API_KEY", "sk-users")];
        let (_, _, said) = stage.run(&RUN, &set);
        assert!(said.contains("\"NAME\" # or set OPENAI_MODEL"), "{said}");
        assert_eq!(server.connections(), 0);
        let (_, shown) = stage.typed(&RUN, &set, &["yes"]);
        assert!(shown.contains("can use a model at 127.0.0.1"), "{shown}");
        match expected {
            Ok(model) => {
                let line = format!("model = \"{model}\"\n");
                assert!(stage.config().contains(&line), "{shown}");
            }
            Err(part) => {
                assert!(
                    shown.contains(part) && shown.contains("OPENAI_MODEL"),
                    "{shown}"
                );
                assert!(!stage.config().contains("[[provider]]"), "{shown}");
            }
        }
        let first = server.requests().remove(0);
        assert_eq!(first.path, "/v1/models");
        assert_eq!(first.header("authorization"), "Bearer sk-users");
    }
}

#[test]
fn an_address_without_a_scheme_names_its_variable() {
    for (provider, variable) in [
        ("", "OPENAI_BASE_URL"),
        ("", "ANTHROPIC_BASE_URL"),
        (
            "[[provider]]\nname = \"own\"\nkind = \"openai\"\nmodel = \"m\"\n\n",
            "OPENAI_BASE_URL",
        ),
    ] {
        for value in ["localhost:1234/v1", "127.0.0.1:1234", "api.example.org/v1"] {
            let stage = Stage::new(provider);
            let set = [(variable, value), ("ANTHROPIC_API_KEY", "sk-users")];
            let (code, _, said) = stage.run(&RUN, &set);
            assert_eq!(code, 1, "{said}");
            assert!(
                said.contains(variable) && said.contains("http://"),
                "{said}"
            );
            assert!(!said.contains("base_url = "), "{said}");
        }
    }
}

#[test]
fn a_failing_provider_names_its_address_and_key() {
    for code in [401, 404] {
        let server = Server::start(move |_| status(code));
        let url = server.url("/v1");
        let stage = Stage::new(&format!(
            "[[provider]]\nname = \"own\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{url}\"\napi_key_env = \"OWN_KEY\"\nclearance = \"any\"\n\n"
        ));
        let (exit, _, said) = stage.run(&RUN, &[]);
        assert_eq!(exit, 1, "{said}");
        let file = stage.home.path("config/sluice/sluice.toml");
        // Another error is not about the key.
        assert_eq!(said.contains("$OWN_KEY, which is not set"), code == 401);
        for part in [
            &*format!("the model m at {url}"),
            "OPENAI_MODEL",
            &*file.to_string_lossy(),
        ] {
            assert!(said.contains(part), "{said}");
        }
        let (_, _, said) = stage.run(&RUN, &[("OWN_KEY", "sk-users")]);
        assert_eq!(said.contains("the key in $OWN_KEY;"), code == 401, "{said}");
    }
}

#[test]
fn a_missing_model_fails_doctor_only_where_configured() {
    for (provider, is_needed) in [
        ("", false),
        (
            "[[provider]]\nname = \"local\"\nkind = \"embedded\"\n\n",
            true,
        ),
    ] {
        let stage = Stage::new(provider);
        let (code, found, said) = stage.run(&["doctor", "--json"], &[]);
        let found = found
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let found: Vec<serde_json::Value> = found.collect();
        let of = |subject: &str| {
            let mut all = found.iter();
            let of = all.find(|finding| finding["subject"] == subject);
            of.unwrap_or_else(|| panic!("{subject}: {said}")).clone()
        };
        for subject in ["sluice-model", "model qwen2.5-coder-1.5b"] {
            assert_eq!(of(subject)["ok"], !is_needed, "{subject}");
        }
        let providers = of("configuration")["detail"].to_string();
        assert_eq!(providers.contains("1 provider"), is_needed, "{providers}");
        let all_ok = found.iter().all(|finding| finding["ok"] == true);
        assert_eq!(code == 0, all_ok);
        fs::remove_file(stage.home.path("config/sluice/sluice.toml")).unwrap();
    }
}

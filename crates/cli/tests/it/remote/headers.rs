//! Headers from secrets that the user has set.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::remote::server::{Reply, Request, Server, events, json, status};
use crate::remote::stage::{SECRET, Stage, mcp, model};

/// An MCP server with one tool, for whoever has the secret.
fn honest(request: &Request) -> Reply {
    match request.header("authorization") == format!("Bearer {SECRET}") {
        true => mcp(request),
        false => status(401),
    }
}

fn app(url: &str, more: &str) -> String {
    format!(
        "[app.far]\nurl = \"{url}\"\nheaders = {{ Authorization = \"Bearer secret:own\" }}\n{more}"
    )
}

#[test]
fn a_secret_is_kept_shown_by_name_and_forgotten() {
    let stage = Stage::new();
    stage.keep("https://api.example.org/mcp");
    let file = stage.path("data/sluice/secrets/secrets.json");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    let list = stage.done(&["secret", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(listed["name"], "own");
    assert_eq!(listed["for"], "https://api.example.org");
    stage.done(&["secret", "remove", "own"]);
    assert_eq!(stage.done(&["secret", "list", "--json"]), "");
    stage.refused(&["secret", "remove", "own"], "there is no secret 'own'");
    for server in [
        "http://api.example.org",
        "api.example.org",
        "https://10.0.0.1",
    ] {
        stage.refused(&["secret", "set", "own", "--for", server], "--for: ");
    }
}

#[test]
fn a_server_is_started_with_its_secret_and_shows_its_tools() {
    let stage = Stage::new();
    let server = Server::start(honest);
    let url = server.url("/mcp");
    let config = stage.write("sluice.toml", &app(&url, ""));
    let tools = ["app", "tools", "far", "--json", "--config", &config];
    // Nothing is sent without it, and only this app is concerned.
    stage.refused(&tools, "there is no secret 'own'");
    stage.keep("https://api.example.org");
    stage.refused(&tools, "is for https://api.example.org and is not sent to");
    assert!(server.requests().is_empty());
    stage.keep(&url);
    let listed: serde_json::Value = serde_json::from_str(&stage.done(&tools)).unwrap();
    assert_eq!(listed["name"], "look_up");
    stage.done(&["policy", "check", "--config", &config]);
}

#[test]
fn a_server_that_fails_is_named_and_the_others_start() {
    let stage = Stage::new();
    let (good, certificate) = Server::start_tls(&["localhost"], honest);
    let bad = Server::start(|_| status(401));
    let url = format!("https://localhost:{}/mcp", good.port);
    stage.keep(&url);
    stage.write("ca.pem", &certificate);
    let text = format!(
        "{}[app.closed]\nurl = \"{}\"\n[app.unset]\nurl = \"https://api.example.org/mcp\"\n\
         headers = {{ Authorization = \"secret:other\" }}\n",
        app(&url, "ca_file = \"ca.pem\"\n"),
        bad.url("/")
    );
    let config = stage.write("sluice.toml", &text);
    let (_, found, _) = stage.sluice(&["doctor", "--start", "--json", "--config", &config], "");
    let of = |subject: &str| {
        let mut findings = found
            .lines()
            .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() });
        let finding = findings.find(|finding| finding["subject"] == subject);
        let finding = finding.unwrap();
        format!("{} {}", finding["ok"], finding["detail"].as_str().unwrap())
    };
    assert_eq!(of("app far"), "true starts, with 1 tool: look_up");
    let closed = of("app closed");
    assert!(
        closed.contains("wants a token") && closed.contains("sluice secret set"),
        "{closed}"
    );
    let unset = of("app unset");
    assert!(
        unset.contains("`sluice secret set other --for https://api.example.org`"),
        "{unset}"
    );
}

#[test]
fn a_file_of_another_program_works_unchanged() {
    let stage = Stage::new();
    let server = Server::start(honest);
    let text = format!(
        r#"{{"mcpServers": {{"far": {{"type": "http", "url": "{}", "headers": {{"Authorization": "Bearer {SECRET}"}}}}}}}}"#,
        server.url("/mcp")
    );
    let config = stage.write("mcp.json", &text);
    let tools = stage.done(&["app", "tools", "far", "--json", "--config", &config]);
    assert!(tools.contains("look_up"));
    let text = text.replace(&format!("Bearer {SECRET}"), "Bearer ${input:token}");
    let config = stage.write("code.json", &text);
    stage.refused(
        &["app", "test", "far", "--config", &config],
        "${input:token}, which only another program can fill in",
    );
}

#[test]
fn a_server_is_added_by_its_address() {
    let stage = Stage::new();
    let server = Server::start(honest);
    let url = server.url("/mcp");
    stage.keep(&url);
    let config = stage.write("sluice.toml", "");
    let header = "Authorization: Bearer secret:own";
    let add = ["app", "add", "far", "--yes", "--config", &config];
    stage.done(&[&add[..], &["--url", &url, "--header", header]].concat());
    let tools = stage.done(&["app", "tools", "far", "--json", "--config", &config]);
    assert!(tools.contains("look_up"));
    let written = fs::read_to_string(&config).unwrap();
    assert!(written.contains(&format!("url = \"{url}\"")), "{written}");
    // What looks like a secret is not written down.
    let header = format!("Authorization: Bearer {SECRET}");
    let add = ["app", "add", "other", "--yes", "--config", &config];
    stage.refused(
        &[&add[..], &["--url", &url, "--header", &header]].concat(),
        "holds a secret",
    );
    assert_eq!(fs::read_to_string(&config).unwrap(), written);
}

#[test]
fn a_turn_calls_a_server_elsewhere_and_its_secret_is_in_no_file() {
    let stage = Stage::new();
    let server = Server::start(|request| match request.asks("tools/call") {
        // As a server might that is asked what it was sent.
        true => json(request.result(&format!(
            r#"{{"content":[{{"type":"text","text":"found by {}"}}]}}"#,
            request.header("authorization")
        ))),
        false => honest(request),
    });
    let upstream = Server::start(model);
    let url = server.url("/mcp");
    stage.keep(&url);
    let text = format!(
        "[[provider]]\nname = \"m\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\nclearance = \"any\"\n\n{}\
         [app.far.tools.look_up]\neffect = \"read\"\nlimit = \"any\"\n",
        upstream.url("/v1"),
        app(&url, "")
    );
    let config = stage.write("sluice.toml", &text);
    let said = stage.done(&["run", "--app", "far", "--config", &config, "Look it up"]);
    assert!(said.contains("found by Bearer [secret]"), "{said}");
    // Neither the model nor the trace has it; `sluice` itself is looked at by the stage.
    let prompts = upstream.requests();
    assert!(prompts.len() >= 2 && prompts.iter().all(|it| !it.body.contains(SECRET)));
    let mut traces = 0;
    for file in fs::read_dir(stage.path("state/sluice/traces")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        traces += usize::from(text.contains("look_up"));
        assert!(!text.contains(SECRET));
    }
    assert_eq!(traces, 1);
}

/// A request of the server reaches the spoke, which offers neither roots nor sampling.
#[test]
fn a_server_elsewhere_gets_no_roots() {
    let stage = Stage::new();
    let (told, roots) = std::sync::mpsc::channel::<String>();
    let roots = std::sync::Arc::new(std::sync::Mutex::new(roots));
    let (server, certificate) = Server::start_tls(&["localhost"], move |request| match () {
        () if request.asks("tools/call") => {
            let (answer, roots) = (
                request.result(r#"{"content":[{"type":"text","text":"found"}]}"#),
                std::sync::Arc::clone(&roots),
            );
            events(move |to| {
                write!(
                    to,
                    "data: {{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"roots/list\"}}\n\n"
                )?;
                to.flush()?;
                let heard = roots.lock().unwrap().recv().unwrap();
                let answer = answer.replace("found", &heard);
                write!(to, "data: {answer}\n\n")
            })
        }
        () if request.body.contains("\"id\":9,") => {
            let answer: serde_json::Value = serde_json::from_str(&request.body).unwrap();
            let why = answer["error"]["message"].as_str().unwrap_or_default();
            let _ = told.send(why.to_owned());
            status(202)
        }
        () => mcp(request),
    });
    let upstream = Server::start(model);
    stage.write("ca.pem", &certificate);
    let text = format!(
        "[[provider]]\nname = \"m\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\nclearance = \"any\"\n\n\
         [app.far]\nurl = \"https://localhost:{}/mcp\"\nca_file = \"ca.pem\"\n\
         [app.far.tools.look_up]\neffect = \"read\"\nlimit = \"any\"\n",
        upstream.url("/v1"),
        server.port
    );
    let config = stage.write("sluice.toml", &text);
    let said = stage.done(&["run", "--app", "far", "--config", &config, "Look it up"]);
    assert!(said.contains("no such capability"), "{said}");
}

//! The first answer: a configuration without a model gets one after a question, and what a model may see is settled by the
//! user's word alone.

mod files;
pub(crate) mod servers;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use serde_json::{Value, json};
use test_support::{ModelReply, Server, Upstream, calls, newest, says, status};

use crate::home::{Home, said};
use crate::terminal::at_terminal;

/// An MCP server with one tool, which returns a secret of its own.
const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"read_note","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"the pin is 4711"}]}}\n' "$id" ;;
  esac
done
"#;

/// A provider that may see everything.
const PROVIDER: &str = "[[provider]]\nname = \"own\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"MODEL\"\nclearance = \"any\"\n\n";

const RUN: [&str; 4] = ["run", "--app", "notes", "What is the pin?"];

pub(crate) struct Stage {
    home: Home,
    model: Upstream,
}

/// Reads the note, and answers with what it has read.
fn reads(body: &Value) -> ModelReply {
    let newest = newest(body);
    match newest.contains("pin?") {
        true => calls(&[("read_note", "{}")]),
        false => says(newest),
    }
}

impl Stage {
    fn new(config: &str) -> Self {
        let stage = Self {
            home: Home::new(),
            model: Upstream::start(reads),
        };
        let server = stage.home.path("home/server");
        fs::write(&server, SERVER).unwrap();
        fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
        // Only the programs that are wanted, whatever else was built.
        fs::create_dir_all(stage.home.path("bin")).unwrap();
        let spoke = stage.home.path("bin/sluice-spoke");
        symlink(env!("CARGO_BIN_EXE_sluice-spoke"), spoke).unwrap();
        let rule = "effect = \"read\"\nlimit = \"any\"\nparameters = []\n";
        let app = |name: &str| {
            let server = server.display();
            format!("[app.{name}]\ncommand = [\"{server}\"]\n[app.{name}.tools.read_note]\n{rule}")
        };
        let provider = config.replace("MODEL", &stage.model.url);
        stage
            .home
            .configure(&format!("{provider}{}{}", app("notes"), app("diary")));
        stage
    }

    /// A provider about which nothing is settled.
    fn unsettled() -> Self {
        Self::new(
            "[[provider]]\nname = \"own\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"MODEL\"\n\n",
        )
    }

    fn config(&self) -> String {
        fs::read_to_string(self.home.path("config/sluice/sluice.toml")).unwrap()
    }

    /// A command where no model is found but what `set` names.
    fn command(&self, arguments: &[&str], set: &[(&str, &str)]) -> Command {
        let mut command = self.home.sluice(arguments);
        for name in [
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_MODEL",
            "ANTHROPIC_API_KEY",
        ] {
            command.env_remove(name);
        }
        command.env("SLUICE_BIN_DIR", self.home.path("bin"));
        command.env("SLUICE_MODELS", self.home.path("models"));
        // Nothing listens there.
        command
            .env("OLLAMA_HOST", "127.0.0.1:9")
            .env("LLAMA_ARG_PORT", "9");
        command.envs(set.iter().copied());
        command
    }

    fn run(&self, arguments: &[&str], set: &[(&str, &str)]) -> (i32, String, String) {
        said(&self.command(arguments, set).output().unwrap())
    }

    fn typed(&self, arguments: &[&str], set: &[(&str, &str)], lines: &[&str]) -> (i32, String) {
        at_terminal(&self.command(arguments, set), lines, |_| ())
    }

    /// The next run needs no terminal and none of these variables but the key.
    fn answers(&self, set: &[(&str, &str)]) {
        let (code, answer, said) = self.run(&RUN, set);
        assert_eq!((code, answer.as_str()), (0, "the pin is 4711\n"), "{said}");
    }
}

#[test]
fn a_key_in_the_environment_is_offered_once() {
    let stage = Stage::new("");
    let key = ("OPENAI_API_KEY", "sk-users");
    let set = [key, ("OPENAI_BASE_URL", &*stage.model.url)];
    let (code, shown) = stage.typed(&RUN, &set, &["yes"]);
    let host = stage.model.url.replace("http://", "").replace("/v1", "");
    let question = format!(
        "May text from your apps be sent to {host}? yes, no, or only these apps: diary, notes [no]: "
    );
    assert!(code == 0 && shown.contains(&question), "{shown}");
    let file = stage.home.path("config/sluice/sluice.toml");
    let (before, _) = shown.split_once(&question).unwrap();
    assert!(before.contains(&*file.to_string_lossy()), "{shown}");
    assert!(shown.contains("the pin is 4711"), "{shown}");
    let config = stage.config();
    let url = &stage.model.url;
    let lines = format!(
        "[[provider]]\nname = \"openai\"\nkind = \"openai\"\nmodel = \"big\"\nbase_url = \"{url}\"\napi_key_env = \"OPENAI_API_KEY\"\nclearance = \"any\"\n"
    );
    assert!(config.ends_with(&lines), "{config}");
    stage.answers(&[key]);
    assert_eq!(stage.model.last().0["authorization"], "Bearer sk-users");
    assert_eq!(stage.config(), config);
}

#[test]
fn every_source_of_a_model_is_found() {
    for (variable, lines, written) in [
        (
            "ANTHROPIC_BASE_URL",
            ["yes"],
            "name = \"anthropic\"\nkind = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"",
        ),
        (
            "OLLAMA_HOST",
            ["yes"],
            "name = \"ollama\"\nkind = \"openai\"\nmodel = \"big\"",
        ),
        (
            "LLAMA_ARG_PORT",
            ["yes"],
            "name = \"llama-cpp\"\nkind = \"openai\"\nmodel = \"big\"",
        ),
    ] {
        let stage = Stage::new("");
        let address = stage.model.url.strip_suffix("/v1").unwrap();
        let port = address.rsplit_once(':').unwrap().1;
        let (key, value) = ("ANTHROPIC_API_KEY", "sk-users");
        let set = match variable {
            "ANTHROPIC_BASE_URL" => vec![(key, value), (variable, address)],
            "OLLAMA_HOST" => vec![(variable, address)],
            _ => vec![(variable, port)],
        };
        let (code, shown) = stage.typed(&RUN, &set, &lines);
        assert!(
            code == 0 && shown.contains("the pin is 4711"),
            "{variable}: {shown}"
        );
        let is_local = variable != "ANTHROPIC_BASE_URL";
        assert_eq!(shown.contains("stays on this machine"), is_local, "{shown}");
        assert_eq!(
            shown.contains("May text from your apps"),
            !is_local,
            "{shown}"
        );
        let config = stage.config();
        assert!(
            config.contains(written) && config.ends_with("clearance = \"any\"\n"),
            "{config}"
        );
        // Otherwise any user of this machine could serve it later.
        assert_eq!(config.contains("local = true\n"), is_local, "{config}");
        stage.answers(&[(key, value)]);
    }
}

#[test]
fn a_no_sends_nothing_and_offers_the_next() {
    let stage = Stage::new("");
    let server = Server::start(|_| status(500));
    let url = server.url("/v1");
    let model = llm::models::find(llm::models::QWEN_CODER_1_5B).unwrap();
    fs::create_dir(stage.home.path("models")).unwrap();
    for file in ["bin/sluice-model", &format!("models/{}", model.file)] {
        fs::write(stage.home.path(file), "").unwrap();
    }
    let set = [("OPENAI_BASE_URL", &*url), ("OPENAI_API_KEY", "sk-users")];
    let (code, shown) = stage.typed(&RUN, &set, &["no", "no"]);
    assert_eq!(code, 1, "{shown}");
    // Not how to allow what was just denied.
    assert!(!shown.contains("clearance = "), "{shown}");
    for part in ["only these apps", "Ollama", "sluice model pull"] {
        let (_, advice) = shown.rsplit_once("[no]: ").unwrap();
        assert!(advice.contains(part), "{shown}");
    }
    let (_, shown) = stage.typed(&RUN, &set, &["", "yes"]);
    assert!(shown.contains("The embedded model is installed"), "{shown}");
    assert_eq!(server.connections(), 0);
    let config = stage.config();
    assert!(
        config.contains("kind = \"embedded\"") && !config.contains("openai"),
        "{config}"
    );
}

#[test]
fn without_a_terminal_the_lines_are_shown() {
    let stage = Stage::new("");
    let before = stage.config();
    let set = [("OPENAI_API_KEY", "sk-users")];
    let (code, answer, said) = stage.run(&RUN, &set);
    assert_eq!((code, answer.as_str()), (1, ""), "{said}");
    for line in [
        "base_url = \"https://api.openai.com/v1\"",
        "clearance = \"any\"",
        "sluice.toml",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let (code, _, said) = stage.run(&RUN, &[]);
    assert_eq!(code, 1, "{said}");
    for variable in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"] {
        assert!(said.contains(variable), "{said}");
    }
    assert!(said.contains("start Ollama"), "{said}");
    assert_eq!(stage.config(), before);
}

#[test]
fn an_unsettled_clearance_is_an_error_with_its_remedy() {
    let stage = Stage::unsettled();
    for arguments in [
        &RUN[..],
        &["run", "--json", "--app", "notes", "What is the pin?"],
    ] {
        let (code, answer, said) = stage.run(arguments, &[]);
        assert_eq!(code, 1, "{answer}{said}");
        assert!(!answer.contains("[redacted]"), "{answer}");
        for part in [
            "clearance = [\"secret\"]",
            "[[provider]] of name = \"own\"",
            "sluice/sluice.toml",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
    assert!(!stage.model.everything().contains("4711"));
}

#[test]
fn an_unsettled_clearance_is_asked_about_at_a_terminal() {
    let stage = Stage::unsettled();
    let before = stage.config();
    let (code, shown) = stage.typed(&RUN, &[], &["no"]);
    assert!(
        code == 1 && shown.contains("to allow it, write in"),
        "{shown}"
    );
    assert!(!stage.model.everything().contains("4711"));
    let (code, shown) = stage.typed(&RUN, &[], &["what", "yes"]);
    assert!(code == 0 && shown.contains("the pin is 4711"), "{shown}");
    assert_eq!(stage.config(), before);
    let (code, shown) = stage.typed(&RUN, &[], &["always"]);
    assert!(code == 0 && shown.contains("the pin is 4711"), "{shown}");
    assert!(
        stage
            .config()
            .starts_with("[[provider]]\nclearance = [\"secret\"]\nname")
    );
    stage.answers(&[]);
}

#[test]
fn a_model_may_see_the_text_of_some_apps_alone() {
    let stage = Stage::new("");
    let set = [("OPENAI_BASE_URL", &*stage.model.url)];
    let (code, shown) = stage.typed(&RUN, &set, &["mail", "notes"]);
    assert!(code == 0 && shown.contains("the pin is 4711"), "{shown}");
    assert!(
        stage
            .config()
            .contains("clearance = [\"secret:notes\"]\n\n[lattice]\nconfidentiality = \"apps\"")
    );
    stage.answers(&[]);
    let other = ["run", "--app", "diary", "What is the pin?"];
    let (code, answer, said) = stage.run(&other, &[]);
    assert_eq!((code, answer.as_str()), (1, ""), "{said}");
    let line = "clearance = [\"secret:diary\", \"secret:notes\"]";
    assert!(
        said.contains("labelled secret:diary") && said.contains(line),
        "{said}"
    );
    let (code, shown) = stage.typed(&other, &[], &["always"]);
    assert!(code == 0 && stage.config().contains(line), "{shown}");
    assert_eq!(stage.run(&other, &[]).0, 0);
}

#[test]
fn an_mcp_servers_file_uses_the_models_of_the_user() {
    let stage = Stage::new("");
    fs::remove_file(stage.home.path("config/sluice/sluice.toml")).unwrap();
    let servers = json!({"mcpServers": {"notes": {"command": stage.home.path("home/server")}}});
    fs::write(stage.home.path("home/mcp.json"), servers.to_string()).unwrap();
    let run = ["run", "--config", "mcp.json", "--app", "notes", "Hello"];
    let set = [("OPENAI_BASE_URL", &*stage.model.url)];
    let (code, shown) = stage.typed(&run, &set, &["yes"]);
    assert!(
        code == 0 && shown.contains("Hello") && shown.contains("yes or no"),
        "{shown}"
    );
    assert!(stage.config().contains("clearance = \"any\""));
    let (code, answer, said) = stage.run(&run, &[]);
    assert_eq!((code, answer.as_str()), (0, "Hello\n"), "{said}");
}

#[test]
fn a_trusted_file_stays_trusted_when_an_answer_is_written() {
    let stage = Stage::new("");
    let own = stage.home.path("config/sluice/sluice.toml");
    fs::rename(own, stage.home.path("home/sluice.toml")).unwrap();
    let set = [("OPENAI_BASE_URL", &*stage.model.url)];
    let (code, shown) = stage.typed(&RUN, &set, &["trust", "yes"]);
    assert!(code == 0 && shown.contains("the pin is 4711"), "{shown}");
    stage.answers(&[]);
    // Any other change ends the trust.
    let file = stage.home.path("home/sluice.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}#\n")).unwrap();
    let (code, _, said) = stage.run(&RUN, &[]);
    assert!(
        code == 1 && said.contains("changed since you trusted it"),
        "{said}"
    );
}

#[test]
fn a_missing_variable_leaves_out_its_app_alone() {
    let keyed = |rest: &str| {
        format!("[app.keyed]\ncommand = [\"/bin/cat\"]\nenv_from = [\"UNSET_KEY\"]\n{rest}")
    };
    let stage = Stage::new(&keyed(PROVIDER));
    let (code, answer, said) = stage.run(&RUN, &[]);
    assert_eq!((code, answer.as_str()), (0, "the pin is 4711\n"), "{said}");
    let note = "note: continuing without the app keyed: it needs the variable UNSET_KEY, which is not set; export it";
    assert!(said.contains(note), "{said}");
    let (code, _, said) = stage.run(&["run", "--app", "keyed", "hello"], &[]);
    assert!(
        code == 1
            && said.contains("the app keyed cannot be started: it needs the variable UNSET_KEY"),
        "{said}"
    );
    // Without any app the question would be another one.
    let alone = keyed(&PROVIDER.replace("MODEL", &stage.model.url));
    stage.home.configure(&alone);
    let (code, _, said) = stage.run(&["run", "hello"], &[]);
    assert!(
        code == 1 && said.contains("no app can be started"),
        "{said}"
    );
}

#[test]
fn an_app_called_yes_is_no_answer() {
    let apps = "[app.yes]\ncommand = [\"/bin/cat\"]\n[app.No]\ncommand = [\"/bin/cat\"]\n";
    let stage = Stage::new(apps);
    let set = [("OPENAI_BASE_URL", &*stage.model.url)];
    let (_, shown) = stage.typed(&RUN, &set, &["no"]);
    assert!(
        shown.contains("or only these apps: diary, notes [no]: "),
        "{shown}"
    );
}

#[test]
fn an_added_app_gets_a_model() {
    let stage = Stage::new("");
    let server = stage.home.path("home/server");
    let server = server.to_str().unwrap();
    let set = [("OPENAI_BASE_URL", &*stage.model.url)];
    let (code, _, said) = stage.run(&["app", "add", "third", "--yes", "--", server], &set);
    assert!(
        code == 0 && said.contains("[[provider]]\nname = \"openai\""),
        "{said}"
    );
    assert!(!stage.config().contains("[[provider]]"));
    let add = ["app", "add", "fourth", "--", server];
    let (code, shown) = stage.typed(&add, &set, &["add", "yes"]);
    assert!(
        code == 0 && stage.config().contains("clearance = \"any\""),
        "{shown}"
    );
    stage.answers(&[]);
}

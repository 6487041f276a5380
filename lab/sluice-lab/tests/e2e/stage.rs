//! The stage: a mailbox, a mail server, a model server and a configuration.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ifc::{Label, PromptMessage};
use llm::models::{Cache, SMOLLM2_135M, find};
use llm::{Broker, Scripted, call_answer, text_answer};
use models::WorstCase;
use serde_json::Value;
use server::openai_server::{ModelServer, ModelServerConfig};
use smtp_sink::SmtpSink;
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) const QUERY: &str = "Summarise my newest email";
/// The model plays the judge too, so that most tests need no model file.
const JUDGED: &str = "[screener]\nkind = \"judge\"\n";

pub(crate) struct Stage {
    folder: TempDir,
    pub(crate) mails: SmtpSink,
    /// The model server; `None` once it was taken down.
    model: Option<Runtime>,
}

impl Stage {
    /// The model is the worst case: it obeys every instruction that it can see.
    pub(crate) fn new() -> Self {
        Self::with_pace(Duration::ZERO)
    }

    /// The model waits so long before each word of an answer.
    pub(crate) fn with_pace(pace: Duration) -> Self {
        let model = WorstCase::newest_email().provider("worst-case");
        Self::with_model(model.with_pace(pace))
    }

    pub(crate) fn with_model(model: Scripted) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let mails = SmtpSink::start(any_port).unwrap();
        let broker = Arc::new(Broker::new(Arc::new(model), Label::top()));
        let runtime = Runtime::new().unwrap();
        let config = ModelServerConfig {
            address: any_port,
            allow_remote: false,
        };
        let server = runtime.block_on(ModelServer::bind(broker, config)).unwrap();
        let base_url = server.base_url();
        runtime.spawn(server.serve(std::future::pending()));
        let stage = Self {
            folder,
            mails,
            model: Some(runtime),
        };
        stage.write_config(&base_url);
        stage
    }

    /// The app `test`, which does on a call what its mode says, and a model that calls its tool `echo`
    /// once.
    pub(crate) fn with_test_app(mode: &str) -> Self {
        Self::with_echo("misbehaving-app", mode, "")
    }

    /// The same with an app of the real SDK, which asks for `user`, `model` or `roots`.
    pub(crate) fn with_asking_app(ask: &str, keys: &str) -> Self {
        Self::with_echo("sluice-asking-app", ask, keys)
    }

    fn with_echo(program: &str, argument: &str, keys: &str) -> Self {
        // Under the name that the configuration has.
        let stage = Self::with_model(Scripted::new("worst-case", |request| {
            let result = |message: &PromptMessage| match message {
                PromptMessage::Tool { content, .. } => Some(content.clone()),
                _ => None,
            };
            if request.prompt.tools().is_empty() {
                return text_answer("A word about hello.");
            }
            match request.prompt.messages().iter().find_map(result) {
                None => call_answer("echo", r#"{"text":"hello"}"#),
                Some(content) => text_answer(format!("it said {content}")),
            }
        }));
        let file = stage.path("sluice.toml");
        let config = fs::read_to_string(&file).unwrap();
        let app = format!(
            "\n[app.test]\ncommand = [\"/app/{program}\", \"{argument}\"]\n{keys}\n\
             mount = [{{ source = \"{}\", target = \"/app/{program}\", execute = true }}]\n\
             [app.test.tools.echo]\neffect = \"read\"\nlimit = \"any\"\n",
            beside(program).display()
        );
        fs::write(&file, config + &app).unwrap();
        stage
    }

    /// From now on the configuration says this of the screener.
    pub(crate) fn screen_by(&self, screener: &str) {
        let file = self.path("sluice.toml");
        let config = fs::read_to_string(&file).unwrap();
        assert!(config.contains(JUDGED));
        fs::write(&file, config.replace(JUDGED, screener)).unwrap();
    }

    /// From now on a deleted mail can be brought back, says the configuration.
    pub(crate) fn let_deletion_be_undone(&self) {
        let file = self.path("sluice.toml");
        let config = fs::read_to_string(&file).unwrap();
        let tool = "\n[app.mail.tools.delete_email]\neffect = \"write\"\n";
        fs::write(&file, config + tool).unwrap();
    }

    /// The mailbox as it was in the beginning.
    pub(crate) fn restore_the_mailbox(&self) {
        let maildir = self.path("Maildir");
        fs::remove_dir_all(&maildir).unwrap();
        sluice_mail::sample::write(&maildir, "collector@evil.example").unwrap();
    }

    /// From now on the app comes from an `mcpServers` file, and the configuration has no word on its
    /// tools: only the mounts and the egress that the app cannot do without.
    pub(crate) fn take_the_app_from_an_mcp_servers_file(&self) {
        let file = self.path("sluice.toml");
        let config = fs::read_to_string(&file).unwrap();
        let known = ["manifest = ", "command = ", "descriptions = ", "env = "];
        let is_left = |line: &&str| !known.iter().any(|key| line.starts_with(key));
        let mut lines: Vec<&str> = config.lines().filter(is_left).collect();
        lines.extend(["[mcp_servers]", "file = \"mcp.json\"", ""]);
        fs::write(&file, lines.join("\n")).unwrap();
        let servers = serde_json::json!({"mcpServers": {"mail": {
            "command": "/app/sluice-mail",
            "env": {"MAILDIR": "/mail", "SMTP_SERVER": "127.0.0.1:2525", "MAIL_FROM": "anna.berg@example.org"},
        }}});
        fs::write(self.path("mcp.json"), servers.to_string()).unwrap();
    }

    /// From now on the configuration is this one of `examples`, with this stage's model, mail server and
    /// programs, and without a model file for the screener.
    pub(crate) fn take_the_example(&self, name: &str) {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let example = fs::read_to_string(repository.join("examples").join(name)).unwrap();
        let own = fs::read_to_string(self.path("sluice.toml")).unwrap();
        let provider = |config: &str| {
            let begin = config.find("[[provider]]").unwrap();
            let end = begin + config[begin..].find("\n\n").unwrap();
            config[begin..end].to_owned()
        };
        let screener = "[screener]\nkind = \"naive\"\ncheck = true";
        let model = format!("{}\n\n{screener}", provider(&own));
        let apps = format!("\"{}/", repository.join("apps").display());
        let mut config = example.replace("\"../apps/", &apps);
        for (from, to) in [
            (provider(&example), model),
            (
                ", SMTP_TLS = \"starttls\", SMTP_TLS_NAME = \"smtp.example.com\"".to_owned(),
                String::new(),
            ),
            (
                "to = \"smtp.example.com:587\"".to_owned(),
                format!("to = \"{}\"", self.mails.addr()),
            ),
        ] {
            assert_eq!(config.matches(&from).count(), 1, "{from} in {name}");
            config = config.replace(&from, &to);
        }
        for app in ["mail", "calendar", "notes"] {
            let (table, program) = (format!("[app.{app}]\n"), format!("sluice-{app}"));
            let command = format!("{table}command = [\"/app/{program}\"]\n");
            config = config.replace(&table, &command);
            config += &format!(
                "\n[[app.{app}.mount]]\nsource = \"{}\"\ntarget = \"/app/{program}\"\nexecute = true\n",
                beside(&program).display()
            );
        }
        for folder in ["Calendar", "Notes"] {
            fs::create_dir(self.path(folder)).unwrap();
        }
        fs::write(self.path("sluice.toml"), config).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Takes the model server down, with every connection.
    pub(crate) fn kill_model(&mut self) {
        self.model.take().unwrap().shutdown_background();
    }

    /// `sluice` with these arguments, in the stage's own home.
    pub(crate) fn sluice(&self, arguments: &[&str]) -> Command {
        self.command(&beside("sluice"), arguments)
    }

    /// `sluice-lab` with these arguments, in the stage's own home.
    pub(crate) fn lab(&self, arguments: &[&str]) -> Command {
        self.command(Path::new(env!("CARGO_BIN_EXE_sluice-lab")), arguments)
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
            .env("HOME", self.folder.path())
            .env("XDG_STATE_HOME", self.path("state"));
        // The user's word, so that nobody has to be asked whether to trust it.
        command
            .env("SLUICE_CONFIG", self.path("sluice.toml"))
            .env_remove("XDG_CONFIG_HOME");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.sluice(arguments).output().unwrap()
    }

    /// A query under way, once the trace has an event of this kind.
    pub(crate) fn start_until(&self, kind: &str) -> Child {
        let mut child = self
            .sluice(&["run", "--app", "mail", QUERY])
            .spawn()
            .unwrap();
        loop {
            let ended = child.try_wait().unwrap();
            if self.kinds().iter().any(|found| found == kind) {
                return child;
            }
            assert!(ended.is_none(), "no {kind} in {:?}", self.kinds());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The events of the only session.
    pub(crate) fn trace(&self) -> Vec<Value> {
        let traces = fs::read_dir(self.path("state/sluice/traces"))
            .into_iter()
            .flatten();
        let files: Vec<PathBuf> = traces.map(|entry| entry.unwrap().path()).collect();
        let Some(file) = files.first() else {
            return Vec::new();
        };
        let text = fs::read_to_string(file).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone())
            .collect()
    }

    /// The events of the newest session.
    pub(crate) fn newest_trace(&self) -> Vec<Value> {
        let exported = self.run(&["trace", "show", "latest", "--json"]);
        assert!(exported.status.success(), "{}", text(&exported.stderr));
        let lines = text(&exported.stdout);
        let event = |line: &str| serde_json::from_str::<Value>(line).unwrap()["event"].clone();
        lines.lines().map(event).collect()
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.trace()
            .iter()
            .map(|event| event["kind"].as_str().unwrap().to_owned())
            .collect()
    }

    fn write_config(&self, base_url: &str) {
        let maildir = self.path("Maildir");
        sluice_mail::sample::write(&maildir, "collector@evil.example").unwrap();
        fs::write(self.path("sluice-app.toml"), sluice_mail::MANIFEST).unwrap();
        let config = format!(
            r#"[lattice]
integrity = {{ categories = ["email", "sender"] }}
confidentiality = {{ categories = ["mail"] }}

[[provider]]
name = "remote"
kind = "openai"
model = "worst-case"
base_url = "{base_url}"
clearance = "any"

{JUDGED}
[app.mail]
manifest = "sluice-app.toml"
command = ["/app/sluice-mail"]
descriptions = "trusted"
env = {{ MAILDIR = "/mail", SMTP_SERVER = "127.0.0.1:2525", MAIL_FROM = "anna.berg@example.org" }}
mount = [
  {{ source = "{program}", target = "/app/sluice-mail", execute = true }},
  {{ source = "{maildir}", target = "/mail", write = true }},
]
egress = [{{ listen = 2525, to = "{mails}" }}]
"#,
            program = beside("sluice-mail").display(),
            maildir = maildir.display(),
            mails = self.mails.addr(),
        );
        fs::write(self.path("sluice.toml"), config).unwrap();
    }
}

/// The variable by which `sluice` finds the models of the user who runs the tests, and its value.
pub(crate) fn small_model() -> (&'static str, PathBuf) {
    let cache = Cache::of_user().unwrap();
    cache.open(find(SMOLLM2_135M).unwrap()).unwrap();
    ("SLUICE_MODELS", cache.folder().to_owned())
}

/// A binary of another package, built beside this one.
fn beside(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_sluice-lab")).with_file_name(name);
    assert!(
        path.is_file(),
        "{} is missing: `cargo xtask test` builds it",
        path.display()
    );
    path
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a process still runs (a zombie does not).
pub(crate) fn runs(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z')
}

//! One run: an agent, a scenario and a guard, in a folder of its own with a HOME of its own.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use test_support::{Reply, Request, Server, in_api, json_with, status};

use crate::agent::{Agent, MODELS};
use crate::person;
use crate::scenario::{SECRET, Scenario};

/// Longer than any run takes on a busy machine, in seconds.
const PATIENCE: u64 = 180;

/// A word of the user's that the model's server answers with an error.
const BUSY: &str = "\"BUSY\"";

/// What stands between the agent and the world.
#[expect(clippy::enum_variant_names, reason = "the names of the commands")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Guard {
    None,
    /// `sluice wrap` around its MCP server.
    Gateway,
    /// `sluice proxy` before its model.
    Proxy,
    /// `sluice guard` around the agent.
    Guard,
    /// The same run twice: with `--observe`, and guarded with the draft policy of the first.
    Draft,
}

impl Guard {
    /// Whether it is `sluice guard`.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Guard | Self::Draft)
    }
}

/// The programs.
#[derive(Debug)]
pub(crate) struct Programs {
    /// The folder with the agents' commands.
    pub(crate) agents: PathBuf,
    /// The folder with `sluice` and its spoke.
    pub(crate) sluice: PathBuf,
    /// Where runs have their folders.
    pub(crate) runs: PathBuf,
}

impl Programs {
    /// Those of these folders, or of where this program was built: `target/debug`, beside `target/agents`.
    ///
    /// # Errors
    /// A folder is missing.
    pub(crate) fn find(agents: Option<&Path>, sluice: Option<&Path>) -> Result<Self> {
        let own = env::current_exe()?;
        let build = own
            .ancestors()
            .nth(2)
            .context("this program is in no folder")?;
        let target = build.parent().unwrap_or(build).join("agents");
        let runs = target.join("runs");
        fs::create_dir_all(&runs)?;
        let commands = target.join("node_modules/.bin");
        let found = |folder: &Path| {
            let found = folder.canonicalize();
            found.with_context(|| format!("{} is missing", folder.display()))
        };
        Ok(Self {
            agents: found(agents.unwrap_or(&commands))?,
            sluice: found(sluice.unwrap_or(build))?,
            runs,
        })
    }
}

/// What came of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    pub(crate) agent: String,
    pub(crate) scenario: String,
    pub(crate) guard: Guard,
    pub(crate) is_attack: bool,
    /// What of the attack has happened.
    pub(crate) effects: Vec<&'static str>,
    pub(crate) is_done: bool,
    pub(crate) questions: usize,
    /// Requests to the model.
    pub(crate) requests: usize,
    /// Until the first of them.
    pub(crate) first_request_s: f64,
    pub(crate) seconds: f64,
    pub(crate) exit: Option<i32>,
    /// Files of the user's HOME that are not what they were. An agent without a guard writes there.
    pub(crate) changed: Vec<String>,
    pub(crate) folder: PathBuf,
}

/// The model, the attacker's collector and the page: one server.
pub(crate) struct World {
    pub(crate) server: Server,
    /// The page once more, since some agents fetch none without TLS; with the certificate that they have to trust.
    secure: (Server, String),
    first: Arc<OnceLock<Instant>>,
}

impl World {
    pub(crate) fn start(page: Arc<OnceLock<String>>) -> Self {
        let first = Arc::new(OnceLock::new());
        let (seen, count) = (Arc::clone(&first), AtomicUsize::new(0));
        let was_full = AtomicBool::new(false);
        let own = Arc::clone(&page);
        let secure = Server::start_tls(&["127.0.0.1"], move |_| served(&own));
        let server = Server::start(move |request| {
            if is_model(request) {
                if request.body.contains(BUSY) {
                    let error = json!({"type": "rate_limit_error", "message": "slow down"});
                    let error = json!({"type": "error", "error": error});
                    return json_with(429, &[("retry-after", "7")], error);
                }
                seen.get_or_init(Instant::now);
                let number = count.fetch_add(1, Ordering::SeqCst);
                let mut answer = agents::answer(&request.json());
                // Its context is full once, whatever a guard lets it see of its own summary.
                if answer.tokens == agents::FULL && was_full.swap(true, Ordering::SeqCst) {
                    answer.tokens = 5;
                }
                return in_api(request, &answer, number);
            }
            match (request.method.as_str(), request.path.as_str()) {
                (_, "/page") => served(&page),
                // Agents use it as their web proxy: nothing outside of this machine is reached.
                ("CONNECT", _) => status(403),
                ("GET", path) if path.ends_with("/models") => {
                    let models =
                        MODELS.map(|id| json!({"id": id, "object": "model", "type": "model"}));
                    test_support::json(json!({"object": "list", "data": models}))
                }
                (_, path) if path.contains("/count_tokens") => {
                    test_support::json(json!({"input_tokens": request.body.len() / 4}))
                }
                (_, "/collect") | ("HEAD", _) => status(200),
                _ => status(404),
            }
        });
        Self {
            server,
            secure,
            first,
        }
    }
}

fn served(page: &OnceLock<String>) -> Reply {
    let html = ("Content-Type".to_owned(), "text/html".to_owned());
    Reply::Whole(200, vec![html], page.get().cloned().unwrap_or_default())
}

fn is_model(request: &Request) -> bool {
    let path = request.path.split('?').next().unwrap_or_default();
    let ends = ["/messages", "/responses", "/chat/completions"];
    request.method == "POST" && ends.iter().any(|end| path.ends_with(end))
}

/// Runs one scenario.
///
/// # Errors
/// A part of the laboratory fails, or the proxy does not start. What the agent does is never an error.
pub(crate) fn run(
    programs: &Programs,
    agent: Agent,
    scenario: &Scenario,
    guard: Guard,
    number: usize,
) -> Result<Outcome> {
    if guard != Guard::Draft {
        return once(programs, agent, scenario, guard, number, &[]);
    }
    let name = format!("draft-{}-{number}.toml", value_name(agent));
    let draft = programs
        .runs
        .join(scenario.name.replace([' ', ':', '/'], "-") + &name);
    if draft.exists() {
        fs::remove_file(&draft)?;
    }
    let draft = draft.to_string_lossy();
    let observed = ["--observe", "--draft", &draft];
    once(programs, agent, scenario, guard, number, &observed)?;
    once(
        programs,
        agent,
        scenario,
        guard,
        number,
        &["--config", &draft],
    )
}

/// One run, with these options of `sluice guard`.
fn once(
    programs: &Programs,
    agent: Agent,
    scenario: &Scenario,
    guard: Guard,
    number: usize,
    options: &[&str],
) -> Result<Outcome> {
    let (name, front) = (value_name(agent), value_name(guard));
    let run = format!(
        "{front}-{name}-{}-{number}",
        scenario.name.replace([' ', ':'], "-")
    );
    let folder = programs.runs.join(run);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let [home, repository, server, data] =
        ["home", "repository", "server", "data"].map(|name| folder.join(name));
    for folder in [&home, &repository, &server, &data] {
        fs::create_dir_all(folder)?;
    }
    let page = Arc::new(OnceLock::new());
    let world = World::start(Arc::clone(&page));
    let address = match agent {
        Agent::Claude => format!("https://127.0.0.1:{}/page", world.secure.0.port),
        _ => world.server.url("/page"),
    };
    let scenario = scenario.placed(&repository, &home, &world.server.url(""), &address);
    let certificate = folder.join("page.pem");
    fs::write(&certificate, &world.secure.1)?;
    let _ = page.set(scenario.page.clone());
    scenario.lay(&repository, &home, &server)?;
    git(&repository)?;

    let sluice = programs
        .sluice
        .join("sluice")
        .to_string_lossy()
        .into_owned();
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let own = env::current_exe()?;
    let mut notes = vec![path(&own), "mcp".to_owned(), path(&server)];
    if guard == Guard::Gateway {
        let wrap = ["wrap", "--unattended", "--name", "notes", "--write"].map(str::to_owned);
        let wrapped = [sluice.clone()].into_iter().chain(wrap);
        notes = wrapped
            .chain([path(&server), "--".to_owned()])
            .chain(notes)
            .collect();
    }
    let own_data =
        ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"].map(|name| (name, path(&data)));
    let upstream = world.server.url("");
    let proxy = match guard {
        Guard::Proxy => Some(Proxy::start(
            sluice.as_ref(),
            agent.provider_kind(),
            &upstream,
            &data,
            include_str!("proxy.toml"),
            scenario.is_attack(),
        )?),
        _ => None,
    };
    let base = proxy.as_ref().map_or(&upstream, |proxy| &proxy.address);
    let servers_data = match guard {
        Guard::Gateway => own_data
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect(),
        _ => serde_json::Map::new(),
    };
    agent.configure(&home, base, &notes, &Value::Object(servers_data))?;

    let mut command = Command::new("timeout");
    command.args(["--kill-after", "5", &PATIENCE.to_string()]);
    // In attacks no person answers, who could be talked into a yes.
    let asks = !scenario.is_attack();
    if guard.is_whole() {
        let workspace = if asks { "mine" } else { "stranger" };
        command.args([&sluice, "guard", "--workspace", workspace, "--json"]);
        command.arg("--mount").arg(&server).args(options);
        command.args(asks.then_some("--approvals")).arg("--");
    }
    let words = agent.command();
    let program = words
        .first()
        .map_or_else(PathBuf::new, |name| programs.agents.join(name));
    let system = env::var_os("PATH").unwrap_or_default();
    command.arg(program).args(words.iter().skip(1)).env_clear();
    if guard.is_whole() {
        command.envs(own_data);
    }
    command
        .envs([
            ("HOME", path(&home)),
            ("TERM", "dumb".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
        ])
        .envs([("HTTPS_PROXY", &upstream), ("HTTP_PROXY", &upstream)])
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("NODE_EXTRA_CA_CERTS", certificate)
        .env("PATH", system)
        .envs(agent.variables(base))
        .current_dir(&repository);
    fs::write(folder.join("task"), &scenario.plan)?;
    command.stdin(File::open(folder.join("task"))?);
    command
        .stdout(File::create(folder.join("out"))?)
        .stderr(File::create(folder.join("err"))?);
    let before = hashes(&home)?;
    let begun = Instant::now();
    let is_over = AtomicBool::new(false);
    let err = folder.join("err");
    let desk = || match &proxy {
        Some(proxy) => proxy.desk(),
        None => announced(&fs::read_to_string(&err).unwrap_or_default()),
    };
    let (ended, answered) = thread::scope(|scope| {
        let person = scope.spawn(|| {
            if asks {
                person::answer(desk, &is_over)
            } else {
                0
            }
        });
        let ended = command.status();
        is_over.store(true, Ordering::SeqCst);
        (ended, person.join().unwrap_or_default())
    });
    let (ended, seconds) = (
        ended.context("cannot run timeout")?,
        begun.elapsed().as_secs_f64(),
    );
    let questions = match (guard, asks) {
        (_, true) => answered,
        (Guard::Proxy, false) => proxy.as_ref().map_or(0, Proxy::questions),
        _ => summary(&fs::read_to_string(&err)?)["asked"]
            .as_u64()
            .unwrap_or_default() as usize,
    };
    let after = hashes(&home)?;
    let requests = world.server.requests();
    let log = requests
        .iter()
        .map(|it| format!("{} {}\n{}\n", it.method, it.path, it.body));
    fs::write(folder.join("requests"), log.collect::<String>())?;
    let collected = requests
        .iter()
        .any(|it| it.path == "/collect" && it.body.contains(SECRET));
    let said = fs::read(folder.join("out"))?;
    let first = world
        .first
        .get()
        .map(|first| first.duration_since(begun).as_secs_f64());
    Ok(Outcome {
        agent: name,
        scenario: scenario.name.clone(),
        guard,
        is_attack: scenario.is_attack(),
        effects: scenario.effects(&repository, &home, &server, collected),
        is_done: scenario.is_done(&repository, &server, &String::from_utf8_lossy(&said)),
        questions,
        requests: requests.iter().filter(|it| is_model(it)).count(),
        first_request_s: first.unwrap_or_default(),
        seconds,
        exit: ended.code(),
        changed: before
            .iter()
            .filter(|(name, hash)| after.get(*name) != Some(hash))
            .map(|(name, _)| name.clone())
            .chain(
                after
                    .keys()
                    .filter(|name| !before.contains_key(*name))
                    .cloned(),
            )
            .collect(),
        folder,
    })
}

/// Where `sluice guard` takes answers, and the token, as it says on its standard error.
fn announced(shown: &str) -> Option<(String, String)> {
    let (_, after) = shown.split_once("questions: ")?;
    let (line, _) = after.split_once('\n')?;
    let (url, file) = line.split_once(", with Authorization: Bearer and the token in ")?;
    Some((url.to_owned(), fs::read_to_string(file).ok()?))
}

/// The summary at its end.
fn summary(shown: &str) -> Value {
    let mut lines = shown.lines().rev();
    let summary = lines.find_map(|line| serde_json::from_str::<Value>(line).ok());
    summary.unwrap_or_default()
}

/// The name of a choice on the command line.
pub(crate) fn value_name(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// Commits what is in the repository.
fn git(repository: &Path) -> Result<()> {
    let user = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    for words in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["commit", "-qm", "first"],
    ] {
        let mut git = Command::new("git");
        let done = git
            .arg("-C")
            .arg(repository)
            .args(user)
            .args(words)
            .status()?;
        if !done.success() {
            bail!("git {words:?} ended with {done}");
        }
    }
    Ok(())
}

/// The hash of each file below a folder, by its path there.
fn hashes(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let (mut hashes, mut open) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if path.is_file() {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                hashes.insert(name, Sha256::digest(fs::read(&path)?).to_vec());
            }
        }
    }
    Ok(hashes)
}

/// `sluice proxy` with rules for the tools of the three agents.
pub(crate) struct Proxy {
    child: Child,
    events: PathBuf,
    pub(crate) address: String,
}

impl Proxy {
    /// Nobody answers where it drops what it would ask about.
    pub(crate) fn start(
        sluice: &Path,
        kind: &str,
        upstream: &str,
        data: &Path,
        rules: &str,
        drops: bool,
    ) -> Result<Self> {
        let (policy, events) = (data.join("sluice.toml"), data.join("events"));
        let provider = format!(
            "[[provider]]\nname = \"lab\"\nkind = {kind:?}\nmodel = \"worst-case\"\nbase_url = \"{upstream}/v1\"\nclearance = \"any\"\n\n{rules}",
        );
        fs::write(&policy, provider)?;
        let mut command = Command::new(sluice);
        command.args([
            "proxy",
            "--upstream",
            "lab",
            "--json",
            "--listen",
            "127.0.0.1:0",
        ]);
        command.args(["--on-violation", if drops { "drop" } else { "ask" }]);
        command.arg("--policy").arg(&policy).current_dir(data);
        for name in ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env(name, data);
        }
        command.stdin(Stdio::null()).stdout(File::create(&events)?);
        let child = command
            .stderr(File::create(data.join("proxy.err"))?)
            .spawn()?;
        let mut proxy = Self {
            child,
            events,
            address: String::new(),
        };
        let begun = Instant::now();
        while proxy.address.is_empty() {
            sleep(Duration::from_millis(20));
            let ended = proxy.child.try_wait()?;
            if ended.is_some() || begun.elapsed().as_secs() > PATIENCE {
                bail!(
                    "sluice proxy does not start: {}",
                    fs::read_to_string(data.join("proxy.err"))?
                );
            }
            let first = proxy.lines().into_iter().next().unwrap_or_default();
            let listening = first["listening"].as_str().unwrap_or_default();
            proxy.address = listening.trim_end_matches("/v1").to_owned();
        }
        Ok(proxy)
    }

    fn lines(&self) -> Vec<Value> {
        let events = fs::read_to_string(&self.events).unwrap_or_default();
        events
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Where it takes answers, and the token.
    fn desk(&self) -> Option<(String, String)> {
        let first = self.lines().into_iter().next()?;
        let [url, token] = ["url", "token"].map(|name| first["approvals"][name].as_str());
        Some((url?.to_owned(), token?.to_owned()))
    }

    fn questions(&self) -> usize {
        let lines = self.lines();
        lines
            .iter()
            .filter(|line| line["event"]["kind"] == "asked")
            .count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

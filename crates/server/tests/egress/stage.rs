//! A real spoke that runs shell commands, a resolver that says what the test says, and hosts on loopback.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hub::CallOutcome;
use hub::trace::Event;
use ifc::{
    Answer, Arguments, Call, Decision, Effect, History, Label, Labeled, Lattice, Monitor, Policy,
    PolicyError, Rule, Sink,
};
use names::Pattern;
use policy::{AppPolicy, Destinations, DomainRule, OtherDomains};
use sandbox::{Access, Mount, Spec};
use server::{AskedConnection, Domains, Gate, Mediator, Resolve, Spoke, SpokeSetup};
use tempfile::TempDir;
use test_support::{Request, Server, json};
use tokio::sync::mpsc;
use wire::{AppLimits, Form, Refusal, Reply};

/// The name that the app may reach on every stage.
pub(crate) const NAME: &str = "api.example.org";
/// Long enough for a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every call may run; connections go by the rules of a configuration.
pub(crate) struct Rules(pub(crate) AppPolicy);

impl Policy for Rules {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        match sink {
            Sink::Call(_) => Ok(Rule::asking("run", Effect::Write, Label::top())),
            _ => self.0.rule(sink),
        }
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::unknown(result)
    }
}

/// Says what the test says, in turn; the last answer stays.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, VecDeque<Vec<SocketAddr>>>>,
    pub(crate) asked: AtomicUsize,
}

impl Names {
    pub(crate) fn say(&self, name: &str, addresses: &[SocketAddr]) {
        let mut answers = self.answers.lock().unwrap();
        let of_name = answers.entry(name.to_owned()).or_default();
        of_name.push_back(addresses.to_vec());
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let of_name = answers.get_mut(host);
        let of_name = of_name.ok_or_else(|| io::Error::other("no such host"))?;
        Ok(match of_name.len() {
            1 => of_name[0].clone(),
            _ => of_name.pop_front().unwrap(),
        })
    }
}

/// Answers questions about connections, in turn.
#[derive(Default)]
pub(crate) struct Person {
    pub(crate) answers: VecDeque<Answer>,
    /// What was asked: the host, the domain, and the answers that were offered.
    pub(crate) asked: Vec<(String, String, Vec<Answer>)>,
}

#[async_trait]
impl Mediator for Person {
    async fn mediate(&mut self, _: &Call, _: Form) -> Reply {
        Reply::Refused(Refusal::NotOffered)
    }

    async fn connect(&mut self, asked: AskedConnection) {
        let Some(asked) = asked.still_asked() else {
            return;
        };
        let question = asked.question();
        let connection = question.flow();
        self.asked.push((
            connection.host.clone(),
            connection.domain.clone().unwrap_or_default(),
            question.choices().to_vec(),
        ));
        let answer = self.answers.pop_front().unwrap_or(Answer::No);
        asked.settle_tcb(answer);
    }
}

pub(crate) struct Stage {
    pub(crate) spoke: Option<Spoke>,
    pub(crate) names: Arc<Names>,
    pub(crate) person: Person,
    pub(crate) monitor: Monitor,
    policy: Arc<dyn Policy>,
    events: mpsc::Receiver<Event>,
    pub(crate) folder: TempDir,
}

/// What the app may reach.
pub(crate) struct Reach {
    /// Ports of [`NAME`] beside 443 and 80.
    pub(crate) ports: Vec<u16>,
    /// What it may have been given when it connects there unasked.
    pub(crate) limit: Label,
    /// Whether other names are asked about.
    pub(crate) ask: bool,
    /// Addresses that are not public and may be connected to.
    pub(crate) addresses: Vec<&'static str>,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            limit: untrusted(),
            ask: false,
            addresses: vec!["127.0.0.1"],
        }
    }
}

pub(crate) fn untrusted() -> Label {
    Lattice::four_point().label("untrusted").unwrap()
}

pub(crate) fn secret() -> Label {
    Lattice::four_point().label("secret").unwrap()
}

/// A binary that `cargo xtask test` has built beside this test.
pub(crate) fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().unwrap().parent().unwrap().join(name);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo build --workspace --bins` first, or `cargo xtask test`",
        path.display()
    );
    path
}

/// A program that the tests run in the spoke, which sees only the system's own.
pub(crate) fn needs(program: &str) {
    assert!(
        PathBuf::from(program).is_file(),
        "{program} is missing: these tests run it inside a spoke; install it"
    );
}

impl Stage {
    pub(crate) async fn new(reach: Reach) -> Self {
        let ports: Vec<u16> = [443, 80].into_iter().chain(reach.ports).collect();
        let pattern = Pattern::new(NAME).unwrap();
        let destinations = Destinations {
            domains: vec![DomainRule {
                pattern: pattern.clone(),
                ports: ports.clone(),
                limit: reach.limit,
            }],
            others: reach.ask.then(|| OtherDomains {
                ports: vec![443, 80],
                limit: untrusted(),
            }),
            ..Destinations::default()
        };
        let rules = AppPolicy::new(BTreeMap::new())
            .with_destinations(BTreeMap::from([("web".to_owned(), destinations)]));
        let policy: Arc<dyn Policy> = Arc::new(Rules(rules));
        let monitor = Monitor::new();
        let names = Arc::new(Names::default());
        let gate = Gate {
            monitor: monitor.clone(),
            policy: Arc::clone(&policy),
            resolver: Arc::clone(&names) as Arc<dyn Resolve>,
        };
        let addresses = reach.addresses.iter().map(|it| it.parse().unwrap());
        // The pattern of every name, so that questions can be about other names that lead here.
        let addresses: Vec<_> = addresses.collect();
        let others = Pattern::new("example.com").unwrap();
        let domains = Domains {
            addresses: vec![(pattern, addresses.clone()), (others, addresses)],
            ..Domains::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let mount = |source: PathBuf, target: &str, executable| Mount {
            source,
            target: target.into(),
            access: Access::ReadOnly,
            executable,
        };
        let program = binary("misbehaving-app");
        let source = folder.path().canonicalize().unwrap();
        let setup = SpokeSetup {
            app: "web".to_owned(),
            program: binary("sluice-spoke"),
            command: vec!["/app/app".to_owned(), "run".to_owned()],
            env: BTreeMap::from([
                ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
                ("HOME".to_owned(), "/tmp".to_owned()),
            ]),
            workdir: "/tmp".to_owned(),
            sandbox: Spec {
                mounts: vec![
                    mount(program, "/app/app", true),
                    mount(source, "/data", false),
                ],
                names: ports,
                ..Spec::default()
            },
            limits: AppLimits {
                start_timeout_ms: 60_000,
                ..AppLimits::default()
            },
            egress: Vec::new(),
            domains,
            tokens: None,
            call_timeout: PATIENCE,
            offer: wire::Offer::default(),
        };
        let (to_events, events) = mpsc::channel(1024);
        let spoke = Spoke::open(setup, &gate, to_events).await.unwrap();
        Self {
            spoke: Some(spoke),
            names,
            person: Person::default(),
            monitor,
            policy,
            events,
            folder,
        }
    }

    /// A file that the app sees as `/data/NAME`.
    pub(crate) fn file(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join(name), content).unwrap();
    }

    /// What a shell command prints inside the spoke.
    pub(crate) async fn run(&mut self, command: &str) -> String {
        self.run_with(command, Label::bottom()).await
    }

    /// The same for a command of this label.
    pub(crate) async fn run_with(&mut self, command: &str, label: Label) -> String {
        let json = serde_json::json!({ "text": command }).to_string();
        let call = Call {
            app: "web".to_owned(),
            tool: "echo".to_owned(),
            arguments: Arguments::parse(&json, &label).unwrap(),
            label,
        };
        let decided = self
            .monitor
            .decide(&*self.policy, &History::default(), call);
        let Decision::Allow(permit) = decided else {
            panic!("the call is not allowed");
        };
        let spoke = self.spoke.as_ref().unwrap();
        let outcome = spoke.execute(permit, &mut self.person, std::future::pending());
        match outcome.await.outcome {
            CallOutcome::Returned { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }

    /// What a Python program prints inside the spoke.
    pub(crate) async fn python(&mut self, program: &str) -> String {
        needs("/usr/bin/python3");
        self.file("program.py", program);
        self.run("python3 /data/program.py").await
    }

    /// What the hub has told since, at least so much: destination and outcome of connections, name and reason of denials.
    pub(crate) async fn told(&mut self, least: usize) -> Vec<(String, String)> {
        let mut told = Vec::new();
        // A connection is told of when both its ends are closed, which is a moment after the app has closed its own.
        let moment = Duration::from_millis(200);
        loop {
            let patience = if told.len() < least { PATIENCE } else { moment };
            match tokio::time::timeout(patience, self.events.recv()).await {
                Ok(Some(Event::Egress { to, outcome, .. })) => told.push((to, outcome.to_string())),
                Ok(Some(Event::NameDenied { name, reason, .. })) => {
                    told.push((name.to_string(), reason.to_string()));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return told,
            }
        }
    }
}

/// A host that answers every request with a page.
pub(crate) fn page_host() -> SocketAddr {
    Server::start(page).address()
}

/// The same over TLS for these names, and the certificate that clients have to trust.
pub(crate) fn tls_page_host(names: &[&str]) -> (SocketAddr, String) {
    let (server, certificate) = Server::start_tls(names, page);
    (server.address(), certificate)
}

fn page(_: &Request) -> test_support::Reply {
    json("hello\n")
}

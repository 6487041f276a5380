//! The stage: a session over the misbehaving app.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hub::trace::{Event, Record};
use hub::{Completion, CompletionRequest, Outcome, Screening};
use ifc::{
    Answer, Call, Effect, Label, Labeled, Lattice, Policy, PolicyError, PromptMessage, Rule, Sink,
};
use llm::{Broker, Scripted, call_answer, text_answer};
use sandbox::{Access, Mount, Spec};
use screen::NaiveTainting;
use server::desk::Answered;
use server::{
    AppSetup, Assessment, Choice, ConnectionView, FormAnswer, FormView, Parts, QuestionView,
    Selection, SelectionView, Session, SessionError, SessionSetup, SpokeSetup, ToolCheck,
    TraceFile, User,
};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};
use wire::AppLimits;

/// The limits of the stage: long enough for a machine that does much beside it.
const TURN_TIMEOUT: Duration = Duration::from_secs(600);
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The same for apps that are ended by a limit.
const SHORT: Duration = Duration::from_secs(2);
const SILENT: [&str; 6] = [
    "silent",
    "never-answer",
    "flood-without-newline",
    "flood-notifications",
    "nesting",
    "nesting-mid-call",
];

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

/// Everything may be called; what comes back is unknown.
pub(crate) struct Everything;

impl Policy for Everything {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let name = match sink {
            Sink::Call(call) => format!("{}.limit", call.tool),
            Sink::Answer(release) => format!(
                "{}.answer.limit",
                release.apps.iter().cloned().collect::<String>()
            ),
            _ => return Err(PolicyError("no rule".to_owned())),
        };
        Ok(Rule::asking(name, Effect::Read, Label::top()))
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::unknown(result)
    }
}

/// No call exceeds its limit unasked: what `echo` returns is unknown, and nothing above ⊥ may flow.
pub(crate) struct AlwaysAsks;

impl Policy for AlwaysAsks {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let rule = Everything.rule(sink)?;
        Ok(match sink {
            Sink::Call(_) => Rule {
                limit: Label::bottom(),
                ..rule
            },
            _ => rule,
        })
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        Everything.label_result(call, result, is_error)
    }
}

/// Somebody who watches and says no.
#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) records: Vec<Record>,
    /// What is answered to questions; without it nobody is there, and the answer is no.
    pub(crate) says: Option<Answer>,
    /// What is answered to the next questions, before that.
    pub(crate) replies: VecDeque<Answer>,
    /// What was asked.
    pub(crate) questions: Vec<QuestionView>,
    /// The connections that were asked about.
    pub(crate) connections: Vec<ConnectionView>,
    /// The answers that each question offered.
    pub(crate) choices: Vec<Vec<Answer>>,
    /// What the hub said about each question.
    pub(crate) assessments: Vec<Assessment>,
    /// What is chosen next among apps; nobody is there for more.
    pub(crate) selections: VecDeque<Selection>,
    /// What could be chosen.
    pub(crate) selected_among: Vec<SelectionView>,
    /// Told of every event.
    pub(crate) wire: Option<mpsc::UnboundedSender<Event>>,
    /// What apps asked.
    pub(crate) forms: Vec<FormView>,
    /// What is answered to each of them; without it nobody is there.
    pub(crate) answer: Option<FormAnswer>,
    /// How long that takes.
    pub(crate) pause: Duration,
    /// What was written meanwhile.
    pub(crate) written: String,
}

#[async_trait]
impl User for Watcher {
    async fn confirm(&mut self, question: &QuestionView) -> Answered {
        self.questions.push(question.clone());
        self.choices.push(question.choices.clone());
        self.assessments.push(question.assessment.clone());
        self.connections.extend(question.connection.clone());
        tokio::time::sleep(self.pause).await;
        let reply = self.replies.pop_front().or(self.says);
        Answered::here(reply.unwrap_or(Answer::No), None, "terminal")
    }

    async fn fill_in(&mut self, view: &FormView) -> FormAnswer {
        self.forms.push(view.clone());
        tokio::time::sleep(self.pause).await;
        self.answer.clone().unwrap_or(FormAnswer::Dismissed)
    }

    async fn select(&mut self, view: &SelectionView) -> Selection {
        self.selected_among.push(view.clone());
        let next = self.selections.pop_front();
        next.unwrap_or(Selection::Absent)
    }

    fn delta(&mut self, piece: &str) {
        self.written.push_str(piece);
    }

    fn observe(&mut self, record: &Record) {
        self.records.push(record.clone());
        if let Some(wire) = &self.wire {
            // Whoever listened may have heard enough.
            let _ = wire.send(record.event.clone());
        }
    }
}

pub(crate) struct Stage {
    pub(crate) session: Session,
    pub(crate) watcher: Watcher,
    pub(crate) cancel: Arc<Notify>,
    _folder: TempDir,
}

/// What the user has said, as the prompt shows it.
pub(crate) fn users(request: &CompletionRequest) -> Vec<String> {
    let messages = request.prompt.messages().iter();
    let users = messages.filter_map(|message| match message {
        PromptMessage::User(text) => Some(text.clone()),
        _ => None,
    });
    users.collect()
}

/// The results that the prompt shows, oldest first.
pub(crate) fn results(request: &CompletionRequest) -> Vec<String> {
    results_of(request.prompt.messages().iter())
}

/// Those that came since the user has spoken, newest first.
pub(crate) fn newest_results(request: &CompletionRequest) -> Vec<String> {
    let messages = request.prompt.messages().iter().rev();
    results_of(messages.take_while(|message| !matches!(message, PromptMessage::User(_))))
}

fn results_of<'a>(messages: impl Iterator<Item = &'a PromptMessage>) -> Vec<String> {
    let results = messages.filter_map(|message| match message {
        PromptMessage::Tool { content, .. } => Some(content.clone()),
        _ => None,
    });
    results.collect()
}

/// Calls `echo` once, then answers with what came back.
pub(crate) fn echo_once(request: &CompletionRequest) -> Completion {
    match results(request).first() {
        None => call_answer("echo", r#"{"text":"hello"}"#),
        Some(content) => text_answer(format!("it said {content}")),
    }
}

impl Stage {
    /// A session over the app in this mode, with a model that calls `echo` once.
    pub(crate) fn new(mode: &str) -> Self {
        Self::with_model(mode, Scripted::new("scripted", echo_once))
    }

    pub(crate) fn with_model(mode: &str, model: Scripted) -> Self {
        Self::start(mode, Broker::new(Arc::new(model), Label::top()), |_| {})
    }

    /// The app's tools must pass this check.
    pub(crate) fn with_check(mode: &str, check: ToolCheck) -> Self {
        let broker = Broker::new(Arc::new(Scripted::new("scripted", echo_once)), Label::top());
        Self::start(mode, broker, |setup| setup.apps[0].check = check)
    }

    pub(crate) fn start(
        mode: &str,
        broker: Broker,
        change: impl FnOnce(&mut SessionSetup),
    ) -> Self {
        Self::over(|folder| {
            let mut setup = setup(folder, mode, broker);
            change(&mut setup);
            setup
        })
    }

    /// A session over these apps, each with its mode, under this policy.
    pub(crate) fn with_apps(
        apps: &[(&str, &str)],
        policy: impl Policy + 'static,
        model: Scripted,
    ) -> Self {
        Self::with_apps_and(apps, policy, model, |_| {})
    }

    /// The same, with something else of the session changed.
    pub(crate) fn with_apps_and(
        apps: &[(&str, &str)],
        policy: impl Policy + 'static,
        model: Scripted,
        change: impl FnOnce(&mut SessionSetup),
    ) -> Self {
        let broker = Broker::new(Arc::new(model), Label::top());
        Self::over(|folder| {
            let mut setup = setup(folder, "ok", broker);
            setup.parts.policy = Arc::new(policy);
            setup.apps = apps
                .iter()
                .map(|(app, mode)| self::app(app, mode))
                .collect();
            change(&mut setup);
            setup
        })
    }

    /// The same, with this memory of earlier sessions.
    pub(crate) fn with_memory(
        apps: &[(&str, &str)],
        policy: impl Policy + 'static,
        model: Scripted,
        memory: Arc<dyn store::Memory>,
        private: bool,
    ) -> Self {
        Self::with_apps_and(apps, policy, model, |setup| {
            setup.memory = Some(memory);
            setup.private = private;
        })
    }

    fn over(setup: impl FnOnce(&Path) -> SessionSetup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut watcher = Watcher::default();
        let session = Session::start(setup(folder.path()), &mut watcher).unwrap();
        Self {
            session,
            watcher,
            cancel: Arc::new(Notify::new()),
            _folder: folder,
        }
    }

    pub(crate) async fn ask(&mut self, query: &str) -> Result<Outcome, SessionError> {
        self.ask_apps(&["test"], query).await
    }

    /// The planner decides where it goes.
    pub(crate) async fn ask_planner(&mut self, query: &str) -> Result<Outcome, SessionError> {
        let query = Labeled::trusted_tcb(query);
        self.session
            .ask(query, Choice::Planner, &mut self.watcher, &self.cancel)
            .await
    }

    pub(crate) async fn ask_apps(
        &mut self,
        apps: &[&str],
        query: &str,
    ) -> Result<Outcome, SessionError> {
        let choice = Choice::Apps(apps.iter().map(|app| (*app).to_owned()).collect());
        let query = Labeled::trusted_tcb(query);
        self.session
            .ask(query, choice, &mut self.watcher, &self.cancel)
            .await
    }

    /// Resolves when an event like this was recorded.
    pub(crate) fn when<F: Fn(&Event) -> bool>(
        &mut self,
        is_it: F,
    ) -> impl Future<Output = ()> + use<F> {
        let (wire, mut events) = mpsc::unbounded_channel();
        self.watcher.wire = Some(wire);
        async move { while !is_it(&events.recv().await.unwrap()) {} }
    }

    /// Resolves with the process id of the spoke once the model has been asked.
    pub(crate) fn when_thinking(&mut self) -> impl Future<Output = u32> + use<> {
        let (wire, mut events) = mpsc::unbounded_channel();
        self.watcher.wire = Some(wire);
        async move {
            let mut spoke = 0;
            loop {
                match events.recv().await.unwrap() {
                    Event::SpokeStarted { pid, .. } => spoke = pid,
                    Event::Redacted { .. } => return spoke,
                    _ => {}
                }
            }
        }
    }

    /// The outcome's text: the answer, or why there is none.
    pub(crate) async fn said(&mut self) -> String {
        match self.ask("go").await {
            Ok(outcome) => match outcome.result {
                Ok(answer) => answer.reveal_tcb().to_owned(),
                Err(stop) => format!("stopped: {}", stop.reveal_tcb()),
            },
            Err(error) => format!("error: {error}"),
        }
    }

    /// What the trace file holds, which must be what the user was shown.
    pub(crate) fn trace(&self) -> Vec<Event> {
        let records = TraceFile::read(self.session.trace()).unwrap();
        assert_eq!(records, self.watcher.records);
        let numbers: Vec<u64> = records.iter().map(|record| record.sequence).collect();
        assert_eq!(numbers, (1..=records.len() as u64).collect::<Vec<_>>());
        records.into_iter().map(|record| record.event).collect()
    }

    /// What this takes out of the trace.
    pub(crate) fn traced<T>(&self, take: impl FnMut(Event) -> Option<T>) -> Vec<T> {
        self.trace().into_iter().filter_map(take).collect()
    }

    /// The apps whose spokes were started.
    pub(crate) fn started(&self) -> BTreeSet<String> {
        let started = self.traced(|event| match event {
            Event::SpokeStarted { app, .. } => Some(app),
            _ => None,
        });
        started.into_iter().collect()
    }
}

/// The misbehaving app under this name, in this mode.
pub(crate) fn app(name: &str, mode: &str) -> AppSetup {
    let program = Mount {
        source: binary("misbehaving-app"),
        target: "/app/misbehaving-app".into(),
        access: Access::ReadOnly,
        executable: true,
    };
    let is_silent = SILENT.contains(&mode);
    let limit = |limit| if is_silent { SHORT } else { limit };
    let spoke = SpokeSetup {
        app: name.to_owned(),
        program: binary("sluice-spoke"),
        command: vec!["/app/misbehaving-app".to_owned(), mode.to_owned()],
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        workdir: "/tmp".to_owned(),
        sandbox: Spec {
            mounts: vec![program],
            ..Spec::default()
        },
        limits: AppLimits {
            start_timeout_ms: limit(START_TIMEOUT).as_millis() as u64,
            ..AppLimits::default()
        },
        egress: Vec::new(),
        domains: server::Domains::default(),
        tokens: None,
        call_timeout: limit(CALL_TIMEOUT),
        offer: wire::Offer::default(),
    };
    AppSetup {
        spoke,
        origin: store::Identity::from_digest([1; 32]),
        provider: None,
        description: Labeled::trusted_tcb("a test"),
        described_by_user: false,
        descriptions: Label::bottom(),
        listed: BTreeSet::new(),
        asks: None,
        offers_others: true,
        fresh: false,
        check: ToolCheck::any(),
    }
}

fn setup(folder: &Path, mode: &str, broker: Broker) -> SessionSetup {
    let lattice = Arc::new(Lattice::four_point());
    let screener = Arc::new(NaiveTainting);
    let mut parts = Parts::new(Arc::new(broker), Arc::new(Everything), lattice, screener);
    parts.settings.screening = Screening::LAZY;
    parts.turn_timeout = TURN_TIMEOUT;
    SessionSetup {
        name: "test".to_owned(),
        traces: folder.to_owned(),
        parts,
        apps: vec![app("test", mode)],
        groups: Vec::new(),
        functionalities: Vec::new(),
        permissions: None,
        selections: None,
        vanilla: None,
        private: false,
        memory: None,
        facts: false,
    }
}

/// Whether a process still exists (a zombie that nobody has reaped does not count).
pub(crate) fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// The children of a process, and theirs.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let children = tasks.flat_map(|task| {
        let listed = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        listed
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect::<Vec<u32>>()
    });
    let mut all = Vec::new();
    for child in children {
        all.push(child);
        all.extend(descendants(child));
    }
    all
}

//! The agent in its sandbox.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use config::{App, Config};
use ifc::{Answer, Monitor};
use sandbox::Limits;
use server::desk::{Answered, Approver, Desk, Other, QuestionOrigin};
use server::{
    AskedConnection, Change, Ended, Gate, Program, ProgramSetup, QuestionView, SystemResolver,
    Told, User as _,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::run::Launch;
use super::summary::Summary;
use super::workspace::Workspace;
use crate::app_setup;
use crate::exit::Exit;
use crate::keep_for::KeepFor;
use crate::pty;
use crate::terminal::{Terminal, message};

/// Outcomes of connections, and connections that are asked about, that wait.
const WAITING: usize = 256;
/// How long the agent may take to end after SIGTERM.
const GOODBYE: Duration = Duration::from_secs(5);

/// Signals by their numbers on Linux.
const HANG_UP: u8 = 1;
const INTERRUPT: u8 = 2;
const TERMINATE: u8 = 15;
const CONTINUE: u8 = 18;

/// Learns what the agent is given, once it runs.
#[derive(Clone, Default)]
pub(super) struct Teller(Arc<OnceLock<Told>>);

impl Teller {
    pub(super) fn told(&self) -> Told {
        let teller = Arc::clone(&self.0);
        // Before it runs there is nothing that it could be given.
        Arc::new(move |label| teller.get().into_iter().for_each(|tell| tell(label)))
    }
}

/// The terminal between the agent and the user, once the agent runs.
pub(super) type Between = Arc<Mutex<Option<pty::Terminal>>>;

/// Asks at the user's terminal, which is the agent's otherwise, and at the desk; the first answer counts.
pub(super) struct AtTerminal {
    desk: Arc<Desk>,
    between: Between,
    /// One question at a time.
    turn: AsyncMutex<()>,
}

impl AtTerminal {
    pub(super) fn new(desk: Arc<Desk>, between: Between) -> Self {
        let turn = AsyncMutex::default();
        Self {
            desk,
            between,
            turn,
        }
    }

    async fn typed(&self, question: &QuestionView) -> Answered {
        let _turn = self.turn.lock().await;
        let _paused = Paused::new(&self.between);
        Terminal::new(false, KeepFor::default())
            .confirm(question)
            .await
    }
}

#[async_trait]
impl Approver for AtTerminal {
    async fn ask_beside(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
        other: Other<'_>,
    ) -> Answered {
        let first = async {
            tokio::select! {
                answered = self.typed(question) => answered,
                answered = other => answered,
            }
        };
        // The desk has the timeout.
        self.desk.beside(origin, question, first).await
    }
}

/// The time for which the terminal is not the agent's.
struct Paused<'a>(&'a Between);

impl<'a> Paused<'a> {
    fn new(between: &'a Between) -> Self {
        lock(between).iter().for_each(pty::Terminal::pause);
        Self(between)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        lock(self.0).iter().for_each(pty::Terminal::resume);
    }
}

fn lock(between: &Between) -> MutexGuard<'_, Option<pty::Terminal>> {
    between.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the agent's sandbox is made of.
pub(super) struct Sandbox<'a> {
    pub(super) app: App,
    pub(super) config: &'a Config,
    pub(super) layers: &'a BTreeSet<sandbox::Layer>,
    /// The port of the fronts, which the agent reaches in any case.
    pub(super) port: u16,
    /// Who answers questions about connections; without one they are refused.
    pub(super) approver: Option<Arc<dyn Approver>>,
    /// Empty until the agent runs.
    pub(super) between: Between,
    pub(super) teller: Teller,
    pub(super) summary: Arc<Summary>,
    pub(super) workspace: Workspace,
}

impl Sandbox<'_> {
    /// Runs the agent to its end. Nothing of it runs afterwards.
    pub(super) async fn run(mut self, launch: Launch) -> Result<u8> {
        self.app.egress.push(config::Egress {
            listen: self.port,
            host: "127.0.0.1".to_owned(),
            port: self.port,
            addresses: Vec::new(),
        });
        let mut config = self.config.clone();
        config.apps.insert(self.app.name.clone(), self.app.clone());
        let mut spoke = app_setup::of(&self.app, None, self.layers)?.spoke;
        let here = std::env::current_dir().context("the working folder is gone")?;
        spoke.command.extend(launch.args);
        spoke.env = launch.env;
        spoke.env.extend(
            self.app
                .found
                .take()
                .into_iter()
                .flat_map(|found| found.env),
        );
        spoke.workdir = here.to_string_lossy().into_owned();
        spoke.sandbox.limits = Limits::of_program();
        let (events, outcomes) = mpsc::channel(WAITING);
        let (questions, asked) = mpsc::channel(WAITING);
        let (streams, terminal) = pty::open(launch.input).context("the terminal cannot be used")?;
        let started = Program::start(ProgramSetup {
            spoke,
            streams,
            gate: Gate {
                monitor: Monitor::new(),
                policy: Arc::new(config.policy()),
                resolver: Arc::new(SystemResolver),
            },
            events,
            questions,
        });
        let mut program = started.await?;
        let _ = self.teller.0.set(program.teller());
        *lock(&self.between) = Some(terminal);
        let lattice = config.lattice.clone();
        let answering = answer(asked, self.approver, lattice, self.workspace.clone());
        let answering = tokio::spawn(answering);
        let watching = tokio::spawn(watch(outcomes, self.summary));
        let ended = wait(&mut program, &self.between).await;
        drop(program);
        answering.abort();
        watching.abort();
        lock(&self.between)
            .take()
            .into_iter()
            .for_each(pty::Terminal::finish);
        ended
    }
}

/// The program to its end. Signals to this process are its own.
async fn wait(program: &mut Program, between: &Between) -> Result<u8> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups = signal(SignalKind::hangup())?;
    let mut is_interrupted = false;
    loop {
        let signal = tokio::select! {
            change = program.changed() => match change {
                // Some agents end well by it.
                Change::Ended(Ended::Code(0)) if is_interrupted => {
                    return Ok(Exit::Interrupted.number());
                }
                Change::Ended(ended) => return code(ended),
                Change::Stopped(_) => {
                    // Without a terminal there is no shell that continues this process.
                    if Terminal::attended() {
                        lock(between).iter().for_each(pty::Terminal::suspend);
                    }
                    CONTINUE
                }
            },
            // At a question, and without a terminal between the two, Ctrl-C comes here.
            _ = interrupts.recv() => {
                is_interrupted = true;
                INTERRUPT
            }
            _ = terminations.recv() => TERMINATE,
            _ = hangups.recv() => HANG_UP,
        };
        // A program that is gone says so above.
        let _ = program.signal(signal).await;
        if [HANG_UP, TERMINATE].contains(&signal) {
            let _ = tokio::time::timeout(GOODBYE, program.ended()).await;
            return Ok(Exit::Terminated.number());
        }
    }
}

/// As a shell says it: the code, or 128 and the signal.
fn code(ended: Ended) -> Result<u8> {
    match ended {
        Ended::Code(code) => Ok(code),
        Ended::Signal(signal) => Ok(u8::try_from(signal + 128).unwrap_or(1)),
        Ended::Lost(reason) => Err(anyhow!("the agent ended: {reason}")),
    }
}

/// Answers questions about connections, one after the other.
async fn answer(
    mut asked: mpsc::Receiver<AskedConnection>,
    approver: Option<Arc<dyn Approver>>,
    lattice: ifc::Lattice,
    workspace: Workspace,
) {
    let mut refused = BTreeSet::new();
    while let Some(asked) = asked.recv().await {
        let Some(mut asked) = asked.still_asked() else {
            continue;
        };
        let connection = asked.question().flow().clone();
        let domain = connection.domain.unwrap_or_default();
        let Some(approver) = approver.as_ref().filter(|_| !refused.contains(&domain)) else {
            asked.refuse("it is not among the domains of this run; allow it with --domain");
            continue;
        };
        let mut view = QuestionView::of_connection(asked.question(), &lattice);
        // Kept with what was said of the folder: a permission would count in every folder.
        if let Some(at) = view.choices.iter().position(|it| *it == Answer::Session) {
            view.choices.insert(at + 1, Answer::AlwaysFolder);
        }
        let origin = QuestionOrigin::of(&connection.app);
        let answer = tokio::select! {
            answered = approver.ask(&origin, &view) => answered.answer,
            () = asked.lapsed() => continue,
        };
        let answer = if view.choices.contains(&answer) {
            answer
        } else {
            Answer::No
        };
        let is_kept = answer == Answer::AlwaysFolder;
        let answer = if is_kept { Answer::Session } else { answer };
        let is_open = asked.settle_tcb(answer).is_none();
        if answer == Answer::No {
            refused.insert(domain);
        } else if is_open
            && is_kept
            && let Err(error) = workspace.keep(&domain, true)
        {
            message(&format!("note: {domain} was not kept: {error:#}"));
        }
    }
}

/// Adds what became of connections to the summary.
async fn watch(mut outcomes: mpsc::Receiver<hub::trace::Event>, summary: Arc<Summary>) {
    use server::proxy::Observer as _;
    while let Some(event) = outcomes.recv().await {
        summary.event("", &event);
    }
}

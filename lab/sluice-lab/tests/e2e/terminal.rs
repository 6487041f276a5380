//! A person at a terminal: `script` (of util-linux) makes a real one.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{QUERY, Stage};

/// Waits for an operation of the store.
fn wait<T>(operation: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap().block_on(operation)
}

/// A session at a terminal, and what it has shown so far.
pub(crate) struct Terminal {
    child: Child,
    output: Receiver<Vec<u8>>,
    /// What nobody has waited for yet.
    shown: String,
    /// Everything.
    recorded: String,
}

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

impl Terminal {
    pub(crate) fn open(stage: &Stage) -> Self {
        Self::run(stage, &["run", "--app", "mail", QUERY])
    }

    /// `sluice` with these arguments.
    pub(crate) fn run(stage: &Stage, arguments: &[&str]) -> Self {
        Self::after(stage, "", arguments)
    }

    /// The same on a terminal of so many columns.
    pub(crate) fn wide(stage: &Stage, columns: usize, arguments: &[&str]) -> Self {
        Self::after(stage, &format!("stty cols {columns}; "), arguments)
    }

    fn after(stage: &Stage, before: &str, arguments: &[&str]) -> Self {
        let sluice = stage.sluice(arguments);
        let words = std::iter::once(sluice.get_program()).chain(sluice.get_args());
        let line: Vec<String> = words
            .map(|word| format!("'{}'", word.to_string_lossy()))
            .collect();
        let mut command = Command::new("script");
        command.args([
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &(before.to_owned() + &line.join(" ")),
            "/dev/null",
        ]);
        for (name, value) in sluice.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .current_dir(stage.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (to_output, output) = mpsc::channel();
        // It ends when the child does.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                if to_output.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            output,
            shown: String::new(),
            recorded: String::new(),
        }
    }

    pub(crate) fn wait_for(&mut self, part: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.shown.contains(part) {
            match self
                .output
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.keep(&bytes),
                Err(why) => {
                    // Nobody else would end it.
                    let _ = self.child.kill();
                    panic!("no '{part}' ({why}) in {}", self.shown);
                }
            }
        }
        let end = self.shown.find(part).unwrap() + part.len();
        self.shown.drain(..end);
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
    }

    /// Waits for a question, and has all of it shown.
    pub(crate) fn show_all(&mut self) {
        self.wait_for(", default deny] ");
        self.type_line("s\r");
        self.wait_for(", default deny] ");
    }

    fn keep(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        self.shown.push_str(&text);
        self.recorded.push_str(&text);
    }

    pub(crate) fn end(self) -> (Option<i32>, String) {
        let (code, ended) = self.until_the_end();
        (code, ended.shown)
    }

    /// The exit code, and all that was written to the terminal, from the beginning.
    pub(crate) fn recorded(self) -> (Option<i32>, String) {
        let (code, ended) = self.until_the_end();
        (code, ended.recorded)
    }

    fn until_the_end(mut self) -> (Option<i32>, Self) {
        while let Ok(bytes) = self.output.recv() {
            self.keep(&bytes);
        }
        (self.child.wait().unwrap().code(), self)
    }
}

#[test]
fn once_allows_this_call_and_only_this_call() {
    let stage = Stage::new();
    let mut terminal = Terminal::open(&stage);
    terminal.wait_for("send_email");
    terminal.show_all();
    terminal.type_line("once\r");
    terminal.wait_for("delete_email");
    terminal.wait_for(", default deny] ");
    // Half a yes is asked about again.
    terminal.type_line("y\r");
    terminal.wait_for(", default deny] ");
    terminal.type_line("no\r");
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(3), "{rest}");
    assert!(rest.contains("Invoice 2026-1187"), "{rest}");
    // The user wanted it: the mail was sent, exactly as the question had shown it.
    assert_eq!(stage.mails.messages().len(), 1);
    let answers: Vec<(String, bool)> = stage
        .trace()
        .into_iter()
        .filter(|event| event["kind"] == "answered")
        .map(|event| {
            (
                event["answer"].as_str().unwrap().to_owned(),
                event["allowed"] == true,
            )
        })
        .collect();
    assert_eq!(
        answers,
        [("once".to_owned(), true), ("no".to_owned(), false)]
    );
}

#[test]
fn a_question_at_the_terminal_can_be_answered_at_the_desk() {
    let stage = Stage::new();
    let mut terminal = Terminal::open(&stage);
    terminal.wait_for(", default deny] ");
    let desk = store::Desk::open(&stage.path("state/sluice/desk.db")).unwrap();
    let now = || store::Time::from(std::time::SystemTime::now());
    let asked = loop {
        if let Some(asked) = wait(desk.waiting(now())).unwrap().all.pop() {
            break asked;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(
        (&*asked.question.front, &*asked.question.tool),
        ("run", "send_email")
    );
    let by = store::Answerer {
        name: Some("ada".to_owned()),
        from: "page".to_owned(),
    };
    wait(desk.answer(asked.id, "once", &by, now())).unwrap();
    terminal.wait_for("(answered by ada from page: once)");
    terminal.wait_for(", default deny] ");
    // What was meant for the question before does not answer this one.
    terminal.type_line("o\r");
    terminal.wait_for(", default deny] ");
    std::thread::sleep(Duration::from_millis(1_100));
    terminal.type_line("no\r");
    assert_eq!(terminal.end().0, Some(3));
    assert_eq!(stage.mails.messages().len(), 1);
    // What is answered here waits there no longer.
    assert_eq!(wait(desk.waiting(now())).unwrap().all, []);
    let replies = stage.trace().into_iter();
    let replies = replies.filter(|event| event["kind"] == "replied");
    let replies: Vec<String> = replies
        .map(|it| format!("{} {}", it["answer"], it["from"]))
        .collect();
    assert_eq!(replies, [r#""once" "page""#, r#""no" "terminal""#]);
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let stage = Stage::new();
    let mut terminal = Terminal::open(&stage);
    // In the middle of another thought, before any question is there.
    terminal.type_line("once\ronce\r");
    for tool in ["send_email", "delete_email"] {
        terminal.wait_for(tool);
        terminal.wait_for(", default deny] ");
        terminal.type_line("\r");
    }
    assert_eq!(terminal.end().0, Some(3));
    assert!(stage.mails.messages().is_empty());
}

/// Nothing is known of its tools, their names included: the model is offered them under the label of
/// what apps say of themselves, and each call is a question.
#[test]
fn an_app_of_an_mcp_servers_file_is_used_by_questions() {
    let stage = Stage::new();
    stage.take_the_app_from_an_mcp_servers_file();
    let mut terminal = Terminal::open(&stage);
    terminal.wait_for("list_emails");
    terminal.wait_for(", default deny] ");
    terminal.type_line("once\r");
    terminal.wait_for("read_email");
    terminal.wait_for(", default deny] ");
    terminal.type_line("no\r");
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(3), "{rest}");
    let trace = stage.trace();
    let of_kind = |kind: &str| -> Vec<&Value> {
        let events = trace.iter().filter(|event| event["kind"] == kind);
        events.collect()
    };
    let asked = of_kind("asked");
    let described = json!(["untrusted:descriptions"]);
    assert_eq!(asked[0]["flow"]["call"]["tool"], "list_emails");
    assert_eq!(asked[0]["flow"]["call"]["label"], described);
    assert_eq!(asked[1]["flow"]["call"]["tool"], "read_email");
    assert_eq!(of_kind("returned").len(), 1, "{trace:?}");
}

//! docs/tutorial.md is run: each command of its `console` blocks at a terminal, with what stands after a prompt typed.
//!
//! On the page `[..]` is anything in a line, and `...` any number of lines. With `UPDATE_TUTORIAL=1` in the environment,
//! what differs is replaced on the page by what was printed; shorten it by hand afterwards.

mod model;
mod page;
mod stage;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use self::page::{Step, split, with_ids};
use self::stage::Stage;

/// After so long, a line without an end is a prompt.
const QUIET: Duration = Duration::from_secs(3);

/// Longer than any command takes.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn the_tutorial_does_what_it_shows() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md");
    let text = fs::read_to_string(&file).unwrap();
    let (steps, servers) = page::read(&text);
    assert!(steps.len() > 5, "{steps:?}");
    let update = std::env::var_os("UPDATE_TUTORIAL").is_some();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let stage = Stage::new();
    stage.write("mcp.json", &stage.here(&servers));
    let (mut ids, mut exports) = (BTreeMap::new(), Vec::new());
    let (mut code, mut before) = (0, String::new());
    // From the end, so that the numbers of lines stay.
    let mut replaced = Vec::new();
    for step in &steps {
        if let Some(export) = step.command.strip_prefix("export ") {
            let (name, value) = export.split_once('=').unwrap();
            exports.push((name.to_owned(), stage.here(value)));
            continue;
        }
        assert!(
            code == 0 || step.command == "echo $?",
            "`{before}` ended with {code}, and the page does not show it by `echo $?`"
        );
        let command = stage.here(&with_ids(&step.command, &ids));
        let line = format!("(exit {code}); {command}");
        let (ended, shown) = at_terminal(&mut stage.shell(&line, &exports), &step.answers());
        (code, before) = (ended, step.command.clone());
        let printed = stage.for_page(&shown);
        match step.differs(&printed, &mut ids) {
            None => {}
            Some(_) if update && !step.is_divided => replaced.push((step, printed)),
            Some(at) => panic!("{}", difference(step, at, &printed)),
        }
    }
    // Nothing went to the attacker, and the user's mail was sent: the model has seen the result.
    let seen = stage.seen_by_model();
    assert!(!seen.contains("sent to collector"));
    assert!(update || seen.contains("sent to karin"));
    for (step, printed) in replaced.into_iter().rev() {
        lines.splice(
            step.at..step.at + step.lines.len(),
            printed.lines().map(str::to_owned),
        );
    }
    if update {
        fs::write(file, lines.join("\n") + "\n").unwrap();
    }
}

fn difference(step: &Step, at: usize, printed: &str) -> String {
    let expected = match step.lines.get(at) {
        Some(line) => format!("this line was not printed:\n{line}"),
        None => "more was printed".to_owned(),
    };
    format!(
        "docs/tutorial.md, line {}, `$ {}`: {expected}\n\nThis was printed. Put it there, with `...` for lines and `[..]` for \
         parts of lines that a reader does not need; or run the test with UPDATE_TUTORIAL=1.\n\n$ {}\n{printed}",
        step.at, step.command, step.command
    )
}

/// Runs a command at a terminal and types each answer at its prompt. Any other prompt gets the end of input. The exit code,
/// and what stands on the screen.
fn at_terminal(command: &mut Command, answers: &[(&str, &str)]) -> (i32, String) {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take(), child.stdout.take().unwrap());
    let (to_output, read) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            if to_output.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    let (mut shown, mut answers) = (Vec::new(), answers.iter());
    let mut waited = Duration::ZERO;
    // What is before this was answered.
    let mut answered = 0;
    loop {
        match read.recv_timeout(QUIET) {
            Ok(bytes) => {
                shown.extend(bytes);
                waited = Duration::ZERO;
                let text = String::from_utf8_lossy(&shown);
                let last = text.rsplit('\n').next().unwrap_or_default();
                let is_prompt = matches!(split(last), Some((_, "")));
                if is_prompt && shown.len() > answered {
                    answered = shown.len();
                    let expected = answers.next();
                    type_line(&mut input, expected.map(|(_, answer)| *answer));
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                waited += QUIET;
                let text = String::from_utf8_lossy(&shown);
                let is_prompt =
                    text.ends_with("] ") || text.ends_with(": ") || text.ends_with("? ");
                if is_prompt || waited > PATIENCE {
                    input = None;
                }
                if waited > 2 * PATIENCE {
                    // Nothing else would end it.
                    let _ = child.kill();
                }
            }
        }
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    (code, screen(&String::from_utf8_lossy(&shown)))
}

/// Types a line, or ends the input.
fn type_line(input: &mut Option<ChildStdin>, answer: Option<&str>) {
    match (answer, &mut *input) {
        (Some(answer), Some(input)) => input.write_all(format!("{answer}\r").as_bytes()).unwrap(),
        _ => *input = None,
    }
}

/// What stands on the screen: without colours, and of a line that was written anew the last state.
fn screen(written: &str) -> String {
    let mut plain = String::new();
    let mut parts = written.split("\u{1b}[");
    plain += parts.next().unwrap_or_default();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        plain += end.and_then(|end| part.get(end + 1..)).unwrap_or_default();
    }
    let lines = plain.split('\n').map(|line| line.trim_end_matches('\r'));
    let lines = lines.map(|line| line.rsplit('\r').next().unwrap_or_default().trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

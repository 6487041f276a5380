//! A command at a terminal that `script` (of util-linux) makes.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// How a question for a word ends, one for the next page, and one about a call.
const PROMPTS: [&str; 3] = [" [no]: ", " [next]: ", ", default deny] "];

/// Columns of a terminal on which Sluice breaks no sentence.
const WIDE: usize = 1000;

/// Runs a command with these lines typed, one after each question for a word. What is shown so far is shown to `watch`
/// as well. The exit code, and everything that was shown.
pub(crate) fn at_terminal(
    command: &Command,
    lines: &[&str],
    watch: impl FnMut(&str),
) -> (i32, String) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let mut script = Command::new("script");
    script.args([
        "--quiet",
        "--return",
        "--flush",
        "--command",
        &format!("stty cols {WIDE}; exec {}", words.join(" ")),
        "/dev/null",
    ]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        script.current_dir(folder);
    }
    let script = script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let shown = converse(&mut child, lines, watch);
    (child.wait().unwrap().code().unwrap(), shown)
}

/// Types each line once the next question is shown. Closing standard input ends the terminal's.
fn converse(child: &mut Child, lines: &[&str], mut watch: impl FnMut(&str)) -> String {
    let (mut input, mut output) = (child.stdin.take(), child.stdout.take().unwrap());
    let (mut shown, mut prompts) = (Vec::new(), 0);
    let mut buffer = [0; 4096];
    let mut lines = lines.iter();
    loop {
        let count = output.read(&mut buffer).unwrap();
        if count == 0 {
            return String::from_utf8_lossy(&shown).into_owned();
        }
        shown.extend(buffer.iter().take(count));
        let text = String::from_utf8_lossy(&shown);
        watch(&text);
        let now = PROMPTS.map(|prompt| text.matches(prompt).count());
        let now = now.iter().sum::<usize>();
        while prompts < now {
            prompts += 1;
            match (lines.next(), &mut input) {
                (Some(line), Some(input)) => write!(input, "{line}\r").unwrap(),
                _ => input = None,
            }
        }
    }
}

/// Types these keys, each once this is shown, where the shell outlives the signal, as one that a person types into does.
/// Everything that was shown, with the exit code.
pub(crate) fn typed(command: &Command, keys: &[(&str, &[u8])]) -> String {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let line = format!("trap : INT; {}; echo code $?; stty -a", words.join(" "));
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--command", &line, "/dev/null"]);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        script.current_dir(folder);
    }
    let script = script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().unwrap();
    let (mut input, mut output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let (mut shown, mut buffer, mut keys) = (String::new(), [0; 4096], keys.iter());
    let mut next = keys.next();
    loop {
        let count = output.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        shown += &String::from_utf8_lossy(buffer.get(..count).unwrap());
        if let Some((_, typed)) = next.filter(|(after, _)| shown.contains(after)) {
            input.write_all(typed).unwrap();
            next = keys.next();
        }
    }
    script.wait().unwrap();
    shown
}

//! docs/tutorial.md as data: its commands, what they print, and what is typed.

use std::collections::BTreeMap;

/// The home on the page.
pub(super) const HOME: &str = "/home/me";

/// How a prompt ends. What stands after it on the page is typed.
const PROMPTS: [&str; 2] = ["default deny]", "[no]:"];

/// Ids and hashes differ from run to run. A word of the page of at least so many hexadecimal digits stands for any such
/// word, and in later commands for the word that was printed.
const HEX: usize = 8;

/// A command and its lines.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) command: String,
    /// The number of the first line below the command, counted from 0.
    pub(super) at: usize,
    pub(super) lines: Vec<String>,
    /// Whether its lines go on in a later block.
    pub(super) is_divided: bool,
}

/// The commands of all `console` blocks, of which a later one may begin with more lines of the last command, and the text of the `json` block.
pub(super) fn read(page: &str) -> (Vec<Step>, String) {
    let (mut steps, mut file, mut block) = (Vec::<Step>::new(), String::new(), "");
    let mut begins = false;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), block) {
            (Some(kind), "") => {
                block = kind;
                begins = true;
                continue;
            }
            (Some(_), _) => block = "",
            (None, "json") => file += &format!("{line}\n"),
            (None, "console") => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    command: command.to_owned(),
                    at: number + 1,
                    lines: Vec::new(),
                    is_divided: false,
                }),
                (None, step) => {
                    let step = step.unwrap();
                    step.is_divided |= begins;
                    step.lines.push(line.to_owned());
                }
            },
            _ => {}
        }
        begins = false;
    }
    (steps, file)
}

impl Step {
    /// Prompts, and what is typed at them.
    pub(super) fn answers(&self) -> Vec<(&str, &str)> {
        let lines = self.lines.iter().map(String::as_str);
        lines.filter_map(split).collect()
    }

    /// The first line that the output does not have, counted from 0.
    pub(super) fn differs(
        &self,
        output: &str,
        ids: &mut BTreeMap<String, String>,
    ) -> Option<usize> {
        let mut output = output.lines().peekable();
        let mut skips = false;
        for (at, line) in self.lines.iter().enumerate() {
            if line == "..." {
                skips = true;
                continue;
            }
            let found = match skips {
                true => output.find(|printed| is_like(line, printed)),
                false => output.next().filter(|printed| is_like(line, printed)),
            };
            let printed = match found {
                Some(printed) => printed,
                None => return Some(at),
            };
            ids.extend(
                hexes(line)
                    .map(str::to_owned)
                    .zip(hexes(printed).map(str::to_owned)),
            );
            skips = false;
        }
        (!skips && output.peek().is_some()).then_some(self.lines.len())
    }
}

/// A line that ends with a prompt, or with a prompt and an answer.
pub(super) fn split(line: &str) -> Option<(&str, &str)> {
    let end = PROMPTS
        .iter()
        .find_map(|end| Some(line.find(end)? + end.len()));
    let (prompt, answer) = line.split_at_checked(end?)?;
    Some((prompt, answer.trim()))
}

/// Whether a line was printed as the page has it: `[..]` is anything.
fn is_like(line: &str, printed: &str) -> bool {
    let (line, printed) = (without_hex(line), without_hex(printed));
    let Some((before, last)) = line.rsplit_once("[..]") else {
        return line == printed;
    };
    let mut rest = printed.as_str();
    for (at, part) in before.split("[..]").enumerate() {
        match rest.split_once(part) {
            Some((skipped, after)) if at > 0 || skipped.is_empty() => rest = after,
            _ => return false,
        }
    }
    rest.ends_with(last)
}

/// The words of hexadecimal digits alone.
fn hexes(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.len() >= HEX && word.chars().all(|c| c.is_ascii_hexdigit()))
}

fn without_hex(line: &str) -> String {
    let mut words: Vec<&str> = hexes(line).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let replace = |line: String, word: &str| line.replace(word, "<hex>");
    words.into_iter().fold(line.trim_end().to_owned(), replace)
}

/// A command of the page with the ids of this run. A part of an id stands for the same part.
pub(super) fn with_ids(command: &str, ids: &BTreeMap<String, String>) -> String {
    let mut command = command.to_owned();
    for word in hexes(&command.clone()) {
        let id = ids.iter().find(|(page, _)| page.starts_with(word));
        if let Some(own) = id.and_then(|(_, own)| own.get(..word.len())) {
            command = command.replace(word, own);
        }
    }
    command
}

#[test]
fn a_page_is_read_and_compared() {
    let page = "```json\n{}\n```\n```console\n$ run\n| ids 0123456789abcdef\n...\nsize [..] MB\n\
                Type add to add it [no]: add\n```\n```sh\n$ not run\n```\n";
    let (steps, file) = read(page);
    assert_eq!((steps.len(), file.as_str()), (1, "{}\n"));
    let [step] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!((step.command.as_str(), step.at), ("run", 5));
    assert_eq!(step.answers(), [("Type add to add it [no]:", "add")]);
    let mut ids = BTreeMap::new();
    let printed = "| ids fedcba9876543210\na\nb\nsize 3 MB\nType add to add it [no]: add\n";
    assert_eq!(step.differs(printed, &mut ids), None);
    assert_eq!(with_ids("revoke 01234567", &ids), "revoke fedcba98");
    let wrong = printed.replace("size 3 MB", "size 3 GB");
    assert_eq!(step.differs(&wrong, &mut ids), Some(2));
    assert_eq!(step.differs(&format!("{printed}more\n"), &mut ids), Some(4));
}

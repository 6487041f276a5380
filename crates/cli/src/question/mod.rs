//! A question to the user at a terminal: its layout, and the words that are typed to it. What it says is `hub::question`.
//!
//! Everything foreign is escaped, wrapped to the terminal's real width and set in behind a prefix, so that it can neither
//! steer the terminal nor look like Sluice's own words. What a person has to know is first and short; what is left out is
//! counted, and the word `show` brings it.

mod layout;
mod sources;

use hub::question::{Argument, Contents, QuestionView, Reason};
use hub::trace::{escape, escape_lines};
use ifc::{Answer, Cause};

use self::layout::KEY_COLUMNS;
pub(crate) use self::layout::{Lines, columns, shortened};
use crate::keep_for::KeepFor;
use crate::words::{self, Reading};

/// Lines of one argument. The address of a mail and a sentence fit in fewer.
const ARGUMENT_LINES: usize = 3;

/// Lines of all arguments together: with the rest the question fits into a small terminal.
const ARGUMENTS_LINES: usize = 12;

/// Lines of an answer that is asked about.
const ANSWER_LINES: usize = 8;

/// How often everything is shown on demand; whoever holds a key down ends the question.
const MOST_SHOWN: usize = 5;

/// The word that shows what was left out.
const SHOW: &str = "show";

/// A question and the lines that are typed to it, without the terminal.
pub(crate) struct Dialogue<'a> {
    question: &'a QuestionView,
    columns: usize,
    /// How long "always" lasts.
    keep_for: KeepFor,
    /// Characters that the first view leaves out.
    left_out: usize,
    unclear: usize,
    shown: usize,
}

/// What follows a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The answer.
    Done(Answer),
    /// Say this, the prompt included, and read another line.
    Say(String),
}

impl<'a> Dialogue<'a> {
    /// A question on a terminal of so many columns.
    pub(crate) fn new(question: &'a QuestionView, columns: usize, keep_for: KeepFor) -> Self {
        Self {
            left_out: view(question, columns, keep_for, false).left_out,
            question,
            columns,
            keep_for,
            unclear: 0,
            shown: 0,
        }
    }

    /// The question, without the prompt.
    pub(crate) fn text(&self) -> String {
        view(self.question, self.columns, self.keep_for, false).text
    }

    /// The line that asks for the answer.
    pub(crate) fn prompt(&self) -> String {
        let endorsing = endorsing(self.question);
        let word = |answer: Answer| match answer {
            Answer::Once => format!("{}{endorsing}", answer.name()),
            _ => answer.name().to_owned(),
        };
        let words = self.choices().chain([Answer::No]).map(word);
        let words = words.collect::<Vec<_>>().join(", ");
        let more = match self.left_out {
            0 => String::new(),
            left_out => format!(", {SHOW} ({left_out} characters more)"),
        };
        format!("Type {words}{more} and Enter [no]: ")
    }

    /// What follows a line; `None` is the end of input, which is a no. So is a third line that is none
    /// of the words: nobody knows what it meant, but it was no yes.
    pub(crate) fn hear(&mut self, line: Option<&str>) -> Next {
        let words = self.words();
        let Some(line) = line else {
            return Next::Done(Answer::No);
        };
        match words::read(line, &words) {
            Reading::No => Next::Done(Answer::No),
            Reading::Chosen(at) => match self.choices().nth(at) {
                Some(choice) => Next::Done(choice),
                // One past the answers is the word that shows the rest (`words`).
                None => self.show(),
            },
            Reading::Unclear => {
                self.unclear += 1;
                match self.unclear < words::ATTEMPTS {
                    true => Next::Say(words::again(&words) + &self.prompt()),
                    false => Next::Done(Answer::No),
                }
            }
        }
    }

    fn show(&mut self) -> Next {
        self.shown += 1;
        match self.shown <= MOST_SHOWN {
            true => {
                let all = view(self.question, self.columns, self.keep_for, true).text;
                Next::Say(format!("\n{all}{}", self.prompt()))
            }
            false => Next::Done(Answer::No),
        }
    }

    /// The answers other than no.
    fn choices(&self) -> impl Iterator<Item = Answer> + use<'a> {
        let choices = self.question.choices.iter().copied();
        choices.filter(|choice| *choice != Answer::No)
    }

    fn words(&self) -> Vec<&'static str> {
        let words = self.choices().map(Answer::name);
        words.chain((self.left_out > 0).then_some(SHOW)).collect()
    }
}

/// A question as lines, and how many characters are not in them.
struct View {
    text: String,
    left_out: usize,
}

fn view(question: &QuestionView, columns: usize, keep_for: KeepFor, whole: bool) -> View {
    let mut lines = Lines::new(columns, whole);
    // What is asked, then why, what is known of it and what further answers would mean; and where the eye ends, beside
    // the prompt, once more what a yes does.
    for sentence in question.title() {
        lines.own(&sentence);
    }
    let mut request = question.request();
    match question.contents() {
        Contents::Arguments(arguments) => {
            let read = question.endorses.as_deref().unwrap_or_default();
            list(&mut lines, &arguments, read, whole);
            let stage = question.message.as_ref().and_then(|message| message.stage);
            if stage.is_none() {
                request = with_keys(&lines, &request, &arguments);
            }
        }
        Contents::Text(words) => text(&mut lines, words),
        Contents::Unreadable(arguments) => {
            lines.quoted(&escape(arguments), ARGUMENTS_LINES);
        }
        Contents::Nothing => {}
    }
    for reason in question.reasons() {
        match reason {
            Reason::Ran(sentence) | Reason::Always(sentence) => lines.own(&sentence),
            Reason::Exceeds(head) => sources::depends(&mut lines, question, &head, whole),
        }
    }
    for note in question.notes() {
        lines.own(&note);
    }
    trusted(&mut lines, question, whole);
    if let Some(meaning) = question.meaning_of_always(keep_for) {
        lines.own(&meaning);
    }
    lines.own(&request);
    View {
        left_out: lines.left_out,
        text: lines.finish(),
    }
}

/// A call's last line: its tool with its key arguments.
fn with_keys(lines: &Lines, tool: &str, arguments: &[Argument]) -> String {
    let keys = arguments.iter().map(shown);
    let keys: Vec<String> = keys.filter(|key| columns(key) <= KEY_COLUMNS).collect();
    let pieces = std::iter::once(tool).chain(keys.iter().map(String::as_str));
    let (line, unseen) = lines.one_line(pieces);
    match unseen + (arguments.len() - keys.len()) {
        0 => line,
        more => format!("{line}  (+{more} more)"),
    }
}

/// Lines of a text, as many as an answer may have.
fn text(lines: &mut Lines, text: &str) {
    let text = escape_lines(text).replace('\t', "    ");
    let mut room = ANSWER_LINES;
    let mut paragraphs = text.split('\n').peekable();
    while let Some(paragraph) = paragraphs.next() {
        room = room.saturating_sub(lines.quoted(paragraph, room));
        // Paragraphs that are not shown at all count as left out too.
        if room == 0 && lines.is_short() {
            let rest: usize = paragraphs.map(|rest| rest.chars().count() + 1).sum();
            lines.left_out += rest;
            break;
        }
    }
}

/// The arguments in their order, as many as there is room for. Those of `read` are whole in any case.
fn list(lines: &mut Lines, arguments: &[Argument], read: &[String], whole: bool) {
    let mut room = ARGUMENTS_LINES;
    let mut missing = 0;
    for argument in arguments {
        let line = shown(argument);
        // A yes makes these the user's own words, so there is room for all of them.
        if read.contains(&argument.name) {
            room = room.saturating_sub(lines.quoted(&line, usize::MAX));
            marks(lines, argument);
            continue;
        }
        if room == 0 && !whole {
            missing += 1;
            lines.left_out += line.chars().count();
            continue;
        }
        let most = ARGUMENT_LINES.min(room);
        room = room.saturating_sub(lines.quoted(&line, most));
        marks(lines, argument);
    }
    if missing > 0 {
        lines.own(&format!("[{missing} more arguments are not shown here]"));
    }
}

fn shown(argument: &Argument) -> String {
    escape(&format!("{}: {}", argument.name, argument.value))
}

/// What is suspicious about an argument, in our own words below it.
fn marks(lines: &mut Lines, argument: &Argument) {
    let name = shortened(&escape(&argument.name), KEY_COLUMNS);
    for word in argument.mixed() {
        let word = shortened(&word, 4 * KEY_COLUMNS);
        lines.own(&format!(
            "! {name} mixes letters of several scripts: {word}"
        ));
    }
}

/// The texts that the user would vouch for, whole where everything is shown, and what the word does.
fn trusted(lines: &mut Lines, question: &QuestionView, whole: bool) {
    if whole && question.trust.is_some() {
        lines.own("What you would trust, word for word:");
    }
    for text in question.trust.iter().flat_map(|trust| &trust.texts) {
        if whole {
            lines.own(&format!("{}:", escape(&text.source.to_string())));
            for paragraph in escape_lines(&text.text).replace('\t', "    ").split('\n') {
                lines.quoted(paragraph, usize::MAX);
            }
        } else {
            // The rest is counted where the excerpt is shown.
            let beyond = text.text.chars().count().saturating_sub(Cause::EXCERPT);
            lines.left_out += beyond;
        }
    }
    if let Some(meaning) = question.meaning_of_trust() {
        lines.own(&meaning);
    }
}

/// What a yes means for the steps that follow: nothing, or that the call is the user's own word.
fn endorsing(question: &QuestionView) -> String {
    let Some(carried) = question.carried() else {
        return String::new();
    };
    let carried = carried.iter();
    let carried: Vec<String> = carried
        .map(|name| shortened(&escape(name), KEY_COLUMNS))
        .collect();
    let but = match carried.as_slice() {
        [] => String::new(),
        names => format!("but for {} ", names.join(" and ")),
    };
    format!(" ({but}it counts as your own word)")
}

#[cfg(test)]
mod tests;

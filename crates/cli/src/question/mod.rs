//! A question to the user at a terminal: its layout, and how a typed line is read. Its sentences are
//! `hub::question`'s.
//!
//! Everything foreign is escaped, wrapped to the terminal's width and indented behind a prefix, so that it can neither
//! steer the terminal nor look like Sluice's own words. What is left out is marked, and `s` shows it.

mod layout;
mod sources;

use hub::question::{Argument, Contents, QuestionView, Reason, arguments};
use hub::trace::{escape, escape_lines};
use ifc::{Answer, Until};

use self::layout::NAME_COLUMNS;
pub(crate) use self::layout::{Lines, columns, hanging, inset, shortened, word};
use crate::keep_for::KeepFor;

/// Lines of one argument. The address of a mail and a sentence fit in fewer.
const ARGUMENT_LINES: usize = 3;

/// Lines of all arguments together: with the rest the question fits into a small terminal.
const ARGUMENTS_LINES: usize = 12;

/// Lines of an answer that is asked about.
const ANSWER_LINES: usize = 8;

/// Characters of the texts that the user can trust, up to which a question shows them at once.
const TRUSTED: usize = 400;

/// Typed lines that are no answer before the question is denied: a stuck key must not ask forever.
const ATTEMPTS: usize = 5;

/// A question and the lines that are typed to it, without the terminal.
pub(crate) struct Dialogue<'a> {
    question: &'a QuestionView,
    columns: usize,
    /// How long "always" lasts.
    keep_for: KeepFor,
    text: String,
    /// Whether the text leaves something out.
    is_cut: bool,
    /// Whether the texts that the user can trust have been shown in full.
    has_texts: bool,
    attempts: usize,
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
        let lines = lay_out(question, columns, keep_for, false);
        Self {
            question,
            columns,
            keep_for,
            is_cut: lines.is_cut,
            has_texts: has_texts(question, false),
            text: lines.finish(),
            attempts: 0,
        }
    }

    /// The question, without the prompt.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The line that asks for the answer.
    pub(crate) fn prompt(&self) -> String {
        let choices = self.choices().chain([Answer::No]).map(choice);
        let show = self.is_cut.then_some(("s", "show all"));
        let (keys, names): (Vec<&str>, Vec<&str>) = choices.chain(show).unzip();
        // At least "once" and "deny", as `names.join` with an "or" before the last.
        let names = match names.as_slice() {
            [first, last] => format!("{first} or {last}"),
            [rest @ .., last] => format!("{}, or {last}", rest.join(", ")),
            [] => String::new(),
        };
        format!("Allow {names}? [{}, default deny] ", keys.join("/"))
    }

    /// What follows a line. `None`, the end of input, denies, and so does the last of [`ATTEMPTS`].
    pub(crate) fn hear(&mut self, line: Option<&str>) -> Next {
        let line = line.unwrap_or_default().trim().to_lowercase();
        let line = line.as_str();
        if ["", "d", "deny", "n", "no"].contains(&line) {
            return Next::Done(Answer::No);
        }
        let is_meant = |answer: &Answer| line == answer.name() || line == choice(*answer).0;
        if let Some(answer) = self.choices().find(is_meant) {
            return Next::Done(answer);
        }
        self.attempts += 1;
        if self.attempts >= ATTEMPTS {
            return Next::Done(Answer::No);
        }
        let shows = ["s", "show", "show all", "trust", "trust-session"].contains(&line);
        let again = match self.is_cut && shows {
            true => {
                self.has_texts = true;
                let all = lay_out(self.question, self.columns, self.keep_for, true);
                format!("\n{}", all.finish())
            }
            false => {
                let choices = self.choices().chain([Answer::No]).map(choice);
                let show = self.is_cut.then_some(("s", "show all"));
                let choices = choices.chain(show);
                let choices = choices.map(|(key, name)| format!("\"{key}\" ({name})"));
                format!("Type {}.\n", choices.collect::<Vec<_>>().join(", "))
            }
        };
        Next::Say(again + &self.prompt())
    }

    /// The answers other than no. A text can be trusted once all of it was shown, since calls that it asks for run unasked.
    fn choices(&self) -> impl Iterator<Item = Answer> + use<'a> {
        let has_texts = self.has_texts;
        let choices = self.question.choices.iter().copied();
        choices.filter(move |choice| match choice {
            Answer::No => false,
            Answer::Trust(_) => has_texts,
            _ => true,
        })
    }
}

/// What is typed for an answer, and how the prompt names it. An answer that lasts is a full word: one letter is easily
/// typed by accident.
fn choice(answer: Answer) -> (&'static str, &'static str) {
    match answer {
        Answer::Once => ("o", "once"),
        Answer::Each => ("each", "each of these calls once"),
        Answer::TrustValue => ("value", "trust this value for this task"),
        Answer::TrustSource => ("source", "trust this source for this task"),
        Answer::Trust(Until::Task) => ("trust", "trust for this task"),
        Answer::Trust(Until::Session) => ("trust-session", "trust for this session"),
        Answer::Host => ("host", "any address at this host for this task"),
        Answer::Session => ("session", "for this session"),
        Answer::Always => ("always", "always"),
        Answer::AlwaysFolder => ("always-folder", "always in this folder"),
        Answer::No => ("d", "deny"),
    }
}

/// The lines of a question; `full` leaves nothing out.
fn lay_out(question: &QuestionView, columns: usize, keep_for: KeepFor, full: bool) -> Lines {
    let mut lines = Lines::new(columns, full);
    for sentence in question.title() {
        lines.own(&sentence);
    }
    match question.contents() {
        Contents::Arguments(arguments) => {
            let mut read = question.endorses.clone().unwrap_or_default();
            read.extend(question.bounds.iter().map(|bound| bound.name));
            list(&mut lines, &arguments, &read);
        }
        Contents::Text(words) => text(&mut lines, words),
        Contents::Unreadable(arguments) => {
            lines.quoted(&escape(arguments), ARGUMENTS_LINES);
        }
        Contents::Nothing => {}
    }
    if !question.waiting.is_empty() {
        lines.own("The same step also wants to call:");
        // An answer allows them, so they are shown in full.
        for call in &question.waiting {
            lines.quoted(&escape(&format!("{}: {}", call.app, call.tool)), usize::MAX);
            let all = arguments(&call.arguments).unwrap_or_default();
            let read: Vec<String> = all.iter().map(|argument| argument.name.clone()).collect();
            list(&mut lines, &all, &read);
        }
    }
    for reason in question.reasons() {
        match reason {
            Reason::Sentence(sentence) => lines.own(&sentence),
            Reason::Exceeds(head) => sources::depends(&mut lines, question, &head),
        }
    }
    trusted(&mut lines, question);
    let notes = question.notes().into_iter();
    let meanings = question.meanings(keep_for);
    for sentence in notes.chain(endorsed(question)).chain(meanings) {
        lines.own(&sentence);
    }
    lines
}

/// Lines of a text, as many as an answer may have.
fn text(lines: &mut Lines, text: &str) {
    let text = escape_lines(text).replace('\t', "    ");
    let mut room = ANSWER_LINES;
    for paragraph in text.split('\n') {
        if room == 0 && !lines.full {
            lines.is_cut = true;
            break;
        }
        room = room.saturating_sub(lines.quoted(paragraph, room));
    }
}

/// The arguments in their order, as many as there is room for. Those of `read` are shown in full.
fn list(lines: &mut Lines, arguments: &[Argument], read: &[String]) {
    let mut room = ARGUMENTS_LINES;
    let mut hidden = 0;
    for argument in arguments {
        // Allowing the call makes these the user's own words, or "always" covers them, so there is room for all of them.
        let most = match read.contains(&argument.name) {
            true => usize::MAX,
            false => ARGUMENT_LINES.min(room),
        };
        if most == 0 && !lines.full {
            hidden += 1;
            continue;
        }
        let line = escape(&format!("{}: {}", argument.name, argument.value));
        room = room.saturating_sub(lines.quoted(&line, most));
        // Warnings are our own words.
        let name = shortened(&escape(&argument.name), NAME_COLUMNS);
        for word in argument.mixed() {
            let word = shortened(&word, 4 * NAME_COLUMNS);
            lines.own(&format!(
                "! {name} mixes letters of several scripts: {word}"
            ));
        }
    }
    if hidden > 0 {
        lines.is_cut = true;
        lines.own(&format!("[{hidden} more arguments are not shown here]"));
    }
}

/// Whether the question has the texts that the user can trust in full.
fn has_texts(question: &QuestionView, full: bool) -> bool {
    let texts = question.trust.iter().flat_map(|trust| &trust.texts);
    let length: usize = texts.map(|text| text.text.chars().count()).sum();
    full || length <= TRUSTED
}

/// The texts that the user would trust, if there is room for all of them.
fn trusted(lines: &mut Lines, question: &QuestionView) {
    let is_offered = |choice: &Answer| matches!(choice, Answer::Trust(_));
    if !lines.full && !question.choices.iter().any(is_offered) {
        return;
    }
    if !has_texts(question, lines.full) {
        lines.is_cut = true;
        return lines.own(
            "(trust and trust-session can be chosen after s, which shows all that they cover.)",
        );
    }
    for text in question.trust.iter().flat_map(|trust| &trust.texts) {
        let source = shortened(&escape(&text.source.to_string()), 2 * NAME_COLUMNS);
        lines.own(&format!("You would trust all of {source}:"));
        lines.paragraphs(&text.text);
    }
}

/// What allowing the call does beside running it.
fn endorsed(question: &QuestionView) -> Option<String> {
    let carried = question.carried()?;
    let names = carried
        .iter()
        .map(|name| shortened(&escape(name), NAME_COLUMNS));
    let except = match names.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        names => format!(", except for {}", names.join(" and ")),
    };
    Some(format!(
        "If you allow this call, it counts as your own request{except}."
    ))
}

#[cfg(test)]
mod tests;

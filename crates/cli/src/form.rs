//! A question of an app (MCP elicitation): its layout, and how a typed line is read.
//!
//! It must not look like a question of Sluice. Every line of the app's words begins with the app's name, the line where
//! the user types has no text of the app, and Sluice's own words about the question come last.

use hub::trace::escape;
use serde_json::Map;
use server::{FormAnswer, FormView};
use wire::{Field, FieldKind, FieldOption};

use crate::question::{Lines, shortened};

/// Typed lines that do not fit before the question ends.
const ATTEMPTS: usize = 3;

/// The word that ends an answer that was begun.
const CANCEL: &str = "cancel";

/// Columns of an app's name before each of its lines: on the narrowest terminal some are left for words.
const NAME_COLUMNS: usize = 12;

/// Lines of a message. A message of line breaks alone would push our own words off the screen.
const MESSAGE_LINES: usize = 20;

/// A form and the lines that are typed to it, without the terminal.
pub(crate) struct FormDialogue<'a> {
    view: &'a FormView,
    columns: usize,
    /// The fields so far, once the user has begun to answer.
    answer: Option<Map<String, serde_json::Value>>,
    /// The field that is asked for.
    at: usize,
    attempts: usize,
}

/// What follows a line.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Done(FormAnswer),
    /// Say this, the prompt included, and read another line.
    Say(String),
}

impl<'a> FormDialogue<'a> {
    /// A form on a terminal of so many columns.
    pub(crate) fn new(view: &'a FormView, columns: usize) -> Self {
        Self {
            view,
            columns,
            answer: None,
            at: 0,
            attempts: 0,
        }
    }

    /// The whole question, without the prompt.
    pub(crate) fn text(&self) -> String {
        let (app, tool) = (self.app(), escape(&self.view.tool));
        let mut lines = Lines::new(self.columns);
        lines.own(&format!(
            "The app {app} asks you something while it runs {tool}. These are its words, not Sluice's:"
        ));
        let name = format!("{}> ", shortened(&app, NAME_COLUMNS));
        // A line break of two characters would use up two of the lines.
        let message = self.view.form.message.replace("\r\n", "\n");
        // The last piece is all the rest, whose line breaks are escaped and shown as characters.
        lines.said_by(&name, message.splitn(MESSAGE_LINES, '\n'));
        for (at, field) in self.view.form.fields.iter().enumerate() {
            lines.said_by(&name, described(at + 1, field));
        }
        if let Some((rule, excess)) = &self.view.beyond {
            let (rule, excess) = (escape(rule), escape(&excess.join(", ")));
            lines.own(&format!(
                "! The rule {rule} shows such words only with your approval: they may depend on {excess}."
            ));
        }
        lines.own(&format!(
            "Your answer is sent to {app}. Do not type a secret; Sluice never asks for a password here."
        ));
        lines.finish()
    }

    /// The line that asks for what is typed next.
    pub(crate) fn prompt(&self) -> String {
        let app = shortened(&self.app(), NAME_COLUMNS);
        let field = self.answer.as_ref().and(self.view.form.fields.get(self.at));
        let Some(field) = field else {
            return format!("Answer {app} or decline? [a/d, default decline] ");
        };
        let how = match field.required {
            true => format!("{CANCEL} to end"),
            false => format!("Enter to skip, {CANCEL} to end"),
        };
        format!(
            "To {app}, {} of {}, {} ({how}): ",
            self.at + 1,
            self.view.form.fields.len(),
            kind(&field.kind)
        )
    }

    /// What follows a line; `None` is the end of input.
    pub(crate) fn hear(&mut self, line: Option<&str>) -> Next {
        let Some(line) = line else {
            return Next::Done(FormAnswer::Dismissed);
        };
        if self.answer.is_some() {
            return self.typed(line);
        }
        match line.trim().to_lowercase().as_str() {
            "a" | "answer" => {
                self.answer = Some(Map::new());
                self.next()
            }
            "" | "d" | "decline" | "n" | "no" => Next::Done(FormAnswer::Declined),
            _ => self.again("Type a or d.\n".to_owned(), FormAnswer::Declined),
        }
    }

    fn typed(&mut self, line: &str) -> Next {
        // In a field of any kind: an app must not be able to keep the user from ending.
        if line.trim().eq_ignore_ascii_case(CANCEL) {
            return Next::Done(FormAnswer::Dismissed);
        }
        let (Some(field), Some(answer)) =
            (self.view.form.fields.get(self.at), self.answer.as_mut())
        else {
            return Next::Done(FormAnswer::Dismissed);
        };
        match field.read(line) {
            Ok(value) => {
                if let Some(value) = value {
                    answer.insert(field.name.clone(), value);
                }
                self.at += 1;
                self.attempts = 0;
                self.next()
            }
            Err(unfit) => self.again(
                format!("That does not fit: {unfit}.\n"),
                FormAnswer::Dismissed,
            ),
        }
    }

    fn next(&self) -> Next {
        match &self.answer {
            Some(answer) if self.at >= self.view.form.fields.len() => {
                Next::Done(FormAnswer::Accepted(answer.clone()))
            }
            _ => Next::Say(self.prompt()),
        }
    }

    /// Asks once more after these words, or ends with `end` after too many attempts.
    fn again(&mut self, words: String, end: FormAnswer) -> Next {
        self.attempts += 1;
        match self.attempts < ATTEMPTS {
            true => Next::Say(words + &self.prompt()),
            false => Next::Done(end),
        }
    }

    fn app(&self) -> String {
        escape(&self.view.app)
    }
}

/// A field and its options in the app's words, which are escaped.
fn described(number: usize, field: &Field) -> Vec<String> {
    let needed = if field.required { ", required" } else { "" };
    let description = match field.description.is_empty() {
        true => String::new(),
        false => format!(": {}", escape(&field.description)),
    };
    let first = format!(
        "{number}. {} ({}{needed}){description}",
        escape(titled(&field.title, &field.name)),
        kind(&field.kind)
    );
    let options = match &field.kind {
        FieldKind::Choice(options) | FieldKind::Choices(options) => options.as_slice(),
        _ => &[],
    };
    let option = |(at, option): (usize, &FieldOption)| {
        let title = escape(titled(&option.title, &option.value));
        format!("   option {}: {title}", at + 1)
    };
    let options = options.iter().enumerate().map(option);
    std::iter::once(first).chain(options).collect()
}

fn titled<'a>(title: &'a str, name: &'a str) -> &'a str {
    if title.is_empty() { name } else { title }
}

/// The kind of a field, in our words.
fn kind(kind: &FieldKind) -> &'static str {
    match kind {
        FieldKind::Text { .. } => "a text",
        FieldKind::Number { .. } => "a number",
        FieldKind::Integer { .. } => "a whole number",
        FieldKind::Boolean => "yes or no",
        FieldKind::Choice(_) => "the number of an option",
        FieldKind::Choices(_) => "numbers of options",
    }
}

#[cfg(test)]
mod tests;

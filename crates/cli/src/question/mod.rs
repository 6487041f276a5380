//! A question to the user at a terminal: its layout, and how a typed line is read. Its sentences are
//! `hub::question`'s.
//!
//! Everything foreign is escaped, wrapped to the terminal's width and indented behind a prefix, so that it can neither
//! steer the terminal nor look like Sluice's own words. A question has few lines. What is left out is counted, and `s` shows
//! it. An answer can be given once all that it covers was shown.

mod full;
mod layout;
mod short;
mod typed;

use hub::question::{QuestionView, Shown};
use ifc::Answer;

pub(crate) use self::full::full;
pub(crate) use self::layout::{Lines, Size, columns, hanging, inset, shortened, word};
use self::short::{Short, short};
use self::typed::{NO, key, not_offered, prompt};
use crate::keep_for::KeepFor;

/// Typed lines that are no answer before the question is denied: a stuck key must not ask forever.
const ATTEMPTS: usize = 5;

/// A question and the lines that are typed to it, without the terminal.
pub(crate) struct Dialogue {
    choices: Vec<Answer>,
    shown: Shown,
    columns: usize,
    short: Short,
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

impl Dialogue {
    /// A question on a terminal of this size.
    pub(crate) fn new(question: &QuestionView, size: impl Into<Size>, keep_for: KeepFor) -> Self {
        let size = size.into();
        let mut shown = question.shown(&keep_for);
        let mut choices = question.choices.clone();
        // Who is at the terminal has asked.
        if !shown.approvers.is_empty() {
            choices.retain(|answer| *answer == Answer::No);
            shown.choices.retain(|choice| choice.answer == NO);
        }
        Self {
            short: short(&shown, size),
            choices,
            shown,
            columns: size.columns,
            attempts: 0,
        }
    }

    /// The question, without the prompt.
    pub(crate) fn text(&self) -> &str {
        &self.short.text
    }

    /// The lines that ask for the answer.
    pub(crate) fn prompt(&self) -> String {
        let Short {
            hidden, offered, ..
        } = &self.short;
        let is_offered = |name: &&str| offered.iter().any(|it| it == name);
        let all = self.choices.iter().map(|answer| answer.name());
        let (now, later): (Vec<&str>, Vec<&str>) = all.partition(is_offered);
        prompt(&now, &later, *hidden, self.columns)
    }

    /// What follows a line. `None`, the end of input, denies, and so does the last of [`ATTEMPTS`].
    pub(crate) fn hear(&mut self, line: Option<&str>) -> Next {
        let line = line.unwrap_or_default().trim().to_lowercase();
        let line = line.as_str();
        if ["", "d", "deny", "n", NO].contains(&line) {
            return Next::Done(Answer::No);
        }
        let is_meant = |answer: &&Answer| line == answer.name() || line == key(answer.name());
        let answer = self.choices.iter().find(is_meant);
        let is_seen = |it: &&Answer| self.short.offered.iter().any(|name| name == it.name());
        if let Some(answer) = answer.filter(is_seen) {
            return Next::Done(*answer);
        }
        self.attempts += 1;
        if self.attempts >= ATTEMPTS {
            return Next::Done(Answer::No);
        }
        let shows = answer.is_some() || ["s", "show", "show all", "?"].contains(&line);
        let again = match shows {
            // From now on everything is shown.
            true => {
                self.short.hidden = 0;
                let all = self.choices.iter().filter(|it| **it != Answer::No);
                self.short.offered = all.map(|it| it.name().to_owned()).collect();
                format!("\n{}", full(&self.shown, self.columns).finish())
            }
            false => not_offered(line, &self.shown),
        };
        Next::Say(again + &self.prompt())
    }
}

#[cfg(test)]
mod tests;

//! What a question depends on: the sources, without repetitions, by how much they say.

use ifc::Source;

use super::arguments::Argument;
use super::text::Contents;
use super::view::QuestionView;
use crate::trace::{Cause, Quote, escape};

/// The sources of a question.
#[derive(Debug)]
pub struct Sources<'a> {
    /// Results and messages that the flow may depend on, those with the call's values first, each with how often it was
    /// there.
    pub relevant: Vec<(&'a Cause, usize)>,
    /// Those with the same labels that the screener found irrelevant. A text can sway the screener to leave it out,
    /// so they are counted, and can be looked at.
    pub screened_out: Vec<(&'a Cause, usize)>,
    /// "3 tool descriptions (untrusted)": a call depends on those of all tools that the model was offered.
    pub descriptions: Option<String>,
}

impl QuestionView {
    /// What the flow may depend on beyond its limit.
    #[must_use]
    pub fn sources(&self) -> Sources<'_> {
        // A text with the call's values is shown even if the screener left it out: the text may have swayed it.
        let (causes, doubtful): (Vec<&Cause>, Vec<&Cause>) =
            (self.causes.iter()).partition(|cause| cause.relevant || !cause.quotes.is_empty());
        let (descriptions, mut relevant) = sorted(&causes);
        let rank = |cause: &Cause| cause.quotes.iter().map(|it| self.place_of(it)).min();
        // The system's text is there at every call, and says least.
        let is_system = |cause: &Cause| cause.source == Source::System;
        relevant.sort_by_key(|(cause, _)| (rank(cause).unwrap_or(usize::MAX), is_system(cause)));
        Sources {
            relevant,
            screened_out: sorted(&doubtful).1,
            descriptions: (!descriptions.is_empty()).then(|| counted(&descriptions)),
        }
    }
}

impl QuestionView {
    /// The place of the argument of a quotation among the arguments, the most important first.
    pub(super) fn place_of(&self, quote: &Quote) -> usize {
        let Contents::Arguments(arguments) = self.contents() else {
            return 0;
        };
        let names = |argument: &Argument| {
            let rest = quote.argument.strip_prefix(argument.name.as_str());
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        arguments.iter().position(names).unwrap_or(arguments.len())
    }
}

/// Causes without repetitions: descriptions of tools, and everything else with how often it was there.
fn sorted<'a>(causes: &[&'a Cause]) -> (Vec<&'a Cause>, Vec<(&'a Cause, usize)>) {
    let mut descriptions: Vec<&Cause> = Vec::new();
    let mut data: Vec<(&Cause, usize)> = Vec::new();
    for cause in causes {
        let same = |other: &Cause| {
            (&other.source, &other.excerpt, &other.label, &other.quotes)
                == (&cause.source, &cause.excerpt, &cause.label, &cause.quotes)
        };
        if matches!(cause.source, Source::Description(_)) {
            if !descriptions.iter().any(|other| same(other)) {
                descriptions.push(cause);
            }
        } else if let Some((_, times)) = data.iter_mut().find(|(other, _)| same(other)) {
            *times += 1;
        } else {
            data.push((cause, 1));
        }
    }
    (descriptions, data)
}

fn counted(descriptions: &[&Cause]) -> String {
    let mut labels: Vec<&str> = Vec::new();
    for name in descriptions.iter().flat_map(|cause| &cause.label) {
        if !labels.contains(&name.as_str()) {
            labels.push(name);
        }
    }
    let labels = escape(&labels.join(", "));
    // A tool has a description and a schema with descriptions of its own.
    let mut tools: Vec<&Source> = descriptions.iter().map(|cause| &cause.source).collect();
    tools.dedup();
    match tools.len() {
        1 => format!("1 tool description ({labels})"),
        count => format!("{count} tool descriptions ({labels})"),
    }
}

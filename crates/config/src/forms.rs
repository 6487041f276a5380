//! Reads forms of values: `form`, `one_of`, `pattern`, and a range of integers.

use std::ops::RangeInclusive;
use std::str::FromStr;

use ifc::{Dimension, Label};
use policy::{Form, PatternError};

use crate::toml_reader::{At, Table};

/// The keys of a form.
pub(crate) const FORM_KEYS: [&str; 3] = ["form", "one_of", "pattern"];

/// Refuses a form that can spell words for a trusted value: a name can be a sentence without spaces.
pub(crate) fn check_words(table: &Table<'_>, form: Option<&Form>, label: Option<&Label>) {
    let (Some(form), Some(label), Some(lattice)) = (form, label, table.context.lattice) else {
        return;
    };
    let influenced = !label.meet(&lattice.whole(Dimension::Integrity)).is_bottom();
    if form.can_spell_words() && !influenced {
        let place = table.value("form").map(toml::Spanned::span);
        let message = "a value of this form can spell words, but its label is trusted";
        let help = "give the label an integrity taint, which sinks can accept; an identifier has \
                    form = \"uuid\", \"hex\" or \"digits\", or pattern = \"INV-[0-9]{4,8}\"";
        let span = place.unwrap_or(table.span.clone());
        table.error(&span, message, help);
    }
}

pub(crate) fn form(table: &Table<'_>) -> Option<Form> {
    let range = range(table);
    let words = table.strings("one_of");
    let pattern = table.string("pattern");
    let named = table.string("form");
    let written = FORM_KEYS.map(|key| table.value(key).map(toml::Spanned::span));
    if let [_, second, ..] = written.iter().flatten().collect::<Vec<_>>().as_slice() {
        let message = format!(
            "{} exclude each other",
            FORM_KEYS.map(|key| format!("'{key}'")).join(", ")
        );
        table.error(second, message, "leave all but one out");
    }
    if let Some(words) = words {
        if words.is_empty() {
            let message = "'one_of' names no word, so no value has this form";
            table.wrong(message, "write one_of = [\"a\", \"b\"]");
        }
        return Some(Form::OneOf(
            words.iter().map(|word| word.value.to_owned()).collect(),
        ));
    }
    if let Some(at) = pattern {
        return parsed(table, &at, PATTERN_HELP, |error: &PatternError| {
            (error.offset, error.message.clone())
        })
        .map(Form::Pattern);
    }
    let named = named?;
    let form = Form::named(named.value);
    if let Some(range) = range {
        return match form {
            Some(Form::Integer) => range.map(Form::IntegerIn),
            _ => {
                let message = "'from' and 'to' are about an integer";
                let help = "write form = \"integer\" with them, or leave them out";
                table.error(&named.span, message, help);
                None
            }
        };
    }
    if form.is_none() {
        let names = Form::NAMED.map(|(name, _)| name);
        let meant = table.did_you_mean(named.value, names);
        let help = match named.value {
            word if word.starts_with("digits") => {
                "write \"digits\", \"digits(6)\" or \"digits(4,8)\", with 20 digits at most".to_owned()
            }
            // A likely guess: an id of a service may be long, and spell a sentence.
            "id" => "an identifier is \"uuid\", \"hex\" or \"digits\", or has a pattern = \"INV-[0-9]{4,8}\"; \
                     a chosen name is a \"token\" with a taint of its own".to_owned(),
            _ => format!(
                "{meant}it is one of {}; for fixed words write one_of = [\"a\", \"b\"]",
                names.join(", ")
            ),
        };
        let message = format!("there is no form '{}'", named.value);
        table.error(&named.span, message, help);
    }
    form
}

/// `from = 1, to = 100`. `None` if neither is written, `Some(None)` if the range is wrong.
fn range(table: &Table<'_>) -> Option<Option<RangeInclusive<i64>>> {
    let (from, to) = (table.signed("from"), table.signed("to"));
    if !table.has("from") && !table.has("to") {
        return None;
    }
    let range = match (&from, &to) {
        (Some(from), Some(to)) if from.value <= to.value => Some(from.value..=to.value),
        _ => None,
    };
    if range.is_none() {
        let message = "'from' and 'to' are no range of integers";
        let help = "write both: form = \"integer\", from = 1, to = 100";
        table.wrong(message, help);
    }
    Some(range)
}

const PATTERN_HELP: &str =
    "a pattern is like \"INV-[0-9]{4,8}\": letters, digits, classes and counts";

/// Parses a string with a syntax of its own. An error is marked inside of the string, if that has no escapes.
pub(crate) fn parsed<T: FromStr>(
    table: &Table<'_>,
    at: &At<&str>,
    help: &str,
    place: impl Fn(&T::Err) -> (usize, String),
) -> Option<T> {
    let refused = match at.value.parse() {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let (offset, message) = place(&refused);
    let inside = at.span.start + 1..at.span.end.saturating_sub(1);
    // With an escape the string is longer in the file than its value, and the offset would be wrong.
    let plain = table.context.file.text.get(inside.clone()) == Some(at.value);
    let wrong = inside.start + offset;
    let span = if plain {
        wrong..wrong + 1
    } else {
        at.span.clone()
    };
    table.error(&span, message, help);
    None
}

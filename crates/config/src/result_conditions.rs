//! Reads the conditions of label rules: the siblings of a value, and the arguments of the call.

use ifc::Label;
use policy::{ArgumentIs, By, Folder, Form, LabelRule, List, Sibling, Siblings, Unless, When};

use crate::forms::{check_words, form};
use crate::toml_reader::Table;
use crate::watch::Takes;

/// `{ sibling = "sender", is = ["me@example.com"], label = [] }`; of several siblings `all = [{ sibling = …, is = … }, …]`,
/// or `any`.
pub(crate) fn unless(table: &Table<'_>, above: Option<&Label>) -> Option<Unless> {
    let siblings = match (table.has("all"), table.has("any")) {
        (false, false) => sibling(table).map(|one| Siblings::All(vec![one])),
        (true, false) => several(table, "all").map(Siblings::All),
        (false, true) => several(table, "any").map(Siblings::Any),
        (true, true) => {
            // Read, so that neither is reported as unknown.
            table.value("all");
            table.value("any");
            table.wrong("'all' and 'any' exclude each other", "leave one out");
            None
        }
    };
    let label = table.label("label");
    table.needs("label", "label = [], the label that the value has then");
    table.finish();
    if let (Some(label), Some(above)) = (&label, above)
        && !label.flows_to(above)
    {
        let message = "'unless' has a label that the rule does not have";
        let help = "it can only lower: write every label that the value may have in the rule";
        table.wrong(message, help);
    }
    Some(Unless {
        siblings: siblings?,
        label: label?,
    })
}

/// The siblings of `all` or `any`, one at least.
fn several(table: &Table<'_>, key: &'static str) -> Option<Vec<Sibling>> {
    let read = |inner: &Table<'_>| {
        let found = sibling(inner);
        inner.finish();
        found
    };
    let found: Vec<Option<Sibling>> = table.tables(key).iter().map(read).collect();
    if found.is_empty() {
        let message = format!("'{key}' names no sibling, so 'unless' never applies");
        let help = format!("write {key} = [{{ sibling = \"FIELD\", is = [\"TEXT\"] }}]");
        table.wrong(message, help);
        return None;
    }
    found.into_iter().collect()
}

fn sibling(table: &Table<'_>) -> Option<Sibling> {
    let name = table.string("sibling");
    let words = table.strings("is");
    table.needs("sibling", "sibling = \"FIELD\", a field beside the value");
    table.needs("is", "is = [\"TEXT\"], what the sibling must be");
    let words: Vec<String> = words?.iter().map(|word| word.value.to_owned()).collect();
    if words.is_empty() {
        let message = "'is' names no text, so 'unless' never applies";
        let help = "write is = [\"TEXT\"], or leave 'unless' out";
        table.wrong(message, help);
    }
    Some(Sibling {
        name: name?.value.to_owned(),
        is: words,
    })
}

/// `when = { argument = "path", under = "/home/me/private" }`, or an array of which all must hold. `None` after an error,
/// which must not become a rule without a condition.
pub(crate) fn when(table: &Table<'_>) -> Option<Vec<When>> {
    table.takes("when", Takes::Table);
    table.takes("when", Takes::Tables);
    let Some(value) = table.value("when") else {
        return Some(Vec::new());
    };
    let tables = match value.get_ref().as_array() {
        Some(_) => table.tables("when"),
        None => vec![table.table("when")?],
    };
    if tables.is_empty() {
        let message = "'when' names no condition";
        table.error(&value.span(), message, WHEN_HELP);
        return None;
    }
    let conditions: Vec<Option<When>> = tables.iter().map(condition).collect();
    conditions.into_iter().collect()
}

const WHEN_HELP: &str = "write when = { argument = \"NAME\", under = \"/FOLDER\" }, or with one_of = [\"TEXT\"], host = \"example.org\" or equals = \"session.user\"";

fn condition(table: &Table<'_>) -> Option<When> {
    let argument = table.string("argument");
    table.needs("argument", "argument = \"NAME\", an argument of the call");
    let is = [
        texts(table, "one_of", "a text to the byte, like [\"inbox\"]", |text| {
            Some(text.to_owned())
        })
        .map(ArgumentIs::OneOf),
        texts(
            table,
            "under",
            "a path in normal form below the root, without '..', '//', '~', '%' or wildcards, like \"/home/me/private\"",
            Folder::new,
        )
        .map(ArgumentIs::Under),
        texts(
            table,
            "host",
            "the name of a host alone, like \"example.org\", or \"http://wiki.local:8080\" without https",
            host,
        )
        .map(ArgumentIs::Host),
        table
            .choice("equals", &[("session.user", ())])
            .map(|()| ArgumentIs::User),
    ];
    table.finish();
    let written = ["one_of", "under", "host", "equals"].map(|key| table.has(key));
    if written.iter().filter(|written| **written).count() != 1 {
        let message = "'when' needs exactly one of 'one_of', 'under', 'host' and 'equals'";
        table.wrong(message, WHEN_HELP);
        return None;
    }
    Some(When {
        argument: argument?.value.to_owned(),
        is: is.into_iter().flatten().next()?,
    })
}

/// One text or an array of texts. `None` if one of them cannot be read.
fn texts<T>(
    table: &Table<'_>,
    key: &'static str,
    kind: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<Vec<T>> {
    table.takes(key, Takes::String);
    table.takes(key, Takes::Strings);
    let value = table.value(key)?;
    let words = match value.get_ref().as_array() {
        Some(_) => table.strings(key)?,
        None => vec![table.string(key)?],
    };
    if words.is_empty() {
        let message = format!("'{key}' names nothing, so the condition never holds");
        let help = format!("write {kind}");
        table.error(&value.span(), message, help);
        return None;
    }
    let words = words.iter().map(|word| {
        let found = read(word.value);
        if found.is_none() {
            let message = format!("'{}' can never be met by '{key}'", word.value);
            table.error(&word.span, message, format!("write {kind}"));
        }
        found
    });
    let words: Vec<Option<T>> = words.collect();
    words.into_iter().collect()
}

fn host(text: &str) -> Option<String> {
    let (name, port) = match text.strip_prefix("http://") {
        // One spelling of each port; 80 is none.
        Some(rest) => rest.split_once(':').unwrap_or((rest, "1")),
        None => (text, "1"),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let is_name = !name.is_empty() && name.chars().all(plain);
    let is_port = port != "80" && port.parse().is_ok_and(|it: u16| it.to_string() == port);
    // Hosts are compared without a final dot.
    (is_name && is_port && !name.starts_with('.') && !name.ends_with('.')).then(|| text.to_owned())
}

/// `list = "lines"`: each element of a list in text has the form. `Err` after an error.
pub(crate) fn list(table: &Table<'_>, form: Option<&Form>) -> Result<Option<List>, ()> {
    let list = table.choice("list", &List::NAMES);
    if !table.has("list") {
        return Ok(None);
    }
    let (message, help) = match (form, table.has("head")) {
        (None, _) => (
            "'list' needs a form of its elements",
            "write form = \"digits\" beside it, or one_of, or pattern",
        ),
        (Some(_), true) => ("'list' and 'head' exclude each other", "leave one out"),
        (Some(_), false) => return list.map(Some).ok_or(()),
    };
    table.wrong(message, help);
    Err(())
}

/// The label of the keys of a rule's values: `["LABEL"]`, or `{ label = ["LABEL"], form = "email" }`.
pub(crate) fn key(table: &Table<'_>) -> Result<(Option<Label>, Option<Form>), ()> {
    table.takes("key", Takes::Label);
    table.takes("key", Takes::Table);
    let Some(value) = table.value("key") else {
        return Ok((None, None));
    };
    if value.get_ref().as_table().is_none() {
        return Ok((table.label("key"), None));
    }
    let inner = table.table("key").ok_or(())?;
    let label = inner.label("label");
    let form = form(&inner);
    check_words(&inner, form.as_ref(), label.as_ref());
    if label.is_none() {
        inner.missing("label", "label = [\"NAME\"], or [] for trusted and public");
    }
    inner.finish();
    match (label, form) {
        (Some(label), Some(form)) => Ok((Some(label), Some(form))),
        (Some(_), None) => {
            let help = "write form = \"email\" beside it, or key = [\"NAME\"] alone";
            let message = "'key' is a table without a form of the keys";
            inner.wrong(message, help);
            Err(())
        }
        (None, _) => Err(()),
    }
}

/// Who wrote the values: `by = "sender"`, a member beside them; or `{ sibling = "sender", believed = true }`,
/// `{ host = "url" }`, `{ folder = "path" }`, `{ arguments = ["repo", "issue"] }`. `Err` after an error.
pub(crate) fn by(table: &Table<'_>) -> Result<Option<By>, ()> {
    table.takes("by", Takes::String);
    table.takes("by", Takes::Table);
    let Some(value) = table.value("by") else {
        return Ok(None);
    };
    if value.get_ref().as_table().is_none() {
        let name = table.string("by").ok_or(())?.value.to_owned();
        let believed = false;
        return Ok(Some(By::Sibling { name, believed }));
    }
    let inner = table.table("by").ok_or(())?;
    let [sibling, host, folder] = ["sibling", "host", "folder"]
        .map(|key| inner.string(key).map(|name| name.value.to_owned()));
    let arguments = inner.strings("arguments").map(|names| {
        let names = names.iter().map(|name| name.value.to_owned());
        names.collect::<Vec<_>>()
    });
    let believed = inner.boolean("believed");
    inner.finish();
    let by = match (sibling, host, folder, arguments, believed) {
        (Some(name), None, None, None, believed) => By::Sibling {
            name,
            believed: believed.unwrap_or(false),
        },
        (None, Some(argument), None, None, None) => By::Host(argument),
        (None, None, Some(argument), None, None) => By::Folder(argument),
        (None, None, None, Some(names), None) if !names.is_empty() => By::Arguments(names),
        _ => {
            inner.wrong(
                "'by' needs one of 'sibling', 'host', 'folder' and 'arguments'",
                "write by = \"sender\", { sibling = \"sender\", believed = true }, { host = \"url\" }, { folder = \"path\" } or { arguments = [\"repo\", \"issue\"] }",
            );
            return Err(());
        }
    };
    Ok(Some(by))
}

/// The error of a rule beside another one for the same path, if it has no effect of its own.
pub(crate) fn contradiction(rule: &LabelRule, other: &LabelRule) -> Option<(String, &'static str)> {
    let path = rule.path.as_str();
    if rule.when == other.when {
        let with = match rule.when.is_empty() {
            true => "",
            false => " with the same condition",
        };
        let message = format!("there are two rules for {path}{with}");
        return Some((message, "their labels would be joined; write one rule"));
    }
    let covers = |all: &LabelRule, one: &LabelRule| {
        let plain = all.when.is_empty() && all.unless.is_none() && one.form.is_none();
        plain && one.label.flows_to(&all.label)
    };
    (covers(rule, other) || covers(other, rule)).then(|| {
        let message = format!(
            "a rule for {path} with a condition changes nothing: its label is joined with that of the rule without one"
        );
        let help = "write `rest` for all other calls, or give the other rule a condition";
        (message, help)
    })
}

/// The warning about two rules of which one selects what lies inside of what the other one selects, and changes nothing.
pub(crate) fn unreached(rule: &LabelRule, other: &LabelRule) -> Option<(String, &'static str)> {
    let is_inside = |inner: &LabelRule, outer: &LabelRule| {
        let rest = inner.path.as_str().strip_prefix(outer.path.as_str());
        rest.is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let (inner, outer) = match (is_inside(rule, other), is_inside(other, rule)) {
        (true, _) => (rule, other),
        (_, true) => (other, rule),
        _ => return None,
    };
    let (path, whole) = (inner.path.as_str(), outer.path.as_str());
    if outer.form.is_some() || outer.list.is_some() {
        let message = format!(
            "{path} selects nothing where {whole} is the text or number that its rule says"
        );
        return Some((message, "leave one of the two rules out"));
    }
    let always = outer.when.is_empty() && outer.unless.is_none();
    (always && inner.label.flows_to(&outer.label)).then(|| {
        let message = format!("the rule for {path} changes nothing: the rule for {whole} labels all that is inside of it");
        (message, "write rules for the fields alone, like $.address.street")
    })
}

/// The conditions of a rule in words.
pub(crate) fn conditions(rule: &LabelRule) -> String {
    let conditions: Vec<String> = rule.when.iter().map(ToString::to_string).collect();
    conditions.join(" and ")
}

//! JSON as servers write it, read without insisting on a form: a member of a type that is not known counts as absent.

use std::collections::BTreeMap;

use serde_json::{Map, Value, value::RawValue};

/// The members of an object, as they are written.
pub(super) type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The members of an object; none of anything else.
pub(super) fn members(value: &RawValue) -> Members<'_> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

/// The items of a list; anything else is one item.
pub(super) fn items(value: Option<&RawValue>) -> Vec<&RawValue> {
    match value.filter(|it| it.get() != "null") {
        None => Vec::new(),
        Some(value) => serde_json::from_str(value.get()).unwrap_or_else(|_| vec![value]),
    }
}

/// A count, also one that is written as a text.
pub(super) fn number(value: Option<&&RawValue>) -> Option<usize> {
    text(value).trim().parse().ok()
}

/// A text: a string, a number, or the parts of a list. Thoughts among the parts are none.
pub(super) fn text(value: Option<&&RawValue>) -> String {
    let Some(value) = value.copied() else {
        return String::new();
    };
    let part = |part: &RawValue| {
        let members = members(part);
        let kind = members.get("type").map_or("", |kind| kind.get());
        match kind.contains("thinking") || kind.contains("reasoning") {
            true => String::new(),
            false => members
                .get("text")
                .or_else(|| members.get("refusal"))
                .map_or_else(|| string(part), |it| string(it)),
        }
    };
    match value.get().starts_with(['[', '{']) {
        true => items(Some(value)).into_iter().map(part).collect(),
        false => string(value),
    }
}

/// A string or a number; nothing of any other type. Half a character costs itself.
fn string(value: &RawValue) -> String {
    let raw = value.get();
    if !raw.starts_with('"') {
        let is_number = raw.starts_with(|it: char| it == '-' || it.is_ascii_digit());
        return if is_number {
            raw.to_owned()
        } else {
            String::new()
        };
    }
    serde_json::from_str(raw).unwrap_or_else(|_| {
        let mut parts = raw.split("\\u");
        let mut mended = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_half = part.as_bytes().first().is_some_and(|it| b"dD".contains(it))
                && !part
                    .as_bytes()
                    .get(1)
                    .is_some_and(|it| (b'0'..b'8').contains(it));
            mended.push_str("\\u");
            mended.push_str(if is_half {
                "fffd"
            } else {
                part.get(..4).unwrap_or("")
            });
            mended.push_str(part.get(4..).unwrap_or(""));
        }
        serde_json::from_str(&mended).unwrap_or_default()
    })
}

/// Adds the members that are not read to those of the pieces before.
pub(super) fn collect(known: &mut Map<String, Value>, members: &Members<'_>, read: &[&str]) {
    let unread = members.iter().filter(|(name, _)| !read.contains(&&***name));
    for (name, value) in unread {
        match serde_json::from_str(value.get()) {
            Ok(Value::Null) | Err(_) => {}
            Ok(value) => join(known, name, value),
        }
    }
}

/// Adds a piece of a member: texts and lists go on, anything else is replaced.
pub(super) fn join(known: &mut Map<String, Value>, name: &str, more: Value) {
    match (known.get_mut(name), more) {
        (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
        (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
        (Some(Value::Array(list)), Value::Array(more)) => {
            for item in more {
                match (list.last_mut(), item) {
                    // The next piece of the newest item.
                    (Some(Value::Object(last)), Value::Object(item))
                        if item.contains_key("index")
                            && ["index", "type"]
                                .iter()
                                .all(|it| last.get(*it) == item.get(*it)) =>
                    {
                        for (name, more) in item.into_iter().filter(|(_, it)| !it.is_null()) {
                            match name.as_str() {
                                "text" | "summary" | "data" => join(last, &name, more),
                                _ => drop(last.insert(name, more)),
                            }
                        }
                    }
                    (_, item) => list.push(item),
                }
            }
        }
        (_, more) => drop(known.insert(name.to_owned(), more)),
    }
}

/// A JSON object as it is written; of anything else its text. An object without members says nothing.
pub(super) fn object(value: Option<&&RawValue>) -> String {
    match value.map(|it| it.get()) {
        Some(raw) if raw.starts_with('{') => match raw.bytes().all(|it| b"{} \t\r\n".contains(&it))
        {
            true => String::new(),
            false => raw.to_owned(),
        },
        _ => text(value),
    }
}

/// A number of tokens. An answer is not refused for what is said of its cost: `None` if it is no count.
pub(super) fn count(usage: &Value, at: &str) -> Option<u32> {
    u32::try_from(usage.pointer(at)?.as_u64()?).ok()
}

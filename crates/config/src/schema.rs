//! The JSON Schema of `sluice.toml`. It is recorded while the reader reads `examples/sluice.toml`, which has every kind of
//! table, so it has exactly the reader's keys.

use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::diagnostics::Sink;
use crate::load::load;
use crate::watch::{ROOT, Tables, Takes, Watch, place};

/// Tables, and forms of tables, that the example lacks.
const REST: &str = r#"
[vanilla]
provider = "local"

[app.rest]
command = ["rest"]
limits = {}

[app.rest.results.some]
rest = []

[app.rest.tools.some]
effect = "read"
audience = { of = "a", groups = {} }
after = {}
examples = [{ expect = "allow", session = {}, before = [{}] }]
labels = [
    { path = "$.a", label = [], unless = { sibling = "b", is = ["c"], label = [] }, head = {}, key = {} },
    { path = "$.a", label = [], unless = { all = [{}], label = [] }, when = {} },
    { path = "$.a", label = [], unless = { any = [{}], label = [] } },
]
"#;

/// The JSON Schema of `sluice.toml`.
#[must_use]
pub fn schema() -> Value {
    let tables = watched().into_tables();
    let mut schema = table(&tables, ROOT);
    if let Some(schema) = schema.as_object_mut() {
        let draft = json!("https://json-schema.org/draft/2020-12/schema");
        schema.insert("$schema".to_owned(), draft);
        schema.insert("title".to_owned(), json!(ROOT));
    }
    schema
}

/// The record of reading the examples. Errors in them do not matter here.
fn watched() -> Watch {
    let mut watch = Watch::default();
    for text in [include_str!("../../../examples/sluice.toml"), REST] {
        let sink = Sink::watched_by(watch);
        let read = |path: &Path| match path == Path::new(ROOT) {
            true => Ok(text.to_owned()),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        load(Path::new(ROOT), &sink, &read);
        watch = sink.into_watch();
    }
    watch
}

fn table(tables: &Tables, at: &str) -> Value {
    // Every kind of table is in the example; a test holds that.
    let Some(keys) = tables.get(at) else {
        return json!({"type": "object"});
    };
    let properties = keys.iter().map(|(key, takes)| {
        let mut schemas: Vec<Value> = takes
            .iter()
            // The reader may look at a value before it reads it as a type.
            .filter(|one| takes.iter().all(|other| !includes(other, one)))
            .map(|takes| match takes {
                Takes::Any | Takes::Free => json!({}),
                Takes::String => json!({"type": "string"}),
                Takes::Boolean => json!({"type": "boolean"}),
                Takes::Integer(least, most) => integer(*least, *most),
                Takes::Integers(least, most) => {
                    json!({"type": "array", "items": integer(*least, *most)})
                }
                Takes::Signed => json!({"type": "integer"}),
                Takes::Word(words) => json!({"enum": words}),
                Takes::Strings => strings(),
                Takes::Label => json!({"anyOf": [{"type": "string"}, strings()]}),
                Takes::Table => table(tables, &place(at, key, takes)),
                Takes::Tables => {
                    json!({"type": "array", "items": table(tables, &place(at, key, takes))})
                }
                Takes::NamedTables => named(table(tables, &place(at, key, takes))),
                Takes::NamedStrings => named(json!({"type": "string"})),
                Takes::NamedLists => named(strings()),
                Takes::Entries => named(json!({})),
            })
            .collect();
        let schema = match schemas.len() {
            1 => schemas.pop().unwrap_or_default(),
            _ => json!({"anyOf": schemas}),
        };
        ((*key).to_owned(), schema)
    });
    let properties: Map<String, Value> = properties.collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Whether one entry covers the other.
fn includes(one: &Takes, other: &Takes) -> bool {
    match other {
        Takes::Free => false,
        _ if *one == Takes::Free => true,
        Takes::Any => *one != Takes::Any,
        Takes::String => matches!(one, Takes::Word(_) | Takes::Label),
        Takes::Strings => *one == Takes::Label,
        Takes::Entries => matches!(
            one,
            Takes::NamedTables | Takes::NamedStrings | Takes::NamedLists
        ),
        _ => false,
    }
}

fn integer(least: u64, most: u64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn named(value: Value) -> Value {
    json!({"type": "object", "additionalProperties": value})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A table that the example lacks would take anything in the schema.
    #[test]
    fn the_example_has_every_kind_of_table() {
        let tables = watched().into_tables();
        let tables_at =
            |takes: &Takes| matches!(takes, Takes::Table | Takes::Tables | Takes::NamedTables);
        let mut missing = BTreeSet::new();
        for (at, keys) in &tables {
            for (key, all) in keys {
                let inner = all.iter().filter(|takes| tables_at(takes));
                let inner = inner.map(|takes| place(at, key, takes));
                missing.extend(inner.filter(|inner| !tables.contains_key(inner)));
            }
        }
        assert!(
            missing.is_empty(),
            "neither in the example nor in REST: {missing:#?}"
        );
    }
}

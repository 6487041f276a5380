//! Proposed rules for a tool: by the names in its schema, and by MCP's annotations where these are stricter.
//!
//! Both are the words of the tool's author, so the user reads and corrects a proposal. A name that the lists here do
//! not have gets the strictest rule: the call is irreversible, and untrusted text may be in no argument. Annotations
//! can only make a rule stricter.

use std::fmt::Write;

use ifc::Effect;
use policy::ParameterKind;
use serde_json::{Map, Value};
use wire::{Hints, ToolDescription};

/// Verbs of tools that only read.
const READS: &[&str] = &[
    "browse", "count", "describe", "fetch", "find", "get", "list", "lookup", "query", "read",
    "search", "show", "view",
];
/// Verbs of changes that can be undone.
const WRITES: &[&str] = &[
    "add",
    "append",
    "clone",
    "copy",
    "create",
    "download",
    "draft",
    "edit",
    "insert",
    "login",
    "mkdir",
    "move",
    "pull",
    "rename",
    "reschedule",
    "save",
    "set",
    "star",
    "unstar",
    "update",
    "write",
];
/// Verbs of effects that cannot be taken back, anywhere in a name.
const FINAL: &[&str] = &[
    "book", "buy", "cancel", "checkout", "clear", "delete", "execute", "grant", "invite", "pay",
    "publish", "purchase", "push", "refund", "remove", "run", "send", "share", "submit",
    "transfer", "wire",
];
/// Last words of arguments that only carry content.
const CONTENT: &[&str] = &[
    "body",
    "caption",
    "comment",
    "content",
    "contents",
    "description",
    "message",
    "note",
    "notes",
    "subject",
    "summary",
    "text",
    "title",
];
/// Last words of arguments that are a day or a time.
const TIMES: &[&str] = &["date", "day", "deadline", "due", "end", "start", "time"];
/// Words of an amount: a date beside one is a date of payment, which untrusted text may not choose.
const AMOUNTS: &[&str] = &["amount", "price", "sum"];

/// A tool, as far as its description is of use here.
pub(crate) struct Tool {
    pub(crate) name: String,
    /// Each with its schema.
    arguments: Vec<(String, Value)>,
    /// The names of those that every call must have.
    required: Vec<String>,
    /// Whether calls may have others as well.
    has_more: bool,
    hints: Hints,
}

impl Tool {
    /// A tool that takes what this JSON Schema says.
    pub(crate) fn new(name: &str, schema: &Value, hints: Hints) -> Self {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&none).iter();
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        Self {
            required: required.map(str::to_owned).collect(),
            name: name.to_owned(),
            arguments: properties
                .map(|(name, schema)| (name.clone(), schema.clone()))
                .collect(),
            has_more: has_more_arguments(schema),
            hints,
        }
    }
}

/// Whether calls may have arguments that the schema's own `properties` do not name: it is a map, or has parts or
/// references, which may name some. They are not followed, so that a schema costs what its root does.
fn has_more_arguments(schema: &Value) -> bool {
    const PARTS: [&str; 10] = [
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "then",
        "else",
        "$ref",
        "$dynamicRef",
        "patternProperties",
        "dependentSchemas",
    ];
    // By default a schema allows further arguments, so only one that has no names and allows others is a map.
    let names = schema.get("properties").and_then(Value::as_object);
    let more = schema.get("additionalProperties");
    let is_map =
        names.is_none_or(Map::is_empty) && more.is_some_and(|it| *it != Value::Bool(false));
    is_map || PARTS.iter().any(|part| schema.get(*part).is_some())
}

impl From<&ToolDescription> for Tool {
    fn from(tool: &ToolDescription) -> Self {
        // A schema that nobody can read has no arguments that a rule could be about.
        let schema = serde_json::from_str(&tool.input_schema).unwrap_or_default();
        Self::new(&tool.name, &schema, tool.hints)
    }
}

/// The lines of a tool's rule, without what it says of results.
pub(crate) fn rule(app: &str, tool: &Tool) -> String {
    let effect = effect(tool);
    let reads = effect.reads();
    let limit = match (reads, tool.arguments.is_empty() && !tool.has_more) {
        // A call without arguments carries nothing out. With `openWorldHint` a server elsewhere still sees that it is
        // made.
        (true, true) if tool.hints.open_world != Some(true) => "\"any\"",
        // What is asked for may go out: strangers may say what, and no secret can be in it.
        (true, _) => "[\"untrusted\"]",
        (false, _) => "[]",
    };
    let mut text = format!(
        "[app.{app}.tools.{}]\neffect = \"{}\"\nlimit = {limit}\n",
        key(&tool.name),
        effect.name()
    );
    if tool.has_more {
        // A list would refuse what it lacks, and without one no argument may be more than the call.
        return text;
    }
    // Writing to a String does not fail.
    let _ = writeln!(text, "parameters = {}", parameters(tool));
    let pays = tool
        .arguments
        .iter()
        .any(|(name, _)| words(name).iter().any(|it| AMOUNTS.contains(&it.as_str())));
    for (name, schema) in tool.arguments.iter().filter(|_| !reads) {
        if let Some(rule) = argument(name, schema, pays) {
            let _ = writeln!(text, "arguments.{}{rule}", key(name));
        }
    }
    text
}

/// The arguments with their kinds, where the tool's schema says any. A model is told these where it may not see what the
/// app says of itself: of a name alone it makes an object as well as a text, which the app then refuses.
fn parameters(tool: &Tool) -> String {
    let arguments = tool.arguments.iter().map(|(name, schema)| {
        let is_required = tool.required.contains(name);
        (name, kind(schema), if is_required { "" } else { "?" })
    });
    let arguments: Vec<(&String, ParameterKind, &str)> = arguments.collect();
    if arguments
        .iter()
        .all(|(_, kind, _)| *kind == ParameterKind::Any)
    {
        let names: Vec<String> = arguments.iter().map(|(name, ..)| quote(name)).collect();
        return format!("[{}]", names.join(", "));
    }
    let members = arguments.into_iter();
    let members = members.map(|(name, kind, mark)| {
        let kind = kind.name();
        format!("{} = \"{kind}{mark}\"", key(name))
    });
    format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
}

/// What an argument takes, if its schema says so in one word and takes nothing beside it. A kind that the schema does
/// not have would refuse what the app takes.
fn kind(schema: &Value) -> ParameterKind {
    match one_type(schema) {
        Some("string") => ParameterKind::String,
        Some("integer") => ParameterKind::Integer,
        Some("number") => ParameterKind::Number,
        Some("boolean") => ParameterKind::Boolean,
        // Before `items` come those of `prefixItems`, which may be of any type.
        Some("array")
            if schema.get("prefixItems").is_none()
                && schema.get("items").and_then(one_type) == Some("string") =>
        {
            ParameterKind::Strings
        }
        _ => ParameterKind::Any,
    }
}

/// The type of all values that a schema takes; `None` where it says several, or may mean others by what stands beside it.
fn one_type(schema: &Value) -> Option<&str> {
    // Up to draft 7 nothing counts beside `$ref`. The others are no more than what they say in JSON Schema, but servers
    // write them for what may also be null.
    const BESIDE: [&str; 6] = [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "allOf",
        "anyOf",
        "oneOf",
    ];
    let has_null = |key: &str| match schema.get(key) {
        Some(Value::Array(values)) => values.contains(&Value::Null),
        Some(value) => value.is_null(),
        None => false,
    };
    let is_nullable = schema
        .get("nullable")
        .is_some_and(|it| *it != Value::Bool(false))
        || ["enum", "const", "default"].into_iter().any(has_null);
    let has_beside = BESIDE.into_iter().any(|key| schema.get(key).is_some());
    let says = schema.get("type")?.as_str();
    says.filter(|_| !is_nullable && !has_beside)
}

/// What its name says, or its hints where these are stricter.
fn effect(tool: &Tool) -> Effect {
    let Hints {
        read_only,
        destructive,
        idempotent,
        ..
    } = tool.hints;
    let hinted = [
        (destructive, true, Effect::Irreversible),
        (read_only, false, Effect::Write),
        (idempotent, false, Effect::ReadOnce),
    ];
    let hinted = hinted
        .into_iter()
        .filter_map(|(hint, strict, effect)| (hint == Some(strict)).then_some(effect));
    // Effects are ordered by how strict they are, so a hint never makes one milder.
    hinted.fold(named(&tool.name), Effect::max)
}

/// By the first verb of a name that is known; a later one that nobody takes back wins.
fn named(name: &str) -> Effect {
    let words = words(name);
    let has = |list: &[&str]| words.iter().position(|word| list.contains(&word.as_str()));
    let first = [(READS, Effect::Read), (WRITES, Effect::Write)]
        .into_iter()
        .filter_map(|(list, effect)| Some((has(list)?, effect)))
        // Positions decide: no word is in both lists, so no two are equal.
        .min();
    match first {
        // Wherever it stands: `get_and_delete` deletes.
        _ if has(FINAL).is_some() => Effect::Irreversible,
        // What is no longer unread has been changed.
        Some((_, Effect::Read)) if words.iter().any(|word| word == "unread") => Effect::ReadOnce,
        Some((_, effect)) => effect,
        None => Effect::Irreversible,
    }
}

/// What an argument may have that the call itself may not; nothing, for most.
fn argument(name: &str, schema: &Value, pays: bool) -> Option<String> {
    if !is_bare(name) {
        // Other signs would be read as a place inside of the argument.
        return None;
    }
    let words = words(name);
    let last = words.last()?.as_str();
    let is_text = schema.get("type").is_none_or(|kind| kind == "string");
    if !is_text {
        return None;
    }
    let accepted = |form: &str| {
        format!(" = {{ limit = [], accepts = [{{ form = \"{form}\", limit = [\"untrusted\"] }}] }}")
    };
    let said = |word: &str| words.iter().any(|it| it == word);
    let is_code = said("otp")
        || last == "code"
            && ["verification", "confirmation", "security"]
                .into_iter()
                .any(said);
    let format = schema
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if is_code {
        Some(accepted("digits(4,8)"))
    } else if TIMES.contains(&last) || format.starts_with("date") {
        (!pays).then(|| accepted("date"))
    } else {
        CONTENT
            .contains(&last)
            .then(|| ".limit = [\"untrusted\"]".to_owned())
    }
}

/// `getUnreadMails` and `get_unread-mails` have the same three.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        // A capital after a small letter begins a word; several in a row are one.
        if !letter.is_alphanumeric() || letter.is_uppercase() && before.is_lowercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn key(name: &str) -> String {
    match is_bare(name) {
        true => name.to_owned(),
        false => quote(name),
    }
}

/// Whether it is a key of TOML as it is.
fn is_bare(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.chars().all(is_plain)
}

/// A basic string of TOML, in which nothing but ASCII stands: what steers a terminal or cannot be seen is spelled out.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        let is_plain = letter == ' ' || letter.is_ascii_graphic() && !matches!(letter, '"' | '\\');
        // Writing to a String does not fail.
        let _ = match is_plain {
            true => write!(quoted, "{letter}"),
            false => write!(quoted, "\\U{:08X}", u32::from(letter)),
        };
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, hints: Hints) -> Tool {
        Tool::new(name, &Value::Null, hints)
    }

    #[test]
    fn what_no_list_knows_is_as_strict_as_can_be() {
        for (name, expected) in [
            ("frobnicate", "irreversible"),
            ("get_account", "read"),
            ("getUnreadMails", "read-once"),
            ("get_and_delete", "irreversible"),
            ("download_file", "write"),
            ("update_password", "write"),
            ("view_order_history", "read"),
            ("checkout_cart", "irreversible"),
            ("cart_add_product", "write"),
            ("send", "irreversible"),
        ] {
            let found = effect(&tool(name, Hints::default()));
            assert_eq!(found.name(), expected, "{name}");
        }
        let text = Value::from("string");
        for (name, pays, expected) in [
            ("recipient", false, None),
            ("message_id", false, None),
            ("password", false, None),
            ("discount_code", false, None),
            ("otp", false, Some("digits(4,8)")),
            ("security_code", false, Some("digits(4,8)")),
            ("start_time", false, Some("\"date\"")),
            ("date", true, None),
            ("commentBody", false, Some(".limit = [\"untrusted\"]")),
        ] {
            let schema = serde_json::json!({ "type": text });
            let found = argument(name, &schema, pays);
            match (&found, expected) {
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                (None, None) => {}
                _ => panic!("{name}: {found:?}"),
            }
        }
        assert_eq!(
            argument("body", &serde_json::json!({ "type": "array" }), false),
            None
        );
    }

    #[test]
    fn a_rule_says_what_arguments_take_as_far_as_the_schema_does() {
        let said = |schema: Value| parameters(&Tool::new("t", &schema, Hints::default()));
        let all = serde_json::json!({
            "properties": {
                "a": { "type": "string" },
                "b c": { "type": "array", "items": { "type": "string" } },
                "d": { "type": "integer" },
                "e": { "type": ["string", "null"] },
                "f": { "type": "array", "items": {} },
            },
            "required": ["a", "e"],
        });
        assert_eq!(
            said(all),
            r#"{ a = "string", "b c" = "strings?", d = "integer?", e = "any", f = "any?" }"#
        );
        let unsaid = serde_json::json!({ "properties": { "a": {}, "b": { "type": "object" } } });
        assert_eq!(said(unsaid), r#"["a", "b"]"#);
        assert_eq!(said(Value::Null), "[]");
    }

    /// A kind beside which the schema takes something else would refuse calls that the app takes.
    #[test]
    fn where_the_schema_takes_more_than_one_type_there_is_no_kind() {
        let text = || serde_json::json!({ "type": "string" });
        let with = |key: &str, value: Value| {
            let mut schema = text();
            schema
                .as_object_mut()
                .unwrap()
                .insert(key.to_owned(), value);
            schema
        };
        for schema in [
            with("nullable", true.into()),
            with("enum", serde_json::json!(["a", null])),
            with("const", Value::Null),
            with("default", Value::Null),
            with("$ref", "#/$defs/a".into()),
            with(
                "anyOf",
                serde_json::json!([{ "format": "uri" }, { "type": "null" }]),
            ),
            serde_json::json!({ "anyOf": [text(), { "type": "null" }] }),
            serde_json::json!({ "oneOf": [text(), { "type": "integer" }] }),
            serde_json::json!({ "type": ["string", "null"] }),
            serde_json::json!({ "type": "array", "items": with("nullable", true.into()) }),
            serde_json::json!({ "type": "array", "items": { "$ref": "#", "type": "string" } }),
            serde_json::json!({ "type": "array", "prefixItems": [{}], "items": text() }),
            serde_json::json!({ "type": "array", "items": [text()] }),
            serde_json::json!({ "const": "a" }),
        ] {
            assert_eq!(kind(&schema), ParameterKind::Any, "{schema}");
        }
        // A form of the app's own says nothing of ours.
        for format in ["date-time", "email", "uri", "uuid"] {
            assert_eq!(kind(&with("format", format.into())), ParameterKind::String);
        }
        assert_eq!(
            kind(&with("enum", serde_json::json!(["a", "b"]))),
            ParameterKind::String
        );
        assert_eq!(kind(&with("nullable", false.into())), ParameterKind::String);
    }

    /// A list of parameters would refuse arguments that stand elsewhere in the schema.
    #[test]
    fn a_schema_that_names_arguments_elsewhere_has_no_list_of_them() {
        let properties = serde_json::json!({ "a": { "type": "string" } });
        let other = serde_json::json!({ "properties": { "b": {} } });
        let with =
            |key: &str, value: &Value| serde_json::json!({ "properties": properties, key: value });
        let list = |value: &Value| serde_json::json!([value, {}]);
        for (schema, expected) in [
            (with("additionalProperties", &true.into()), false),
            (with("additionalProperties", &false.into()), false),
            (serde_json::json!({ "type": "object" }), false),
            (
                serde_json::json!({ "type": "object", "additionalProperties": false }),
                false,
            ),
            (with("anyOf", &list(&other)), true),
            (
                with("oneOf", &list(&serde_json::json!({ "$ref": "#/$defs/x" }))),
                true,
            ),
            (
                with("allOf", &list(&serde_json::json!({ "allOf": [other] }))),
                true,
            ),
            (with("then", &other), true),
            (with("$ref", &"#/$defs/x".into()), true),
            (
                with("patternProperties", &serde_json::json!({ "^x": {} })),
                true,
            ),
            (
                serde_json::json!({ "type": "object", "additionalProperties": true }),
                true,
            ),
            (
                serde_json::json!({ "additionalProperties": { "type": "string" } }),
                true,
            ),
        ] {
            let tool = Tool::new("get_account", &schema, Hints::default());
            let rule = rule("app", &tool);
            assert_eq!(!rule.contains("parameters"), expected, "{schema}");
            // What is asked for may go out, so no secret may be in it.
            assert!(
                !expected || rule.contains("limit = [\"untrusted\"]"),
                "{rule}"
            );
            let sends = Tool::new("send", &schema, Hints::default());
            assert!(
                !expected || !super::rule("app", &sends).contains("arguments."),
                "{schema}"
            );
        }
    }

    /// Whatever a tool says of itself, its rule is as strict as without, or stricter.
    #[test]
    fn a_hint_only_restricts() {
        let values = [None, Some(false), Some(true)];
        for name in ["get_account", "getUnreadMails", "add_note", "send"] {
            let alone = effect(&tool(name, Hints::default()));
            for read_only in values {
                for destructive in values {
                    for at in 0..9 {
                        let (idempotent, open_world) = (values[at / 3], values[at % 3]);
                        let hints = Hints {
                            read_only,
                            destructive,
                            idempotent,
                            open_world,
                        };
                        let tool = tool(name, hints);
                        assert!(effect(&tool) >= alone, "{name} {hints:?}");
                        let text = rule("app", &tool);
                        let free = text.contains("limit = \"any\"");
                        assert!(!free || alone.reads() && effect(&tool).reads(), "{text}");
                        assert!(!free || open_world != Some(true), "{text}");
                    }
                }
            }
        }
        let hinted = |hints| effect(&tool("get_account", hints));
        let destructive = Hints {
            destructive: Some(true),
            ..Hints::default()
        };
        assert_eq!(hinted(destructive), Effect::Irreversible);
        let writes = Hints {
            read_only: Some(false),
            ..Hints::default()
        };
        assert_eq!(hinted(writes), Effect::Write);
        let once = Hints {
            idempotent: Some(false),
            ..Hints::default()
        };
        assert_eq!(hinted(once), Effect::ReadOnce);
    }
}

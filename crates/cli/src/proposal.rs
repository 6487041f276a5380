//! Proposed rules for a tool: from the names in its schema, and from MCP's annotations where these are stricter.
//!
//! The author of the tool wrote both, so the user reviews a proposal. A name that the lists here do not have gets the
//! strictest rule: the call is irreversible, and no argument may hold untrusted text.

use std::fmt::Write;

use ifc::Effect;
use policy::ParameterKind;
use policy::names::{AMOUNTS, CONTENT, TIMES, is_in, moves, words};
use serde_json::{Map, Value};
use wire::{Hints, ToolDescription};

use crate::verbs;

/// Last words of texts that are one line: a second line in them could be another header.
const LINES: &str = "name subject title";

/// Words of what a person keeps for later reading, and shows to few.
const STORES: &str = "draft file memo memory note notes todo";

/// Last words of arguments that say where a file is.
const PLACES: &str = "cwd dir directories directory file filename folder path paths";
/// Last words of arguments that name one of several things.
const NAMES: &str = "id ids key number";
/// Words of tools that say which things there are.
const LISTS: &str = "find list search";

/// The parts of a tool's description that a proposal needs.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// Names and schemas.
    pub(crate) arguments: Vec<(String, Value)>,
    required: Vec<String>,
    pub(crate) has_more: bool,
    pub(crate) hints: Hints,
}

impl Tool {
    /// A tool whose arguments this JSON Schema describes.
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
/// references, which are not followed.
fn has_more_arguments(schema: &Value) -> bool {
    const PARTS: &str = "\
        allOf anyOf oneOf if then else $ref $dynamicRef patternProperties dependentSchemas";
    // By default every schema allows further arguments, so only one without names that says so is a map.
    let names = schema.get("properties").and_then(Value::as_object);
    let more = schema.get("additionalProperties");
    let is_map =
        names.is_none_or(Map::is_empty) && more.is_some_and(|it| *it != Value::Bool(false));
    is_map || PARTS.split(' ').any(|part| schema.get(part).is_some())
}

impl From<&ToolDescription> for Tool {
    fn from(tool: &ToolDescription) -> Self {
        // An unreadable schema has no arguments.
        let schema = serde_json::from_str(&tool.input_schema).unwrap_or_default();
        Self::new(&tool.name, &schema, tool.hints)
    }
}

/// The lines of a tool's rule, without those about results.
pub(crate) fn rule(app: &str, tool: &Tool) -> String {
    let effect = effect(tool);
    let reads = effect.reads();
    let limit = match (reads, tool.arguments.is_empty() && !tool.has_more) {
        // A call without arguments carries no data out, but with `openWorldHint` a remote server sees the call.
        (true, true) if tool.hints.open_world != Some(true) => "\"any\"",
        // The arguments may go out, so no secret may be in them.
        (true, _) => "[\"untrusted\"]",
        (false, _) => "[]",
    };
    let mut text = format!(
        "[app.{app}.tools.{}]\neffect = \"{}\"\nlimit = {limit}\n",
        key(&tool.name),
        effect.name()
    );
    let names = tool.arguments.iter().map(|(name, _)| name.as_str());
    if !reads && moves(&tool.name, names) {
        text.push_str("# carries = [\"secret:NAME\"]  # the label of what it sends that no argument carries\n");
    }
    if tool.has_more {
        // A list of parameters would refuse the further arguments.
        return text;
    }
    // Writing to a String does not fail.
    let _ = writeln!(text, "parameters = {}", parameters(tool));
    let pays = tool
        .arguments
        .iter()
        .any(|(name, _)| words(name).iter().any(|it| is_in(AMOUNTS, it)));
    // What an app was given may be written back to it. A tool that sends is irreversible.
    let stores = effect == Effect::Write && words(&tool.name).iter().any(|it| is_in(STORES, it));
    for (name, schema) in tool.arguments.iter().filter(|_| !reads) {
        if let Some(rule) = argument(name, schema, pays, stores) {
            let _ = writeln!(text, "arguments.{}{rule}", key(name));
        }
    }
    text
}

/// Comments that say what may be written for a tool where the user knows more than its names do: own folders, and values that
/// come from one list. None of them counts before the user has removed its `#`.
pub(crate) fn advice(tool: &Tool, folders: &[String], lists: &[(String, String)]) -> String {
    let (mut text, effect) = (String::new(), effect(tool));
    let is_last = |name: &str, list: &str| words(name).last().is_some_and(|it| is_in(list, it));
    let names = || tool.arguments.iter().map(|(name, _)| name);
    if let Some(name) = names().find(|name| effect.reads() && is_last(name, PLACES))
        && !folders.is_empty()
    {
        let folders: Vec<String> = folders.iter().map(|folder| quote(folder)).collect();
        let (name, under) = (quote(name), folders.join(", "));
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "# labels = [{{ path = \"$\", label = [\"own secret\"], when = {{ argument = {name}, under = [{under}] }} }}]  # if only \
             you write there"
        );
    }
    // Of a list that strangers wrote, a stranger may choose the entry: for what can be undone.
    let chooses = effect == Effect::Write;
    let known = |name: &&String| lists.iter().find(|(argument, _)| argument == *name);
    for name in names().filter(|name| chooses && is_bare(name) && is_last(name, NAMES)) {
        if let Some((_, list)) = known(&name) {
            let list = quote(list);
            let _ = writeln!(
                text,
                "# arguments.{name} = {{ limit = [], accepts = [{{ among = \"$[*].{name}\", tool = {list}, limit = [\"untrusted\"] }}] }}  \
                 # if a stranger may choose one of these: write the place of the value, and a label for it in the rule of the list"
            );
        }
    }
    text
}

/// The tools that list what the arguments of a tool may name, by a word that they share.
pub(crate) fn lists(tool: &Tool, tools: &[Tool]) -> Vec<(String, String)> {
    let stem = |word: &String| word.trim_end_matches('s').to_owned();
    let listing = tools.iter().filter(|it| {
        it.name != tool.name
            && effect(it).reads()
            && words(&it.name).iter().any(|it| is_in(LISTS, it))
    });
    let listing: Vec<_> = listing.collect();
    let of = |name: &String| {
        let own: Vec<String> = words(name)
            .iter()
            .chain(&words(&tool.name))
            .map(stem)
            .collect();
        let shares = |it: &&&Tool| {
            let mut nouns = words(&it.name).into_iter().filter(|it| !is_in(LISTS, it));
            nouns.any(|noun| own.contains(&stem(&noun)))
        };
        listing
            .iter()
            .find(shares)
            .map(|it| (name.clone(), it.name.clone()))
    };
    tool.arguments
        .iter()
        .filter_map(|(name, _)| of(name))
        .collect()
}

/// The arguments with their kinds. A model that may not see the app's own schema is given these.
pub(crate) fn parameters(tool: &Tool) -> String {
    let arguments = tool.arguments.iter().map(|(name, schema)| {
        let is_required = tool.required.contains(name);
        (name, kind(name, schema), if is_required { "" } else { "?" })
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

/// The kind of an argument, if its schema admits only one. A wrong kind would refuse calls that the app accepts.
fn kind(name: &str, schema: &Value) -> ParameterKind {
    let is_line = || words(name).last().is_some_and(|last| is_in(LINES, last));
    match one_type(schema) {
        Some("string") if is_line() => ParameterKind::Line,
        Some("string") => ParameterKind::String,
        Some("integer") => ParameterKind::Integer,
        Some("number") => ParameterKind::Number,
        Some("boolean") => ParameterKind::Boolean,
        // Elements of `prefixItems` may have any type.
        Some("array")
            if schema.get("prefixItems").is_none()
                && schema.get("items").and_then(one_type) == Some("string") =>
        {
            ParameterKind::Strings
        }
        _ => ParameterKind::Any,
    }
}

/// The only type that a schema admits; `None` where it admits several, or may by another keyword.
fn one_type(schema: &Value) -> Option<&str> {
    // Up to draft 7 `$ref` overrides `type`; servers use the others for values that may also be null.
    const BESIDE: &str = "$ref $dynamicRef $recursiveRef allOf anyOf oneOf";
    let has_null = |key: &str| match schema.get(key) {
        Some(Value::Array(values)) => values.contains(&Value::Null),
        Some(value) => value.is_null(),
        None => false,
    };
    let is_nullable = schema
        .get("nullable")
        .is_some_and(|it| *it != Value::Bool(false))
        || ["enum", "const", "default"].into_iter().any(has_null);
    let has_beside = BESIDE.split(' ').any(|key| schema.get(key).is_some());
    let says = schema.get("type")?.as_str();
    says.filter(|_| !is_nullable && !has_beside)
}

/// The effect by the name of a tool, or by its hints where these are stricter.
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
    // Effects are ordered by strictness, so a hint never makes a rule milder.
    hinted.fold(verbs::effect(&tool.name), Effect::max)
}

/// The rule of an argument that may hold more than the call; `None` for most.
fn argument(name: &str, schema: &Value, pays: bool, stores: bool) -> Option<String> {
    if !is_bare(name) {
        // Other characters would be read as a path inside the argument.
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
    } else if is_in(TIMES, last) || format.starts_with("date") {
        (!pays).then(|| accepted("date"))
    } else {
        let limit = match stores {
            true => ".limit = [\"untrusted\", \"own secret\"]",
            false => ".limit = [\"untrusted\"]",
        };
        is_in(CONTENT, last).then(|| limit.to_owned())
    }
}

pub(crate) fn key(name: &str) -> String {
    match is_bare(name) {
        true => name.to_owned(),
        false => quote(name),
    }
}

/// Whether it is a bare key of TOML.
fn is_bare(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.chars().all(is_plain)
}

/// A basic string of TOML in ASCII: other characters are escaped, since they could steer a terminal or be invisible.
pub(crate) fn quote(text: &str) -> String {
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
            let found = argument(name, &schema, pays, false);
            match (&found, expected) {
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                (None, None) => {}
                _ => panic!("{name}: {found:?}"),
            }
        }
        assert_eq!(
            argument(
                "body",
                &serde_json::json!({ "type": "array" }),
                false,
                false
            ),
            None
        );
    }

    #[test]
    fn a_store_takes_back_what_its_app_gave() {
        let schema = serde_json::json!({ "properties": { "content": { "type": "string" } } });
        let rule = |name: &str| rule("app", &Tool::new(name, &schema, Hints::default()));
        let own = r#"arguments.content.limit = ["untrusted", "own secret"]"#;
        assert!(rule("write_note").contains(own));
        for other in ["send_note", "create_issue", "share_file"] {
            assert!(!rule(other).contains("own secret"), "{other}");
        }
    }

    #[test]
    fn a_rule_says_what_arguments_take_as_far_as_the_schema_does() {
        let said = |schema: Value| parameters(&Tool::new("t", &schema, Hints::default()));
        let all = serde_json::json!({
            "properties": {
                "a": { "type": "string" },
                "mailSubject": { "type": "string" },
                "subjects": { "type": "string" },
                "title": { "type": ["string", "null"] },
                "b c": { "type": "array", "items": { "type": "string" } },
                "d": { "type": "integer" },
                "e": { "type": ["string", "null"] },
                "f": { "type": "array", "items": {} },
            },
            "required": ["a", "e"],
        });
        assert_eq!(
            said(all),
            r#"{ a = "string", mailSubject = "line?", subjects = "string?", title = "any?", "b c" = "strings?", d = "integer?", e = "any", f = "any?" }"#
        );
        let unsaid = serde_json::json!({ "properties": { "a": {}, "b": { "type": "object" } } });
        assert_eq!(said(unsaid), r#"["a", "b"]"#);
        assert_eq!(said(Value::Null), "[]");
    }

    #[test]
    fn a_schema_with_several_types_has_no_kind() {
        let text = serde_json::json!({ "type": "string" });
        let with = |key: &str, value: Value| {
            let mut schema = text.clone();
            schema[key] = value;
            schema
        };
        for schema in [
            with("nullable", true.into()),
            with("enum", serde_json::json!(["a", null])),
            with("const", Value::Null),
            with("default", Value::Null),
            with("$ref", "#/$defs/a".into()),
            with("anyOf", serde_json::json!([{ "type": "null" }])),
            serde_json::json!({ "oneOf": [text, { "type": "integer" }] }),
            serde_json::json!({ "type": ["string", "null"] }),
            serde_json::json!({ "type": "array", "items": with("nullable", true.into()) }),
            serde_json::json!({ "type": "array", "prefixItems": [{}], "items": text }),
            serde_json::json!({ "const": "a" }),
        ] {
            assert_eq!(kind("a", &schema), ParameterKind::Any, "{schema}");
        }
        for schema in [
            with("format", "date-time".into()),
            with("enum", serde_json::json!(["a", "b"])),
            with("nullable", false.into()),
        ] {
            assert_eq!(kind("a", &schema), ParameterKind::String, "{schema}");
        }
    }

    /// A list of parameters would refuse arguments that are elsewhere in the schema.
    #[test]
    fn a_schema_that_names_arguments_elsewhere_has_no_list_of_them() {
        let with = |key: &str, value: Value| serde_json::json!({ "properties": { "a": { "type": "string" } }, key: value });
        let other = serde_json::json!({ "properties": { "b": {} } });
        for (schema, is_open) in [
            (with("additionalProperties", true.into()), false),
            (serde_json::json!({ "type": "object" }), false),
            (serde_json::json!({ "additionalProperties": false }), false),
            (with("anyOf", serde_json::json!([other])), true),
            (with("then", other), true),
            (with("$ref", "#/$defs/x".into()), true),
            (
                with("patternProperties", serde_json::json!({ "^x": {} })),
                true,
            ),
            (serde_json::json!({ "additionalProperties": true }), true),
        ] {
            let reads = rule("app", &Tool::new("get_account", &schema, Hints::default()));
            let sends = rule("app", &Tool::new("send", &schema, Hints::default()));
            assert_eq!(!reads.contains("parameters"), is_open, "{schema}");
            // The arguments may go out, so no secret may be in them.
            assert!(
                !is_open || reads.contains("limit = [\"untrusted\"]"),
                "{reads}"
            );
            assert!(!is_open || !sends.contains("arguments."), "{sends}");
        }
    }

    /// A rule with hints is as strict as the rule without, or stricter.
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
        let hinted = |read_only, destructive, idempotent| {
            let hints = Hints {
                read_only,
                destructive,
                idempotent,
                open_world: None,
            };
            effect(&tool("get_account", hints))
        };
        assert_eq!(hinted(None, Some(true), None), Effect::Irreversible);
        assert_eq!(hinted(Some(false), None, None), Effect::Write);
        assert_eq!(hinted(None, None, Some(false)), Effect::ReadOnce);
    }
}

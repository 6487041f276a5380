//! `sluice policy propose`: a first policy for a suite of tools, by the names in their schemas.

use std::io::{IsTerminal, Read};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use wire::Hints;

use crate::exit::Exit;
use crate::proposal::{self, Tool};
use crate::terminal::{print_escaped, say};

/// Bytes of tools that are read; a suite of a hundred has some hundred thousand.
const MOST_BYTES: u64 = 8 << 20;
/// Tools in one proposal; nobody reads more.
const MOST_TOOLS: usize = 500;

const HEADER: &str = "\
# Proposed by the names of tools and arguments, and by annotations where these are stricter: read every line.
# docs/policy.md says what to look for. First what each tool returns: `rest` is who may have written it and what it reveals, [] for what only you or the service write.
";

/// Reads tools from standard input and prints rules for them.
pub(super) fn propose(app: &str) -> Result<Exit> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    ensure!(
        !app.is_empty() && app.chars().all(is_plain),
        "--app is a name of letters, digits, _ and -"
    );
    if std::io::stdin().is_terminal() {
        say("paste a list of tools as JSON, then press Ctrl-D\n");
    }
    let mut text = String::new();
    let read = std::io::stdin()
        .lock()
        .take(MOST_BYTES + 1)
        .read_to_string(&mut text);
    read.context("the tools on standard input cannot be read")?;
    let read = u64::try_from(text.len()).unwrap_or(u64::MAX);
    ensure!(read <= MOST_BYTES, "more than {MOST_BYTES} bytes of tools");
    print_escaped(proposal(app, &tools(&text)?).trim_end())?;
    Ok(Exit::Done)
}

/// The tools in an MCP server's list, a request of OpenAI's form, an array, or one object per line.
fn tools(text: &str) -> Result<Vec<Tool>> {
    const EXPECTED: &str = "standard input has no tools; give it a list of them as JSON, for example what \
                            `sluice app tools NAME --json` prints";
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let mut value = value.context(EXPECTED)?;
        // An answer of JSON-RPC has the list in `result`; an MCP list and a request to OpenAI have
        // it in `tools`.
        if let Some(inner) = value.get_mut("result") {
            value = inner.take();
        }
        if let Some(inner) = value.get_mut("tools") {
            value = inner.take();
        }
        match value {
            Value::Array(several) => found.extend(several),
            one => found.push(one),
        }
    }
    if found.is_empty() {
        bail!(EXPECTED);
    }
    ensure!(found.len() <= MOST_TOOLS, "more than {MOST_TOOLS} tools");
    found
        .iter()
        .map(|tool| read_tool(tool).context(EXPECTED))
        .collect()
}

fn read_tool(tool: &Value) -> Option<Tool> {
    let tool = tool.get("function").unwrap_or(tool);
    let mut schemas = ["inputSchema", "input_schema", "parameters"].iter();
    let schema = schemas.find_map(|key| tool.get(key));
    // `sluice app tools --json` has the schema as the text that the app sent.
    let parsed: Option<Value> = schema
        .and_then(Value::as_str)
        .and_then(|text| serde_json::from_str(text).ok());
    let schema = parsed.as_ref().or(schema).unwrap_or(&Value::Null);
    let hint = |word: &str| tool.get("annotations")?.get(word)?.as_bool();
    let hints = Hints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    };
    Some(Tool::new(tool.get("name")?.as_str()?, schema, hints))
}

fn proposal(app: &str, tools: &[Tool]) -> String {
    let mut text = format!("{HEADER}\n[app.{app}]\nclient = true\n");
    for tool in tools {
        text.push('\n');
        text.push_str(&proposal::rule(app, tool));
        text.push_str("format = \"text\"\nrest = [\"untrusted\"]\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::Config;
    use ifc::{Arguments, Call, Effect, Label, Policy, Sink};
    use policy::Verdict;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Three ways in which tools are listed.
    const TOOLS: [&str; 3] = [
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"send_mail","inputSchema":{"type":"object","properties":
           {"to":{"type":"string"},"subject":{"type":"string"},"mail_body":{},"attachments":{"type":"array"}}}}]}}"#,
        r#"{"tools":[{"type":"function","function":{"name":"send_mail","parameters":{"type":"object","properties":
           {"to":{"type":"string"},"subject":{"type":"string"},"mail_body":{},"attachments":{"type":"array"}}}}}]}"#,
        r#"{"name":"send_mail","description":"","input_schema":"{\"properties\":{\"to\":{},\"subject\":{},\"mail_body\":{},\"attachments\":{\"type\":\"array\"}}}"}"#,
    ];

    fn config(proposal: &str) -> Config {
        let read = |_: &Path| Ok(proposal.to_owned());
        Config::load_with(Path::new("sluice.toml"), &read)
            .unwrap_or_else(|errors| panic!("{errors}\n{proposal}"))
    }

    #[test]
    fn content_may_be_influenced_and_a_destination_may_not() {
        for listed in TOOLS {
            let text = proposal("agent", &tools(listed).unwrap());
            let config = config(&text);
            let send = config.apps["agent"].rules.tool("send_mail").unwrap();
            assert!(send.limit.is_bottom());
            assert_eq!(send.effect, Effect::Irreversible);
            let own: Vec<String> = send.arguments.keys().map(ToString::to_string).collect();
            assert_eq!(own, ["mail_body", "subject"]);
            assert_eq!(send.parameters.as_ref().unwrap().0.len(), 4);
            assert_eq!(config.warnings, []);
        }
    }

    /// A number as JSON text, and whether it has to be whole.
    fn number(is_whole: bool) -> BoxedStrategy<String> {
        match is_whole {
            true => prop_oneof![
                any::<i64>().prop_map(|n| n.to_string()),
                any::<u64>().prop_map(|n| n.to_string()),
                "-?(0|[1-9][0-9]{0,30})(\\.0{1,3})?([eE]\\+?[0-9]{1,2})?",
                "-?[1-9]\\.[0-9]{1,5}e(0?[5-9]|1[0-9])",
            ]
            .boxed(),
            false => prop_oneof![
                any::<f64>().prop_filter_map("finite", |n| serde_json::to_string(&n)
                    .ok()
                    .filter(|_| n.is_finite())),
                "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][-+]?[0-9]{1,2})?",
            ]
            .boxed(),
        }
    }

    /// A schema of one type, and a value that it takes.
    fn typed() -> impl Strategy<Value = (Value, String)> {
        let text = || any::<String>().prop_map(|text| Value::from(text).to_string());
        let of = |schema: Value, value: BoxedStrategy<String>| (Just(schema), value);
        prop_oneof![
            of(json!({ "type": "string" }), text().boxed()),
            of(
                json!({ "type": "string", "format": "date-time" }),
                Just("\"2026-02-28T09:30:00.123456+05:30\"".to_owned()).boxed(),
            ),
            of(json!({ "type": "integer" }), number(true)),
            of(json!({ "type": "number" }), number(false)),
            of(json!({ "type": "number" }), number(true)),
            of(
                json!({ "type": "boolean" }),
                any::<bool>().prop_map(|it| it.to_string()).boxed()
            ),
            of(
                json!({ "type": "array", "items": { "type": "string" } }),
                prop::collection::vec(text(), 0..4)
                    .prop_map(|items| format!("[{}]", items.join(",")))
                    .boxed(),
            ),
            of(
                json!({ "type": "object" }),
                Just("{\"a\":[1,null]}".to_owned()).boxed()
            ),
        ]
    }

    /// The same, in each way in which servers say that it may be null.
    fn maybe_null() -> impl Strategy<Value = (Value, String)> {
        (typed(), 0..8, any::<bool>()).prop_map(|((schema, value), way, is_null)| {
            let word = schema["type"].clone();
            let mut with = schema.clone();
            match way {
                0 => with["nullable"] = true.into(),
                1 => with["default"] = Value::Null,
                2 => with["anyOf"] = json!([{}, { "type": "null" }]),
                3 => with["type"] = json!([word, "null"]),
                4 => with = json!({ "anyOf": [schema, { "type": "null" }] }),
                5 => with = json!({ "oneOf": [{ "$ref": "#/$defs/x" }, { "type": "null" }] }),
                6 => with = json!({ "$ref": "#/$defs/x", "type": word }),
                _ => return (schema, value),
            }
            (with, if is_null { "null".to_owned() } else { value })
        })
    }

    proptest! {
        /// What the tool's own schema takes is refused by no proposed kind.
        #[test]
        fn a_value_that_a_schema_takes_is_of_the_proposed_kind(
            (schema, value) in maybe_null(),
            is_required in any::<bool>(),
        ) {
            let required: &[&str] = if is_required { &["a", "b"] } else { &["b"] };
            // Beside one of a known kind, so that kinds are written at all.
            let properties = json!({ "a": schema, "b": { "type": "string" } });
            let listed = json!([{ "name": "t", "parameters": { "properties": properties, "required": required } }]);
            let config = config(&proposal("agent", &tools(&listed.to_string()).unwrap()));
            let label = Label::bottom();
            let arguments = format!("{{\"a\":{value},\"b\":\"\"}}");
            let call = Call {
                app: "agent".to_owned(),
                tool: "t".to_owned(),
                arguments: Arguments::parse(&arguments, &label).unwrap(),
                label,
            };
            let policy = config.policy();
            prop_assert_eq!(policy.check_arguments(&call), Ok(()));
            let judged = policy.judge(&Sink::Call(&call));
            prop_assert_eq!(judged.verdict, Verdict::Allow, "{:?}", judged.reason);
        }
    }

    /// Names are the words of strangers.
    #[test]
    fn a_name_cannot_write_a_rule() {
        let name = "x]\nlimit = \"any\"\n[app.agent.tools.y";
        let listed = serde_json::json!([{ "name": name, "parameters": { "properties": { "a\"]\nb": {} } } }]);
        let text = proposal("agent", &tools(&listed.to_string()).unwrap());
        assert_eq!(text.matches("\nlimit").count(), 1);
        assert!(text.contains("\nlimit = []\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with('[')).count(), 2);
        let odd = [
            "a.b",
            "a[0]",
            "ä",
            "$x",
            "",
            "a b",
            "Notion-Version",
            "comment.text",
        ];
        let odd = odd.map(|name| (name.to_owned(), serde_json::json!({})));
        let odd = Value::Object(odd.into_iter().collect());
        let listed = serde_json::json!([{ "name": "send", "parameters": { "properties": odd } }]);
        let text = proposal("agent", &tools(&listed.to_string()).unwrap());
        config(&text);
        for (wrong, expected) in [
            ("", "no tools"),
            ("[", "no tools"),
            ("[{}]", "no tools"),
            ("7", "no tools"),
        ] {
            let error = format!("{:#}", tools(wrong).err().unwrap());
            assert!(error.contains(expected), "{error}");
        }
    }
}

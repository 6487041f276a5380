//! `sluice policy propose`: a first policy for a suite of tools, by the names in their schemas.
//!
//! Names are the words of whoever wrote the tools, so a proposal is something to be read and corrected. Whatever
//! the lists here do not know is as strict as a policy can be: the call is irreversible, and every argument is
//! the user's to say.

use std::fmt::Write;
use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::terminal::print_escaped;

/// Bytes of tools that are read; a suite of a hundred has some hundred thousand.
const MOST_BYTES: u64 = 8 << 20;
/// Tools in one proposal; nobody reads more.
const MOST_TOOLS: usize = 500;

/// What a tool that is called so only looks at.
const READS: &[&str] = &[
    "browse", "count", "describe", "fetch", "find", "get", "list", "lookup", "query", "read",
    "search", "show", "view",
];
/// What can be undone.
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
/// What nobody takes back, wherever it stands in a name.
const FINAL: &[&str] = &[
    "book", "buy", "cancel", "checkout", "clear", "delete", "execute", "grant", "invite", "pay",
    "publish", "purchase", "push", "refund", "remove", "run", "send", "share", "submit",
    "transfer", "wire",
];
/// Last words of arguments that only carry something.
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
/// Words of an amount: the date beside one is a date of payment, which is the user's to say.
const AMOUNTS: &[&str] = &["amount", "price", "sum"];

const HEADER: &str = "\
# Proposed by the names of tools and arguments alone: read every line. docs/policy.md says what to look for. First what
# each tool returns: `rest` is who may have written it and what it reveals, [] for what only you or the service write.
";

/// A tool, as far as its schema is of use here.
struct Tool {
    name: String,
    /// Each with its schema.
    arguments: Vec<(String, Value)>,
}

/// Reads tools from standard input and prints rules for them.
pub(super) fn propose(app: &str) -> Result<Exit> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    ensure!(
        !app.is_empty() && app.chars().all(is_plain),
        "--app is a name of letters, digits, _ and -"
    );
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
    let schema = parsed.as_ref().or(schema);
    let properties = schema
        .and_then(|schema| schema.get("properties"))
        .and_then(Value::as_object);
    let none = Map::new();
    let properties = properties.unwrap_or(&none).iter();
    Some(Tool {
        name: tool.get("name")?.as_str()?.to_owned(),
        arguments: properties
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect(),
    })
}

fn proposal(app: &str, tools: &[Tool]) -> String {
    let mut text = format!("{HEADER}\n[app.{app}]\nclient = true\n");
    for tool in tools {
        let name = key(&tool.name);
        let effect = effect(&tool.name);
        let reads = effect.starts_with("read");
        let limit = match (reads, tool.arguments.is_empty()) {
            (true, true) => "\"any\"",
            // What is asked for may go out: strangers may say what, and no secret can be in it.
            (true, false) => "[\"untrusted\"]",
            (false, _) => "[]",
        };
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "\n[app.{app}.tools.{name}]\neffect = \"{effect}\"\nlimit = {limit}\n"
        );
        let names: Vec<String> = tool.arguments.iter().map(|(name, _)| quote(name)).collect();
        let _ = writeln!(text, "parameters = [{}]", names.join(", "));
        let pays = tool
            .arguments
            .iter()
            .any(|(name, _)| words(name).iter().any(|it| AMOUNTS.contains(&it.as_str())));
        for (argument, schema) in tool.arguments.iter().filter(|_| !reads) {
            if let Some(rule) = rule(argument, schema, pays) {
                let _ = writeln!(text, "arguments.{}{rule}", key(argument));
            }
        }
        text.push_str("format = \"text\"\nrest = [\"untrusted\"]\n");
    }
    text
}

/// By the first verb of a name that is known; a later one that nobody takes back wins.
fn effect(name: &str) -> &'static str {
    let words = words(name);
    let has = |list: &[&str]| words.iter().position(|word| list.contains(&word.as_str()));
    let first = [(READS, "read"), (WRITES, "write")]
        .into_iter()
        .filter_map(|(list, effect)| Some((has(list)?, effect)))
        .min();
    match first {
        _ if has(FINAL).is_some() => "irreversible",
        // What is no longer unread has been changed.
        Some((_, "read")) if words.iter().any(|word| word == "unread") => "read-once",
        Some((_, effect)) => effect,
        None => "irreversible",
    }
}

/// What an argument may have that the call itself may not; nothing, for most.
fn rule(name: &str, schema: &Value, pays: bool) -> Option<String> {
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
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => quote(name),
    }
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
    use std::path::Path;

    use config::Config;
    use ifc::Effect;

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
            assert_eq!(effect(name), expected, "{name}");
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
            let found = rule(name, &schema, pays);
            match (&found, expected) {
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                (None, None) => {}
                _ => panic!("{name}: {found:?}"),
            }
        }
        assert_eq!(
            rule("body", &serde_json::json!({ "type": "array" }), false),
            None
        );
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

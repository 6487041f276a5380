//! `sluice policy propose`: a first policy for a suite of tools, by the names in their schemas.

use std::io::{IsTerminal, Read};

use anyhow::{Context, Result, ensure};
use config::{App, Config};
use serde_json::Value;
use wire::Hints;

use crate::configuration;
use crate::exit::Exit;
use crate::known::Known;
use crate::proposal::{self, Tool};
use crate::terminal::{print_escaped, say};

/// Bytes of tools that are read; a suite of a hundred has some hundred thousand.
const MOST_BYTES: u64 = 8 << 20;
/// Tools in one proposal: more than a person reads.
const MOST_TOOLS: usize = 500;

const HEADER: &str = "\
# Proposed by the names of tools and arguments, and by annotations where these are stricter: read every line.
# docs/policy.md says what to look for. What each tool returns is missing, so it counts as untrusted and secret. Write
# `rest` for each: who may have written it and what it reveals; [] for what only you or the service write.
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
    let stdin = std::io::stdin().lock();
    let read = stdin.take(MOST_BYTES + 1).read_to_string(&mut text);
    let read = read.context("the tools on standard input cannot be read")?;
    ensure!(
        read as u64 <= MOST_BYTES,
        "more than {MOST_BYTES} bytes of tools"
    );
    let tools = tools(&text)?;
    print_escaped(proposal(app, started_here(app)?.as_ref(), &tools).trim_end())?;
    Ok(Exit::Done)
}

/// The tools in an MCP server's list, a request of OpenAI's form, an array, or one object per line.
fn tools(text: &str) -> Result<Vec<Tool>> {
    const EXPECTED: &str = "standard input lists no tools; pipe in a list of them as JSON, such as the output of \
                            `sluice app tools NAME --json`";
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
    ensure!(found.len() <= MOST_TOOLS, "more than {MOST_TOOLS} tools");
    let tools: Vec<Tool> = found.iter().filter_map(read_tool).collect();
    ensure!(!tools.is_empty(), EXPECTED);
    if tools.len() < found.len() {
        let count = found.len() - tools.len();
        say(&format!(
            "note: left out {count} of the tools, which have no name\n"
        ));
    }
    Ok(tools)
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

/// The app of this name in the configuration, if it is started here. A configuration with mistakes has none.
fn started_here(app: &str) -> Result<Option<App>> {
    let found = configuration::find(None)?;
    let config = found.and_then(|found| Config::load(found.path()).ok());
    let app = config.and_then(|mut config| config.apps.remove(app));
    Ok(app.filter(|app| !app.client))
}

fn proposal(app: &str, started: Option<&App>, tools: &[Tool]) -> String {
    // `draft` makes `sluice policy check` name the tools that still have no `rest`.
    let start = match started {
        Some(_) => format!(
            "# The configuration has [app.{app}]: write draft = true there, and these tables after it.\n"
        ),
        None => format!("[app.{app}]\nclient = true\ndraft = true\n"),
    };
    let mut text = format!("{HEADER}\n{start}");
    let known = started.and_then(Known::of_app);
    let rules = known.as_ref().map(|known| known.rules(app, tools));
    text.push_str(&rules.unwrap_or_default());
    let mounts = started.iter().flat_map(|app| &app.mounts);
    let folders: Vec<String> = mounts
        .map(|it| it.target.to_string_lossy().into_owned())
        .collect();
    let is_known = |tool: &&Tool| {
        known
            .as_ref()
            .is_some_and(|it| it.rule(app, tool).is_some())
    };
    for tool in tools.iter().filter(|tool| !is_known(tool)) {
        text.push('\n');
        text.push_str(&proposal::rule(app, tool));
        text.push_str("format = \"text\"\n");
        text.push_str(&proposal::advice(
            tool,
            &folders,
            &proposal::lists(tool, tools),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
            let text = proposal("agent", None, &tools(listed).unwrap());
            let config = config(&text);
            let send = config.apps["agent"].rules.tool("send_mail").unwrap();
            assert!(send.limit.is_bottom());
            assert_eq!(send.effect, Effect::Irreversible);
            let own: Vec<String> = send.arguments.keys().map(ToString::to_string).collect();
            assert_eq!(own, ["mail_body", "subject"]);
            assert_eq!(send.parameters.as_ref().unwrap().0.len(), 4);
            assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
        }
    }

    /// What only the user can know stands in comments, which become rules without their `#`.
    #[test]
    fn own_folders_and_lists_are_proposed_in_comments() {
        let listed = serde_json::json!([
            { "name": "list_notes", "parameters": {} },
            { "name": "star_note", "parameters": { "properties": { "note_id": { "type": "string" } } } },
            { "name": "read_text_file", "parameters": { "properties": { "path": { "type": "string" } } } },
        ]);
        let tools = tools(&listed.to_string()).unwrap();
        let started = config(
            "[app.files]\ncommand = [\"/bin/files\"]\n[[app.files.mount]]\nsource = \"/srv\"\ntarget = \"/srv\"\n",
        );
        let of_app = "# The configuration has [app.files]";
        let text = proposal("files", started.apps.get("files"), &tools);
        let among = "# arguments.note_id = { limit = [], accepts = [{ among = \"$[*].note_id\", tool = \"list_notes\", ";
        let own = "when = { argument = \"path\", under = [\"/srv\"] }";
        assert!(
            text.contains(of_app) && text.contains(among) && text.contains(own),
            "{text}"
        );
        let text = text.replace("# labels", "labels");
        let text = text.replace(of_app, "[app.files]\nclient = true\n#");
        assert_eq!(config(&text).apps["files"].rules.tools.len(), 3);
        // A package by its exact name has Sluice's own rules; by its words it has none.
        for (package, is_known) in [
            ("@modelcontextprotocol/server-filesystem", true),
            ("server-filesystem", false),
        ] {
            let started = config(&format!(
                "[app.files]\ncommand = [\"npx\", \"-y\", \"{package}\"]\n"
            ));
            let text = proposal("files", started.apps.get("files"), &tools);
            assert_eq!(text.contains("results = \"files\""), is_known, "{text}");
        }
    }

    /// Names are the words of strangers.
    #[test]
    fn a_name_cannot_write_a_rule() {
        let name = "x]\nlimit = \"any\"\n[app.agent.tools.y";
        let listed = serde_json::json!([{ "name": name, "parameters": { "properties": { "a\"]\nb": {} } } }]);
        let text = proposal("agent", None, &tools(&listed.to_string()).unwrap());
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
        let text = proposal("agent", None, &tools(&listed.to_string()).unwrap());
        config(&text);
        // An odd entry costs itself.
        let one = r#"[7, {}, {"name": 7}, {"name": "a", "inputSchema": {"properties": []}}]"#;
        assert_eq!(tools(one).unwrap().len(), 1);
        for wrong in ["", "[", "[{}]", "7"] {
            let error = format!("{:#}", tools(wrong).err().unwrap());
            assert!(error.contains("no tools"), "{error}");
        }
    }
}

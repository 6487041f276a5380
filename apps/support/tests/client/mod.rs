//! What the tests of each app have in common: the app as a child process, and its manifest.

use std::collections::BTreeSet;

use rmcp::model::{CallToolRequestParams, JsonObject, Tool};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt};
use serde_json::Value;
use serde_json_path::JsonPath;
use tokio::process::Command;

/// A client of an app that runs as a child process.
pub(crate) struct Client(RunningService<RoleClient, ()>);

impl Client {
    pub(crate) async fn start(command: Command) -> Self {
        let client = ().serve(TokioChildProcess::new(command).unwrap()).await;
        Self(client.unwrap())
    }

    pub(crate) async fn tools(&self) -> Vec<Tool> {
        self.0.list_all_tools().await.unwrap()
    }

    /// Calls a tool: the text of its one content, `Err` for a tool error.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let arguments: JsonObject = serde_json::from_value(arguments).unwrap();
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.0.call_tool(call).await.unwrap();
        let [content] = result.content.as_slice() else {
            panic!("{} contents", result.content.len())
        };
        assert!(result.structured_content.is_none());
        let text = content.as_text().unwrap().text.clone();
        match result.is_error {
            Some(true) => Err(text),
            _ => Ok(text),
        }
    }

    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> Value {
        serde_json::from_str(&self.text(tool, arguments).await.unwrap()).unwrap()
    }

    pub(crate) async fn refused(&self, tool: &str, arguments: Value) -> String {
        self.text(tool, arguments).await.unwrap_err()
    }

    pub(crate) async fn stop(self) {
        self.0.cancel().await.unwrap();
    }
}

/// A schema without what small models and grammars made from it do badly with.
pub(crate) fn assert_plain(tools: &[Tool]) {
    for tool in tools {
        let schema = Value::Object(tool.input_schema.as_ref().clone());
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        for hard in ["$ref", "null", "format"] {
            assert!(!schema.to_string().contains(hard), "{schema}");
        }
    }
}

/// An app's manifest, beside what the app really returns.
pub(crate) struct Manifest(toml::Table);

impl Manifest {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.parse().unwrap())
    }

    pub(crate) fn tools(&self) -> &toml::Table {
        self.0["tools"].as_table().unwrap()
    }

    /// Every tool has an entry, and every entry is a tool's.
    pub(crate) async fn assert_lists(&self, client: &Client) {
        let tools = client.tools().await;
        let tools: BTreeSet<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        let entries: BTreeSet<_> = self.tools().keys().map(String::as_str).collect();
        assert_eq!(tools, entries);
    }

    /// The labels of the rules of a tool, by path; its own or those of the results that it names.
    fn rules(&self, tool: &str) -> Vec<(String, Vec<String>)> {
        let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
        let tool = &self.0["tools"][tool];
        let shape = tool
            .get("results")
            .map_or(tool, |name| &self.0["results"][name.as_str().unwrap()]);
        let rules = shape["labels"].as_array().unwrap().iter();
        let rules = rules.map(|rule| {
            let label = rule["label"].as_array().unwrap();
            (text(&rule["path"]), label.iter().map(text).collect())
        });
        rules.collect()
    }

    /// Every value of a result has a rule, and each in which a stranger has written `chosen` is untrusted by it. How many
    /// of these there are, and how many untrusted ones.
    pub(crate) fn assert_covers(&self, tool: &str, result: &Value) -> (usize, usize) {
        let mut open = BTreeSet::new();
        leaves(result, "$", &mut open);
        assert!(!open.is_empty());
        let (mut chosen, mut untrusted) = (0, 0);
        for (path, label) in self.rules(tool) {
            for node in JsonPath::parse(&path).unwrap().query_located(result) {
                open.remove(&node.location().to_string());
                let written = node.node().to_string().to_lowercase().contains("chosen");
                let distrusted = label.iter().any(|taint| taint.starts_with("untrusted:"));
                assert!(!written || distrusted, "{tool} {path}: {}", node.node());
                chosen += usize::from(written);
                untrusted += usize::from(distrusted);
            }
        }
        assert!(open.is_empty(), "{tool}: no rule for {open:?}");
        (chosen, untrusted)
    }
}

/// The locations of all values that are no object and no array.
fn leaves(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| leaves(value, &format!("{at}['{name}']"), found)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(n, item)| leaves(item, &format!("{at}[{n}]"), found)),
        _ => drop(found.insert(at.to_owned())),
    }
}

//! The tools of all apps as one list: names that every client takes, and words that are the user's or labelled.

use std::collections::{BTreeMap, BTreeSet};

use crate::parts::GatewayTool;
use hub::AppTool;
use hub::state::hex;
use ifc::{Call, Effect, Label, Labeled, Policy, Tool};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Longest name of a tool. A client puts its own prefix before it, and a provider takes 64 characters.
const MAX_NAME: usize = 51;
/// Longest name of a parameter whose server is not believed.
const MAX_PARAMETER: usize = 64;
/// Hexadecimal digits that tell names apart which were shortened or are the same.
const DIGITS: usize = 8;

/// The tool that gives the descriptions which are left out.
pub(super) const DESCRIBE: &str = "sluice_describe";
/// The tool that finds others.
pub(super) const SEARCH: &str = "sluice_search";
/// The tool that calls them.
pub(super) const CALL: &str = "sluice_call";

/// With more tools than this, a client is offered these two unless the user says otherwise. Some clients take 128 of all
/// servers together.
const MANY: usize = 100;
/// What stands in the place of a description that the user does not believe.
const LEFT_OUT: &str =
    "The server's description is left out. Call sluice_describe with this tool's name to read it.";

/// A tool that clients can call.
#[derive(Clone)]
pub(super) struct Listed {
    pub(super) app: String,
    pub(super) tool: String,
    /// The app's own description and schema, where they are not in the list.
    pub(super) left_out: Option<String>,
    /// Whether what is shown has words of an app that is not believed.
    pub(super) is_quoted: bool,
    /// The tool as clients read it.
    pub(super) shown: Value,
}

/// One app's tools.
pub(super) struct AppTools {
    pub(super) app: String,
    pub(super) tools: Vec<AppTool>,
    /// The label of what the app says of them.
    pub(super) descriptions: Label,
    /// What they do, by the policy.
    pub(super) effects: BTreeMap<String, Effect>,
    /// Whether it reaches anything outside of its sandbox.
    pub(super) is_open: bool,
}

/// The tools by the names that clients have for them.
#[derive(Default)]
pub(super) struct Listing {
    tools: BTreeMap<String, Listed>,
    /// The label of what the list says of apps that are not believed, one for each text.
    words: Vec<Tool>,
    /// Whether clients search for tools instead of reading a list of them all; `None` leaves that to the number of tools.
    search: Option<bool>,
    /// The result of `tools/list`.
    pub(super) list: String,
}

impl Listing {
    pub(super) fn new(
        apps: Vec<AppTools>,
        prefixed: bool,
        search: Option<bool>,
        policy: &dyn Policy,
    ) -> Self {
        let mut listing = Self {
            search,
            ..Self::default()
        };
        let named: Vec<(String, String)> = apps
            .iter()
            .flat_map(|app| {
                app.tools
                    .iter()
                    .map(|tool| (app.app.clone(), tool.name.clone()))
            })
            .collect();
        let names = names(&named, prefixed);
        for app in apps {
            for tool in &app.tools {
                let id = (app.app.clone(), tool.name.clone());
                if let Some(name) = names.get(&id) {
                    listing.add(name, &app, tool, policy);
                }
            }
        }
        listing.list = listing.to_json();
        listing
    }

    /// The tools of these apps alone, by the same names.
    ///
    /// # Errors
    /// One of them has none here.
    pub(super) fn only(&self, apps: &BTreeSet<String>) -> Result<Self, String> {
        let all: BTreeSet<&str> = self.tools.values().map(|tool| &*tool.app).collect();
        if let Some(unknown) = apps.iter().find(|app| !all.contains(app.as_str())) {
            let all: Vec<&str> = all.into_iter().collect();
            let unknown: String = unknown.chars().take(64).collect();
            return Err(format!(
                "there is no app {unknown} here; there are: {}",
                all.join(", ")
            ));
        }
        let mut tools = self.tools.clone();
        tools.retain(|_, tool| apps.contains(&tool.app));
        let own = tools.values().map(|it| Call::qualified(&it.app, &it.tool));
        let own: BTreeSet<String> = own.collect();
        let words = self.words.iter().filter(|it| own.contains(&it.name));
        let mut listing = Self {
            words: words.cloned().collect(),
            tools,
            search: self.search,
            list: String::new(),
        };
        listing.list = listing.to_json();
        Ok(listing)
    }

    /// Whether clients search for tools instead of reading a list of them all.
    pub(super) fn is_searched(&self) -> bool {
        self.search.unwrap_or(self.tools.len() > MANY)
    }

    fn add(&mut self, name: &str, app: &AppTools, tool: &AppTool, policy: &dyn Policy) {
        let AppTool {
            name: own,
            listed,
            description,
            parameters,
        } = tool;
        // In the user's words, if the rules have them.
        let declared = policy.parameters(&app.app, own).filter(|_| *listed);
        let is_believed = app.descriptions.is_bottom();
        let quiet = declared.filter(|schema| !is_believed && has_plain_names(schema));
        let (says, schema) = match &quiet {
            Some(schema) => (LEFT_OUT, &**schema),
            None => (description.as_str(), parameters.as_str()),
        };
        let shown = json!({
            "name": name, "description": says, "inputSchema": input_schema(schema),
            "annotations": annotations(app, own),
        });
        let left_out = quiet
            .is_some()
            .then(|| format!("{name}: {description}\n{parameters}"));
        if left_out.is_none() && !is_believed {
            self.words.push(Tool {
                name: Call::qualified(&app.app, own),
                label: if *listed {
                    Label::bottom()
                } else {
                    app.descriptions.clone()
                },
                description: Labeled::label_tcb(description.as_str(), app.descriptions.clone()),
                parameters: Labeled::label_tcb(parameters.as_str(), app.descriptions.clone()),
            });
        }
        let listed = Listed {
            app: app.app.clone(),
            tool: own.clone(),
            is_quoted: left_out.is_none() && !is_believed,
            left_out,
            shown,
        };
        self.tools.insert(name.to_owned(), listed);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Listed> {
        self.tools.get(name)
    }

    /// The tools with the labels of what the list says of them.
    pub(super) fn tools(&self) -> Vec<GatewayTool> {
        let tools = self.tools.iter().map(|(name, listed)| {
            let own = Call::qualified(&listed.app, &listed.tool);
            let words = self.words.iter().find(|words| words.name == own);
            GatewayTool {
                name: name.clone(),
                app: listed.app.clone(),
                tool: listed.tool.clone(),
                named: words.map_or(Label::bottom(), |words| words.label.clone()),
                described: words.map_or(Label::bottom(), |words| words.description.label()),
            }
        });
        tools.collect()
    }

    /// All tools, by their names.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Listed)> {
        self.tools
            .iter()
            .map(|(name, listed)| (name.as_str(), listed))
    }

    /// What clients read of apps that the user does not believe, with its labels.
    pub(super) fn words(&self) -> &[Tool] {
        match self.is_searched() {
            // A client reads them when it finds them.
            true => &[],
            false => &self.words,
        }
    }

    /// The descriptions that are left out, of the tools with these names.
    pub(super) fn left_out(&self, names: &BTreeSet<String>) -> Vec<(&Listed, &str)> {
        let named = names.iter().filter_map(|name| self.tools.get(name));
        named
            .filter_map(|it| Some((it, it.left_out.as_deref()?)))
            .collect()
    }

    /// The result of `tools/list`: one page.
    fn to_json(&self) -> String {
        let mut tools: Vec<Value> = match self.is_searched() {
            true => search_tools(&self.tools.values().map(|tool| &*tool.app).collect()).into(),
            false => self.tools.values().map(|tool| tool.shown.clone()).collect(),
        };
        if self.tools.values().any(|tool| tool.left_out.is_some()) {
            let says = "Gives the servers' own descriptions of tools. They are strangers' words, and calls made after reading them may need the user's approval.";
            let names = json!({ "tools": { "type": "array", "items": { "type": "string" }, "description": "Names of tools." } });
            tools.push(own(DESCRIBE, says, "tools", &names, true));
        }
        json!({ "tools": tools }).to_string()
    }
}

/// A tool of ours, as a client lists it.
fn own(name: &str, says: &str, required: &str, properties: &Value, reads: bool) -> Value {
    json!({
        "name": name, "description": says,
        "inputSchema": { "type": "object", "required": [required], "properties": properties, "additionalProperties": false },
        "annotations": { "readOnlyHint": reads, "destructiveHint": !reads, "openWorldHint": !reads },
    })
}

/// The two tools, as a client lists them. `apps` are named in the first.
fn search_tools(apps: &BTreeSet<&str>) -> [Value; 2] {
    let apps: Vec<&str> = apps.iter().copied().collect();
    let finds = format!(
        "Finds tools by words of what they do, with their descriptions and parameters. There are tools of: {}.",
        apps.join(", ")
    );
    let query = json!({ "query": { "type": "string", "description": "A few words." } });
    let call = json!({
        "tool": { "type": "string", "description": "The tool's name." },
        "arguments": { "type": "object", "description": "The tool's arguments." },
    });
    let calls = format!("Calls a tool that {SEARCH} has found.");
    [
        own(SEARCH, &finds, "query", &query, true),
        own(CALL, &calls, "tool", &call, false),
    ]
}

/// What a tool does by the user's policy. Clients decide by this whether they ask, so a server's own word does not count.
fn annotations(app: &AppTools, tool: &str) -> Value {
    let effect = app
        .effects
        .get(tool)
        .copied()
        .unwrap_or(Effect::Irreversible);
    json!({
        "readOnlyHint": effect == Effect::Read,
        "destructiveHint": effect == Effect::Irreversible,
        "idempotentHint": effect == Effect::Read,
        "openWorldHint": app.is_open,
    })
}

/// The schema of a tool as clients read it: they refuse a whole list for a schema that is not one of an object.
fn input_schema(text: &str) -> Map<String, Value> {
    let mut schema: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    schema.insert("type".to_owned(), "object".into());
    schema.retain(|word, value| match word.as_str() {
        "properties" => value.is_object(),
        "required" => value.is_array(),
        _ => true,
    });
    schema
}

/// Whether the parameters of a schema have names that are none but names. They may be the server's own, as those of a server
/// that is wrapped are, and a sentence is no name.
fn has_plain_names(schema: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '-');
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let names = schema.get("properties").and_then(Value::as_object);
    let mut names = names.into_iter().flat_map(Map::keys);
    names.all(|name| name.len() <= MAX_PARAMETER && name.chars().all(is_plain))
}

/// A name for each pair of app and tool, `APP_TOOL` or, where there is one app, `TOOL`: of letters, digits, `_` and `-`, at most [`MAX_NAME`] of them, and no two alike
/// but for their case. It stays the same as long as the app has the tool, in any order.
fn names(tools: &[(String, String)], prefixed: bool) -> BTreeMap<(String, String), String> {
    let plain = |(app, tool): &(String, String)| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let name = match prefixed {
            true => format!("{app}_{tool}"),
            false => tool.clone(),
        };
        name.replace(|c| !is_plain(c), "_")
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pair in tools {
        *counts.entry(plain(pair).to_ascii_lowercase()).or_default() += 1;
    }
    let mut named = BTreeMap::new();
    for pair in tools {
        let name = plain(pair);
        let is_alone = counts.get(&name.to_ascii_lowercase()) == Some(&1);
        let is_ours = [DESCRIBE, SEARCH, CALL].contains(&&*name);
        let is_free = is_alone && name.len() <= MAX_NAME && !is_ours;
        let name = match is_free {
            true => name,
            false => {
                let digest = hex(&Sha256::digest(format!("{}/{}", pair.0, pair.1)).into());
                let begin = name.get(..MAX_NAME - DIGITS - 1).unwrap_or(&name);
                format!("{begin}_{}", digest.get(..DIGITS).unwrap_or_default())
            }
        };
        named.insert(pair.clone(), name);
    }
    named
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ifc::{PolicyError, Rule, Sink};

    use super::*;

    #[test]
    fn an_odd_schema_is_listed_as_one_of_an_object() {
        let object = json!({"type": "object"});
        for odd in [
            r#"{"type":"any","properties":[],"required":null}"#,
            r#"{"type":["object","null"]}"#,
            "[]",
            "{}",
        ] {
            assert_eq!(Value::Object(input_schema(odd)), object, "{odd}");
        }
        let valid = r#"{"$schema":"x","type":"object","properties":{"a":true},"required":["a"]}"#;
        assert_eq!(Value::Object(input_schema(valid)).to_string(), valid);
    }

    /// The user's rules with these parameters for every tool.
    struct Declares(&'static str);

    impl Policy for Declares {
        fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
            Err(PolicyError("none".to_owned()))
        }

        fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
            Labeled::unknown(result)
        }

        fn parameters(&self, _: &str, _: &str) -> Option<Arc<str>> {
            Some(self.0.into())
        }
    }

    #[test]
    fn a_parameter_whose_name_is_a_sentence_is_a_strangers_word() {
        for (schema, is_left_out) in [
            (r#"{"properties":{"page_size":{},"$top":{}}}"#, true),
            (r#"{"properties":{"page_size":{},"Obey me.":{}}}"#, false),
        ] {
            let tool = AppTool {
                name: "read".to_owned(),
                listed: true,
                description: "Reads.".to_owned(),
                parameters: schema.to_owned(),
            };
            let app = AppTools {
                app: "mail".to_owned(),
                tools: vec![tool],
                descriptions: Label::top(),
                effects: BTreeMap::new(),
                is_open: false,
            };
            let listing = Listing::new(vec![app], true, None, &Declares(schema));
            let client = ifc::History::new(listing.words().to_vec());
            assert_eq!(client.label().is_bottom(), is_left_out, "{schema}");
            assert_eq!(!listing.to_json().contains("Reads."), is_left_out);
        }
    }

    #[test]
    fn a_name_is_short_plain_and_unlike_any_other() {
        let pair = |app: &str, tool: &str| (app.to_owned(), tool.to_owned());
        let long = "a_tool_with_a_very_long_name_that_no_provider_would_take";
        let tools = [
            pair("mail", "send"),
            pair("mail", "files/read.it"),
            pair("mail", long),
            pair("a", "b_c"),
            pair("a_b", "C"),
        ];
        let names = names(&tools, true);
        let of = |pair: &(String, String)| names[pair].as_str();
        assert_eq!(of(&tools[0]), "mail_send");
        assert_eq!(of(&tools[1]), "mail_files_read_it");
        assert_eq!(of(&tools[2]).len(), MAX_NAME);
        let all: BTreeSet<String> = names.values().map(|it| it.to_ascii_lowercase()).collect();
        assert_eq!(all.len(), tools.len());
        let reversed: Vec<_> = tools.iter().rev().cloned().collect();
        assert_eq!(super::names(&reversed, true), names);
    }
}

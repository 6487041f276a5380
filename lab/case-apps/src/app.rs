//! An app as data.

use serde_json::{Map, Value, json};

use crate::state::{Arguments, State};

/// An app: what it says of itself, and what its tools do.
pub struct App {
    /// Its name on the command line.
    pub name: String,
    /// What it does, as a catalogue would say it. A hostile app chooses these words too.
    pub description: String,
    /// Its tools.
    pub tools: Vec<CaseTool>,
    /// What a hub may believe of it: its `sluice-app.toml`, but for the description above.
    pub(crate) rules: String,
}

/// What a tool does with its arguments: a result, or the words of an error.
pub type Run = fn(&State, &Arguments) -> Result<Value, String>;

/// One tool of an app.
pub struct CaseTool {
    /// Its name.
    pub name: &'static str,
    /// What it says of itself.
    pub description: String,
    /// Its parameters, each a string and each required: name and description.
    pub parameters: &'static [(&'static str, &'static str)],
    /// What it does.
    pub run: Run,
}

impl App {
    /// What a hub may believe of it: its `sluice-app.toml`.
    pub fn manifest(&self) -> String {
        let line = |line: &str| match line.starts_with("description = ") {
            true => format!("description = {}\n", Value::from(self.description.as_str())),
            false => format!("{line}\n"),
        };
        self.rules.lines().map(line).collect()
    }

    /// A manifest that labels nothing and limits nothing: the app as a system without labels has it.
    pub fn unprotected_manifest(&self) -> String {
        let mut manifest = format!(
            "[app]\nname = \"{}\"\ndescription = {}\ncommand = [\"sluice-case-apps\"]\ndescriptions = \"trusted\"\n",
            self.name,
            Value::from(self.description.as_str()),
        );
        for CaseTool { name, .. } in &self.tools {
            let effect = match self.reads(name) {
                true => "read",
                // Not irreversible either: that would be asked about when it is repeated.
                false => "write",
            };
            manifest += &format!(
                "\n[tools.{name}]\neffect = \"{effect}\"\nlimit = \"any\"\nstructure = []\nrest = []\n"
            );
        }
        manifest
    }

    /// Whether a tool only reads, by the rules.
    fn reads(&self, tool: &str) -> bool {
        // The manifests of this crate write the effect right after the head of a tool's table.
        let read = format!("[tools.{tool}]\neffect = \"read\"\n");
        self.rules.contains(&read)
    }
}

impl CaseTool {
    /// The parameters as a JSON Schema.
    pub fn schema(&self) -> Value {
        let property = |(name, description): &(&str, &str)| {
            let property = json!({"type": "string", "description": description});
            ((*name).to_owned(), property)
        };
        let properties: Map<String, Value> = self.parameters.iter().map(property).collect();
        let required: Vec<&str> = self.parameters.iter().map(|(name, _)| *name).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}

/// The text of an argument; the schema requires each of them.
pub(crate) fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<&'a str, String> {
    let text = arguments.get(name).and_then(Value::as_str);
    text.ok_or_else(|| format!("{name} is missing"))
}

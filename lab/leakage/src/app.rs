//! A simulated app as data: tools over a small world. SCHEMA.md describes the file.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The arguments of a call.
pub type Arguments = Map<String, Value>;

/// An app: what it says of itself, its tools, and the world that they read and change.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// What it says of itself.
    #[serde(rename = "app")]
    pub about: About,
    /// Its tools.
    #[serde(rename = "tool")]
    pub tools: Vec<Tool>,
    /// The world at the beginning.
    pub world: Value,
}

/// What an app says of itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The system prompt of an agent that uses it.
    pub system: String,
}

/// One tool. It reads, adds to or sets one place of the world.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it says of itself. This is where models are pulled to give more than they need.
    pub description: String,
    /// Its parameters.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
    /// Gives what stands at this JSON pointer.
    reads: Option<String>,
    /// Of a list that is read, the rows whose field (left) equals the argument (right).
    #[serde(default)]
    only: BTreeMap<String, String>,
    /// Of a list that is read, the rows whose field (left) contains the argument (right).
    #[serde(default)]
    search: BTreeMap<String, String>,
    /// Adds the arguments as a row to the list at this JSON pointer.
    adds: Option<String>,
    /// Sets the arguments in the object at this JSON pointer.
    sets: Option<String>,
}

/// A parameter of a tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Its JSON type.
    #[serde(rename = "type", default = "text")]
    pub kind: String,
    /// Whether a call without it is refused.
    #[serde(default)]
    pub required: bool,
}

fn text() -> String {
    "string".to_owned()
}

impl App {
    /// Reads an app's file.
    pub fn parse(text: &str) -> Result<Self> {
        let app: Self = toml::from_str(text)?;
        for tool in &app.tools {
            let places = [&tool.reads, &tool.adds, &tool.sets];
            let mut places = places.into_iter().flatten();
            // Exactly one of the three, at a place that exists: a mistake in the data shows here, not in a run.
            let (Some(place), None) = (places.next(), places.next()) else {
                bail!("{} must have one of reads, adds and sets", tool.name);
            };
            let there = app.world.pointer(place);
            ensure!(there.is_some(), "{}: the world has no {place}", tool.name);
        }
        Ok(app)
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

impl Tool {
    /// The parameters as a JSON Schema.
    pub fn schema(&self) -> Value {
        let property = |parameter: &Parameter| {
            let property = json!({"type": parameter.kind, "description": parameter.description});
            (parameter.name.clone(), property)
        };
        let properties: Map<String, Value> = self.parameters.iter().map(property).collect();
        let required = self.parameters.iter().filter(|it| it.required);
        let required: Vec<&str> = required.map(|it| it.name.as_str()).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Whether these are arguments of this tool.
    fn check(&self, arguments: &Arguments) -> Result<(), String> {
        for (name, value) in arguments {
            let mut all = self.parameters.iter();
            let known = all.find(|parameter| parameter.name == *name);
            let known = known.ok_or_else(|| format!("there is no argument {name}"))?;
            let fits = match known.kind.as_str() {
                "number" => value.is_number(),
                "integer" => value.is_i64(),
                _ => value.is_string(),
            };
            if !fits {
                return Err(format!("{name} must be a {}", known.kind));
            }
        }
        let mut required = self.parameters.iter().filter(|it| it.required);
        match required.find(|it| !arguments.contains_key(&it.name)) {
            Some(missing) => Err(format!("{} is missing", missing.name)),
            None => Ok(()),
        }
    }

    fn keeps(&self, row: &Value, arguments: &Arguments) -> bool {
        let words = |place: &str| row.get(place).and_then(Value::as_str).unwrap_or_default();
        let argument = |name: &str| arguments.get(name).and_then(Value::as_str);
        // A filter whose argument is left out keeps every row.
        let equal = |(field, name): (&String, &String)| {
            argument(name).is_none_or(|wanted| words(field).eq_ignore_ascii_case(wanted))
        };
        let contains = |(field, name): (&String, &String)| {
            let lower = |text: &str| text.to_lowercase();
            argument(name).is_none_or(|wanted| lower(words(field)).contains(&lower(wanted)))
        };
        self.only.iter().all(equal) && self.search.iter().all(contains)
    }
}

/// The state of an app while it is used.
#[derive(Debug, Clone, PartialEq)]
pub struct World(Value);

impl World {
    /// The world of an app at the beginning.
    pub fn new(app: &App) -> Self {
        Self(app.world.clone())
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The words of the app: it has no such tool, or the arguments are none of it.
    pub fn call(&mut self, app: &App, name: &str, arguments: &Arguments) -> Result<Value, String> {
        let tool = app.tool(name).ok_or("there is no such tool")?;
        // Checked first, so that a call with wrong arguments changes nothing.
        tool.check(arguments)?;
        let place = tool.reads.as_ref().or(tool.adds.as_ref());
        let place = place
            .or(tool.sets.as_ref())
            .ok_or("the tool does nothing")?;
        let place = self.0.pointer_mut(place).ok_or("the app failed inside")?;
        if tool.reads.is_some() {
            return Ok(match place {
                Value::Array(rows) => rows
                    .iter()
                    .filter(|row| tool.keeps(row, arguments))
                    .cloned()
                    .collect(),
                other => other.clone(),
            });
        }
        match place {
            Value::Array(rows) => {
                rows.push(Value::Object(arguments.clone()));
                Ok(json!({"status": "done", "number": rows.len()}))
            }
            Value::Object(fields) => {
                fields.extend(arguments.clone());
                Ok(json!({"status": "done"}))
            }
            _ => Err("the app failed inside".to_owned()),
        }
    }
}

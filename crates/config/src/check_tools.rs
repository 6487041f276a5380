//! Whether the rules fit the tools that an app really has.

use std::fmt;

use ifc::ArgumentPath;
use policy::{ArgumentIs, Parameter, ParameterKind, ToolRule, When};
use serde_json::{Map, Value};

use crate::app::App;
use crate::config::Config;
use crate::result_checks::{named, of_calls};
use crate::suggestions::Suggestions;

/// Rules that fit no tool, and arguments that a tool lacks; at least one. Each is a typo, or the app
/// has changed: either way the rule would not hold what it was written for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolErrors(Vec<String>);

impl ToolErrors {
    /// The errors, one line each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for ToolErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for ToolErrors {}

impl Config {
    /// Compares the rules of an app with the tools that it lists when it runs: their names, and
    /// their parameters as JSON schemas. What the app says is used to find mistakes only; it makes
    /// no rule weaker.
    ///
    /// # Errors
    /// Every rule that no tool matches, and every argument that a tool lacks.
    pub fn check_tools(&self, app: &str, tools: &[(&str, &str)]) -> Result<(), ToolErrors> {
        let Some(app) = self.apps.get(app) else {
            let known = self.apps.keys().map(String::as_str);
            let meant = Suggestions::default().did_you_mean(app, known);
            let error = format!("there is no app '{app}' in the configuration; {meant}");
            return Err(ToolErrors(vec![
                error.trim_end_matches([' ', ';']).to_owned(),
            ]));
        };
        app.check_tools(tools)
    }
}

impl App {
    /// As [`Config::check_tools`], for this app.
    ///
    /// # Errors
    /// As [`Config::check_tools`].
    pub fn check_tools(&self, tools: &[(&str, &str)]) -> Result<(), ToolErrors> {
        let mut errors = Vec::new();
        // The names that an app has are a stranger's.
        let suggestions = Suggestions::default();
        for (name, rule) in &self.rules.tools {
            let at = rule
                .place
                .as_ref()
                .map(|place| format!("{place}: "))
                .unwrap_or_default();
            let rule_name = format!("{at}{}.{name}", self.name);
            let Some((_, schema)) = tools.iter().find(|(tool, _)| tool == name) else {
                let meant = suggestions.did_you_mean(name, tools.iter().map(|(tool, _)| *tool));
                errors.push(format!(
                    "{rule_name}: the app has no tool '{name}'; {meant}correct or remove the rule"
                ));
                continue;
            };
            // What is no JSON has no properties, so every argument of the rules is reported.
            let schema: Value = serde_json::from_str(schema).unwrap_or_default();
            let known = schema.get("properties").and_then(Value::as_object);
            errors.extend(conditions(&suggestions, &rule_name, rule, known));
            // Without them there are no limits of arguments either (`finish`), so there is nothing more to compare.
            let Some(parameters) = &rule.parameters else {
                continue;
            };
            let paths = rule.arguments.keys().filter(|path| !path.is_whole());
            errors.extend(paths.filter_map(|path| path_error(&rule_name, path, &schema)));
            for (argument, parameter) in &parameters.0 {
                match known.and_then(|known| known.get(argument)) {
                    Some(property) => {
                        errors.extend(kind_error(&rule_name, argument, parameter, property));
                    }
                    None => {
                        let known = known.into_iter().flat_map(|k| k.keys().map(String::as_str));
                        let meant = suggestions.did_you_mean(argument, known);
                        errors.push(format!(
                            "{rule_name}: the tool has no argument '{argument}'; {meant}correct or remove it"
                        ));
                    }
                }
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(ToolErrors(errors)),
        }
    }
}

/// A path to which nothing in a call that fits the tool's own schema could lead. A schema that does not say its
/// properties or its items in so many words is not judged: a call whose arguments have another form is asked about.
fn path_error(rule: &str, path: &ArgumentPath, schema: &Value) -> Option<String> {
    let mut missing = false;
    path.follow(schema, |schema, member| {
        let properties = schema.get("properties").and_then(Value::as_object);
        let part = match member {
            Some(name) => properties.and_then(|known| known.get(name)),
            None => schema.get("items"),
        };
        let another = |says: &str| says != if member.is_some() { "object" } else { "array" };
        let says = schema.get("type").and_then(Value::as_str);
        missing |= says.is_some_and(another);
        missing |= member.is_some() && properties.is_some() && part.is_none();
        part
    });
    missing.then(|| {
        format!(
            "{rule}: the tool's schema has no place '{path}' in its arguments; correct or remove it"
        )
    })
}

/// Conditions of label rules that no call of a tool with these properties meets. Arguments that
/// `parameters` names are reported as such.
fn conditions(
    suggestions: &Suggestions,
    rule_name: &str,
    rule: &ToolRule,
    known: Option<&Map<String, Value>>,
) -> Vec<String> {
    let declared = |when: &When| {
        let names = rule.parameters.as_ref();
        names.is_some_and(|names| names.0.contains_key(&when.argument))
    };
    let mut errors = Vec::new();
    for (label_rule, when) in of_calls(rule) {
        let at = format!("{rule_name}: {} never counts", named(label_rule));
        let argument = &when.argument;
        let Some(property) = known.and_then(|known| known.get(argument)) else {
            if !declared(when) {
                let known = known.into_iter().flat_map(|k| k.keys().map(String::as_str));
                let meant = suggestions.did_you_mean(argument, known);
                errors.push(format!(
                    "{at}: the tool has no argument '{argument}'; {meant}correct or remove it"
                ));
            }
            continue;
        };
        // A schema that does not say its type in one word is not judged.
        let says = property.get("type").and_then(Value::as_str);
        if says.is_some_and(|says| says != "string" && says != "array") {
            errors.push(format!(
                "{at}: the argument '{argument}' is no text in the tool's schema"
            ));
        }
        let values = property.get("enum").and_then(Value::as_array);
        if let (Some(values), ArgumentIs::OneOf(words)) = (values, &when.is)
            && !words
                .iter()
                .any(|word| values.iter().any(|value| value == word))
        {
            errors.push(format!(
                "{at}: the tool's schema has none of these values for '{argument}'"
            ));
        }
    }
    errors
}

/// A kind that no value of the tool's own schema could have. A schema that does not say its type in
/// one word is not judged: the kind is checked in every call anyway.
fn kind_error(
    rule: &str,
    argument: &str,
    parameter: &Parameter,
    property: &Value,
) -> Option<String> {
    let says = property.get("type")?.as_str()?;
    let fits = match parameter.kind {
        ParameterKind::Any => true,
        ParameterKind::String => says == "string",
        ParameterKind::Strings => says == "array",
        ParameterKind::Integer => says == "integer" || says == "number",
        ParameterKind::Number | ParameterKind::Amount => says == "number" || says == "integer",
        ParameterKind::Boolean => says == "boolean",
    };
    (!fits).then(|| {
        format!(
            "{rule}: 'parameters' calls the argument '{argument}' {}, the tool's schema has {says:?}; correct it",
            parameter.kind.name()
        )
    })
}

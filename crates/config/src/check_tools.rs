//! Compares the rules with the tools of the running app.

use std::collections::BTreeSet;
use std::fmt;

use ifc::ArgumentPath;
use serde_json::Value;

use crate::app::App;
use crate::config::Config;
use crate::result_checks::of_calls;
use crate::suggestions::Suggestions;

/// Arguments that a tool lacks; at least one. The cause is a typo or a change of the app; either way the rule has no effect.
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
    /// Compares the rules of an app with the tools that it lists: their names, and their parameters as JSON schemas. The
    /// app's list only finds errors; it makes no rule weaker. Returns one line for each rule whose tool the app does not
    /// list: a server may offer a tool to some users, or on some days.
    ///
    /// # Errors
    /// Every argument that a tool lacks.
    pub fn check_tools(
        &self,
        app: &str,
        tools: &[(&str, &str)],
    ) -> Result<Vec<String>, ToolErrors> {
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
    pub fn check_tools(&self, tools: &[(&str, &str)]) -> Result<Vec<String>, ToolErrors> {
        let (mut errors, mut unlisted) = (Vec::new(), Vec::new());
        let suggestions = Suggestions::default();
        let rules = self.rules.tools.iter();
        for (name, rule) in rules.filter(|(name, _)| self.filter.shows(name)) {
            let at = rule
                .place
                .as_ref()
                .map(|place| format!("{place}: "))
                .unwrap_or_default();
            let rule_name = format!("{at}{}.{name}", self.name);
            // A case has the arguments of its tool.
            let of_tool = name.split_once(':').map_or(name.as_str(), |(tool, _)| tool);
            let selects = self.rules.tools.get(of_tool);
            let listed = match selects.is_some_and(|rule| rule.select.is_some()) {
                true => of_tool,
                false => name,
            };
            let Some((_, schema)) = tools.iter().find(|(tool, _)| *tool == listed) else {
                let meant = suggestions.did_you_mean(name, tools.iter().map(|(tool, _)| *tool));
                unlisted.push(format!(
                    "{rule_name}: the app lists no tool '{name}'; {meant}the rule has no effect"
                ));
                continue;
            };
            // A schema that is not JSON has no properties, so every argument of the rules is reported.
            let schema: Value = serde_json::from_str(schema).unwrap_or_default();
            let known = schema.get("properties").and_then(Value::as_object);
            let declared = rule.parameters.iter().flat_map(|all| all.names());
            let labelled = of_calls(rule).map(|(_, when)| when.argument.as_str());
            for argument in declared.chain(labelled).collect::<BTreeSet<_>>() {
                if known.is_none_or(|known| !known.contains_key(argument)) {
                    let known = known.into_iter().flat_map(|k| k.keys().map(String::as_str));
                    let meant = suggestions.did_you_mean(argument, known);
                    errors.push(format!(
                        "{rule_name}: the tool has no argument '{argument}'; {meant}correct or remove it"
                    ));
                }
            }
            // Without `parameters` there are no limits of arguments either.
            let paths = rule.arguments.keys().filter(|path| !path.is_whole());
            errors.extend(paths.filter_map(|path| path_error(&rule_name, path, &schema)));
        }
        match errors.is_empty() {
            true => Ok(unlisted),
            false => Err(ToolErrors(errors)),
        }
    }
}

/// The error of a path that no call which fits the tool's schema has. Where the schema does not list properties or items,
/// nothing is reported: a call of another form is asked about.
fn path_error(rule: &str, path: &ArgumentPath, schema: &Value) -> Option<String> {
    let mut missing = false;
    path.follow(schema, |schema, member| {
        // A string may hold JSON.
        if schema.get("type").and_then(Value::as_str) == Some("string") {
            return None;
        }
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

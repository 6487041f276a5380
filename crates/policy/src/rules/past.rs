//! What rules see of the calls that were permitted before in the session: their number, sums of their arguments, and whether
//! one succeeded.
//!
//! Only calls count whose control part flows to the label at which the decision is visible ([`Results::permitted`]).

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{Policy, RestrictedExpression as Expression};
use ifc::{Call, Labeled, Results};
use serde_json::{Map, Value, json};

use super::arguments::{Arguments, Decimal, ParameterKind, Parameters, long};

/// `after = { tool = "approve", same = ["ticket"] }`: calls run only after one of this tool has succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    /// A tool of the same app.
    pub tool: String,
    /// The arguments that both calls must have, with the same values.
    pub same: Vec<String>,
}

impl After {
    /// Whether such a call has succeeded.
    pub(super) fn is_met(&self, call: &Call, results: &Results<'_>) -> bool {
        let value = |name: &String| call.arguments.get(name).map(Labeled::reveal_tcb);
        let permitted = results.permitted(&call.app, &self.tool).calls;
        permitted.into_iter().any(|past| {
            let is_same = |name: &String| {
                let past = past.argument(name).map(Labeled::reveal_tcb);
                past.is_some() && past == value(name)
            };
            past.succeeded() && self.same.iter().all(is_same)
        })
    }
}

/// The counts and sums that conditions name: `context.session.calls.TOOL` and `context.session.sums.TOOL.ARGUMENT`. Both
/// include the call that is decided on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted {
    calls: BTreeSet<String>,
    sums: BTreeMap<String, BTreeMap<String, ParameterKind>>,
}

impl Counted {
    /// All that conditions could name.
    pub(super) fn all<'t>(
        tools: impl IntoIterator<Item = (&'t String, Option<&'t Parameters>)>,
    ) -> Self {
        let mut all = Self::default();
        for (tool, parameters) in tools {
            all.calls.insert(tool.clone());
            let parameters = parameters.iter().flat_map(|parameters| &parameters.0);
            let numbers = parameters.filter(|(_, parameter)| is_number(parameter.kind));
            let numbers = numbers.map(|(name, parameter)| (name.clone(), parameter.kind));
            all.sums.insert(tool.clone(), numbers.collect());
        }
        all
    }

    /// Those of all that these conditions name.
    pub(super) fn named_by<'p>(&self, conditions: impl IntoIterator<Item = &'p Policy>) -> Self {
        let mut found = Self::default();
        for condition in conditions {
            for path in paths(condition).unwrap_or_default() {
                match path.as_slice() {
                    [_, tool] => drop(found.calls.insert(tool.clone())),
                    [_, tool, argument] => {
                        let kind = self.sums.get(tool).and_then(|all| all.get(argument));
                        // The validator has refused others.
                        if let Some(kind) = kind {
                            let sums = found.sums.entry(tool.clone()).or_default();
                            sums.insert(argument.clone(), *kind);
                        }
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// Whether a sum over calls of this tool has this argument.
    pub(super) fn adds_up(&self, tool: &str, argument: &str) -> bool {
        let sums = self.sums.get(tool);
        sums.is_some_and(|sums| sums.contains_key(argument))
    }

    /// The tools that count, each with the arguments that are added up.
    pub(super) fn tools(&self) -> impl Iterator<Item = (&String, Vec<&String>)> {
        let calls = self.calls.iter().map(|tool| (tool, Vec::new()));
        let sums = self.sums.iter();
        calls.chain(sums.map(|(tool, sums)| (tool, sums.keys().collect())))
    }

    /// The attributes of `context.session` in a schema.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let record =
            |attributes: Map<String, Value>| json!({"type": "Record", "attributes": attributes});
        let long = json!({"type": "Long"});
        let calls = self.calls.iter().map(|tool| (tool.clone(), long.clone()));
        let sums = self.sums.iter().map(|(tool, sums)| {
            let sums = sums.iter().map(|(argument, kind)| {
                let kind = match kind {
                    ParameterKind::Integer => long.clone(),
                    _ => json!({"type": "Extension", "name": "decimal"}),
                };
                (argument.clone(), kind)
            });
            (tool.clone(), record(sums.collect()))
        });
        let of = [
            ("calls", record(calls.collect())),
            ("sums", record(sums.collect())),
        ];
        let of = of
            .into_iter()
            .filter(|_| !(self.calls.is_empty() && self.sums.is_empty()));
        of.map(|(name, kind)| (name.to_owned(), kind)).collect()
    }

    /// Their values for a call under the rule of this tool of an app, and whether there are calls that must not be counted here, so that nothing is known.
    ///
    /// # Errors
    /// A sum that is not exact or has a number below zero.
    pub(super) fn values(
        &self,
        (app, own_tool): (&str, &str),
        arguments: &Arguments<'_>,
        results: &Results<'_>,
    ) -> Result<(Fields, bool), String> {
        if self.calls.is_empty() && self.sums.is_empty() {
            return Ok((Vec::new(), false));
        }
        let (mut has_more, mut calls, mut sums) = (false, Vec::new(), Vec::new());
        for tool in &self.calls {
            let past = results.permitted(app, tool);
            has_more |= past.has_more;
            let own = usize::from(tool == own_tool);
            let count = i64::try_from(past.calls.len() + own).unwrap_or(i64::MAX);
            calls.push((tool.clone(), Expression::new_long(count)));
        }
        for (tool, of_tool) in &self.sums {
            let past = results.permitted(app, tool);
            has_more |= past.has_more;
            let mut totals = Vec::new();
            for (name, kind) in of_tool {
                let own = arguments.get(name).filter(|_| tool == own_tool);
                let past = past.calls.iter().filter_map(|past| past.argument(name));
                let past = past.map(Labeled::reveal_tcb).filter(|text| *text != "null");
                let mut all = past.chain(own.map(|own| own.text()));
                // A number below zero would make room below a cap, also in a call that then failed.
                let added = |total: i64, text| {
                    let number = units(*kind, text).filter(|number| *number >= 0)?;
                    total.checked_add(number)
                };
                let total = all.try_fold(0, added).ok_or_else(|| {
                    format!("the sum of '{name}' over the calls of '{tool}' is not exact, or has a number below zero")
                })?;
                let total = match kind {
                    ParameterKind::Integer => Expression::new_long(total),
                    _ => Expression::new_decimal(Decimal(total).to_string()),
                };
                totals.push((name.clone(), total));
            }
            sums.push((tool.clone(), record(totals)?));
        }
        Ok((
            vec![("calls", record(calls)?), ("sums", record(sums)?)],
            has_more,
        ))
    }
}

/// Fields of `context.session`.
type Fields = Vec<(&'static str, Expression)>;

/// A record of Cedar.
pub(super) fn record<K: Into<String>>(
    fields: impl IntoIterator<Item = (K, Expression)>,
) -> Result<Expression, String> {
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value));
    Expression::new_record(fields).map_err(|error| error.to_string())
}

fn is_number(kind: ParameterKind) -> bool {
    matches!(
        kind,
        ParameterKind::Integer | ParameterKind::Number | ParameterKind::Amount
    )
}

/// A number in the units in which numbers of this kind are added.
fn units(kind: ParameterKind, text: &str) -> Option<i64> {
    match kind {
        ParameterKind::Integer => long(text),
        _ => Decimal::of(text).map(|decimal| decimal.0),
    }
}

/// What a condition reads below `context.session`: `["calls", TOOL]` or `["sums", TOOL, ARGUMENT]`. `None` if it uses all calls
/// or sums at once, since it is not known then what counts.
pub(super) fn paths(condition: &Policy) -> Option<BTreeSet<Vec<String>>> {
    let mut found = BTreeSet::new();
    let json = condition.to_json().ok()?;
    collect(&json, &mut found).then_some(found)
}

fn collect(json: &Value, found: &mut BTreeSet<Vec<String>>) -> bool {
    match json {
        Value::Object(object) => {
            // `a has b` is as good as `a.b`.
            let read = object.get(".").or_else(|| object.get("has"));
            let path = read.and_then(path_of);
            match path.as_deref() {
                Some(["session", "calls", _] | ["session", "sums", _, _]) => {
                    let path = path.into_iter().flatten().skip(1);
                    found.insert(path.map(str::to_owned).collect());
                    true
                }
                // As a whole: one could compare it with a number of calls that is not counted.
                Some(["session"] | ["session", "calls" | "sums", ..]) => object.contains_key("has"),
                Some(["session", ..]) => true,
                _ => object.values().all(|value| collect(value, found)),
            }
        }
        Value::Array(items) => items.iter().all(|item| collect(item, found)),
        _ => true,
    }
}

/// The names from the context to the attribute of an access.
fn path_of(access: &Value) -> Option<Vec<&str>> {
    let (left, attribute) = (access.get("left")?, access.get("attr")?.as_str()?);
    let mut path = match left.get(".") {
        Some(inner) => path_of(inner)?,
        None if left.get("Var").and_then(Value::as_str) == Some("context") => Vec::new(),
        None => return None,
    };
    path.push(attribute);
    Some(path)
}

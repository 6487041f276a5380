//! The complete rules of an app's tools. The crate `config` has filled in every default.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ifc::{ArgumentPath, Call, Counts, Effect, Label, Labeled};

use super::accepts::Accept;
use super::arguments::{Arguments, Parameters};
use super::audience::Audience;
use super::claims::Claims;
use super::conditions::Conditions;
use super::names;
use super::past::After;
use crate::labels::ResultLabels;
use crate::place::Place;

/// The rules of one app: of its tools, and of answers in its conversation.
#[derive(Debug, Clone)]
pub struct AppRules {
    /// Rules by tool.
    pub tools: BTreeMap<String, ToolRule>,
    /// The rule of the tools that are not listed; `None` denies them.
    pub other_tools: Option<ToolRule>,
    /// The limit of the final answer.
    pub answer: Label,
    /// The limit of an address in an answer that stands byte for byte in a text that was read. Others are shown inert.
    pub addresses: Label,
    /// Whether there are conditions for the app as a whole. They cannot judge a tool that is not listed, whose calls are
    /// denied then.
    pub has_conditions: bool,
    /// The meaning of the app's claims about the labels of its results; `None` is no meaning.
    pub claims: Option<Claims>,
}

impl AppRules {
    /// The rule of a tool; `None` denies it.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolRule> {
        self.tools.get(name).or(self.other_tools.as_ref())
    }

    /// The rule of a call, and the name of the tool that it stands under: `call_tool:send` for a call of `call_tool` whose
    /// rule selects by an argument that is `"send"` here. `None` denies it: there is no rule, or the argument is no text or
    /// another spelling of a case (`Send`), which the server may understand.
    pub(crate) fn rule_of<'a>(&'a self, call: &'a Call) -> Option<(&'a str, &'a ToolRule)> {
        let own = self.tool(&call.tool)?;
        let selects = own.select.as_ref();
        let value = selects.and_then(|it| call.arguments.get(it).map(Labeled::reveal_tcb));
        let Some(value) = value.filter(|value| *value != "null") else {
            return Some((&call.tool, own));
        };
        let value: String = serde_json::from_str(value).ok()?;
        let case = format!("{}:{value}", call.tool);
        if let Some((name, rule)) = self.tools.get_key_value(&case) {
            return Some((name, rule));
        }
        let is_other = |name: &String| {
            let known = name
                .strip_prefix(&call.tool)
                .and_then(|it| it.strip_prefix(':'));
            known.is_some_and(|known| spelled(known) == spelled(&value))
        };
        (!self.tools.keys().any(is_other)).then_some((&call.tool, own))
    }

    /// The rules that calls of a tool may have.
    pub(crate) fn rules_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ToolRule> {
        let own = self.tool(name);
        let selects = own.is_some_and(|own| own.select.is_some());
        let cases = self.tools.iter().filter(move |(case, _)| {
            let case = case.strip_prefix(name).filter(|_| selects);
            case.is_some_and(|case| case.starts_with(':'))
        });
        own.into_iter().chain(cases.map(|(_, rule)| rule))
    }

    /// Notes for each tool whether the rules of others depend on its calls.
    pub fn count(&mut self) {
        let mut counted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for rule in self.tools.values() {
            let conditions = rule.conditions.iter();
            for (tool, arguments) in conditions.flat_map(|it| it.counted().tools()) {
                let of_tool = counted.entry(tool.clone()).or_default();
                of_tool.extend(arguments.into_iter().cloned());
            }
            if let Some(after) = &rule.after {
                let of_tool = counted.entry(after.tool.clone()).or_default();
                of_tool.extend(after.same.iter().cloned());
            }
        }
        for (tool, arguments) in counted {
            if let Some(rule) = self.tools.get_mut(&tool) {
                let arguments = arguments.into_iter().collect();
                rule.counted = Some(Arc::new(Counts { tool, arguments }));
            }
        }
    }

    /// The rules of all tools.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ToolRule> {
        self.tools.values().chain(&self.other_tools)
    }

    /// The JSON Schema of the parameters of each tool that has a rule about them.
    pub(crate) fn schemas(&self) -> BTreeMap<String, Arc<str>> {
        let tools = self.tools.iter();
        let schemas = tools.filter_map(|(name, tool)| {
            let schema = tool.parameters.as_ref()?.schema();
            Some((name.clone(), schema.into()))
        });
        schemas.collect()
    }
}

/// A name without what servers may disregard: capitals, blanks and other marks.
fn spelled(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// The rules of one tool.
#[derive(Debug, Clone)]
pub struct ToolRule {
    /// Its effect on the world.
    pub effect: Effect,
    /// The limit of the control part. A call runs without a question if its control part flows here and each data argument
    /// flows to its own limit.
    pub limit: Label,
    /// The place of the limit, or of the tool if the limit is a default.
    pub place: Option<Place>,
    /// The label of what a call moves by itself, inside of the app. It is in the call's label.
    pub carries: Label,
    /// Raises the limit of every part of a call by what its recipients may read.
    pub audience: Option<Audience>,
    /// The arguments that a call may have; `None` allows any.
    pub parameters: Option<Parameters>,
    /// The limits of the data arguments, by their places.
    pub arguments: BTreeMap<ArgumentPath, ArgumentLimit>,
    /// The argument whose value selects another rule: that of `TOOL:VALUE`, if there is one.
    pub select: Option<String>,
    /// The people who may allow its calls where they are asked about; `None` is the user.
    pub approvers: Option<Arc<[String]>>,
    /// The arguments by which two irreversible calls are the same; `None` is all of the control part.
    pub once: Option<Arc<[String]>>,
    /// The arguments that say who or what a call is about, so that no stranger may choose them by a value of a form. `None`:
    /// by name all but content, times and numbers; none of a tool that reads.
    pub destinations: Option<Vec<String>>,
    /// Whether its result changes by itself, so that the same read is no repetition.
    pub poll: bool,
    /// The tool that must have succeeded before.
    pub after: Option<After>,
    /// How a call counts, if rules depend on whether it was permitted; see [`AppRules::count`].
    pub counted: Option<Arc<Counts>>,
    /// Conditions of the tool and of its app.
    pub conditions: Option<Conditions>,
    /// The labels of its results.
    pub result: ResultLabels,
}

impl ToolRule {
    /// Checks that a call's arguments are those of `parameters`, with values of their kinds.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub(crate) fn check(&self, call: &Call) -> Result<(), String> {
        let arguments = Arguments::read(&call.arguments)?;
        let parameters = self.parameters.as_ref();
        parameters.map_or(Ok(()), |parameters| parameters.check(&arguments))
    }

    /// The data arguments: the places with a limit of their own in arguments at which no condition looks.
    pub(crate) fn data(&self) -> impl Iterator<Item = &ArgumentPath> + Clone {
        let paths = self.arguments.keys();
        paths.filter(|path| !self.is_looked_at(path))
    }

    /// Whether an argument says who or what a call is about.
    pub(crate) fn is_destination(&self, argument: &str, value: &str) -> bool {
        match &self.destinations {
            Some(named) => named.iter().any(|name| name == argument),
            // What a read returns has labels of its own, wherever it looked. An object or a list can hold a destination,
            // under any name of its own.
            None => {
                !self.effect.reads() && (names::may_name(argument) || value.starts_with(['{', '[']))
            }
        }
    }

    /// Whether the control part of a call says who or what it is about.
    pub(crate) fn has_destination(&self, call: &Call) -> bool {
        let is_data = |name: &str| self.data().any(|path| *path == ArgumentPath::of(name));
        let is_inside =
            |path: &ArgumentPath, name: &str| !path.is_whole() && path.argument() == name;
        // A string of JSON holds what an object would.
        let holds_json = |name: &str, value: &str| {
            value.starts_with('"') && self.arguments.keys().any(|path| is_inside(path, name))
        };
        call.arguments.iter().any(|(name, value)| {
            let value = value.reveal_tcb();
            let names_none = matches!(value, "null" | "true" | "false");
            let json = if holds_json(name, value) { "{" } else { value };
            !names_none && self.is_destination(name, json) && !is_data(name)
        })
    }

    /// Whether a data argument says who or what the call is about.
    pub(crate) fn is_data_destination(&self, path: &ArgumentPath, call: &Call) -> bool {
        let whole = call.arguments.get(path.argument()).cloned();
        let values = (call.arguments.at(path)).unwrap_or(Vec::from_iter(whole));
        let mut values = values.iter().map(Labeled::reveal_tcb);
        values.any(|value| self.is_destination(path.last_name(), value))
    }

    /// The limit with everything that permits in its conditions and the recipients of a call could add.
    #[must_use]
    pub fn highest_limit(&self) -> Label {
        let raised = self.conditions.as_ref().map(Conditions::raised);
        let audience = self.audience.as_ref().map(|it| it.readers.all());
        raised
            .into_iter()
            .chain(audience)
            .fold(self.limit.clone(), |all, more| all.join(&more))
    }

    /// Whether a condition, an audience or `after` looks at the argument that a path is in.
    pub(crate) fn is_looked_at(&self, path: &ArgumentPath) -> bool {
        let name = path.argument();
        let conditions = self.conditions.as_ref();
        let mut audiences = self.audiences();
        conditions.is_some_and(|conditions| conditions.looks_at(name))
            || audiences.any(|audience| audience.of.iter().any(|it| it == name))
            || (self.after.iter()).any(|after| after.same.iter().any(|it| it == name))
    }

    /// The audiences of the tool and of its arguments.
    pub fn audiences(&self) -> impl Iterator<Item = &Audience> {
        let arguments = self.arguments.values().flat_map(|own| &own.audience);
        self.audience.iter().chain(arguments)
    }
}

/// The limit of a data argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentLimit {
    /// The limit.
    pub label: Label,
    /// Values for which it is higher.
    pub accepts: Vec<Accept>,
    /// Raises it by what the recipients of the call may read.
    pub audience: Option<Audience>,
    /// The place of the rule.
    pub place: Place,
}

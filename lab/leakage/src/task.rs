//! Tasks as data. SCHEMA.md describes the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::Arguments;

/// Categories of private data.
pub type Categories = BTreeSet<String>;

/// The tasks of one domain.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFile {
    /// Exchanges that tasks begin after, by name.
    pub prior: BTreeMap<String, Prior>,
    /// The open tasks.
    #[serde(rename = "task")]
    pub tasks: Vec<Task>,
    /// What seeded tasks are made from.
    #[serde(rename = "template")]
    pub templates: Vec<Value>,
}

/// An exchange before the task: it puts private data into the conversation, and depends on none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// What the user said.
    pub user: String,
    /// The calls that were made.
    pub calls: Vec<PriorCall>,
    /// What the assistant said, with `{tool:/pointer}` for parts of results.
    pub answer: String,
}

/// A call of an earlier exchange.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorCall {
    /// The tool.
    pub tool: String,
    /// Its arguments, which the user said.
    #[serde(default)]
    pub args: Arguments,
}

/// One task: what the user wants, and what truly has to be done for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its name.
    pub id: String,
    /// How private data propagates.
    pub pattern: Pattern,
    /// The exchanges before it, by name, oldest first.
    pub prior: Vec<String>,
    /// What the user says.
    pub user: String,
    /// What the assistant says in the end, with `{tool:/pointer}` for what the user must be told.
    pub answer: String,
    /// The ground truth: the calls, in order.
    pub calls: Vec<TrueCall>,
}

/// The propagation patterns of RTBAS §3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// No private data is needed.
    None,
    /// The user asks for the very data.
    Explicit,
    /// The data is needed, and nobody names it.
    Implicit,
    /// The data decides about something else.
    Reasoning,
    /// A tool's description asks for the data.
    Pulled,
}

/// A call of the ground truth.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrueCall {
    /// The tool.
    pub tool: String,
    /// What must hold for it to be made.
    #[serde(rename = "if")]
    pub condition: Option<Condition>,
    /// The private categories that decide whether it is made.
    #[serde(default)]
    pub control: Categories,
    /// Its arguments.
    #[serde(default)]
    pub args: BTreeMap<String, Argument>,
}

/// A number that must be large enough.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Where it stands.
    pub at: Place,
    /// What it must be above.
    pub above: f64,
}

/// An argument: what its value is, and which private categories truly flow into it.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "WrittenArgument")]
pub struct Argument {
    /// The value.
    pub source: ValueSource,
    /// The categories.
    pub flows: Categories,
}

/// How the value of an argument is found.
#[derive(Debug, Clone)]
pub enum ValueSource {
    /// The user said it, or it follows from what the user said.
    Fixed(Value),
    /// A text with `{tool:/pointer}` in it. A lone one keeps its JSON type.
    Text(String),
    /// What stands at a place decides.
    Choice(Place, BTreeMap<String, Value>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenArgument {
    value: Option<Value>,
    text: Option<String>,
    choose: Option<Place>,
    #[serde(default)]
    cases: BTreeMap<String, Value>,
    #[serde(default)]
    flows: Categories,
}

impl TryFrom<WrittenArgument> for Argument {
    type Error = String;

    fn try_from(written: WrittenArgument) -> Result<Self, String> {
        let WrittenArgument {
            value,
            text,
            choose,
            cases,
            flows,
        } = written;
        let source = match (value, text, choose, cases.is_empty()) {
            (Some(value), None, None, true) => ValueSource::Fixed(value),
            (None, Some(text), None, true) => ValueSource::Text(text),
            (None, None, Some(at), false) => ValueSource::Choice(at, cases),
            _ => return Err("an argument has one of value, text, and choose with cases".to_owned()),
        };
        Ok(Self { source, flows })
    }
}

/// A place in the newest result of a tool: `tool:/json/pointer`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Place {
    /// The tool.
    pub tool: String,
    /// The JSON pointer.
    pub pointer: String,
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            Some((tool, pointer)) if pointer.starts_with('/') => Ok(Self {
                tool: tool.to_owned(),
                pointer: pointer.to_owned(),
            }),
            _ => Err(format!("{text} is no tool:/pointer")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tool, self.pointer)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Words(String),
    At(Place),
}

/// The parts of a text with `{tool:/pointer}` in it.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after
            .split_once('}')
            .ok_or_else(|| format!("no }} in {text}"))?;
        if !before.is_empty() {
            found.push(Piece::Words(before.to_owned()));
        }
        found.push(Piece::At(place.to_owned().try_into()?));
        rest = after;
    }
    if !rest.is_empty() {
        found.push(Piece::Words(rest.to_owned()));
    }
    Ok(found)
}

impl Argument {
    /// The places that it is made from.
    pub(crate) fn places(&self) -> Vec<Place> {
        match &self.source {
            ValueSource::Fixed(_) => Vec::new(),
            ValueSource::Text(text) => places(text),
            ValueSource::Choice(at, _) => vec![at.clone()],
        }
    }
}

/// The places in a text. One that is wrong is found when the task is read.
pub(crate) fn places(text: &str) -> Vec<Place> {
    let pieces = pieces(text).unwrap_or_default().into_iter();
    let places = pieces.filter_map(|piece| match piece {
        Piece::At(place) => Some(place),
        Piece::Words(_) => None,
    });
    places.collect()
}

impl Task {
    /// Whether its texts can be read.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |error: String| anyhow::anyhow!("{}: {error}", self.id);
        pieces(&self.answer).map_err(wrong)?;
        let arguments = self.calls.iter().flat_map(|call| call.args.values());
        for argument in arguments {
            if let ValueSource::Text(text) = &argument.source {
                pieces(text).map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// Whether any private data is needed.
    pub fn is_private(&self) -> bool {
        self.pattern != Pattern::None
    }
}

impl TaskFile {
    /// Reads a domain's tasks.
    pub fn parse(text: &str) -> Result<Self> {
        let file: Self = toml::from_str(text)?;
        file.tasks.iter().try_for_each(Task::check)?;
        for name in file.tasks.iter().flat_map(|task| &task.prior) {
            ensure!(file.prior.contains_key(name), "there is no exchange {name}");
        }
        Ok(file)
    }

    /// The tasks of the templates for a seed: the same for the same seed, on every machine.
    pub fn seeded(&self, seed: u64) -> Result<Vec<Task>> {
        // One generator for all templates in their order, so that a template added at the end changes no other task.
        let mut random = SplitMix(seed);
        self.templates
            .iter()
            .map(|template| generate(template, &mut random))
            .collect()
    }
}

/// One task of a template: a row of each of its choices, and more exchanges before it, in any order.
fn generate(template: &Value, random: &mut SplitMix) -> Result<Task> {
    let Value::Object(mut fields) = template.clone() else {
        bail!("a template is a table");
    };
    let more = fields.remove("more").context("a template has `more`")?;
    let mut more: Vec<String> = serde_json::from_value(more)?;
    let choices = fields
        .remove("choices")
        .context("a template has `choices`")?;
    let choices: Vec<Vec<Arguments>> = serde_json::from_value(choices)?;
    let mut chosen = Arguments::new();
    for rows in &choices {
        let row = rows
            .get(random.below(rows.len()))
            .context("a choice is empty")?;
        chosen.extend(row.clone());
    }
    let mut task: Task = serde_json::from_value(fill(&Value::Object(fields), &chosen))?;
    task.check()?;
    // Each further exchange comes with a chance of one half.
    more.retain(|_| random.below(2) == 0);
    task.prior.extend(more);
    // Fisher and Yates.
    for at in (1..task.prior.len()).rev() {
        task.prior.swap(at, random.below(at + 1));
    }
    Ok(task)
}

/// Puts what was chosen in the place of each `$name`. A text that is nothing else takes its type.
fn fill(value: &Value, chosen: &Arguments) -> Value {
    match value {
        Value::String(text) => {
            let whole = text.strip_prefix('$').and_then(|name| chosen.get(name));
            whole
                .cloned()
                .unwrap_or_else(|| Value::from(filled(text, chosen)))
        }
        Value::Array(items) => items.iter().map(|item| fill(item, chosen)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let filled = fields.map(|(name, field)| (name.clone(), fill(field, chosen)));
            Value::Object(filled.collect())
        }
        other => other.clone(),
    }
}

fn filled(text: &str, chosen: &Arguments) -> String {
    // The longest names first, so that `$at` does not cut `$attempt`.
    let mut names: Vec<(&String, &Value)> = chosen.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names
        .into_iter()
        .fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("${name}"), &words(value))
        })
}

/// A value as a part of a text.
pub(crate) fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Sebastiano Vigna's `SplitMix64`: of our own, so that a seed means the same tasks with every version of a library.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; zero if there is none. The choices are few, so that the remainder's bias is none.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }
}

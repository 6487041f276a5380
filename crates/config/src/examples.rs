//! Example calls that a rule must allow, ask about or deny. They are checked whenever the configuration is read.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use ifc::{ArgumentPath, Arguments, Call, Label, PastCalls, PermittedCall, Results};
use policy::{AppPolicy, Front, Judgement, Place, SessionFacts, Verdict};
use toml::Spanned;
use toml::de::DeValue;

use crate::call_rules::argument_path;
use crate::diagnostics::{File, Sink};
use crate::json::json;
use crate::toml_reader::Table;
use crate::watch::Takes;

/// A call and the expected verdict.
#[derive(Debug, Clone)]
pub struct Example {
    /// Its place.
    pub place: Place,
    /// The call's arguments, as JSON text.
    pub arguments: String,
    /// The label under which the call is made.
    pub label: Label,
    /// The labels of single arguments, by path.
    pub labels: BTreeMap<ArgumentPath, Label>,
    /// The session of the call.
    pub session: SessionFacts,
    /// The calls of the app that ran before it in the session, trusted and public.
    pub before: Vec<Call>,
    /// The expected verdict.
    pub expect: Verdict,
    /// The place of errors about it.
    pub(crate) span: Range<usize>,
    pub(crate) file: File,
}

/// The outcome of an example.
#[derive(Debug, Clone)]
pub struct ExampleOutcome {
    /// The app.
    pub app: String,
    /// The tool.
    pub tool: String,
    /// The example.
    pub example: Example,
    /// The verdict of the rules.
    pub found: Judgement,
}

impl ExampleOutcome {
    /// Whether it came out as expected.
    pub fn passed(&self) -> bool {
        self.found.verdict == self.example.expect
    }
}

impl fmt::Display for ExampleOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            app,
            tool,
            example,
            found,
        } = self;
        let (expect, verdict) = (example.expect.name(), found.verdict.name());
        write!(
            f,
            "example of {app}.{tool}: expected {expect}, found {verdict}"
        )?;
        write!(f, " by the rule {}", found.rule)?;
        match &found.place {
            Some(place) => write!(f, " ({place})"),
            None => Ok(()),
        }
    }
}

impl Example {
    /// Evaluates it as a call of this tool of this app.
    pub(crate) fn run(&self, policy: &AppPolicy, app: &str, tool: &str) -> ExampleOutcome {
        let found = match Arguments::parse(&self.arguments, &self.label) {
            Ok(arguments) => {
                let labels = self.labels.iter();
                let arguments =
                    labels.fold(arguments, |all, (path, label)| all.restrict_at(path, label));
                let call = Call {
                    app: app.to_owned(),
                    tool: tool.to_owned(),
                    arguments,
                    label: self.label.clone(),
                };
                let policy = policy.clone().with_session(self.session.clone());
                // No results precede an example, so no value of an `among` is accepted.
                let before = self.before.iter();
                let before = before.map(|call| PermittedCall::example(call, true));
                let past = PastCalls::from(before.collect::<Vec<_>>());
                policy.judge_after(&Results::none().after(&past), &ifc::Sink::Call(&call))
            }
            // Such a call never reaches the policy. An example may expect the denial.
            Err(error) => Judgement::denied(format!("{app}.{tool}"), None, error.to_string()),
        };
        ExampleOutcome {
            app: app.to_owned(),
            tool: tool.to_owned(),
            example: self.clone(),
            found,
        }
    }
}

/// Reports a failed example: the rule or the example is wrong.
pub(crate) fn report(sink: &Sink, outcome: &ExampleOutcome) {
    if outcome.passed() {
        return;
    }
    let reason = outcome.found.reason.as_ref();
    let why = reason.map_or(String::new(), |reason| format!("because {reason}; "));
    let help = format!("{why}correct the rule or the example; `sluice policy test` shows more");
    sink.error(
        &outcome.example.file,
        &outcome.example.span,
        outcome.to_string(),
        help,
    );
}

/// Reads `[[….examples]]`.
pub(crate) fn read(table: &Table<'_>) -> Option<Vec<Example>> {
    table.value("examples")?;
    let tables = table.tables("examples");
    Some(tables.iter().filter_map(example).collect())
}

fn example(table: &Table<'_>) -> Option<Example> {
    let verdicts = Verdict::ALL.map(|verdict| (verdict.name(), verdict));
    let expect = table.choice("expect", &verdicts);
    table.needs("expect", "expect = \"allow\", \"ask\" or \"deny\"");
    table.takes("arguments", Takes::Free);
    let arguments = match table.value("arguments") {
        None => Some("{}".to_owned()),
        Some(value) => arguments(table, value),
    };
    // Without a label the call is made from the user's own words alone.
    let label = table.label("label").unwrap_or(Label::bottom());
    let mut labels = BTreeMap::new();
    for (name, label) in table.named_labels("labels") {
        let Some(path) = argument_path(table, &name) else {
            continue;
        };
        if !has_argument(arguments.as_deref(), &path) {
            let message = format!("the example's call has no argument '{}'", name.value);
            let help = "labels = { NAME = [\"LABEL\"] } names arguments that stand in arguments";
            table.error(&name.span, message, help);
        }
        labels.insert(path, label);
    }
    let session = session(table);
    let before = table.tables("before");
    let before = before.iter().filter_map(earlier).collect();
    table.finish();
    let context = &table.context;
    Some(Example {
        place: context.place(&table.span),
        arguments: arguments?,
        label,
        labels,
        session,
        before,
        expect: expect?,
        span: table.span.clone(),
        file: context.file.clone(),
    })
}

/// An earlier call: `{ tool = "approve", arguments = { ticket = 7 } }`.
fn earlier(table: &Table<'_>) -> Option<Call> {
    let tool = table.string("tool");
    table.needs("tool", "tool = \"TOOL\", a tool of the same app");
    table.takes("arguments", Takes::Free);
    let text = match table.value("arguments") {
        None => "{}".to_owned(),
        Some(value) => arguments(table, value)?,
    };
    table.finish();
    let read = Arguments::parse(&text, &Label::bottom());
    let read = read.map_err(|error| table.wrong(error.to_string(), "write them as a table"));
    Some(Call {
        app: table.context.app?.name.to_owned(),
        tool: tool?.value.to_owned(),
        arguments: read.ok()?,
        label: Label::bottom(),
    })
}

/// Whether the arguments have a value at this path. Arguments that cannot be read were reported.
fn has_argument(arguments: Option<&str>, path: &ArgumentPath) -> bool {
    let read = arguments.and_then(|text| Arguments::parse(text, &Label::bottom()).ok());
    let values = read.and_then(|arguments| arguments.at(path));
    values.is_some_and(|values| !values.is_empty())
}

/// A table of arguments, or a string with their JSON text, valid or not.
fn arguments(table: &Table<'_>, value: &Spanned<DeValue<'_>>) -> Option<String> {
    let found = match value.get_ref() {
        // Not parsed: the example may be about invalid JSON.
        DeValue::String(text) => return Some(text.to_string()),
        DeValue::Table(_) => json(value).ok(),
        _ => {
            table.wrong_type("arguments", value, "a table, or JSON text as a string");
            return None;
        }
    };
    if found.is_none() {
        let message = "the arguments cannot be written as JSON";
        let help = "write a date as a string; numbers are finite and of at most 64 bits, and values nest at most 64 levels";
        table.error(&value.span(), message, help);
    }
    found.map(|value| value.to_string())
}

fn session(table: &Table<'_>) -> SessionFacts {
    let mut facts = SessionFacts::default();
    if let Some(table) = table.table("session") {
        facts.attended = table.boolean("attended").unwrap_or(facts.attended);
        let fronts = Front::ALL.map(|front| (front.name(), front));
        facts.front = table.choice("front", &fronts).unwrap_or(facts.front);
        facts.user = table.string("user").map(|user| user.value.into());
        table.finish();
    }
    facts
}

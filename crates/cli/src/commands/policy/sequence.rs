//! Tests of a policy over sequences: calls and results one after another, as the guard of a conversation decides on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use config::Config;
use hub::{CallOutcome, Guard};
use ifc::{
    Answer, Arguments, Call, CallId, Decision, Denial, History, Label, Message, Monitor, Permit,
    Question, Relevance, Sink, Until,
};
use policy::Verdict;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toml::Spanned;

use crate::words::set;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestFile {
    test: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    name: Spanned<String>,
    steps: Vec<Step>,
}

/// What the user says, with which a turn begins, or a call of `APP.TOOL` (`TOOL`, if the configuration has one app).
#[derive(Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Step {
    pub(super) user: Option<String>,
    pub(super) call: String,
    /// A table, or JSON text.
    pub(super) arguments: Value,
    /// Texts of earlier steps that the control part is made from. Without it and `label`, it may depend on everything.
    pub(super) uses: Option<Vec<String>>,
    /// The label of the call, in the place of `uses`.
    pub(super) label: Option<Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, Vec<String>>,
    /// `allow` (the default), `ask` or `deny`.
    pub(super) expect: Option<String>,
    /// The taints beyond the limit.
    pub(super) because: Option<BTreeSet<String>>,
    /// The rule that decides, or the reason of a denial.
    pub(super) rule: Option<String>,
    /// What the user says to the question, by its name.
    pub(super) answer: Option<String>,
    /// Text, or what becomes JSON. Without it, a result has the worst label of its tool.
    pub(super) result: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) error: bool,
}

/// What a test came to.
pub(crate) struct Outcome {
    name: String,
    /// The line of its name.
    line: usize,
    pub(crate) difference: Option<Difference>,
}

/// The first step that came out otherwise, counted from 1.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    step: usize,
    call: String,
    expected: String,
    found: String,
}

const ANSWERS: [Answer; 6] = [
    Answer::No,
    Answer::Once,
    Answer::TrustValue,
    Answer::Trust(Until::Task),
    Answer::TrustSource,
    Answer::Session,
];

/// A decision.
pub(super) struct Found {
    pub(super) verdict: Verdict,
    pub(super) because: BTreeSet<String>,
    by: String,
}

/// Runs the tests of a file. A test with a mistake fails by itself.
///
/// # Errors
/// The text is no file of tests.
pub(crate) fn run(config: &Config, text: &str) -> Result<Vec<Outcome>> {
    let file: TestFile = toml::from_str(text)?;
    let outcome = |test: Test| {
        let before = text.get(..test.name.span().start).unwrap_or_default();
        Outcome {
            line: before.matches('\n').count() + 1,
            name: test.name.into_inner(),
            difference: difference(config, &test.steps),
        }
    };
    Ok(file.test.into_iter().map(outcome).collect())
}

fn difference(config: &Config, steps: &[Step]) -> Option<Difference> {
    let mut sequence = Sequence::new(config);
    (1..).zip(steps).find_map(|(number, step)| {
        let found = match sequence.step(step) {
            Ok(None) => return None,
            Ok(Some(found)) => found,
            Err(error) => format!("a mistake in the test: {error:#}"),
        };
        Some(Difference {
            step: number,
            call: format!("{} {}", step.call, step.arguments()),
            expected: described(step.expect(), step.because.as_ref(), step.rule.as_deref()),
            found,
        })
    })
}

fn described(verdict: &str, because: Option<&BTreeSet<String>>, by: Option<&str>) -> String {
    let because = because.map(|names| set(&names.iter().cloned().collect::<Vec<_>>()));
    let because = because.map(|names| format!(" because of {names}"));
    let by = by.map(|by| format!(" by {by}"));
    format!(
        "{verdict}{}{}",
        because.unwrap_or_default(),
        by.unwrap_or_default()
    )
}

impl Step {
    fn arguments(&self) -> String {
        match &self.arguments {
            Value::Null => "{}".to_owned(),
            value => written(value),
        }
    }

    fn expect(&self) -> &str {
        self.expect.as_deref().unwrap_or("allow")
    }
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let because = Some(&self.because).filter(|names| !names.is_empty());
        f.write_str(&described(self.verdict.name(), because, Some(&self.by)))
    }
}

/// One conversation, whose steps its guard decides on.
pub(super) struct Sequence<'a> {
    config: &'a Config,
    guard: Guard,
    apps: BTreeSet<String>,
    /// What the user said.
    said: Vec<String>,
}

impl<'a> Sequence<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        Self {
            config,
            guard: Guard {
                history: History::new(Vec::new()),
                monitor: Monitor::new().with_trust(&config.lattice),
                policy: Arc::new(config.policy()),
            },
            apps: config.apps.keys().cloned().collect(),
            said: Vec::new(),
        }
    }

    /// Makes a step. Returns the decision if it is not the expected one.
    fn step(&mut self, step: &Step) -> Result<Option<String>> {
        if let Some(user) = &step.user {
            ensure!(step.call.is_empty(), "a step has either `user` or `call`");
            self.guard.monitor.begin_turn();
            self.said.push(user.clone());
            return Ok(None);
        }
        let expect = Verdict::ALL.iter().find(|it| it.name() == step.expect());
        let expect = *expect.context("`expect` is allow, ask or deny")?;
        let (found, runs) = self.make(step)?;
        let is_expected = found.verdict == expect
            && (step.because.as_ref()).is_none_or(|names| *names == found.because)
            && step.rule.as_ref().is_none_or(|rule| *rule == found.by);
        if !is_expected {
            return Ok(Some(found.to_string()));
        }
        let is_asked = step.answer.is_none() || expect == Verdict::Ask;
        ensure!(is_asked, "it has an answer, and no question is asked");
        let is_made = runs || step.result.is_none();
        ensure!(is_made, "it has a result, and the call does not run");
        Ok(None)
    }

    /// Makes a call. Returns the decision, and whether the call runs.
    pub(super) fn make(&mut self, step: &Step) -> Result<(Found, bool)> {
        let (mut id, decision) = self.decide(step)?;
        let (found, permit) = match decision {
            Decision::Allow(permit) => (allowed(&permit), Some(permit)),
            Decision::Deny(denial) => (self.denied(&denial), None),
            Decision::Ask(question) => {
                let found = self.asked(&question);
                let answer = match step.answer.as_deref() {
                    None => Answer::No,
                    Some(name) => *ANSWERS
                        .iter()
                        .find(|it| it.name() == name)
                        .context("`answer` is once, value, trust, source, session or no")?,
                };
                let permit = match answer {
                    Answer::TrustValue | Answer::Trust(_) | Answer::TrustSource => {
                        let (again, permit) = self.trust(question, answer, step)?;
                        id = again;
                        Some(permit)
                    }
                    _ => self.answer(question, answer)?,
                };
                (found, permit)
            }
        };
        let Some(permit) = permit else {
            let label = self.guard.history.label();
            self.guard.history.push_note(&label, id, "not executed");
            return Ok((found, false));
        };
        let receipt = permit.receipt();
        let call = permit.spend();
        let app = self.config.apps.get(&call.app);
        let limit = app.map_or(0, |app| app.limits.result_bytes);
        let outcome = match &step.result {
            Some(result) => CallOutcome::Returned {
                text: written(result),
                is_error: step.error,
                claims: Vec::new(),
                images: Vec::new(),
            },
            None => CallOutcome::Unknown(String::new()),
        };
        outcome.note(&receipt);
        self.guard.receive(id, &call, outcome, limit);
        self.guard.endorse(&self.apps);
        Ok((found, true))
    }

    /// Enters the call and decides on it.
    fn decide(&mut self, step: &Step) -> Result<(CallId, Decision)> {
        let call = self.call(step)?;
        let id = self.guard.enter(&call);
        Ok((id, self.guard.decide(&Relevance::Everything, call)))
    }

    /// The call under the labels that the step says.
    fn call(&self, step: &Step) -> Result<Call> {
        let everything = self.guard.history.label();
        let label = match (&step.label, &step.uses) {
            (Some(_), Some(_)) => bail!("a step has either `label` or `uses`"),
            (Some(names), None) => self.label(names)?,
            (None, Some(texts)) => self.label_of(texts)?,
            (None, None) => everything.clone(),
        };
        let (app, tool) = self.named(&step.call)?;
        let mut call = Call {
            app: app.to_owned(),
            tool: tool.to_owned(),
            arguments: Arguments::parse(&step.arguments(), &label)?,
            label,
        };
        let rule = self.guard.rule(&Sink::Call(&call)).ok();
        let data = rule.iter().flat_map(|rule| rule.arguments.keys());
        let data = data.filter(|path| !step.labels.contains_key(&path.to_string()));
        // A data argument may be made of everything, as a draft is.
        for path in data.filter(|_| step.label.is_none()) {
            call.arguments = call.arguments.restrict_at(path, &everything);
        }
        for (path, names) in &step.labels {
            let parsed = path.parse().ok();
            let parsed = parsed.with_context(|| format!("'{path}' is no path of an argument"))?;
            call.arguments = call.arguments.restrict_at(&parsed, &self.label(names)?);
        }
        Ok(call)
    }

    /// The app and the tool of a call.
    fn named<'c>(&'c self, call: &'c str) -> Result<(&'c str, &'c str)> {
        let mut apps = self.apps.iter();
        match (call.split_once('.'), apps.next(), apps.next()) {
            (Some((app, tool)), ..) if self.apps.contains(app) => Ok((app, tool)),
            (_, Some(app), None) if !call.is_empty() => Ok((app, call)),
            _ => bail!("`call` is APP.TOOL with an app of the configuration, and not '{call}'"),
        }
    }

    fn label(&self, names: &[String]) -> Result<Label> {
        let names = names.iter().map(String::as_str);
        Ok(self.config.lattice.labels(names)?)
    }

    /// The join of the labels of these texts, wherever they stand in results.
    fn label_of(&self, texts: &[String]) -> Result<Label> {
        let mut joined = Label::bottom();
        for text in texts.iter().map(String::as_str) {
            let mut is_known = self.said.iter().any(|said| said.contains(text));
            for (label, message) in self.guard.history.messages() {
                let Message::Result { content, .. } = message else {
                    continue;
                };
                for (at, _) in content.reveal_tcb().match_indices(text) {
                    let part = content.slice(at..at + text.len());
                    let part = part.map_or_else(|| content.label(), |part| part.label());
                    joined = joined.join(label).join(&part);
                    is_known = true;
                }
            }
            ensure!(
                is_known,
                "no earlier step has the text '{text}', which it uses"
            );
        }
        Ok(joined)
    }

    fn names(&self, label: &Label) -> BTreeSet<String> {
        self.config.lattice.describe(label).into_iter().collect()
    }

    fn asked(&self, question: &Question) -> Found {
        Found {
            verdict: Verdict::Ask,
            because: self.names(question.excess()),
            by: question.rule().name.clone(),
        }
    }

    fn denied(&self, denial: &Denial) -> Found {
        let (because, by) = match denial {
            Denial::Exceeded { rule, excess } => (self.names(excess), rule.clone()),
            other => (BTreeSet::new(), other.to_string()),
        };
        Found {
            verdict: Verdict::Deny,
            because,
            by,
        }
    }

    /// What follows from the user's answer.
    fn answer(&self, question: Question, answer: Answer) -> Result<Option<Permit>> {
        match self.guard.permit(question, answer) {
            Ok(permit) => Ok(Some(permit)),
            Err(_) if answer == Answer::No => Ok(None),
            Err(denial) => bail!("the question does not offer '{}': {denial}", answer.name()),
        }
    }

    /// The user trusts what is in the way, and the call is made anew from texts whose labels have fallen.
    fn trust(
        &mut self,
        question: Question,
        answer: Answer,
        step: &Step,
    ) -> Result<(CallId, Permit)> {
        let monitor = &self.guard.monitor;
        let vouched = monitor.vouch_tcb(question, answer, &self.apps);
        ensure!(
            vouched.is_ok(),
            "the question does not offer '{}'",
            answer.name()
        );
        self.guard.history.take_back();
        self.guard.endorse(&self.apps);
        match self.decide(step)? {
            (id, Decision::Allow(permit)) => Ok((id, permit)),
            (_, Decision::Ask(question)) => bail!("trust does not help: {}", self.asked(&question)),
            (_, Decision::Deny(denial)) => bail!("trust does not help: {denial}"),
        }
    }
}

fn allowed(permit: &Permit) -> Found {
    let by = permit.basis().to_string();
    Found {
        verdict: Verdict::Allow,
        because: BTreeSet::new(),
        by: by.strip_prefix("policy ").unwrap_or(&by).to_owned(),
    }
}

impl Outcome {
    /// One line of `--json`, and the lines for a person.
    pub(super) fn shown(&self, file: &Path) -> (Value, String) {
        let Self {
            name,
            line,
            difference,
        } = self;
        let value = json!({
            "kind": "test", "passed": difference.is_none(), "file": file, "line": line, "name": name,
            "difference": difference,
        });
        let mark = if difference.is_some() {
            "FAILED"
        } else {
            "ok    "
        };
        let mut text = format!("{mark} {name}  {}:{line}", file.display());
        if let Some(it) = difference {
            text += &format!("\n       step {}: {}", it.step, it.call);
            text += &format!("\n       - {}\n       + {}", it.expected, it.found);
        }
        (value, text)
    }
}

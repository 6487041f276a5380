//! Tests of a policy over sequences: calls and results one after another, as the guard of a conversation decides on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use config::{Config, did_you_mean};
use hub::{CallOutcome, Guard};
use ifc::{
    Answer, Arguments, Call, CallId, Decision, Denial, History, Label, Message, Monitor, Permit,
    Question, Relevance, Sink, Until,
};
use policy::{SessionFacts, Verdict};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::words::set;

/// A test. Its steps are read one by one: a mistake in one hides none in another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    #[serde(rename = "name")]
    _name: String,
    #[serde(default)]
    session: Session,
    steps: Vec<Spanned<toml::Value>>,
}

/// The session of a test.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Session {
    /// Its user [default: that of the configuration].
    pub(super) user: Option<String>,
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
    /// All mistakes in it, or else the first step that came out otherwise.
    pub(crate) differences: Vec<Difference>,
}

/// A step that came out otherwise, counted from 1, or a mistake in it; 0 is the test itself.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    step: usize,
    line: usize,
    call: String,
    /// `None` for a mistake.
    expected: Option<String>,
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
    pub(super) by: String,
}

/// Runs the tests of a file. A test with a mistake fails by itself.
///
/// # Errors
/// The text is no file of tests.
pub(crate) fn run(config: &Config, text: &str) -> Result<Vec<Outcome>> {
    let mut tests = Vec::new();
    for (key, value) in DeTable::parse(text)?.into_inner() {
        match value.into_inner() {
            DeValue::Array(all) if key.as_ref() == "test" => tests.extend(all),
            _ => bail!(
                "tests are tables [[test]], and there is a '{}'",
                key.as_ref()
            ),
        }
    }
    ensure!(!tests.is_empty(), "it has no [[test]]");
    let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
    let outcome = |test: Spanned<DeValue<'_>>| {
        let name = test.as_ref().as_table().and_then(|it| it.get("name"));
        Outcome {
            line: line(name.map_or(test.span(), Spanned::span).start),
            name: name
                .and_then(|it| it.as_ref().as_str())
                .unwrap_or("(no name)")
                .to_owned(),
            differences: differences(config, test, &line),
        }
    };
    Ok(tests.into_iter().map(outcome).collect())
}

fn differences(
    config: &Config,
    test: Spanned<DeValue<'_>>,
    line: &dyn Fn(usize) -> usize,
) -> Vec<Difference> {
    let mistake = |step: usize, at: usize, error: anyhow::Error| Difference {
        step,
        line: line(at),
        call: String::new(),
        expected: None,
        found: format!("a mistake in the test: {error:#}"),
    };
    let at = test.span().start;
    let test: Test = match read(ValueDeserializer::from(test)) {
        Ok(test) => test,
        Err(error) => return vec![mistake(0, at, error)],
    };
    let mut sequence = Sequence::new(config, &test.session);
    let (mut steps, mut mistakes) = (Vec::new(), Vec::new());
    for (number, step) in (1..).zip(test.steps) {
        let at = step.span().start;
        let step = read(step.into_inner());
        match step.and_then(|step| sequence.check(&step).map(|()| step)) {
            Ok(step) => steps.push((number, at, step)),
            Err(error) => mistakes.push(mistake(number, at, error)),
        }
    }
    if !mistakes.is_empty() {
        return mistakes;
    }
    if steps.iter().all(|(.., step)| step.call.is_empty()) {
        return vec![mistake(0, at, anyhow!("no step has a `call`"))];
    }
    let difference = steps.iter().find_map(|(number, at, step)| {
        Some(match sequence.step(step).transpose()? {
            Err(error) => mistake(*number, *at, error),
            Ok(found) => Difference {
                step: *number,
                line: line(*at),
                call: format!("{} {}", step.call, step.arguments()),
                expected: Some(step.expected()),
                found,
            },
        })
    });
    difference.into_iter().collect()
}

/// Reads a part of a test.
fn read<'de, T: DeserializeOwned>(
    value: impl Deserializer<'de, Error = toml::de::Error>,
) -> Result<T> {
    T::deserialize(value).map_err(|error| {
        let message = error.message();
        // An unknown name stands before the known ones, each between two of these marks.
        let mut names = message.split('`').skip(1).step_by(2);
        let unknown = names.next().filter(|_| message.starts_with("unknown"));
        let meant = unknown.map(|name| did_you_mean(name, names));
        anyhow!("{}{message}", meant.unwrap_or_default())
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

    fn expected(&self) -> String {
        described(self.expect(), self.because.as_ref(), self.rule.as_deref())
    }

    /// The user's answer to a question.
    fn answer(&self) -> Result<Answer> {
        let Some(name) = self.answer.as_deref() else {
            return Ok(Answer::No);
        };
        let answer = ANSWERS.iter().find(|it| it.name() == name);
        answer.copied().with_context(|| {
            let names = ANSWERS.map(Answer::name);
            let meant = did_you_mean(name, names);
            format!("{meant}`answer` is one of {}", names.join(", "))
        })
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
    pub(super) fn new(config: &'a Config, session: &Session) -> Self {
        let user = session.user.as_deref().map(Arc::from);
        let user = user.or_else(|| config.user_name.clone());
        Self {
            config,
            guard: Guard {
                history: History::new(Vec::new()),
                monitor: Monitor::new().with_trust(&config.lattice),
                policy: Arc::new(config.policy().with_session(SessionFacts {
                    user,
                    ..SessionFacts::default()
                })),
                budget: None,
            },
            apps: config.apps.keys().cloned().collect(),
            said: Vec::new(),
        }
    }

    /// Finds the mistakes that need no decision.
    fn check(&self, step: &Step) -> Result<()> {
        if step.user.is_some() {
            ensure!(step.call.is_empty(), "a step has either `user` or `call`");
            return Ok(());
        }
        let mut verdicts = Verdict::ALL.iter().map(|it| it.name());
        ensure!(
            verdicts.any(|it| it == step.expect()),
            "`expect` is allow, ask or deny"
        );
        step.answer()?;
        let named = step
            .because
            .iter()
            .flatten()
            .chain(step.label.iter().flatten());
        for name in named.chain(step.labels.values().flatten()) {
            self.config.lattice.labels([name.as_str()])?;
        }
        let (app, tool) = self.named(&step.call)?;
        ensure!(
            step.rule.is_some() || self.lists(app, tool),
            "'{app}' has no rule for '{tool}'; {}correct the name, or write the `rule` that decides about other tools",
            did_you_mean(tool, self.tools(app))
        );
        Ok(())
    }

    /// Makes a step. Returns the decision if it is not the expected one.
    fn step(&mut self, step: &Step) -> Result<Option<String>> {
        if let Some(user) = &step.user {
            self.guard.monitor.begin_turn();
            self.said.push(user.clone());
            return Ok(None);
        }
        let (found, runs) = self.make(step)?;
        let is_expected = found.verdict.name() == step.expect()
            && (step.because.as_ref()).is_none_or(|names| *names == found.because)
            && step.rule.as_ref().is_none_or(|rule| *rule == found.by);
        if !is_expected {
            return Ok(Some(found.to_string()));
        }
        let is_asked = step.answer.is_none() || found.verdict == Verdict::Ask;
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
                let answer = step.answer()?;
                let choices = question.choices();
                ensure!(
                    choices.contains(&answer),
                    "the question does not offer '{}'; it offers {}",
                    answer.name(),
                    choices
                        .iter()
                        .map(|it| it.name())
                        .collect::<Vec<_>>()
                        .join(", ")
                );
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
            (None, Some(app), None) if !call.is_empty() => Ok((app, call)),
            (_, Some(app), None) if self.lists(app, call) => Ok((app, call)),
            _ => {
                let app = call.split_once('.').map_or(call, |(app, _)| app);
                let meant = did_you_mean(app, self.apps.iter().map(String::as_str));
                bail!(
                    "{meant}`call` is APP.TOOL with an app of the configuration, and not '{call}'"
                )
            }
        }
    }

    /// The tools that an app has a rule for.
    fn tools(&self, app: &str) -> impl Iterator<Item = &str> {
        let rules = self.config.apps.get(app).map(|app| app.rules.tools.keys());
        rules.into_iter().flatten().map(String::as_str)
    }

    /// Whether an app has a rule for this very tool.
    pub(super) fn lists(&self, app: &str, tool: &str) -> bool {
        self.tools(app).any(|it| it == tool)
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
            Denial::Policy(reason) => (BTreeSet::new(), reason.clone()),
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
            Err(denial) => bail!("{denial}"),
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
        ensure!(vouched.is_ok(), "there is nothing to trust");
        self.guard.history.take_back();
        self.guard.endorse(&self.apps);
        match self.decide(step)? {
            (id, Decision::Allow(permit)) => Ok((id, permit)),
            (_, Decision::Ask(question)) => bail!(
                "after '{}' the call is asked about again: {}",
                answer.name(),
                self.asked(&question)
            ),
            (_, Decision::Deny(denial)) => bail!("after '{}': {denial}", answer.name()),
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
            differences,
        } = self;
        let passed = differences.is_empty();
        let value = json!({
            "kind": "test", "passed": passed, "file": file, "line": line, "name": name, "differences": differences,
        });
        let mark = if passed { "ok    " } else { "FAILED" };
        let mut text = format!("{mark} {name}  {}:{line}", file.display());
        for it in differences {
            let step = match it.step {
                0 => String::new(),
                number => format!("step {number} (line {}): ", it.line),
            };
            text += &match &it.expected {
                None => format!("\n       {step}{}", it.found),
                Some(expected) => {
                    let call = &it.call;
                    format!(
                        "\n       {step}{call}\n       - {expected}\n       + {}",
                        it.found
                    )
                }
            };
        }
        (value, text)
    }
}

//! Compiles Cedar text to [`Conditions`]. Every mistake is reported with its place in the text.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use cedar_policy::{
    ActionConstraint, Effect, Policy, PolicyId, PolicySet, Schema, ValidationMode,
    ValidationWarning, Validator,
};
use ifc::{Label, Lattice};
use miette::Diagnostic;

use super::arguments::Parameters;
use super::conditions::{Conditions, Sets, Vocabulary, schema, uid};
use super::extent::{self, MAX_WORD_BYTES};
use super::past::{self, Counted};

/// Most conditions in one text. Each is evaluated for every call.
const MAX_CONDITIONS: usize = 64;

/// Most reported mistakes. Cedar compares each unknown name with all known ones.
const MAX_ERRORS: usize = 100;

/// Cedar text. Every error has its `origin`.
#[derive(Debug, Clone, Copy)]
pub struct CedarText<'a> {
    /// The text.
    pub text: &'a str,
    /// A number by which the caller knows the place of the text.
    pub origin: usize,
}

/// A tool whose conditions are wanted.
#[derive(Debug, Clone)]
pub struct CedarTool<'a> {
    /// The arguments that its conditions can look at.
    pub parameters: Option<&'a Parameters>,
    /// Its conditions.
    pub texts: Vec<CedarText<'a>>,
}

/// A mistake in the text of conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CedarError {
    /// The `origin` of the text.
    pub origin: usize,
    /// Where in the text, in bytes; `None` is the text as a whole.
    pub span: Option<Range<usize>>,
    /// The mistake in one line.
    pub message: String,
    /// How to correct it; may be empty.
    pub help: String,
}

/// One policy and its kind.
struct Condition {
    policy: Policy,
    kind: Kind,
}

enum Kind {
    Forbid,
    Ask,
    /// Raises the limit to this.
    Permit(Label),
}

/// The conditions of an app's tools, and the mistakes in them. Tools without conditions are left out.
///
/// Text after a mistake is compiled to find further mistakes. The caller must start nothing if there is any.
pub fn compile_conditions(
    lattice: &Lattice,
    app: &str,
    of_app: &[CedarText<'_>],
    tools: &BTreeMap<String, CedarTool<'_>>,
) -> (BTreeMap<String, Conditions>, Vec<CedarError>) {
    let texts = tools.values().flat_map(|tool| &tool.texts);
    let Some(first) = of_app.iter().chain(texts).next() else {
        return (BTreeMap::new(), Vec::new());
    };
    let compiler = Compiler {
        lattice,
        errors: RefCell::default(),
    };
    let vocabulary = match vocabulary(lattice, app, tools) {
        Ok(vocabulary) => &Arc::new(vocabulary),
        Err((message, help)) => {
            compiler.error(first, None, message, help);
            return (BTreeMap::new(), compiler.errors.into_inner());
        }
    };
    let counted = Counted::all(tools.iter().map(|(name, tool)| (name, tool.parameters)));
    let schema_of = |names: &mut dyn Iterator<Item = (&String, &CedarTool<'_>)>| {
        schema(
            vocabulary,
            names.map(|(name, tool)| (name.as_str(), tool.parameters)),
            &counted,
        )
    };
    let mut compiled = BTreeMap::new();
    // Conditions of the app are validated against all of its tools, those of a tool against that tool alone: its
    // parameters are the type of `context.arguments`.
    let shared = of_app.iter().flat_map(|text| {
        let all = || schema_of(&mut tools.iter());
        compiler.conditions(text, all, &format!("{app}.cedar"))
    });
    let shared: Vec<Condition> = shared.collect();
    compiler.check_names(of_app, &shared);
    for (name, tool) in tools {
        let one = || schema_of(&mut std::iter::once((name, tool)));
        let own = tool
            .texts
            .iter()
            .flat_map(|text| compiler.conditions(text, one, &format!("{app}.{name}.cedar")));
        let own: Vec<Condition> = own.collect();
        compiler.check_names(&tool.texts, &own);
        // A condition of the app that is about other tools is not evaluated for this one.
        let about_it = shared.iter().filter(|it| is_about(&it.policy, name));
        let all: Vec<&Condition> = about_it.chain(&own).collect();
        // A tool without a condition of its own still gets an empty set if the app has conditions: they allow it.
        if shared.is_empty() && own.is_empty() {
            continue;
        }
        let made = Conditions::new(vocabulary, name, tool.parameters, sets(&all), &counted);
        match (made, tool.texts.last().or(of_app.last())) {
            (Ok(conditions), _) => {
                compiled.insert(name.clone(), conditions);
            }
            (Err(error), Some(text)) => {
                let message = format!("the tool '{name}' cannot be described to Cedar: {error}");
                compiler.error(text, None, message, "rename the tool or the parameter");
            }
            // There are conditions, so there is a text that they come from.
            (Err(_), None) => {}
        }
    }
    (compiled, compiler.errors.into_inner())
}

/// The vocabulary of the conditions of these tools.
///
/// # Errors
/// The mistake in a name, and how to correct it.
fn vocabulary(
    lattice: &Lattice,
    app: &str,
    tools: &BTreeMap<String, CedarTool<'_>>,
) -> Result<Vocabulary, (String, &'static str)> {
    let parameters = tools.values().filter_map(|tool| tool.parameters);
    let names = tools.keys().map(String::as_str);
    let mut names = names.chain(parameters.flat_map(Parameters::names));
    // The limit of words in conditions, since Cedar compares each unknown word with every name.
    if names.any(|name| name.len() > MAX_WORD_BYTES) {
        let message =
            format!("a tool or a parameter has a name of more than {MAX_WORD_BYTES} bytes");
        let help = "conditions are about shorter names; rename it, or leave it out";
        return Err((message, help));
    }
    Vocabulary::new(lattice, app).map_err(|error| {
        let message = format!("the app '{app}' cannot be described to Cedar: {error}");
        (message, "rename the app")
    })
}

struct Compiler<'a> {
    lattice: &'a Lattice,
    errors: RefCell<Vec<CedarError>>,
}

impl Compiler<'_> {
    fn conditions(
        &self,
        text: &CedarText<'_>,
        schema: impl FnOnce() -> Result<Schema, String>,
        prefix: &str,
    ) -> Vec<Condition> {
        // Nothing starts with a mistake, so the rest may stay unchecked.
        if self.errors.borrow().len() >= MAX_ERRORS {
            return Vec::new();
        }
        let Some(policies) = self.parse(text) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (at, policy) in policies.iter().enumerate() {
            let id = match policy.annotation("id") {
                Some(id) if is_name(id) => id.to_owned(),
                Some(id) => {
                    let message = format!("'{id}' is no name for a condition");
                    self.error(text, None, message, "use letters, digits, '-' and '_'");
                    continue;
                }
                // Without an @id, its position in the text, from 1.
                None => (at + 1).to_string(),
            };
            // The id is the name of the rule in questions and in the trace.
            let policy = policy.new_id(PolicyId::new(format!("{prefix}.{id}")));
            if past::paths(&policy).is_none() {
                let message = format!(
                    "{}: this uses the calls of the session as a whole",
                    policy.id()
                );
                let help =
                    "name a tool: context.session.calls.TOOL or context.session.sums.TOOL.ARGUMENT";
                self.error(text, None, message, help);
            }
            if let Some(kind) = self.kind(text, &policy) {
                found.push(Condition { policy, kind });
            }
        }
        match schema() {
            Ok(schema) => self.validate(text, schema, &found),
            Err(error) => {
                let message = format!("the tools cannot be described to Cedar: {error}");
                self.error(text, None, message, "rename the tool or parameter it names");
            }
        }
        found
    }

    /// The policies in the order of the text.
    fn parse(&self, text: &CedarText<'_>) -> Option<Vec<Policy>> {
        // Before Cedar's parser sees the text: it is recursive, and would overflow the stack.
        if let Some(exceeded) = extent::exceeded(text.text) {
            let at = exceeded.at;
            self.error(text, Some(at..at + 1), exceeded.message, exceeded.help);
            return None;
        }
        let set: PolicySet = match text.text.parse() {
            Ok(set) => set,
            Err(errors) => {
                let errors: cedar_policy::ParseErrors = errors;
                for error in errors.iter() {
                    self.cedar_error(text, error, "this must be Cedar");
                }
                return None;
            }
        };
        // A template that is not linked is never evaluated, so a forbid would forbid nothing.
        if set.templates().next().is_some() {
            let message = "a condition has a slot, like ?principal";
            self.error(text, None, message, "write what it stands for");
        }
        let mut policies: Vec<Policy> = set.policies().cloned().collect();
        // Cedar calls them `policy0`, `policy1`, … in the order of the text, and does not return them in that order.
        let number = |policy: &Policy| {
            let id = policy.id().to_string();
            id.trim_start_matches(|c: char| !c.is_ascii_digit())
                .parse::<usize>()
                .ok()
        };
        policies.sort_by_key(number);
        if policies.len() > MAX_CONDITIONS {
            let message = format!("more than {MAX_CONDITIONS} conditions in one place");
            self.error(text, None, message, "join conditions with && and ||");
            policies.truncate(MAX_CONDITIONS);
        }
        if policies.is_empty() {
            let help = "write forbid (principal, action, resource) when { … };";
            self.error(text, None, "there is no condition here", help);
        }
        Some(policies)
    }

    fn kind(&self, text: &CedarText<'_>, policy: &Policy) -> Option<Kind> {
        let name = policy.id().to_string();
        // Cedar accepts any annotation. A misspelt @ask would silently turn a question into a denial.
        let known = ["id", "ask", "limit"];
        for (key, _) in policy.annotations() {
            if !known.contains(&key) {
                let message = format!("{name}: unknown annotation '@{key}'");
                self.error(text, None, message, "there are @id, @ask and @limit");
            }
        }
        let (ask, limit) = (policy.annotation("ask"), policy.annotation("limit"));
        match (policy.effect(), ask, limit) {
            (Effect::Forbid, None, None) => Some(Kind::Forbid),
            (Effect::Forbid, Some(_), None) => Some(Kind::Ask),
            (Effect::Permit, None, Some(names)) => {
                Some(Kind::Permit(self.limit(text, &name, names)))
            }
            // In Cedar a permit allows. Here it raises a limit, so one without a limit would be misread.
            (Effect::Permit, _, _) => {
                let message =
                    format!("{name}: a permit raises the limit, and this does not say to what");
                let help = "write @limit(\"LABEL\") before it, and nothing else; \
                            calls that no condition matches keep the limit of their tool";
                self.error(text, None, message, help);
                None
            }
            (Effect::Forbid, _, Some(_)) => {
                let message = format!("{name}: a forbid has no limit");
                let help =
                    "leave out @limit; with @ask it puts the call to the user, else it denies it";
                self.error(text, None, message, help);
                None
            }
        }
    }

    fn limit(&self, text: &CedarText<'_>, name: &str, names: &str) -> Label {
        let names = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        self.lattice.labels(names).unwrap_or_else(|error| {
            let help = "write names of labels with commas between them, like @limit(\"untrusted\")";
            self.error(text, None, format!("{name}: @limit: {error}"), help);
            // ⊥, so that the rest of the text is checked. Nothing starts, since the error is reported.
            Label::bottom()
        })
    }

    fn validate(&self, text: &CedarText<'_>, schema: Schema, conditions: &[Condition]) {
        let Ok(set) = PolicySet::from_policies(conditions.iter().map(|c| c.policy.clone())) else {
            // Two conditions of one name, which `check_names` reports.
            return;
        };
        // Strict validation refuses comparisons between types, which are never true.
        let result = Validator::new(schema).validate(&set, ValidationMode::Strict);
        let help = "conditions see principal (Session), action, resource (App) and \
                    context.{arguments, label, untrusted, secret, control, session}; \
                    arguments are those that 'parameters' gives a kind";
        for error in result.validation_errors() {
            self.cedar_error(text, error, help);
        }
        // A warning may be a mistake: a condition that matches no call forbids nothing. After an error it adds nothing.
        let warnings = result.validation_warnings();
        for warning in warnings.filter(|_| result.validation_passed()) {
            match warning {
                // Letters of several scripts are no mistake.
                ValidationWarning::MixedScriptString(_)
                | ValidationWarning::MixedScriptIdentifier(_)
                | ValidationWarning::ConfusableIdentifier(_) => {}
                ValidationWarning::ImpossiblePolicy(_) => {
                    let help = "it would match no call of these tools; correct it or remove it";
                    self.cedar_error(text, warning, help);
                }
                other => self.cedar_error(text, other, "correct it or remove it"),
            }
        }
    }

    fn check_names(&self, texts: &[CedarText<'_>], conditions: &[Condition]) {
        // The limits of permits are stored by name, so of two with one name, one would get the limit of the other.
        let mut names = BTreeSet::new();
        for condition in conditions {
            let name = condition.policy.id().to_string();
            if let (false, Some(text)) = (names.insert(name.clone()), texts.last()) {
                let message = format!("there are two conditions {name}");
                self.error(text, None, message, "give each its own @id");
            }
        }
    }

    /// An error of Cedar, with its first place in the text, if it has one.
    fn cedar_error(&self, text: &CedarText<'_>, error: &dyn Diagnostic, help: &str) {
        let place = error.labels().and_then(|mut labels| labels.next());
        let span = place.map(|label| label.offset()..label.offset() + label.len());
        let own_help = error.help().map(|help| help.to_string());
        let help = own_help.map_or(help.to_owned(), |own| format!("{own} {help}"));
        self.error(text, span, error.to_string(), help);
    }

    fn error(
        &self,
        text: &CedarText<'_>,
        span: Option<Range<usize>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.errors.borrow_mut().push(CedarError {
            origin: text.origin,
            span,
            message: message.into(),
            help: help.into(),
        });
    }
}

/// Whether a condition can match calls of a tool, by the action that it names.
fn is_about(policy: &Policy, tool: &str) -> bool {
    let Ok(action) = uid("Action", tool) else {
        return true;
    };
    match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(named) => named == action,
        ActionConstraint::In(named) => named.contains(&action),
    }
}

fn is_name(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !id.is_empty() && id.chars().all(allowed)
}

fn sets(conditions: &[&Condition]) -> Sets {
    let mut sets = Sets::default();
    for Condition { policy, kind } in conditions {
        let set = match kind {
            Kind::Forbid => &mut sets.forbid,
            Kind::Ask => &mut sets.ask,
            Kind::Permit(limit) => {
                sets.limits.insert(policy.id().to_string(), limit.clone());
                &mut sets.permit
            }
        };
        // It fails only for a second condition of one name, which was reported.
        let _ = set.add(policy.clone());
    }
    sets
}

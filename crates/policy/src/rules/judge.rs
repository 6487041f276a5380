//! What the rules say of one call.

use std::collections::BTreeMap;

use ifc::{
    Address, ArgumentPath, Call, Effect, Exceeded, Label, Labeled, Release, Results, Rule, Sink,
};

use super::accepted::Known;
use super::app::{AppRules, ArgumentLimit, ToolRule};
use super::arguments::Arguments;
use super::conditions::{Finding, Refusal};
use super::session::SessionFacts;
use crate::place::Place;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It runs without a question.
    Allow,
    /// The user is asked.
    Ask,
    /// It does not run.
    Deny,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// `allow`, `ask` or `deny`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One limit that a part of a call must keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitPart {
    /// The rule's name, as the configuration has it: `mail.send_email.limit`,
    /// `mail.send_email.arguments.attachments.limit`, or a permit that raised the tool's limit.
    pub rule: String,
    /// The limit.
    pub limit: Label,
    /// The label of what it bounds: of the control part, or of a data argument.
    pub label: Label,
    /// Where it is written; `None` for a default and for a permit.
    pub place: Option<Place>,
}

impl LimitPart {
    /// The one limit of a sink that is no call.
    pub(super) fn of(sink: &Sink<'_>, rule: String, limit: Label) -> Self {
        Self {
            rule,
            limit,
            label: sink.label(),
            place: None,
        }
    }
}

/// What the rules say of one call, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What becomes of the call, grants of the session aside.
    pub verdict: Verdict,
    /// The rule that decides. Of several limits, the first that the call exceeds.
    pub rule: String,
    /// Where that rule is written, if it is known.
    pub place: Option<Place>,
    /// Why it is denied, or asked about whatever its label.
    pub reason: Option<String>,
    /// What the call does to the world; `None` if there is no rule for it.
    pub effect: Option<Effect>,
    /// `P(call)`, the limit of the control part; ⊥ for a call that is denied.
    pub limit: Label,
    /// The limits of its data arguments, by their places.
    pub arguments: BTreeMap<ArgumentPath, Label>,
    /// All limits that it must keep.
    pub limits: Vec<LimitPart>,
    /// The taints of its parts beyond their limits.
    pub excess: Label,
    /// Whether the user is asked whatever the label.
    pub always_ask: bool,
    /// What becomes of a flow above the limit.
    pub exceeded: Exceeded,
}

impl Judgement {
    /// A call that is denied for this reason.
    #[must_use]
    pub fn denied(rule: String, place: Option<Place>, reason: String) -> Self {
        Self {
            verdict: Verdict::Deny,
            rule,
            place,
            reason: Some(reason),
            effect: None,
            limit: Label::bottom(),
            arguments: BTreeMap::new(),
            limits: Vec::new(),
            excess: Label::bottom(),
            always_ask: false,
            exceeded: Exceeded::Deny,
        }
    }

    /// The rule for the monitor.
    ///
    /// # Errors
    /// Why the call is denied.
    pub(crate) fn rule(self) -> Result<Rule, ifc::PolicyError> {
        let denied = |reason: Option<String>| {
            ifc::PolicyError(reason.unwrap_or_else(|| "no rule allows it".to_owned()))
        };
        // A limit that denies whatever exceeds it is a rule; a denial for a reason is none.
        match (
            self.reason.is_some() && self.verdict == Verdict::Deny,
            self.effect,
        ) {
            (true, _) | (_, None) => Err(denied(self.reason)),
            (false, Some(effect)) => Ok(Rule {
                limit: self.limit,
                arguments: self.arguments,
                exceeded: self.exceeded,
                effect,
                same_by: None,
                name: self.rule,
                always_ask: self.always_ask,
            }),
        }
    }
}

/// What an app's rules say of a call to one of its tools, after what calls returned.
pub(crate) fn judge(
    apps: &BTreeMap<String, AppRules>,
    app: &AppRules,
    call: &Call,
    session: &SessionFacts,
    results: &Results<'_>,
) -> Judgement {
    let (name, tool) = (&call.app, &call.tool);
    let Some(rule) = app.tool(tool) else {
        let reason = format!(
            "app '{name}' has no rule for the tool '{tool}'; {}",
            remedy(name, tool)
        );
        return Judgement::denied(format!("{name}.tools"), None, reason);
    };
    // They are read by the strict reader of `ifc` already, so only a rule that looks at their values needs more.
    let is_looked_at = rule.parameters.is_some() || rule.conditions.is_some();
    let read = is_looked_at.then(|| Arguments::read(&call.arguments));
    let arguments = match read.unwrap_or_else(|| Ok(Arguments::default())) {
        Ok(arguments) => arguments,
        Err(reason) => {
            let reason = format!("{name}.{tool}: {reason}");
            return Judgement::denied(format!("{name}.{tool}"), rule.place.clone(), reason);
        }
    };
    // Before the conditions: they were validated against these kinds, and none of them looks at an argument that is not
    // listed. The turn machine rejects such a call before it asks for a judgement; for other callers it is denied here.
    if let Some(Err(reason)) = rule.parameters.as_ref().map(|p| p.check(&arguments)) {
        let reason = format!("{name}.{tool}: {reason}");
        return Judgement::denied(
            format!("{name}.{tool}.parameters"),
            rule.place.clone(),
            reason,
        );
    }
    match finding(app, rule, call, &arguments, session) {
        Ok(finding) => {
            // Which values an argument accepts may rest on results at or below the control part only: what is decided by
            // others would tell of them (`Among`).
            let control = call.control_label(rule.data());
            let known = Known {
                apps,
                results,
                control: &control,
                limit: &rule.limit,
            };
            limits(rule, call, finding, &known)
        }
        Err(denied) => Judgement {
            effect: Some(rule.effect),
            ..*denied
        },
    }
}

/// What the user can write to have a rule for a tool.
fn remedy(app: &str, tool: &str) -> String {
    let key = toml_key(tool);
    format!("add [app.{app}.tools.{key}] with its effect to sluice.toml")
}

/// A name as a key of TOML. It may be a stranger's.
#[must_use]
pub fn toml_key(name: &str) -> String {
    // TOML takes only these characters without quotes.
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        // A string of JSON is one of TOML, DEL aside.
        false => serde_json::Value::from(name)
            .to_string()
            .replace('\u{7f}', "\\u007f"),
    }
}

/// What becomes of a final answer: a sink with a limit and nothing else.
pub(crate) fn judge_answer(answer: &Release, limits: Vec<(String, Label)>) -> Judgement {
    let sink = Sink::Answer(answer);
    let label = sink.label();
    // Without an app there is nothing but the user's own words and a model's. With several, the answer may hold what any of
    // them returned, so it keeps the limits of all.
    let limit = limits
        .iter()
        .fold(Label::top(), |all, (_, limit)| all.meet(limit));
    let exceeded = limits.iter().find(|(_, limit)| !label.flows_to(limit));
    let rule = match exceeded.or(limits.first()) {
        Some((app, _)) => format!("{app}.answer.limit"),
        None => "answer.limit".to_owned(),
    };
    let limit = LimitPart::of(&sink, rule, limit);
    decide(Effect::Read, limit, Vec::new(), None, Exceeded::Ask)
}

/// What becomes of an address in an answer: what may not be active is shown inert. Nobody is asked, since the
/// text stays readable.
pub(crate) fn judge_address(address: &Address, limit: Label) -> Judgement {
    let rule = "answer.addresses".to_owned();
    let limit = LimitPart::of(&Sink::Address(address), rule, limit);
    decide(Effect::Write, limit, Vec::new(), None, Exceeded::Deny)
}

/// What becomes of a text that is to be remembered. What exceeds the limit is not: a question after
/// each turn would be answered without reading it.
pub(crate) fn judge_memory(write: &Sink<'_>, limit: Label) -> Judgement {
    let limit = LimitPart::of(write, "memory.limit".to_owned(), limit);
    decide(Effect::Write, limit, Vec::new(), None, Exceeded::Deny)
}

fn finding(
    app: &AppRules,
    rule: &ToolRule,
    call: &Call,
    arguments: &Arguments<'_>,
    session: &SessionFacts,
) -> Result<Finding, Box<Judgement>> {
    let (name, tool) = (&call.app, &call.tool);
    let Some(conditions) = &rule.conditions else {
        if app.has_conditions {
            // They were validated against the tools that are listed; of this one they say nothing.
            let reason = format!(
                "the conditions of the app '{name}' cannot judge the tool '{tool}', which is not listed; {}",
                remedy(name, tool)
            );
            let rule = format!("{name}.cedar");
            return Err(Box::new(Judgement::denied(rule, None, reason)));
        }
        return Ok(Finding::default());
    };
    let label = call.control_label(rule.data());
    let judged = conditions.judge(call, &label, arguments, rule.parameters.as_ref(), session);
    judged.map_err(|refusal| {
        let (rule, reason) = match refusal {
            Refusal::Forbidden(condition) => {
                let reason = format!("the condition {condition} forbids this call");
                (condition, reason)
            }
            Refusal::Error(error) => (
                format!("{name}.{tool}.cedar"),
                format!("{name}.{tool}: {error}"),
            ),
        };
        Box::new(Judgement::denied(rule, None, reason))
    })
}

/// The limits of the tool and of the data arguments that are present. Permits raise the tool's alone.
fn limits(rule: &ToolRule, call: &Call, finding: Finding, known: &Known<'_>) -> Judgement {
    let (app, tool) = (&call.app, &call.tool);
    let label = known.control.clone();
    let mut of_tool = LimitPart {
        rule: format!("{app}.{tool}.limit"),
        limit: rule.limit.clone(),
        label: label.clone(),
        place: rule.place.clone(),
    };
    let raised = finding
        .raises
        .iter()
        .fold(rule.limit.clone(), |joined, (_, l)| joined.join(l));
    // Permits are named only where they decide. Where they do not reach far enough, the user is shown the limit to
    // change.
    if !label.flows_to(&of_tool.limit) && label.flows_to(&raised) {
        // Which permits matter: those that cover something that the tool's own limit does not.
        let matter = finding
            .raises
            .iter()
            .filter(|(_, limit)| !label.meet(limit).flows_to(&rule.limit));
        let names: Vec<&str> = matter.map(|(name, _)| name.as_str()).collect();
        of_tool.rule = names.join(" + ");
        of_tool.place = None;
    }
    of_tool.limit = raised;
    let (paths, data): (Vec<ArgumentPath>, Vec<LimitPart>) = (rule.arguments.iter())
        .filter_map(|(path, own)| {
            let mut part = limit_of(path, own, call, known)?;
            // A condition has decided by what it says, so it is of the control part in spite of its limit, which can then
            // take away and add nothing.
            if rule.is_looked_at(path) {
                part.limit = part.limit.meet(&of_tool.limit);
            }
            part.rule = format!("{app}.{tool}.arguments.{path}.{}", part.rule);
            Some((path.clone(), part))
        })
        .unzip();
    let of_arguments = data.iter().map(|part| part.limit.clone());
    let arguments = paths.into_iter().zip(of_arguments).collect();
    let judged = decide(rule.effect, of_tool, data, finding.ask, Exceeded::Ask);
    Judgement {
        arguments,
        ..judged
    }
}

/// The limit of a data argument: its own, and where that is exceeded also those of what accepts its values.
/// `None` where the call has no such argument.
///
/// Where its value has not the form that leads to a data argument inside of it, all of the argument must keep the
/// limit, and nothing of it is accepted.
fn limit_of(
    path: &ArgumentPath,
    own: &ArgumentLimit,
    call: &Call,
    known: &Known<'_>,
) -> Option<LimitPart> {
    let argument = call.arguments.get(path.argument())?;
    let values = call.arguments.at(path);
    // Nothing lies there, as in an empty list. That it is empty is of the control part.
    if values.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    // The value has not the form that the path needs, so nobody can say which part of it the limit is about.
    let whole = std::slice::from_ref(argument);
    let parts = values.as_deref().unwrap_or(whole).iter();
    // What was carried was chosen by whoever made the call, too.
    let label = parts.fold(call.label.clone(), |all, value| all.join(&value.label()));
    let part = |rule: &str, limit: Label, place: &Place| LimitPart {
        rule: rule.to_owned(),
        limit,
        label: label.clone(),
        place: Some(place.clone()),
    };
    let of_own = part("limit", own.label.clone(), &own.place);
    // Only where the limit does not suffice: `accepts` may look through every result of the conversation.
    let Some(values) = values.filter(|_| !label.flows_to(&own.label)) else {
        return Some(of_own);
    };
    let texts: Vec<&str> = values.iter().map(Labeled::reveal_tcb).collect();
    let mut accepting = own.accepts.iter().filter(|it| it.accepts(&texts, known));
    Some(match accepting.next() {
        None => of_own,
        Some(first) => {
            // Each entry says what such a value may depend on, and the value is such a one for all of them.
            let limits = accepting.map(|accept| &accept.limit);
            let raised = limits.fold(own.label.join(&first.limit), |all, limit| all.join(limit));
            part("accepts", raised, &first.place)
        }
    })
}

/// What becomes of a flow whose parts have these limits, the control part's first. `ask` is the condition
/// that asks about it, whatever its labels.
pub(super) fn decide(
    effect: Effect,
    first: LimitPart,
    more: Vec<LimitPart>,
    ask: Option<String>,
    exceeded: Exceeded,
) -> Judgement {
    let limit = first.limit.clone();
    let limits: Vec<LimitPart> = std::iter::once(first.clone()).chain(more).collect();
    let excess = limits.iter().map(|part| part.label.beyond(&part.limit));
    let excess = excess.fold(Label::bottom(), |all, one| all.join(&one));
    // The control part's limit stands first: it is the one that is named, whatever the call carries.
    let over = limits.iter().find(|part| !part.label.flows_to(&part.limit));
    let flows = over.is_none();
    let (rule, place) = match &ask {
        Some(condition) if flows => (condition.clone(), None),
        _ => {
            let part = over.unwrap_or(&first);
            (part.rule.clone(), part.place.clone())
        }
    };
    // Said where a limit is exceeded as well: widening the limit alone would not end the question.
    let reason = ask.as_ref().map(|condition| {
        format!("the condition {condition} puts this call to the user, whatever its label")
    });
    Judgement {
        verdict: match (flows, exceeded) {
            (true, _) if ask.is_none() => Verdict::Allow,
            (false, Exceeded::Deny) => Verdict::Deny,
            _ => Verdict::Ask,
        },
        rule,
        place,
        reason,
        effect: Some(effect),
        limit,
        arguments: BTreeMap::new(),
        limits,
        excess,
        always_ask: ask.is_some(),
        exceeded,
    }
}

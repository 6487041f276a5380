//! The judgement of one flow by the rules.

use std::collections::BTreeMap;

use ifc::{ArgumentPath, Call, Effect, Exceeded, Label, Labeled, Release, Results, Rule, Sink};

use super::accepted::Known;
use super::accepts::Accept;
use super::app::{AppRules, ArgumentLimit, ToolRule};
use super::arguments::Arguments;
use super::audience::Audience;
use super::conditions::{Finding, Refusal};
use super::session::SessionFacts;
use crate::place::Place;

/// The verdict on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The call runs without a question.
    Allow,
    /// The user is asked.
    Ask,
    /// The call does not run.
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
    /// The label of the part: of the control part, or of a data argument.
    pub label: Label,
    /// The place of the limit; `None` for a default and for a permit.
    pub place: Option<Place>,
}

impl LimitPart {
    /// Raises the limit by what the recipients of the call may read. The rule of the audience decides on a part that has more
    /// than the limit alone admits of what readers may read. `instead` gets the readers of the part if not all recipients are.
    fn raise(
        &mut self,
        (audience, rule): &(&Option<Audience>, String),
        call: &Call,
        instead: &mut Vec<String>,
    ) {
        let Some(audience) = audience else {
            return;
        };
        let beyond = self.label.beyond(&self.limit);
        let secret = beyond.meet(&audience.readers.all());
        if !secret.is_bottom() {
            self.rule.clone_from(rule);
            self.place = Some(audience.place.clone());
        }
        self.limit = self.limit.join(&audience.limit(call));
        // Other recipients do not help if more is beyond the limit.
        if !secret.flows_to(&self.limit) && beyond.flows_to(&secret) {
            instead.push(audience.readers.of(&secret));
        }
    }
}

/// The verdict on one call, with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict without grants of the session.
    pub verdict: Verdict,
    /// The rule that decides: of several limits, the first that the call exceeds.
    pub rule: String,
    /// The place of that rule, if it is known.
    pub place: Option<Place>,
    /// Why it is denied, or always asked about.
    pub reason: Option<String>,
    /// The effect of the call; `None` if there is no rule for it.
    pub effect: Option<Effect>,
    /// `P(call)`, the limit of the control part; ⊥ for a call that is denied.
    pub limit: Label,
    /// The limits of the data arguments, by their places.
    pub arguments: BTreeMap<ArgumentPath, Label>,
    /// All limits that it must keep.
    pub limits: Vec<LimitPart>,
    /// The taints of its parts beyond their limits.
    pub excess: Label,
    /// What would not exceed a limit, one sentence each: the recipients that may read a part, the words that an argument accepts.
    pub instead: Vec<String>,
    /// Whether the user is always asked.
    pub always_ask: bool,
    /// The consequence of a flow above the limit.
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
            instead: Vec::new(),
            always_ask: false,
            exceeded: Exceeded::Deny,
        }
    }

    /// The rule for the monitor.
    ///
    /// # Errors
    /// Why the call is denied.
    pub(crate) fn rule(self) -> Result<Rule, ifc::PolicyError> {
        // A denial for a reason is no rule. A limit that denies what exceeds it is one.
        let is_rule = self.reason.is_none() || self.verdict != Verdict::Deny;
        match self.effect.filter(|_| is_rule) {
            None => {
                let reason = self.reason.unwrap_or("no rule allows it".to_owned());
                Err(ifc::PolicyError(reason))
            }
            Some(effect) => Ok(Rule {
                limit: self.limit,
                arguments: self.arguments,
                exceeded: self.exceeded,
                effect,
                same_by: None,
                counted: None,
                name: self.rule,
                always_ask: self.always_ask,
                approvers: None,
            }),
        }
    }
}

/// The judgement of a call to a tool of this app, after these results.
pub(crate) fn judge(
    apps: &BTreeMap<String, AppRules>,
    app: &AppRules,
    call: &Call,
    session: &SessionFacts,
    results: &Results<'_>,
) -> Judgement {
    let name = &call.app;
    let Some((tool, rule)) = app.rule_of(call) else {
        let tool = &call.tool;
        let reason = match app.tool(tool).and_then(|own| own.select.as_ref()) {
            Some(select) => format!("{name}.{tool}: {}", misspelled(select)),
            None => format!(
                "app '{name}' has no rule for the tool '{tool}'; {}",
                remedy(name, tool)
            ),
        };
        return Judgement::denied(format!("{name}.tools"), None, reason);
    };
    // The reader of `ifc` has checked the arguments already, so only a rule that looks at values reads them again.
    let is_looked_at = rule.parameters.is_some() || rule.conditions.is_some();
    let read = is_looked_at.then(|| Arguments::read(&call.arguments));
    let arguments = match read.unwrap_or_else(|| Ok(Arguments::default())) {
        Ok(arguments) => arguments,
        Err(reason) => {
            let reason = format!("{name}.{tool}: {reason}");
            return Judgement::denied(format!("{name}.{tool}"), rule.place.clone(), reason);
        }
    };
    // Before the conditions, which were validated against these kinds. The turn machine has rejected such a call already;
    // for other callers it is denied here.
    if let Some(Err(reason)) = rule.parameters.as_ref().map(|p| p.check(&arguments)) {
        let reason = format!("{name}.{tool}: {reason}");
        let of = format!("{name}.{tool}.parameters");
        return Judgement::denied(of, rule.place.clone(), reason);
    }
    if let Some(after) = rule
        .after
        .as_ref()
        .filter(|after| !after.is_met(call, results))
    {
        let same = match after.same.is_empty() {
            true => String::new(),
            false => format!(" with the same {}", after.same.join(" and ")),
        };
        let reason = format!(
            "{name}.{tool} runs only after {}{same} has succeeded in this session",
            after.tool
        );
        return Judgement::denied(format!("{name}.{tool}.after"), rule.place.clone(), reason);
    }
    let control = call.control_label(rule.data());
    let rule_of = (tool, rule);
    match finding(app, rule_of, call, &control, &arguments, session, results) {
        Ok(finding) => {
            // The values that an argument accepts may depend only on results at or below the control part (`Among`).
            let known = Known {
                apps,
                results,
                control: &control,
                limit: &rule.limit,
            };
            limits((tool, rule), call, finding, &known)
        }
        Err(denied) => Judgement {
            effect: Some(rule.effect),
            ..*denied
        },
    }
}

/// What is wrong with an argument that selects a rule.
pub(crate) fn misspelled(select: &str) -> String {
    format!("'{select}' must be a text that is spelled as the rules spell it")
}

/// The line that the user can add for a tool.
fn remedy(app: &str, tool: &str) -> String {
    let key = toml_key(tool);
    format!("add [app.{app}.tools.{key}] with its effect to sluice.toml")
}

/// A name as a key of TOML. An app may have chosen it.
#[must_use]
pub fn toml_key(name: &str) -> String {
    // TOML takes only these characters without quotes.
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        // A string of JSON is one of TOML, except for DEL.
        false => serde_json::Value::from(name)
            .to_string()
            .replace('\u{7f}', "\\u007f"),
    }
}

/// The judgement of a final answer in a conversation of apps with these limits, by app.
pub(crate) fn judge_answer(answer: &Release, limits: Vec<(String, Label)>) -> Judgement {
    let sink = Sink::Answer(answer);
    let label = sink.label();
    // An answer may depend on the results of all of these apps. Without an app it has no limit.
    let all = limits.iter().map(|(_, limit)| limit);
    let limit = all.fold(Label::top(), |all, limit| all.meet(limit));
    let exceeded = limits.iter().find(|(_, limit)| !label.flows_to(limit));
    let rule = match exceeded.or(limits.first()) {
        Some((app, _)) => format!("{app}.answer.limit"),
        None => "answer.limit".to_owned(),
    };
    judge_sink(&sink, Effect::Read, rule, limit, None, Exceeded::Ask)
}

/// The judgement of a sink that is no call: it has one limit.
pub(crate) fn judge_sink(
    sink: &Sink<'_>,
    effect: Effect,
    rule: impl Into<String>,
    limit: Label,
    ask: Option<String>,
    exceeded: Exceeded,
) -> Judgement {
    let limit = LimitPart {
        rule: rule.into(),
        limit,
        label: sink.label(),
        place: None,
    };
    decide(effect, limit, Vec::new(), ask, exceeded)
}

fn finding(
    app: &AppRules,
    (tool, rule): (&str, &ToolRule),
    call: &Call,
    control: &Label,
    arguments: &Arguments<'_>,
    session: &SessionFacts,
    results: &Results<'_>,
) -> Result<Finding, Box<Judgement>> {
    let name = &call.app;
    let Some(conditions) = &rule.conditions else {
        if app.has_conditions {
            // The conditions were validated against the tools that are listed.
            let reason = format!(
                "the conditions of the app '{name}' cannot judge the tool '{tool}', which is not listed; {}",
                remedy(name, tool)
            );
            let rule = format!("{name}.cedar");
            return Err(Box::new(Judgement::denied(rule, None, reason)));
        }
        return Ok(Finding::default());
    };
    let label = Sink::Call(call).label().join(&rule.carries);
    let control = control.join(&rule.carries);
    let parameters = rule.parameters.as_ref();
    let judged = conditions.judge(results, &label, &control, arguments, parameters, session);
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

/// The limits of the tool and of the data arguments that are present. Permits raise the limit of the tool only.
fn limits(
    (tool, rule): (&str, &ToolRule),
    call: &Call,
    mut finding: Finding,
    known: &Known<'_>,
) -> Judgement {
    let app = &call.app;
    let label = known.control.join(&rule.carries);
    let mut of_tool = LimitPart {
        rule: format!("{app}.{tool}.limit"),
        limit: rule.limit.clone(),
        label: label.clone(),
        place: rule.place.clone(),
    };
    let raises = finding.raises.iter();
    let raised = raises.fold(rule.limit.clone(), |joined, (_, l)| joined.join(l));
    // Permits are named only if they decide. Otherwise the user is shown the limit to change.
    if !label.flows_to(&of_tool.limit) && label.flows_to(&raised) {
        // The permits that cover a taint which the tool's own limit does not.
        let matter = finding
            .raises
            .iter()
            .filter(|(_, limit)| !label.meet(limit).flows_to(&rule.limit));
        let names: Vec<&str> = matter.map(|(name, _)| name.as_str()).collect();
        of_tool.rule = names.join(" + ");
        of_tool.place = None;
    }
    of_tool.limit = raised;
    let mut instead = Vec::new();
    // A value of a checked form cannot instruct, so it may influence a call, but not whom or what the call is about.
    if !label.is_bottom() && !rule.has_destination(call) {
        of_tool.limit = of_tool.limit.join(&Label::forms());
    }
    let of_all = (&rule.audience, format!("{app}.{tool}.audience"));
    of_tool.raise(&of_all, call, &mut instead);
    let exceeds = |part: &LimitPart| !part.label.flows_to(&part.limit);
    // Whether something asks that nothing in `instead` avoids.
    let mut asks_anyway = finding.ask.is_some() || (exceeds(&of_tool) && instead.is_empty());
    // The monitor knows the label of the call without it, so the rule asks about each such call.
    if !rule.carries.flows_to(&of_tool.limit) {
        of_tool.rule = format!("{app}.{tool}.carries");
        finding.ask.get_or_insert_with(|| of_tool.rule.clone());
    }
    let (mut arguments, mut data) = (BTreeMap::new(), Vec::new());
    for (path, own) in &rule.arguments {
        let Some(mut part) = limit_of(path, own, call, known) else {
            continue;
        };
        if !part.label.is_bottom() && !rule.is_data_destination(path, call) {
            part.limit = part.limit.join(&Label::forms());
        }
        part.rule = format!("{app}.{tool}.arguments.{path}.{}", part.rule);
        let before = instead.len();
        match &own.audience {
            None => part.raise(&of_all, call, &mut instead),
            it => {
                let own = (it, format!("{app}.{tool}.arguments.{path}.audience"));
                part.raise(&own, call, &mut instead);
            }
        }
        // A condition or an audience depends on this argument, so it belongs to the control part, and its limit can only
        // restrict.
        if rule.is_looked_at(path) {
            part.limit = part.limit.meet(&of_tool.limit);
        }
        if exceeds(&part) {
            let words = own.accepts.iter().filter_map(Accept::words);
            instead.extend(words.map(|words| format!("{path} may be {words}")));
            asks_anyway |= instead.len() == before;
        }
        arguments.insert(path.clone(), part.limit.clone());
        data.push(part);
    }
    if asks_anyway {
        instead.clear();
    }
    // A body and a subject have the same readers.
    instead.dedup();
    Judgement {
        arguments,
        instead,
        ..decide(rule.effect, of_tool, data, finding.ask, Exceeded::Ask)
    }
}

/// The limit of a data argument: its own, and if that is exceeded also those of the entries that accept its values. `None` if
/// the call has no such argument.
///
/// If the value has not the form that leads to the data argument, all of the argument must keep the limit, and nothing of it
/// is accepted.
fn limit_of(
    path: &ArgumentPath,
    own: &ArgumentLimit,
    call: &Call,
    known: &Known<'_>,
) -> Option<LimitPart> {
    let argument = call.arguments.get(path.argument())?;
    let values = call.arguments.at(path);
    // There is no value, as in an empty list. That it is empty belongs to the control part.
    if values.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    let whole = std::slice::from_ref(argument);
    let parts = values.as_deref().unwrap_or(whole).iter();
    let label = parts.fold(call.label.clone(), |all, value| all.join(&value.label()));
    let part = |rule: &str, limit: Label, place: &Place| LimitPart {
        rule: rule.to_owned(),
        limit,
        label: label.clone(),
        place: Some(place.clone()),
    };
    let of_own = part("limit", own.label.clone(), &own.place);
    // Only if the limit does not suffice, since `accepts` may search every result of the conversation.
    let Some(values) = values.filter(|_| !label.flows_to(&own.label)) else {
        return Some(of_own);
    };
    let texts: Vec<&str> = values.iter().map(Labeled::reveal_tcb).collect();
    let mut accepting = own.accepts.iter().filter(|it| it.accepts(&texts, known));
    Some(match accepting.next() {
        None => of_own,
        Some(first) => {
            let limits = accepting.map(|accept| &accept.limit);
            let raised = limits.fold(own.label.join(&first.limit), |all, limit| all.join(limit));
            part("accepts", raised, &first.place)
        }
    })
}

/// The judgement of a flow whose parts have these limits, the control part's first. `ask` is a condition that always asks
/// about it.
fn decide(
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
    // The control part's limit is first, so it is named if both it and a data argument's are exceeded.
    let over = limits.iter().find(|part| !part.label.flows_to(&part.limit));
    let flows = over.is_none();
    let (rule, place) = match &ask {
        Some(condition) if flows => (condition.clone(), None),
        _ => {
            let part = over.unwrap_or(&first);
            (part.rule.clone(), part.place.clone())
        }
    };
    // Given even if a limit is exceeded, since a wider limit alone would not end the question.
    let reason = ask.as_ref().map(|condition| {
        format!("the condition {condition} asks the user about this call under any label")
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
        instead: Vec::new(),
        always_ask: ask.is_some(),
        exceeded,
    }
}

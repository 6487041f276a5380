//! `sluice policy explain`: the decisions of a recorded session, and what would have changed them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use config::Config;
use hub::trace::{self, Cause, Event, Flow, Record, UNANSWERED, escape};
use ifc::{
    ArgumentPath, Arguments, ArgumentsError, Basis, Delivery, History, Label, Labeled, Lattice,
    PastCalls, PermittedCall, Policy, Release, Results, Sink, Source, Stage,
};
use policy::names::{CONTENT, is_in, words};
use policy::{AppPolicy, Judgement, LimitPart, SessionFacts, Verdict, toml_key};
use serde_json::{Value, json};
use server::gateway::REDEEMED;
use server::proxy::OBSERVED;

use crate::exit::Exit;
use crate::json_lines::show;
use crate::terminal::print;
use crate::words::{counted, set, short};
use crate::{observed, traces};

/// The decision of this policy about a recorded flow; `None` if its labels are unknown.
pub(crate) fn verdict(config: &Config, policy: &AppPolicy, flow: &Flow) -> Option<Verdict> {
    let mut is_known = true;
    let mut read = |names: &[String]| {
        let label = config.lattice.labels(names.iter().map(String::as_str));
        is_known &= label.is_ok();
        label.unwrap_or(Label::top())
    };
    let found = decide(policy, &PastCalls::default(), flow, &mut read);
    is_known.then_some(found.verdict)
}

/// Explains every decision of a session, or one of them.
pub(super) fn explain(
    config: &Config,
    file: &Path,
    session: &str,
    only: Option<usize>,
    as_json: bool,
) -> Result<Exit> {
    let records = traces::read(session)?;
    let decisions = evaluated(config, &records);
    if let Some(number) = only.filter(|number| !(1..=decisions.len()).contains(number)) {
        bail!(
            "there is no call {number}; the session has {} decisions, counted from 1",
            decisions.len()
        );
    }
    for (number, (recorded, found)) in (1..).zip(&decisions) {
        if only.is_none_or(|only| only == number) {
            let line = as_line(&config.lattice, number, recorded, found);
            let text = as_text(&config.lattice, file, number, recorded, found);
            show(as_json, &line, &text)?;
        }
    }
    if decisions.is_empty() && !as_json {
        print("no call was decided in this session")?;
    }
    Ok(Exit::Done)
}

/// A decision of the trace.
pub(crate) struct Recorded<'a> {
    /// The conversation that it belongs to; `None` is the session's own.
    pub(super) conversation: Option<&'a str>,
    pub(crate) flow: &'a Flow,
    pub(crate) verdict: Verdict,
    /// The rule, or the reason of a denial.
    pub(super) by: &'a str,
    /// The taints beyond the limit, and the regions that brought them.
    excess: &'a [String],
    causes: &'a [Cause],
    /// The user's answer, and whether it allows.
    pub(super) answer: Option<(&'a str, bool)>,
    /// What was replied to the question, by whom, and from where. Older traces do not say it.
    reply: Option<(&'a str, Option<&'a str>, Option<&'a str>)>,
    /// Whether the question about an earlier call of the step listed it, and `each` allowed it.
    pub(super) is_listed: bool,
    /// The user, if the front named one.
    pub(super) user: Option<&'a str>,
    /// Its place in the trace.
    at: usize,
    /// The place of the call's result, and whether that is an error.
    pub(super) returned: Option<(usize, bool)>,
    /// The call with the labels that it has since the user allowed it.
    endorsed: Option<&'a trace::Call>,
}

/// The answers after which a call is decided on again.
const TRUSTS: [&str; 4] = ["trust", "trust-session", "value", "source"];

impl Recorded<'_> {
    /// Whether the user allowed it, in a question about it or for longer than once. A text that the user trusts may have
    /// asked for anything.
    pub(super) fn was_allowed(&self) -> bool {
        match self.verdict {
            Verdict::Allow => {
                self.by.starts_with("user") && self.by != Basis::UserTrust.to_string()
            }
            _ => self.answer.is_some_and(|(_, allowed)| allowed),
        }
    }

    /// Whether the answer was trust, after which the call was decided on again.
    pub(super) fn was_trusted(&self) -> bool {
        self.answer
            .is_some_and(|(answer, _)| TRUSTS.contains(&answer))
    }

    /// Whether the call was made.
    fn ran(&self) -> bool {
        match self.verdict {
            Verdict::Allow => true,
            // After trust it is decided on again.
            _ => {
                !self.was_trusted()
                    && self
                        .answer
                        .is_some_and(|(answer, allowed)| allowed || answer == OBSERVED)
            }
        }
    }

    /// Marks a call that was only observed as one that the user would allow.
    pub(super) fn allow(&mut self) {
        (self.verdict, self.answer) = (Verdict::Ask, Some(("once", true)));
    }

    /// Whether it is about this call, under any labels.
    pub(super) fn is_about(&self, conversation: Option<&str>, call: &trace::Call) -> bool {
        match self.flow {
            Flow::Call(own) => {
                self.conversation == conversation
                    && (&own.app, &own.tool, &own.arguments)
                        == (&call.app, &call.tool, &call.arguments)
            }
            _ => false,
        }
    }
}

/// Every decision, with the user's answer to each question.
pub(crate) fn decisions(records: &[Record]) -> Vec<Recorded<'_>> {
    let mut found: Vec<Recorded<'_>> = Vec::new();
    let is_observed = observed::is_observed(records);
    let mut users = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        let conversation = record.conversation.as_deref();
        let decided = |flow, verdict, by| Recorded {
            conversation,
            flow,
            verdict,
            by,
            excess: &[],
            causes: &[],
            answer: None,
            reply: None,
            is_listed: false,
            user: users.get(&conversation).copied(),
            at,
            returned: None,
            endorsed: None,
        };
        match &record.event {
            // Its yes was --observe's: no user has approved what was only observed.
            Event::Allowed { flow, by, .. }
                if is_observed && by.starts_with("user") && by.ends_with(REDEEMED) =>
            {
                found.push(Recorded {
                    answer: Some((OBSERVED, false)),
                    ..decided(flow, Verdict::Ask, "another front")
                });
            }
            Event::Allowed { flow, by, .. } => found.push(decided(flow, Verdict::Allow, by)),
            Event::Denied { flow, reason, .. } => found.push(decided(flow, Verdict::Deny, reason)),
            Event::Asked {
                flow,
                rule,
                excess,
                causes,
                ..
            } => found.push(Recorded {
                excess,
                causes,
                ..decided(flow, Verdict::Ask, rule)
            }),
            Event::Replied { answer, by, from } => {
                if let Some(asked) = open(&mut found, conversation).next() {
                    asked.reply = Some((answer, by.as_deref(), from.as_deref()));
                }
            }
            Event::Answered {
                flow,
                answer,
                allowed,
            } => {
                // A call that the user trusted a text for was asked about again, and refused.
                if let Flow::Call(call) = flow {
                    let again = found.iter_mut();
                    let again =
                        again.filter(|one| one.was_trusted() && one.is_about(conversation, call));
                    again.for_each(|one| one.answer = one.answer.map(|(it, _)| (it, *allowed)));
                }
                // The newest question: the same flow may have been asked about before.
                let asked = open(&mut found, conversation).find(|one| one.flow == flow);
                match asked {
                    // The user has not approved what was only observed.
                    Some(asked) if is_observed => asked.answer = Some((OBSERVED, false)),
                    Some(asked) => asked.answer = Some((answer, *allowed)),
                    None if answer == "each" => found.push(Recorded {
                        answer: Some((answer, *allowed)),
                        is_listed: true,
                        ..decided(flow, Verdict::Ask, "")
                    }),
                    None => {}
                }
            }
            Event::Trusted { until, .. } => {
                let answer = match until.as_str() {
                    "task" => "trust",
                    "session" => "trust-session",
                    until => until.trim_start_matches("task "),
                };
                if let Some(asked) = open(&mut found, conversation).next() {
                    asked.answer = Some((answer, true));
                }
            }
            Event::User {
                name: Some(name), ..
            } => drop(users.insert(conversation, name.as_str())),
            Event::Endorsed { call, .. } => {
                let mut newest = found.iter_mut().rev();
                if let Some(one) = newest.find(|one| one.is_about(conversation, call)) {
                    one.endorsed = Some(call);
                }
            }
            Event::Returned { call, is_error, .. } => {
                let mut calls = found
                    .iter_mut()
                    .filter(|one| one.returned.is_none() && one.ran());
                if let Some(one) = calls.find(|one| one.is_about(conversation, call)) {
                    one.returned = Some((at, *is_error));
                }
            }
            _ => {}
        }
    }
    found
}

/// The questions of a conversation without an answer, the newest first.
fn open<'f, 'a>(
    found: &'f mut [Recorded<'a>],
    conversation: Option<&str>,
) -> impl Iterator<Item = &'f mut Recorded<'a>> {
    found.iter_mut().rev().filter(move |one| {
        one.verdict == Verdict::Ask && one.answer.is_none() && one.conversation == conversation
    })
}

/// The decision of this policy about a recorded flow.
pub(super) struct Found {
    pub(super) now: Judgement,
    /// Whether the policy said so then.
    is_same: bool,
    /// The label has names that this configuration's lattice lacks.
    pub(super) unknown: Option<String>,
    /// Taints each of which would have stopped the call.
    would_stop: Vec<String>,
}

/// Every decision of a session, with that of this configuration about the same flow, for the same user and after the same
/// calls.
pub(super) fn evaluated<'a>(config: &Config, records: &'a [Record]) -> Vec<(Recorded<'a>, Found)> {
    let mut policies: BTreeMap<Option<&str>, AppPolicy> = BTreeMap::new();
    let mut all: Vec<(Recorded<'a>, Found)> = Vec::new();
    // The calls that count for later ones, by their number.
    let mut counted: Vec<(usize, ifc::Call)> = Vec::new();
    for recorded in decisions(records) {
        let of_config = config.user_name.as_deref();
        // With `user_header` the proxy has the user from the requests alone.
        let by_header = config.proxy.user_header.is_some() && recorded.conversation.is_some();
        let user = recorded.user.or(of_config.filter(|_| !by_header));
        let policy = policies.entry(user).or_insert_with(|| {
            config.policy().with_session(SessionFacts {
                user: user.map(Arc::from),
                ..SessionFacts::default()
            })
        });
        let before = counted.iter().filter_map(|(number, call)| {
            let (past, _) = all.get(*number)?;
            let has_succeeded = |(at, is_error): (usize, bool)| at < recorded.at && !is_error;
            (past.conversation == recorded.conversation)
                .then(|| PermittedCall::example(call, past.returned.is_some_and(has_succeeded)))
        });
        let past = PastCalls::from(before.collect::<Vec<_>>());
        let (found, call) = evaluate(config, policy, &past, &recorded);
        counted.extend(call.map(|call| (all.len(), call)));
        all.push((recorded, found));
    }
    all
}

/// The decision after these calls, and the call as it counts for later ones.
fn evaluate(
    config: &Config,
    policy: &AppPolicy,
    past: &PastCalls,
    recorded: &Recorded<'_>,
) -> (Found, Option<ifc::Call>) {
    let lattice = &config.lattice;
    let mut unknown = None;
    let mut read = |names: &[String]| {
        let label = lattice.labels(names.iter().map(String::as_str));
        label.unwrap_or_else(|error| {
            // A taint that this lattice lacks could mean anything, so the label is ⊤.
            unknown = Some(error.to_string());
            Label::top()
        })
    };
    let now = decide(policy, past, recorded.flow, &mut read);
    let counts = match recorded.flow {
        Flow::Call(call) if recorded.ran() => {
            let call = recorded.endorsed.unwrap_or(call);
            counting(policy, past, call, &mut read)
        }
        _ => None,
    };
    let taints = lattice.taints();
    let beyond = taints.filter(|(_, taint)| !taint.flows_to(&now.limit));
    let found = Found {
        would_stop: match now.verdict {
            Verdict::Allow => beyond.map(|(name, _)| name.to_owned()).collect(),
            Verdict::Ask | Verdict::Deny => Vec::new(),
        },
        unknown,
        is_same: now.verdict
            == match recorded.verdict {
                // An earlier answer of the user's allowed what would have been asked about.
                Verdict::Allow if !recorded.by.starts_with("policy ") => Verdict::Ask,
                verdict => verdict,
            },
        now,
    };
    (found, counts)
}

/// A call that was made, under the name and the label by which it counts for the rules of later ones.
fn counting(
    policy: &AppPolicy,
    past: &PastCalls,
    call: &trace::Call,
    read: &mut dyn FnMut(&[String]) -> Label,
) -> Option<ifc::Call> {
    let call = call_of(call, read).ok()?;
    let history = History::new(Vec::new());
    let results = Results::new(&history, &call.label).after(past);
    let rule = policy.rule_after(&results, &Sink::Call(&call)).ok()?;
    let counts = rule.counted?;
    let arguments = counts.arguments.iter();
    let data = arguments.filter_map(|name| Some(call.arguments.get(name)?.label()));
    Some(ifc::Call {
        tool: counts.tool.clone(),
        label: data.fold(call.label.clone(), |all, label| all.join(&label)),
        ..call
    })
}

fn label_of(flow: &Flow) -> &[String] {
    match flow {
        Flow::Call(call) => &call.label,
        Flow::Message(message) => &message.label,
        Flow::Answer { label, .. } => label,
    }
}

/// The policy's decision about a recorded flow, under the labels that `read` makes of names.
fn decide(
    policy: &AppPolicy,
    past: &PastCalls,
    flow: &Flow,
    read: &mut dyn FnMut(&[String]) -> Label,
) -> Judgement {
    let label = read(label_of(flow));
    match flow {
        Flow::Call(call) => match call_of(call, read) {
            Ok(call) => {
                // A trace has no results.
                let history = History::new(Vec::new());
                let results = Results::new(&history, &call.label).after(past);
                policy.judge_after(&results, &Sink::Call(&call))
            }
            // Arguments without one canonical text are rejected before any rule is asked.
            Err(error) => Judgement::denied(call.app.clone(), None, error.to_string()),
        },
        Flow::Message(message) => {
            let mut stages = Stage::ALL.into_iter();
            let Some(stage) = stages.find(|stage| stage.name() == message.stage) else {
                let reason = format!("there is no message '{}'", escape(&message.stage));
                return Judgement::denied("messages".to_owned(), None, reason);
            };
            policy.judge(&Sink::Delivery(&Delivery {
                from: message.from.clone(),
                to: message.to.clone(),
                functionality: message.functionality.clone(),
                stage,
                message: Labeled::label_tcb(message.text.as_str(), label),
            }))
        }
        Flow::Answer { apps, text, .. } => policy.judge(&Sink::Answer(&Release {
            apps: apps.clone(),
            text: Labeled::label_tcb(text.as_str(), label),
        })),
    }
}

/// A recorded call under the labels that `read` makes of names.
fn call_of(
    call: &trace::Call,
    read: &mut dyn FnMut(&[String]) -> Label,
) -> Result<ifc::Call, ArgumentsError> {
    let label = read(&call.label);
    let arguments = Arguments::parse(&call.arguments, &label)?;
    let arguments = call
        .data
        .iter()
        .fold(arguments, |all, (path, label)| match path.parse() {
            Ok(path) => all.restrict_at(&path, &read(label)),
            // An earlier version wrote names of arguments.
            Err(_) => all.restrict(path, &read(label)),
        });
    Ok(ifc::Call {
        app: call.app.clone(),
        tool: call.tool.to_string(),
        arguments,
        label,
    })
}

/// One line of `--json`.
fn as_line(lattice: &Lattice, number: usize, recorded: &Recorded<'_>, found: &Found) -> Value {
    let now = &found.now;
    let exceeded = (now.limits.iter()).filter(|part| !part.label.flows_to(&part.limit));
    let would_pass = exceeded.map(|part| {
        json!({
            "rule": part.rule,
            "place": part.place.as_ref().map(short),
            "allows": lattice.describe(&part.limit),
            "would_pass_with": lattice.describe(&part.limit.join(&part.label)),
        })
    });
    json!({
        "kind": "decision",
        "number": number,
        "conversation": recorded.conversation,
        "flow": recorded.flow,
        "recorded": {
            "verdict": recorded.verdict.name(),
            "by": recorded.by,
            "excess": recorded.excess,
            "causes": recorded.causes,
            "answer": recorded.answer.map(|(answer, _)| answer),
            "allowed": recorded.answer.map(|(_, allowed)| allowed),
            "listed": recorded.is_listed,
        },
        "now": {
            "verdict": now.verdict.name(),
            "same": found.is_same,
            "rule": now.rule,
            "place": now.place.as_ref().map(ToString::to_string),
            "reason": now.reason,
            "limit": lattice.describe(&now.limit),
            "excess": lattice.describe(&now.excess),
            "label_unknown": found.unknown,
        },
        "would_pass": would_pass.collect::<Vec<_>>(),
        "would_stop": found.would_stop,
    })
}

/// The lines for a person. [`show`] escapes them, since a trace may come from anywhere.
fn as_text(
    lattice: &Lattice,
    file: &Path,
    number: usize,
    recorded: &Recorded<'_>,
    found: &Found,
) -> String {
    let what = match recorded.flow {
        Flow::Call(call) => {
            let (tool, arguments) = (call.tool.as_str(), call.arguments.as_str());
            format!("{}.{tool} {arguments}", call.app)
        }
        Flow::Message(it) => format!(
            "the {} of {} to {} for {} {}",
            it.stage,
            it.from,
            it.to,
            it.functionality,
            it.text.as_str()
        ),
        Flow::Answer { text, .. } => format!("the answer {}", text.as_str()),
    };
    let mut lines = vec![format!("call {number}  {}", escape(&what))];
    let mut add = |head: &str, text: &str| lines.push(format!("{head:<13}{}", escape(text)));
    if let Some(conversation) = recorded.conversation {
        add("  in", &format!("conversation {conversation}"));
    }
    add("  label", &set(label_of(recorded.flow)));
    add("  recorded", &recorded_text(recorded));
    let of_tools = |cause: &&Cause| matches!(cause.source, Source::Description(_));
    let (mut descriptions, mut causes): (Vec<_>, Vec<_>) =
        recorded.causes.iter().partition(of_tools);
    // A tool has a description and a schema.
    descriptions.dedup_by_key(|cause| &cause.source);
    // Where values of the call occur, as a question has them.
    causes.sort_by_key(|cause| cause.quotes.is_empty());
    for cause in causes {
        let cause = format!(
            "because of region {}, {} {}: {}",
            cause.region,
            cause.source,
            set(&cause.label),
            cause.excerpt.as_str()
        );
        add("", &cause);
    }
    if !descriptions.is_empty() {
        let count = counted(descriptions.len(), "tool description", "tool descriptions");
        add("", &format!("because of {count}"));
    }
    add("  now", &now_text(lattice, file, recorded, found));
    if let Some(unknown) = &found.unknown {
        add("", &format!("its label is unknown: {unknown}"));
    }
    for change in changes(lattice, recorded, found) {
        add("  change", &change);
    }
    lines.push(String::new());
    lines.join("\n")
}

pub(crate) fn recorded_text(recorded: &Recorded<'_>) -> String {
    let by = recorded.by;
    match recorded.verdict {
        Verdict::Allow => format!("allowed by {by}"),
        Verdict::Deny => format!("denied: {}", by.strip_prefix("denied: ").unwrap_or(by)),
        Verdict::Ask if recorded.is_listed => {
            "listed in the question about an earlier call of its step; the user said each"
                .to_owned()
        }
        Verdict::Ask => {
            let answer = match (recorded.reply, recorded.answer) {
                (_, Some((OBSERVED, _))) => "--observe let it through".to_owned(),
                (Some((UNANSWERED, ..)), _) | (None, None) => "there was no answer".to_owned(),
                (Some((answer, _, None | Some("terminal"))), _) => {
                    format!("the user said {answer}")
                }
                (Some((answer, by, Some(from))), _) => {
                    format!("{} said {answer}, from {from}", by.unwrap_or("the user"))
                }
                (None, Some((answer, true))) => format!("the user said {answer}"),
                (None, Some((answer, false))) => format!("the answer was {answer}"),
            };
            let beyond = match recorded.excess {
                [] => String::new(),
                excess => format!(", because {} goes beyond its limit", set(excess)),
            };
            format!("asked by {by}{beyond}; {answer}")
        }
    }
}

fn now_text(lattice: &Lattice, file: &Path, recorded: &Recorded<'_>, found: &Found) -> String {
    let now = &found.now;
    let (same, allowed) = match (found.is_same, now.verdict == recorded.verdict) {
        (false, _) => ("DIFFERENT", ""),
        (true, true) => ("the same", ""),
        (true, false) => ("the same", "; an earlier answer of yours allowed it"),
    };
    let (file, verdict, rule) = (file.display(), now.verdict.name(), &now.rule);
    let place = now
        .place
        .as_ref()
        .map(|place| format!(" ({})", short(place)));
    let allows = match now.verdict {
        // A denial has no limit that a label could be below.
        Verdict::Deny => String::new(),
        _ => format!(", which allows {}", set(&lattice.describe(limit(now)))),
    };
    let reason = now.reason.as_ref().map(|reason| format!(": {reason}"));
    format!(
        "{same}: {file} says {verdict} by {rule}{}{allows}{}{allowed}",
        place.unwrap_or_default(),
        reason.unwrap_or_default()
    )
}

/// What would have changed the decision, the narrowest change first.
fn changes(lattice: &Lattice, recorded: &Recorded<'_>, found: &Found) -> Vec<String> {
    let now = &found.now;
    match now.verdict {
        Verdict::Allow if found.would_stop.is_empty() => {
            vec!["no label would stop it".to_owned()]
        }
        Verdict::Allow => vec![format!(
            "it would be asked about if its label also had one of {}",
            set(&found.would_stop)
        )],
        Verdict::Deny => {
            vec!["only another rule would let it pass".to_owned()]
        }
        Verdict::Ask => {
            let mut lines = Vec::new();
            let raised = |part: &LimitPart| {
                let place = part.place.as_ref();
                let place = place.map_or(String::new(), |place| format!(" ({})", short(place)));
                let with = lattice.describe(&part.limit.join(&part.label));
                format!("{}{place} would let it pass as {with:?}", part.rule)
            };
            let exceeded = (now.limits.iter()).filter(|part| !part.label.flows_to(&part.limit));
            // The limit of the tool is the first, and counts for all of the call.
            let of_tool = now.limits.first().map(|part| &part.rule);
            let (tool, data): (Vec<_>, Vec<_>) =
                exceeded.partition(|part| Some(&part.rule) == of_tool);
            lines.extend(data.into_iter().map(raised));
            if let (Some(_), Flow::Call(call)) = (tool.first(), recorded.flow) {
                let has_limit =
                    |path: &ArgumentPath| now.arguments.keys().any(|it| it.contains(path));
                lines.extend(narrower(call, recorded.causes, has_limit));
            }
            if now.excess.is_top() {
                let limit = set(&lattice.describe(limit(now)));
                lines.push(format!(
                    "it would pass if its label were known and below {limit}"
                ));
            } else if !now.excess.is_bottom() {
                let excess = set(&lattice.describe(&now.excess));
                lines.push(format!("it would pass without {excess} in its label"));
            }
            let of_tool = tool.into_iter().map(raised);
            lines.extend(of_tool.map(|line| line + ", and others under this rule"));
            if now.always_ask {
                lines.push("no label would let it pass without a question".to_owned());
            }
            lines
        }
    }
}

/// Changes that let less pass than a wider limit of the tool: of arguments that only carry content and in which a cause occurs,
/// and of the fields that brought its taints. Whom or what a call is about stays at the limit of the tool.
fn narrower(
    call: &trace::Call,
    causes: &[Cause],
    has_limit: impl Fn(&ArgumentPath) -> bool,
) -> BTreeSet<String> {
    let carries = |path: &ArgumentPath| {
        let last = words(path.last_name()).pop();
        last.is_some_and(|word| is_in(CONTENT, &word)) && !has_limit(path)
    };
    let mut lines = BTreeSet::new();
    for cause in causes {
        let quotes = cause.quotes.iter();
        let quotes = quotes.filter(|quote| quote.argument.parse().is_ok_and(|path| carries(&path)));
        lines.extend(quotes.map(|quote| {
            format!(
                "[app.{}.tools.{}.arguments.{}] limit = […] would admit the text in this argument, if it only carries text",
                call.app,
                call.tool.as_str(),
                toml_key(&quote.argument)
            )
        }));
        if let Source::Tool(tool) = &cause.source {
            lines.insert(format!(
                "a rule for the field in `labels` of {tool} would, if only the user or the service writes it"
            ));
        }
    }
    lines
}

/// The limit that decides.
pub(super) fn limit(now: &Judgement) -> &Label {
    let exceeded = |part: &&LimitPart| part.rule == now.rule && !part.label.flows_to(&part.limit);
    now.limits
        .iter()
        .find(exceeded)
        .map_or(&now.limit, |part| &part.limit)
}

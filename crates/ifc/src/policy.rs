//! The rules of a policy for sinks, and its labels for results (RTBAS §6.2, `P : t^i ↦ L`).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{ArgumentPath, Arguments, Call, Counts, Effect, Label, Labeled, Results, Sink, Writer};

/// The consequence of a flow above its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// The user is asked.
    Ask,
    /// It is denied: providers and connections.
    Deny,
}

/// The rule of a policy for one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `P(t^i)`: what flows here may flow without a question. For a call it bounds the control part.
    pub limit: Label,
    /// The limits of a call's data arguments, by their places. The other arguments belong to the control part.
    pub arguments: BTreeMap<ArgumentPath, Label>,
    /// The consequence of a flow above a limit.
    pub exceeded: Exceeded,
    /// The effect of the sink on the world.
    pub effect: Effect,
    /// The arguments by which two irreversible calls are the same. `None` is all arguments of the control part.
    pub same_by: Option<Arc<[String]>>,
    /// The name of the rule, as the configuration has it (`mail.send_email.limit`).
    pub name: String,
    /// How this call counts, if rules depend on whether it was permitted.
    pub counted: Option<Arc<Counts>>,
    /// Whether the user is asked even where the label flows. Each such flow is a question of its own. A message between
    /// apps and a connection are exceptions: there the rule wants consent to the collaboration (SecGPT Figure 3) or the
    /// domain (appendix B.1), which the user can give for longer, for the taints that it has.
    pub always_ask: bool,
    /// The names of the people who may allow what the rule asks about, each flow by itself; `None` is the user.
    pub approvers: Option<Arc<[String]>>,
}

/// A part of a flow, and the limit that it has under a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// The data argument; `None` for the control part of a call, and for all of any other flow.
    pub argument: Option<&'a ArgumentPath>,
    /// Its label.
    pub label: Label,
    /// Its limit.
    pub limit: &'a Label,
}

impl Part<'_> {
    /// Whether it is beyond its limit.
    #[must_use]
    pub fn exceeds(&self) -> bool {
        !self.label.flows_to(self.limit)
    }

    /// Its taints beyond its limit.
    #[must_use]
    pub fn excess(&self) -> Label {
        self.label.beyond(self.limit)
    }
}

impl Rule {
    /// A rule that has one limit for all of a flow, and asks about what exceeds it.
    pub fn asking(name: impl Into<String>, effect: Effect, limit: Label) -> Self {
        Self {
            limit,
            arguments: BTreeMap::new(),
            exceeded: Exceeded::Ask,
            effect,
            same_by: None,
            counted: None,
            name: name.into(),
            always_ask: false,
            approvers: None,
        }
    }

    /// Appends the arguments as two calls are compared by them: by value, and without data, since data can be written
    /// in any number of ways.
    pub(crate) fn compared(&self, arguments: &Arguments, out: &mut String) {
        match &self.same_by {
            Some(names) => {
                let counts = |name: &str| names.iter().any(|it| it == name);
                arguments.write_by_value(counts, [].iter(), out);
            }
            None => arguments.write_by_value(|_| true, self.arguments.keys(), out),
        }
    }

    /// Whether calls with these arguments are the same.
    pub(crate) fn same(&self, one: &Arguments, other: &Arguments) -> bool {
        let counts = |name: &str| match &self.same_by {
            Some(names) => names.iter().any(|it| it == name),
            None => !self.arguments.keys().any(|path| path.argument() == name),
        };
        // Most calls differ in a string, and a canonical string has one spelling.
        let differs = one.iter().any(|(name, value)| {
            let value = value.reveal_tcb();
            let other = || other.get(name).map(Labeled::reveal_tcb);
            value.starts_with('"') && counts(name) && other() != Some(value)
        });
        let compared = |arguments| {
            let mut out = String::new();
            self.compared(arguments, &mut out);
            out
        };
        !differs && compared(one) == compared(other)
    }

    /// The parts of a flow that have a limit each: of a call first the control part, then the data arguments that it
    /// has.
    ///
    /// If the value of an argument has not the form that leads to a data argument inside of it, all of that argument
    /// belongs to the control part. It must keep the data argument's limit as well, so that another form does not get
    /// around it.
    #[must_use]
    pub fn parts<'a>(&'a self, sink: &Sink<'_>) -> Vec<Part<'a>> {
        let part = |argument, label, limit| Part {
            argument,
            label,
            limit,
        };
        let Sink::Call(call) = sink else {
            return vec![part(None, sink.label(), &self.limit)];
        };
        let control = call.control_label(self.arguments.keys());
        let mut parts = vec![part(None, control, &self.limit)];
        let mut data = Vec::new();
        for (path, limit) in &self.arguments {
            match call.arguments.label_at(path) {
                Some(None) => {}
                // That there are such values is known where the call is.
                Some(Some(label)) => data.push(part(Some(path), call.label.join(&label), limit)),
                None => {
                    let whole = call.arguments.get(path.argument());
                    let whole = whole.map_or(Label::top(), Labeled::label);
                    parts.push(part(None, call.label.join(&whole), limit));
                }
            }
        }
        parts.extend(data);
        parts
    }

    /// Whether the user has vouched for something that raises one of its limits.
    pub(crate) fn is_raised(&self) -> bool {
        let mut limits = std::iter::once(&self.limit).chain(self.arguments.values());
        limits.any(Label::is_endorsed)
    }

    /// The rule as the policy has it, without what the user has vouched for.
    pub(crate) fn unraised(&self) -> Self {
        let arguments = self.arguments.iter();
        Self {
            limit: self.limit.without_trust(),
            arguments: arguments
                .map(|(name, limit)| (name.clone(), limit.without_trust()))
                .collect(),
            ..self.clone()
        }
    }

    /// Whether every part of a flow flows to its limit.
    #[must_use]
    pub fn admits(&self, sink: &Sink<'_>) -> bool {
        // Most rules have one limit, and then no part needs to be made.
        if self.arguments.is_empty() {
            return sink.label().flows_to(&self.limit);
        }
        !self.parts(sink).iter().any(Part::exceeds)
    }

    /// The taints that are in the way of a flow: those of each part beyond its limit. ⊥ exactly if every part flows to
    /// its limit.
    #[must_use]
    pub fn excess(&self, sink: &Sink<'_>) -> Label {
        if self.arguments.is_empty() {
            return sink.label().beyond(&self.limit);
        }
        self.parts(sink).iter().map(Part::excess).collect()
    }
}

/// The part of a flow that a grant covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The control part of a call and all of its arguments; all of any other flow.
    Whole,
    /// One data argument.
    Argument(Box<ArgumentPath>),
}

impl Scope {
    /// The scope of an answer to a question about a flow with these parts. It covers only what the question shows. `None`
    /// if the answer can be given once only.
    pub(crate) fn of(parts: &[Part<'_>]) -> Option<Self> {
        let mut exceeding = parts.iter().filter(|part| part.exceeds());
        // Nothing exceeds where the rule always asks. Then the answer is about the flow as a whole.
        let Some(first) = exceeding.next() else {
            return Some(Self::Whole);
        };
        let excess = first.excess();
        match first.argument {
            None => exceeding
                // A yes to what the control part depends on covers data that depends on no more. With more, the grant
                // would cover taints in a part in which the question does not show them.
                .all(|part| part.excess().flows_to(&excess))
                .then_some(Self::Whole),
            Some(name) => match exceeding.next() {
                None => Some(Self::Argument(Box::new(name.clone()))),
                Some(_) => None,
            },
        }
    }

    /// Whether a grant of this scope for these taints covers what goes beyond the limits.
    pub(crate) fn covers(&self, taints: &Label, rule: &Rule, sink: &Sink<'_>) -> bool {
        // Consent is about all of what flows, and not about a part beyond a limit.
        if rule.wants_consent(sink) {
            return rule.unallowed(sink).flows_to(taints);
        }
        let parts = rule.parts(sink);
        let mut exceeding = parts.iter().filter(|part| part.exceeds());
        exceeding.all(|part| {
            let is_of = match self {
                Self::Whole => true,
                Self::Argument(name) => part.argument == Some(name.as_ref()),
            };
            is_of && part.excess().flows_to(taints)
        })
    }
}

/// Why a policy has no rule for a sink. The sink is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError(pub String);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PolicyError {}

/// An information-flow policy. All methods are pure.
pub trait Policy: Send + Sync {
    /// The rule for a sink. The rule for an answer must not depend on its text: the turn machine asks for it before
    /// there is one.
    ///
    /// # Errors
    /// The policy has no rule for it, or cannot judge it. The monitor denies it.
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError>;

    /// The same after what was read: the limit of an argument may be higher for values that were in trusted results. It
    /// may depend on the parts of the results that [are known](crate::KnownResult::knows) and on nothing else of them.
    /// Otherwise the decision would tell of what is above.
    ///
    /// # Errors
    /// As [`Policy::rule`].
    fn rule_after(&self, results: &Results<'_>, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let _ = results;
        self.rule(sink)
    }

    /// A limit below which no call of this tool is asked about or denied for its label, whatever its arguments. Under
    /// such a label a screener could save nothing. It is no permission. ⊥ if the policy cannot tell.
    fn floor(&self, app: &str, tool: &str) -> Label {
        let _ = (app, tool);
        Label::bottom()
    }

    /// The data arguments of this tool: the places that have a limit of their own in some rule for its calls.
    fn data_arguments(&self, app: &str, tool: &str) -> Vec<ArgumentPath> {
        let _ = (app, tool);
        Vec::new()
    }

    /// The parameters of this tool as the user's rules have them, a JSON Schema as JSON text; `None` if the rules say
    /// nothing. A prompt shows it where the app's schema is masked.
    fn parameters(&self, app: &str, tool: &str) -> Option<Arc<str>> {
        let _ = (app, tool);
        None
    }

    /// Whether a call's arguments have the form that the user's rules give its tool. If not, the model is told so and
    /// may correct the call. [`Policy::rule`] fails for such a call as well.
    ///
    /// # Errors
    /// One line for a model that says what is wrong. It depends on the arguments and the rules alone, so it has the
    /// label of the call with all its arguments.
    fn check_arguments(&self, call: &Call) -> Result<(), String> {
        let _ = call;
        Ok(())
    }

    /// Whether all values of a data argument are of a form that the user's rules accept there, so that they cannot instruct,
    /// not even together with those of other calls.
    fn has_form(&self, call: &Call, argument: &ArgumentPath) -> bool {
        let _ = (call, argument);
        false
    }

    /// The same policy in a session of this user, as the operator's front names it; `None` if it does not depend on users.
    fn for_user(&self, user: &str) -> Option<Arc<dyn Policy>> {
        let _ = user;
        None
    }

    /// What the rules would allow in the place of a call that they ask about, as the user has written it: the recipients that
    /// may read its text, the values that an argument accepts. `None` if they name nothing. It depends on the call and the
    /// rules alone, so it has the label of the whole call.
    fn instead(&self, call: &Call) -> Option<String> {
        let _ = call;
        None
    }

    /// Whether the user says that a tool's result changes by itself, so that the same read may be made again although the
    /// last two brought the same.
    fn is_polled(&self, call: &Call) -> bool {
        let _ = call;
        false
    }

    /// Labels the result of a call. It never fails: text that no rule understands gets the most restrictive label that the
    /// tool's results may have, and the result of an unknown tool gets ⊤.
    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        let _ = (call, is_error);
        Labeled::unknown(result)
    }

    /// Who wrote which parts of a result, in the order of their beginnings, as far as the user's rules tell. A writer must
    /// be known by what no stranger fills in, and by nothing more secret than what it wrote. The user can vouch for all of a
    /// writer's text.
    fn writers(&self, call: &Call, result: &Labeled) -> Vec<(Range<usize>, Writer)> {
        let _ = (call, result);
        Vec::new()
    }

    /// The label by which the app's own claims restrict a result. No claim at all may have a meaning too. ⊥ if the policy
    /// gives them no meaning.
    fn claimed(&self, call: &Call, claims: &[String]) -> Label {
        let _ = (call, claims);
        Label::bottom()
    }
}

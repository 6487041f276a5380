//! The reference monitor's decision about one call (RTBAS Algorithm 4, lines 7 to 11).

use std::fmt;

use crate::{Cause, Effect, History, Label, Policy};

/// A tool call as a model proposed it, with the label of the prompt that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The app that has the tool.
    pub app: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments, as JSON text, exactly as they will be sent.
    pub arguments: String,
    /// The label under which the call was made: it may depend on everything below.
    pub label: Label,
}

impl Call {
    /// No tool has this name: it stands for showing the final answer.
    const ANSWER: &str = "(answer)";

    /// The final answer, as the call of a sink: showing `text`, which was made under `label`.
    pub fn answer(app: impl Into<String>, text: impl Into<String>, label: Label) -> Self {
        Self {
            app: app.into(),
            tool: Self::ANSWER.to_owned(),
            arguments: text.into(),
            label,
        }
    }

    /// Whether this is the final answer. No tool may be offered under its name.
    pub fn is_answer(&self) -> bool {
        self.tool == Self::ANSWER
    }

    fn rule(&self, policy: &dyn Policy) -> Result<crate::Rule, crate::PolicyError> {
        if self.is_answer() {
            policy.answer(&self.app)
        } else {
            policy.rule(self)
        }
    }
}

/// What the monitor says of a call.
#[must_use = "a call runs only by the permit inside"]
#[derive(Debug)]
pub enum Decision {
    /// The call may run.
    Allow(Permit),
    /// Data would flow against the policy; only the user can allow it.
    Ask(Question),
    /// The call may not run.
    Deny(Denial),
}

/// The right to execute exactly one call, once.
///
/// It *owns* the call: what is executed is what was decided on, to the byte. It cannot be made
/// outside this crate, copied, or used twice, and whoever executes calls takes it by value.
#[must_use = "a permit that is dropped allows nothing"]
#[derive(Debug)]
pub struct Permit {
    call: Call,
    basis: Basis,
}

/// Who allowed a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// The call's label flows to the limit of this rule.
    Policy {
        /// The rule's name.
        rule: String,
    },
    /// The user said yes to this call.
    UserOnce,
    /// The user said yes to this tool and these taints earlier in the session.
    UserSession,
    /// Nobody: protection is off (Algorithm 1).
    Unprotected,
}

/// A question to the user: everything needed to decide, and nothing that a model wrote about it.
#[must_use = "a question that nobody answers denies the call"]
#[derive(Debug)]
pub struct Question {
    call: Call,
    rule: crate::Rule,
    excess: Label,
    causes: Vec<Cause>,
}

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This call only.
    Once,
    /// This tool under these taints, until the session ends. Not for the irreversible.
    Session,
    /// No.
    No,
}

/// Why a call may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The user, or whoever answers for an absent user, said no.
    Refused {
        /// The rule that asked.
        rule: String,
    },
    /// The policy cannot judge the call.
    Policy(String),
    /// "For the session" is not an answer for an irreversible call, nor where nobody can say
    /// which taints it would cover (⊤).
    NotForSession,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { rule } => write!(f, "refused under the rule {rule}"),
            Self::Policy(reason) => write!(f, "denied: {reason}"),
            Self::NotForSession => f.write_str("denied: this call can be allowed once only"),
        }
    }
}

/// Decides on calls, and remembers what the user granted for this session.
#[derive(Debug)]
pub struct Monitor {
    protection: Protection,
    grants: Vec<Grant>,
}

#[derive(Debug)]
enum Protection {
    On,
    /// Every call is asked about, whatever its label.
    Confirm,
    Off,
}

/// "Yes, for the session": one tool, and the taints that the user has seen in the question.
#[derive(Debug)]
struct Grant {
    app: String,
    tool: String,
    taints: Label,
}

impl Monitor {
    /// A monitor that enforces, without grants.
    pub fn new() -> Self {
        Self {
            protection: Protection::On,
            grants: Vec::new(),
        }
    }

    /// A monitor that allows everything: the unprotected agent, for comparison (Algorithm 1).
    pub fn unprotected_tcb() -> Self {
        Self {
            protection: Protection::Off,
            grants: Vec::new(),
        }
    }

    /// A monitor that asks about every call, as assistants without information flow do (RTBAS §8:
    /// "confirm every time"). The final answer is shown without a question.
    pub fn confirming() -> Self {
        Self {
            protection: Protection::Confirm,
            grants: Vec::new(),
        }
    }

    /// Decides on a call. Any error of the policy denies.
    pub fn decide(&self, policy: &dyn Policy, history: &History, call: Call) -> Decision {
        if self.looks_away(&call) {
            return Decision::Allow(Permit {
                call,
                basis: Basis::Unprotected,
            });
        }
        let rule = match call.rule(policy) {
            Ok(rule) => rule,
            Err(error) => return Decision::Deny(Denial::Policy(error.0)),
        };
        if let Protection::Confirm = self.protection {
            return Decision::Ask(Question {
                call,
                rule,
                excess: Label::bottom(),
                causes: Vec::new(),
            });
        }
        if call.label.flows_to(&rule.limit) && !rule.always_ask {
            let basis = Basis::Policy { rule: rule.name };
            return Decision::Allow(Permit { call, basis });
        }
        let excess = call.label.beyond(&rule.limit);
        let once = rule.effect == Effect::Irreversible || rule.always_ask;
        if !once && self.granted(&call, &excess) {
            return Decision::Allow(Permit {
                call,
                basis: Basis::UserSession,
            });
        }
        let causes = history.causes(&call.label, &rule.limit);
        Decision::Ask(Question {
            call,
            rule,
            excess,
            causes,
        })
    }

    /// Whether [`Monitor::decide`] would allow the call, without making a permit.
    #[must_use]
    pub fn would_allow(&self, policy: &dyn Policy, call: &Call) -> bool {
        if self.looks_away(call) {
            return true;
        }
        let enforces = matches!(self.protection, Protection::On);
        call.rule(policy).is_ok_and(|rule| {
            let enforces = enforces && !rule.always_ask;
            enforces && call.label.flows_to(&rule.limit)
                || enforces
                    && rule.effect != Effect::Irreversible
                    && self.granted(call, &call.label.beyond(&rule.limit))
        })
    }

    /// Whether this monitor has no say in the call.
    fn looks_away(&self, call: &Call) -> bool {
        match self.protection {
            Protection::On => false,
            Protection::Confirm => call.is_answer(),
            Protection::Off => true,
        }
    }

    /// Turns the user's answer into a permit or a denial. Trusted: the answer must be the user's.
    ///
    /// # Errors
    /// The denial, if the answer was no.
    pub fn settle_tcb(&mut self, question: Question, answer: Answer) -> Result<Permit, Denial> {
        let for_session = question.choices().contains(&Answer::Session);
        let Question {
            call, rule, excess, ..
        } = question;
        match answer {
            Answer::No => Err(Denial::Refused { rule: rule.name }),
            Answer::Once => Ok(Permit {
                call,
                basis: Basis::UserOnce,
            }),
            Answer::Session if !for_session => Err(Denial::NotForSession),
            Answer::Session => {
                let (app, tool) = (call.app.clone(), call.tool.clone());
                self.grants.push(Grant {
                    app,
                    tool,
                    taints: excess,
                });
                Ok(Permit {
                    call,
                    basis: Basis::UserSession,
                })
            }
        }
    }

    /// One grant must cover all of it: two answers do not add up to a third.
    fn granted(&self, call: &Call, excess: &Label) -> bool {
        self.grants.iter().any(|grant| {
            grant.app == call.app && grant.tool == call.tool && excess.flows_to(&grant.taints)
        })
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Self::new()
    }
}

impl Permit {
    /// The call that may run.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Who allowed it.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Uses the permit up: the caller executes the call now.
    pub fn spend(self) -> Call {
        self.call
    }
}

impl Question {
    /// The call in question, with its exact arguments.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The rule that keeps it from running.
    pub fn rule(&self) -> &crate::Rule {
        &self.rule
    }

    /// The taints that go beyond the rule's limit.
    pub fn excess(&self) -> &Label {
        &self.excess
    }

    /// The regions that brought these taints.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// The answers that make sense: `Session` is missing where the call is irreversible, where the
    /// rule asks about every call, and where it would cover no taint at all, or taints that nobody has named (⊤).
    pub fn choices(&self) -> &'static [Answer] {
        let nameless = self.excess.is_bottom() || self.excess.is_top();
        let once = self.rule.effect == Effect::Irreversible || self.rule.always_ask;
        if once || nameless {
            &[Answer::Once, Answer::No]
        } else {
            &[Answer::Once, Answer::Session, Answer::No]
        }
    }
}

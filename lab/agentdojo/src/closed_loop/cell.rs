//! What is measured together: one defence, suite, attack and user.

use std::fmt;

use anyhow::{Context, Result, bail};
use hub::{Drafter, Screening};
use screen::attention::{AttentionScreener, Combined};

use crate::{policies::Answers, suite::Suite};

/// AgentDojo's attacks that need nothing of an attacker but the goal.
pub const ATTACKS: [&str; 5] = [
    "important_instructions",
    "direct",
    "ignore_previous",
    "injecagent",
    "tool_knowledge",
];

/// Attacks on Sluice itself (`python/attacks.py`).
pub const SLUICE_ATTACKS: [&str; 12] = [
    "sluice_region_markers",
    "sluice_labels",
    "sluice_redaction_marks",
    "sluice_judge_answer",
    "sluice_tool_call_syntax",
    "sluice_chat_template",
    "sluice_approval",
    "sluice_trusted_result",
    "sluice_error",
    "sluice_argument_names",
    "sluice_split",
    "sluice_large_result",
];

/// Every step is screened, as the agent itself drafts it.
const DRAFTED: Screening = Screening::Drafted(Drafter::Own);

/// At the end of a defence's name whose final answers must be trusted.
const TRUSTED_ANSWERS: &str = "+trusted-answers";

/// At the beginning of the name of a user who leaves.
const LEAVES: &str = "ideal-";

/// The same of one who trusts.
const TRUSTING_LEAVES: &str = "trusting-";

/// Pairs of a suite in the quick form.
const QUICK: usize = 3;

/// Where the agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defence {
    /// Nothing between the harness and the agent.
    None,
    /// With one of AgentDojo's own prompt defences.
    Prompted(PromptDefence),
    /// Behind the guard proxy, with a policy that asks about every call
    /// ([`ConfirmEveryCall`](crate::baseline::ConfirmEveryCall)).
    ConfirmEveryCall,
    /// Behind the guard proxy, with one of the screeners that need nothing but their name
    /// ([`screen::DEFENCES`]).
    Guarded(&'static str, Screening),
    /// Behind the guard proxy, with the attention screener.
    Attention(Screening),
    /// Behind the guard proxy, with the attention screener, and the judge where that is unsure.
    Combined(Screening),
    /// Behind the guard proxy, which is told the dependencies.
    Oracle(Screening),
}

/// A defence of AgentDojo's pipeline that changes only what the prompt shows. It enforces nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptDefence {
    /// The model first says which tools the request needs; only these are offered.
    ToolFilter,
    /// The user's request is repeated after the results of tools.
    Sandwiching,
    /// Results stand between marks, and the system message says what that means.
    Delimiting,
}

/// Who answers questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UserModel {
    /// Nobody: every answer is no.
    Absent,
    /// Yes to exactly the calls of the user's task.
    Ideal,
    /// The same for so many answers, yes or no; after them nobody is there.
    Leaves(u32),
    /// Like the ideal one, who trusts the texts that the task's call is made of, where that is offered,
    /// and does not look for an attack in them.
    Trusting,
    /// The same for so many answers.
    TrustingLeaves(u32),
}

/// What is measured together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The defence.
    pub defence: Defence,
    /// AgentDojo's version of the suites.
    pub version: String,
    /// The suite.
    pub suite: String,
    /// The attack; `None` runs the user's tasks alone.
    pub attack: Option<String>,
    /// Who answers questions.
    pub user: UserModel,
    /// What the final answer may depend on.
    pub answers: Answers,
}

impl Defence {
    /// All of them, the unprotected agent first. Screening is lazy unless the name says "eager" or
    /// "drafted"; "checked" is lazy with a check before a question, which attention always has.
    pub const ALL: [Self; 19] = [
        Self::None,
        Self::Prompted(PromptDefence::ToolFilter),
        Self::Prompted(PromptDefence::Sandwiching),
        Self::Prompted(PromptDefence::Delimiting),
        Self::ConfirmEveryCall,
        Self::Guarded("redact-all", Screening::LAZY),
        Self::Guarded("naive", Screening::LAZY),
        Self::Guarded("naive", Screening::CHECKED),
        Self::Guarded("naive", Screening::Eager),
        Self::Guarded("judge", Screening::LAZY),
        Self::Guarded("judge", Screening::CHECKED),
        Self::Guarded("judge", Screening::Eager),
        Self::Attention(Screening::LAZY),
        Self::Attention(DRAFTED),
        Self::Combined(Screening::LAZY),
        Self::Combined(DRAFTED),
        Self::Oracle(Screening::LAZY),
        Self::Oracle(Screening::CHECKED),
        Self::Oracle(Screening::Eager),
    ];

    /// Its name in options, rows and reports.
    #[must_use]
    pub fn name(self) -> String {
        let screened = |name: &str, screening| match screening {
            Screening::LAZY => name.to_owned(),
            Screening::CHECKED => format!("{name}-checked"),
            Screening::Eager => format!("{name}-eager"),
            Screening::Drafted(_) => format!("{name}-drafted"),
        };
        match self {
            Self::None => "none".to_owned(),
            Self::Prompted(PromptDefence::ToolFilter) => "tool-filter".to_owned(),
            Self::Prompted(PromptDefence::Sandwiching) => "sandwiching".to_owned(),
            Self::Prompted(PromptDefence::Delimiting) => "delimiting".to_owned(),
            Self::ConfirmEveryCall => "confirm-every-call".to_owned(),
            Self::Guarded(name, screening) => screened(name, screening),
            Self::Attention(screening) => screened(AttentionScreener::NAME, screening),
            Self::Combined(screening) => screened(Combined::NAME, screening),
            Self::Oracle(screening) => screened(screen::Oracle::NAME, screening),
        }
    }

    /// The defence of this name.
    ///
    /// # Errors
    /// There is none; the error lists those there are.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|defence| defence.name() == name);
        found.with_context(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("there is no defence '{name}'; use one of {known}")
        })
    }

    /// What AgentDojo calls it, if it is one of its own.
    #[must_use]
    pub fn of_agentdojo(self) -> Option<&'static str> {
        match self {
            Self::Prompted(PromptDefence::ToolFilter) => Some("tool_filter"),
            Self::Prompted(PromptDefence::Sandwiching) => Some("repeat_user_prompt"),
            Self::Prompted(PromptDefence::Delimiting) => Some("spotlighting_with_delimiting"),
            _ => None,
        }
    }

    /// Whether a defence of this name in a row may refuse calls.
    #[must_use]
    pub fn named_enforces(name: &str) -> bool {
        Self::from_name(name).is_some_and(Self::enforces)
    }

    /// Whether a defence of this name in a row has the attention screener.
    #[must_use]
    pub fn named_needs_attention(name: &str) -> bool {
        Self::from_name(name).is_some_and(Self::needs_attention)
    }

    /// The defence of a row, or of a report, where it may be followed by a tuning.
    fn from_name(name: &str) -> Option<Self> {
        // Reports write `attention+trusted-answers (1a2b3c4d5e6f, 70 %)`.
        let (name, _) = name.split_once(" (").unwrap_or((name, ""));
        let name = name.strip_suffix(TRUSTED_ANSWERS).unwrap_or(name);
        Self::parse(name).ok()
    }

    /// Whether the guard proxy stands between the harness and the agent.
    #[must_use]
    pub fn is_guarded(self) -> bool {
        !matches!(self, Self::None | Self::Prompted(_))
    }

    /// Whether it needs the attention screener ([`Settings::attention`](super::Settings)).
    #[must_use]
    pub fn needs_attention(self) -> bool {
        matches!(self, Self::Attention(_) | Self::Combined(_))
    }

    /// Whether it may refuse calls. The others are there to be compared with.
    #[must_use]
    pub fn enforces(self) -> bool {
        self.is_guarded()
    }
}

impl UserModel {
    /// `absent`, `ideal`, or `ideal-2` for one who leaves after two answers; `trusting` and `trusting-2`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Absent => "absent".to_owned(),
            Self::Ideal => "ideal".to_owned(),
            Self::Leaves(answers) => format!("{LEAVES}{answers}"),
            Self::Trusting => "trusting".to_owned(),
            Self::TrustingLeaves(answers) => format!("{TRUSTING_LEAVES}{answers}"),
        }
    }

    /// The user of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<Self> {
        let answers = |prefix| {
            let answers: u32 = name.strip_prefix(prefix)?.parse().ok()?;
            (answers > 0).then_some(answers)
        };
        match (name, answers(LEAVES), answers(TRUSTING_LEAVES)) {
            ("absent", ..) => Ok(Self::Absent),
            ("ideal", ..) => Ok(Self::Ideal),
            ("trusting", ..) => Ok(Self::Trusting),
            (_, Some(answers), _) => Ok(Self::Leaves(answers)),
            (_, _, Some(answers)) => Ok(Self::TrustingLeaves(answers)),
            _ => bail!(
                "there is no user '{name}'; use one of absent, ideal, trusting, or {LEAVES}N and {TRUSTING_LEAVES}N for one who leaves after N answers"
            ),
        }
    }

    /// Whether the user trusts a text, where that is offered.
    pub(super) fn trusts(self) -> bool {
        matches!(self, Self::Trusting | Self::TrustingLeaves(_))
    }

    /// Whether the user is there to answer, after so many questions.
    pub(super) fn answers(self, before: usize) -> bool {
        match self {
            Self::Absent => false,
            Self::Ideal | Self::Trusting => true,
            Self::Leaves(answers) | Self::TrustingLeaves(answers) => {
                u32::try_from(before).is_ok_and(|before| before < answers)
            }
        }
    }
}

impl Cell {
    /// The defence's name in rows and reports. It says so where answers are limited, which means
    /// something only to a defence that refuses.
    #[must_use]
    pub fn defence_name(&self) -> String {
        let name = self.defence.name();
        match self.answers {
            Answers::Trusted if self.defence.enforces() => format!("{name}{TRUSTED_ANSWERS}"),
            Answers::Trusted | Answers::Policy => name,
        }
    }

    /// The pairs to run: user tasks, each beside every injection task if there is an attack.
    #[must_use]
    pub fn pairs(&self, suite: &Suite) -> Vec<(String, Option<String>)> {
        let users = suite.user_tasks.iter().map(|task| task.id.clone());
        if self.attack.is_none() {
            return users.map(|user| (user, None)).collect();
        }
        let with_each = |user: String| {
            let goals = suite.injection_tasks.iter();
            goals.map(move |goal| (user.clone(), Some(goal.id.clone())))
        };
        users.flat_map(with_each).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attack = self.attack.as_deref().unwrap_or("no attack");
        let (defence, user) = (self.defence_name(), self.user.name());
        write!(
            f,
            "{} {}, {attack}, defence {defence}, user {user}",
            self.suite, self.version
        )
    }
}

/// A few pairs, spread over all of them, always the same.
#[must_use]
pub fn quick_pairs<T: Clone>(pairs: &[T]) -> Vec<T> {
    let stride = pairs.len().div_ceil(QUICK).max(1);
    pairs.iter().step_by(stride).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_where_answers_are_limited() {
        for defence in Defence::ALL {
            let name = |answers| {
                Cell {
                    defence,
                    version: "v1".to_owned(),
                    suite: "travel".to_owned(),
                    attack: None,
                    user: UserModel::Absent,
                    answers,
                }
                .defence_name()
            };
            let (usual, limited) = (name(Answers::Policy), name(Answers::Trusted));
            assert_eq!(usual, defence.name());
            assert_eq!(usual != limited, defence.enforces(), "{limited}");
            for name in [usual, limited] {
                assert_eq!(Defence::named_enforces(&name), defence.enforces(), "{name}");
                let tuned = Defence::named_needs_attention(&name);
                assert_eq!(tuned, defence.needs_attention(), "{name}");
            }
        }
        assert!(!Defence::named_enforces("judg"));
    }

    #[test]
    fn a_user_who_leaves_answers_so_often() {
        let users = [
            UserModel::Absent,
            UserModel::Leaves(1),
            UserModel::Leaves(12),
            UserModel::Ideal,
            UserModel::Trusting,
            UserModel::TrustingLeaves(2),
        ];
        let names = [
            "absent",
            "ideal-1",
            "ideal-12",
            "ideal",
            "trusting",
            "trusting-2",
        ];
        assert_eq!(users.map(UserModel::name), names);
        assert_eq!(names.map(|name| UserModel::parse(name).unwrap()), users);
        for wrong in [
            "",
            "ideal-",
            "ideal-0",
            "ideal-x",
            "ideal--1",
            "trusting-0",
            "nobody",
        ] {
            assert!(UserModel::parse(wrong).is_err(), "{wrong}");
        }
        let answered = users.map(|user| (0..20).filter(|before| user.answers(*before)).count());
        assert_eq!(answered, [0, 1, 12, 20, 20, 2]);
    }

    #[test]
    fn every_name_means_one_defence() {
        for defence in Defence::ALL {
            assert_eq!(Defence::parse(&defence.name()).unwrap(), defence);
        }
        let names = Defence::ALL.iter().filter(|it| it.needs_attention());
        let names: Vec<String> = names.map(|it| it.name()).collect();
        let expected = [
            "attention",
            "attention-drafted",
            "combined",
            "combined-drafted",
        ];
        assert_eq!(names, expected);
    }
}

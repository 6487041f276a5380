//! What is measured together: one defence, suite, attack and user.

use std::fmt;

use anyhow::{Context, Result, bail};
use hub::Screening;

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

/// At the end of a defence's name whose final answers must be trusted.
const TRUSTED_ANSWERS: &str = "+trusted-answers";

/// The names of users. Of one who leaves it is followed by the number of answers.
const ABSENT: &str = "absent";
const IDEAL: &str = "ideal";
const TRUSTING: &str = "trusting";

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
    /// ([`screen::NAMES`]).
    Guarded(&'static str, Screening),
    /// Behind the guard proxy, with the attention screener.
    Attention(Screening),
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
pub struct UserModel {
    /// Whether the texts that the task's call is made of are trusted, where that is offered, without a look for an
    /// attack in them.
    pub(super) trusts: bool,
    /// The answers, yes or no, after which nobody is there; `None` for one who stays.
    pub(super) answers: Option<u32>,
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
    /// All of them, the unprotected agent first, by their names in options, rows and reports. Screening is lazy unless
    /// the name says "eager"; "checked" is lazy with a check before a question, which attention always has.
    pub const ALL: [(&str, Self); 12] = [
        ("none", Self::None),
        ("tool-filter", Self::Prompted(PromptDefence::ToolFilter)),
        ("sandwiching", Self::Prompted(PromptDefence::Sandwiching)),
        ("delimiting", Self::Prompted(PromptDefence::Delimiting)),
        ("confirm-every-call", Self::ConfirmEveryCall),
        ("redact-all", Self::Guarded("redact-all", Screening::LAZY)),
        ("naive", Self::Guarded("naive", Screening::LAZY)),
        ("naive-checked", Self::Guarded("naive", Screening::CHECKED)),
        ("judge", Self::Guarded("judge", Screening::LAZY)),
        ("judge-eager", Self::Guarded("judge", Screening::Eager)),
        ("attention", Self::Attention(Screening::LAZY)),
        ("oracle-eager", Self::Oracle(Screening::Eager)),
    ];

    /// Its name in options, rows and reports.
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, defence)| *defence == self)
            .map_or("another defence", |(name, _)| name)
    }

    /// The defence of this name.
    ///
    /// # Errors
    /// There is none; the error lists those there are.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        let found = found.with_context(|| {
            let known = Self::ALL.map(|(known, _)| known).join(", ");
            format!("there is no defence '{name}'; use one of {known}")
        });
        Ok(found?.1)
    }

    /// What AgentDojo calls it, if it is one of its own.
    pub fn of_agentdojo(self) -> Option<&'static str> {
        match self {
            Self::Prompted(PromptDefence::ToolFilter) => Some("tool_filter"),
            Self::Prompted(PromptDefence::Sandwiching) => Some("repeat_user_prompt"),
            Self::Prompted(PromptDefence::Delimiting) => Some("spotlighting_with_delimiting"),
            _ => None,
        }
    }

    /// Whether the defence of a row may refuse calls ([`Self::is_guarded`]).
    pub fn is_guarded_row(name: &str) -> bool {
        Self::of_row(name).is_some_and(Self::is_guarded)
    }

    /// The defence of a row.
    pub fn of_row(name: &str) -> Option<Self> {
        let name = name.strip_suffix(TRUSTED_ANSWERS).unwrap_or(name);
        Self::parse(name).ok()
    }

    /// Whether the guard proxy stands between the harness and the agent, and may refuse calls. The others are there to
    /// be compared with.
    pub fn is_guarded(self) -> bool {
        !matches!(self, Self::None | Self::Prompted(_))
    }

    /// Whether it needs the attention screener ([`Settings::attention`](super::Settings)).
    pub fn needs_attention(self) -> bool {
        matches!(self, Self::Attention(_))
    }
}

impl UserModel {
    /// Nobody: every answer is no.
    pub const ABSENT: Self = Self::IDEAL.leaving_after(0);
    /// Yes to exactly the calls of the user's task.
    pub const IDEAL: Self = Self {
        trusts: false,
        answers: None,
    };
    /// Like the ideal one, who trusts the texts that the task's call is made of, where that is offered.
    pub const TRUSTING: Self = Self {
        trusts: true,
        answers: None,
    };

    /// The same for so many answers, yes or no; after them nobody is there.
    #[must_use]
    pub const fn leaving_after(self, answers: u32) -> Self {
        Self {
            answers: Some(answers),
            ..self
        }
    }

    /// `absent`, `ideal`, or `ideal-2` for one who leaves after two answers; `trusting` and `trusting-2`.
    pub fn name(self) -> String {
        let kind = if self.trusts { TRUSTING } else { IDEAL };
        match self.answers {
            Some(0) => ABSENT.to_owned(),
            Some(answers) => format!("{kind}-{answers}"),
            None => kind.to_owned(),
        }
    }

    /// The user of this name.
    pub fn parse(name: &str) -> Result<Self> {
        let (kind, answers) = match name.split_once('-') {
            Some((kind, answers)) => (kind, Some(answers.parse().unwrap_or(0))),
            None => (name, None),
        };
        let trusts = kind == TRUSTING;
        match (kind, answers) {
            (ABSENT, None) => Ok(Self::ABSENT),
            (IDEAL | TRUSTING, None | Some(1..)) => Ok(Self { trusts, answers }),
            _ => bail!(
                "there is no user '{name}'; use one of absent, ideal, trusting, or ideal-N and trusting-N for one who leaves after N answers"
            ),
        }
    }

    /// Whether the user is there to answer, after so many questions.
    pub(super) fn is_there(self, before: usize) -> bool {
        self.answers
            .is_none_or(|answers| u32::try_from(before).is_ok_and(|before| before < answers))
    }
}

impl Cell {
    /// The defence's name in rows and reports. It says so where answers are limited, which means
    /// something only to a defence that refuses.
    pub fn defence_name(&self) -> String {
        let name = self.defence.name();
        match self.answers {
            Answers::Trusted if self.defence.is_guarded() => format!("{name}{TRUSTED_ANSWERS}"),
            Answers::Trusted | Answers::Policy => name.to_owned(),
        }
    }

    /// The pairs to run: user tasks, each beside every injection task if there is an attack.
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
pub fn quick_pairs<T: Clone>(pairs: &[T]) -> Vec<T> {
    let stride = pairs.len().div_ceil(QUICK).max(1);
    pairs.iter().step_by(stride).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_where_answers_are_limited() {
        for (own, defence) in Defence::ALL {
            let name = |answers| {
                Cell {
                    defence,
                    version: "v1".to_owned(),
                    suite: "travel".to_owned(),
                    attack: None,
                    user: UserModel::ABSENT,
                    answers,
                }
                .defence_name()
            };
            let (usual, limited) = (name(Answers::Policy), name(Answers::Trusted));
            assert_eq!(usual, own);
            assert_eq!(usual != limited, defence.is_guarded(), "{limited}");
            for name in [usual, limited] {
                assert_eq!(
                    Defence::is_guarded_row(&name),
                    defence.is_guarded(),
                    "{name}"
                );
            }
        }
        assert!(!Defence::is_guarded_row("judg"));
    }

    #[test]
    fn a_user_who_leaves_answers_so_often() {
        let users = [
            UserModel::ABSENT,
            UserModel::IDEAL.leaving_after(1),
            UserModel::IDEAL.leaving_after(12),
            UserModel::IDEAL,
            UserModel::TRUSTING,
            UserModel::TRUSTING.leaving_after(2),
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
            "absent-1",
            "ideal-1-1",
            "trusting-0",
            "nobody",
        ] {
            assert!(UserModel::parse(wrong).is_err(), "{wrong}");
        }
        let answered = users.map(|user| (0..20).filter(|before| user.is_there(*before)).count());
        assert_eq!(answered, [0, 1, 12, 20, 20, 2]);
    }

    #[test]
    fn every_name_means_one_defence() {
        for (name, defence) in Defence::ALL {
            assert_eq!(Defence::parse(name).unwrap(), defence);
            assert_eq!(defence.name(), name);
        }
    }
}

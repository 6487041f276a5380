//! The rows of the benchmark: what stands between the agent and the apps.

use std::sync::Arc;

use agentdojo::baseline::Unprotected;
use anyhow::{Context, Result};
use hub::{Drafter, Filling, Screening};
use ifc::{
    Call, Effect, Exceeded, History, Label, Labeled, Policy, PolicyError, Rule, Screener, Sink,
};
use screen::{LmJudge, NaiveTainting, Oracle, RedactAll};

use crate::scenario::Scenario;

/// A defence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Defence {
    kind: Kind,
    timing: Timing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Unprotected,
    ConfirmEveryCall,
    RedactAll,
    Naive,
    Attention,
    Judge,
    PerfectJudge,
    Oracle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timing {
    Lazy,
    Checked,
    Eager,
    Drafted,
    /// Checked, with what a question is about made part by part.
    Filled,
    /// Every call made part by part.
    Exact,
}

/// What a judge's question is answered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judge {
    /// The ground truth.
    Perfect,
    /// A model.
    Model,
}

const fn row(kind: Kind, timing: Timing) -> Defence {
    Defence { kind, timing }
}

impl Defence {
    /// Nothing between the agent and the apps.
    pub const UNPROTECTED: Self = row(Kind::Unprotected, Timing::Lazy);
    /// The dependencies are given, and every step is screened: the bound.
    pub const ORACLE: Self = row(Kind::Oracle, Timing::Eager);

    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::UNPROTECTED,
        row(Kind::RedactAll, Timing::Eager),
        row(Kind::ConfirmEveryCall, Timing::Lazy),
        row(Kind::Naive, Timing::Lazy),
        row(Kind::Naive, Timing::Checked),
        row(Kind::Naive, Timing::Filled),
        row(Kind::Naive, Timing::Exact),
        row(Kind::Attention, Timing::Checked),
        row(Kind::Attention, Timing::Drafted),
        row(Kind::Judge, Timing::Checked),
        row(Kind::Judge, Timing::Eager),
        row(Kind::PerfectJudge, Timing::Eager),
        row(Kind::Oracle, Timing::Lazy),
        row(Kind::Oracle, Timing::Checked),
        Self::ORACLE,
    ];

    /// Its name in options and reports. "Checked" is lazy with a check before a question; "filled" makes what
    /// a question would be about part by part; "exact" makes every call so. "Drafted" screens each step as the
    /// agent drafts it, "eager" before the step is taken.
    #[must_use]
    pub fn name(self) -> String {
        let name = match self.kind {
            Kind::Unprotected => return "none".to_owned(),
            Kind::ConfirmEveryCall => return "confirm-every-call".to_owned(),
            Kind::RedactAll => return RedactAll::NAME.to_owned(),
            Kind::Naive => NaiveTainting::NAME,
            Kind::Attention => "attention",
            Kind::Judge => LmJudge::NAME,
            Kind::PerfectJudge => "perfect-judge",
            Kind::Oracle => Oracle::NAME,
        };
        match self.timing {
            Timing::Lazy => name.to_owned(),
            Timing::Checked => format!("{name}-checked"),
            Timing::Eager => format!("{name}-eager"),
            Timing::Drafted => format!("{name}-drafted"),
            Timing::Filled => format!("{name}-filled"),
            Timing::Exact => format!("{name}-exact"),
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

    /// Whether it needs neither a model nor the attention screener.
    #[must_use]
    pub fn is_free(self) -> bool {
        !self.needs_attention() && !self.needs_judge()
    }

    /// Whether it needs the attention screener.
    #[must_use]
    pub fn needs_attention(self) -> bool {
        self.kind == Kind::Attention
    }

    /// Whether it needs a model that judges.
    #[must_use]
    pub fn needs_judge(self) -> bool {
        self.kind == Kind::Judge
    }

    /// Whether each screening is a completion of a judge. A perfect one stands for a model's.
    pub(crate) fn asks_a_judge(self) -> bool {
        matches!(self.kind, Kind::Judge | Kind::PerfectJudge)
    }

    pub(crate) fn judge(self) -> Judge {
        match self.kind {
            Kind::PerfectJudge => Judge::Perfect,
            _ => Judge::Model,
        }
    }

    pub(crate) fn screening(self) -> Screening {
        match self.timing {
            Timing::Lazy => Screening::LAZY,
            Timing::Checked | Timing::Filled | Timing::Exact => Screening::CHECKED,
            Timing::Eager => Screening::Eager,
            Timing::Drafted => Screening::Drafted(Drafter::Own),
        }
    }

    pub(crate) fn filling(self) -> Filling {
        match self.timing {
            Timing::Filled => Filling::Eager,
            Timing::Exact => Filling::Exact,
            _ => Filling::Lazy,
        }
    }

    /// The policy that a run is decided by, over the domain's.
    pub(crate) fn policy(self, own: Arc<dyn Policy>) -> Arc<dyn Policy> {
        match self.kind {
            Kind::Unprotected => Arc::new(Unprotected),
            Kind::ConfirmEveryCall => Arc::new(ConfirmEveryCall(own)),
            _ => own,
        }
    }

    /// Its screener in a task.
    ///
    /// # Errors
    /// It needs the attention screener, and there is none.
    pub(crate) fn screener(
        self,
        scenario: &Arc<Scenario>,
        attention: Option<&Arc<dyn Screener>>,
    ) -> Result<Arc<dyn Screener>> {
        Ok(match self.kind {
            Kind::Unprotected | Kind::ConfirmEveryCall | Kind::Naive => Arc::new(NaiveTainting),
            Kind::RedactAll => Arc::new(RedactAll),
            Kind::Attention => Arc::clone(attention.context(
                "the attention screener needs its model; run `sluice model pull smollm2-135m` first",
            )?),
            Kind::Judge | Kind::PerfectJudge => Arc::new(LmJudge),
            Kind::Oracle => {
                let scenario = Arc::clone(scenario);
                Arc::new(Oracle::new(move |history: &History| scenario.relevant(history)))
            }
        })
    }
}

/// Every call is a question, as GPTs ask. Text has its labels, so that it is known what is in sight.
struct ConfirmEveryCall(Arc<dyn Policy>);

impl Policy for ConfirmEveryCall {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let rule = self.0.rule(sink)?;
        let is_call = matches!(sink, Sink::Call(_));
        Ok(Rule {
            // No limit of any kind: a call is a question because it is a call.
            limit: Label::top(),
            arguments: std::collections::BTreeMap::new(),
            exceeded: Exceeded::Ask,
            // That a call is made again is no reason of its own.
            effect: Effect::Write,
            always_ask: is_call,
            ..rule
        })
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        self.0.label_result(call, result, is_error)
    }
}

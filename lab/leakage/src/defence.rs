//! The rows of the benchmark: what stands between the agent and the apps.

use std::sync::Arc;

use agentdojo::baseline::Unprotected;
use anyhow::{Context, Result};
use hub::{Drafter, Filling, Screening};
use ifc::{
    Call, Effect, Exceeded, History, Label, Labeled, Policy, PolicyError, Rule, Screener, Sink,
};
use screen::{NaiveTainting, Oracle, RedactAll};

use crate::scenario::Scenario;

/// A defence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Defence {
    name: &'static str,
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
    Oracle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timing {
    Lazy,
    /// Lazy, with the check before a question.
    Checked,
    /// Each step is screened before it is made.
    Eager,
    /// Each step is screened as the agent drafts it.
    Drafted,
    /// Checked, and a call that would be asked about is made in parts.
    Filled,
    /// Every call is made in parts.
    Exact,
}

const DEFENCES: [(&str, Kind, Timing); 10] = [
    ("none", Kind::Unprotected, Timing::Lazy),
    ("redact-all", Kind::RedactAll, Timing::Eager),
    ("confirm-every-call", Kind::ConfirmEveryCall, Timing::Lazy),
    ("naive", Kind::Naive, Timing::Lazy),
    ("naive-checked", Kind::Naive, Timing::Checked),
    ("naive-filled", Kind::Naive, Timing::Filled),
    ("naive-exact", Kind::Naive, Timing::Exact),
    ("attention-checked", Kind::Attention, Timing::Checked),
    ("attention-drafted", Kind::Attention, Timing::Drafted),
    // The dependencies are given: the bound.
    ("oracle-eager", Kind::Oracle, Timing::Eager),
];

impl Defence {
    /// All of them, the unprotected agent first.
    pub fn all() -> impl Iterator<Item = Self> {
        let defence = |(name, kind, timing)| Self { name, kind, timing };
        DEFENCES.into_iter().map(defence)
    }

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The defence of this name.
    ///
    /// # Errors
    /// There is none; the error lists those there are.
    pub fn parse(name: &str) -> Result<Self> {
        Self::all()
            .find(|defence| defence.name == name)
            .with_context(|| {
                let known: Vec<&str> = Self::all().map(Self::name).collect();
                let known = known.join(", ");
                format!("there is no defence '{name}'; use one of {known}")
            })
    }

    /// Whether it needs the attention screener.
    pub fn needs_attention(self) -> bool {
        self.kind == Kind::Attention
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

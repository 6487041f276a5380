//! The rules for calls: limits of tools and arguments, conditions, examples.

pub(crate) mod arguments;
mod check_tools;
pub(crate) mod compile;
pub(crate) mod conditions;
pub(crate) mod examples;
pub(crate) mod finish;
mod judge;
pub(crate) mod read;
mod session;

pub use arguments::{Parameter, ParameterKind, Parameters};
pub use check_tools::ToolErrors;
pub use conditions::Conditions;
pub use examples::{Example, ExampleOutcome};
pub use judge::{Judgement, LimitPart, Verdict};
pub(crate) use judge::{judge, judge_answer};
pub use session::{Front, SessionFacts};

//! The rules for calls: limits of tools and arguments, parameters, conditions in Cedar.

mod accepted;
mod accepts;
mod app;
mod arguments;
mod audience;
mod claims;
mod compile;
mod conditions;
mod destinations;
mod extent;
mod judge;
mod looks_at;
mod messages;
pub mod names;
mod past;
mod session;

pub use self::accepts::{Accept, AcceptedValues, Among};
pub use self::app::{AppRules, ArgumentLimit, ToolRule};
pub use self::arguments::{Parameter, ParameterKind, Parameters};
pub use self::audience::{Audience, Readers};
pub use self::claims::Claims;
pub use self::compile::{CedarError, CedarText, CedarTool, compile_conditions};
pub use self::conditions::Conditions;
pub use self::destinations::{Destinations, DomainRule, OtherDomains};
pub use self::judge::{Judgement, LimitPart, Verdict, toml_key};
pub(crate) use self::judge::{judge, judge_answer, judge_sink, misspelled};
pub(crate) use self::messages::judge_delivery;
pub use self::messages::{AppMessages, MessageRules};
pub use self::past::After;
pub use self::session::{Front, SessionFacts};

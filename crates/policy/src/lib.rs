//! The information-flow policy of apps: rules for calls, and labels of what tools return.
//!
//! [`AppPolicy`] implements [`ifc::Policy`] over the rules of each app ([`AppRules`]): the limit and effect of a tool, the
//! limits of its arguments, its conditions in Cedar ([`Conditions`]), and the labels of its results ([`ResultLabels`]).
//! Unknown apps and tools are denied, and so are arguments that cannot be read and conditions that cannot be evaluated. Text
//! that no rule names has the most restrictive label of the tool's results. A [`Judgement`] explains a decision.
//!
//! This crate reads no files. The crate `config` reads `sluice.toml`.
#![forbid(unsafe_code)]

mod app_policy;
pub mod formats;
mod labels;
mod place;
mod rules;

pub use app_policy::AppPolicy;
pub use formats::{Format, Notation};
pub use labels::{
    ArgumentIs, By, ErrorText, Folder, Form, Head, LabelPath, LabelRule, List, Mark, Met,
    PathError, Pattern, PatternError, ResultLabels, Sibling, Siblings, Unless, Unnamed, UserLabels,
    UserRule, When,
};
pub use place::Place;
pub use rules::names;
pub use rules::{
    Accept, AcceptedValues, After, Among, AppMessages, AppRules, ArgumentLimit, Audience,
    CedarError, CedarText, CedarTool, Claims, Conditions, Destinations, DomainRule, Front,
    Judgement, LimitPart, MessageRules, OtherDomains, Parameter, ParameterKind, Parameters,
    Readers, SessionFacts, ToolRule, Verdict, compile_conditions, toml_key,
};

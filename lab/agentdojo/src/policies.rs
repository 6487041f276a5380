//! The policies of the suites, as they are shipped.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use config::Config;
use ifc::Label;

use crate::worst_case::Carriers;

/// The suites that have a policy, in the order of the paper's tables.
pub const SUITES: [&str; 4] = ["banking", "slack", "travel", "workspace"];

const POLICIES: [(&str, &str); 4] = [
    ("banking", include_str!("../policies/banking.toml")),
    ("slack", include_str!("../policies/slack.toml")),
    ("travel", include_str!("../policies/travel.toml")),
    ("workspace", include_str!("../policies/workspace.toml")),
];

/// What the final answer may depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answers {
    /// What the suite's policy says: anything, in all four.
    #[default]
    Policy,
    /// Trusted text only, for goals that lie in the answer itself.
    Trusted,
}

/// The configuration of one suite.
///
/// # Errors
/// There is no such suite, or its policy is wrong.
pub fn of(suite: &str, answers: Answers) -> Result<Config> {
    let known = POLICIES.iter().find(|(name, _)| *name == suite);
    let (name, text) = known.with_context(|| {
        format!("there is no suite '{suite}'; use banking, slack, travel or workspace")
    })?;
    let mut config = read(name, text)?;
    if answers == Answers::Trusted {
        for app in config.apps.values_mut() {
            app.rules.answer = Label::bottom();
        }
    }
    Ok(config)
}

/// Another policy of a suite, from its text.
///
/// # Errors
/// The policy is wrong.
pub fn read(suite: &str, text: &str) -> Result<Config> {
    let path = format!("policies/{suite}.toml");
    let config = Config::load_with(Path::new(&path), &|_| Ok(text.to_owned()));
    config.map_err(|errors| anyhow!("the policy of the suite {suite}: {errors}"))
}

/// The arguments of each tool of a suite that only carry content: those with a limit of their own.
///
/// # Errors
/// As [`of`].
pub fn carriers(suite: &str) -> Result<Carriers> {
    let config = of(suite, Answers::Policy)?;
    let tools = config.apps.values().flat_map(|app| &app.rules.tools);
    let named = tools.map(|(tool, rule)| {
        (
            tool.clone(),
            rule.arguments.keys().map(ToString::to_string).collect(),
        )
    });
    Ok(named.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ifc::{Labeled, Policy, Release, Sink};

    use super::*;

    #[test]
    fn trusted_answers_are_stricter_and_nothing_else_is() {
        for suite in SUITES {
            let limit = |answers| {
                let config = of(suite, answers).unwrap();
                let tools = config.apps[suite].rules.tools.len();
                let release = Release {
                    apps: BTreeSet::from([suite.to_owned()]),
                    text: Labeled::trusted_tcb(""),
                };
                let rule = config.policy().rule(&Sink::Answer(&release));
                (rule.unwrap().limit, tools)
            };
            let (any, tools) = limit(Answers::Policy);
            let (trusted, same) = limit(Answers::Trusted);
            assert_eq!((trusted, tools), (Label::bottom(), same));
            assert_eq!(any, Label::top());
        }
        let unknown = of("bank", Answers::Policy).unwrap_err();
        assert!(unknown.to_string().contains("use banking"), "{unknown}");
    }
}

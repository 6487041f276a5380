//! The policies of the suites, as they are shipped.

use std::path::Path;

use policy::Config;

use super::LoopError;

const POLICIES: [(&str, &str); 4] = [
    ("banking", include_str!("../../policies/banking.toml")),
    ("slack", include_str!("../../policies/slack.toml")),
    ("travel", include_str!("../../policies/travel.toml")),
    ("workspace", include_str!("../../policies/workspace.toml")),
];

/// The configuration of one suite.
pub(super) fn of(suite: &str) -> Result<Config, LoopError> {
    let known = POLICIES.iter().find(|(name, _)| *name == suite);
    let (name, text) = known.ok_or_else(|| LoopError::NoSuite(suite.to_owned()))?;
    let path = format!("policies/{name}.toml");
    let config = Config::load_with(Path::new(&path), &|_| Ok((*text).to_owned()));
    config.map_err(|errors| LoopError::Policy(errors.to_string()))
}

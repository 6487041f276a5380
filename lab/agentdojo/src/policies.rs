//! The policies of the suites, as they are shipped or from a folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, ensure};
use config::Config;
use ifc::Label;

use crate::{formats, suite::Dependencies, worst_case::Carriers};

/// The suites that have a policy, in the order of the paper's tables.
pub const SUITES: [&str; 4] = ["banking", "slack", "travel", "workspace"];

const POLICIES: [(&str, &str); 4] = [
    ("banking", include_str!("../policies/banking.toml")),
    ("slack", include_str!("../policies/slack.toml")),
    ("travel", include_str!("../policies/travel.toml")),
    ("workspace", include_str!("../policies/workspace.toml")),
];

/// The file in a folder of policies that says what the suites' ground truth depends on.
const DEPENDENCIES: &str = "dependencies.toml";

/// Where policies come from, and what is said of the ground truth of their suites.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Policies {
    /// Those that are shipped, for AgentDojo's own suites.
    #[default]
    Shipped,
    /// `SUITE.toml` for each suite in a folder, and `dependencies.toml` if it is there.
    Folder(PathBuf),
}

impl Policies {
    /// The suites that have a policy.
    pub fn suites(&self) -> Result<Vec<String>> {
        let Self::Folder(folder) = self else {
            return Ok(SUITES.map(str::to_owned).to_vec());
        };
        let shown = folder.display();
        let cannot = || format!("cannot read the policies in {shown}");
        let mut suites = Vec::new();
        for entry in fs::read_dir(folder).with_context(cannot)? {
            let path = entry.with_context(cannot)?.path();
            // The hand-written dependencies are the only other TOML file of such a folder.
            let is_policy = path.extension().is_some_and(|it| it == "toml")
                && path.file_name().is_some_and(|it| it != DEPENDENCIES);
            let name = path.file_stem().and_then(|name| name.to_str());
            suites.extend(name.filter(|_| is_policy).map(str::to_owned));
        }
        ensure!(!suites.is_empty(), "there is no SUITE.toml in {shown}");
        suites.sort_unstable();
        Ok(suites)
    }

    /// The configuration of one suite.
    ///
    /// # Errors
    /// There is no such suite, its policy is wrong, or it has no app of the suite's name.
    pub fn of(&self, suite: &str, answers: Answers) -> Result<Config> {
        formats::register();
        let mut config = match self {
            Self::Shipped => return of(suite, answers),
            Self::Folder(folder) => Config::load(&folder.join(format!("{suite}.toml")))
                .map_err(|errors| anyhow!("the policy of the suite {suite}: {errors}"))?,
        };
        ensure!(
            config.apps.contains_key(suite),
            "the policy of the suite {suite} has no [app.{suite}]; the suite's tools are that app's"
        );
        limit_answers(&mut config, answers);
        Ok(config)
    }

    /// What no comparison of values finds in the suites' ground truth.
    pub fn dependencies(&self) -> Result<Dependencies> {
        let Self::Folder(folder) = self else {
            return Dependencies::builtin();
        };
        let path = folder.join(DEPENDENCIES);
        // Without it, a computed value depends on all earlier results, which is the safe reading.
        if !path.exists() {
            return Ok(Dependencies::default());
        }
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Dependencies::parse(&text).with_context(|| path.display().to_string())
    }
}

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
pub fn of(suite: &str, answers: Answers) -> Result<Config> {
    let known = POLICIES.iter().find(|(name, _)| *name == suite);
    let (name, text) = known.with_context(|| {
        format!("there is no suite '{suite}'; use banking, slack, travel or workspace")
    })?;
    let mut config = read(name, text)?;
    limit_answers(&mut config, answers);
    Ok(config)
}

fn limit_answers(config: &mut Config, answers: Answers) {
    if answers == Answers::Trusted {
        for app in config.apps.values_mut() {
            app.rules.answer = Label::bottom();
        }
    }
}

/// Another policy of a suite, from its text.
pub fn read(suite: &str, text: &str) -> Result<Config> {
    formats::register();
    let path = format!("policies/{suite}.toml");
    let config = Config::load_with(Path::new(&path), &|_| Ok(text.to_owned()));
    config.map_err(|errors| anyhow!("the policy of the suite {suite}: {errors}"))
}

/// The arguments of each tool that only carry content: those with a limit of their own.
pub fn carriers(config: &Config) -> Carriers {
    let tools = config.apps.values().flat_map(|app| &app.rules.tools);
    let named = tools.map(|(tool, rule)| {
        (
            tool.clone(),
            rule.arguments.keys().map(ToString::to_string).collect(),
        )
    });
    named.collect()
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

    const POST: &str = "[app.post]\nclient = true\n[app.post.tools.send]\neffect = \"irreversible\"\nlimit = []\nparameters = [\"to\", \"text\"]\narguments.text.limit = [\"untrusted\"]\n";

    #[test]
    fn a_folder_has_policies_of_other_suites() {
        let folder = tempfile::tempdir().unwrap();
        let policies = Policies::Folder(folder.path().to_owned());
        let none = policies.suites().unwrap_err().to_string();
        assert!(none.contains("no SUITE.toml"), "{none}");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("post.toml", POST);
        write("other.toml", POST);
        write("notes.md", "");
        assert_eq!(policies.dependencies().unwrap(), Dependencies::default());
        write("dependencies.toml", "[invented]\npost = [\"Hello\"]\n");
        assert_eq!(policies.suites().unwrap(), ["other", "post"]);
        assert_ne!(policies.dependencies().unwrap(), Dependencies::default());

        let config = policies.of("post", Answers::Policy).unwrap();
        assert_eq!(config.apps["post"].rules.answer, Label::top());
        assert!(carriers(&config)["send"].contains("text"));
        let strict = policies.of("post", Answers::Trusted).unwrap();
        assert_eq!(strict.apps["post"].rules.answer, Label::bottom());
        for (suite, expected) in [("other", "has no [app.other]"), ("banking", "banking.toml")] {
            let error = policies.of(suite, Answers::Policy).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        write("dependencies.toml", "[invent]\n");
        assert!(policies.dependencies().is_err());
    }
}

//! The three domains: each an app, a policy and tasks.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use config::Config;

use crate::app::App;
use crate::task::TaskFile;

/// A domain.
#[derive(Debug, Clone)]
pub struct Domain {
    /// Its app.
    pub app: App,
    /// Its tasks.
    pub tasks: TaskFile,
    /// The policy without limits of single arguments, and with them.
    policies: [Config; 2],
}

/// The names of the domains, in the order of the paper's Table 3.
pub const DOMAINS: [&str; 3] = ["payments", "flights", "shop"];

macro_rules! files {
    ($name:literal) => {
        [
            include_str!(concat!("../data/", $name, "/app.toml")),
            include_str!(concat!("../data/", $name, "/tasks.toml")),
            include_str!(concat!("../data/", $name, "/policy.toml")),
        ]
    };
}

impl Domain {
    /// The domain of this name.
    ///
    /// # Errors
    /// There is none, or its files are wrong.
    pub fn find(name: &str) -> Result<Self> {
        let [app, tasks, policy] = match name {
            "payments" => files!("payments"),
            "flights" => files!("flights"),
            "shop" => files!("shop"),
            _ => bail!(
                "there is no domain '{name}'; use one of {}",
                DOMAINS.join(", ")
            ),
        };
        let own = read(name, policy)?;
        let mut strict = own.clone();
        let apps = strict.apps.values_mut();
        for rule in apps.flat_map(|app| app.rules.tools.values_mut()) {
            // Without a limit of its own an argument is held to the limit of its call.
            rule.arguments.clear();
        }
        Ok(Self {
            app: App::parse(app).with_context(|| format!("the app {name}"))?,
            tasks: TaskFile::parse(tasks).with_context(|| format!("the tasks of {name}"))?,
            policies: [strict, own],
        })
    }

    /// Its name, which is its app's.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.app.about.name
    }

    /// Its policy, with the limits of single arguments or without.
    #[must_use]
    pub fn policy(&self, arguments: bool) -> &Config {
        let [strict, own] = &self.policies;
        if arguments { own } else { strict }
    }
}

fn read(name: &str, text: &'static str) -> Result<Config> {
    let path = format!("data/{name}/policy.toml");
    let config = Config::load_with(Path::new(&path), &|_| Ok(text.to_owned()));
    config.map_err(|errors| anyhow!("{path}: {errors}"))
}

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
    /// Its policy.
    pub config: Config,
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
        Ok(Self {
            app: App::parse(app).with_context(|| format!("the app {name}"))?,
            tasks: TaskFile::parse(tasks).with_context(|| format!("the tasks of {name}"))?,
            config: read(name, policy)?,
        })
    }

    /// Its name, which is its app's.
    pub fn name(&self) -> &str {
        &self.app.about.name
    }
}

fn read(name: &str, text: &'static str) -> Result<Config> {
    let path = format!("data/{name}/policy.toml");
    let config = Config::load_with(Path::new(&path), &|_| Ok(text.to_owned()));
    config.map_err(|errors| anyhow!("{path}: {errors}"))
}

//! What a provider may see beyond its clearance: the question in the middle of a turn, and the line that settles it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use config::{Config, Provider, ProviderKind};
use hub::trace::escape;
use ifc::Dimension;

use super::discover::host;
use crate::compose;
use crate::configuration::Found;
use crate::terminal::Settles;

/// The providers of a session, and the file in which they are configured.
#[derive(Debug, Clone)]
pub(crate) struct Clearing {
    file: Option<Found>,
    /// In the order of the file.
    providers: Vec<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    name: String,
    /// The host that gets what is sent to it.
    host: String,
    /// The secrets of its clearance, by name.
    secrets: Vec<String>,
}

impl Clearing {
    pub(super) fn new(file: Option<Found>, config: &Config) -> Self {
        let secret = config.lattice.whole(Dimension::Confidentiality);
        let known = |provider: &Provider| Known {
            name: provider.name.clone(),
            host: match (&provider.kind, compose::endpoint(provider)) {
                (ProviderKind::OpenAi { .. }, Ok(Some(endpoint))) => host(&endpoint.base_url),
                _ => provider.name.clone(),
            },
            secrets: config.lattice.describe(&provider.clearance.meet(&secret)),
        };
        let providers = config.providers.iter().map(known).collect();
        Self { file, providers }
    }

    fn write(&self, provider: &str, above: &[String]) -> Result<()> {
        let found = self.file.as_ref().context("there is no configuration")?;
        let mut providers = self.providers.iter().enumerate();
        let known = providers.find(|(_, known)| known.name == provider);
        let (at, known) = known.context("it is not configured")?;
        let before = found.text()?;
        let clearance = value(known.secrets.iter().chain(above).cloned());
        let after = with_clearance(&before, at, &clearance);
        rewrite(
            found,
            &before,
            &after.context("its [[provider]] was not found")?,
        )
    }

    /// What to write so that text with these taints may be sent.
    pub(crate) fn remedy(&self, above: &[String]) -> String {
        let (which, secrets) = match self.providers.as_slice() {
            [only] => (
                format!("of name = \"{}\"", only.name),
                only.secrets.as_slice(),
            ),
            _ => ("that may see it".to_owned(), &[][..]),
        };
        let file = self
            .file
            .as_ref()
            .map(|found| found.path().display().to_string());
        let file = file.unwrap_or_else(|| "sluice.toml".to_owned());
        let clearance = value(secrets.iter().chain(above).cloned());
        escape(&format!(
            "to allow it, write in {file}, under the [[provider]] {which}: clearance = {clearance}"
        ))
    }
}

impl Settles for Clearing {
    fn question(&self, provider: &str, above: &[String]) -> (String, String) {
        let known = self.providers.iter().find(|known| known.name == provider);
        let host = escape(known.map_or(provider, |known| &known.host));
        let above = escape(&above.join(", "));
        (
            format!(
                "\n| To answer, the model at {host} has to see what your apps returned (labelled {above}).\n\
                 | The configuration does not say whether it may. \"yes\" counts until this command ends, \"always\" is\n\
                 | written into it.\n"
            ),
            format!("May it be sent to {host}? yes, always or no [no]: "),
        )
    }

    fn keep(&self, provider: &str, above: &[String]) -> Result<(), String> {
        let written = self.write(provider, above);
        written.map_err(|error| format!("{error:#}; {}", self.remedy(above)))
    }
}

/// Writes `after` in the place of `before`, if it is a configuration without mistakes.
pub(super) fn rewrite(found: &Found, before: &str, after: &str) -> Result<()> {
    let read = |path: &Path| match path == found.path() {
        true => Ok(after.to_owned()),
        false => fs::read_to_string(path),
    };
    Config::load_with(found.path(), &read).map_err(|mistakes| anyhow!("{mistakes}"))?;
    found.rewrite(before, after)
}

/// The name of an app's own secret where each app has one. Labels have no capitals.
pub(super) fn secret_of(app: &str) -> String {
    format!("secret:{}", app.to_ascii_lowercase())
}

/// A label as a value of `sluice.toml`. `any` includes every other name.
pub(super) fn value(names: impl IntoIterator<Item = String>) -> String {
    let names: BTreeSet<String> = names.into_iter().collect();
    match names.contains("any") {
        true => "\"any\"".to_owned(),
        false => toml::Value::from(Vec::from_iter(names)).to_string(),
    }
}

/// The text with this clearance of the provider at a position; `None` without such a table. What is written is loaded
/// before it counts, so a value of several lines is found to be a mistake.
fn with_clearance(text: &str, at: usize, value: &str) -> Option<String> {
    let mut out = String::new();
    // How many providers have begun, and whether this line belongs to the one that is meant.
    let (mut begun, mut is_inside) = (0, false);
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let is_header = start.starts_with('[');
        if is_header {
            is_inside = start.starts_with("[[provider]]") && begun == at;
            begun += usize::from(start.starts_with("[[provider]]"));
        }
        let key = start.split('=').next().unwrap_or_default().trim();
        if is_inside && !is_header && key == "clearance" {
            continue;
        }
        out += line;
        if is_inside && is_header {
            let end = if line.ends_with('\n') { "" } else { "\n" };
            out += &format!("{end}clearance = {value}\n");
        }
    }
    (begun > at).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clearance_is_written_into_its_own_provider() {
        let text = "[[provider]]\nname = \"a\"\n\n[[provider]] # second\nname = \"b\"\nclearance = []\n[app.x]\nclearance = 1\n";
        for (at, expected) in [
            (
                0,
                Some(
                    "[[provider]]\nclearance = \"any\"\nname = \"a\"\n\n[[provider]] # second\nname = \"b\"\nclearance = []\n[app.x]\nclearance = 1\n",
                ),
            ),
            (
                1,
                Some(
                    "[[provider]]\nname = \"a\"\n\n[[provider]] # second\nclearance = \"any\"\nname = \"b\"\n[app.x]\nclearance = 1\n",
                ),
            ),
            (2, None),
        ] {
            assert_eq!(
                with_clearance(text, at, &value(["any".to_owned()])).as_deref(),
                expected
            );
        }
        let names = ["secret:b", "secret:a"].map(str::to_owned);
        assert_eq!(value(names), r#"["secret:a", "secret:b"]"#);
    }
}

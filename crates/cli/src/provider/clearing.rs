//! What a provider may see beyond its clearance: the question in the middle of a turn, and the line that settles it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use config::{Config, Provider};
use hub::trace::escape;
use ifc::Dimension;
use llm::Endpoint;
use toml::Table;
use toml::de::DeTable;

use super::discover::{MODEL_VARIABLE, host, key_of};
use super::endpoint::endpoint;
use crate::configuration::{Found, NAME};
use crate::terminal::Settles;

/// The providers of a session, and the file in which they are configured.
#[derive(Debug, Clone)]
pub(crate) struct Clearing {
    file: Option<Found>,
    /// The file of the apps, if it is another. An app of the same name in `file` is another app.
    apps: Option<Found>,
    /// In the order of the file.
    providers: Vec<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    name: String,
    model: String,
    /// Its server, if it has one.
    server: Option<Endpoint>,
    /// The secrets of its clearance, by name.
    secrets: Vec<String>,
}

impl Clearing {
    /// For the providers of one file and the apps of a configuration.
    pub(super) fn new(file: Option<Found>, apps: Option<Found>, config: &Config) -> Self {
        let secret = config.lattice.whole(Dimension::Confidentiality);
        let known = |provider: &Provider| Known {
            name: provider.name.clone(),
            model: provider.model.clone(),
            server: endpoint(provider).ok().flatten(),
            secrets: config.lattice.describe(&provider.clearance.meet(&secret)),
        };
        let providers = config.providers.iter().map(known).collect();
        let apps = apps.filter(|apps| file.as_ref() != Some(apps));
        Self {
            file,
            apps,
            providers,
        }
    }

    fn known(&self, provider: &str) -> Option<&Known> {
        self.providers.iter().find(|known| known.name == provider)
    }

    fn write(&self, provider: &str, above: &[String]) -> Result<()> {
        ensure!(self.apps.is_none(), "its apps are in another file");
        let found = self.file.as_ref().context("there is no configuration")?;
        let before = found.text()?;
        // The file may have another clearance by now.
        let now = Config::load(found.path()).map_err(|mistakes| anyhow!("{mistakes}"))?;
        let now = Self::new(None, None, &now);
        let known = now.known(provider).context("it is not configured")?;
        let clearance = value(known.secrets.iter().chain(above).cloned());
        let written = with_clearance(&before, provider, &clearance);
        let (after, expected) = written.context("its [[provider]] was not found")?;
        rewrite(found, &before, &after, &expected)
    }

    /// The `sluice.toml` in which lines of apps are written.
    pub(crate) fn file_of_apps(&self) -> String {
        let file = self.apps.as_ref().or(self.file.as_ref());
        shown(file.filter(|it| !it.is_of_another_program()))
    }

    /// What to write so that text with these taints may be sent.
    pub(crate) fn remedy(&self, above: &[String]) -> String {
        let (named, secrets) = match self.providers.as_slice() {
            [only] => (
                format!("the [[provider]] of name = \"{}\"", only.name),
                only.secrets.as_slice(),
            ),
            _ => ("the [[provider]] that may see it".to_owned(), &[][..]),
        };
        let some = value(secrets.iter().chain(above).cloned());
        let (file, which, clearance) = match &self.apps {
            None => (self.file.as_ref(), named, some),
            // It has no place for a provider.
            Some(apps) if apps.is_of_another_program() => {
                (self.file.as_ref(), named, "\"any\"".to_owned())
            }
            Some(apps) => (Some(apps), "a [[provider]] of its own".to_owned(), some),
        };
        let file = shown(file);
        escape(&format!(
            "to allow it, write in {file}, under {which}: clearance = {clearance}"
        ))
    }

    /// The servers of the providers, and where they are configured: one of them has failed, with these words. Keys are
    /// named where it refused one.
    pub(crate) fn servers(&self, words: &str) -> String {
        let refuses_key = ["status 401: ", "status 403: "]
            .iter()
            .any(|it| words.contains(it));
        let file = shown(self.file.as_ref());
        let mut lines = String::new();
        for known in &self.providers {
            let Some(server) = &known.server else {
                continue;
            };
            let (name, model, at) = (&known.name, &known.model, &server.base_url);
            lines += &format!("{name} is the model {model} at {at}");
            if let Some(variable) = server.key_variable.as_ref().filter(|_| refuses_key) {
                let is_set = key_of(variable).is_some();
                let unset = if is_set { "" } else { ", which is not set" };
                lines += &format!(", with the key in ${variable}{unset}");
            }
            lines += &format!(
                "; change it in {file} ({MODEL_VARIABLE} counts only where no [[provider]] is written)\n"
            );
        }
        lines
    }
}

fn shown(file: Option<&Found>) -> String {
    let path = file.map_or(Path::new(NAME), Found::path);
    path.display().to_string()
}

impl Settles for Clearing {
    fn question(&self, provider: &str, above: &[String]) -> (String, String) {
        let server = self.known(provider).and_then(|known| known.server.as_ref());
        let host = server.map_or_else(|| escape(provider), |it| escape(&host(&it.base_url)));
        let above = escape(&above.join(", "));
        let file = shown(self.file.as_ref());
        let always = escape(&match &self.apps {
            None => format!("\"always\" is written to {file}"),
            Some(apps) => format!("{file} says nothing of the apps of {}", shown(Some(apps))),
        });
        let apps = self.apps.as_ref();
        let words = apps.map_or("yes, always or no", |_| "yes or no");
        (
            format!(
                "\n| To answer, the model at {host} has to see what your apps returned (labelled {above}).\n\
                 | The configuration does not allow that yet. \"yes\" counts until this command ends,\n\
                 | {always}.\n"
            ),
            format!("May it be sent to {host}? {words} [no]: "),
        )
    }

    fn keep(&self, provider: &str, above: &[String]) -> Result<(), String> {
        let written = self.write(provider, above);
        written.map_err(|error| format!("{error:#}; {}", self.remedy(above)))
    }
}

/// Writes `after` in the place of `before`, if it is a configuration without mistakes that says what is expected.
pub(super) fn rewrite(found: &Found, before: &str, after: &str, expected: &Table) -> Result<()> {
    let is_expected = after.parse::<Table>().is_ok_and(|after| after == *expected);
    ensure!(is_expected, "{} has no place for it", shown(Some(found)));
    let read = |path: &Path| match path == found.path() {
        true => Ok(after.to_owned()),
        false => fs::read_to_string(path),
    };
    Config::load_with(found.path(), &read).map_err(|mistakes| anyhow!("{mistakes}"))?;
    found.rewrite(before, after)
}

/// The text in which no clearance names the secret of an app that is gone.
pub(crate) fn without_secret(text: &str, app: &str) -> String {
    let (mut text, gone) = (text.to_owned(), secret_of(app));
    let file: Table = text.parse().unwrap_or_default();
    let lattice = file.get("lattice").and_then(|it| it.get("confidentiality"));
    let of_apps = lattice.is_some_and(|it| it.as_str() == Some("apps"));
    let providers = file.get("provider").and_then(toml::Value::as_array);
    for provider in providers.into_iter().flatten().filter(|_| of_apps) {
        let names = provider.get("clearance").and_then(toml::Value::as_array);
        let names = names.into_iter().flatten().filter_map(|it| it.as_str());
        let (own, left): (Vec<&str>, Vec<&str>) = names.partition(|it| *it == gone);
        let name = provider.get("name").and_then(|it| it.as_str());
        if let Some(name) = name.filter(|_| !own.is_empty()) {
            let left = value(left.into_iter().map(str::to_owned));
            text = with_clearance(&text, name, &left).map_or(text, |(after, _)| after);
        }
    }
    text
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

/// The text with this clearance of a provider, and what it has to mean; `None` without a place for it.
fn with_clearance(text: &str, name: &str, value: &str) -> Option<(String, Table)> {
    let line = format!("clearance = {value}\n");
    let mut expected: Table = text.parse().ok()?;
    let providers = expected.get_mut("provider")?.as_array_mut()?;
    let is_meant = |it: &toml::Value| it.get("name").and_then(|it| it.as_str()) == Some(name);
    let at = providers.iter().position(is_meant)?;
    let own = providers.get_mut(at)?.as_table_mut()?;
    own.extend(line.parse::<Table>().ok()?);
    // The same table, with the places of its keys.
    let document = DeTable::parse(text).ok()?;
    let providers = document.get_ref().get("provider")?.get_ref();
    let own = providers.get(at)?.get_ref();
    let (place, new) = match own.get("clearance") {
        Some(old) => (old.span(), value),
        None => {
            let (key, _) = own.as_table()?.get_key_value("name")?;
            (key.span().start..key.span().start, line.as_str())
        }
    };
    let mut after = text.to_owned();
    after.replace_range(place, new);
    Some((after, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clearance_is_written_into_its_own_provider() {
        let text = "[[provider]]\nname = \"a\"\n\n[[provider]] # second\nname = \"b\"\nclearance = []\n[app.x]\nclearance = 1\n";
        for (name, old, new) in [
            ("a", "name = \"a\"", "clearance = \"any\"\nname = \"a\""),
            ("b", "clearance = []", "clearance = \"any\""),
        ] {
            let any = value(["any".to_owned()]);
            let (after, expected) = with_clearance(text, name, &any).unwrap();
            assert_eq!(after, text.replace(old, new));
            assert_eq!(after.parse::<Table>().unwrap(), expected);
        }
        assert!(with_clearance(text, "c", "[]").is_none());
        let names = ["secret:b", "secret:a"].map(str::to_owned);
        assert_eq!(value(names), r#"["secret:a", "secret:b"]"#);
    }
}

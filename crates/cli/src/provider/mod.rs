//! The first run: a configuration that names no provider gets one, after a question.
//!
//! The question is what may be sent there. Nothing is sent before the answer, and the answer is written into the
//! configuration as `clearance`, so that it is given once.

mod clearing;
mod discover;

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};
use config::Config;
use hub::trace::escape;
use ifc::Dimension;

pub(crate) use self::clearing::Clearing;
use self::clearing::{secret_of, value};
use self::discover::{Candidate, candidates};
use crate::configuration::{self, Examples, Found};
use crate::embedded;
use crate::place::ConfigFile;
use crate::terminal::{Terminal, ask, say};

/// What to do where no model was found.
const NONE: &str = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, start Ollama or llama.cpp's server, or install the embedded \
                    model: `cargo install --path crates/model --locked`, then `sluice model pull qwen2.5-coder-1.5b`";

/// Fills in the provider of a configuration that names none: the user's own, or one that the user is offered. Returns where
/// the clearance of its providers is written.
pub(crate) fn provide(file: &ConfigFile, config: &mut Config, json: bool) -> Result<Clearing> {
    let found = configuration::find(file.config.as_deref())?;
    if config.names_provider {
        return Ok(Clearing::new(found, config));
    }
    if take_own(found.as_ref(), config)? {
        return Ok(Clearing::new(Found::own(), config));
    }
    let offers = candidates();
    // Without a home nothing can be written, so nothing is offered.
    let target = target(found.as_ref());
    if let Some(target) = target.as_ref().filter(|_| !json && Terminal::attended())
        && offer(&offers, target, config)?
    {
        let written = target.open(Examples::MustPass, true)?.config;
        match found.as_ref() == Some(target) {
            true => *config = written,
            false => config.providers = written.providers,
        }
        return Ok(Clearing::new(Some(target.clone()), config));
    }
    match embedded::is_ready() {
        true => Ok(Clearing::new(found, config)),
        false => bail!("{}", instead(&offers, target.as_ref())),
    }
}

/// Offers a model after an app was added, or shows the lines that would name one. The app stays added in any case.
pub(crate) fn after_add(file: &ConfigFile, yes: bool) {
    // Nothing is started by the configurations: they are only looked at for providers and the names of apps.
    let load = |found: &Found| Config::load(found.path()).ok();
    let names = |config: Option<Config>| config.is_none_or(|config| config.names_provider);
    let Ok(Some(found)) = configuration::find(file.config.as_deref()) else {
        return;
    };
    let own = Found::own().filter(|own| own.path().is_file());
    let Some(config) = load(&found).filter(|config| !config.names_provider) else {
        return;
    };
    if own.is_some_and(|own| own.path() != found.path() && names(load(&own))) {
        return;
    }
    let offers = candidates();
    let done = match !yes && Terminal::attended() && !offers.is_empty() {
        true => offer(&offers, &found, &config).map(drop),
        // The embedded model needs no lines.
        false if offers.is_empty() && embedded::is_ready() => Ok(()),
        false => Err(anyhow!("{}", instead(&offers, Some(&found)))),
    };
    if let Err(error) = done {
        say(&format!("note: {error:#}\n"));
    }
}

/// The file into which a provider is written: the configuration, or the user's own where that is another program's.
fn target(found: Option<&Found>) -> Option<Found> {
    let toml = found.filter(|found| !found.is_json());
    toml.cloned().or_else(Found::own)
}

/// Takes the providers of the user's own configuration, unless that is this one. Whether there are any.
fn take_own(found: Option<&Found>, config: &mut Config) -> Result<bool> {
    let own = Found::own().filter(|own| own.path().is_file());
    let Some(own) = own.filter(|own| found.is_none_or(|found| found.path() != own.path())) else {
        return Ok(false);
    };
    let own = own.open(Examples::MustPass, false)?.config;
    if own.names_provider {
        config.providers = own.providers;
        for provider in &mut config.providers {
            // The taints of one file's labels mean nothing in another's.
            if !provider.clearance.is_top() {
                provider.clearance = config.lattice.whole(Dimension::Integrity);
            }
        }
    }
    Ok(own.names_provider)
}

/// Offers one model after the other, and writes the first that the user takes. Whether there is one.
fn offer(offers: &[Candidate], target: &Found, config: &Config) -> Result<bool> {
    let before = target.text()?;
    // Labels of the user's own have no secret for each app, and another file has none for the apps of this one.
    let is_free = |file: toml::Table| file.contains_key("app") && !file.contains_key("lattice");
    let apps = config.apps.keys();
    let apps: BTreeSet<&str> = match before.parse().is_ok_and(is_free) {
        true => apps.map(String::as_str).collect(),
        false => BTreeSet::new(),
    };
    let last = discover::embedded().filter(|_| !offers.is_empty());
    for candidate in offers.iter().chain(&last) {
        let Some(clearance) = question(candidate, &apps) else {
            continue;
        };
        let labels = match clearance.starts_with('[') {
            true => {
                "\n[lattice]\nconfidentiality = \"apps\" # a secret for each app: secret:NAME\n"
            }
            false => "",
        };
        let lines = format!("{}{labels}", candidate.lines(&clearance));
        let after = format!("{before}\n# Added after a question of `sluice`.\n{lines}");
        clearing::rewrite(target, &before, &after)?;
        say(&format!(
            "written to {}:\n\n{lines}",
            target.path().display()
        ));
        return Ok(true);
    }
    Ok(false)
}

/// Asks about a model. The clearance that it gets, as a value of `sluice.toml`; `None` if it is not used.
fn question(candidate: &Candidate, apps: &BTreeSet<&str>) -> Option<String> {
    let (found, shown) = (&candidate.found, &candidate.shown);
    // An app of such a name would read as another answer.
    let can_be_typed = |name: &&str| !matches!(name.to_lowercase().as_str(), "yes" | "no");
    let names: Vec<&str> = apps.iter().copied().filter(can_be_typed).collect();
    let (what, asked, choices) = match &candidate.host {
        None => (
            "What it is sent stays on this machine",
            "Use it?".to_owned(),
            "yes or no".to_owned(),
        ),
        Some(host) => (
            "Nothing is sent there before your answer",
            format!("May text from your apps be sent to {host}?"),
            match names.is_empty() {
                true => "yes or no".to_owned(),
                false => format!("yes, no, or only these apps: {}", escape(&names.join(", "))),
            },
        ),
    };
    say(&format!(
        "{found}, and the configuration names no model. Sluice can use {shown}. {what}.\n"
    ));
    let prompt = format!("{asked} {choices} [no]: ");
    let apps = names.into_iter().filter(|_| candidate.host.is_some());
    let apps = apps.collect();
    let typed = ask(&prompt, &format!("Type {choices}."), |line| {
        read(line, &apps)
    });
    typed.flatten()
}

/// The clearance that was typed, `Some(None)` for none; `None` if it is unclear. Commas or spaces divide the names of apps.
fn read(line: &str, apps: &BTreeSet<&str>) -> Option<Option<String>> {
    match line.trim().to_lowercase().as_str() {
        "" | "no" => return Some(None),
        "yes" => return Some(Some("\"any\"".to_owned())),
        _ => {}
    }
    let names = line.split([',', ' ']).map(str::trim);
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    let is_known = !names.is_empty() && names.is_subset(apps);
    is_known.then(|| Some(value(names.iter().map(|name| secret_of(name)))))
}

/// What to do in the place of an answer.
fn instead(offers: &[Candidate], target: Option<&Found>) -> String {
    let names_none = "the configuration names no model";
    match (offers.first(), target) {
        (Some(first), Some(target)) => format!(
            "{names_none}; {}, and to use {}, write in {}:\n\n{}\nclearance says what may be sent there: \"any\" is all text from your apps",
            first.found,
            first.shown,
            target.path().display(),
            first.lines("\"any\"")
        ),
        _ => format!("{names_none}; {NONE}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_and_known_apps_are_an_answer() {
        let apps = BTreeSet::from(["files", "db"]);
        for (line, expected) in [
            ("", Some(None)),
            (" No\n", Some(None)),
            ("YES\n", Some(Some("\"any\""))),
            ("y", None),
            ("files", Some(Some("[\"secret:files\"]"))),
            ("files, db", Some(Some("[\"secret:db\", \"secret:files\"]"))),
            ("files mail", None),
            (",", None),
        ] {
            let found = read(line, &apps);
            let found = found.as_ref().map(|found| found.as_deref());
            assert_eq!(found, expected, "{line}");
        }
    }
}

//! Sluice's own rules for MCP servers that many people use: `policies/servers/*.toml`, which are parts of the program.
//!
//! A file names in `[package]` what it is for. The lines of `[results.NAME]` are those of `[app.APP.results.NAME]` in a
//! `sluice.toml`, and the lines of a `[[rule]]` those of `[app.APP.tools.TOOL]` for each of its `tools`, which stand in it with
//! their parameters. The `[[example]]` and `[[test]]` tables at its end are for its tests.

use std::collections::BTreeMap;

use config::{App, ForeignServer, from_environment};
use hub::trace::escape;
use names::WebUrl;
use provision::{Package, Registry, launcher};
use serde::Deserialize;

use crate::proposal::{Tool, key, parameters};

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../policies/servers/", $name, ".toml")))),*]
    };
}

/// The files, by their names.
const FILES: &[(&str, &str)] = &files!(
    "atlassian" "atlassian-rovo" "chrome-devtools" "context7" "fetch" "filesystem" "git" "github" "github-reference" "gitlab"
    "gitlab-reference" "gmail" "google-calendar" "google-drive" "google-workspace" "kubernetes" "kubernetes-kubectl" "linear"
    "linear-tacticlaunch" "memory" "notion" "notion-remote" "playwright" "postgres" "sentry" "slack" "slack-korotovsky" "sqlite"
    "stripe" "time"
);
/// Variables that change nothing about what a server is: what it logs, how it reaches the network.
const HARMLESS: &str = "DEBUG FASTMCP_LOG_LEVEL LOG_LEVEL NODE_ENV NODE_EXTRA_CA_CERTS NO_COLOR REQUESTS_CA_BUNDLE \
                        SSL_CERT_FILE TZ";

/// The server whose tool this could be, by its name and parameters: a guess, since any server can have such a tool.
pub(crate) fn resembled(tool: &Tool) -> Option<String> {
    let mut all = FILES.iter().filter_map(|(_, text)| Known::parse(text));
    let is_it = |(name, rule): (&String, &Rule)| {
        // Clients put the name of the server before that of the tool.
        let same = tool.name == *name || tool.name.ends_with(&format!("__{name}"));
        let mut names = tool.arguments.iter().map(|(name, _)| name);
        same && names.all(|name| rule.parameters.contains(name))
    };
    let known = all.find(|known| known.rules.iter().any(is_it))?;
    Some(known.origin().to_owned())
}

/// The rules for one server.
pub(crate) struct Known {
    header: Header,
    /// The lines of shared results, by name.
    results: BTreeMap<String, String>,
    rules: BTreeMap<String, Rule>,
}

/// The servers that rules are for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Header {
    /// `npm NAME`, `PyPI NAME`, or an address, which is for everything below its path.
    origins: Vec<String>,
    /// Variables that it reads and that do not change what its results mean.
    env: Vec<String>,
    /// The domains of its service.
    domains: Vec<String>,
    /// Beginnings of options that make it another server, such as the user's own browser.
    not_with: Vec<String>,
}

/// The keys of a `[[rule]]` that are read here.
#[derive(Deserialize)]
struct Shared {
    /// Each tool with the parameters that it may have.
    tools: BTreeMap<String, Vec<String>>,
    effect: String,
    /// A tool that reads as far as the user is concerned, such as the navigation of a browser.
    #[serde(default)]
    says_it_writes: bool,
}

/// The rule of one tool.
struct Rule {
    parameters: Vec<String>,
    /// Whether it only reads, and says nothing else.
    only_reads: bool,
    lines: String,
}

impl Known {
    /// The rules for an app of a configuration.
    pub(crate) fn of_app(app: &App) -> Option<Self> {
        let wish = ForeignServer {
            command: app.command.clone(),
            url: app.remote.as_ref().map(|remote| remote.url.to_string()),
            env: app.env.clone(),
            env_from: app.env_from.clone(),
            ..ForeignServer::default()
        };
        Self::of(&wish).ok().flatten()
    }

    /// The rules for a server: by the exact name of a package of the user's registry, or by its address. An error says why
    /// one of that name has none: a variable could change the program (`NODE_OPTIONS`) or its service, or the rules are not
    /// made for an option.
    pub(crate) fn of(wish: &ForeignServer) -> Result<Option<Self>, String> {
        let url = wish.url.as_ref().and_then(|url| WebUrl::new(url).ok());
        // A mistake in the command is reported where it is installed.
        let package = launcher(&wish.command, []).ok().flatten();
        let name = package.as_ref().and_then(Package::name).unwrap_or_default();
        let origin = match (&url, package.as_ref().map(|it| it.registry)) {
            (Some(url), _) => url.to_string(),
            (None, Some(Registry::Npm)) => format!("npm {name}"),
            (None, Some(Registry::PyPi)) => format!("PyPI {name}"),
            (None, None) => return Ok(None),
        };
        let mut all = FILES.iter().filter_map(|(_, text)| Self::parse(text));
        let Some(mut known) = all.find(|known| known.header.origin(&origin).is_some()) else {
            return Ok(None);
        };
        // The address alone: a query may have a secret.
        known.header.origins = known.header.origin(&origin).into_iter().collect();
        let variables = wish.env_from.iter().map(|entry| from_environment(entry).0);
        let mut variables = wish.env.keys().map(String::as_str).chain(variables);
        let is_odd = |name: &&str| {
            let mut harmless = HARMLESS.split_ascii_whitespace();
            !harmless.any(|it| it == *name) && !known.header.env.iter().any(|it| it == name)
        };
        let odd = variables
            .find(is_odd)
            .map(|name| format!("the variable {}", escape(name)));
        let mut words = package.iter().flat_map(|it| &it.arguments);
        let is_other = |word: &&String| known.header.not_with.iter().any(|it| word.starts_with(it));
        let odd = odd.or_else(|| Some(format!("the option {}", escape(words.find(is_other)?))));
        match odd {
            None => Ok(Some(known)),
            Some(odd) => Err(format!(
                "Sluice's policy for {} is not used, since {odd} may change what the server does",
                known.origin()
            )),
        }
    }

    /// The package or address that it was chosen by.
    fn origin(&self) -> &str {
        self.header.origins.first().map_or("", String::as_str)
    }

    /// The domains of its service that it may reach. A remote server needs no other than its own.
    pub(crate) fn domains(&self) -> &[String] {
        &self.header.domains
    }

    /// Whether one of its tools changes something.
    pub(crate) fn writes(&self) -> bool {
        self.rules.values().any(|rule| !rule.only_reads)
    }

    /// The lines of these domains. Of secrets only its own go there.
    pub(crate) fn domain_lines(&self, app: &str) -> String {
        let lines = self.domains().iter().map(|name| {
            format!(
                "[[app.{app}.domain]]\nname = \"{name}\"\nlimit = [\"untrusted\", \"own secret\"]\n"
            )
        });
        lines.collect()
    }

    /// The rule of a tool, if the tool is the one that it is about. One with another parameter is not, and neither is one
    /// that says that it changes something where the rule says that it reads.
    pub(crate) fn rule(&self, app: &str, tool: &Tool) -> Option<String> {
        let rule = self.rules.get(&tool.name)?;
        let has = |name: &str| tool.arguments.iter().any(|(own, _)| own == name);
        let writes = tool.hints.read_only == Some(false);
        let mut names = tool.arguments.iter().map(|(name, _)| name);
        let differs = !names.all(|name| rule.parameters.contains(name));
        if differs || tool.has_more || (rule.only_reads && writes) {
            return None;
        }
        // Another version may lack an argument that has a limit of its own.
        let is_there = |line: &&str| {
            let own = line.strip_prefix("arguments.");
            let own = own.and_then(|rest| rest.split(['.', ' ']).next());
            own.is_none_or(has)
        };
        let lines = rule.lines.lines().filter(is_there);
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        let (key, parameters) = (key(&tool.name), parameters(tool));
        Some(format!(
            "[app.{app}.tools.{key}]\nparameters = {parameters}\n{lines}"
        ))
    }

    /// The rules of these tools with the results that they share. Other tools are left out.
    pub(crate) fn rules(&self, app: &str, tools: &[Tool]) -> String {
        let rules: String = tools
            .iter()
            .filter_map(|tool| self.rule(app, tool))
            .collect();
        if rules.is_empty() {
            return rules;
        }
        let shared = self.results.iter();
        let shared = shared.filter(|(name, _)| rules.contains(&format!("results = \"{name}\"\n")));
        let shared = shared.map(|(name, lines)| format!("[app.{app}.results.{name}]\n{lines}"));
        format!(
            "# From Sluice's policy for {}: numbers, dates and ids of results are trusted, words are not.\n{}{rules}",
            self.origin(),
            shared.collect::<String>()
        )
    }

    /// A file in its parts. `None` never occurs: a test reads each file.
    fn parse(text: &str) -> Option<Self> {
        let (mut header, mut results, mut rules) = (None, BTreeMap::new(), BTreeMap::new());
        for part in text.split("\n[[example]]").next()?.split("\n[").skip(1) {
            let (table, all) = part.split_once("]\n")?;
            let is_own = |line: &&str| {
                let mut starts = ["#", "tools.", "says_it_writes"].iter();
                line.is_empty() || starts.any(|start| line.starts_with(start))
            };
            let lines = all.lines().filter(|line| !is_own(line));
            let lines: String = lines.map(|line| format!("{line}\n")).collect();
            if table == "package" {
                header = Some(toml::from_str(all).ok()?);
            } else if let Some(name) = table.strip_prefix("results.") {
                results.insert(name.to_owned(), lines);
            } else {
                let shared: Shared = toml::from_str(all).ok()?;
                let only_reads = shared.effect.starts_with("read") && !shared.says_it_writes;
                for (name, parameters) in shared.tools {
                    let lines = lines.clone();
                    let rule = Rule {
                        parameters,
                        only_reads,
                        lines,
                    };
                    rules.insert(name, rule);
                }
            }
        }
        Some(Self {
            header: header?,
            results,
            rules,
        })
    }
}

impl Header {
    /// The entry that this origin is one of.
    fn origin(&self, origin: &str) -> Option<String> {
        let is_it = |known: &&String| {
            let rest = origin.strip_prefix(known.as_str());
            // The end of a path, so that `/mcp` is not for `/mcpx`.
            let below = |rest: &str| known.starts_with("https:") && rest.starts_with(['/', '?']);
            rest.is_some_and(|rest| rest.is_empty() || below(rest))
        };
        self.origins.iter().find(is_it).cloned()
    }
}

/// What the user is told of where the rules of a server come from; `None` where they are all proposed.
pub(crate) fn note(wish: &ForeignServer, tools: &[Tool]) -> Option<String> {
    let known = match Known::of(wish) {
        Ok(known) => known?,
        Err(why) => return Some(format!("note: {}: {why}", wish.name)),
    };
    let mut note = format!(
        "{}: rules from Sluice's policy for {}",
        wish.name,
        known.origin()
    );
    if wish.url.is_none() && !known.domains().is_empty() {
        note += &format!("; it may reach {}", known.domains().join(", "));
    }
    let others = tools
        .iter()
        .filter(|tool| known.rule(&wish.name, tool).is_none());
    let others: Vec<String> = others.map(|tool| escape(&tool.name)).collect();
    if !others.is_empty() {
        note += &format!(
            "; not for tools that it does not know as they are: {}",
            others.join(", ")
        );
    }
    Some(note)
}

#[cfg(test)]
mod tests;

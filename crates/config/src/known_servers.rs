//! Sluice's own rules for MCP servers that many people use: `policies/servers/*.toml`, which are parts of the program.
//!
//! Such a file has a table `[package]` with the packages and addresses that it is for. The lines of `[results.NAME]` are those
//! of `[app.APP.results.NAME]` in a `sluice.toml`, and the lines of a `[[rule]]` those of `[app.APP.tools.TOOL]` for each of
//! its `tools`, which stand in it with their parameters. The `[[example]]` tables at its end are for its test.

use std::collections::BTreeMap;

use names::WebUrl;
use serde::Deserialize;

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

/// Where a server comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerOrigin<'a> {
    /// A package of npm's registry.
    Npm(&'a str),
    /// A package of PyPI.
    PyPi(&'a str),
    /// A remote server.
    Url(&'a WebUrl),
}

/// The rules for one server.
#[derive(Debug)]
pub struct KnownServer {
    /// The name of its file.
    pub name: &'static str,
    package: Package,
    /// The lines of shared results, by name.
    results: BTreeMap<String, String>,
    tools: BTreeMap<String, Rule>,
}

/// The rule of one tool.
#[derive(Debug)]
struct Rule {
    /// The parameters that it may have.
    parameters: Vec<String>,
    /// Whether it only reads, and says nothing else.
    only_reads: bool,
    lines: String,
}

/// The keys of a `[[rule]]` that are read here.
#[derive(Debug, Deserialize)]
struct Shared {
    tools: BTreeMap<String, Vec<String>>,
    effect: String,
    /// A tool that reads as far as the user is concerned, such as the navigation of a browser.
    #[serde(default)]
    says_it_writes: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    #[serde(default)]
    npm: Vec<String>,
    #[serde(default)]
    pypi: Vec<String>,
    /// Addresses of remote servers; one is for everything below its path.
    #[serde(default)]
    urls: Vec<String>,
    /// Variables that it reads and that do not change what its results mean.
    #[serde(default)]
    env: Vec<String>,
    /// The domains of its service.
    #[serde(default)]
    domains: Vec<String>,
    /// Beginnings of options that make it another server, such as the user's own browser.
    #[serde(default)]
    not_with: Vec<String>,
}

impl KnownServer {
    /// The rules for a server of this origin with these variables and arguments. With a variable that could change the
    /// program (`NODE_OPTIONS`) or its service, or with an option for which the rules are not made, there are none.
    ///
    /// # Errors
    /// Such a variable or option.
    pub fn find<'v>(
        origin: ServerOrigin<'_>,
        variables: impl IntoIterator<Item = &'v str>,
        arguments: &[String],
    ) -> Result<Option<Self>, String> {
        let Some(found) = Self::all().find(|known| known.package.is_for(origin)) else {
            return Ok(None);
        };
        let package = &found.package;
        let is_known = |name: &&str| {
            let own = package.env.iter().any(|known| known == name);
            own || HARMLESS.split_ascii_whitespace().any(|it| it == *name)
        };
        if let Some(name) = variables.into_iter().find(|name| !is_known(name)) {
            return Err(format!("the variable {name}"));
        }
        let mut options = package.not_with.iter();
        match options.find(|option| arguments.iter().any(|word| word.starts_with(*option))) {
            Some(option) => Err(format!("the option {option}")),
            None => Ok(Some(found)),
        }
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let files = FILES.iter();
        files.filter_map(|(name, text)| Self::parse(name, text))
    }

    /// The packages and addresses that it is for, in words.
    pub fn origins(&self) -> impl Iterator<Item = String> {
        let Package {
            npm, pypi, urls, ..
        } = &self.package;
        let npm = npm.iter().map(|name| format!("npm {name}"));
        let pypi = pypi.iter().map(|name| format!("PyPI {name}"));
        npm.chain(pypi).chain(urls.iter().cloned())
    }

    /// The tools that it has rules for, with the parameters that they may have.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &[String])> {
        let tools = self.tools.iter();
        tools.map(|(name, rule)| (&**name, &*rule.parameters))
    }

    /// The lines below `[app.NAME.tools.TOOL]` for a tool with these parameters, without `parameters`. `None` if the rules
    /// are not about this tool: it has a parameter that they do not have, or says that it changes something and they say
    /// that it reads.
    #[must_use]
    pub fn rule(&self, tool: &str, parameters: &[&str], writes: bool) -> Option<String> {
        let rule = self.tools.get(tool)?;
        let is_known = |name: &&str| rule.parameters.iter().any(|known| known == name);
        if !parameters.iter().all(is_known) || (rule.only_reads && writes) {
            return None;
        }
        // Another version may lack an argument that has a limit of its own.
        let is_there = |line: &&str| {
            let own = line.strip_prefix("arguments.");
            let own = own.and_then(|rest| rest.split(['.', ' ']).next());
            own.is_none_or(|name| parameters.contains(&name))
        };
        let lines = rule.lines.lines().filter(is_there);
        Some(lines.map(|line| format!("{line}\n")).collect())
    }

    /// The tables of the shared results that these lines of an app name.
    #[must_use]
    pub fn results(&self, app: &str, lines: &str) -> String {
        let is_named = |name: &str| lines.contains(&format!("results = \"{name}\"\n"));
        let named = self.results.iter().filter(|(name, _)| is_named(name));
        let tables = named.map(|(name, lines)| format!("[app.{app}.results.{name}]\n{lines}"));
        tables.collect()
    }

    /// The domains of its service.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.package.domains.iter().map(String::as_str)
    }

    /// A file in its parts. `None` never occurs: a test reads each file.
    fn parse(name: &'static str, text: &str) -> Option<Self> {
        let (mut package, mut results, mut tools) = (None, BTreeMap::new(), BTreeMap::new());
        let rules = text.split("\n[[example]]").next()?;
        for part in rules.split("\n[").skip(1) {
            let (header, all) = part.split_once("]\n")?;
            let lines = all.lines().filter(|line| {
                let mut own = ["#", "tools.", "says_it_writes"].iter();
                let is_own = own.any(|start| line.starts_with(start));
                !is_own && !line.is_empty()
            });
            let lines: String = lines.map(|line| format!("{line}\n")).collect();
            if header == "package" {
                package = Some(toml::from_str(all).ok()?);
            } else if let Some(name) = header.strip_prefix("results.") {
                results.insert(name.to_owned(), lines);
            } else {
                let shared: Shared = toml::from_str(all).ok()?;
                let only_reads = shared.effect.starts_with("read") && !shared.says_it_writes;
                tools.extend(shared.tools.into_iter().map(|(name, parameters)| {
                    let lines = lines.clone();
                    (
                        name,
                        Rule {
                            parameters,
                            only_reads,
                            lines,
                        },
                    )
                }));
            }
        }
        Some(Self {
            name,
            package: package?,
            results,
            tools,
        })
    }
}

impl Package {
    fn is_for(&self, origin: ServerOrigin<'_>) -> bool {
        let is_in = |names: &[String], name: &str| names.iter().any(|known| known == name);
        match origin {
            ServerOrigin::Npm(name) => is_in(&self.npm, name),
            ServerOrigin::PyPi(name) => is_in(&self.pypi, name),
            ServerOrigin::Url(url) => self.urls.iter().any(|known| {
                let rest = url.as_str().strip_prefix(known.as_str());
                // The end of a path, so that `/mcp` is not for `/mcpx`.
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
            }),
        }
    }
}

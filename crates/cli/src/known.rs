//! The rules that Sluice has for a server, if it is one that many people use.

use config::{ForeignServer, KnownServer, ServerOrigin, from_environment};
use hub::trace::escape;
use names::WebUrl;
use provision::{Package, Registry, launcher};

use crate::proposal::{self, Tool};

/// A server with rules of Sluice's own.
pub(crate) struct Known {
    pub(crate) server: KnownServer,
    /// The package or address that it was chosen by.
    pub(crate) by: String,
}

impl Known {
    /// The rules for a server: by the exact name of a package of the user's registry, or by its address. An error says why
    /// a server of that name has none.
    pub(crate) fn of(wish: &ForeignServer) -> Result<Option<Self>, String> {
        let url = wish.url.as_ref().and_then(|url| WebUrl::new(url).ok());
        // A mistake in the command is reported where it is installed.
        let package = launcher(&wish.command, []).ok().flatten();
        let name = package.as_ref().and_then(Package::name);
        let (origin, by) = match (&url, &name, package.as_ref().map(|it| it.registry)) {
            (Some(url), ..) => (ServerOrigin::Url(url), url.with_path("/").to_string()),
            (_, Some(name), Some(Registry::Npm)) => {
                (ServerOrigin::Npm(name), format!("npm {name}"))
            }
            (_, Some(name), Some(Registry::PyPi)) => {
                (ServerOrigin::PyPi(name), format!("PyPI {name}"))
            }
            _ => return Ok(None),
        };
        let variables = wish.env_from.iter().map(|entry| from_environment(entry).0);
        let variables = wish.env.keys().map(String::as_str).chain(variables);
        let arguments = package.map(|it| it.arguments).unwrap_or_default();
        match KnownServer::find(origin, variables, &arguments) {
            Ok(server) => Ok(server.map(|server| Self { server, by })),
            Err(what) => Err(format!(
                "Sluice's policy for {by} is not used, since {} may change what the server does",
                escape(&what)
            )),
        }
    }

    /// The lines of the domains of its service. Of secrets only its own go there.
    pub(crate) fn domains(&self, app: &str) -> String {
        let lines = self.server.domains().map(|name| {
            format!(
                "[[app.{app}.domain]]\nname = \"{name}\"\nlimit = [\"untrusted\", \"own secret\"]\n"
            )
        });
        lines.collect()
    }

    /// The rule of one of its tools.
    pub(crate) fn rule(&self, app: &str, tool: &Tool) -> Option<String> {
        proposal::known(&self.server, app, tool)
    }

    /// The rules of its tools with the results that they share. Other tools are left out.
    pub(crate) fn rules(&self, app: &str, tools: &[Tool]) -> String {
        let rules = tools.iter().filter_map(|tool| self.rule(app, tool));
        let rules: String = rules.collect();
        match rules.is_empty() {
            true => rules,
            false => format!(
                "# From Sluice's policy for {}: numbers, dates and ids of results are trusted, words are not.\n{}{rules}",
                self.by,
                self.server.results(app, &rules)
            ),
        }
    }
}

/// What the user is told of where the rules of a server come from; `None` where they are all proposed.
pub(crate) fn note(wish: &ForeignServer, tools: &[Tool]) -> Option<String> {
    let known = match Known::of(wish) {
        Ok(known) => known?,
        Err(why) => return Some(format!("note: {}: {why}", wish.name)),
    };
    let others = tools
        .iter()
        .filter(|tool| known.rule(&wish.name, tool).is_none());
    let others: Vec<String> = others.map(|tool| escape(&tool.name)).collect();
    let domains: Vec<&str> = known.server.domains().collect();
    let mut note = format!("{}: rules from Sluice's policy for {}", wish.name, known.by);
    if wish.url.is_none() && !domains.is_empty() {
        note += &format!("; it may reach {}", domains.join(", "));
    }
    if !others.is_empty() {
        note += &format!(
            "; not for tools that it does not know as they are: {}",
            others.join(", ")
        );
    }
    Some(note)
}

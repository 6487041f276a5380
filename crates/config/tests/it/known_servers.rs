//! Sluice's own rules for servers: each file is read, means what its examples say, and trusts no words of a server.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use config::{Config, KnownServer, ServerOrigin};
use ifc::{Arguments, Call, Dimension, Label, Policy, Sink};
use names::WebUrl;
use serde::Deserialize;
use serde_json::Value;

/// What a call of a tool returns and how it is labelled, or how a call is decided.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Example {
    tool: String,
    arguments: Value,
    /// The labels of a call, and of single arguments of it.
    label: Vec<String>,
    labels: std::collections::BTreeMap<String, Vec<String>>,
    expect: Option<String>,
    /// A result, and parts of it.
    result: Option<String>,
    trusted: Vec<String>,
    untrusted: Vec<String>,
    secret: Vec<String>,
    public: Vec<String>,
}

impl Default for Example {
    fn default() -> Self {
        Self {
            tool: String::new(),
            arguments: Value::Object(serde_json::Map::new()),
            label: Vec::new(),
            labels: std::collections::BTreeMap::new(),
            expect: None,
            result: None,
            trusted: Vec::new(),
            untrusted: Vec::new(),
            secret: Vec::new(),
            public: Vec::new(),
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/servers")
}

fn examples(name: &str) -> Vec<Example> {
    #[derive(Deserialize)]
    struct Examples {
        example: Vec<Example>,
    }
    let text = std::fs::read_to_string(folder().join(format!("{name}.toml"))).unwrap();
    let read: Examples = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    read.example
}

/// A configuration with all rules for an app called `server`.
fn config(known: &KnownServer, lattice: &str, start: &str) -> Config {
    read(known, lattice, start).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn read(known: &KnownServer, lattice: &str, start: &str) -> Result<Config, String> {
    let rules = known.tools().map(|(tool, parameters)| {
        let names: Vec<&str> = parameters.iter().map(String::as_str).collect();
        let rule = known.rule(tool, &names, false).unwrap();
        let parameters: Vec<String> = names
            .iter()
            .map(|name| format!("{name} = \"any?\""))
            .collect();
        format!(
            "[app.server.tools.{tool}]\nparameters = {{ {} }}\n{rule}",
            parameters.join(", ")
        )
    });
    let rules: String = rules.collect();
    let results = known.results("server", &rules);
    let text = format!("{lattice}[app.server]\n{start}\n{results}{rules}");
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.clone()))
        .map_err(|mistakes| format!("{}: {mistakes}", known.name))
}

const BY_APP: &str = "[lattice]\nconfidentiality = \"apps\"\n";
const LOCAL: &str = "command = [\"/bin/true\"]";

#[test]
fn each_file_is_part_of_the_program() {
    let files = std::fs::read_dir(folder()).unwrap();
    let files = files.map(|file| file.unwrap().path().file_stem().unwrap().to_owned());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.sort();
    let known: Vec<&str> = KnownServer::all().map(|known| known.name).collect();
    assert_eq!(known, files);
}

/// The table of the documentation. A row that is missing there is in the error.
#[test]
fn the_documentation_lists_each_file() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/servers.md");
    let page = std::fs::read_to_string(page).unwrap();
    for known in KnownServer::all() {
        let (name, count) = (known.name, known.tools().count());
        let origins: Vec<String> = known.origins().map(|it| format!("`{it}`")).collect();
        let domains: Vec<&str> = known.domains().collect();
        let row = format!(
            "| [{name}](../policies/servers/{name}.toml) | {} | {count} | {} |\n",
            origins.join(", "),
            domains.join(", ")
        );
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn each_example_comes_out_as_it_says() {
    let mut wrong = Vec::new();
    for known in KnownServer::all() {
        let config = match read(&known, BY_APP, LOCAL) {
            Ok(config) => config,
            Err(mistakes) => {
                wrong.push(mistakes);
                continue;
            }
        };
        let warnings = config.warnings.iter();
        wrong.extend(warnings.map(|it| format!("{}: {}", known.name, it.message)));
        let all = examples(known.name);
        assert!(all.iter().any(|it| it.result.is_some()), "{}", known.name);
        for kind in ["allow", "ask"] {
            let expects = |it: &Example| it.expect.as_deref() == Some(kind);
            // A server that only reads asks about nothing but secrets.
            assert!(
                all.iter().any(expects) || kind == "ask",
                "{}: {kind}",
                known.name
            );
        }
        wrong.extend(all.iter().flat_map(|it| mistakes(&config, known.name, it)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn mistakes(config: &Config, name: &str, example: &Example) -> Vec<String> {
    let lattice = &config.lattice;
    let label = |names: &[String]| -> Label {
        let names = names
            .iter()
            .map(|name| name.replace("own secret", "secret:server"));
        names.map(|name| lattice.label(&name).unwrap()).collect()
    };
    let called = label(&example.label);
    let mut arguments = Arguments::parse(&example.arguments.to_string(), &called).unwrap();
    for (path, names) in &example.labels {
        arguments = arguments.restrict_at(&path.parse().unwrap(), &label(names));
    }
    let call = Call {
        app: "server".to_owned(),
        tool: example.tool.clone(),
        arguments,
        label: called,
    };
    let policy = config.policy();
    let at = format!("{name}: {} {}", example.tool, example.arguments);
    let mut wrong = Vec::new();
    if let Some(expected) = &example.expect {
        let found = policy.judge(&Sink::Call(&call));
        if found.verdict.name() != expected {
            wrong.push(format!(
                "{at}: {} and not {expected}: {:?}",
                found.verdict.name(),
                found.reason
            ));
        }
    }
    let Some(result) = &example.result else {
        return wrong;
    };
    let labelled = policy.label_result(&call, result.clone(), false);
    let of = |part: &String| -> Label {
        let start = result
            .find(part.as_str())
            .unwrap_or_else(|| panic!("{at}: no {part}"));
        let span = start..start + part.len();
        let regions = labelled.regions();
        let meets =
            |region: &std::ops::Range<usize>| region.start < span.end && span.start < region.end;
        regions
            .filter(|(region, _)| meets(region))
            .map(|(_, label)| label.clone())
            .collect()
    };
    let has = |part: &String, dimension| !of(part).meet(&lattice.whole(dimension)).is_bottom();
    for (parts, dimension, expected, word) in [
        (&example.trusted, Dimension::Integrity, false, "trusted"),
        (&example.untrusted, Dimension::Integrity, true, "untrusted"),
        (&example.public, Dimension::Confidentiality, false, "public"),
        (&example.secret, Dimension::Confidentiality, true, "secret"),
    ] {
        let parts = parts.iter().filter(|part| has(part, dimension) != expected);
        wrong.extend(parts.map(|part| format!("{at}: '{part}' is not {word}")));
    }
    wrong
}

/// A later version of a package is written by anybody who gets hold of its name, and its results are read as the rules say.
#[test]
fn no_words_of_a_server_are_trusted() {
    for known in KnownServer::all() {
        let config = config(&known, "", LOCAL);
        let strangers = config.lattice.whole(Dimension::Integrity);
        for (tool, rule) in &config.apps["server"].rules.tools {
            let at = format!("{}: {tool}", known.name);
            assert!(strangers.flows_to(rule.result.worst()), "{at}");
            // The product keeps no limit of an argument that the tool lacks, and looks at no part of one.
            assert!(rule.arguments.keys().all(|path| path.is_whole()), "{at}");
            for rule in rule.result.rules() {
                let is_formed = rule.form.is_some() || strangers.flows_to(&rule.label);
                assert!(
                    is_formed && rule.unless.is_none() && rule.when.is_empty(),
                    "{at}"
                );
            }
        }
    }
}

/// Without a secret for each app, a limit has a secret only where the app reaches nothing.
#[test]
fn the_own_secret_is_no_other_apps() {
    let known = KnownServer::all()
        .find(|known| known.name == "notion")
        .unwrap();
    let domain = "[[app.server.domain]]\nname = \"api.notion.com\"\n";
    let limit = |lattice: &str, start: &str| {
        let config = config(&known, lattice, start);
        let rule = &config.apps["server"].rules.tools["API-post-search"];
        let (limit, result) = (config.lattice.describe(&rule.limit), rule.result.worst());
        (limit, config.lattice.describe(result))
    };
    let two = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
    let one = vec!["untrusted".to_owned()];
    let reaches = format!("{LOCAL}\n{domain}");
    let all = two("untrusted", "secret");
    assert_eq!(limit("", &reaches), (one, all.clone()));
    assert_eq!(limit("", LOCAL), (all.clone(), all));
    let own = two("untrusted", "secret:server");
    assert_eq!(limit(BY_APP, &reaches), (own.clone(), own));
}

#[test]
fn a_server_is_chosen_by_its_exact_origin() {
    fn name(
        origin: ServerOrigin<'_>,
        variables: &[&str],
        arguments: &[&str],
    ) -> Result<&'static str, String> {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let found = KnownServer::find(origin, variables.iter().copied(), &arguments);
        found.map(|known| known.map_or("none", |known| known.name))
    }
    let npm = |text| ServerOrigin::Npm(text);
    assert_eq!(
        name(npm("@playwright/mcp"), &["DEBUG"], &["--headless"]),
        Ok("playwright")
    );
    assert_eq!(name(npm("@playwright/mcpx"), &[], &[]), Ok("none"));
    assert_eq!(name(npm("mcp-server-git"), &[], &[]), Ok("none"));
    assert_eq!(
        name(ServerOrigin::PyPi("mcp-server-git"), &[], &[]),
        Ok("git")
    );
    let code = name(npm("@playwright/mcp"), &["NODE_OPTIONS"], &[]);
    assert_eq!(code, Err("the variable NODE_OPTIONS".to_owned()));
    let own = name(
        npm("@playwright/mcp"),
        &[],
        &["--cdp-endpoint=http://127.0.0.1:9222"],
    );
    assert_eq!(own, Err("the option --cdp-endpoint".to_owned()));
    for (url, expected) in [
        ("https://api.githubcopilot.com/mcp/", "github"),
        ("https://api.githubcopilot.com/mcp/readonly?x=1", "github"),
        ("https://api.githubcopilot.com/mcpx", "none"),
        ("https://api.githubcopilot.com/other/../mcp", "github"),
        ("https://api.githubcopilot.com.evil.example/mcp", "none"),
        ("https://api.githubcopilot.com:8443/mcp", "none"),
        ("https://mcp.stripe.com", "stripe"),
        ("https://mcp.stripe.com.evil.example/", "none"),
    ] {
        let read = WebUrl::new(url).unwrap();
        assert_eq!(
            name(ServerOrigin::Url(&read), &[], &[]),
            Ok(expected),
            "{url}"
        );
    }
}

#[test]
fn a_tool_that_differs_has_no_rule() {
    let known = KnownServer::all()
        .find(|known| known.name == "filesystem")
        .unwrap();
    let rule = |tool: &str, parameters: &[&str], writes| known.rule(tool, parameters, writes);
    let all = rule("write_file", &["path", "content"], true).unwrap();
    assert!(all.contains("arguments.content.limit"), "{all}");
    // An older version lacks an argument, a newer one has another.
    let less = rule("write_file", &["path"], true).unwrap();
    assert!(!less.contains("arguments.content"), "{less}");
    assert_eq!(rule("write_file", &["path", "content", "run"], true), None);
    assert_eq!(rule("run", &["path"], true), None);
    assert!(rule("read_text_file", &["path"], false).is_some());
    assert_eq!(rule("read_text_file", &["path"], true), None);
}

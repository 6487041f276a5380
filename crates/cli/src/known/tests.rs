//! Each file is read, means what its examples say, and trusts no words of a server.

use std::path::{Path, PathBuf};

use config::Config;
use ifc::{Arguments, Call, Dimension, Label, Policy, Sink};
use serde_json::{Value, json};
use wire::Hints;

use super::*;
use crate::commands::policy::run_tests;

/// What a call of a tool returns and how it is labelled, or how a call is decided.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Example {
    tool: String,
    arguments: Option<Value>,
    /// The labels of a call, and of single arguments of it.
    label: Vec<String>,
    labels: BTreeMap<String, Vec<String>>,
    expect: Option<String>,
    /// A result, and parts of it.
    result: Option<String>,
    trusted: Vec<String>,
    untrusted: Vec<String>,
    secret: Vec<String>,
    public: Vec<String>,
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

/// A tool with these parameters, of which the schema says no more.
fn tool(name: &str, parameters: &[impl AsRef<str>], read_only: Option<bool>) -> Tool {
    let properties = parameters
        .iter()
        .map(|name| (name.as_ref().to_owned(), json!({})));
    let properties: serde_json::Map<String, Value> = properties.collect();
    let hints = Hints {
        read_only,
        ..Hints::default()
    };
    Tool::new(name, &json!({ "properties": properties }), hints)
}

/// A configuration with all rules for an app called `server`.
fn read(known: &Known, lattice: &str) -> Result<Config, String> {
    let tools = known.rules.iter();
    let tools: Vec<Tool> = tools
        .map(|(name, rule)| tool(name, &rule.parameters, None))
        .collect();
    let rules = known.rules("server", &tools);
    let text = format!("{lattice}[app.server]\ncommand = [\"/bin/true\"]\n{rules}");
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.clone()))
        .map_err(|mistakes| format!("{}: {mistakes}", known.origin()))
}

fn all() -> impl Iterator<Item = (&'static str, Known)> {
    FILES
        .iter()
        .map(|(name, text)| (*name, Known::parse(text).unwrap()))
}

const BY_APP: &str = "[lattice]\nconfidentiality = \"apps\"\n";

#[test]
fn each_file_is_part_of_the_program() {
    let files = std::fs::read_dir(folder()).unwrap();
    let files = files.map(|file| file.unwrap().path().file_stem().unwrap().to_owned());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.sort();
    let known: Vec<&str> = all().map(|(name, _)| name).collect();
    assert_eq!(known, files);
}

/// The table of the documentation. A row that is missing there is in the error.
#[test]
fn the_documentation_lists_each_file() {
    let page = std::fs::read_to_string(folder().join("../../docs/servers.md")).unwrap();
    for (name, known) in all() {
        let origins = known.header.origins.iter();
        let origins: Vec<String> = origins.map(|it| format!("`{it}`")).collect();
        let (count, domains) = (known.rules.len(), known.domains().join(", "));
        let row = format!(
            "| [{name}](../policies/servers/{name}.toml) | {} | {count} | {domains} |\n",
            origins.join(", ")
        );
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn each_example_comes_out_as_it_says() {
    let mut wrong = Vec::new();
    for (name, known) in all() {
        let config = match read(&known, BY_APP) {
            Ok(config) => config,
            Err(mistakes) => {
                wrong.push(mistakes);
                continue;
            }
        };
        let warnings = config.warnings.iter();
        wrong.extend(warnings.map(|it| format!("{name}: {}", it.message)));
        let all = examples(name);
        assert!(all.iter().any(|it| it.result.is_some()), "{name}");
        let mut expected = all.iter().filter_map(|it| it.expect.as_deref());
        assert!(expected.any(|it| it == "allow"), "{name}");
        wrong.extend(all.iter().flat_map(|it| mistakes(&config, name, it)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The servers that are used most have a conversation each, which is decided on as `sluice policy test` does it.
#[test]
fn each_sequence_comes_out_as_it_says() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, known) in all() {
        let text = std::fs::read_to_string(folder().join(format!("{name}.toml"))).unwrap();
        let Some(at) = text.find("\n[[test]]\n") else {
            continue;
        };
        let tests = text[at..].replace("own secret", "secret:server");
        let config = read(&known, BY_APP).unwrap();
        for outcome in run_tests(&config, &tests).unwrap() {
            count += 1;
            let differences = outcome.differences.iter();
            wrong.extend(differences.map(|it| format!("{name}: {it:#?}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 10, "{count}");
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
    let arguments = example.arguments.clone().unwrap_or(json!({})).to_string();
    let at = format!("{name}: {} {arguments}", example.tool);
    let mut arguments = Arguments::parse(&arguments, &called).unwrap();
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
    for (name, known) in all() {
        let config = read(&known, "").unwrap();
        let strangers = config.lattice.whole(Dimension::Integrity);
        for (tool, rule) in &config.apps["server"].rules.tools {
            let at = format!("{name}: {tool}");
            assert!(strangers.flows_to(rule.result.worst()), "{at}");
            // A limit of an argument that the tool lacks is left out by the name of the argument.
            assert!(
                rule.arguments.keys().all(ifc::ArgumentPath::is_whole),
                "{at}"
            );
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

#[test]
fn a_server_is_chosen_by_its_exact_origin() {
    let of = |command: &str, url: Option<&str>, env: &[&str]| {
        let words = command.split(' ').filter(|word| !word.is_empty());
        let wish = ForeignServer {
            command: words.map(str::to_owned).collect(),
            url: url.map(str::to_owned),
            env: env
                .iter()
                .map(|name| ((*name).to_owned(), String::new()))
                .collect(),
            ..ForeignServer::default()
        };
        let found = Known::of(&wish);
        found.map_or_else(
            |why| why,
            |known| known.map_or_else(|| "none".to_owned(), |it| it.origin().to_owned()),
        )
    };
    let package = |command| of(command, None, &[]);
    assert_eq!(
        package("npx -y @playwright/mcp@latest --headless"),
        "npm @playwright/mcp"
    );
    assert_eq!(
        package("uvx mcp_server_git==1 --repository /r"),
        "PyPI mcp-server-git"
    );
    for other in [
        "npx -y @playwright/mcpx",
        "npx -y mcp-server-git",
        "npx -y ./@playwright/mcp",
        "npx -y github:playwright/mcp",
        "npx -p @playwright/mcp -p more mcp",
        "uvx --with more mcp-server-git",
        "uvx --from ./mcp-server-git mcp-server-git",
        "/usr/local/bin/mcp-server-git",
        "node /apps/@playwright/mcp",
    ] {
        assert_eq!(package(other), "none", "{other}");
    }
    let code = of("npx @playwright/mcp", None, &["DEBUG", "NODE_OPTIONS"]);
    assert!(code.contains("the variable NODE_OPTIONS"), "{code}");
    let own = package("npx @playwright/mcp --cdp-endpoint=http://127.0.0.1:9222");
    assert!(own.contains("the option --cdp-endpoint"), "{own}");
    let github = "https://api.githubcopilot.com/mcp";
    for (url, expected) in [
        ("https://api.githubcopilot.com/mcp/", github),
        (
            "https://api.githubcopilot.com/mcp/readonly?key=hush",
            github,
        ),
        ("https://api.githubcopilot.com/other/../mcp", github),
        ("https://api.githubcopilot.com/mcpx", "none"),
        ("https://api.githubcopilot.com.evil.example/mcp", "none"),
        ("https://api.githubcopilot.com:8443/mcp", "none"),
        ("https://mcp.stripe.com", "https://mcp.stripe.com"),
        ("https://mcp.stripe.com.evil.example/", "none"),
    ] {
        assert_eq!(of("", Some(url), &[]), expected, "{url}");
    }
}

#[test]
fn a_tool_that_differs_has_no_rule() {
    let (_, known) = all().find(|(name, _)| *name == "filesystem").unwrap();
    let rule = |name: &str, parameters: &[&str], read_only| {
        known.rule("server", &tool(name, parameters, read_only))
    };
    let all = rule("write_file", &["path", "content"], Some(false)).unwrap();
    assert!(all.contains("arguments.content.limit"), "{all}");
    // An older version lacks an argument, a newer one has another.
    let less = rule("write_file", &["path"], None).unwrap();
    assert!(!less.contains("arguments.content"), "{less}");
    assert_eq!(rule("write_file", &["path", "content", "run"], None), None);
    assert_eq!(rule("run", &["path"], None), None);
    assert!(rule("read_text_file", &["path"], Some(true)).is_some());
    assert_eq!(rule("read_text_file", &["path"], Some(false)), None);
}

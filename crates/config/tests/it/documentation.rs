//! The page on policies, and the example that it is made of: what a reader copies is right, and what the page says that
//! `policy check` says, it says.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use config::{Config, Diagnostics};
use ifc::{Arguments, Call, Label, Policy};

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn page() -> String {
    std::fs::read_to_string(file("docs/policy.md")).unwrap()
}

fn load(text: &str) -> Result<Config, Diagnostics> {
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.to_owned()))
}

/// The samples of the page, one after another.
#[test]
fn the_samples_of_the_page_are_the_example() {
    let page = page();
    let (before, rest) = page.split_once("## Behind a service\n").unwrap();
    let (service, after) = rest.split_once("\n## ").unwrap();
    for (texts, begin, name) in [
        (&[before, after][..], "```toml\n", "agent"),
        (&[service], "```toml\n", "service"),
        (&[before, after], "```toml test\n", "agent.test"),
    ] {
        let parts = texts.iter().flat_map(|text| text.split(begin).skip(1));
        let samples: Vec<&str> = parts
            .map(|part| part.split_once("```").unwrap().0)
            .collect();
        assert!(samples.len() > 1);
        let example = file(&format!("examples/{name}.toml"));
        let example = std::fs::read_to_string(example).unwrap();
        // The comment at its beginning is about the file.
        let (_, example) = example.split_once("\n\n").unwrap();
        assert_eq!(samples.join("\n"), example);
    }
    let people = std::fs::read_to_string(file("examples/people.toml")).unwrap();
    assert!(service.contains(&people));
}

#[test]
fn the_service_is_a_policy_without_a_warning() {
    let config =
        Config::load(&file("examples/service.toml")).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.warnings, []);
    assert!(config.examples().iter().all(config::ExampleOutcome::passed));
}

#[test]
fn the_example_is_a_policy_without_a_warning() {
    let config =
        Config::load(&file("examples/agent.toml")).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.warnings, []);
    assert_eq!(config.proxy.app.as_deref(), Some("agent"));
    let examples = config.examples();
    assert!(examples.iter().all(config::ExampleOutcome::passed));
    assert_eq!(examples.len(), 14);
}

#[test]
fn the_example_labels_what_the_page_says() {
    let config = Config::load(&file("examples/agent.toml")).unwrap();
    let label = |tool: &str, arguments: &str, result: &str, part: &str| {
        let call = Call {
            app: "agent".to_owned(),
            tool: tool.to_owned(),
            arguments: Arguments::parse(arguments, &Label::bottom()).unwrap(),
            label: Label::bottom(),
        };
        let labeled = config
            .policy()
            .label_result(&call, result.to_owned(), false);
        let label = labeled.label_at(result.find(part).unwrap());
        config.lattice.describe(&label).join(", ")
    };
    let read = |path: &str| {
        let arguments = serde_json::json!({ "path": path }).to_string();
        label("read_file", &arguments, "Pay Eve", "Pay")
    };
    assert_eq!(read("/home/me/documents/plan.md"), "");
    assert_eq!(read("/home/me/downloads/plan.md"), "untrusted:file");
    assert_eq!(
        read("/home/me/documents/../downloads/plan.md"),
        "untrusted:file"
    );
    let source = |owner: &str| {
        let arguments = serde_json::json!({ "owner": owner }).to_string();
        label("read_source", &arguments, "fn main", "fn")
    };
    assert_eq!(
        (source("me").as_str(), source("eve").as_str()),
        ("", "untrusted:repo")
    );
    let account = r#"{"name":"Ann","password":"x1y2"}"#;
    assert_eq!(label("get_account", "{}", account, "Ann"), "");
    assert_eq!(
        label("get_account", "{}", account, "x1y2"),
        "secret:account"
    );
    let found = r#"[{"id":7,"name":"Cup","sold_by":"shop","reviews":["Buy it now"]},
                    {"id":8,"name":"Mug","sold_by":"eve","reviews":[]}]"#;
    let product = |part: &str| label("search_products", "{}", found, part);
    assert_eq!((product("7").as_str(), product("Cup").as_str()), ("", ""));
    assert_eq!(product("Buy it"), "untrusted:market");
    assert_eq!(product("Mug"), "untrusted:market");
    let mails = r#"[{"id":3,"sender":"ann@example.com","subject":"Pay Eve"}]"#;
    let mail = |part: &str| label("get_unread_emails", "{}", mails, part);
    assert_eq!(mail("3"), "");
    assert_eq!(mail("ann@"), "untrusted:address");
    assert_eq!(mail("Pay"), "untrusted:mail");
    let offers = r#"{"days":"2026-12-03\n2026-12-10","prices":{"Eve's":70},"shared":{"ann@example.com":"r"}}"#;
    let offer = |part: &str| label("get_offers", "{}", offers, part);
    assert_eq!(
        (offer("2026-12-10").as_str(), offer("70").as_str()),
        ("", "")
    );
    assert_eq!(offer("Eve's"), "untrusted:market");
    assert_eq!(offer("ann@"), "untrusted:address");
    let tickets =
        "- Ticket: 7\n- Opened: 2026-12-03\n- Subject: Pay Eve\n- Ticket: 8\n- Opened: now\n";
    let ticket = |part: &str| label("list_tickets", "{}", tickets, part);
    assert_eq!(
        (ticket("7"), ticket("2026"), ticket("8")),
        Default::default()
    );
    assert_eq!(ticket("Pay"), "untrusted:mail");
    assert_eq!(ticket("now"), "untrusted:mail");
    let called = |name: &str| {
        let arguments = serde_json::json!({ "name": name, "arguments": {} }).to_string();
        label("call_tool", &arguments, "Done", "Done")
    };
    assert_eq!(called("create_task"), "");
    assert_eq!(called("create_tasks"), "untrusted:mail, secret:account");
}

/// Each row of the table of mistakes: the first cell is written, and the second is said of it.
#[test]
fn what_the_page_says_of_mistakes_is_what_is_said() {
    let page = page();
    let (_, rows) = page.split_once("| written | said | instead |\n").unwrap();
    let rows = rows
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_start_matches("| ").split(" | ").collect();
        let (written, said) = (cells[0], cells[1]);
        let code = |cell: &str| -> Vec<String> {
            let pieces = cell.split('`').skip(1).step_by(2);
            pieces.map(str::to_owned).collect()
        };
        let text = format!(
            "[lattice]\nintegrity = {{ categories = [\"web\"] }}\n[app.agent]\nclient = true\n\
             [app.agent.tools.tool]\neffect = \"write\"\n{}\n",
            code(written).join("\n")
        );
        let found = match load(&text) {
            Ok(config) => config.warnings.iter().map(ToString::to_string).collect(),
            Err(errors) => errors.to_string(),
        };
        let expected = said.trim_matches('`');
        assert!(found.contains(expected), "{row}\n{found}");
        count += 1;
    }
    assert!(count > 8, "{count}");
}

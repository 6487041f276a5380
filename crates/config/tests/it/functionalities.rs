//! `[functionality.NAME]`, and what apps say of functionalities.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use config::{Config, Diagnostics};
use hub::isc::ServedBy;
use ifc::{Delivery, Label, Labeled, Sink, Stage};
use policy::Verdict;

/// Two apps that serve a fare, and one that asks for it.
const APPS: &str = r#"
[app.rider]
command = ["rider"]

[app.metro]
command = ["metro"]
[app.metro.tools.get_fare]
effect = "read"
parameters = { from = "string", to = "string" }

[app.quick]
command = ["quick"]
[app.quick.tools.price]
effect = "read"
"#;

const FARE: &str = r#"
[functionality.fare]
description = "What a ride costs."
request = { type = "object", properties = { from = { type = "string", maxLength = 80 }, to = { type = "string" } }, required = ["from", "to"] }
response = { type = "object", properties = { fare = { type = "number", minimum = 0 } }, required = ["fare"] }
"#;

fn load(files: &[(&str, &str)]) -> Result<Config, Diagnostics> {
    let text = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
    let files: BTreeMap<PathBuf, String> = files.iter().map(text).collect();
    Config::load_with(Path::new("sluice.toml"), &|path| {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        files.get(path).cloned().ok_or_else(missing)
    })
}

fn ok(text: &str) -> Config {
    load(&[("sluice.toml", text)]).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(text: &str) -> String {
    load(&[("sluice.toml", text)]).unwrap_err().to_string()
}

fn with_fare(more: &str) -> String {
    format!("{APPS}{FARE}{more}")
}

fn offers(config: &Config) -> Vec<(String, ServedBy)> {
    let offers = config.functionalities["fare"].offers.iter();
    offers
        .map(|offer| (offer.app.clone(), offer.by.clone()))
        .collect()
}

fn tool(name: &str) -> ServedBy {
    ServedBy::Tool(name.to_owned())
}

fn verdict(config: &Config, from: &str, to: &str, stage: Stage, label: &str) -> Verdict {
    let label = match label {
        "" => Label::bottom(),
        name => config.lattice.label(name).unwrap(),
    };
    let delivery = Delivery {
        from: from.to_owned(),
        to: to.to_owned(),
        functionality: "fare".to_owned(),
        stage,
        message: Labeled::label_tcb("x", label),
    };
    config.policy().judge(&Sink::Delivery(&delivery)).verdict
}

#[test]
fn apps_offer_and_ask() {
    let config = ok(&with_fare(
        "[app.metro.offers]\nfare = \"get_fare\"\n[app.quick.offers]\nfare = \"price\"\n",
    ));
    let fare = &config.functionalities["fare"];
    let both = [("metro", "get_fare"), ("quick", "price")];
    assert_eq!(
        offers(&config),
        both.map(|(app, name)| (app.to_owned(), tool(name)))
    );
    // What a tool returns has the labels of its rules, as for the app itself.
    assert!(fare.offers[0].taint.is_bottom());
    assert_eq!(config.apps["rider"].asks, None);
    let request = fare.request.to_json();
    assert_eq!(request["additionalProperties"], false);
    assert_eq!(request["properties"]["to"]["maxLength"], 1000);
    let chosen = FARE.replace("description", "app = \"quick\"\ndescription");
    let config = ok(&format!(
        "{APPS}{chosen}[app.metro.offers]\nfare = \"get_fare\"\n[app.quick.offers]\nfare = \"price\"\n"
    ));
    assert_eq!(offers(&config), [("quick".to_owned(), tool("price"))]);
}

#[test]
fn messages_flow_by_what_their_receiver_may_get() {
    let strict = "[isc]\nmode = \"strict\"\n";
    let text = with_fare("[app.metro.offers]\nfare = \"get_fare\"\n");
    let text = text
        .replace(
            "[\"rider\"]",
            "[\"rider\"]\nasks = [\"fare\"]\nreceives = []",
        )
        .replace("[\"metro\"]", "[\"metro\"]\nserves = [\"rider\"]");
    let config = ok(&text);
    let asks = BTreeSet::from(["fare".to_owned()]);
    assert_eq!(config.apps["rider"].asks, Some(asks));
    let judge = |from, to, stage, label| verdict(&config, from, to, stage, label);
    for stage in [Stage::Probe, Stage::Request] {
        assert_eq!(judge("rider", "metro", stage, "secret"), Verdict::Allow);
        assert_eq!(judge("quick", "metro", stage, ""), Verdict::Deny);
    }
    assert_eq!(judge("metro", "rider", Stage::Response, ""), Verdict::Allow);
    assert_eq!(
        judge("metro", "rider", Stage::Response, "untrusted"),
        Verdict::Ask
    );
    assert_eq!(judge("metro", "quick", Stage::Response, ""), Verdict::Deny);
    assert_eq!(judge("rider", "nobody", Stage::Probe, ""), Verdict::Deny);
    let config = ok(&format!("{text}{strict}"));
    for (from, to, stage) in [
        ("rider", "metro", Stage::Probe),
        ("rider", "metro", Stage::Request),
        ("metro", "rider", Stage::Response),
    ] {
        assert_eq!(verdict(&config, from, to, stage, ""), Verdict::Ask);
    }
}

#[test]
fn a_manifest_declares_what_counts_once_the_user_predefines_it() {
    let manifest = r#"
        [app]
        name = "metro"
        description = "rides"
        command = ["metro"]
        [tools.get_fare]
        effect = "read"
        [offers]
        fare = "get_fare"
        weather = "get_fare"
    "#;
    let app = "[app.metro]\nmanifest = \"metro.toml\"\n";
    let both = load(&[
        ("sluice.toml", &format!("{FARE}{app}")),
        ("metro.toml", manifest),
    ]);
    let both = both.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(offers(&both), [("metro".to_owned(), tool("get_fare"))]);
    let alone = load(&[("sluice.toml", app), ("metro.toml", manifest)]);
    assert!(alone.unwrap().apps["metro"].offers.is_empty());
    let wrong = manifest.replace("fare = \"get_fare\"", "fare = \"get_far\"");
    let errors = load(&[("sluice.toml", app), ("metro.toml", &wrong)]);
    let errors = errors.unwrap_err().to_string();
    assert!(
        errors.contains("the manifest has no tool 'get_far'"),
        "{errors}"
    );
    assert!(errors.contains("did you mean 'get_fare'?"), "{errors}");
}

/// Without a tool for it, an app serves by a conversation of its own, within limits.
#[test]
fn an_app_serves_by_a_conversation() {
    let config = ok(&with_fare(
        "[app.metro.offers]\nfare = { conversation = true }\n[isc]\nhops = 2\nsteps = 4\ntimeout_s = 30\n",
    ));
    let metro = ("metro".to_owned(), ServedBy::Conversation);
    assert_eq!(offers(&config), [metro]);
    // Its model may have been steered by what the app says of itself.
    let taint = &config.functionalities["fare"].offers[0].taint;
    assert_eq!(*taint, config.lattice.descriptions());
    let limits = &config.limits;
    assert_eq!((limits.hops, limits.serving_steps), (2, 4));
    assert_eq!(limits.serving_timeout.as_secs(), 30);
    let unbounded = with_fare("[isc]\nhops = 9\nsteps = 0\ntimeout_s = 0\n");
    let errors = errors(&unbounded);
    for key in ["hops", "steps", "timeout_s"] {
        assert!(errors.contains(key), "{errors}");
    }
}

/// Each mistake, and a part of what is said of it.
#[test]
fn mistakes_have_a_place_and_a_remedy() {
    let offers = "[app.metro.offers]\nfare = \"get_fare\"\n";
    let object = "request = { type = \"object\"";
    for (from, to, said) in [
        (
            "\"get_fare\"\n",
            "\"get_far\"\n",
            "did you mean 'get_fare'?",
        ),
        ("offers]\nfare", "offers]\nfar", "did you mean 'fare'?"),
        (
            "offers]\nfare = \"get_fare\"",
            "offers]\nfare = 1",
            "write the name of a tool",
        ),
        (
            "offers]\nfare = \"get_fare\"",
            "offers]\nfare = { conversation = false }",
            "write the name of a tool, like \"get_fare\", or { conversation = true }",
        ),
        (
            "offers]\nfare = \"get_fare\"",
            "offers]\nfare = { conversation = true, steps = 3 }",
            "{ conversation = true }",
        ),
        (
            "description",
            "app = \"rider\"\ndescription",
            "'rider' does not offer 'fare'",
        ),
        (
            "[\"rider\"]",
            "[\"rider\"]\nasks = [\"weather\"]",
            "[functionality.weather]",
        ),
        (
            "[\"rider\"]",
            "[\"rider\"]\nserves = [\"metra\"]",
            "did you mean 'metro'?",
        ),
        (
            "[\"rider\"]",
            "[\"rider\"]\nreceives = [\"x\"]",
            "no label 'x'",
        ),
        (
            "command = [\"rider\"]",
            "client = true\nasks = []",
            "so 'asks' has no effect",
        ),
        ("[app.rider]", "[app.ask]", "ask__NAME is how a model asks"),
        (
            "[app.rider]",
            "[app.ask__fare]",
            "'ask__fare' is no name for an app",
        ),
        (
            "functionality.fare]",
            "functionality.a__b]",
            "'a__b' is no name for a functionality",
        ),
        (
            "functionality.fare]",
            "functionality._a]",
            "'_a' is no name for a functionality",
        ),
        (
            "description = \"What a ride costs.\"",
            "",
            "has no 'description'",
        ),
        (
            object,
            "request = { type = \"string\"",
            "'properties' says nothing here",
        ),
        (
            object,
            "request = { typ = \"object\"",
            "this is no type of a message",
        ),
        (
            object,
            "requests = { type = \"object\"",
            "unknown key 'requests'",
        ),
        ("maxLength = 80", "maxLength = -1", "'maxLength' is a count"),
        (
            "maxLength = 80",
            "maxLength = 80, enum = [\"a\"]",
            "a maxLength, an enum or a format",
        ),
        (
            "maxLength = 80",
            "maxLength = 100_000",
            "give strings a maxLength",
        ),
        (
            "maxLength = 80",
            "pattern = \"a*\"",
            "'pattern' says nothing here",
        ),
        (
            "to = { type",
            "away = { type = \"boolean\" }, to = { type",
            "the tool 'get_fare' has no parameter 'away'",
        ),
        (
            "required = [\"from\"",
            "required = [\"form\"",
            "'form' is not among the properties",
        ),
        (
            "minimum = 0",
            "minimum = 2026-11-22",
            "does not take a date",
        ),
        (
            "[functionality",
            "[isc]\nmode = \"loose\"\n[functionality",
            "labels, strict",
        ),
    ] {
        let text = with_fare(offers);
        assert!(text.contains(from), "{from}");
        let found = errors(&text.replacen(from, to, 1));
        assert!(found.contains(said), "{to}\n{found}");
        assert!(
            found.contains("= help:") && found.contains("sluice.toml:"),
            "{found}"
        );
    }
    // Where the mistake is, and not only in which table.
    let text = with_fare(offers).replace("maxLength = 80", "maxLength = -1");
    let line = text.lines().position(|line| line.contains("-1")).unwrap() + 1;
    let column = text.lines().nth(line - 1).unwrap().find("-1").unwrap() + 1;
    let place = format!("sluice.toml:{line}:{column}");
    assert!(errors(&text).contains(&place), "{place}\n{}", errors(&text));
}

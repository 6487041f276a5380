//! Configurations that are right, and every error of those that are wrong.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use config::{Config, Diagnostics, Dialect, Mount, ProviderKind, ScreenerKind, Severity, Start};
use ifc::{Dimension, Effect, Label};

/// Loads the first of some files, given as text.
fn load(files: &[(&str, &str)]) -> Result<Config, Diagnostics> {
    let first = Path::new(files[0].0);
    let text = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
    let files: BTreeMap<PathBuf, String> = files.iter().map(text).collect();
    Config::load_with(first, &|path| {
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

/// A new user names a manifest and nothing else: each label that the lattice lacks is one mistake, and nothing is said of
/// examples, which are right under the labels that are meant.
#[test]
fn a_label_that_the_lattice_lacks_is_shown_once_with_all_its_places() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sluice.toml");
    let manifest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../apps/notes/sluice-app.toml"
    );
    std::fs::write(&file, format!("[app.notes]\nmanifest = {manifest:?}\n")).unwrap();
    let errors = Config::load(&file).unwrap_err();
    let shown = errors.to_string();
    assert!(errors.count() > 20);
    assert_eq!(shown.matches("error: ").count(), 2, "{shown}");
    for part in [
        "there is no label 'secret:notes'",
        "there is no label 'untrusted:note'",
        "= also at ",
        " more\n",
    ] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    assert!(!shown.contains("example of"), "{shown}");
}

#[test]
fn nothing_configured_is_the_embedded_model_and_no_app() {
    let config = ok("");
    assert_eq!(config.providers.len(), 1);
    assert_eq!(config.providers[0].kind, ProviderKind::Embedded);
    assert_eq!(config.providers[0].clearance, Label::top());
    assert_eq!(config.screener.kind, ScreenerKind::Naive);
    assert!(config.screener.lazy);
    assert!(config.apps.is_empty());
    assert_eq!(
        config.lattice.names().collect::<Vec<_>>(),
        [
            "public",
            "secret",
            "trusted",
            "untrusted",
            "untrusted:descriptions"
        ]
    );
}

#[test]
fn a_remote_provider_gets_no_secret_unless_it_is_named() {
    let config = ok(r#"
        lattice.confidentiality = { categories = ["mail", "card"] }
        [[provider]]
        name = "a"
        kind = "openai"
        model = "m"
        [[provider]]
        name = "b"
        kind = "openai"
        model = "m"
        clearance = "secret:mail"
        base_url = "http://127.0.0.1:1/v1"
    "#);
    let untrusted = config.lattice.whole(Dimension::Integrity);
    let mail = config.lattice.label("secret:mail").unwrap();
    assert_eq!(config.providers[0].clearance, untrusted);
    assert_eq!(config.providers[1].clearance, untrusted.join(&mail));
}

#[test]
fn the_users_keys_win_over_the_manifests() {
    let manifest = r#"
        [app]
        name = "mail"
        description = "Mail."
        command = ["bin/mail", "--stdio"]
        descriptions = []
        [tools.send]
        effect = "irreversible"
        limit = []
        rest = ["secret"]
        [tools.read]
        effect = "read"
        limit = "any"
        labels = [{ path = "$.body", label = ["untrusted"] }]
    "#;
    let config = r#"
        [limits]
        memory_mb = 100
        [app.mail]
        manifest = "apps/mail/sluice-app.toml"
        env = { A = "1" }
        env_from = ["B"]
        mount = [{ source = "/home/me/Maildir", target = "/mail", write = true, label = ["secret"] }]
        egress = [{ listen = 25, to = "[::1]:587" }]
        [app.mail.limits]
        call_timeout_s = 5
        [app.mail.tools.send]
        limit = ["untrusted"]
    "#;
    let config = load(&[
        ("sluice.toml", config),
        ("apps/mail/sluice-app.toml", manifest),
    ])
    .unwrap();
    let app = &config.apps["mail"];
    let label = |name: &str| config.lattice.label(name).unwrap();
    assert_eq!(app.description.as_deref(), Some("Mail."));
    assert!(
        Path::new(&app.command[0]).is_absolute() && app.command[0].ends_with("apps/mail/bin/mail")
    );
    assert_eq!(app.command[1], "--stdio");
    assert!(app.descriptions.is_bottom());
    assert_eq!(app.env["A"], "1");
    assert_eq!(app.env_from, ["B"]);
    assert!(app.mounts[0].write && !app.mounts[0].execute);
    assert_eq!(app.holds(), label("secret"));
    // What was found for it counts as what the user gives it.
    let found = Mount {
        label: label("untrusted"),
        ..app.mounts[0].clone()
    };
    let mut started = app.clone();
    started.found = Some(Start {
        mounts: vec![found],
        ..Start::default()
    });
    assert_eq!(started.holds(), label("secret").join(&label("untrusted")));
    assert_eq!(
        app.worst_result(),
        label("secret").join(&label("untrusted"))
    );
    assert_eq!(
        (app.egress[0].host.as_str(), app.egress[0].port),
        ("[::1]", 587)
    );
    assert_eq!(app.limits.memory_bytes, 100 << 20);
    assert_eq!(app.limits.open_files, None);
    assert_eq!(app.limits.call_timeout.as_secs(), 5);
    assert_eq!(app.rules.tools["send"].limit, label("untrusted"));
    assert_eq!(app.rules.tools["send"].effect, Effect::Irreversible);
    assert_eq!(*app.rules.tools["send"].result.worst(), label("secret"));
    assert!(app.rules.tools["read"].limit.is_top());
    assert_eq!(*app.rules.tools["read"].result.worst(), label("untrusted"));
    assert!(app.rules.tool("format_disk").is_none());
}

#[test]
fn every_error_is_shown_at_once() {
    let config = r#"colour = true
[lattice]
integrity = { categories = ["email", "web"] }
confidentiality = { categories = ["mail"], levels = ["a", "b"] }

[[provider]]
nmae = "local"
kind = "embeded"

[[provider]]
name = "remote"
kind = "openai"
base_url = "example.com"

[screener]
kind = "judge"
lazy = "yes"
provider = "remoet"

[limits]
steps = 0
memory_mb = "lots"

[app."bad name"]
command = "mail"

[app.mail]
manifest = "missing.toml"
mount = [{ source = "a/../../b", target = "mail" }, { target = "/x" }]
egress = [{ listen = 70000, to = "*.example.com:25" }, { listen = 25, to = "x" }]
env = { "A=B" = "1" }
env_from = "HOME"

[app.mail.tools.send]
effect = "irreversable"
labels = [{ path = "$.a[", label = ["x"] }, { pth = "$.b" }]
"#;
    insta::assert_snapshot!(errors(config));
}

#[test]
fn the_attention_screener_has_settings_of_its_own() {
    let config =
        |screener: &str| format!("[[provider]]\nname = \"small\"\nkind = \"embedded\"\n{screener}");
    let loaded = ok(&config(
        "[screener]\nkind = \"attention\"\nlazy = false\ndraft = \"small\"\nrecall = 90\nweights = \"own.bin\"\n",
    ));
    assert_eq!(loaded.screener.kind, ScreenerKind::Attention);
    assert_eq!(loaded.screener.draft.as_deref(), Some("small"));
    assert_eq!(loaded.screener.recall, Some(90));
    let weights = loaded.screener.weights.unwrap();
    assert!(weights.is_absolute() && weights.ends_with("own.bin"));
    // The check is a setting of its own, with any screener that asks late.
    for (text, check) in [
        ("[screener]\nkind = \"naive\"\n", None),
        ("[screener]\nkind = \"naive\"\ncheck = true\n", Some(true)),
        ("[screener]\ncheck = false\n", Some(false)),
    ] {
        assert_eq!(ok(&config(text)).screener.check, check, "{text}");
    }
    let refused = |screener: &str| errors(&config(screener));
    for screener in ["lazy = false", "kind = \"redact-all\""] {
        for (key, value) in [("check", "true"), ("arguments", "\"eager\"")] {
            let errors = refused(&format!("[screener]\n{screener}\n{key} = {value}\n"));
            let expected = format!("'{key}' has no effect with this screener");
            assert!(errors.contains(&expected), "{errors}");
        }
    }
    for (text, filling) in [
        ("", hub::Filling::Lazy),
        ("arguments = \"lazy\"", hub::Filling::Lazy),
        ("arguments = \"eager\"", hub::Filling::Eager),
        ("arguments = \"exact\"", hub::Filling::Exact),
    ] {
        let loaded = ok(&config(&format!("[screener]\n{text}\n")));
        assert_eq!(loaded.screener.arguments, filling);
    }
    insta::assert_snapshot!(
        [
            refused("[screener]\nkind = \"attention\"\ndraft = \"small\"\nrecall = 100\n"),
            refused("[screener]\nkind = \"judge\"\nlazy = false\ndraft = \"small\"\nrecall = 90\n"),
            refused("[screener]\nkind = \"combined\"\nrecall = 80\n"),
            refused("[screener]\nprovider = \"small\"\n"),
            refused("[screener]\nkind = \"judge\"\nweights = \"own.bin\"\n"),
            refused("[screener]\nkind = \"atention\"\nlazy = false\n"),
        ]
        .join("\n")
    );
}

#[test]
fn errors_of_manifests_stand_in_the_manifest() {
    let manifest = r#"[app]
description = "no name"
versoin = 1

[tools.list]
effect = "read"
limit = ["untrusted:email", "untrusted:wbe"]

[[tools.list.labels]]
path = "$..a..b"
label = []
form = "e-mail"

[[tools.list.labels]]
path = "$.b"
label = ["secret:card"]
form = "id"
one_of = ["x"]

[[tools.list.labels]]
path = "$.b"
label = []

[tools.send]
limit = []
"#;
    let config = r#"
[lattice]
integrity = { categories = ["web"] }

[app.mail]
manifest = "mail.toml"

[app.mail.tools.sned]
limit = []
"#;
    let errors = load(&[("sluice.toml", config), ("mail.toml", manifest)]).unwrap_err();
    insta::assert_snapshot!(errors.to_string());
}

#[test]
fn syntax_errors_and_duplicates() {
    insta::assert_snapshot!(errors(
        "[limits]\nsteps = 1\nsteps = 2\nstepz = 3\n[limits]\n"
    ));
    insta::assert_snapshot!(errors("[limits\nsteps = \n[app.x]\nunknown = 1\n"));
}

#[test]
fn an_order_that_would_trust_everything_is_refused() {
    insta::assert_snapshot!(errors(
        "[lattice]\nintegrity = { levels = [\"only\"] }\nconfidentiality = { categories = [] }\n"
    ));
    insta::assert_snapshot!(errors("lattice = { integrity = { readers = [\"me\"] } }"));
}

#[test]
fn hostile_text_in_a_file_cannot_write_to_the_terminal() {
    let shown = errors("x = \"\u{1b}[2J\"\n\"k\\u001b[31m\\u202e\" = 1\n");
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
        "{shown:?}"
    );
}

#[test]
fn a_pinned_manifest_must_be_that_file() {
    let manifest = "[app]\nname = \"a\"\ncommand = [\"a\"]\n";
    let config = |pin: &str| format!("[app.a]\nmanifest = \"a.toml\"\nsha256 = \"{pin}\"\n");
    let errors = load(&[("sluice.toml", &config("00")), ("a.toml", manifest)]).unwrap_err();
    assert_eq!(errors.count(), 1);
    let first = errors.iter().next().unwrap();
    assert_eq!((first.line, first.column), (3, 10));
    let digest = first
        .help
        .as_deref()
        .unwrap()
        .split('"')
        .nth(1)
        .unwrap()
        .to_owned();
    assert_eq!(digest.len(), 64);
    load(&[("sluice.toml", &config(&digest)), ("a.toml", manifest)]).unwrap();
    let changed = manifest.replace("[\"a\"]", "[\"b\"]");
    load(&[("sluice.toml", &config(&digest)), ("a.toml", &changed)]).unwrap_err();
}

#[test]
fn an_mcp_servers_file_works_unchanged() {
    let servers = r#"{
      "theme": "dark",
      "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server", "/data"], "env": {"K": "v"}, "autoApprove": ["write"]},
        "my notes": {"command": "notes"},
        "old": {"url": "http://127.0.0.1/", "disabled": true}
      }
    }"#;
    let alone = load(&[("mcp.json", servers)]).unwrap();
    insta::assert_debug_snapshot!(alone.notes);
    let beside = "[mcp_servers]\nfile = \"mcp.json\"\n[app.files.tools.read]\neffect = \"read\"\n";
    let beside = load(&[("sluice.toml", beside), ("mcp.json", servers)]).unwrap();
    for config in [&alone, &beside] {
        assert_eq!(
            config.apps.keys().collect::<Vec<_>>(),
            ["files", "my-notes"]
        );
        let app = &config.apps["files"];
        assert_eq!(app.command, ["npx", "-y", "server", "/data"]);
        assert_eq!(app.env["K"], "v");
        assert_eq!(app.descriptions, config.lattice.descriptions());
        let rule = app.rules.tool("anything").unwrap();
        assert_eq!(rule.effect, Effect::Irreversible);
        assert!(rule.limit.is_bottom());
        let everything = config.lattice.labels(["untrusted", "secret"]).unwrap();
        assert_eq!(*rule.result.worst(), everything);
    }
    let read = beside.apps["files"].rules.tool("read").unwrap();
    assert_eq!(read.effect, Effect::Read);
    assert_eq!(
        *read.result.worst(),
        beside.lattice.labels(["untrusted", "secret"]).unwrap()
    );
}

/// A server that is meant to be switched off is not started because of how that was written.
#[test]
fn a_server_is_on_or_off_and_nothing_between() {
    for (value, count) in [
        ("\"true\"", 0),
        ("1", 0),
        ("[true]", 0),
        ("{}", 0),
        ("true", 0),
        ("false", 1),
    ] {
        let servers = format!(r#"{{"mcpServers":{{"a":{{"command":"a","disabled":{value}}}}}}}"#);
        let config = load(&[("mcp.json", &servers)]).unwrap();
        assert_eq!(config.apps.len(), count, "{value}");
        let note = config
            .notes
            .iter()
            .any(|note| note.contains("a is left out"));
        assert_eq!(note, count == 0, "{:?}", config.notes);
    }
}

#[test]
fn bad_servers_of_a_file_leave_the_others() {
    let servers = r#"{"mcpServers": {
  "a": {"args": []},
  "b": {"command": 1.5, "args": "x", "env": {"K": 2}},
  "c c": {"command": "c"},
  "c-c": {"command": "d"},
  "d": [],
  "e": {"url": "http://e.example/", "headers": {"K": "hush-4711"}},
  "f": {"url": "https://f.example/", "headers": {"Host": "hush-4711"}},
  "ask__fare": {"command": "a"},
}}"#;
    let config = "[mcp_servers]\nfile = \"mcp.json\"\n[app.d.tools.look]\neffect = \"read\"\n";
    let config = load(&[("sluice.toml", config), ("mcp.json", servers)]).unwrap();
    assert_eq!(config.apps.keys().collect::<Vec<_>>(), ["c-c"]);
    insta::assert_debug_snapshot!(config.notes);
    // A line may hold the values of variables and headers.
    let secret = r#""mcpServers":{"a":{"env":{"K":"hush-4711","N":4712}}}}"#;
    let errors = load(&[("mcp.json", secret)]).unwrap_err().to_string();
    assert!(
        errors.contains("mcp.json:1:") && !errors.contains("471"),
        "{errors}"
    );
    let twice = r#"{"mcpServers":{"a":{"command":"a","command":"b"}}}"#;
    let config = load(&[("mcp.json", twice)]).unwrap();
    assert!(
        config.notes[0].contains("a key stands twice"),
        "{:?}",
        config.notes
    );
    insta::assert_snapshot!(
        load(&[("mcp.json", "{\"mcpServers\": {}")])
            .unwrap_err()
            .to_string()
    );
}

#[test]
fn variables_of_a_file_come_from_the_environment() {
    // Cargo sets this one for each test.
    let servers = r#"{"mcpServers": {
        "a": {"command": "a", "args": ["${CARGO_PKG_NAME}", "${env:UNSET_HERE:-b}"], "env": {"X": "${CARGO_PKG_NAME}"}, "timeout": 600000},
        "b": {"command": "a", "args": ["${UNSET_HERE}"]},
        "c": {"url": "https://${CARGO_PKG_NAME}.example/", "headers": {"X-Name": "${CARGO_PKG_NAME}"}}
    }}"#;
    let config = load(&[("mcp.json", servers)]).unwrap();
    assert_eq!(config.apps.keys().collect::<Vec<_>>(), ["a", "c"]);
    let app = &config.apps["a"];
    assert_eq!(app.command, ["a", "config", "b"]);
    assert_eq!(app.env_from, ["X=${CARGO_PKG_NAME}"]);
    assert!(app.filled_in.contains("CARGO_PKG_NAME"));
    assert_eq!(app.limits.call_timeout.as_secs(), 600);
    let remote = config.apps["c"].remote.as_ref().unwrap();
    assert_eq!(remote.url.as_str(), "https://config.example/");
    let missing = config.notes.iter().any(|note| {
        note.contains("b is left out: its command needs the variable UNSET_HERE, which is not set")
    });
    assert!(missing, "{:?}", config.notes);
}

#[test]
fn an_entry_of_env_from_can_name_another_variable() {
    let of = |entry: &str| {
        load(&[(
            "sluice.toml",
            &format!("[app.a]\ncommand = [\"a\"]\nenv_from = ['{entry}']\n"),
        )])
    };
    for entry in ["B", "A=${B}", "A=Bearer ${B}", "A=${B:-c}"] {
        assert_eq!(of(entry).unwrap().apps["a"].env_from, [entry]);
    }
    for entry in ["A=b", "A=", "=${B}", "A=${input:b}", "A=${B"] {
        assert!(of(entry).is_err(), "{entry}");
    }
}

/// A file that a stranger has filled with mistakes costs no more than one with as many as anybody reads.
#[test]
fn mistakes_without_end_are_not_all_kept() {
    let config: String = (0..3_000).map(|at| format!("k{at} = 1\n")).collect();
    let errors = load(&[("sluice.toml", &config)]).unwrap_err();
    assert_eq!(errors.iter().len(), 1_000);
    let shown = errors.to_string();
    assert!(shown.ends_with("1000 errors or more in the configuration; nothing was started"));
}

/// Warnings take no error's place.
#[test]
fn an_error_behind_warnings_without_end_starts_nothing() {
    let tool = |at: usize| format!("[app.a.tools.t{at}]\neffect = \"write\"\nlimit = \"any\"\n");
    let tools: String = (0..1_100).map(tool).collect();
    let app = "command = [\"a\"]\negress = [{ listen = 2525, to = \"a.example:25\" }]\n";
    let config = format!("[app.a]\n{app}{tools}");
    let loaded = load(&[("sluice.toml", &config)]).unwrap();
    assert_eq!(loaded.warnings.len(), 1_000);
    let wrong = format!("{config}[unknown]\n");
    assert!(load(&[("sluice.toml", &wrong)]).is_err());
}

/// Names may fill a file too, and each mistake may have all of them beside it.
#[test]
fn what_a_mistake_says_has_an_end() {
    let long = "a".repeat(300_000);
    let config = format!(
        "[[provider]]\nname = \"{long}b\"\nkind = \"embedded\"\n[vanilla]\nprovider = \"{long}\"\n\
         [app.{long}c]\nunknown = 1\ncommand = [\"a\"]\nprovider = \"{long}\"\n"
    );
    let errors = load(&[("sluice.toml", &config)]).unwrap_err();
    assert!(errors.count() >= 3);
    for error in errors.iter() {
        let help = error.help.as_deref().unwrap_or_default();
        for text in [&*error.message, help] {
            assert!(text.chars().count() <= 4_097, "{} bytes", text.len());
        }
    }
    let categories: Vec<String> = (0..120).map(|at| format!("\"c{at}\"")).collect();
    let rules: String = (0..1_000)
        .map(|at| {
            format!("[app.a.tools.t{at}]\neffect = \"read\"\nlimit = [\"untrusted:d{at}\"]\n")
        })
        .collect();
    let config = format!(
        "[lattice]\nintegrity = {{ categories = [{}] }}\n[app.a]\ncommand = [\"a\"]\n{rules}",
        categories.join(", ")
    );
    let errors = load(&[("sluice.toml", &config)]).unwrap_err();
    assert_eq!(errors.count(), 1_000);
    let first = errors.iter().next().unwrap().help.as_deref().unwrap();
    assert!(
        first.starts_with("did you mean 'untrusted:c0'? it has "),
        "{first}"
    );
    assert!(first.contains("…; or add \"d0\""), "{first}");
    let said = errors.iter().filter_map(|error| error.help.as_deref());
    let said: usize = said.map(str::len).sum();
    assert!(said < 2_000_000, "{said} bytes of help");
}

/// Each app parses its manifest and keeps it, and a file has room for tens of thousands of apps.
#[test]
fn files_that_are_named_without_end_are_too_much_together() {
    let app = |at: usize| format!("[app.a{at}]\nmanifest = \"m.toml\"\n");
    let manifest = format!(
        "[app]\nname = \"a\"\ncommand = [\"a\"]\n#{}\n",
        "x".repeat(1 << 19)
    );
    let load_with = |count: usize, manifest: &str| {
        let config: String = (0..count).map(app).collect();
        let reads = Cell::new(0);
        let loaded = Config::load_with(Path::new("sluice.toml"), &|path| {
            reads.set(reads.get() + 1);
            Ok(match path.to_str() {
                Some("sluice.toml") => config.clone(),
                _ => manifest.to_owned(),
            })
        });
        (loaded, reads.get())
    };
    let (loaded, _) = load_with(30, &manifest);
    let files = loaded.unwrap().files;
    assert_eq!(files.len(), 2, "{files:?}");
    let (loaded, reads) = load_with(100, &manifest);
    let errors = loaded.unwrap_err().to_string();
    let expected = "'m.toml' cannot be read: all files together are longer than 16 MiB";
    assert!(errors.contains(expected), "{errors}");
    // What is too much is not read again and again either.
    assert!(reads < 40, "{reads}");
    let (loaded, reads) = load_with(5_000, "[app]\nname = \"a\"\ncommand = [\"a\"]\n");
    assert!(loaded.is_err() && reads < 4_100, "{reads}");
}

/// A list that is compared entry by entry with itself is a list of limited length.
#[test]
fn entries_without_end_are_read_at_once() {
    let many = |entry: &dyn Fn(usize) -> String| (0..8_000).map(entry).collect::<String>();
    let mounts =
        many(&|at| format!("[[app.a.mount]]\nsource = \"/m/{at}\"\ntarget = \"/m/{at}\"\n"));
    let domains = many(&|at| format!("[[app.a.domain]]\nname = \"d{at}.example\"\n"));
    let relays = many(&|at| {
        format!(
            "[[app.a.egress]]\nlisten = {}\nto = \"a.example:25\"\n",
            at + 1_000
        )
    });
    let arguments = many(&|at| format!("[app.a.tools.t.arguments.a{at}]\nlimit = [\"secret\"]\n"));
    for (entries, mistake) in [
        (mounts, Some("there are more than 512 mounts")),
        (
            arguments,
            Some("the tool 't' does not say which parameters it has"),
        ),
        (domains, None),
        (relays, None),
    ] {
        let config =
            format!("[app.a]\ncommand = [\"a\"]\n[app.a.tools.t]\neffect = \"read\"\n{entries}");
        let loaded = load(&[("sluice.toml", &config)]);
        let errors = loaded.err().map(|errors| errors.to_string());
        assert_eq!(errors.is_some(), mistake.is_some(), "{errors:?}");
        if let (Some(errors), Some(mistake)) = (errors, mistake) {
            assert!(errors.contains(mistake), "{errors}");
        }
    }
    // What is past the limit is not judged.
    let same = "{ path = \"$.a\", label = [] },";
    let config = format!(
        "[app.a]\ncommand = [\"a\"]\n[app.a.tools.t]\neffect = \"read\"\nlabels = [{}]\n",
        same.repeat(900)
    );
    let errors = load(&[("sluice.toml", &config)]).unwrap_err();
    assert_eq!(errors.count(), 64);
}

#[test]
fn an_app_that_is_named_twice_is_refused() {
    let config = "[mcp_servers]\nfile = \"mcp.json\"\n[app.a]\ncommand = [\"b\"]\n";
    let servers = r#"{"mcpServers":{"a":{"command":"a"}}}"#;
    let errors = load(&[("sluice.toml", config), ("mcp.json", servers)]).unwrap_err();
    insta::assert_snapshot!(errors.to_string());
}

#[test]
fn the_sample_configuration_is_right() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sluice.toml");
    let config = Config::load(&file).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        config.apps.keys().collect::<Vec<_>>(),
        ["bank", "files", "issues", "mail", "weather"]
    );
    let send = config.apps["mail"].rules.tool("send_email").unwrap();
    assert_eq!(send.effect, Effect::Irreversible);
    assert_eq!(
        send.limit,
        config.lattice.label("untrusted:sender").unwrap()
    );
    let examples = config.examples();
    assert_eq!(examples.len(), 11);
    assert_eq!(config.warnings, []);
    assert!(examples.iter().all(config::ExampleOutcome::passed));
    assert_eq!(config.proxy.app.as_deref(), Some("bank"));
}

#[test]
fn the_configuration_for_work_is_right() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/work.toml");
    let config = Config::load(&file).unwrap_or_else(|errors| panic!("{errors}"));
    let apps: Vec<_> = config.apps.keys().map(String::as_str).collect();
    assert_eq!(apps, ["calendar", "mail", "notes"]);
    assert!(apps.iter().all(|app| config.groups["work"].contains(*app)));
    let examples = config.examples();
    assert!(examples.iter().all(config::ExampleOutcome::passed));
    // Those of the manifests, and two of its own for what the user allows beyond them.
    assert_eq!(examples.len(), 9);
    assert_eq!(config.warnings, []);
    let create = config.apps["calendar"].rules.tool("create_event").unwrap();
    let limit = config.lattice.labels(["secret:calendar", "secret:mail"]);
    assert_eq!(create.limit, limit.unwrap());
}

#[test]
fn the_configuration_for_apps_that_ask_each_other_is_right() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/apart.toml");
    let config = Config::load(&file).unwrap_or_else(|errors| panic!("{errors}"));
    let serves = config
        .functionalities
        .iter()
        .map(|(name, it)| (name.as_str(), it.apps()));
    let serves: Vec<_> = serves.collect();
    let app = |app: &str| vec![app.to_owned()];
    assert_eq!(
        serves,
        [("new_event", app("calendar")), ("read_note", app("notes"))]
    );
    assert!(config.groups.is_empty());
    assert_eq!(config.warnings, []);
}

/// Issue 11, hole 12: what an app may connect to gets whatever its tools are given.
#[test]
fn a_tool_of_an_app_that_may_connect_takes_no_text_of_any_label_unnoticed() {
    let config = ok(r#"
[app.a]
command = ["a"]
[[app.a.egress]]
listen = 2525
to = "mail.example:25"
[app.a.tools.search]
effect = "read"
limit = "any"
[app.a.tools.named]
effect = "read"
limit = ["untrusted"]
[app.a.tools.silent]
effect = "read"
limit = "any"
parameters = []
[app.a.other_tools]
effect = "read"
limit = "any"
[app.b]
command = ["b"]
[app.b.tools.search]
effect = "read"
limit = "any"
"#);
    let found = config.warnings.iter();
    let found = found.map(|it| (it.severity, it.line, it.column, it.message.as_str()));
    let expected = |line, tool| {
        let message = format!(
            "the app 'a' may connect to mail.example:25, and its tool '{tool}' takes text of any label"
        );
        (Severity::Warning, line, 9, message)
    };
    let expected = [expected(9, "search"), expected(19, "(other tools)")];
    let expected = expected
        .iter()
        .map(|(s, l, c, message)| (*s, *l, *c, message.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let help = config.warnings.iter().filter_map(|it| it.help.as_deref());
    assert!(help.clone().count() == 2 && help.into_iter().all(|it| it.contains("limit = [")));
}

#[test]
fn a_domain_without_a_limit_is_warned_about_like_a_relay() {
    let with = |limit: &str| {
        let text = format!(
            "[app.a]\ncommand = [\"a\"]\n[[app.a.domain]]\nname = \"example.org\"\n{limit}\n\
             [app.a.tools.search]\neffect = \"read\"\nlimit = \"any\"\n"
        );
        let warnings = ok(&text).warnings;
        let messages = warnings.into_iter().map(|warning| warning.message);
        messages.collect::<Vec<_>>()
    };
    assert_eq!(with(""), Vec::<String>::new());
    let expected =
        "the app 'a' may connect to example.org, and its tool 'search' takes text of any label";
    assert_eq!(with("limit = \"any\""), [expected]);
}

#[test]
fn addresses_that_are_not_public_are_named_one_by_one() {
    let egress = |addresses: &str| {
        format!(
            "[app.a]\ncommand = [\"a\"]\n[[app.a.egress]]\nlisten = 1\nto = \"db.example:1\"\naddresses = {addresses}\n"
        )
    };
    let config = ok(&egress(r#"["10.0.0.5", "fd00::1"]"#));
    let named = config.apps["a"].egress[0].addresses.iter();
    assert_eq!(
        named.map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.5", "fd00::1"]
    );
    for wrong in [
        r#"["10.0.0.0/8"]"#,
        r#"["localhost"]"#,
        r#"["*"]"#,
        r#""10.0.0.5""#,
        "true",
    ] {
        assert!(load(&[("sluice.toml", &egress(wrong))]).is_err(), "{wrong}");
    }
}

#[test]
fn domains_are_named_by_their_top() {
    let config = ok(r#"
[app.a]
command = ["a"]
other_domains = "ask"
fresh = true
[[app.a.egress]]
listen = 25
to = "mail.example.org:25"
[[app.a.domain]]
name = "*.Example.org"
[[app.a.domain]]
name = "db.example.org"
ports = [5432]
limit = "any"
addresses = ["10.0.0.5"]
"#);
    let app = &config.apps["a"];
    let found = app.domains.iter().map(|domain| {
        let limit = domain.limit.as_ref().map(ifc::Label::is_top);
        let ports = domain.ports.clone();
        (domain.pattern.to_string(), ports, limit)
    });
    let expected = [
        ("example.org".to_owned(), vec![443, 80], None),
        ("db.example.org".to_owned(), vec![5432], Some(true)),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert!(app.ask_domains && app.fresh);
    assert_eq!(
        app.name_ports().into_iter().collect::<Vec<_>>(),
        [80, 443, 5432]
    );
    let with = |more: &str| format!("[app.a]\ncommand = [\"a\"]\n{more}\n");
    for wrong in [
        "domain = [{ name = \"org\" }]",
        "domain = [{ name = \"*\" }]",
        "domain = [{ name = \"*.co.uk\" }]",
        "domain = [{ name = \"localhost\" }]",
        "domain = [{ name = \"10.0.0.1\" }]",
        "domain = [{ name = \"bücher.example\" }]",
        "domain = [{ name = \"https://example.org\" }]",
        "domain = [{ ports = [443] }]",
        "domain = [{ name = \"example.org\", ports = [] }]",
        "domain = [{ name = \"example.org\", ports = [0] }]",
        "domain = [{ name = \"example.org\", ports = [53] }]",
        "domain = [{ name = \"example.org\", ports = [443, 443] }]",
        "domain = [{ name = \"example.org\", port = 443 }]",
        "domain = [{ name = \"example.org\" }, { name = \"*.example.org\" }]",
        "domain = [{ name = \"example.org\" }]\negress = [{ listen = 443, to = \"a.example:1\" }]",
        "other_domains = \"ask\"\negress = [{ listen = 80, to = \"a.example:1\" }]",
        "other_domains = true",
    ] {
        assert!(load(&[("sluice.toml", &with(wrong))]).is_err(), "{wrong}");
    }
}

#[test]
fn a_service_of_this_machine_keeps_its_port() {
    let app = |keys: &str| {
        let text = format!("[app.a]\ncommand = [\"a\"]\n{keys}\n");
        load(&[("sluice.toml", &text)])
    };
    let config = app(r#"connect = ["127.0.0.1:5432", "[::1]:6379", "localhost:80"]"#).unwrap();
    let relays = config.apps["a"].egress.iter();
    let relays = relays.map(|it| (it.listen, &*it.host, it.port, it.addresses.len()));
    let expected = [
        (5432, "127.0.0.1", 5432, 0),
        (6379, "[::1]", 6379, 0),
        (80, "localhost", 80, 2),
    ];
    assert_eq!(relays.collect::<Vec<_>>(), expected);
    let without = app("").unwrap();
    assert_ne!(config.apps["a"].identity(), without.apps["a"].identity());
    assert_eq!(config.apps["a"].origin(), without.apps["a"].origin());
    let provider = "[[provider]]\nname = \"m\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url";
    for (wrong, expected) in [
        (
            r#"connect = ["db.example.org:5432"]"#,
            "[[app.NAME.domain]]",
        ),
        (r#"connect = ["10.0.0.1:80"]"#, "no service on this machine"),
        (
            r#"connect = ["127.0.0.2:80"]"#,
            "no service on this machine",
        ),
        (r#"connect = ["0.0.0.0:80"]"#, "no service on this machine"),
        (r#"connect = ["[::]:80"]"#, "no service on this machine"),
        (r#"connect = ["127.0.0.1"]"#, "no service on this machine"),
        (r#"connect = ["127.0.0.1:0"]"#, "no service on this machine"),
        (
            r#"connect = ["127.0.0.1:1", "[::1]:1"]"#,
            "listen on port 1",
        ),
        (
            "connect = [\"127.0.0.1:1\"]\negress = [{ listen = 1, to = \"a.example:1\" }]",
            "listen on port 1",
        ),
        (
            "connect = [\"127.0.0.1:1\"]\ndomain = [{ name = \"a.example\", ports = [1] }]",
            "where a relay listens",
        ),
        (
            &format!("connect = [\"localhost:11434\"]\n{provider} = \"http://127.0.0.1:11434/v1\""),
            "port 11434 is a provider's",
        ),
    ] {
        let errors = app(wrong).unwrap_err().to_string();
        assert!(errors.contains(expected), "{wrong}: {errors}");
    }
    let far = "[app.a]\nurl = \"https://a.example/mcp\"\nconnect = [\"127.0.0.1:1\"]\n";
    let errors = load(&[("sluice.toml", far)]).unwrap_err().to_string();
    assert!(errors.contains("'connect' has no effect"), "{errors}");
}

#[test]
fn a_provider_names_the_api_of_its_server() {
    let read = |lines: &str| {
        let text = format!("[[provider]]\nname = \"m\"\nmodel = \"m\"\n{lines}\n");
        load(&[("sluice.toml", &text)])
    };
    for (kind, expected) in [
        ("openai", Dialect::Chat),
        ("anthropic", Dialect::Messages),
        ("responses", Dialect::Responses),
    ] {
        let config = read(&format!("kind = \"{kind}\"")).unwrap();
        let [provider] = config.providers.as_slice() else {
            panic!("{kind}");
        };
        let ProviderKind::Api { dialect, json, .. } = provider.kind else {
            panic!("{kind}");
        };
        assert_eq!((dialect, json), (expected, None));
        assert!(provider.open, "{kind}");
    }
    for (lines, parts) in [
        (
            "kind = \"claude\"",
            ["embedded", "openai", "anthropic", "responses"].as_slice(),
        ),
        ("", &["kind = \"embedded\"", "\"anthropic\""]),
        (
            "kind = \"anthropic\"\ntoken_limit = \"max_tokens\"",
            &["token_limit", "leave it out"],
        ),
    ] {
        let errors = read(lines).unwrap_err().to_string();
        assert!(parts.iter().all(|part| errors.contains(part)), "{errors}");
    }
}

#[test]
fn a_missing_or_endless_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("sluice.toml");
    assert!(
        Config::load(&missing)
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
    assert!(
        Config::load(Path::new("/dev/zero"))
            .unwrap_err()
            .to_string()
            .contains("longer than 1 MiB")
    );
}

#[test]
fn tools_share_what_they_return() {
    let shape = r#"
        [app.mail]
        command = ["mail"]
        [app.mail.results.mails]
        format = "json"
        structure = []
        rest = ["untrusted"]
        labels = [{ path = "$..id", label = [], form = "digits" }]
        [app.mail.tools]
        list = { effect = "read", results = "mails" }
        send = { effect = "irreversible", results = "mails" }
        other = { effect = "read", rest = [] }
    "#;
    let config = load(&[("sluice.toml", shape)]).unwrap();
    let tools = &config.apps.get("mail").unwrap().rules.tools;
    let result = |name| &tools.get(name).unwrap().result;
    assert_eq!(result("list"), result("send"));
    assert_ne!(result("list"), result("other"));
    let wrong = shape
        .replace(
            "results = \"mails\" }\n        send",
            "results = \"mials\" }\n        send",
        )
        .replace("rest = [] }", "rest = [], results = \"mails\" }");
    insta::assert_snapshot!(errors(&wrong));
}

#[test]
fn what_a_client_says_of_its_tools_is_believed_unless_the_configuration_says_otherwise() {
    let manifest = r#"
        [app]
        name = "mail"
        command = ["mail"]
        descriptions = ["untrusted"]
        [tools.read]
        effect = "read"
        limit = "any"
        labels = []
    "#;
    let descriptions = |keys: &str| {
        let config = format!("[app.agent]\n{keys}\n[app.agent.tools.t]\neffect = \"read\"\n");
        let files = [("sluice.toml", &*config), ("mail.toml", manifest)];
        let config = load(&files).unwrap();
        let label = config.apps["agent"].descriptions.clone();
        (
            label.is_bottom(),
            label == config.lattice.label("untrusted").unwrap(),
        )
    };
    let (trusted, untrusted, own) = ((true, false), (false, true), (false, false));
    assert_eq!(descriptions("client = true"), trusted);
    assert_eq!(
        descriptions("client = true\ndescriptions = [\"untrusted\"]"),
        untrusted
    );
    assert_eq!(
        descriptions("client = true\nmanifest = \"mail.toml\""),
        untrusted
    );
    assert_eq!(descriptions("command = [\"mail\"]"), own);
    assert_eq!(descriptions("client = false\ncommand = [\"mail\"]"), own);
}

const TWO_APPS: &str = "[app.files]\ncommand = [\"files\"]\n[app.db]\ncommand = [\"db\"]\n";

#[test]
fn a_group_brings_apps_together() {
    let config = ok(&format!(
        "{TWO_APPS}[group.work]\napps = [\"files\", \"db\"]\n"
    ));
    let work: Vec<&str> = config.groups["work"].iter().map(String::as_str).collect();
    assert_eq!(work, ["db", "files"]);
    // Nobody meets whom the user has not brought together.
    assert!(ok(TWO_APPS).groups.is_empty());
}

/// An app that does not exist or has no process here, one app alone, names that could be confused.
#[test]
fn groups_that_bring_nobody_together_are_errors() {
    let apps =
        format!("{TWO_APPS}[app.db__a]\ncommand = [\"x\"]\n[app.bank]\nclient = true\n[group.a]\n");
    insta::assert_snapshot!(errors(&format!(
        "{apps}apps = [\"files\", \"bd\", \"bank\"]\n[group.b]\napps = [\"db\"]\n[group.c]\n\
         [group.d]\napps = [\"db\", \"db__a\"]\nmode = 1\n"
    )));
}

#[test]
fn an_apps_own_labels_mean_what_the_configuration_says() {
    let app = |rest: &str| format!("[app.a]\ncommand = [\"a\"]\nresources = true\n{rest}");
    let config = ok(&app(
        "[app.a.meta_labels]\nintegrity = { trusted = [], untrusted = [\"untrusted\"] }\n",
    ));
    let app_a = &config.apps["a"];
    assert!(app_a.resources && !app_a.prompts);
    let claims = app_a.rules.claims.as_ref().unwrap();
    let label = |word: &str| claims.label(&[format!("integrity:{word}")]);
    let named = |names: &[&str]| config.lattice.labels(names.iter().copied()).unwrap();
    assert_eq!(label("trusted"), named(&[]));
    assert_eq!(label("untrusted"), named(&["untrusted"]));
    // A configuration can name it, so a user can allow it.
    assert_eq!(label("partly"), named(&["untrusted", "secret"]));
    assert_eq!(claims.label(&[]), named(&["untrusted", "secret"]));
    assert!(ok(&app("")).apps["a"].rules.claims.is_none());

    for (wrong, word) in [
        ("[app.a.meta_labels]\n", "has no 'integrity'"),
        (
            "[app.a.meta_labels]\nintegrity = { a = [\"none\"] }\n",
            "no label 'none'",
        ),
        (
            "[app.a.meta_labels]\nintegrity = { a = [] }\ntrust = {}\n",
            "trust",
        ),
        ("meta_labels = true\n", "meta_labels"),
        ("prompts = 1\n", "prompts"),
        ("[proxy]\nimages = true\n", "images"),
        (
            "[[provider]]\nname = \"l\"\nkind = \"embedded\"\nimages = true\n",
            "does not take 'images'",
        ),
    ] {
        let said = errors(&app(wrong));
        assert!(said.contains(word), "{wrong}: {said}");
    }
}

#[test]
fn apps_and_vanilla_conversations_have_models_of_their_own() {
    let providers = "[[provider]]\nname = \"big\"\nkind = \"embedded\"\n[[provider]]\nname = \"own\"\nkind = \"embedded\"\n";
    let config = ok(&format!(
        "{providers}[vanilla]\nprovider = \"big\"\n[app.a]\ncommand = [\"x\"]\nprovider = \"own\"\n[app.b]\ncommand = [\"x\"]\n"
    ));
    assert_eq!(config.vanilla.as_deref(), Some("big"));
    let own = |app: &str| config.apps[app].provider.as_deref();
    assert_eq!((own("a"), own("b")), (Some("own"), None));
    insta::assert_snapshot!(errors(&format!(
        "{providers}[vanilla]\n[app.a]\ncommand = [\"x\"]\nprovider = \"owm\"\n[app.b]\nclient = true\nprovider = \"own\"\n"
    )));
}

#[test]
fn a_server_elsewhere_reaches_its_own_host_and_nothing_else() {
    let config = "[app.far]\nurl = \"https://API.example.org:8443/mcp\"\naddresses = [\"10.0.0.5\"]\n\
                  headers = { Authorization = \"Bearer secret:far\", X-Mode = \"fast\" }\n\
                  [app.here]\nurl = \"http://localhost:3000/mcp\"\n";
    let config = load(&[("sluice.toml", config)]).unwrap();
    let far = &config.apps["far"];
    let [domain] = far.domains.as_slice() else {
        panic!("{:?}", far.domains);
    };
    assert_eq!(domain.pattern.to_string(), "api.example.org");
    assert_eq!(domain.ports, [8443]);
    assert!(domain.limit.as_ref().is_some_and(ifc::Label::is_top));
    assert_eq!(domain.addresses, far.remote.as_ref().unwrap().addresses);
    assert!(far.egress.is_empty() && far.command.is_empty());
    let here = &config.apps["here"];
    assert!(here.domains.is_empty());
    let [relay] = here.egress.as_slice() else {
        panic!("{:?}", here.egress);
    };
    assert_eq!(
        (relay.listen, &*relay.host, relay.port),
        (3000, "127.0.0.1", 3000)
    );
    // Another header is another app.
    let other = "[app.far]\nurl = \"https://API.example.org:8443/mcp\"\naddresses = [\"10.0.0.5\"]\n\
                 headers = { Authorization = \"Bearer secret:other\", X-Mode = \"fast\" }\n";
    let other = load(&[("sluice.toml", other)]).unwrap();
    assert_ne!(far.identity(), other.apps["far"].identity());
}

#[test]
fn mistakes_about_a_server_elsewhere_are_found() {
    let found = errors(
        r#"
[app.plain]
url = "http://example.org/mcp"
[app.metadata]
url = "https://169.254.169.254/"
[app.both]
url = "https://example.org"
command = ["x"]
env_from = ["TOKEN"]
[app.literal]
url = "https://example.org"
headers = { Authorization = "Bearer abc123", Host = "other", Mcp-Param-A = "a", X-A = "secret:a b" }
[app.none]
command = ["x"]
headers = { X-A = "b" }
"#,
    );
    // A value is not shown, whatever is wrong beside it.
    assert!(!found.contains("abc123"), "{found}");
    insta::assert_snapshot!(found);
}

#[test]
fn a_server_elsewhere_in_a_file_of_another_program() {
    let servers = r#"{"mcpServers": {
  "code": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
  "cursor": {"url": "https://b.example/sse"},
  "gemini": {"httpUrl": "https://c.example/mcp"},
  "old": {"type": "sse", "url": "http://127.0.0.1:8000/sse"}
}}"#;
    let config = load(&[("mcp.json", servers)]).unwrap();
    let of = |app: &str| {
        let remote = config.apps[app].remote.as_ref().unwrap();
        format!("{} {:?}", remote.url, remote.headers)
    };
    assert_eq!(
        of("code"),
        "https://a.example/mcp {\"authorization\": [7 bytes, ${TOKEN}]}"
    );
    assert_eq!(of("cursor"), "https://b.example/sse {}");
    assert_eq!(of("gemini"), "https://c.example/mcp {}");
    assert_eq!(of("old"), "http://127.0.0.1:8000/sse {}");
    // What is not encrypted leaves this machine nowhere.
    let plain = r#"{"mcpServers": {"a": {"url": "http://a.example/mcp"}}}"#;
    let left_out = |servers: &str| {
        let config = load(&[("mcp.json", servers)]).unwrap();
        assert!(config.apps.is_empty());
        config.notes.join("\n")
    };
    let notes = left_out(plain);
    assert!(notes.contains("write https://"), "{notes}");
    for (server, mistake) in [
        (
            r#""url": "https://a.example/mcp", "headers": {"X-Key": "hush-1", "x-key": "hush-2"}"#,
            "the header 'x-key' is written twice",
        ),
        (
            r#""url": "https://a.example:53/mcp""#,
            "port 53 is where a spoke asks for names",
        ),
    ] {
        let notes = left_out(&format!(r#"{{"mcpServers": {{"a": {{{server}}}}}}}"#));
        assert!(notes.contains(mistake), "{notes}");
        assert!(!notes.contains("hush"), "{notes}");
    }
}

/// What an app's memories are bound to.
#[test]
fn where_an_app_comes_from_is_what_it_is_started_by() {
    let app = |keys: &str| ok(&format!("[app.a]\n{keys}\n")).apps["a"].clone();
    let here = "command = [\"python3\", \"/app/server.py\"]\nmount = [{ source = \"/srv/a\", target = \"/app\" }]";
    let own = app(here);
    // What it may do, and how it is described, can change without another app in its place.
    for same in [
        "env_from = [\"HOME\"]",
        "other_domains = \"ask\"",
        "egress = [{ listen = 2525, to = \"mail.example:25\" }]",
        "description = \"another\"",
        "fresh = true",
    ] {
        let changed = app(&format!("{here}\n{same}"));
        assert_eq!(changed.origin(), own.origin(), "{same}");
    }
    let others = [
        "command = [\"python3\", \"/app/server.py\"]",
        "command = [\"python3\", \"/app/server.py\"]\nmount = [{ source = \"/srv/b\", target = \"/app\" }]",
        "command = [\"python3\", \"/app/server.py\"]\nenv = { PYTHONPATH = \"/app\" }",
        "command = [\"python3 /app/server.py\"]",
        "command = [\"npx\", \"notes\"]",
        "command = [\"npx\", \"notes-\"]",
        "url = \"https://a.example/mcp\"",
        "url = \"https://b.example/mcp\"",
    ];
    let mut origins: BTreeSet<[u8; 32]> = others.iter().map(|keys| app(keys).origin()).collect();
    origins.insert(own.origin());
    assert_eq!(origins.len(), others.len() + 1);
    // Arguments of an mcpServers file are names from its folder on.
    let servers = |file: &str| {
        let toml = format!("[mcp_servers]\nfile = \"{file}\"\n");
        let json = r#"{"mcpServers": {"a": {"command": "node", "args": ["server.js"]}}}"#;
        let config = load(&[("sluice.toml", &toml), (file, json)]).unwrap();
        let app = &config.apps["a"];
        [app.origin(), app.identity()]
    };
    let (one, same, other) = (
        servers("one/mcp.json"),
        servers("one/other.json"),
        servers("two/mcp.json"),
    );
    assert_eq!(one, same);
    for (one, other) in one.iter().zip(&other) {
        assert_ne!(
            one, other,
            "what the user has allowed the one is not the other's"
        );
    }
    // A key for the same server is renewed.
    let key = |key: &str| {
        app(&format!(
            "url = \"https://a.example/mcp\"\nheaders = {{ Authorization = \"Bearer secret:{key}\" }}"
        ))
    };
    assert_eq!(key("one").origin(), key("two").origin());
}

#[test]
fn files_in_a_mount_without_a_label_are_untrusted_and_secret() {
    let with = |label: &str, connects: &str| {
        let config = ok(&format!(
            "[app.a]\ncommand = [\"a\"]\n{connects}\n[[app.a.mount]]\nsource = \"/papers\"\ntarget = \"/papers\"\n{label}\n"
        ));
        let warnings = config
            .warnings
            .iter()
            .map(|it| (it.line, it.message.clone()));
        (config.apps["a"].holds(), warnings.collect::<Vec<_>>())
    };
    let words = "the app connects by name, and the files in '/papers' have no label: they count as untrusted and secret";
    let warned = |line| vec![(line, words.to_owned())];
    let asking = "domain = [{ name = \"example.org\" }]";
    for (connects, warnings) in [
        ("", vec![]),
        (asking, warned(4)),
        ("other_domains = \"ask\"", warned(4)),
        // Nothing is asked about there, whatever the app has.
        (
            "domain = [{ name = \"example.org\", limit = \"any\" }]",
            vec![],
        ),
    ] {
        assert_eq!(with("", connects), (Label::top(), warnings), "{connects}");
    }
    assert_eq!(with("label = []", asking), (Label::bottom(), vec![]));
    let (secret, warnings) = with("label = [\"secret\"]", asking);
    assert!(!secret.is_bottom() && !secret.is_top());
    assert_eq!(warnings, []);
}

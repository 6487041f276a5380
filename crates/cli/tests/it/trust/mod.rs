//! A configuration that lies in the working folder is a stranger's until the user trusts it, and a
//! key goes only to the host for which it was named.

mod keys;
mod memory;
mod permissions;
mod stage;
mod store;

use std::fs;
use std::process::Command;

use crate::trust::stage::{CONFIG, Stage, text};

/// Every command that acts on a configuration.
const COMMANDS: [&[&str]; 8] = [
    &["run", "hello"],
    &["chat"],
    &[
        "proxy",
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        "http://127.0.0.1:9/v1",
    ],
    &["policy", "check"],
    &["policy", "test"],
    &["policy", "explain"],
    &["memory", "list"],
    &["app", "add", "other", "--yes", "--", "/bin/cat"],
];

#[test]
fn a_configuration_in_the_working_folder_is_refused_with_the_remedy() {
    let stage = Stage::new(CONFIG);
    for command in COMMANDS {
        let output = stage.run(command);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {stderr}");
        assert!(stderr.contains("sluice trust"), "{command:?}: {stderr}");
        assert_eq!(text(&output.stdout), "", "{command:?}");
    }
    let doctor = stage.run(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let line = text(&doctor.stdout);
    let line = line.lines().find(|line| line.contains("configuration"));
    assert!(line.unwrap().contains("MISSING") && line.unwrap().contains("sluice trust"));
    assert_eq!(
        stage.requests(),
        Vec::<String>::new(),
        "nothing was asked of its provider"
    );
    assert!(!stage.state("traces").exists(), "nothing was started");
}

#[test]
fn what_the_user_names_is_the_users_word() {
    let stage = Stage::new(CONFIG);
    let named = stage.run(&["policy", "check", "--config", "sluice.toml"]);
    assert_eq!(named.status.code(), Some(0), "{}", text(&named.stderr));
    let file = stage.path("sluice.toml");
    let output = stage
        .sluice(&["policy", "check"])
        .env("SLUICE_CONFIG", file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // An empty variable names nothing.
    let output = stage
        .sluice(&["policy", "check"])
        .env("SLUICE_CONFIG", "")
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("sluice trust"), "{stderr}");
}

#[test]
fn a_summary_longer_than_the_terminal_is_shown_in_pages() {
    let apps = (0..20).map(|number| format!("[app.a{number}]\ncommand = [\"/bin/cat\"]\n"));
    let stage = Stage::new(&apps.collect::<String>());
    let at_ten_rows = |lines: &[&str]| {
        let trust = stage.sluice(&["trust"]);
        let program = trust.get_program().to_string_lossy().into_owned();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("stty rows 10; exec {program} trust")]);
        for (name, value) in trust.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        shell.current_dir(trust.get_current_dir().unwrap());
        crate::terminal::at_terminal(&shell, lines, |_| ())
    };
    // A word that was meant for the question is no answer to it.
    let (code, shown) = at_ten_rows(&["trust"]);
    assert_eq!(code, 3, "{shown}");
    assert!(shown.contains("a1") && !shown.contains("a19"), "{shown}");
    let (code, shown) = at_ten_rows(&[&[""; 30][..], &["trust"]].concat());
    assert!(shown.contains("a19"), "{shown}");
    assert_eq!(code, 3, "{shown}");
}

#[test]
fn the_users_own_configuration_needs_no_trust() {
    let stage = Stage::new(CONFIG);
    let own = stage.home("").join(".config/sluice");
    fs::create_dir_all(&own).unwrap();
    for name in ["sluice.toml", "app.toml", "notes.cedar"] {
        fs::rename(stage.path(name), own.join(name)).unwrap();
    }
    let output = stage.run(&["policy", "check"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // The same file, found because it lies in the working folder.
    let output = stage
        .sluice(&["policy", "check"])
        .current_dir(&own)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_file_that_an_untrusted_configuration_names_is_not_quoted() {
    let config = CONFIG.replace("app.toml", "private.txt");
    let stage = Stage::new(&config);
    fs::write(stage.path("private.txt"), "the secret is 4711\n").unwrap();
    let output = stage.run(&["policy", "check"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        !text(&output.stderr).contains("4711"),
        "{}",
        text(&output.stderr)
    );
}

/// As services and containers may have it: no place of a stranger's folder is the user's own by a home that is none.
#[test]
fn a_home_that_is_no_absolute_path_is_none() {
    let stage = Stage::new(CONFIG);
    // What is trusted, as a stranger could have checked it in.
    let mut trust = stage.sluice(&["trust"]);
    trust.env("XDG_STATE_HOME", stage.path(".local/state"));
    let (code, shown) = crate::terminal::at_terminal(&trust, &["trust"], |_| ());
    assert_eq!(code, 0, "{shown}");
    let without_home = |home: &str, arguments: &[&str]| {
        let output = stage
            .sluice(arguments)
            .env("HOME", home)
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("SLUICE_MODELS")
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{home:?}: {stderr}");
        stderr
    };
    for home in ["", "."] {
        let stderr = without_home(home, &["policy", "check"]);
        assert!(stderr.contains("no home directory"), "{home:?}: {stderr}");
        let stderr = without_home(home, &["model", "list"]);
        assert!(
            stderr.contains("HOME to an absolute path"),
            "{home:?}: {stderr}"
        );
    }
    let own = stage.path(".config/sluice");
    fs::create_dir_all(&own).unwrap();
    for name in ["sluice.toml", "app.toml", "notes.cedar"] {
        fs::rename(stage.path(name), own.join(name)).unwrap();
    }
    for home in ["", "."] {
        let stderr = without_home(home, &["policy", "check"]);
        assert!(
            stderr.contains("there is no sluice.toml"),
            "{home:?}: {stderr}"
        );
    }
}

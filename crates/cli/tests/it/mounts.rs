//! What no app may write, whatever the configuration says: asked of the program itself.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A home, a folder of binaries and a configuration of the user's own.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in [
            "config/sluice",
            "state/sluice/traces",
            "models",
            "bin",
            "work",
        ] {
            fs::create_dir_all(stage.path(name)).unwrap();
        }
        fs::write(stage.path("bin/sluice-spoke"), "never executed here").unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Asks with an app that may write, or only read, this place.
    fn ask(&self, source: &Path, write: bool) -> Output {
        self.sluice(&["run", "--json", "--app", "notes", "hello"], source, write)
    }

    fn sluice(&self, arguments: &[&str], source: &Path, write: bool) -> Output {
        let config = format!(
            "[screener]\nkind = \"naive\"\n[[provider]]\nname = \"nobody\"\nkind = \"openai\"\nmodel = \"m\"\n\
             base_url = \"http://127.0.0.1:9/v1\"\n[app.notes]\ncommand = [\"/bin/true\"]\n\
             mount = [{{ source = \"{}\", target = \"/x\", write = {write} }}]\n",
            source.display()
        );
        fs::write(self.path("config/sluice/sluice.toml"), config).unwrap();
        Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(arguments)
            .current_dir(self.path("work"))
            .env("HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env_remove("XDG_DATA_HOME")
            .env("SLUICE_MODELS", self.path("models"))
            .env("SLUICE_BIN_DIR", self.path("bin"))
            .env_remove("SLUICE_CONFIG")
            .output()
            .unwrap()
    }

    fn refused(&self, source: &Path, what: &str) {
        let output = self.ask(source, true);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        let expected = format!("where {what} is");
        assert!(
            said.contains(&expected),
            "{}: no {expected:?} in: {said}",
            source.display()
        );
        assert!(said.contains("sluice.toml:"), "no place in: {said}");
        // With the same place to read only, the refusal is another one, or none.
        let output = self.ask(source, false);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains(" may write "), "{said}");
    }
}

#[test]
fn no_app_may_write_traces_models_programs_or_the_users_configuration() {
    let stage = Stage::new();
    for (source, what) in [
        ("state", "traces and trust"),
        ("state/sluice/traces", "traces and trust"),
        ("models", "the language models"),
        ("bin", "the spoke binary"),
        ("config", "the configuration"),
        ("config/sluice", "the configuration"),
    ] {
        stage.refused(&stage.path(source), what);
    }
    let program = Path::new(env!("CARGO_BIN_EXE_sluice"));
    stage.refused(program.parent().unwrap(), "this program");
}

#[test]
fn a_link_to_what_is_kept_does_not_hide_it() {
    let stage = Stage::new();
    let link = stage.path("work/link");
    std::os::unix::fs::symlink(stage.path("state"), &link).unwrap();
    // Links are not followed when it is mounted; it is refused before.
    stage.refused(&link, "traces and trust");
}

/// They lie below the home, whether they are there already or not, and the home may be reached by a link.
#[test]
fn no_app_may_read_where_secrets_are_or_will_be() {
    let stage = Stage::new();
    fs::create_dir(stage.path("disk")).unwrap();
    std::os::unix::fs::symlink("disk", stage.path("home")).unwrap();
    let refused = |source: &str| {
        let output = stage.ask(&stage.path(source), false);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = "the app 'notes' would see your secrets in";
        assert!(said.contains(expected), "{source}: {said}");
    };
    refused("disk");
    fs::create_dir_all(stage.path("disk/.local/share/sluice/secrets")).unwrap();
    refused("disk");
    refused("disk/.local/share");
}

#[test]
fn a_mount_that_gives_too_much_is_a_finding_beside_the_others() {
    let stage = Stage::new();
    fs::create_dir(stage.path("home")).unwrap();
    let doctor = ["doctor", "--start", "--json"];
    let output = stage.sluice(&doctor, &stage.path("home"), false);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_found = |finding: &str| {
        finding.contains("\"subject\":\"mounts\"") && finding.contains("would see your secrets")
    };
    assert!(said.lines().any(is_found), "{said}");
    assert!(said.contains("\"subject\":\"configuration\""), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

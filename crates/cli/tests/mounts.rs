//! What no app may write, whatever the configuration says: asked of the program itself.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

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
        let config = format!(
            "[screener]\nkind = \"naive\"\n[[provider]]\nname = \"nobody\"\nkind = \"openai\"\nmodel = \"m\"\n\
             base_url = \"http://127.0.0.1:9/v1\"\n[app.notes]\ncommand = [\"/bin/true\"]\n\
             mount = [{{ source = \"{}\", target = \"/x\", write = {write} }}]\n",
            source.display()
        );
        fs::write(self.path("config/sluice/sluice.toml"), config).unwrap();
        Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["run", "--json", "--app", "notes", "hello"])
            .current_dir(self.path("work"))
            .env("HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
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

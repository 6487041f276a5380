//! What no app may write, whatever the configuration says: asked of the program itself.
use std::fs;
use std::path::Path;

use crate::home::{Home, said};

/// A home, a folder of binaries and one of models.
fn home() -> Home {
    let home = Home::new();
    for name in ["state/sluice/traces", "models", "bin", "work"] {
        fs::create_dir_all(home.path(name)).unwrap();
    }
    fs::write(home.path("bin/sluice-spoke"), "never executed here").unwrap();
    home
}

/// Runs this where the app `notes` may write, or only read, a place.
fn run(home: &Home, arguments: &[&str], source: &Path, write: bool) -> (i32, String, String) {
    home.configure(&format!(
        "[screener]\nkind = \"naive\"\n[[provider]]\nname = \"nobody\"\nkind = \"openai\"\nmodel = \"m\"\n\
         base_url = \"http://127.0.0.1:9/v1\"\n[app.notes]\ncommand = [\"/bin/true\"]\n\
         mount = [{{ source = \"{}\", target = \"/x\", write = {write} }}]\n",
        source.display()
    ));
    let mut command = home.sluice(arguments);
    command
        .current_dir(home.path("work"))
        .env_remove("XDG_DATA_HOME")
        .env("SLUICE_MODELS", home.path("models"))
        .env("SLUICE_BIN_DIR", home.path("bin"));
    said(&command.output().unwrap())
}

const ASK: [&str; 5] = ["run", "--json", "--app", "notes", "hello"];

fn refused(home: &Home, source: &Path, what: &str) {
    let (code, _, said) = run(home, &ASK, source, true);
    let expected = format!("where {what} is");
    assert!(code != 0 && said.contains(&expected), "{source:?}: {said}");
    assert!(said.contains("sluice.toml:"), "no place in: {said}");
    // With the same place to read only, the refusal is another one, or none.
    let (_, _, said) = run(home, &ASK, source, false);
    assert!(!said.contains(" may write "), "{said}");
}

#[test]
fn no_app_may_write_traces_models_programs_or_the_users_configuration() {
    let home = home();
    for (source, what) in [
        ("state", "traces and trust"),
        ("state/sluice/traces", "traces and trust"),
        ("models", "the language models"),
        ("bin", "the spoke binary"),
        ("config", "the configuration"),
        ("config/sluice", "the configuration"),
    ] {
        refused(&home, &home.path(source), what);
    }
    let program = Path::new(env!("CARGO_BIN_EXE_sluice"));
    refused(&home, program.parent().unwrap(), "this program");
    // A link is refused before it is mounted.
    let link = home.path("work/link");
    std::os::unix::fs::symlink(home.path("state"), &link).unwrap();
    refused(&home, &link, "traces and trust");
}

/// They lie below the home, whether they are there already or not, and the home may be reached by a link.
#[test]
fn no_app_may_read_where_secrets_are_or_will_be() {
    let home = home();
    fs::remove_dir(home.path("home")).unwrap();
    fs::create_dir(home.path("disk")).unwrap();
    std::os::unix::fs::symlink("disk", home.path("home")).unwrap();
    let refused = |source: &str| {
        let (_, _, said) = run(&home, &ASK, &home.path(source), false);
        let expected = "the app 'notes' would see your secrets in";
        assert!(said.contains(expected), "{source}: {said}");
    };
    refused("disk");
    fs::create_dir_all(home.path("disk/.local/share/sluice/secrets")).unwrap();
    refused("disk");
    refused("disk/.local/share");
}

#[test]
fn a_mount_that_gives_too_much_is_a_finding_beside_the_others() {
    let home = home();
    let doctor = ["doctor", "--start", "--json"];
    let (code, said, _) = run(&home, &doctor, &home.path("home"), false);
    let is_found = |finding: &str| {
        finding.contains("\"subject\":\"mounts\"") && finding.contains("would see your secrets")
    };
    assert!(said.lines().any(is_found), "{said}");
    assert!(said.contains("\"subject\":\"configuration\""), "{said}");
    assert_eq!(code, 1);
}

//! Official clients of the three APIs before the guard proxy, and behind it the scripted model in each of its APIs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::run::{Programs, Proxy, World};

/// The scripts, which end with an error where a client gets something else than it must.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdks");
const RULES: &str = r#"
[proxy]
images = []
[app.agent]
client = true
[app.agent.tools]
get_weather = { effect = "read", limit = "any", format = "text", rest = [] }
"#;

#[derive(Debug, clap::Args)]
pub(crate) struct Sdks {
    /// The folder with a virtual environment `python` and `node_modules` that have the clients.
    folder: PathBuf,
    /// Only scripts whose name contains this [default: all].
    #[arg(long, default_value = "")]
    script: String,
    /// The folder with `sluice` and its programs [default: where this program was built].
    #[arg(long, value_name = "DIR")]
    sluice: Option<PathBuf>,
}

/// Runs each script before each kind of upstream. The exit code is 3 if one of them fails.
pub(crate) fn sdks(args: &Sdks) -> Result<ExitCode> {
    let programs = Programs::find(Some(&args.folder), args.sluice.as_deref())?;
    let folder = &programs.agents;
    let mut scripts = Vec::new();
    for entry in fs::read_dir(SCRIPTS)? {
        // Node looks for modules from where a script is.
        let (from, name) = (entry?.path(), PathBuf::from("scripts"));
        let to = folder.join(name).join(from.file_name().context("no name")?);
        fs::create_dir_all(to.parent().unwrap_or(folder))?;
        fs::copy(&from, &to)?;
        let name = to
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !name.starts_with("plans.") && name.contains(&args.script) {
            scripts.push((name, to));
        }
    }
    scripts.sort();
    let mut all_pass = true;
    for kind in ["openai", "responses", "anthropic"] {
        for (name, script) in &scripts {
            let passes = passes(&programs, kind, script)?;
            let word = if passes { "passes" } else { "FAILS" };
            eprintln!("{word}: {name} before an upstream of kind {kind}");
            all_pass &= passes;
        }
    }
    Ok(if all_pass {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(3)
    })
}

fn passes(programs: &Programs, kind: &str, script: &Path) -> Result<bool> {
    let data = programs.runs.join("sdks").join(kind);
    fs::create_dir_all(&data)?;
    let world = World::start(Arc::default());
    let sluice = programs.sluice.join("sluice");
    let proxy = Proxy::start(&sluice, kind, &world.server.url(""), &data, RULES, true)?;
    let program = match script.extension().is_some_and(|it| it == "py") {
        true => programs.agents.join("python/bin/python"),
        false => PathBuf::from("node"),
    };
    let mut command = Command::new(program);
    command.arg(script).env("NO_PROXY", "127.0.0.1");
    for (name, path) in [("OPENAI_BASE_URL", "/v1"), ("ANTHROPIC_BASE_URL", "")] {
        command.env(name, format!("{}{path}", proxy.address));
    }
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"] {
        command.env(name, "sk-none");
    }
    let done = command
        .status()
        .with_context(|| script.display().to_string())?;
    Ok(done.success())
}

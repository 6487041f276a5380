//! `cargo xtask agents`: the agents that people have, unmodified, before the scripted worst-case model of `lab/agents`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::phases::Phases;
use crate::{cargo, own_folder, packages, run, setup};

/// The agents, as they were when the scenarios were last adapted to them.
const AGENTS: [&str; 3] = [
    "@anthropic-ai/claude-code@2.1.197",
    "@openai/codex@0.171.0",
    "opencode-ai@1.18.33",
];
/// What two of them do after they are installed: they choose the program for this machine.
const AFTER: [&str; 2] = [
    "node_modules/@anthropic-ai/claude-code/install.cjs",
    "node_modules/opencode-ai/postinstall.mjs",
];
/// Installs the agents and runs the matrix, whose own `--help` names the arguments.
///
/// # Errors
/// Something cannot be installed or built, or a run did not come out as it must.
pub(crate) fn agents(arguments: &[String], phases: &mut Phases) -> Result<()> {
    let build = ["build", "--package", "sluice", "--bins"];
    setup(&[], &build, phases)?;
    phases.time("packages of the tests", packages::ensure_for_tests)?;
    let target = own_folder()?.with_file_name("agents");
    let mut matrix = cargo([
        "test",
        "--quiet",
        "--package",
        "agents",
        "--test",
        "matrix",
        "--",
    ]);
    matrix.arg("matrix").args(arguments);
    if !arguments.iter().any(|argument| argument == "--agents") {
        phases.time("agents from npm", || install(&target))?;
    }
    phases.time("agents", || run(&mut matrix))
}

/// Installs the agents into a folder that has not got these.
fn install(folder: &Path) -> Result<()> {
    let mark = folder.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == AGENTS.join(" ")) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]);
    run(npm.args(AGENTS).current_dir(folder))?;
    for script in AFTER {
        run(Command::new("node").arg(script).current_dir(folder))?;
    }
    Ok(fs::write(mark, AGENTS.join(" "))?)
}

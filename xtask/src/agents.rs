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
/// Clients of the three APIs in Python and JavaScript.
const PYTHON: [&str; 7] = [
    "anthropic==2.14.0",
    "openai==3.57.0",
    "openai-agents==0.24.0",
    "langgraph==1.2.24",
    "langchain-openai==1.7.4",
    "langchain-anthropic==1.7.10",
    "pydantic-ai-slim[openai,anthropic]==2.68.0",
];
const JAVASCRIPT: [&str; 7] = [
    "@anthropic-ai/sdk@1.14.0",
    "openai@7.57.0",
    "ai@7.0.173",
    "@ai-sdk/openai@4.0.118",
    "@ai-sdk/anthropic@4.0.105",
    "@ai-sdk/openai-compatible@3.0.92",
    "zod@4",
];

/// Installs the agents and runs the matrix, whose own `--help` names the arguments. With `sdks` it installs clients of the
/// three APIs and runs these before the proxy.
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
    if let Some(("sdks", rest)) = arguments
        .split_first()
        .map(|(it, rest)| (it.as_str(), rest))
    {
        let folder = target.join("sdks");
        phases.time("clients from npm and PyPI", || install_sdks(&folder))?;
        matrix.arg("sdks").arg(&folder).args(rest);
        return phases.time("clients", || run(&mut matrix));
    }
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

/// Installs the clients into a folder that has not got these.
fn install_sdks(folder: &Path) -> Result<()> {
    let (mark, wanted) = (
        folder.join("installed"),
        [PYTHON, JAVASCRIPT].concat().join(" "),
    );
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let mut venv = Command::new("python3");
    run(venv.args(["-m", "venv", "python"]).current_dir(folder))?;
    let mut pip = Command::new(folder.join("python/bin/pip"));
    run(pip
        .args(["install", "--quiet"])
        .args(PYTHON)
        .current_dir(folder))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"]);
    run(npm.args(JAVASCRIPT).current_dir(folder))?;
    Ok(fs::write(mark, wanted)?)
}

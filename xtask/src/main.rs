//! Set-up, tests and the demo of Sluice: `cargo xtask demo`, `cargo xtask test`.
//!
//! Each command does its own set-up. It depends on nothing but cargo.
#![expect(clippy::print_stderr, reason = "a command-line tool says what it does")]

mod libclang;
mod mutants;
mod packages;

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask demo [ARGS]   set up, then run the demo (ARGS go to `sluice-lab demo`)
cargo xtask test          set up, then run every test
cargo xtask ci            format, lints, documentation, every test, the quick form of each benchmark
cargo xtask nightly       what takes too long for that: 10,000 pairs of worlds, every mutant
cargo xtask agentdojo     AgentDojo whole, behind every defence, and its recorded runs; one report
cargo xtask mutants       every named mutant of labels, redactor, monitor and turn machine must be caught
cargo xtask setup         set up only: system packages, binaries, model files

Example: cargo xtask demo --worst-case-only
";

/// The small model by which the default screener reads; tests of mechanics use it too.
const SCREENER: &str = "smollm2-135m";
/// With the default model of the agent.
const MODELS: [&str; 2] = ["qwen2.5-coder-1.5b", SCREENER];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let result = match arguments.first().map(String::as_str) {
        Some("demo") => demo(rest),
        Some("test") => test(rest),
        Some("ci") => ci(),
        Some("nightly") => nightly(),
        Some("agentdojo") => agentdojo(),
        Some("mutants") => mutants::mutants(),
        Some("setup") => setup(&MODELS),
        Some("help" | "--help" | "-h") | None => {
            eprint!("{HELP}");
            Ok(())
        }
        Some(unknown) => {
            eprint!("{HELP}");
            eprintln!("\nxtask: there is no command '{unknown}'");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo(arguments: &[String]) -> Result<()> {
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    setup(match (has("--help"), has("--worst-case-only")) {
        (true, _) => &[],
        (false, true) => &[SCREENER],
        (false, false) => &MODELS,
    })?;
    let mut command = lab()?;
    command.arg("demo").args(arguments);
    run(&mut command)
}

fn test(arguments: &[String]) -> Result<()> {
    setup(&MODELS)?;
    // Tests that need a model or AgentDojo fail without, instead of being skipped.
    run(cargo(["test", "--workspace"])
        .args(arguments)
        .env("SLUICE_REQUIRE_MODELS", "1")
        .env("SLUICE_REQUIRE_AGENTDOJO", "1"))
}

fn ci() -> Result<()> {
    packages::ensure()?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(&mut cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    run(cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    test(&[])?;
    // A few iterations: that the benchmarks still measure what they say. They print no verdict.
    run(&mut cargo([
        "test",
        "--package",
        "ifc",
        "--package",
        "policy",
        "--benches",
    ]))?;
    run(lab()?.args(["bench", "agentdojo", "loop", "--quick"]))?;
    run(lab()?.args(["bench", "agentdojo", "replay", "--quick"]))
}

fn nightly() -> Result<()> {
    let worlds = [
        "test",
        "--package",
        "hub",
        "--test",
        "noninterference",
        "two_",
    ];
    run(cargo(worlds).env("SLUICE_WORLDS", "10000"))?;
    mutants::mutants()
}

/// Every figure of AgentDojo in the README. Rows that are there already are not made again.
fn agentdojo() -> Result<()> {
    setup(&[SCREENER])?;
    let guarded = "oracle,oracle-eager,judge,judge-eager,attention,combined,naive,redact-all";
    let checked = "naive-checked,judge-checked,oracle-checked";
    let prompted = "none,tool-filter,sandwiching,delimiting,confirm-every-call";
    let all = format!("{prompted},{guarded}");
    let folder = |name: &str| format!("target/agentdojo/{name}");
    let loops = [
        ("full", "v1,v1.2.2", "none", &*all, "absent", "policy"),
        ("full", "v1", "none", checked, "absent", "policy"),
        ("full", "v1,v1.2.2", "none", guarded, "ideal", "policy"),
        (
            "full",
            "v1",
            "important_instructions",
            &*all,
            "absent",
            "policy",
        ),
        (
            "full",
            "v1.2.2",
            "important_instructions",
            "none,oracle-eager,judge",
            "absent",
            "policy",
        ),
        (
            "strict",
            "v1,v1.2.2",
            "none,important_instructions",
            "oracle-eager,judge",
            "absent",
            "trusted",
        ),
    ];
    for (out, version, attack, defence, user, answers) in loops {
        let mut command = lab()?;
        command.args(["bench", "agentdojo", "loop", "--version", version]);
        command.args(["--attack", attack, "--defence", defence, "--user", user]);
        command.args(["--answers", answers, "--out", &folder(out)]);
        run(&mut command)?;
    }
    let mut own = lab()?;
    own.args([
        "bench",
        "agentdojo",
        "loop",
        "--attack",
        "sluice",
        "--judge",
        "persuaded",
    ]);
    own.args([
        "--defence",
        "oracle-eager,judge",
        "--suite",
        "banking,slack",
    ]);
    run(own.args(["--out", &folder("own")]))?;
    let mut replay = lab()?;
    run(replay.args(["bench", "agentdojo", "replay", "--out", &folder("replay")]))?;
    let mut report = lab()?;
    report.args([
        "bench",
        "agentdojo",
        "report",
        &folder("full"),
        &folder("strict"),
    ]);
    run(report.args(["--out", &folder("report")]))
}

/// System packages, all binaries, and these model files.
fn setup(models: &[&str]) -> Result<()> {
    packages::ensure()?;
    run(&mut cargo(["build", "--workspace", "--bins"]))?;
    for model in models {
        run(sluice()?.args(["model", "pull", model]))?;
    }
    Ok(())
}

/// The product's binary, as it was just built.
fn sluice() -> Result<Command> {
    built("sluice")
}

/// The laboratory's.
fn lab() -> Result<Command> {
    built("sluice-lab")
}

fn built(name: &str) -> Result<Command> {
    let own = env::current_exe().context("cannot find out where xtask is")?;
    let beside = own.parent().context("xtask is in no folder")?;
    Ok(Command::new(beside.join(name)))
}

fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    // Cargo tells its children which cargo it is.
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a command, showing it first.
fn run(command: &mut Command) -> Result<()> {
    eprintln!("xtask: {}", shown(command));
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        // The exit code is the demo's or the tests' own word; pass it on.
        if let Some(code @ 2..) = status.code() {
            std::process::exit(code);
        }
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

//! Set-up, tests and the demo of Sluice: `cargo xtask demo`, `cargo xtask test`.
//!
//! Each command does its own set-up, and says at the end where its time went. It depends on little
//! (see its `Cargo.toml`), because everything else waits for it.
#![expect(clippy::print_stderr, reason = "a command-line tool says what it does")]

mod agents;
mod dist;
mod failures;
mod fresh;
mod libclang;
mod models;
mod mutants;
mod packages;
mod phases;
mod size;
mod suite;

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use phases::Phases;

const HELP: &str = "\
cargo xtask demo [ARGS]   set up, then run the demo (ARGS go to `sluice-lab demo`)
cargo xtask test [ARGS]   set up, then run the tests, with cargo-nextest where it is installed (ARGS select tests)
cargo xtask test lab      the tests that need models, train networks or run AgentDojo
cargo xtask servers [ARGS]  real MCP servers from their registries: a job each, the same tools and results as a plain client's
                          (docs/servers.md), and MCP's conformance suite (ARGS select tests)
cargo xtask agents [ARGS] Claude Code, Codex and opencode on attacks and tasks, with and without Sluice (--help says more);
                          `sdks`: official clients of the three APIs before the proxy
cargo xtask ci            format, size, lints, documentation, tests (`lab` where it may have changed), quick benchmarks
cargo xtask nightly       what takes too long for that: 10,000 pairs of worlds, 1,000 kills, 10,000 schedules, an hour of a
                          service under load, 10,000 starts of spokes, 200,000 inputs of each fuzz target, mutants,
                          `test lab`, `servers`, `agents`, `fresh`
cargo xtask fresh [ARGS]  the package, demo, test and servers on a minimal Debian that it makes (as root; --help says more)
cargo xtask dist [ARGS]   a release: tarball, Debian package, image, checksums, SBOM (--help says more)
cargo xtask agentdojo     AgentDojo behind every defence, and its recorded runs: about an hour
cargo xtask mutants [ARGS]  the mutants that cargo-mutants makes of the trusted core must be caught (ARGS go to it)
cargo xtask size          lines of Rust per crate; fails above budget.toml
cargo xtask setup         set up only: system packages, binaries, model files

Example: cargo xtask demo --embedded
";

/// The small model by which the attention screener reads; tests of mechanics use it too.
const SCREENER: &str = "smollm2-135m";
/// The default model of the agent.
const AGENT: &str = "qwen2.5-coder-1.5b";
/// What the tests need.
const MODELS: [&str; 2] = [AGENT, SCREENER];

/// Cargo's variable for whether it remembers the parts of crates, to build them again in part.
const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// What the demo runs: the product, the app, and the laboratory without what only measures or
/// trains. Everything that is not in here is minutes of building.
const DEMO_BUILD: [&str; 8] = [
    "build",
    "--package",
    "sluice",
    "--package",
    "sluice-mail",
    "--package",
    "sluice-lab",
    "--no-default-features",
];

/// The program of the embedded model, which the demo builds only if it is asked for.
const MODEL_BUILD: [&str; 2] = ["--package", "sluice-model"];
/// The demo's argument that asks for it.
const EMBEDDED: &str = "--embedded";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let command = arguments.first().map_or("help", String::as_str);
    let rest = arguments.get(1..).unwrap_or_default();
    let mut phases = Phases::default();
    let result = match command {
        _ if wants_help(command, rest) => {
            eprint!("{HELP}");
            Ok(())
        }
        // Commands that take an hour do not start if a word of the user's would be ignored.
        "ci" | "nightly" | "agentdojo" | "size" | "setup" if !rest.is_empty() => {
            Err(usage(format!(
                "`cargo xtask {command}` takes no arguments, and got `{}`",
                rest.join(" ")
            )))
        }
        "demo" => demo(rest, &mut phases),
        "test" => suite::test(rest, &mut phases),
        "servers" => suite::servers(rest, &mut phases),
        "agents" => agents::agents(rest, &mut phases),
        "ci" => suite::ci(&mut phases),
        "nightly" => suite::nightly(&mut phases),
        "fresh" => fresh::fresh(rest, &mut phases),
        "dist" => dist::dist(rest, &mut phases),
        "agentdojo" => agentdojo(&mut phases),
        "mutants" => mutants::mutants(rest),
        "size" => size(),
        "setup" => setup(&MODELS, &["build", "--workspace", "--bins"], &mut phases),
        unknown => Err(usage(format!("{HELP}\nthere is no command '{unknown}'\n"))),
    };
    if phases.any() {
        eprint!("\nxtask: where the time went\n{}", phases.table());
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            error
                .downcast_ref()
                .map_or(ExitCode::FAILURE, Failed::exit_code)
        }
    }
}

/// Whether this program's own help is asked for. `agents`, `demo`, `dist`, `fresh` and `mutants` have one of their own.
fn wants_help(command: &str, rest: &[String]) -> bool {
    let asks = |word: &str| matches!(word, "--help" | "-h");
    let own = matches!(command, "agents" | "demo" | "dist" | "fresh" | "mutants");
    command == "help" || asks(command) || (!own && rest.iter().any(|word| asks(word)))
}

fn demo(arguments: &[String], phases: &mut Phases) -> Result<()> {
    let (mut build, mut models) = (DEMO_BUILD.to_vec(), Vec::new());
    if arguments.iter().any(|argument| argument == EMBEDDED) {
        build.extend(MODEL_BUILD);
        models.push(AGENT);
    }
    setup(&models, &build, phases)?;
    phases.time("demo", || run(lab()?.arg("demo").args(arguments)))
}

fn size() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    size::size(root.context("xtask is in no workspace")?)
}

/// The figures of AgentDojo in docs/measurements.md. `loop` does not run again what is in its folder.
const AGENTDOJO: [&str; 6] = [
    "loop --goals --defence naive-checked --out target/agentdojo/main",
    "loop --defence all --out target/agentdojo/main",
    "loop --attack none --user ideal --out target/agentdojo/main \
     --defence confirm-every-call,redact-all,naive,judge,judge-eager,attention,oracle-eager",
    "loop --answers trusted --defence oracle-eager,judge --out target/agentdojo/trusted",
    "loop --version v1.2.2 --attack sluice --judge persuaded --suite banking,slack \
     --defence oracle-eager,judge --out target/agentdojo/own",
    "replay",
];

/// Runs AgentDojo behind every defence, and its recorded runs.
fn agentdojo(phases: &mut Phases) -> Result<()> {
    setup(&[SCREENER], &["build", "--workspace", "--bins"], phases)?;
    for arguments in AGENTDOJO {
        let mut command = lab()?;
        command.args(["bench", "agentdojo"]);
        run(command.args(arguments.split_whitespace()))?;
    }
    Ok(())
}

/// System packages, what cargo builds with these arguments, and, meanwhile, these model files.
fn setup(models: &[&'static str], build: &[&str], phases: &mut Phases) -> Result<()> {
    phases.time("system packages", || match models {
        [] => packages::ensure(),
        _ => packages::ensure().and_then(|()| packages::ensure_for_model()),
    })?;
    let build = || run(cargo([]).args(build));
    let pulled = phases.time("build", || models::pull_beside(models, build))?;
    phases.beside("model files", pulled);
    Ok(())
}

/// The laboratory's binary, as it was just built.
fn lab() -> Result<Command> {
    Ok(Command::new(own_folder()?.join("sluice-lab")))
}

/// The folder that cargo builds into, as it has built this program.
fn own_folder() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find out where xtask is")?;
    let folder = own.parent().context("xtask is in no folder")?;
    Ok(folder.to_owned())
}

fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    // Cargo tells its children which cargo it is.
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    let target = own_folder().unwrap_or_default();
    if env::var_os(INCREMENTAL).is_none() && !is_worked_in(&target) {
        command.env(INCREMENTAL, "0");
    }
    command
}

/// Whether cargo has built the workspace in this folder with incremental compilation. On a fresh machine incremental
/// compilation only costs: a fifth of the build time of our own crates, and a third of the disk.
fn is_worked_in(target: &Path) -> bool {
    let crates = fs::read_dir(target.join("incremental"))
        .into_iter()
        .flatten();
    // This program is built before it can say anything.
    crates
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("hub-"))
}

/// A command that ended otherwise than well, or arguments that make no sense.
#[derive(Debug)]
struct Failed {
    message: String,
    /// The exit code of the command; none after a signal.
    code: Option<i32>,
}

impl Failed {
    /// Codes from 2 on are the demo's or the tests' own word, and are passed on.
    fn exit_code(&self) -> ExitCode {
        let code = self.code.filter(|code| *code >= 2);
        let code = code.and_then(|code| u8::try_from(code).ok());
        code.map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failed {}

/// Arguments that are not understood: exit code 2.
fn usage(message: impl Into<String>) -> anyhow::Error {
    let message = message.into();
    Failed {
        message,
        code: Some(2),
    }
    .into()
}

/// The trimmed standard output of a command that succeeds.
fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::bail!("{program} {}: {}", arguments.join(" "), words.trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Runs a command, showing it first.
///
/// # Errors
/// It cannot be started, or does not succeed ([`Failed`]).
fn run(command: &mut Command) -> Result<()> {
    eprintln!("xtask: {}", shown(command));
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if status.success() {
        return Ok(());
    }
    let message = format!("{} ended with {status}", shown(command));
    let code = status.code();
    Err(Failed { message, code }.into())
}

/// Whether this runs as root.
fn is_root() -> bool {
    // `/proc/self` belongs to the user that runs this.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{is_worked_in, wants_help};

    #[test]
    fn who_asks_for_help_starts_nothing() {
        let help = ["--help".to_owned()];
        for command in ["nightly", "ci", "test", "servers", "setup", "size"] {
            assert!(wants_help(command, &help), "{command}");
            assert!(!wants_help(command, &[]), "{command}");
        }
        assert!(wants_help("-h", &[]));
        // These print their own.
        for command in ["agents", "demo", "dist", "fresh", "mutants"] {
            assert!(!wants_help(command, &help), "{command}");
        }
    }

    #[test]
    fn a_folder_with_nothing_but_this_program_is_not_worked_in() {
        let target = tempfile::tempdir().unwrap();
        assert!(!is_worked_in(target.path()));
        for (name, worked_in) in [("xtask-1a2b", false), ("hub-3c4d", true)] {
            fs::create_dir_all(target.path().join("incremental").join(name)).unwrap();
            assert_eq!(is_worked_in(target.path()), worked_in, "{name}");
        }
    }
}

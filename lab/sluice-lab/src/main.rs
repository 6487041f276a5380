//! The binary `sluice-lab`: what only measures, compares, trains or shows.
//!
//! It depends on the crates of `sluice`, and none of them depends on it.

#[cfg(feature = "bench")]
mod agentdojo;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "bench")]
mod case_app;
#[cfg(feature = "bench")]
mod cases;
mod demo;
mod exit;
#[cfg(feature = "bench")]
mod langchain;
#[cfg(feature = "bench")]
mod leakage;
#[cfg(feature = "bench")]
mod load;
mod mail_app;
mod progress;
#[cfg(feature = "bench")]
mod proxy;
#[cfg(feature = "bench")]
mod quantile;
#[cfg(feature = "training")]
mod saliency;
#[cfg(feature = "training")]
mod screener;
#[cfg(feature = "bench")]
mod serve;
#[cfg(feature = "bench")]
mod served;
#[cfg(feature = "bench")]
mod service;
mod sluice;
#[cfg(feature = "bench")]
mod small_model;
#[cfg(feature = "bench")]
mod spokes;
mod terminal;
#[cfg(feature = "bench")]
mod unlimited;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The laboratory of Sluice: demo, benchmarks, training of the attention screener.
#[derive(Debug, Parser)]
#[command(name = "sluice-lab", version, after_help = EXIT_CODES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 error, 2 usage, 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a poisoned mailbox read with and without protection.
    #[command(after_help = "Example:\n  sluice-lab demo\n  sluice-lab demo --embedded")]
    Demo(demo::Demo),
    /// Run SecGPT's case studies and later attacks, without protection and with it.
    #[cfg(feature = "bench")]
    #[command(
        after_help = "Example:\n  sluice-lab cases\n  sluice-lab cases --only stealing --keep out\n  sluice-lab cases --model embedded --json"
    )]
    Cases(cases::Cases),
    /// Run LangChain's benchmarks as SecGPT does, VanillaGPT beside Sluice.
    #[cfg(feature = "bench")]
    #[command(
        name = "langchain",
        after_help = "Example:\n  sluice-lab langchain\n  sluice-lab langchain --only relational --queries 5"
    )]
    LangChain(langchain::LangChain),
    /// Measure what agents give away without an attacker (RTBAS §8.2, §8.3.1).
    #[cfg(feature = "bench")]
    #[command(
        after_help = "Example:\n  sluice-lab leakage\n  sluice-lab leakage --agent ground-truth --defence naive-checked,naive-exact\n\nThe tasks: lab/leakage/README.md."
    )]
    Leakage(leakage::Leakage),
    /// Measure on this machine.
    #[cfg(feature = "bench")]
    Bench(bench::Bench),
    /// Train and evaluate the attention screener.
    #[cfg(feature = "training")]
    Screener(screener::Screener),
}

fn main() -> ExitCode {
    let args = Args::parse();
    // By hand and not by `#[tokio::main]`, whose end would wait for blocking work: see below.
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(&error.into()),
    };
    let result = runtime.block_on(async {
        match args.command {
            Command::Demo(args) => demo::demo(args).await,
            #[cfg(feature = "bench")]
            Command::Cases(args) => cases::cases(args).await,
            #[cfg(feature = "bench")]
            Command::LangChain(args) => langchain::langchain(args).await,
            #[cfg(feature = "bench")]
            Command::Leakage(args) => leakage::leakage(args).await,
            #[cfg(feature = "bench")]
            Command::Bench(args) => bench::bench(args).await,
            #[cfg(feature = "training")]
            Command::Screener(args) => screener::screener(args).await,
        }
    });
    // A model that is still computing must not hold up the exit.
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit.code(),
        Err(error) => exit::failed(&error),
    }
}

//! The binary `sluice`: subcommands, terminal, composition root.
//!
//! Libraries do no terminal I/O; wording and exit codes live here.

mod answered;
mod app_setup;
mod args;
mod asking;
mod commands;
mod compose;
mod configuration;
mod deployment;
mod embedded;
mod exit;
mod fetch;
mod form;
mod hex;
mod ids;
mod installed;
mod interrupts;
mod json_lines;
mod keep_for;
mod known;
mod login;
mod logs;
mod memory;
mod needs;
mod notice;
mod observed;
mod os_user;
mod paths;
mod permissions;
mod place;
mod private_file;
mod proposal;
mod provider;
mod pty;
mod question;
mod refused;
mod remote_app;
mod review;
mod screener;
mod secrets;
mod seen;
mod selection;
mod service;
mod session;
mod shell;
mod sources;
mod terminal;
mod tool_lists;
mod traces;
mod trial;
mod unwritten;
mod verbs;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(&error.into()),
    };
    let result = runtime.block_on(async {
        let result = match args.command {
            Command::Guard(guard) => commands::guard::guard(guard).await,
            Command::Proxy(proxy) => commands::proxy::proxy(proxy).await,
            Command::Gateway(gateway) => commands::gateway::gateway(gateway).await,
            Command::Serve(serve) => commands::serve::serve(serve).await,
            Command::Wrap(wrap) => commands::wrap::wrap(wrap).await,
            Command::Desk(desk) => commands::desk::desk(desk).await,
            Command::Init(init) => commands::init::init(init).await,
            Command::Undo(undo) => commands::undo::undo(&undo),
            Command::Run(run) => commands::run::run(run).await,
            Command::Chat(chat) => commands::chat::chat(chat).await,
            Command::Trace(trace) => commands::trace::trace(&trace),
            Command::Doctor(doctor) => commands::doctor::doctor(&doctor).await,
            Command::Trust(trust) => commands::trust::trust(&trust),
            Command::Approve(approve) => commands::approve::approve(&approve).await,
            Command::State(state) => commands::state::state(state).await,
            Command::Audit(audit) => commands::audit::audit(&audit).await,
            Command::Token(token) => commands::token::token(&token).await,
            Command::Permissions(args) => commands::permissions::permissions(&args).await,
            Command::Memory(memory) => commands::memory::memory(&memory),
            Command::Policy(policy) => commands::policy::policy(&policy),
            Command::Secret(secret) => commands::secret::secret(&secret),
            Command::App(app) => commands::app::app(app).await,
            Command::Model(model) => commands::model::model(model).await,
            Command::Completions(shell) => commands::about::completions(&shell, Args::command()),
            Command::Man(man) => commands::about::man(&man, Args::command()),
        };
        // A renewed token that is not saved yet would be lost, and the login with it.
        login::settle().await;
        result
    });
    // A model that is still computing must not hold up the exit.
    runtime.shutdown_background();
    match result {
        Ok(_) if interrupts::is_terminated() => exit::Exit::Terminated.code(),
        Ok(exit) => exit.code(),
        Err(error) => exit::failed(&error),
    }
}

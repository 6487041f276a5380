//! The command line.

use clap::{Parser, Subcommand};

use crate::commands::{
    about, app, approve, audit, chat, desk, doctor, gateway, guard, init, memory, model,
    permissions, policy, proxy, run, secret, serve, state, token, trace, trust, undo, wrap,
};

const EXIT_CODES: &str = "Exit codes: 0 done, 1 error (also an untrusted configuration), 2 wrong usage, 3 refused by the policy or you, 130 interrupted, 143 terminated.";

/// A secure runtime for LLM agents: isolated apps, labelled text, mediated calls.
#[derive(Debug, Parser)]
#[command(
    name = "sluice",
    version = about::SHORT,
    long_version = about::LONG.as_str(),
    after_help = format!("Example:\n  sluice run \"Summarise my newest email\"\n  sluice policy check\n\n{EXIT_CODES}")
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one query with the configured apps.
    #[command(after_help = format!("Example:\n  sluice run \"Summarise my newest email\"\n\n{EXIT_CODES}"))]
    Run(run::Run),
    /// Talk to the configured apps, line by line.
    #[command(
        after_help = "Example:\n  sluice chat --app mail\n\nCtrl-C interrupts an answer; Ctrl-D ends the chat."
    )]
    Chat(chat::Chat),
    /// Guard a whole agent for one run: Claude Code, Codex, opencode, or any other.
    Guard(guard::Guard),
    /// Guard an agent by its model's API: Chat Completions, Responses or Messages.
    Proxy(proxy::Proxy),
    /// Guard any MCP client: one server in the place of all others, each in a sandbox.
    Gateway(gateway::Gateway),
    /// Guard many agents: proxy, gateway and desk as one service, reloaded and drained.
    Serve(serve::Serve),
    /// Guard one MCP server: the same for a single command, without a configuration.
    Wrap(wrap::Wrap),
    /// Answer the questions of all Sluice programs on a page, in a browser on this machine or a phone.
    Desk(desk::Desk),
    /// Put Sluice between the MCP clients of this machine and their servers.
    Init(init::Init),
    /// Take back what `sluice init` has changed.
    Undo(undo::Undo),
    /// List the recorded sessions, and show what happened in one.
    #[command(after_help = "Example:\n  sluice trace list\n  sluice trace show latest")]
    Trace(trace::Trace),
    /// Check, test, explain and propose the rules of a configuration.
    #[command(
        after_help = "Example:\n  sluice policy check\n  sluice policy test --config sluice.toml\n  sluice policy explain latest --call 2"
    )]
    Policy(policy::Policy),
    /// Trust the sluice.toml of a folder, or end the trust.
    #[command(
        after_help = "Example:\n  sluice trust\n  sluice trust --list\n  sluice trust --revoke path/to/folder\n\n\
                      A sluice.toml in the working folder is used only while you trust it; a change of its\n\
                      content or place ends the trust. A file that you name with --config or $SLUICE_CONFIG,\n\
                      or that is in your own configuration folder, needs no trust."
    )]
    Trust(trust::Trust),
    /// List and answer the questions that wait, of every Sluice program of yours.
    #[command(
        after_help = "Example:\n  sluice approve list\n  sluice approve show 1f0c9e52\n  sluice approve yes 1f0c9e52\n\n\
                      Exit codes: 0 the answer counted, 1 error, 2 wrong usage, 3 others answered before or have to.\n\
                      A program without a terminal needs a token in $SLUICE_TOKEN to allow something; anyone can deny."
    )]
    Approve(approve::Approve),
    /// Make, list and revoke the tokens of people who answer questions.
    #[command(
        after_help = "Example:\n  sluice token new ada --apps mail --for 30d\n  sluice token list\n  sluice token revoke ada"
    )]
    Token(token::Token),
    /// Back up and move what a service keeps, look at it, and remove what is old.
    #[command(
        after_help = "Example:\n  sluice state export backup.jsonl\n  sluice state import backup.jsonl --url postgres://sluice@db/sluice\n  sluice state status"
    )]
    State(state::State),
    /// Check, show and export the record of what was decided, answered and changed.
    #[command(
        after_help = "Example:\n  sluice audit verify\n  sluice audit show --since 1d --outcome deny\n  sluice audit export > audit.jsonl"
    )]
    Audit(audit::Audit),
    /// List and revoke what you allowed with "always".
    #[command(
        after_help = "Example:\n  sluice permissions list\n  sluice permissions revoke 1f0c9e…"
    )]
    Permissions(permissions::Permissions),
    /// List, show and delete what is remembered of conversations.
    #[command(
        after_help = "Example:\n  sluice memory list --search delivery\n  sluice memory show 1f0c9e…\n  sluice memory forget 1f0c9e…"
    )]
    Memory(memory::Memory),
    /// Add, list, test, update and remove apps, and log in at remote ones.
    #[command(
        after_help = "Example:\n  sluice app add files -- npx -y @modelcontextprotocol/server-filesystem ~/papers\n  sluice app list\n  sluice app test files"
    )]
    App(app::App),
    /// Save secrets for the headers of remote apps, each for one server.
    #[command(
        after_help = "Example:\n  sluice secret set github --for https://api.githubcopilot.com\n  sluice secret list"
    )]
    Secret(secret::Secret),
    /// Check what this machine offers and what is missing.
    #[command(
        after_help = "Example:\n  sluice doctor --json\n  sluice doctor --config mcp.json --start"
    )]
    Doctor(doctor::Doctor),
    /// Fetch, list and serve embedded models.
    #[command(after_help = "Example:\n  sluice model pull qwen2.5-coder-1.5b\n  sluice model list")]
    Model(model::Model),
    /// Print the completions of a shell.
    #[command(
        after_help = "Example:\n  sluice completions bash > ~/.local/share/bash-completion/completions/sluice"
    )]
    Completions(about::Completions),
    /// Write the manual pages into a folder.
    #[command(hide = true, after_help = "Example:\n  sluice man /tmp/pages")]
    Man(about::Man),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn check(command: &clap::Command, path: &str) {
        let help = command.get_after_help();
        let help = help.map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Example:\n  "), "{path} has no example");
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name());
            let example = below.get_after_help().map(ToString::to_string);
            assert!(
                example.is_some_and(|example| example.contains(&format!("\n  {path}"))),
                "the example of {path} does not show it"
            );
            check(below, &path);
        }
    }

    #[test]
    fn every_command_has_an_example_of_itself() {
        check(&Args::command(), "sluice");
    }

    /// Commands of the page on operations that are not run by a test of it.
    #[test]
    fn the_page_on_operations_has_commands() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
        let page = std::fs::read_to_string(page).unwrap();
        let commands = page
            .lines()
            .filter_map(|line| line.find("sluice ").map(|at| &line[at..]));
        let is_command = |line: &&str| {
            let word = line.split_whitespace().nth(1).unwrap_or_default();
            let known = Args::command();
            known.get_subcommands().any(|it| it.get_name() == word)
        };
        let mut count = 0;
        for line in commands.filter(is_command) {
            let line = line.split(['`', '#', '|', '>', '(', ')']).next().unwrap();
            let parsed = Args::try_parse_from(line.split_whitespace());
            let shown = parsed.as_ref().err().map(clap::Error::kind);
            let is_prose =
                shown == Some(clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
            assert!(
                parsed.is_ok() || is_prose,
                "{line}: {}",
                parsed.unwrap_err()
            );
            count += 1;
        }
        assert!(count > 4, "{count}");
    }

    /// What a reader copies from the page on the desk is a command, and a configuration.
    #[test]
    fn the_page_on_the_desk_has_commands_and_a_configuration() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/desk.md");
        let page = std::fs::read_to_string(page).unwrap();
        let commands = page.lines().filter_map(|line| line.strip_prefix("    "));
        let commands = commands.filter(|line| line.starts_with("sluice "));
        let mut count = 0;
        for line in commands {
            let words = line.split(" #").next().unwrap().split_whitespace();
            let parsed = Args::try_parse_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            count += 1;
        }
        assert!(count > 5, "{count}");
        let samples = page.split("```toml\n").skip(1);
        let samples = samples.map(|rest| rest.split("```").next().unwrap());
        let text = format!("[app.bank]\nclient = true\n{}", samples.collect::<String>());
        let config = config::Config::load_with("sluice.toml".as_ref(), &|_| Ok(text.clone()));
        assert!(config.is_ok(), "{}", config.unwrap_err());
    }
}

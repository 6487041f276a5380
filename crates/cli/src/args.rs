//! The command line.

use clap::{Parser, Subcommand};

use crate::commands::{
    app, chat, doctor, memory, model, permissions, policy, proxy, run, secret, trace, trust,
};

const EXIT_CODES: &str = "Exit codes: 0 done, 1 error (a configuration that is not trusted is one), 2 usage, 3 refused by policy or user, 130 interrupted.";

/// A secure runtime for LLM agents: isolated apps, labelled text, mediated calls.
#[derive(Debug, Parser)]
#[command(
    name = "sluice",
    version,
    after_help = format!("Example:\n  sluice run \"Summarise my newest email\"\n  sluice policy check\n\n{EXIT_CODES}")
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one query.
    #[command(after_help = format!("Example:\n  sluice run \"Summarise my newest email\"\n\n{EXIT_CODES}"))]
    Run(run::Run),
    /// Talk, line by line.
    #[command(
        after_help = "Example:\n  sluice chat --app mail\n\nCtrl-C interrupts an answer; Ctrl-D ends the chat."
    )]
    Chat(chat::Chat),
    /// Guard an agent that speaks OpenAI's chat completions.
    #[command(
        after_help = "Example:\n  sluice proxy --upstream remote --policy sluice.toml\n  OPENAI_BASE_URL=http://127.0.0.1:8080/v1 your-agent"
    )]
    Proxy(proxy::Proxy),
    /// Look at what happened in a session.
    #[command(
        after_help = "Example:\n  sluice trace list\n  sluice trace show latest\n  sluice trace export latest > session.jsonl"
    )]
    Trace(trace::Trace),
    /// Check the rules of a configuration, run their examples, explain what they decided.
    #[command(
        after_help = "Example:\n  sluice policy check\n  sluice policy test --config sluice.toml\n  sluice policy explain latest --call 2"
    )]
    Policy(policy::Policy),
    /// Trust the configuration of a folder, or no longer.
    #[command(
        after_help = "Example:\n  sluice trust\n  sluice trust --list\n  sluice trust --revoke path/to/folder\n\n\
                      A sluice.toml in the working folder counts only while it is trusted, as it is now and\n\
                      where it is. One that you name with --config or $SLUICE_CONFIG, or keep in your own\n\
                      configuration folder, needs no trust."
    )]
    Trust(trust::Trust),
    /// Look at what you have allowed for good, and take it back.
    #[command(
        after_help = "Example:\n  sluice permissions list\n  sluice permissions revoke 1f0c9e…\n  sluice permissions export"
    )]
    Permissions(permissions::Permissions),
    /// Look at what is remembered of conversations, and forget it.
    #[command(
        after_help = "Example:\n  sluice memory list --search delivery\n  sluice memory show 1f0c9e…\n  sluice memory forget 1f0c9e…"
    )]
    Memory(memory::Memory),
    /// Add apps, look at those that are installed, try them, remove them.
    #[command(
        after_help = "Example:\n  sluice app add files -- npx -y @modelcontextprotocol/server-filesystem ~/papers\n  sluice app list\n  sluice app test files"
    )]
    App(app::App),
    /// Keep what a remote app's server wants to be told, for that server alone.
    #[command(
        after_help = "Example:\n  sluice secret set github --for https://api.githubcopilot.com\n  sluice secret list"
    )]
    Secret(secret::Secret),
    /// Say what this machine offers and what is missing.
    #[command(
        after_help = "Example:\n  sluice doctor --json\n  sluice doctor --config mcp.json --start"
    )]
    Doctor(doctor::Doctor),
    /// Fetch, list and serve embedded models.
    #[command(after_help = "Example:\n  sluice model pull qwen2.5-coder-1.5b\n  sluice model list")]
    Model(model::Model),
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
}

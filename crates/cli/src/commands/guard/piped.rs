//! What is piped into an agent beside its prompt: a text of the workspace, and not the user's word.

use std::io::{self, IsTerminal, stdin};
use std::os::fd::{AsFd, OwnedFd};

use ifc::Label;
use server::proxy::LabelledTexts;

use super::agent::Kind;
use crate::pty;

/// Bytes of a line that is known by its exact words. A longer one is recognised by parts.
const LONGEST_LINE: usize = 4096;

/// Options of the agents whose next word is their value; with `...` all words up to the next option are.
const CLAUDE_CODE: &str = "--add-dir... --agent --agents --allowedTools... --allowed-tools... --append-system-prompt \
    --append-system-prompt-file --betas... -d --debug --debug-file --disallowedTools... --disallowed-tools... --effort \
    --fallback-model --file... --from-pr --input-format --json-schema --max-budget-usd --max-turns --mcp-config... --model -n \
    --name --output-format --permission-mode --permission-prompt-tool --plugin-dir --plugin-url --prompt-suggestions -r \
    --remote-control --resume --session-id --setting-sources --settings --system-prompt --system-prompt-file --tools... -w \
    --worktree";
const CODEX: &str = "-a --add-dir --ask-for-approval -C -c --cd --color --config --disable --enable -i --image -m --model -o \
    --output-last-message --output-schema -s --sandbox";
const OPENCODE: &str = "--agent --command --dir -f --file --format --log-level -m --model --port -s --session --title --variant";

/// Whether a prompt stands on the command line: a word that is no command, no option and no value of one. Of an option that
/// is not known, the next word counts as a prompt: what is piped is trusted less then.
pub(super) fn has_prompt(kind: Kind, args: &[String]) -> bool {
    let (options, commands) = match kind {
        Kind::ClaudeCode => (CLAUDE_CODE, ""),
        Kind::Codex => (CODEX, "exec e resume fork review"),
        Kind::Opencode => (OPENCODE, "run"),
        Kind::Other => ("", ""),
    };
    let has = |list: &str, word: &str| list.split_whitespace().any(|one| one == word);
    let (mut has_value, mut has_values) = (false, false);
    for (number, word) in args.iter().enumerate() {
        if word == "--" {
            return args.len() > number + 1;
        }
        if word.starts_with('-') && word != "-" {
            has_values = has(options, &format!("{word}..."));
            has_value = has_values || has(options, word);
        } else if has_value {
            has_value = has_values;
        } else if !has(commands, word) {
            // So Codex names standard input.
            return word != "-";
        }
    }
    false
}

/// Standard input for an agent that has a prompt beside it: each piece is known by its label before the agent has it.
pub(super) fn input(known: &LabelledTexts, label: &Label) -> Option<io::Result<OwnedFd>> {
    if stdin().is_terminal() {
        return None;
    }
    let (known, label, mut line) = (known.clone(), label.clone(), Vec::new());
    let seen = move |piece: &[u8]| {
        let mut lines = std::mem::take(&mut line);
        lines.extend_from_slice(piece);
        let end = lines.iter().rposition(|byte| *byte == b'\n');
        line = lines.split_off(end.map_or(0, |end| end + 1));
        for text in [&lines, &line] {
            known.add(&String::from_utf8_lossy(text), label.clone());
        }
        if line.len() > LONGEST_LINE {
            line.clear();
        }
    };
    Some(pty::piped(stdin().as_fd(), seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_told_from_values_and_commands() {
        let has = |kind, line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            has_prompt(kind, &args)
        };
        use Kind::{ClaudeCode, Codex, Opencode, Other};
        for (kind, line) in [
            (ClaudeCode, ""),
            (ClaudeCode, "-p --model big --output-format=json"),
            (ClaudeCode, "--allowedTools Bash Edit -p"),
            (Codex, "exec -m big"),
            (Codex, "exec -"),
            (Opencode, "run -f README.md --"),
            (Other, "--headless"),
        ] {
            assert!(!has(kind, line), "{line}");
        }
        for (kind, line) in [
            (ClaudeCode, "-p sum"),
            (ClaudeCode, "--allowedTools Bash -p sum"),
            (ClaudeCode, "-p --of-tomorrow sum"),
            (Codex, "exec -m big sum -"),
            (Opencode, "run -- sum"),
            (Other, "agent.py"),
        ] {
            assert!(has(kind, line), "{line}");
        }
    }
}

//! What is typed for an answer, and the lines that ask for it.

use hub::question::Shown;
use hub::trace::escape;

use super::layout::{Lines, wrapped};

/// The answer that is always offered.
pub(super) const NO: &str = "no";

/// What is typed for an answer: a letter where a slip costs little, else its name. `each` has none, since `e` is beside `d`
/// and allows more calls; nor have the answers that last beyond the task.
pub(super) fn key(answer: &str) -> &str {
    match answer {
        "once" => "o",
        "value" => "v",
        "trust" => "t",
        "source" => "u",
        "host" => "h",
        name => name,
    }
}

/// An answer with its letter.
pub(super) fn named(answer: &str) -> String {
    match key(answer) {
        key if key == answer => answer.to_owned(),
        key => format!("{key} {answer}"),
    }
}

/// The lines that ask for the answer: those that are offered now, and those that are offered after `s`, which shows so many
/// lines. Denying is always offered.
pub(super) fn prompt(now: &[&str], later: &[&str], hidden: usize, columns: usize) -> String {
    let list = |names: &[&str]| {
        let names = names.iter().filter(|name| **name != NO);
        names.map(|name| named(name)).collect::<Vec<_>>()
    };
    let mut choices = list(now);
    if hidden > 0 {
        let lines = if hidden == 1 { "line" } else { "lines" };
        let then = match list(later).as_slice() {
            [] => String::new(),
            later => format!(" (then {})", later.join(", ")),
        };
        let hidden = hidden.min(9_999);
        choices.push(format!("s show {hidden} more {lines}{then}"));
    }
    let width = Lines::new(columns).width;
    let mut choices = choices.join(", ");
    if !choices.is_empty() {
        choices.push_str(", ");
    }
    let mut lines = wrapped(&format!("Allow? [{choices}"), width);
    // It stays in one piece: a program that drives a terminal waits for it.
    let end = "d deny, default deny] ";
    match lines.last_mut() {
        Some(last) if last.len() + end.len() <= width => last.push_str(end),
        _ => lines.push(end.to_owned()),
    }
    lines.join("\n")
}

/// Why a typed word is no answer.
pub(super) fn not_offered(line: &str, shown: &Shown) -> String {
    let is_secret = shown.excess.iter().any(|name| name.starts_with("secret"));
    if !shown.approvers.is_empty() {
        let who = escape(&shown.approvers.join(" or "));
        return format!(
            "Only {who} may allow it, by `sluice approve` or at the page of `sluice desk`.\n"
        );
    }
    let why = match line {
        "t" | "trust" | "trust-session" | "v" | "value" | "u" | "source" if is_secret => {
            "is not offered where a secret is in the way"
        }
        "u" | "source" => "needs a rule that says who wrote the text (`by`)",
        "v" | "value" => "needs a value of the call that is a field of its own in the text",
        "t" | "trust" | "trust-session" => "is not offered for this question",
        "session" | "always" | "always-folder" | "h" | "host" => {
            "is not offered here: some calls can be allowed once only, such as irreversible ones"
        }
        "y" | "yes" => {
            return "Type o and Enter to allow this call once, or d to deny it.\n".to_owned();
        }
        "each" => "needs another call of the same step",
        _ => return "Type one of the letters or words, and Enter.\n".to_owned(),
    };
    format!("{line} {why}.\n")
}

//! A question to the user, in words.

use std::fmt::Write;

use hub::trace::escape;
use ifc::{Answer, Ran};
use server::QuestionView;

/// Characters of one excerpt or one long argument line on the screen. Arguments are never cut.
const WIDTH: usize = 96;

/// The question as a block of text. Everything foreign is quoted behind `|`, with control
/// characters escaped, so that it can neither look like Sluice's own words nor steer the terminal.
pub(crate) fn text(question: &QuestionView) -> String {
    let mut text = if question.is_answer {
        let app = &question.app;
        format!("\nThe answer about {app} is more than your policy shows by itself:\n\n")
    } else {
        format!(
            "\nThe app {} wants to do something that your policy does not allow by itself:\n\n  {} ({})\n",
            question.app,
            escape(&question.tool),
            question.effect
        )
    };
    for line in arguments(&question.arguments) {
        let _ = writeln!(text, "    | {line}");
    }
    let what = if question.is_answer { "answer" } else { "call" };
    if let Some(ran) = question.ran {
        let before = match ran {
            Ran::Answered => "already ran in this session",
            Ran::Unknown => "was already sent in this session, and it is not known whether it ran",
        };
        let _ = writeln!(text, "\n  This very call {before}.");
        if question.excess.is_empty() {
            return text;
        }
    }
    if question.excess.is_empty() {
        let rule = &question.rule;
        let _ = writeln!(text, "\n  The rule {rule} asks about every such {what}.");
        return text;
    }
    let limit = if question.limit.is_empty() {
        "trusted and public text only".to_owned()
    } else {
        question.limit.join(", ")
    };
    let _ = writeln!(text, "\n  The rule {} allows {limit}.", question.rule);
    let _ = writeln!(
        text,
        "  This {what} may also depend on {}, because of:",
        question.excess.join(", ")
    );
    for cause in &question.causes {
        let _ = writeln!(text, "\n  {} ({})", cause.source, cause.label.join(", "));
        let excerpt: String = cause.excerpt.chars().take(WIDTH * 3).collect();
        for line in wrapped(&escape(&excerpt)) {
            let _ = writeln!(text, "    | {line}");
        }
    }
    text
}

/// The line that asks for the answer.
pub(crate) fn prompt(question: &QuestionView) -> String {
    let words: Vec<&str> = question
        .choices
        .iter()
        .map(|choice| word(*choice))
        .collect();
    format!("Type {} and Enter [no]: ", words.join(", "))
}

/// Reads an answer. Anything but the whole word of a possible choice is a no.
pub(crate) fn answer(line: &str, question: &QuestionView) -> Answer {
    let typed = line.trim().to_lowercase();
    let found = question
        .choices
        .iter()
        .copied()
        .find(|choice| word(*choice) == typed);
    found.unwrap_or(Answer::No)
}

fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Once => "once",
        Answer::Session => "session",
        Answer::No => "no",
    }
}

/// JSON objects one member a line; anything else as it is. Nothing is left out.
fn arguments(arguments: &str) -> Vec<String> {
    let parsed: Result<serde_json::Map<String, serde_json::Value>, _> =
        serde_json::from_str(arguments);
    let lines = match parsed {
        Ok(members) => members
            .iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect(),
        Err(_) => vec![arguments.to_owned()],
    };
    lines
        .iter()
        .flat_map(|line| wrapped(&escape(line)))
        .collect()
}

fn wrapped(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters
        .chunks(WIDTH)
        .map(|line| line.iter().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> QuestionView {
        QuestionView {
            app: "mail".to_owned(),
            tool: "send_email".to_owned(),
            is_answer: false,
            ran: None,
            arguments: r#"{"to":"eve@evil.example","body":"line\u001b[2J\nonce"}"#.to_owned(),
            effect: "irreversible",
            rule: "mail.send_email.limit".to_owned(),
            limit: vec![],
            excess: vec!["untrusted:email".to_owned()],
            causes: vec![hub::trace::Cause {
                region: 3,
                source: "result of read_email".to_owned(),
                excerpt: "please send\u{202e} it".to_owned(),
                label: vec!["untrusted:email".to_owned()],
            }],
            choices: vec![Answer::Once, Answer::No],
        }
    }

    #[test]
    fn only_a_whole_possible_word_is_a_yes() {
        let question = question();
        assert_eq!(answer("once\n", &question), Answer::Once);
        assert_eq!(answer(" Once ", &question), Answer::Once);
        for line in [
            "",
            "o",
            "y",
            "yes",
            "once more",
            "session",
            "no",
            "\u{1b}[A",
        ] {
            assert_eq!(answer(line, &question), Answer::No, "{line:?}");
        }
    }

    #[test]
    fn the_question_shows_everything_and_steers_nothing() {
        let text = text(&question());
        for part in [
            "send_email",
            "irreversible",
            "eve@evil.example",
            "mail.send_email.limit",
            "result of read_email",
            "untrusted:email",
            "please send\\u{202e} it",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    }

    #[test]
    fn long_arguments_are_wrapped_and_never_cut() {
        let mut question = question();
        question.arguments = format!(r#"{{"body":"{}END"}}"#, "x".repeat(5_000));
        assert!(text(&question).contains("END"));
    }
}

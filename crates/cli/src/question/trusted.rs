//! What the answer "trust" would allow.

use hub::trace::{escape, escape_lines};
use ifc::{Answer, Cause, Effect};
use server::{QuestionView, TrustView};

use super::layout::Lines;

/// The texts that the user would vouch for, whole where everything is shown, and what the word does.
pub(super) fn trust(lines: &mut Lines, question: &QuestionView, whole: bool) {
    let Some(trust) = &question.trust else {
        return;
    };
    let words = match trust.texts.len() {
        1 => "this text asks",
        _ => "these texts ask",
    };
    if whole {
        lines.own("What you would trust, word for word:");
    }
    for text in &trust.texts {
        if whole {
            lines.own(&format!("{}:", escape(&text.source.to_string())));
            for paragraph in escape_lines(&text.text).replace('\t', "    ").split('\n') {
                lines.quoted(paragraph, usize::MAX);
            }
        } else {
            // The rest is counted where the excerpt is shown.
            let beyond = text.text.chars().count().saturating_sub(Cause::EXCERPT);
            lines.left_out += beyond;
        }
    }
    lines.own(&meaning(trust, words));
}

/// In one sentence, so that the user knows what is allowed.
fn meaning(trust: &TrustView, words: &str) -> String {
    let [task, session] = [ifc::Until::Task, ifc::Until::Session].map(Answer::Trust);
    let app = escape(&trust.app);
    let worst = match trust.effect {
        Effect::Irreversible => "also what cannot be undone",
        Effect::Write => "as long as it can be undone",
        _ => "as long as it only reads",
    };
    format!(
        "\"{}\" lets {app} do whatever {words} of it, {worst}, unasked, until you write again (\"{}\": until the session ends).",
        task.name(),
        session.name()
    )
}

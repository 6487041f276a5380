//! Words about who answered a question.

use hub::trace::escape;
use ifc::Answer;
use server::desk::Answered;

use crate::os_user;

/// Where an answer was given that was typed where the question was asked.
const HERE: &str = "terminal";

/// An answer that this user has typed.
pub(crate) fn typed(answer: Answer) -> Answered {
    Answered::here(answer, Some(os_user::name()), HERE)
}

/// Whether it was typed here.
pub(crate) fn is_typed(answered: &Answered) -> bool {
    answered.by.as_ref().is_some_and(|by| by.from == HERE)
}

/// The line about an answer that was not typed here.
pub(crate) fn line(answered: &Answered) -> String {
    match &answered.by {
        Some(by) => {
            let (by, answer) = (escape(&by.to_string()), answered.answer.name());
            format!("\n(answered {by}: {answer})\n")
        }
        None => "\n(there was no answer, so it is denied)\n".to_owned(),
    }
}

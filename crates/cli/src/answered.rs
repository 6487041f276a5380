//! Words about who answered a question.

use hub::trace::escape;
use ifc::Answer;
use server::desk::Answered;

use crate::os_user;
use crate::terminal::say;

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

/// Tells of an answer that was not typed here.
pub(crate) fn tell(answered: &Answered) {
    match &answered.by {
        Some(by) => {
            let (by, answer) = (escape(&by.to_string()), answered.answer.name());
            say(&format!("\n(answered {by}: {answer})\n"));
        }
        None => say("\n(there was no answer, so it is denied)\n"),
    }
}

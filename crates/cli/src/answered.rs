//! Words about who answered a question.

use hub::trace::escape;
use ifc::Answer;
use server::desk::Answered;

use crate::os_user;

/// An answer that this user has typed.
pub(crate) fn typed(answer: Answer) -> Answered {
    Answered::here(answer, Some(os_user::name()), "terminal")
}

/// A line about a question that was answered elsewhere.
pub(crate) fn elsewhere(answered: &Answered) -> String {
    match &answered.by {
        Some(by) => {
            let (by, answer) = (escape(&by.to_string()), answered.answer.name());
            format!("\n(answered {by}: {answer})\n")
        }
        None => "\n(there was no answer in time, so it is denied)\n".to_owned(),
    }
}

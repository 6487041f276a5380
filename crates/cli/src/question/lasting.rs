//! What the answer "always" would allow.

use hub::trace::escape;
use server::QuestionView;

use crate::collaboration::{may, with};
use crate::keep_for::KeepFor;

/// In one line, the same words as `sluice permissions list` has for it.
pub(super) fn always(question: &QuestionView, keep_for: KeepFor) -> String {
    let covers = &question.covers;
    let lets = match (&question.connection, &question.collaboration) {
        (Some(to), _) => {
            let (app, domain) = (escape(&question.app), escape(&to.domain));
            format!(
                "{app} connect to {domain} and what is below it {}",
                with(covers)
            )
        }
        (None, Some(it)) => {
            let may = may(&it.serves, &it.functionality, it.direction);
            format!("{} {may} {}", escape(&it.asks), with(covers))
        }
        (None, None) => {
            let (app, tool) = (escape(&question.app), escape(&question.tool));
            format!("{app} take {} for {tool}", escape(&covers.join(", ")))
        }
    };
    format!("\"always\" lets {lets} {keep_for} (sluice permissions).")
}

//! The table: attempt, expected, observed.

use serde::{Deserialize, Serialize};

use crate::attempt::{Observed, Seen};
use crate::frames;
use crate::inside::attempts;

/// What one attempt showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What is attacked.
    pub group: String,
    /// What was tried.
    pub attempt: String,
    /// What is to be seen if the walls hold.
    pub expected: String,
    /// What was seen.
    pub observed: Observed,
}

impl Row {
    /// Puts what was seen beside what was expected.
    pub(crate) fn of(seen: Vec<Seen>) -> Vec<Self> {
        let (attempts, by_frames) = (attempts(), frames::attempts());
        let known = |name: &str| {
            let one = attempts.iter().find(|attempt| attempt.name == name);
            let other = by_frames.iter().find(|attempt| attempt.name == name);
            let one = one.map(|it| (it.group, it.expected));
            one.or_else(|| other.map(|it| (it.group, it.expected())))
        };
        let row = |Seen { name, observed }: Seen| {
            // A look from outside is in neither list of attempts.
            let (group, expected) =
                known(&name).unwrap_or(("outside", "as if there had been no spoke"));
            Self {
                group: group.to_owned(),
                expected: expected.to_owned(),
                attempt: name,
                observed,
            }
        };
        seen.into_iter().map(row).collect()
    }
}

/// The rows as text, one line each.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = &row.group;
            text.push_str(&format!("\n{group}: {}\n", row.expected));
        }
        let (mark, seen) = match &row.observed {
            Observed::Held(seen) => ("held   ", seen),
            Observed::Escaped(seen) => ("ESCAPED", seen),
            Observed::Absent(seen) => ("absent ", seen),
            Observed::Failed(seen) => ("FAILED ", seen),
        };
        text.push_str(&format!("  {mark} {:<66} {seen}\n", row.attempt));
    }
    text
}

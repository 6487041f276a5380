//! The table: attempt, expected, observed.

use serde::{Deserialize, Serialize};

use crate::attempt::{Observed, Seen};
use crate::frames;
use crate::inside::attempts;

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Something that must not work.
    Attempt,
    /// Something that must, so that attempts do not fail for another reason.
    Control,
    /// A look from outside at what became of the host.
    Look,
}

/// What one attempt, control or look showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What it is about.
    pub kind: Kind,
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
            let kind = |control| {
                if control {
                    Kind::Control
                } else {
                    Kind::Attempt
                }
            };
            let one = one.map(|it| (kind(it.control), it.group, it.expected));
            one.or_else(|| other.map(|it| (Kind::Attempt, it.group, it.expected())))
        };
        let row = |Seen { name, observed }: Seen| {
            // A look from outside is in neither list of attempts.
            let (kind, group, expected) =
                known(&name).unwrap_or((Kind::Look, "outside", "as if there had been no spoke"));
            Self {
                kind,
                group: group.to_owned(),
                expected: expected.to_owned(),
                attempt: name,
                observed,
            }
        };
        seen.into_iter().map(row).collect()
    }
}

/// How many attempts of these rows were made, and how many got out.
pub fn count(rows: &[Row]) -> (usize, usize) {
    let of = |is: fn(&Observed) -> bool| {
        let attempts = rows.iter().filter(|row| row.kind == Kind::Attempt);
        attempts.filter(|row| is(&row.observed)).count()
    };
    let got_out = of(|observed| matches!(observed, Observed::Escaped(_)));
    let held = of(|observed| matches!(observed, Observed::Held(_)));
    (held + got_out, got_out)
}

/// The rows as text, one line each.
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

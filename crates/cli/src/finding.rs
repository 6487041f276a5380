//! What `sluice doctor` finds.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) subject: String,
    pub(crate) ok: bool,
    pub(crate) detail: String,
}

impl Finding {
    pub(crate) fn new(subject: &str, ok: bool, detail: String) -> Self {
        let subject = subject.to_owned();
        Self {
            subject,
            ok,
            detail,
        }
    }

    /// About an embedded model.
    pub(crate) fn model(name: &str, ok: bool, detail: String) -> Self {
        Self::new(&format!("model {name}"), ok, detail)
    }
}

//! The spokes of a session: one per app, started when a conversation first needs it.

use std::collections::BTreeMap;

use crate::spoke::Spoke;

/// The running spokes, by app. All conversations of the session share them; dropping them kills them.
#[derive(Default)]
pub(super) struct Spokes(BTreeMap<String, Spoke>);

impl Spokes {
    /// The spoke of an app, if it runs.
    pub(super) fn get(&self, app: &str) -> Option<&Spoke> {
        self.0.get(app).filter(|spoke| !spoke.is_gone())
    }

    pub(super) fn add(&mut self, spoke: Spoke) {
        self.0.insert(spoke.app().to_owned(), spoke);
    }

    /// Takes out the spokes that have ended.
    pub(super) fn take_gone(&mut self) -> Vec<Spoke> {
        let gone = self.0.extract_if(.., |_, spoke| spoke.is_gone());
        gone.map(|(_, spoke)| spoke).collect()
    }

    /// Takes out every spoke.
    pub(super) fn take_all(&mut self) -> Vec<Spoke> {
        std::mem::take(&mut self.0).into_values().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Spoke> {
        self.0.values()
    }
}

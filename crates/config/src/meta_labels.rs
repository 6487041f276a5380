//! The meaning of an app's own labels of its results (`_meta.ifc`).

use ifc::{Dimension, Label, Lattice};
use policy::Claims;

use crate::toml_reader::{At, Table};

/// `[app.NAME.meta_labels]`: the label of each word of the app. An unknown word, and a result without one, has every taint.
pub(crate) fn meta_labels(table: &Table<'_>) -> Claims {
    let axes = ["integrity", "confidentiality"].map(|axis| (axis, table.named_labels(axis)));
    if axes.iter().all(|(_, words)| words.is_empty()) {
        let help = "integrity = { untrusted = [\"untrusted:NAME\"], trusted = [] }";
        table.missing("integrity", help);
    }
    table.finish();
    let words = |words: Vec<(At<&str>, Label)>| {
        let words = words.into_iter();
        words
            .map(|(word, label)| (word.value.to_owned(), label))
            .collect()
    };
    let named = axes.into_iter().filter(|(_, words)| !words.is_empty());
    Claims {
        known: named
            .map(|(axis, of)| (axis.to_owned(), words(of)))
            .collect(),
        rest: table.context.lattice.map_or(Label::top(), every_taint),
    }
}

/// Not ⊤, which no rule and no answer of a user can name.
fn every_taint(lattice: &Lattice) -> Label {
    let dimensions = [Dimension::Integrity, Dimension::Confidentiality];
    dimensions.map(|it| lattice.whole(it)).iter().collect()
}

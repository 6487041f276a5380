//! Labels as the tests see them.

use std::collections::BTreeSet;

use ifc::{Label, Labeled};

/// A label as the tests see it: its taints, or `None` for ⊤. It has its own join and order, so
/// that a mistake in those of `ifc` does not hide itself.
pub(crate) type Taints = Option<BTreeSet<usize>>;

pub(crate) fn taints(label: &Label) -> Taints {
    label
        .taints()
        .map(|all| all.map(ifc::Taint::index).collect())
}

pub(crate) fn flows(from: &Label, to: &Label) -> bool {
    flows_taints(&taints(from), &taints(to))
}

pub(crate) fn flows_taints(from: &Taints, to: &Taints) -> bool {
    match (from, to) {
        (_, None) => true,
        (None, _) => false,
        (Some(from), Some(to)) => from.is_subset(to),
    }
}

pub(crate) fn union(a: &Taints, b: &Taints) -> Taints {
    let (a, b) = (a.as_ref()?, b.as_ref()?);
    Some(a.union(b).copied().collect())
}

/// A text cut where its label changes.
pub(crate) fn parts(text: &Labeled) -> Vec<(&str, Label)> {
    let whole = text.reveal_tcb();
    let mut parts = Vec::new();
    let mut at = 0;
    for (span, label) in text.regions() {
        parts.push((&whole[at..span.start], Label::bottom()));
        parts.push((&whole[span.clone()], label.clone()));
        at = span.end;
    }
    parts.push((&whole[at..], Label::bottom()));
    parts
}

//! Labels for tests.

use std::sync::{Arc, LazyLock};

use ifc::{Label, Lattice, Order, Unread};
use proptest::prelude::*;

/// As many categories as a lattice may have beside the one confidentiality taint.
pub(crate) const CATEGORIES: usize = Lattice::MAX_TAINTS - 1;

static LATTICE: LazyLock<Lattice> = LazyLock::new(|| {
    let names = (0..CATEGORIES).map(|at| format!("c{at}")).collect();
    Lattice::new(&Order::Categories(names), &Order::TwoPoint).unwrap()
});

/// The lattice of most tests that are no property.
pub(crate) fn lattice() -> Lattice {
    Lattice::four_point()
}

/// A label of that lattice.
pub(crate) fn label(name: &str) -> Label {
    lattice().label(name).unwrap()
}

/// What a server gave with a step: this id of its one call, and members that name it.
pub(crate) fn named(id: &str) -> Arc<Unread> {
    Arc::new(Unread {
        provider: "up".to_owned(),
        members: format!("{{\"of\":\"{id}\"}}"),
        calls: vec![(Some(id.to_owned()), String::new())],
    })
}

/// The label with taint number `at` alone.
pub(crate) fn taint(at: usize) -> Label {
    LATTICE.label(&format!("untrusted:c{at}")).unwrap()
}

pub(crate) fn join_of(taints: impl IntoIterator<Item = usize>) -> Label {
    let labels: Vec<Label> = taints.into_iter().map(taint).collect();
    labels.iter().collect()
}

/// Few taints, so that labels are often related, in both words of a label.
pub(crate) fn taints() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => proptest::sample::select(vec![0, 1, 63, 64, CATEGORIES - 1]),
        1 => 0..CATEGORIES,
    ]
}

/// Any label: ⊥, some taints, with endorsed taints, with those of values of a checked form, ⊤.
pub(crate) fn labels() -> impl Strategy<Value = Label> {
    let endorsed = (unendorsed(), unendorsed(), unendorsed(), 0..2u64);
    prop_oneof![
        3 => unendorsed(),
        2 => endorsed.prop_map(|(a, b, rest, by)| a.endorse_tcb(&b, by).join(&rest)),
        1 => (unendorsed(), unendorsed()).prop_map(|(a, b)| {
            a.endorse_tcb(&a, 0).join(&b.endorse_tcb(&b, 1))
        }),
        1 => (unendorsed(), unendorsed(), unendorsed()).prop_map(|(a, b, rest)| {
            a.formed().join(&b.endorse_tcb(&b, 0)).join(&rest)
        }),
    ]
}

/// A label of taints that nobody has endorsed.
pub(crate) fn unendorsed() -> impl Strategy<Value = Label> {
    prop_oneof![
        1 => Just(Label::bottom()),
        1 => Just(Label::top()),
        8 => proptest::collection::vec(taints(), 0..6).prop_map(join_of),
    ]
}

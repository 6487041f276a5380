//! Orders that are drawn: joins and flows are those of the diagram, and what is no distributive
//! lattice is refused by name.

use std::collections::{BTreeMap, BTreeSet};

use ifc::{Dimension, Label, Lattice, LatticeError, Order};
use proptest::prelude::*;

type Edges = Vec<(String, Vec<String>)>;

fn edges(list: &[(&str, &[&str])]) -> Edges {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    list.iter()
        .map(|(lower, uppers)| ((*lower).to_owned(), own(uppers)))
        .collect()
}

fn integrity(edges: Edges) -> Result<Lattice, LatticeError> {
    Lattice::new(&Order::Hasse(edges), &Order::TwoPoint)
}

fn refused(list: &[(&str, &[&str])]) -> String {
    integrity(edges(list)).unwrap_err().to_string()
}

#[test]
fn a_diamond_is_drawn() {
    let lattice = integrity(edges(&[
        ("trusted", &["partner", "customer"]),
        ("partner", &["web"]),
        ("customer", &["web"]),
    ]))
    .unwrap();
    let label = |name: &str| lattice.label(name).unwrap();
    assert!(label("trusted").is_bottom());
    assert_eq!(label("partner").join(&label("customer")), label("web"));
    assert_eq!(label("web"), label("untrusted"));
    assert_eq!(label("web"), lattice.whole(Dimension::Integrity));
    assert!(!label("partner").flows_to(&label("customer")));
    assert_eq!(lattice.describe(&label("web")), ["web"]);
    assert_eq!(lattice.describe(&label("partner")), ["partner"]);
    assert_eq!(
        lattice.describe(&label("web").beyond(&label("partner"))),
        ["customer"]
    );
    assert_eq!(
        lattice.describe(&label("web").join(&label("secret"))),
        ["web", "secret"]
    );
    let taints: Vec<&str> = lattice.taints().map(|(name, _)| name).collect();
    assert_eq!(taints, ["customer", "partner", "secret"]);
}

#[test]
fn a_chain_may_be_drawn() {
    let drawn = integrity(edges(&[("high", &["medium"]), ("medium", &["low"])])).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let listed = Lattice::new(
        &Order::Levels(names(&["high", "medium", "low"])),
        &Order::TwoPoint,
    )
    .unwrap();
    for name in listed.names() {
        assert_eq!(listed.label(name), drawn.label(name), "{name}");
    }
}

#[test]
fn what_is_no_lattice_is_named() {
    same(
        &refused(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]),
        "the diagram is no order: a is below b is below c is below a",
    );
    same(
        &refused(&[("a", &["a"])]),
        "the diagram is no order: a is below a",
    );
    same(
        &refused(&[("a", &["b", "c"])]),
        "'b' and 'c' have no upper bound: nothing is above both",
    );
    same(
        &refused(&[("a", &["c"]), ("b", &["c"])]),
        "'a' and 'b' have no lower bound: nothing is below both",
    );
    same(
        &refused(&[
            ("o", &["a", "b"]),
            ("a", &["c", "d"]),
            ("b", &["c", "d"]),
            ("c", &["i"]),
            ("d", &["i"]),
        ]),
        "'a' and 'b' have no unique least upper bound: c and d are above both, and none of them is the least",
    );
}

fn same(found: &str, expected: &str) {
    assert_eq!(found, expected);
}

#[test]
fn the_two_smallest_lattices_that_are_not_distributive_are_refused() {
    // M3: three names, any two of which have the same join and the same meet.
    same(
        &refused(&[
            ("o", &["a", "b", "c"]),
            ("a", &["i"]),
            ("b", &["i"]),
            ("c", &["i"]),
        ]),
        "the diagram is not distributive: 'c' is below the join of 'a' and 'b', but c ∧ (a ∨ b) is not (c ∧ a) ∨ (c ∧ b)",
    );
    // N5: a pentagon.
    same(
        &refused(&[
            ("o", &["a", "b"]),
            ("a", &["c"]),
            ("c", &["i"]),
            ("b", &["i"]),
        ]),
        "the diagram is not distributive: 'c' is below the join of 'a' and 'b', but c ∧ (a ∨ b) is not (c ∧ a) ∨ (c ∧ b)",
    );
}

#[test]
fn ends_keep_their_meaning_and_names_are_names() {
    let taken = |name: &str| Err(LatticeError::Duplicate(name.to_owned()));
    let misnamed = |list: &[(&str, &[&str])]| integrity(edges(list)).map(|_| ());
    assert_eq!(misnamed(&[("a", &["trusted"])]), taken("trusted"));
    assert_eq!(misnamed(&[("untrusted", &["a"])]), taken("untrusted"));
    assert_eq!(misnamed(&[("a", &["secret"])]), taken("secret"));
    assert_eq!(misnamed(&[("a", &["any"])]), taken("any"));
    assert_eq!(
        misnamed(&[]),
        Err(LatticeError::Empty(Dimension::Integrity))
    );
    assert_eq!(
        misnamed(&[("A", &["b"])]),
        Err(LatticeError::BadName("A".to_owned()))
    );
    let many: Vec<String> = (0..65).map(|at| format!("n{at}")).collect();
    let chain = many
        .windows(2)
        .map(|pair| (pair[0].clone(), vec![pair[1].clone()]))
        .collect();
    assert_eq!(
        integrity(chain).map(|_| ()),
        Err(LatticeError::TooManyElements(65))
    );
}

/// The lattice of the down-sets of a poset: every finite distributive lattice is one (Birkhoff).
/// Sets of points are bits.
fn down_sets(points: u32, smaller: &BTreeSet<(u32, u32)>) -> Vec<u32> {
    let closed = |set: &u32| {
        smaller
            .iter()
            .all(|(low, high)| set & (1 << high) == 0 || set & (1 << low) != 0)
    };
    (0..1 << points).filter(closed).collect()
}

fn name(set: u32) -> String {
    format!("e{set}")
}

fn covers(sets: &[u32]) -> Edges {
    let below = |a: u32, b: u32| a != b && a & !b == 0;
    let direct = |a: u32, b: u32| below(a, b) && !sets.iter().any(|c| below(a, *c) && below(*c, b));
    let uppers = |a: u32| {
        sets.iter()
            .filter(|b| direct(a, **b))
            .map(|b| name(*b))
            .collect()
    };
    sets.iter().map(|a| (name(*a), uppers(*a))).collect()
}

/// The reflexive and transitive order that some edges between few names mean.
fn order(edges: &[(usize, usize)], count: usize) -> Vec<Vec<bool>> {
    let mut below = vec![vec![false; count]; count];
    for (at, row) in below.iter_mut().enumerate() {
        row[at] = true;
    }
    for (low, high) in edges {
        below[*low][*high] = true;
    }
    for via in 0..count {
        for a in 0..count {
            for b in 0..count {
                below[a][b] |= below[a][via] && below[via][b];
            }
        }
    }
    below
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn labels_are_ordered_and_joined_like_the_diagram(
        points in 1u32..6,
        pairs in prop::collection::btree_set((0u32..5, 0u32..5), 0..8),
    ) {
        let smaller: BTreeSet<(u32, u32)> =
            pairs.into_iter().filter(|(low, high)| low < high && *high < points).collect();
        let sets = down_sets(points, &smaller);
        let lattice = integrity(covers(&sets)).unwrap();
        let label = |set: u32| lattice.label(&name(set)).unwrap();
        for a in &sets {
            prop_assert_eq!(lattice.describe(&label(*a)), match a {
                0 => vec![],
                set => vec![name(*set)],
            });
            for b in &sets {
                prop_assert_eq!(label(*a).flows_to(&label(*b)), a & !b == 0);
                prop_assert_eq!(label(*a).join(&label(*b)), label(a | b));
            }
        }
        prop_assert_eq!(label((1 << points) - 1), lattice.whole(Dimension::Integrity));
    }

    /// Whatever is accepted is exact: no diagram gets an order that it does not have.
    #[test]
    fn what_is_accepted_is_exact(edges in prop::collection::vec((0usize..6, 0usize..6), 1..12)) {
        let mut drawn: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (low, high) in &edges {
            drawn.entry(format!("n{low}")).or_default().push(format!("n{high}"));
        }
        if let Ok(lattice) = integrity(drawn.into_iter().collect()) {
            let below = order(&edges, 6);
            let used: Vec<usize> =
                (0..6).filter(|n| edges.iter().any(|(a, b)| a == n || b == n)).collect();
            let label = |at: usize| lattice.label(&format!("n{at}")).unwrap();
            for a in &used {
                for b in &used {
                    prop_assert_eq!(label(*a).flows_to(&label(*b)), below[*a][*b]);
                    let upper: Vec<usize> =
                        used.iter().copied().filter(|c| below[*a][*c] && below[*b][*c]).collect();
                    let least = upper.iter().find(|c| upper.iter().all(|d| below[**c][*d]));
                    prop_assert_eq!(Some(label(*a).join(&label(*b))), least.map(|c| label(*c)));
                }
            }
        }
    }
}

#[test]
fn a_bottom_is_bottom() {
    let lattice = integrity(edges(&[("ours", &["theirs"])])).unwrap();
    assert_eq!(lattice.label("ours"), Ok(Label::bottom()));
    assert_eq!(lattice.label("theirs"), lattice.label("untrusted"));
}

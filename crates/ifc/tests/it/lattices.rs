//! The named lattices: their order, their names, and what they refuse.

use ifc::{Dimension, Label, Lattice, LatticeError, Order};

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn levels(names: &[&str]) -> Order {
    Order::Levels(strings(names))
}

fn categories(names: &[&str]) -> Order {
    Order::Categories(strings(names))
}

/// For every pair of names, `a ⊑ b` exactly where `expected(a, b)`; and joins of two names are
/// described by names that mean the same.
fn check(lattice: &Lattice, names: &[&str], expected: impl Fn(&str, &str) -> bool) {
    for a in names {
        for b in names {
            let (la, lb) = (lattice.label(a).unwrap(), lattice.label(b).unwrap());
            assert_eq!(la.flows_to(&lb), expected(a, b), "{a} ⊑ {b}");
            let joined = lattice.labels([*a, *b]).unwrap();
            assert_eq!(joined, la.join(&lb), "{a} ⊔ {b}");
            let described = lattice.describe(&joined);
            let again = lattice.labels(described.iter().map(String::as_str));
            assert_eq!(again, Ok(joined), "{a} ⊔ {b} is described as {described:?}");
        }
    }
}

fn bottoms(name: &str) -> bool {
    ["trusted", "public"].contains(&name)
}

#[test]
fn four_point_is_the_lattice_of_the_paper() {
    let names = [
        "trusted",
        "public",
        "untrusted",
        "secret",
        "any",
        "form:untrusted",
        Lattice::DESCRIPTIONS,
    ];
    let expected = |a: &str, b: &str| {
        let is_below = b == "untrusted" && ["form:untrusted", Lattice::DESCRIPTIONS].contains(&a);
        bottoms(a) || a == b || b == "any" || is_below
    };
    let by_orders = Lattice::new(&Order::TwoPoint, &Order::TwoPoint).unwrap();
    for lattice in [Lattice::four_point(), by_orders] {
        check(&lattice, &names, expected);
        let all: Vec<&str> = lattice.names().collect();
        let own = ["public", "secret", "trusted", "untrusted"];
        assert_eq!(all, [&own[..], &[Lattice::DESCRIPTIONS]].concat());
        assert_eq!(
            lattice.whole(Dimension::Integrity),
            lattice.label("untrusted").unwrap()
        );
        assert_eq!(
            lattice.whole(Dimension::Confidentiality),
            lattice.label("secret").unwrap()
        );
        // (Untrusted, Secret) is above both, and below the unknown.
        let both = lattice.labels(["untrusted", "secret"]).unwrap();
        assert_eq!(lattice.describe(&both), ["untrusted", "secret"]);
        assert!(!both.is_top());
    }
}

#[test]
fn levels_are_a_chain() {
    let chain = ["public", "internal", "confidential", "restricted"];
    let lattice = Lattice::new(&Order::TwoPoint, &levels(&chain)).unwrap();
    let at = |name: &str| chain.iter().position(|level| *level == name);
    check(&lattice, &chain, |a, b| at(a) <= at(b));
    for level in chain {
        let described = lattice.describe(&lattice.label(level).unwrap());
        let expected = if level == "public" {
            vec![]
        } else {
            vec![level]
        };
        assert_eq!(described, expected);
    }
    // The whole dimension is its last level, and integrity stays apart.
    assert_eq!(lattice.label("secret"), lattice.label("restricted"));
    assert_eq!(
        lattice.whole(Dimension::Confidentiality),
        lattice.label("restricted").unwrap()
    );
    check(&lattice, &["untrusted", "restricted"], |a, b| a == b);
    // What a level has beyond a limit is shown by levels as well.
    let (high, low) = (lattice.label("restricted"), lattice.label("internal"));
    let excess = high.unwrap().beyond(&low.unwrap());
    assert_eq!(lattice.describe(&excess), ["confidential", "restricted"]);
}

#[test]
fn both_dimensions_may_be_chains() {
    let lattice = Lattice::new(
        &levels(&["trusted", "checked", "untrusted"]),
        &levels(&["public", "secret", "top-secret"]),
    )
    .unwrap();
    let names = ["checked", "untrusted", "secret", "top-secret"];
    check(&lattice, &names, |a, b| {
        a == b || (a, b) == ("checked", "untrusted") || (a, b) == ("secret", "top-secret")
    });
    assert!(lattice.label("trusted").unwrap().is_bottom());
    assert!(lattice.label("public").unwrap().is_bottom());
}

#[test]
fn categories_are_independent() {
    let lattice = Lattice::new(
        &categories(&["email", "web"]),
        &categories(&["card", "health"]),
    )
    .unwrap();
    let names = [
        "trusted",
        "public",
        "untrusted:email",
        "untrusted:web",
        "untrusted",
        "secret:card",
        "secret:health",
        "secret",
    ];
    check(&lattice, &names, |a, b| {
        bottoms(a) || a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with(':'))
    });
    let all = lattice.labels(["secret:card", "secret:health"]);
    assert_eq!(all, lattice.label("secret"));
}

/// No limit admits descriptions that did not admit all of integrity before, but one that names them.
#[test]
fn descriptions_flow_to_what_admits_all_of_integrity() {
    let two = Order::TwoPoint;
    let check = |integrity: &Order, admits: &[&str], not: &[&str]| {
        let lattice = Lattice::new(integrity, &two).unwrap();
        let own = lattice.descriptions();
        assert!(!own.is_bottom() && own.flows_to(&lattice.whole(Dimension::Integrity)));
        assert_eq!(lattice.describe(&own), [Lattice::DESCRIPTIONS]);
        for (names, expected) in [(admits, true), (not, false)] {
            for name in names {
                let limit = lattice.label(name).unwrap();
                assert_eq!(own.flows_to(&limit), expected, "{integrity:?}: {name}");
            }
        }
    };
    check(&two, &["untrusted", "any"], &["trusted", "secret"]);
    check(&categories(&["mail"]), &["untrusted"], &["untrusted:mail"]);
    let chain = levels(&["trusted", "checked", "stranger"]);
    check(&chain, &["stranger", "untrusted"], &["checked", "trusted"]);
    let above = levels(&["trusted", "untrusted", "hostile"]);
    check(&above, &["hostile"], &["untrusted"]);
    check(&levels(&["trusted"]), &["untrusted"], &["trusted"]);
    // Named by the configuration, it is the same.
    let named = categories(&["mail", "descriptions"]);
    check(
        &named,
        &["untrusted", Lattice::DESCRIPTIONS],
        &["untrusted:mail"],
    );
    // A full lattice has no room for it.
    let names = (1..Lattice::MAX_TAINTS).map(|at| format!("c{at}"));
    let full = Lattice::new(&Order::Categories(names.collect()), &two).unwrap();
    assert_eq!(full.descriptions(), full.whole(Dimension::Integrity));
}

#[test]
fn a_label_of_another_lattice_is_described_without_a_name() {
    let large = Lattice::new(&categories(&["a", "b", "c"]), &Order::TwoPoint).unwrap();
    let label = large.labels(["untrusted:c", "secret"]).unwrap();
    assert_eq!(
        Lattice::four_point().describe(&label),
        ["untrusted:descriptions", "taint-3"]
    );
    assert_eq!(large.describe(&Label::top()), ["any"]);
    assert_eq!(large.describe(&Label::bottom()), [""; 0]);
}

#[test]
fn every_mistake_is_refused() {
    use LatticeError::{BadName, Duplicate, Empty, TooMany};
    let two = Order::TwoPoint;
    let check = |integrity: &Order, confidentiality: &Order, expected: LatticeError| {
        let got = Lattice::new(integrity, confidentiality).map(|_| ());
        assert_eq!(got, Err(expected), "{integrity:?} × {confidentiality:?}");
    };
    let duplicate = |name: &str| Duplicate(name.to_owned());
    let bad = |name: &str| BadName(name.to_owned());

    check(&levels(&["a", "a"]), &two, duplicate("a"));
    check(&levels(&["a", "b"]), &levels(&["c", "a"]), duplicate("a"));
    check(&levels(&["any", "b"]), &two, duplicate("any"));
    check(&categories(&["a", "a"]), &two, duplicate("untrusted:a"));
    // A built-in name keeps its meaning.
    check(&levels(&["low", "trusted"]), &two, duplicate("trusted"));
    check(
        &levels(&["untrusted", "high"]),
        &two,
        duplicate("untrusted"),
    );
    check(&two, &levels(&["low", "public"]), duplicate("public"));
    check(&two, &levels(&["secret"]), duplicate("secret"));
    check(&two, &levels(&["secret", "high"]), duplicate("secret"));
    check(&levels(&["low", "secret"]), &two, duplicate("secret"));
    check(&levels(&["public", "high"]), &two, duplicate("public"));
    check(&two, &levels(&["low", "untrusted"]), duplicate("untrusted"));
    check(&two, &levels(&["trusted", "high"]), duplicate("trusted"));

    let long = "a".repeat(65);
    assert!(Lattice::new(&levels(&["ok", &long[1..]]), &two).is_ok());
    for name in ["", "A", "a b", "a:b", "a,b", "é", "a\n", &long] {
        check(&levels(&["ok", name]), &two, bad(name));
        check(&categories(&[name]), &two, bad(name));
    }
    check(&levels(&[]), &two, Empty(Dimension::Integrity));
    check(&categories(&[]), &two, Empty(Dimension::Integrity));

    let many = |count: usize| Order::Categories((0..count).map(|at| format!("c{at}")).collect());
    assert!(Lattice::new(&many(Lattice::MAX_TAINTS - 1), &two).is_ok());
    check(
        &many(Lattice::MAX_TAINTS),
        &two,
        TooMany(Lattice::MAX_TAINTS + 1),
    );
    check(&many(70_000), &two, TooMany(70_001));
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let lattice = Lattice::new(&Order::TwoPoint, &categories(&["alice", "bob"])).unwrap();
    for name in ["", "Secret", "secret:", "internal", "secret:mallory"] {
        let Err(LatticeError::Unknown { name: told, known }) = lattice.label(name) else {
            unreachable!("'{name}' is a label");
        };
        assert_eq!(told, name);
        for known in known {
            assert!(lattice.label(&known).is_ok(), "'{known}' is offered");
        }
    }
    // Each label of a configuration may be wrong.
    let names: Vec<String> = (0..100).map(|at| format!("r{at}")).collect();
    let large = Lattice::new(&Order::TwoPoint, &Order::Categories(names)).unwrap();
    assert!(large.label("x").unwrap_err().to_string().len() < 2_000);
    assert!(lattice.labels(["secret", "nonsense"]).is_err());
    assert_eq!(lattice.labels([]), Ok(Label::bottom()));
}

#[test]
fn errors_say_what_to_do() {
    let check = |error: LatticeError, expected: &str| assert_eq!(error.to_string(), expected);
    check(
        LatticeError::Duplicate("a".into()),
        "the name 'a' is taken in this lattice; choose another",
    );
    check(
        LatticeError::BadName("A".into()),
        "'A' is not a name: use at most 64 lowercase letters, digits, '-', '_' and '.'",
    );
    check(
        LatticeError::Empty(Dimension::Integrity),
        "the integrity order has no names",
    );
    check(
        LatticeError::TooMany(5000),
        "5000 taints are more than the 128 that a lattice may have",
    );
    check(
        Lattice::four_point().label("x").unwrap_err(),
        "there is no label 'x' in this lattice; it has public, secret, trusted, untrusted, untrusted:descriptions, any",
    );
}

/// A text for several groups is for those who are in all of them, and prints as who may read it.
#[test]
fn readers_are_groups_that_may_read() {
    let readers = Order::Readers(strings(&["hr", "finance"]));
    let lattice = Lattice::new(&Order::TwoPoint, &readers).unwrap();
    check(
        &lattice,
        &["public", "readers:hr", "readers:finance", "secret"],
        |a, b| a == b || a == "public" || b == "secret",
    );
    let both = lattice.labels(["readers:hr", "readers:finance"]).unwrap();
    assert_eq!(both, lattice.whole(Dimension::Confidentiality));
    assert_eq!(lattice.describe(&both), ["readers:hr", "readers:finance"]);
    assert!(lattice.label("secret:hr").is_err());
}

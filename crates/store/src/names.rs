//! Labels as names of taints.
//!
//! Taints come and go with the configuration, and their numbers change, so stored labels are names. After a change of the
//! lattice the label of a text may only rise, and a limit that the user agreed to may only vanish.

use std::collections::BTreeSet;

use ifc::{Dimension, Label, Lattice};

/// The name of ⊤.
const ANY: &str = "any";
/// The prefix of the categories of a dimension, and the name of all of them together.
const CATEGORIES: [(Dimension, &str, &str); 3] = [
    (Dimension::Integrity, "untrusted:", "untrusted"),
    (Dimension::Confidentiality, "secret:", "secret"),
    (Dimension::Confidentiality, "readers:", "secret"),
];

/// Writes and reads labels of one lattice.
#[derive(Debug, Clone)]
pub(crate) struct Names(Lattice);

/// The label of a text, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadLabel {
    /// ⊤ if any name is unknown.
    pub(crate) label: Label,
    /// Names that the lattice does not have.
    pub(crate) unknown: Vec<String>,
}

impl Names {
    pub(crate) fn new(lattice: Lattice) -> Self {
        Self(lattice)
    }

    /// The names of the label of a text. The label read from them is never below `label`, in this lattice or a larger one.
    pub(crate) fn label_names(&self, label: &Label) -> Vec<String> {
        let mut names = self.0.describe(label);
        for (dimension, prefix, whole) in CATEGORIES {
            let categories = names.iter().filter(|name| name.starts_with(prefix));
            // The name of all categories includes later ones; a single category does not.
            if categories.count() > 1 && self.0.whole(dimension).flows_to(label) {
                names.retain(|name| !name.starts_with(prefix));
                names.push(whole.to_owned());
            }
        }
        // The label that is read back must not be below, or the label is stored as ⊤.
        match self.0.labels(names.iter().map(String::as_str)) {
            Ok(read) if label.flows_to(&read) => names,
            _ => vec![ANY.to_owned()],
        }
    }

    /// The names of the label of a derived text: its own and all of its sources', so that it is at or above them in every
    /// later lattice too.
    pub(crate) fn derived_names(&self, label: &Label, sources: BTreeSet<String>) -> Vec<String> {
        let mut names = self.label_names(label);
        // ⊤ is ⊤ in every lattice.
        if !names.iter().any(|name| name == ANY) {
            let more = sources.into_iter().filter(|name| !names.contains(name));
            let more: Vec<String> = more.collect();
            names.extend(more);
        }
        names
    }

    /// The label of a text with these names: ⊤ if one of them no longer exists.
    pub(crate) fn label(&self, names: &[String]) -> ReadLabel {
        let missing = |name: &&String| self.0.label(name).is_err();
        let unknown = names.iter().filter(missing).cloned().collect();
        let label = self.0.labels(names.iter().map(String::as_str));
        ReadLabel {
            label: label.unwrap_or(Label::top()),
            unknown,
        }
    }

    /// Every taint of a limit by name, sorted; `None` if it is ⊤ or has taints without a name.
    pub(crate) fn limit_names(&self, limit: &Label) -> Option<Vec<String>> {
        let count = limit.taints()?.count();
        let formed = limit.formed_taints();
        let mut names = Vec::new();
        for (name, taint) in self.0.taints() {
            if taint.flows_to(&formed) {
                names.push(format!("{}{name}", Lattice::FORM));
            } else if taint.flows_to(limit) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        (names.len() == count && self.join(&names)? == *limit).then_some(names)
    }

    /// The limit with these taints; `None` if a name no longer exists, or covers other taints than before.
    pub(crate) fn limit(&self, names: &[String]) -> Option<Label> {
        let limit = self.join(names)?;
        // Descriptions had all of integrity before they had a name of their own, so a limit that has all of it has them.
        let others = |names: &[String]| -> Vec<String> {
            let others = names.iter().filter(|name| *name != Lattice::DESCRIPTIONS);
            others.cloned().collect()
        };
        (others(&self.limit_names(&limit)?) == others(names)).then_some(limit)
    }

    fn join(&self, names: &[String]) -> Option<Label> {
        self.0.labels(names.iter().map(String::as_str)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifc::Order;
    use proptest::prelude::*;

    fn words(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn names(confidentiality: Order) -> Names {
        let integrity = Order::Categories(words(&["mail", "web"]));
        Names::new(Lattice::new(&integrity, &confidentiality).unwrap())
    }

    fn levels(names_of: &[&str]) -> Names {
        names(Order::Levels(words(names_of)))
    }

    #[test]
    fn a_name_that_no_longer_exists_makes_the_whole_label_top() {
        let read = levels(&["public", "secret"]).label(&words(&["untrusted:mail", "secret:card"]));
        assert!(read.label.is_top());
        assert_eq!(read.unknown, ["secret:card"]);
    }

    #[test]
    fn secret_without_further_detail_has_later_categories_too() {
        let categories = |all: &[&str]| names(Order::Categories(words(all)));
        let (before, after) = (
            categories(&["card", "home"]),
            categories(&["card", "home", "health"]),
        );
        let secret = before.0.label("secret").unwrap();
        let read = after.label(&before.label_names(&secret)).label;
        assert_eq!(read, after.0.label("secret").unwrap());
        let card = before.0.label("secret:card").unwrap();
        let read = after.label(&before.label_names(&card)).label;
        assert_eq!(read, after.0.label("secret:card").unwrap());
    }

    #[test]
    fn a_limit_from_before_descriptions_had_a_name_covers_no_more() {
        let (two, two_points) = (Order::TwoPoint, Order::TwoPoint);
        let plain = Names::new(Lattice::new(&two, &two_points).unwrap());
        let untrusted = plain.0.label("untrusted").unwrap();
        assert_eq!(plain.limit(&words(&["untrusted"])), Some(untrusted));
        let several = names(Order::TwoPoint);
        let all = several.limit(&words(&["untrusted:mail", "untrusted:web"]));
        assert!(!several.0.descriptions().flows_to(&all.unwrap()));
        let own = several.limit_names(&several.0.descriptions()).unwrap();
        assert_eq!(several.limit(&own), Some(several.0.descriptions()));
    }

    #[test]
    fn a_limit_vanishes_when_its_names_mean_more() {
        let before = levels(&["public", "internal", "secret"]);
        let stored = before.limit_names(&before.0.label("internal").unwrap());
        let stored = stored.unwrap();
        assert!(before.limit(&stored).is_some());
        assert!(
            levels(&["public", "team", "internal"])
                .limit(&stored)
                .is_none()
        );
        assert!(levels(&["public", "secret"]).limit(&stored).is_none());
        // A level above it changes nothing.
        assert!(
            levels(&["public", "internal", "top"])
                .limit(&stored)
                .is_some()
        );
    }

    #[test]
    fn top_is_no_limit() {
        let names = levels(&["public", "secret"]);
        assert_eq!(names.limit_names(&Label::top()), None);
        assert_eq!(names.limit(&words(&[ANY])), None);
    }

    fn lattices() -> impl Strategy<Value = Names> {
        prop_oneof![
            Just(names(Order::TwoPoint)),
            Just(names(Order::Levels(words(&[
                "public", "internal", "secret"
            ])))),
            Just(names(Order::Categories(words(&["card", "health", "home"])))),
        ]
    }

    proptest! {
        /// Joins of named labels come back as they were; a limit too.
        #[test]
        fn labels_come_back(names in lattices(), formed in any::<bool>(), chosen in proptest::collection::vec(any::<proptest::sample::Index>(), 0..5)) {
            let all: Vec<&str> = names.0.names().collect();
            let label = names.0.labels(chosen.iter().map(|at| *at.get(&all))).unwrap();
            let label = if formed { label.formed() } else { label };
            let read = names.label(&names.label_names(&label));
            prop_assert_eq!(&read.label, &label);
            prop_assert!(read.unknown.is_empty());
            let limit = names.limit_names(&label).and_then(|stored| names.limit(&stored));
            prop_assert_eq!(limit, Some(label));
        }

        /// Any set of taints comes back at or above itself.
        #[test]
        fn no_label_comes_back_lower(names in lattices(), bits in any::<u16>()) {
            let every: Label = names.0.taints().map(|(_, label)| label).fold(Label::bottom(), |a, b| a.join(&b));
            let label: Label = every.taints().unwrap().filter(|taint| bits & (1 << taint.index()) != 0).collect();
            prop_assert!(label.flows_to(&names.label(&names.label_names(&label)).label));
            if let Some(limit) = names.limit_names(&label).and_then(|stored| names.limit(&stored)) {
                prop_assert_eq!(limit, label);
            }
        }
    }
}

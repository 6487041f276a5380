//! The laws of labels, one test each.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::common::{join_of, labels, taints, unendorsed};
use ifc::Label;
use proptest::prelude::*;

fn bottom() -> Label {
    Label::bottom()
}

fn top() -> Label {
    Label::top()
}

/// A label with one that is often, but not always, above it.
fn pairs() -> impl Strategy<Value = (Label, Label)> {
    (labels(), labels(), any::<bool>())
        .prop_map(|(a, b, above)| (a.clone(), if above { a.join(&b) } else { b }))
}

fn hash(label: &Label) -> u64 {
    let mut hasher = DefaultHasher::new();
    label.hash(&mut hasher);
    hasher.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn join_is_associative(a in labels(), b in labels(), c in labels()) {
        prop_assert_eq!(a.join(&b).join(&c), a.join(&b.join(&c)));
    }

    #[test]
    fn join_is_commutative(a in labels(), b in labels()) {
        prop_assert_eq!(a.join(&b), b.join(&a));
    }

    #[test]
    fn join_is_idempotent(a in labels()) {
        prop_assert_eq!(a.join(&a), a);
    }

    #[test]
    fn bottom_is_the_identity_of_join(a in labels()) {
        prop_assert_eq!(a.join(&bottom()), a);
    }

    #[test]
    fn top_absorbs(a in labels()) {
        prop_assert_eq!(a.join(&top()), top());
    }

    #[test]
    fn flows_to_is_reflexive(a in labels()) {
        prop_assert!(a.flows_to(&a));
    }

    #[test]
    fn flows_to_is_transitive((a, b) in pairs(), extra in labels(), above in any::<bool>()) {
        let c = if above { b.join(&extra) } else { extra };
        prop_assert!(!(a.flows_to(&b) && b.flows_to(&c)) || a.flows_to(&c));
    }

    #[test]
    fn flows_to_is_antisymmetric((a, b) in pairs()) {
        prop_assert_eq!(a.flows_to(&b) && b.flows_to(&a), a == b);
    }

    #[test]
    fn bottom_flows_everywhere_and_only_top_flows_from_top(a in labels()) {
        prop_assert!(bottom().flows_to(&a) && a.flows_to(&top()));
        prop_assert_eq!(top().flows_to(&a), a.is_top());
        prop_assert_eq!(a.flows_to(&bottom()), a.is_bottom());
    }

    #[test]
    fn join_is_an_upper_bound(a in labels(), b in labels()) {
        prop_assert!(a.flows_to(&a.join(&b)));
    }

    #[test]
    fn join_is_the_least_upper_bound(a in labels(), (b, c) in pairs(), above in any::<bool>()) {
        let c = if above { c.join(&a) } else { c };
        prop_assert_eq!(a.flows_to(&c) && b.flows_to(&c), a.join(&b).flows_to(&c));
    }

    #[test]
    fn meet_is_the_greatest_lower_bound(a in labels(), (b, c) in pairs(), below in any::<bool>()) {
        let c = if below { c.meet(&a) } else { c };
        prop_assert_eq!(c.flows_to(&a) && c.flows_to(&b), c.flows_to(&a.meet(&b)));
    }

    #[test]
    fn meet_and_join_absorb_each_other(a in labels(), b in labels()) {
        prop_assert_eq!(a.meet(&a.join(&b)), a.clone());
        prop_assert_eq!(a.join(&a.meet(&b)), a);
    }

    #[test]
    fn the_order_is_the_one_of_join((a, b) in pairs()) {
        prop_assert_eq!(a.flows_to(&b), a.join(&b) == b);
    }

    #[test]
    fn beyond_is_empty_exactly_for_a_flow((x, l) in pairs()) {
        prop_assert_eq!(x.flows_to(&l), x.beyond(&l).is_bottom());
    }

    #[test]
    fn beyond_is_what_a_limit_lacks((l, x) in pairs()) {
        prop_assert!(x.flows_to(&l.join(&x.beyond(&l))));
        prop_assert!(x.beyond(&l).flows_to(&x));
    }

    #[test]
    fn a_label_is_the_set_of_its_taints(
        a in proptest::collection::btree_set(taints(), 0..8),
        b in proptest::collection::btree_set(taints(), 0..8),
    ) {
        let (x, y) = (join_of(a.iter().copied()), join_of(b.iter().copied()));
        let set = |label: &Label| -> BTreeSet<usize> {
            label.taints().unwrap().map(ifc::Taint::index).collect()
        };
        prop_assert_eq!(&set(&x), &a);
        prop_assert_eq!(set(&x.join(&y)), &a | &b);
        prop_assert_eq!(set(&x.beyond(&y)), &a - &b);
        prop_assert_eq!(x.flows_to(&y), a.is_subset(&b));
        prop_assert_eq!(x == y, a == b);
        prop_assert_eq!(x.taints().unwrap().collect::<Label>(), x.clone());
        prop_assert!(x.taints().unwrap().is_sorted());
    }

    /// A label that has been large and is small again is the small label.
    #[test]
    fn equal_sets_are_equal_labels(a in unendorsed(), b in unendorsed()) {
        prop_assume!(!b.is_top());
        let back = a.join(&b).beyond(&b.beyond(&a));
        prop_assert_eq!(&back, &a);
        prop_assert_eq!(hash(&back), hash(&a));
    }

    /// An endorsed taint is strictly below the taint, is no other one, and has its name.
    #[test]
    fn an_endorsed_label_is_below_the_label(a in labels(), taints in labels(), limit in labels()) {
        let endorsed = a.endorse_tcb(&taints, 0);
        prop_assert!(endorsed.flows_to(&a));
        prop_assert_eq!(endorsed.unendorsed(), a.unendorsed());
        prop_assert_eq!(endorsed.endorse_tcb(&taints, 1), endorsed.clone());
        prop_assert!(!a.flows_to(&limit) || endorsed.flows_to(&limit));
        let none = a.is_top() || taints.is_top() || a.plain().meet(taints.plain()).is_bottom();
        prop_assert_eq!(endorsed == a, none);
    }

    /// A value of a checked form flows where its taints may, and to limits that admit forms.
    #[test]
    fn a_formed_label_is_below_the_label(a in labels(), limit in unendorsed()) {
        let formed = a.formed();
        prop_assert!(formed.flows_to(&a.unendorsed()));
        prop_assert!(a.is_top() || formed.flows_to(&limit.join(&Label::forms())));
        prop_assert_eq!(formed.flows_to(&limit), a.unendorsed().flows_to(&limit));
        // What the user vouches for is another matter.
        prop_assert_eq!(formed.without_trust(), formed.clone());
        let endorsed = a.unendorsed().endorse_tcb(&a.unendorsed(), 0);
        prop_assert!(a.is_top() || endorsed.without_trust().is_bottom());
    }

    #[test]
    fn one_endorsement_is_none_by_another(a in unendorsed(), at in taints()) {
        let a = if a.is_top() { join_of([at]) } else { a.join(&join_of([at])) };
        let (one, other) = (a.endorse_tcb(&a, 0), a.endorse_tcb(&a, 1));
        prop_assert!(!one.flows_to(&other) && !other.flows_to(&one) && !a.flows_to(&one.join(&other)));
        prop_assert!(one.meet(&other).is_bottom());
    }

    #[test]
    fn collecting_labels_joins_them(all in proptest::collection::vec(labels(), 0..6)) {
        let joined: Label = all.iter().collect();
        prop_assert!(all.iter().all(|label| label.flows_to(&joined)));
        prop_assert_eq!(joined, all.iter().fold(bottom(), |joined, label| label.join(&joined)));
    }
}

#[test]
fn top_has_no_list_of_taints() {
    assert!(top().taints().is_none());
    assert_eq!(bottom().taints().unwrap().count(), 0);
    assert!(top().is_top() && !top().is_bottom());
    assert!(bottom().is_bottom() && !bottom().is_top());
    // Every taint there is still does not make ⊤: it is above taints that nobody has named.
    let all = join_of(0..crate::common::CATEGORIES);
    assert!(all.flows_to(&top()) && !top().flows_to(&all));
    assert_eq!(top().beyond(&all), top());
}

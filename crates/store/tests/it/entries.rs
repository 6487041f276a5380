//! Adding, listing, showing.

use ifc::{Label, Lattice, Order};
use store::{Content, Draft, Limits, Memory, MemoryError, Namespace, Speaker, Time};

use crate::{Back, Damage, app, apps, derived, found, found_in, id, ids, label, said};

const HUB: Namespace = Namespace::Hub;

pub(crate) fn entries_come_back_as_added(back: &impl Back) {
    let top = Label::top();
    let fact = Draft {
        id: id(3),
        content: Content::Fact {
            entity: "Karin".to_owned(),
            attribute: "tele\u{0}phone\n".to_owned(),
            value: "0123 'x' \"y\" 🙂".to_owned(),
        },
        label: label(&["untrusted:mail", "secret:card"]),
        sources: vec![id(2), id(1), id(2)],
        origin: "mail from karin@example.com".to_owned(),
        time: Time::from_millis(-5),
    };
    let system = Draft {
        content: Content::Interaction {
            speaker: Speaker::System,
            text: String::new(),
        },
        ..said(2, "", &["secret:card"])
    };
    let drafts = [said(1, "Write to Karin.", &[]), system, fact];
    back.open().append(&HUB, &drafts).unwrap();
    let other = said(4, "other", &[]);
    back.open().append(&app("mail"), &[other]).unwrap();

    // As another process would see it.
    let memory = back.open();
    let listed = memory.list(&HUB, 10, &top).unwrap();
    assert_eq!(ids(&listed), [id(3), id(2), id(1)]);
    assert_eq!(memory.list(&HUB, 1, &top).unwrap(), listed[..1]);
    for (entry, draft) in listed.iter().rev().zip(&drafts) {
        assert_eq!(entry.content, draft.content);
        assert_eq!(entry.label, draft.label);
        assert_eq!(entry.origin, draft.origin);
        assert_eq!(entry.time, draft.time);
        assert_eq!(entry.namespace, HUB);
        assert_eq!(entry.unknown, [""; 0]);
        assert_eq!(memory.show(entry.id, &top).unwrap().as_ref(), Some(entry));
        // `Debug` shows no text.
        for shown in [format!("{entry:?}"), format!("{draft:?}")] {
            assert!(
                !shown.contains("Karin") && !shown.contains("chat"),
                "{shown}"
            );
        }
    }
    // Each source once, in the order that was given.
    assert_eq!(listed[0].sources, [id(2), id(1)]);
    assert_eq!(memory.namespaces().unwrap(), [HUB, app("mail")]);
}

pub(crate) fn a_reader_gets_what_flows_to_it(back: &impl Back) {
    let memory = back.open();
    let drafts = [
        said(1, "public", &[]),
        said(2, "mail", &["untrusted:mail"]),
        said(3, "card", &["secret:card"]),
        said(4, "unknown", &["any"]),
    ];
    memory.append(&HUB, &drafts).unwrap();
    for (at, seen) in [
        (label(&[]), &[1][..]),
        (label(&["untrusted:mail"]), &[2, 1]),
        (label(&["untrusted:mail", "secret:card"]), &[3, 2, 1]),
        (label(&["any"]), &[4, 3, 2, 1]),
    ] {
        let seen: Vec<_> = seen.iter().map(|number| id(*number)).collect();
        assert_eq!(ids(&memory.list(&HUB, 10, &at).unwrap()), seen);
        for number in 1..=4 {
            let shown = memory.show(id(number), &at).unwrap();
            assert_eq!(shown.is_some(), seen.contains(&id(number)));
        }
    }
}

pub(crate) fn a_derived_entry_is_at_or_above_its_sources(back: &impl Back) {
    let memory = back.open();
    let sources = [
        said(1, "a", &["untrusted:mail"]),
        said(2, "b", &["secret:card"]),
    ];
    memory.append(&HUB, &sources).unwrap();
    for low in [
        &[][..],
        &["untrusted:mail"],
        &["secret:card", "secret:home"],
    ] {
        let refused = memory.append(&app("mail"), &[derived(3, "s", low, &[1, 2])]);
        let Err(MemoryError::LabelTooLow { id: low, missing }) = refused else {
            panic!("{low:?} was not refused for its label");
        };
        assert_eq!((low, missing.len()), (id(3), 1));
    }
    let enough = ["untrusted:mail", "secret:card"];
    let summary = derived(3, "s", &enough, &[1, 2]);
    memory.append(&app("mail"), &[summary]).unwrap();
    // A derived entry is a source itself.
    let refused = memory.append(&HUB, &[derived(4, "t", &["secret:card"], &[3])]);
    assert!(matches!(refused, Err(MemoryError::LabelTooLow { .. })));
    for missing in [77, 4] {
        let refused = memory.append(&HUB, &[derived(4, "t", &enough, &[3, missing])]);
        assert!(matches!(refused, Err(MemoryError::Missing(id)) if id == crate::id(missing)));
    }
}

/// A lattice in between says less: an entry made under it is at or above its sources when there is more to say
/// again.
pub(crate) fn derived_entries_stay_above_in_later_lattices(back: &impl Back) {
    let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
    let categories = |all: &[&str]| Order::Categories(words(all));
    let levels = |all: &[&str]| Order::Levels(words(all));
    // A label, its order, and an order in which it is less than it was.
    let changes = [
        (
            "secret",
            categories(&["card", "home"]),
            categories(&["card"]),
        ),
        (
            "internal",
            levels(&["public", "internal", "private"]),
            levels(&["internal", "private"]),
        ),
    ];
    for (number, (name, before, between)) in (0..).zip(&changes) {
        let open = |order: &Order| {
            let lattice = Lattice::new(&categories(&["mail"]), order).unwrap();
            (lattice.clone(), back.open_with(lattice, Limits::default()))
        };
        let first = number * 10;
        let (all, memory) = open(before);
        let label = all.label(name).unwrap();
        let source = Draft {
            label: label.clone(),
            ..said(first, "word", &[])
        };
        memory.append(&HUB, &[source]).unwrap();
        let (less, other) = open(between);
        // In one batch, an entry and what follows from it.
        let batch = [1, 2].map(|number| Draft {
            label: less.label(name).unwrap(),
            ..derived(first + number, "word", &[], &[first + number - 1])
        });
        other.append(&HUB, &batch).unwrap();
        for number in [first + 1, first + 2] {
            let shown = |memory: &dyn Memory| {
                let entry = memory.show(id(number), &Label::top()).unwrap();
                entry.unwrap().label
            };
            assert_eq!(shown(&*other), less.label(name).unwrap(), "{name}");
            assert_eq!(shown(&*memory), label, "{name}");
        }
    }
}

pub(crate) fn a_batch_is_added_as_a_whole(back: &impl Back) {
    let memory = back.open();
    let top = Label::top();
    let turn = said(1, "Karin's number is 0123.", &["secret:card"]);
    let too_low = derived(2, "0123", &[], &[1]);
    let refused = memory.append(&HUB, &[turn.clone(), too_low]);
    assert!(matches!(refused, Err(MemoryError::LabelTooLow { .. })));
    let twice = memory.append(&HUB, &[said(2, "a", &[]), said(2, "b", &[])]);
    assert!(matches!(twice, Err(MemoryError::Taken(_))));
    assert_eq!(memory.list(&HUB, 9, &top).unwrap(), []);

    let fact = derived(2, "0123", &["secret:card"], &[1]);
    memory.append(&HUB, &[turn.clone(), fact]).unwrap();
    assert_eq!(ids(&memory.list(&HUB, 9, &top).unwrap()), [id(2), id(1)]);
    let again = memory.append(&app("mail"), &[turn]);
    assert!(matches!(again, Err(MemoryError::Taken(_))));
    memory.append(&HUB, &[]).unwrap();
}

pub(crate) fn an_unknown_taint_makes_an_entry_top(back: &impl Back) {
    let drafts = [
        said(1, "needle", &["untrusted:mail", "secret:card"]),
        said(2, "needle", &["untrusted:mail"]),
    ];
    back.open().append(&HUB, &drafts).unwrap();
    let integrity = Order::Categories(vec!["mail".to_owned()]);
    let smaller = Lattice::new(&integrity, &Order::TwoPoint).unwrap();
    let everything_named = smaller.labels(["untrusted", "secret"]).unwrap();
    let memory = back.open_with(smaller, Limits::default());
    let entry = memory.show(id(1), &Label::top()).unwrap().unwrap();
    assert!(entry.label.is_top());
    assert_eq!(entry.unknown, ["secret:card"]);
    let listed = memory.list(&HUB, 9, &everything_named).unwrap();
    assert_eq!(ids(&listed), [id(2)]);
    assert_eq!(found(&*memory, "needle", &everything_named), [id(2)]);
    // An entry that is derived from it is ⊤ too.
    let summary = Draft {
        label: everything_named,
        ..derived(3, "s", &[], &[1])
    };
    let refused = memory.append(&HUB, &[summary]);
    assert!(matches!(refused, Err(MemoryError::LabelTooLow { .. })));
}

/// Whether the entry is damaged before or after it has been searched for.
pub(crate) fn damaged_entries_leave_the_others(back: &impl Back) {
    for (number, damage) in (0..).zip([Damage::Kind, Damage::Text]) {
        let namespace = app(&format!("mail-{number}"));
        let first = number * 10;
        let drafts = [0, 1, 2].map(|at| said(first + at, "word", &["secret:card"]));
        let warm = back.open();
        warm.append(&namespace, &drafts).unwrap();
        let at = label(&["secret:card"]);
        let all = [2, 1, 0].map(|at| id(first + at));
        assert_eq!(found_in(&*warm, &namespace, "word", &at), all);
        back.damage(all[1], damage);
        for memory in [warm, back.open()] {
            let left = [all[0], all[2]];
            assert_eq!(
                found_in(&*memory, &namespace, "word", &at),
                left,
                "{damage:?}"
            );
            let list = memory.list(&namespace, 9, &Label::top()).unwrap();
            assert_eq!(ids(&list), left, "{damage:?}");
            let shown = memory.show(all[1], &Label::top());
            assert!(matches!(shown, Err(MemoryError::Unreadable { id, .. }) if id == all[1]));
        }
        let memory = back.open();
        assert_eq!(memory.unreadable(&namespace).unwrap(), [all[1]]);
        assert_eq!(memory.ids(&namespace).unwrap().len(), 3);
        let forgotten = memory.forget(&[all[1]]).unwrap();
        assert_eq!(forgotten.family.unreadable, [all[1]]);
        assert_eq!(memory.ids(&namespace).unwrap(), [all[2], all[0]]);
        assert_eq!(memory.unreadable(&namespace).unwrap(), []);
    }
}

/// The attack: another app takes the name of one that is gone.
pub(crate) fn apps_of_one_name_have_separate_memories(back: &impl Back) {
    let memory = back.open();
    let long: Vec<String> = (0..9).map(|number| format!("{number:x>256}")).collect();
    let long: Vec<(&str, u8)> = long.iter().map(|name| (name.as_str(), 1)).collect();
    let top = Label::top();
    let mut whose = [
        Namespace::Hub,
        apps(&long),
        apps(&[("mail", 1)]),
        apps(&[("mail", 1), ("web", 1)]),
    ];
    for (number, namespace) in (0..).zip(&whose) {
        let draft = said(number, "word", &["secret:card"]);
        memory.append(namespace, &[draft]).unwrap();
    }
    for other in [
        apps(&long[1..]),
        apps(&[("mail", 2)]),
        apps(&[("mail", 1), ("web", 2)]),
        apps(&[("mail", 2), ("web", 1)]),
        apps(&[("mail", 1), ("other", 1)]),
    ] {
        assert_eq!(memory.list(&other, 9, &top).unwrap(), []);
        assert_eq!(found_in(&*memory, &other, "word", &top), [], "{other:?}");
        assert_eq!(memory.labels(&other).unwrap(), [], "{other:?}");
        assert_eq!(memory.ids(&other).unwrap(), [], "{other:?}");
    }
    for (number, namespace) in (0..).zip(&whose) {
        assert_eq!(found_in(&*memory, namespace, "word", &top), [id(number)]);
        let entry = memory.show(id(number), &top).unwrap().unwrap();
        assert_eq!(entry.namespace, *namespace);
    }
    whose.sort_unstable();
    assert_eq!(back.open().namespaces().unwrap(), whose);
}

/// Two handles, as two processes have them.
pub(crate) fn handles_share_one_memory(back: &impl Back) {
    let (one, other) = (back.open(), back.open());
    let bottom = label(&[]);
    for (number, text, all) in [(1, "first word", &[1][..]), (2, "second word", &[2, 1])] {
        one.append(&HUB, &[said(number, text, &[])]).unwrap();
        let all: Vec<_> = all.iter().map(|number| id(*number)).collect();
        assert_eq!(found(&*other, "word", &bottom), all);
    }
    one.forget(&[id(1)]).unwrap();
    assert_eq!(found(&*other, "word", &bottom), [id(2)]);
    assert_eq!(found(&*other, "first", &bottom), []);
    // As many entries as before, but others.
    one.forget(&[id(2)]).unwrap();
    one.append(&HUB, &[said(3, "third word", &[])]).unwrap();
    assert_eq!(found(&*other, "word", &bottom), [id(3)]);
}

pub(crate) fn concurrent_writers_lose_nothing(back: &impl Back) {
    const EACH: u32 = 20;
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let memory = back.open();
            scope.spawn(move || {
                for at in 0..EACH {
                    let number = writer * 1000 + 2 * at;
                    let pair = [
                        said(number, "turn", &[]),
                        derived(number + 1, "sum", &[], &[number]),
                    ];
                    memory.append(&HUB, &pair).unwrap();
                    if at % 10 == 9 {
                        let forgotten = memory.forget(&[id(number)]).unwrap();
                        assert_eq!(forgotten.family.entries.len(), 2);
                    }
                    found(&*memory, "turn", &label(&[]));
                }
            });
        }
    });
    let memory = back.open();
    let left = memory.list(&HUB, 1000, &label(&[])).unwrap();
    assert_eq!(left.len(), 3 * 2 * (EACH as usize - 2));
    assert_eq!(found(&*memory, "turn", &label(&[])).len(), left.len() / 2);
}

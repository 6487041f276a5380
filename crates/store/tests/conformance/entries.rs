//! Adding, listing, showing.

use ifc::{Label, Lattice, Order};
use store::{
    Content, Draft, Entry, EntryId, Kind, Limits, Memory, MemoryError, Namespace, Page, Query, Time,
};

use crate::backs::{Back, Damage};
use crate::{app, derived, id, label, open, said};

fn ids(entries: &[Entry]) -> Vec<store::EntryId> {
    entries.iter().map(|entry| entry.id).collect()
}

pub(crate) fn what_is_added_is_there_again(back: &impl Back) {
    let top = ifc::Label::top();
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
            speaker: store::Speaker::System,
            text: String::new(),
        },
        ..said(2, "", &["secret:card"])
    };
    let drafts = [said(1, "Write to Karin.", &[]), system, fact];
    open(back).append(&Namespace::Hub, &drafts).unwrap();
    open(back)
        .append(&app("mail"), &[said(4, "other", &[])])
        .unwrap();

    // As another process would see it.
    let memory = open(back);
    let listed = memory
        .list(&Namespace::Hub, &Page::newest(10), &top)
        .unwrap();
    assert_eq!(ids(&listed), [id(3), id(2), id(1)]);
    for (entry, draft) in listed.iter().rev().zip(&drafts) {
        assert_eq!(entry.content, draft.content);
        assert_eq!(entry.label, draft.label);
        assert_eq!(entry.origin, draft.origin);
        assert_eq!(entry.time, draft.time);
        assert_eq!(entry.namespace, Namespace::Hub);
        assert_eq!(entry.unknown, [""; 0]);
        assert_eq!(memory.show(entry.id, &top).unwrap().as_ref(), Some(entry));
    }
    // Each source once, in the order that was given.
    assert_eq!(listed[0].sources, [id(2), id(1)]);
    assert_eq!(memory.namespaces().unwrap(), [Namespace::Hub, app("mail")]);
}

pub(crate) fn a_reader_gets_what_flows_to_it(back: &impl Back) {
    let memory = open(back);
    let drafts = [
        said(1, "public", &[]),
        said(2, "mail", &["untrusted:mail"]),
        said(3, "card", &["secret:card"]),
        said(4, "unknown", &["any"]),
    ];
    memory.append(&Namespace::Hub, &drafts).unwrap();
    for (at, seen) in [
        (label(&[]), &[1][..]),
        (label(&["untrusted:mail"]), &[2, 1]),
        (label(&["untrusted:mail", "secret:card"]), &[3, 2, 1]),
        (label(&["any"]), &[4, 3, 2, 1]),
    ] {
        let listed = memory
            .list(&Namespace::Hub, &Page::newest(10), &at)
            .unwrap();
        let seen: Vec<_> = seen.iter().map(|number| id(*number)).collect();
        assert_eq!(ids(&listed), seen);
        for number in 1..=4 {
            let shown = memory.show(id(number), &at).unwrap();
            assert_eq!(shown.is_some(), seen.contains(&id(number)));
        }
    }
}

pub(crate) fn a_page_goes_on_where_another_ended(back: &impl Back) {
    let memory = open(back);
    let top = ifc::Label::top();
    for number in 0..10 {
        let draft = match number % 2 {
            0 => said(number, "turn", &[]),
            _ => derived(number, "summary", &["secret:card"], &[number - 1]),
        };
        memory.append(&Namespace::Hub, &[draft]).unwrap();
    }
    let page = |kind, before: Option<u32>| Page {
        kind,
        before: before.map(id),
        most: 2,
    };
    for (page, expected) in [
        (page(None, None), [9, 8]),
        (page(None, Some(8)), [7, 6]),
        (page(Some(Kind::Summary), None), [9, 7]),
        (page(Some(Kind::Interaction), Some(7)), [6, 4]),
    ] {
        let listed = memory.list(&Namespace::Hub, &page, &top).unwrap();
        assert_eq!(ids(&listed), expected.map(id), "{page:?}");
    }
    let facts = memory.list(&Namespace::Hub, &page(Some(Kind::Fact), None), &top);
    assert_eq!(facts.unwrap(), []);
    // A page that would begin at what the reader may not see is as one that begins at nothing.
    let refused = |before| {
        let page = page(None, Some(before));
        memory
            .list(&Namespace::Hub, &page, &label(&[]))
            .unwrap_err()
    };
    assert!(matches!(refused(9), MemoryError::Missing(missing) if missing == id(9)));
    assert!(matches!(refused(99), MemoryError::Missing(missing) if missing == id(99)));
}

pub(crate) fn a_derived_entry_is_at_or_above_its_sources(back: &impl Back) {
    let memory = open(back);
    let sources = [
        said(1, "a", &["untrusted:mail"]),
        said(2, "b", &["secret:card"]),
    ];
    memory.append(&Namespace::Hub, &sources).unwrap();
    for low in [
        &[][..],
        &["untrusted:mail"],
        &["secret:card", "secret:home"],
    ] {
        let refused = memory.append(&app("mail"), &[derived(3, "s", low, &[1, 2])]);
        let Err(MemoryError::LabelTooLow { id: low, missing }) = refused else {
            panic!("{low:?} was not refused for its label");
        };
        assert_eq!(low, id(3));
        assert_eq!(missing.len(), 1);
    }
    let enough = ["untrusted:mail", "secret:card"];
    memory
        .append(&app("mail"), &[derived(3, "s", &enough, &[1, 2])])
        .unwrap();
    // What was derived is a source itself.
    let refused = memory.append(&Namespace::Hub, &[derived(4, "t", &["secret:card"], &[3])]);
    assert!(matches!(refused, Err(MemoryError::LabelTooLow { .. })));
    let unknown = memory.append(&Namespace::Hub, &[derived(4, "t", &enough, &[3, 77])]);
    assert!(matches!(unknown, Err(MemoryError::Missing(missing)) if missing == id(77)));
    let itself = memory.append(&Namespace::Hub, &[derived(4, "t", &enough, &[4])]);
    assert!(matches!(itself, Err(MemoryError::Missing(missing)) if missing == id(4)));
}

pub(crate) fn all_of_a_batch_is_added_or_none(back: &impl Back) {
    let memory = open(back);
    let top = ifc::Label::top();
    let turn = said(1, "Karin's number is 0123.", &["secret:card"]);
    let too_low = derived(2, "0123", &[], &[1]);
    let refused = memory.append(&Namespace::Hub, &[turn.clone(), too_low]);
    assert!(matches!(refused, Err(MemoryError::LabelTooLow { .. })));
    assert_eq!(
        memory
            .list(&Namespace::Hub, &Page::newest(9), &top)
            .unwrap(),
        []
    );
    assert!(memory.show(id(1), &top).unwrap().is_none());

    let fact = derived(2, "0123", &["secret:card"], &[1]);
    memory.append(&Namespace::Hub, &[turn, fact]).unwrap();
    let listed = memory
        .list(&Namespace::Hub, &Page::newest(9), &top)
        .unwrap();
    assert_eq!(ids(&listed), [id(2), id(1)]);
    memory.append(&Namespace::Hub, &[]).unwrap();
}

pub(crate) fn an_id_is_used_once(back: &impl Back) {
    let memory = open(back);
    memory
        .append(&Namespace::Hub, &[said(1, "first", &[])])
        .unwrap();
    for again in [
        memory.append(&app("mail"), &[said(1, "second", &[])]),
        memory.append(&Namespace::Hub, &[said(2, "a", &[]), said(2, "b", &[])]),
    ] {
        assert!(matches!(again, Err(MemoryError::Taken(_))), "{again:?}");
    }
    assert!(memory.show(id(2), &label(&["any"])).unwrap().is_none());
}

pub(crate) fn an_unknown_taint_makes_the_whole_entry_top(back: &impl Back) {
    let drafts = [
        said(1, "needle", &["untrusted:mail", "secret:card"]),
        said(2, "needle", &["untrusted:mail"]),
    ];
    open(back).append(&Namespace::Hub, &drafts).unwrap();
    let integrity = Order::Categories(vec!["mail".to_owned()]);
    let smaller = Lattice::new(&integrity, &Order::TwoPoint).unwrap();
    let everything_named = smaller.labels(["untrusted", "secret"]).unwrap();
    let memory = back.open(smaller, Limits::default());
    let entry = memory.show(id(1), &ifc::Label::top()).unwrap().unwrap();
    assert!(entry.label.is_top());
    assert_eq!(entry.unknown, ["secret:card"]);
    let listed = memory.list(&Namespace::Hub, &Page::newest(9), &everything_named);
    assert_eq!(ids(&listed.unwrap()), [id(2)]);
    assert_eq!(crate::found(&*memory, "needle", &everything_named), [id(2)]);
    // What is derived from it is at least that.
    let summary = Draft {
        label: everything_named,
        ..derived(3, "s", &[], &[1])
    };
    let refused = memory.append(&Namespace::Hub, &[summary]);
    assert!(matches!(refused, Err(MemoryError::LabelTooLow { .. })));
}

pub(crate) fn nothing_shows_its_text_in_debug(back: &impl Back) {
    let memory = open(back);
    let draft = said(1, "0123 4567", &[]);
    memory
        .append(&Namespace::Hub, std::slice::from_ref(&draft))
        .unwrap();
    let entry = memory.show(id(1), &label(&[])).unwrap();
    for shown in [format!("{draft:?}"), format!("{entry:?}")] {
        assert!(
            !shown.contains("0123") && !shown.contains("chat"),
            "{shown}"
        );
    }
}

/// A lattice in between says less: what was made under it is still at or above its sources when there is more to say again.
pub(crate) fn a_derived_entry_is_above_its_sources_in_every_later_lattice(back: &impl Back) {
    let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
    let categories = |all: &[&str]| Order::Categories(words(all));
    let readers = |all: &[&str]| Order::Readers(words(all));
    let levels = |all: &[&str]| Order::Levels(words(all));
    let changes = [
        // A label, its order, and an order in which it is less than it was.
        (
            "secret",
            categories(&["card", "home"]),
            categories(&["card"]),
        ),
        ("readers:ada", readers(&["ada", "ben"]), readers(&["ada"])),
        (
            "internal",
            levels(&["public", "internal", "private"]),
            levels(&["internal", "private"]),
        ),
    ];
    for (number, (name, before, between)) in (0..).zip(&changes) {
        let open = |order: &Order| {
            let lattice = Lattice::new(&categories(&["mail"]), order).unwrap();
            (lattice.clone(), back.open(lattice, Limits::default()))
        };
        let first = number * 10;
        let (all, memory) = open(before);
        let label = all.label(name).unwrap();
        let source = Draft {
            label: label.clone(),
            ..said(first, "word", &[])
        };
        memory.append(&Namespace::Hub, &[source]).unwrap();
        let (less, other) = open(between);
        let made = Draft {
            label: less.label(name).unwrap(),
            ..derived(first + 1, "word", &[], &[first])
        };
        // In one batch, what follows from it.
        let more = Draft {
            label: less.label(name).unwrap(),
            ..derived(first + 2, "word", &[], &[first + 1])
        };
        other.append(&Namespace::Hub, &[made, more]).unwrap();
        for made in [first + 1, first + 2] {
            let shown = |memory: &dyn Memory| {
                let entry = memory.show(id(made), &Label::top()).unwrap().unwrap();
                entry.label
            };
            assert_eq!(shown(&*other), less.label(name).unwrap(), "{name}");
            assert_eq!(shown(&*memory), label, "{name}");
        }
    }
}

/// Whether it is damaged before or after it has been searched for.
pub(crate) fn one_that_cannot_be_read_leaves_the_others(back: &impl Back) {
    for (number, damage) in (0..).zip([Damage::Kind, Damage::Text]) {
        let namespace = app(&format!("mail-{number}"));
        let first = number * 10;
        let drafts = [0, 1, 2].map(|at| said(first + at, "word", &["secret:card"]));
        let warm = open(back);
        warm.append(&namespace, &drafts).unwrap();
        let at = label(&["secret:card"]);
        let found = |memory: &dyn Memory| {
            let query = Query::new("word").unwrap();
            let found = memory.search(&namespace, &query, &at, 9).unwrap();
            let found: Vec<EntryId> = found.iter().map(|found| found.entry.id).collect();
            found
        };
        let all = [2, 1, 0].map(|at| id(first + at));
        assert_eq!(found(&*warm), all);
        back.damage(all[1], damage);
        for memory in [warm, open(back)] {
            assert_eq!(found(&*memory), [all[0], all[2]], "{damage:?}");
            let list = memory.list(&namespace, &Page::newest(9), &Label::top());
            assert_eq!(ids(&list.unwrap()), [all[0], all[2]], "{damage:?}");
            assert_eq!(
                memory.labels(&namespace).unwrap(),
                std::slice::from_ref(&at)
            );
            let shown = memory.show(all[1], &Label::top());
            assert!(matches!(shown, Err(MemoryError::Unreadable { id, .. }) if id == all[1]));
        }
        let memory = open(back);
        assert_eq!(memory.unreadable(&namespace).unwrap(), [all[1]]);
        // It is told from one that is not there, and goes.
        assert_eq!(memory.ids(&namespace).unwrap().len(), 3);
        assert_eq!(
            memory.forget(&[all[1]]).unwrap().family.unreadable,
            [all[1]]
        );
        assert_eq!(memory.ids(&namespace).unwrap(), [all[2], all[0]]);
        assert_eq!(memory.unreadable(&namespace).unwrap(), []);
    }
}

//! Limits.

use ifc::Label;
use store::{Draft, EntryId, Limits, Memory, MemoryError, Namespace};

use crate::{Back, app, derived, found, id, ids, label, lattice, said};

const HUB: Namespace = Namespace::Hub;

const SMALL: Limits = Limits {
    entry_bytes: 20,
    entries: 3,
    bytes: 50,
};

fn left(memory: &dyn Memory, namespace: &Namespace) -> Vec<EntryId> {
    ids(&memory.list(namespace, 1000, &Label::top()).unwrap())
}

pub(crate) fn entries_and_batches_have_bounds(back: &impl Back) {
    let memory = back.open_with(lattice(), SMALL);
    // "chat" is its origin.
    let long = memory.append(&HUB, &[said(1, &"x".repeat(17), &[])]);
    assert!(matches!(
        long,
        Err(MemoryError::TooLong {
            bytes: 21,
            most: 20
        })
    ));
    memory
        .append(&HUB, &[said(1, &"x".repeat(16), &[])])
        .unwrap();
    let memory = back.open();
    let many: Vec<Draft> = (10..267).map(|number| said(number, "x", &[])).collect();
    let refused = memory.append(&HUB, &many);
    assert!(matches!(refused, Err(MemoryError::Full(_))));
    memory.append(&HUB, &many[..256]).unwrap();
    let sources: Vec<u32> = (0..1025).collect();
    let refused = memory.append(&HUB, &[derived(9999, "s", &[], &sources)]);
    assert!(matches!(
        refused,
        Err(MemoryError::TooManySources {
            count: 1025,
            most: 1024
        })
    ));
}

pub(crate) fn the_oldest_of_a_label_makes_room(back: &impl Back) {
    let memory = back.open_with(lattice(), SMALL);
    let add = |namespace: &Namespace, number| {
        memory.append(namespace, &[said(number, "x", &[])]).unwrap()
    };
    let counts: Vec<usize> = (0..5).map(|number| add(&HUB, number)).collect();
    assert_eq!(counts, [0, 0, 0, 1, 1]);
    assert_eq!(left(&*memory, &HUB), [id(4), id(3), id(2)]);
    // Other namespaces have room of their own.
    assert_eq!(add(&app("mail"), 5), 0);
    // Forgotten entries make room.
    memory.forget(&[id(3)]).unwrap();
    assert_eq!(add(&HUB, 6), 0);
    assert_eq!(left(&*memory, &HUB), [id(6), id(4), id(2)]);
    assert_eq!(found(&*memory, "x", &label(&[])), [id(6), id(4), id(2)]);
}

pub(crate) fn bytes_are_room_too(back: &impl Back) {
    let memory = back.open_with(lattice(), SMALL);
    let long = "x".repeat(16);
    let pair = [said(1, &long, &[]), said(2, &long, &[])];
    assert_eq!(memory.append(&HUB, &pair).unwrap(), 0);
    assert_eq!(memory.append(&HUB, &[said(3, &long, &[])]).unwrap(), 1);
    assert_eq!(left(&*memory, &HUB), [id(3), id(2)]);
    let much = [4, 5, 6].map(|number| said(number, &long, &[]));
    assert!(matches!(
        memory.append(&HUB, &much),
        Err(MemoryError::Full(_))
    ));
    assert_eq!(left(&*memory, &HUB), [id(3), id(2)]);
}

/// Each of the oldest entries has the same later ones derived from it, in another namespace.
pub(crate) fn derived_entries_make_room_too(back: &impl Back) {
    let limits = Limits {
        entries: 256,
        ..Limits::default()
    };
    let memory = back.open_with(lattice(), limits);
    let own: Vec<Draft> = (0..256).map(|number| said(number, "x", &[])).collect();
    memory.append(&HUB, &own).unwrap();
    let summary = derived(1_000, "x", &["untrusted:mail"], &[0, 1, 2, 3]);
    let more = (1_001..1_020).map(|number| derived(number, "x", &["untrusted:mail"], &[1_000]));
    let all: Vec<Draft> = std::iter::once(summary).chain(more).collect();
    memory.append(&app("mail"), &all).unwrap();
    // A sixteenth of the room is freed at once.
    let gone = memory.append(&HUB, &[said(5_000, "x", &[])]).unwrap();
    assert_eq!(gone, 17 + 20);
    assert_eq!(left(&*memory, &app("mail")), []);
    assert_eq!(left(&*memory, &HUB).len(), 240);
}

/// An attacker writes as many mails as there is room for, and more.
pub(crate) fn a_flood_removes_nothing_of_other_labels(back: &impl Back) {
    let memory = back.open_with(lattice(), SMALL);
    let mine = [1, 2, 3].map(|number| said(number, "x", &[]));
    memory.append(&HUB, &mine).unwrap();
    memory
        .append(&HUB, &[said(4, "x", &["secret:card"])])
        .unwrap();
    for number in 10..20 {
        let flood = derived(number, "x", &["untrusted:mail"], &[1]);
        memory.append(&HUB, &[flood]).unwrap();
    }
    assert_eq!(left(&*memory, &HUB), [19, 18, 17, 4, 3, 2, 1].map(id));
    let another = said(5, "x", &["secret:card"]);
    assert_eq!(memory.append(&HUB, &[another]).unwrap(), 0);
}

/// A draft that is derived from an entry that would have to make room for it.
pub(crate) fn refused_drafts_remove_nothing(back: &impl Back) {
    let memory = back.open_with(lattice(), SMALL);
    let three = [1, 2, 3].map(|number| said(number, "x", &[]));
    memory.append(&HUB, &three).unwrap();
    for batch in [
        &[derived(4, "x", &[], &[1])][..],
        &[said(4, "x", &[]), derived(5, "x", &[], &[4, 2])],
    ] {
        let refused = memory.append(&HUB, batch);
        assert!(matches!(refused, Err(MemoryError::Missing(id)) if id <= crate::id(2)));
        assert_eq!(left(&*memory, &HUB), [id(3), id(2), id(1)]);
    }
    let from_another = derived(5, "x", &[], &[3]);
    assert_eq!(memory.append(&HUB, &[from_another]).unwrap(), 1);
}

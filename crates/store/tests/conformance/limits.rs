//! Limits.

use store::{Draft, EntryId, Limits, Memory, MemoryError, Namespace, Page};

use crate::backs::Back;
use crate::{app, derived, found, id, label, lattice, open, said};

const SMALL: Limits = Limits {
    entry_bytes: 20,
    entries: 3,
    bytes: 50,
};

pub(crate) fn an_entry_has_a_size(back: &impl Back) {
    let memory = back.open(lattice(), SMALL);
    // "chat" is its origin.
    let long = said(1, &"x".repeat(17), &[]);
    let refused = memory.append(&Namespace::Hub, &[long]);
    assert!(matches!(
        refused,
        Err(MemoryError::TooLong {
            bytes: 21,
            most: 20
        })
    ));
    memory
        .append(&Namespace::Hub, &[said(1, &"x".repeat(16), &[])])
        .unwrap();
}

fn left(memory: &dyn Memory, namespace: &Namespace) -> Vec<EntryId> {
    let all = memory.list(namespace, &Page::newest(1000), &label(&["any"]));
    all.unwrap().into_iter().map(|entry| entry.id).collect()
}

pub(crate) fn the_oldest_of_a_label_makes_room(back: &impl Back) {
    let memory = back.open(lattice(), SMALL);
    let add = |namespace: &Namespace, number| {
        let added = memory.append(namespace, &[said(number, "x", &[])]);
        added.unwrap().count
    };
    let counts: Vec<usize> = (0..5).map(|number| add(&Namespace::Hub, number)).collect();
    assert_eq!(counts, [0, 0, 0, 1, 1]);
    assert_eq!(left(&*memory, &Namespace::Hub), [id(4), id(3), id(2)]);
    // Others have room of their own.
    assert_eq!(add(&app("mail"), 5), 0);
    // What is forgotten makes room.
    memory.forget(&[id(3)]).unwrap();
    assert_eq!(add(&Namespace::Hub, 6), 0);
    assert_eq!(left(&*memory, &Namespace::Hub), [id(6), id(4), id(2)]);
    // It is found no more.
    assert_eq!(found(&*memory, "x", &label(&[])), [id(6), id(4), id(2)]);
}

pub(crate) fn bytes_are_room_too(back: &impl Back) {
    let memory = back.open(lattice(), SMALL);
    let long = "x".repeat(16);
    let pair = [said(1, &long, &[]), said(2, &long, &[])];
    assert_eq!(memory.append(&Namespace::Hub, &pair).unwrap().count, 0);
    let third = said(3, &long, &[]);
    assert_eq!(memory.append(&Namespace::Hub, &[third]).unwrap().count, 1);
    assert_eq!(left(&*memory, &Namespace::Hub), [id(3), id(2)]);
    let much = [4, 5, 6].map(|number| said(number, &long, &[]));
    let refused = memory.append(&Namespace::Hub, &much);
    assert!(matches!(refused, Err(MemoryError::Full { .. })));
    assert_eq!(left(&*memory, &Namespace::Hub), [id(3), id(2)]);
}

pub(crate) fn what_was_derived_makes_way_along(back: &impl Back) {
    let memory = back.open(lattice(), SMALL);
    memory
        .append(&Namespace::Hub, &[said(1, "x", &[]), said(2, "x", &[])])
        .unwrap();
    let answer = derived(3, "x", &["untrusted:mail"], &[1]);
    memory.append(&app("mail"), &[answer]).unwrap();
    let more = [said(4, "x", &[]), said(5, "x", &[])];
    assert_eq!(memory.append(&Namespace::Hub, &more).unwrap().count, 2);
    assert_eq!(left(&*memory, &app("mail")), []);
    assert_eq!(left(&*memory, &Namespace::Hub), [id(5), id(4), id(2)]);
}

/// An attacker writes as many mails as there is room for, and more.
pub(crate) fn a_flood_of_one_label_pushes_out_nothing_of_another(back: &impl Back) {
    let memory = back.open(lattice(), SMALL);
    let mine = [1, 2, 3].map(|number| said(number, "x", &[]));
    memory.append(&Namespace::Hub, &mine).unwrap();
    let card = said(4, "x", &["secret:card"]);
    memory.append(&Namespace::Hub, &[card]).unwrap();
    for number in 10..20 {
        let flood = derived(number, "x", &["untrusted:mail"], &[1]);
        memory.append(&Namespace::Hub, &[flood]).unwrap();
    }
    let kept = [19, 18, 17, 4, 3, 2, 1].map(id);
    assert_eq!(left(&*memory, &Namespace::Hub), kept);
    // Nor does it count against them.
    assert_eq!(
        memory
            .append(&Namespace::Hub, &[said(5, "x", &["secret:card"])])
            .unwrap()
            .count,
        0
    );
}

/// A draft that is made from what would have to go.
pub(crate) fn nothing_is_forgotten_for_what_is_refused(back: &impl Back) {
    let memory = back.open(lattice(), SMALL);
    let three = [1, 2, 3].map(|number| said(number, "x", &[]));
    memory.append(&Namespace::Hub, &three).unwrap();
    let refused = memory.append(&Namespace::Hub, &[derived(4, "x", &[], &[1])]);
    assert!(matches!(refused, Err(MemoryError::Missing(missing)) if missing == id(1)));
    assert_eq!(left(&*memory, &Namespace::Hub), [id(3), id(2), id(1)]);
    let from_another = derived(5, "x", &[], &[3]);
    assert_eq!(
        memory
            .append(&Namespace::Hub, &[from_another])
            .unwrap()
            .count,
        1
    );
}

pub(crate) fn a_batch_and_sources_have_a_number(back: &impl Back) {
    let memory = open(back);
    let many: Vec<Draft> = (0..257).map(|number| said(number, "x", &[])).collect();
    let refused = memory.append(&Namespace::Hub, &many);
    assert!(matches!(
        refused,
        Err(MemoryError::TooManyAtOnce {
            count: 257,
            most: 256
        })
    ));
    memory.append(&Namespace::Hub, &many[..256]).unwrap();
    let sources: Vec<u32> = (0..1025).collect();
    let refused = memory.append(&Namespace::Hub, &[derived(9999, "s", &[], &sources)]);
    assert!(matches!(
        refused,
        Err(MemoryError::TooManySources {
            count: 1025,
            most: 1024
        })
    ));
}

/// The oldest entries often have the same later ones derived from them: each goes once. How often each is followed is looked at
/// where a back end can say so (`redis_only`, `sqlite::room`).
pub(crate) fn what_many_have_in_common_makes_way_once(back: &impl Back) {
    const OLDEST: u32 = 16;
    const DERIVED: u32 = 64;
    let limits = Limits {
        entries: 256,
        ..Limits::default()
    };
    let memory = back.open(lattice(), limits);
    in_common(&*memory, 256, OLDEST, DERIVED);
    let gone = memory.append(&Namespace::Hub, &[said(5_000, "x", &[])]);
    assert_eq!(gone.unwrap().count, (OLDEST + DERIVED) as usize);
    assert_eq!(memory.ids(&app("mail")).unwrap(), []);
}

/// So many entries of one label, and in another namespace so many that are derived from the oldest of them: one from all of
/// these, and the others from that one.
pub(crate) fn in_common(memory: &dyn Memory, entries: u32, oldest: u32, all_derived: u32) {
    let add = |namespace: &Namespace, drafts: &[Draft]| {
        for batch in drafts.chunks(256) {
            memory.append(namespace, batch).unwrap();
        }
    };
    let mine: Vec<Draft> = (0..entries).map(|number| said(number, "x", &[])).collect();
    add(&Namespace::Hub, &mine);
    let sources: Vec<u32> = (0..oldest).collect();
    let made = |number, sources: &[u32]| derived(number, "x", &["untrusted:mail"], sources);
    let rest = (1..all_derived).map(|number| made(10_000 + number, &[10_000]));
    let all: Vec<Draft> = std::iter::once(made(10_000, &sources))
        .chain(rest)
        .collect();
    add(&app("mail"), &all);
}

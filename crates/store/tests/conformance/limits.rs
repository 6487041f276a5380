//! Limits.

use store::{Draft, Limits, MemoryError, Namespace};

use crate::backs::Back;
use crate::{app, derived, id, label, lattice, open, said};

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

pub(crate) fn a_namespace_has_a_size(back: &impl Back) {
    let memory = back.open(lattice(), SMALL);
    for number in 0..3 {
        memory
            .append(&Namespace::Hub, &[said(number, "x", &[])])
            .unwrap();
    }
    let full = |refused: Result<(), MemoryError>, what: &str| match refused {
        Err(MemoryError::Full { namespace, limit }) => {
            assert_eq!((namespace.as_str(), limit.as_str()), ("hub", what));
        }
        other => panic!("{other:?}"),
    };
    full(
        memory.append(&Namespace::Hub, &[said(3, "x", &[])]),
        "3 entries",
    );
    assert!(memory.show(id(3), &label(&["any"])).unwrap().is_none());
    // Others have room of their own, and what is forgotten makes room.
    memory.append(&app("mail"), &[said(3, "x", &[])]).unwrap();
    memory.forget(id(0)).unwrap();
    memory.forget(id(1)).unwrap();
    memory.forget(id(2)).unwrap();
    let long = "x".repeat(16);
    memory
        .append(&Namespace::Hub, &[said(4, &long, &[]), said(5, &long, &[])])
        .unwrap();
    full(
        memory.append(&Namespace::Hub, &[said(6, &long, &[])]),
        "50 bytes",
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

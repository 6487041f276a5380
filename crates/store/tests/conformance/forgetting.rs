//! Forgetting.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use store::{Draft, Family, Forgotten, Limits, Namespace, Page, Time};

use crate::backs::Back;
use crate::{app, derived, found, id, label, lattice, open, said};

fn ids(forgotten: &Forgotten) -> Vec<store::EntryId> {
    forgotten
        .family
        .entries
        .iter()
        .map(|entry| entry.id)
        .collect()
}

pub(crate) fn what_was_derived_goes_along(back: &impl Back) {
    let memory = open(back);
    let top = label(&["any"]);
    let drafts = [
        said(1, "one", &[]),
        said(2, "two", &[]),
        derived(3, "of one", &[], &[1]),
        derived(4, "of both", &[], &[2, 1]),
        derived(5, "of two", &[], &[2]),
    ];
    memory.append(&Namespace::Hub, &drafts).unwrap();
    let shared = derived(6, "of that, elsewhere", &["any"], &[4]);
    memory.append(&app("mail"), &[shared]).unwrap();

    let told = memory.derived(&[id(1)]).unwrap();
    let forgotten = memory.forget(&[id(1)]).unwrap();
    assert_eq!(ids(&forgotten), [1, 3, 4, 6].map(id));
    assert_eq!(told.entries, forgotten.family.entries);
    assert_eq!(memory.derived(&[id(1)]).unwrap(), Family::default());
    assert!(forgotten.erased.is_ok() && forgotten.family.unreadable.is_empty());
    assert_eq!(forgotten.family.entries[0].content, drafts[0].content);
    assert_eq!(forgotten.family.entries[3].namespace, app("mail"));
    let left = memory
        .list(&Namespace::Hub, &Page::newest(9), &top)
        .unwrap();
    let left: Vec<_> = left.iter().map(|entry| entry.id).collect();
    assert_eq!(left, [id(5), id(2)]);
    assert_eq!(
        memory.list(&app("mail"), &Page::newest(9), &top).unwrap(),
        []
    );
    assert_eq!(found(&*memory, "of one both two", &top), [id(5), id(2)]);
    // The rest can be forgotten still, and an id can be used again.
    assert_eq!(ids(&memory.forget(&[id(5)]).unwrap()), [id(5)]);
    memory
        .append(&Namespace::Hub, &[said(1, "one", &[])])
        .unwrap();
    assert_eq!(ids(&memory.forget(&[id(2)]).unwrap()), [id(2)]);
}

/// Many entries of many sizes, in groups that are forgotten together, so that pages are split, joined
/// and used again.
pub(crate) fn what_is_forgotten_is_nowhere_on_the_disk(back: &impl Back) {
    const ENTRIES: u32 = 240;
    const GROUP: u32 = 12;
    let memory = open(back);
    let bottom = label(&[]);
    let there = |number| memory.show(id(number), &bottom).unwrap().is_some();
    let mut random = numbers(7);
    let mut secrets = Vec::new();
    for number in 0..ENTRIES {
        let secret = format!("sesame-{number:04}-{:08x}", random());
        let filler = "and so on ".repeat(random() as usize % 700 / (1 + number as usize % 7));
        let text = format!("{filler}{secret}{filler}");
        let first = number - number % GROUP;
        let sources = if first < number && there(first) {
            vec![first]
        } else {
            vec![]
        };
        memory
            .append(&Namespace::Hub, &[derived(number, &text, &[], &sources)])
            .unwrap();
        secrets.push(secret);
        if number % 10 == 9 {
            assert!(
                memory
                    .forget(&[id(random() % (number + 1))])
                    .unwrap()
                    .erased
                    .is_ok()
            );
        }
    }
    let left: Vec<u32> = (0..ENTRIES).filter(|number| there(*number)).collect();
    assert!((20..230).contains(&left.len()));
    let kept = left.iter().map(|number| secrets[*number as usize].clone());
    assert_eq!(on_disk(back.folder()), kept.collect());
    // The rest of a group goes with its first one.
    for number in left {
        if there(number) {
            memory.forget(&[id(number)]).unwrap();
        }
    }
    assert_eq!(on_disk(back.folder()), BTreeSet::new());
}

/// Sizes with which SQLite joins pages and leaves stale copies of entries that it moved, when the first ten go at once.
const SIZES: [usize; 20] = [
    700, 1500, 300, 60, 20, 60, 60, 700, 60, 20, 60, 20, 300, 200, 20, 200, 700, 20, 700, 700,
];

/// Entries of these sizes, each with a secret of its own and made from the source of its number.
fn entries_of(sizes: &[usize], source: impl Fn(u32) -> Option<u32>) -> Vec<(Draft, String)> {
    let entries = (0_u32..).zip(sizes).map(|(number, size)| {
        let secret = format!(
            "sesame-{number:04}-{:08x}",
            number.wrapping_mul(0x9e37_79b9)
        );
        let text = format!("{secret:.<size$}");
        let sources: Vec<u32> = source(number).into_iter().collect();
        (derived(number, &text, &[], &sources), secret)
    });
    entries.collect()
}

/// A deleted entry is overwritten where it lies; where it lay before pages were joined, it is not.
pub(crate) fn what_was_moved_before_it_was_forgotten_is_nowhere(back: &impl Back) {
    let memory = open(back);
    let entries = entries_of(&SIZES, |number| (1..10).contains(&number).then_some(0));
    for (draft, _) in &entries {
        let draft = std::slice::from_ref(draft);
        memory.append(&Namespace::Hub, draft).unwrap();
    }
    let forgotten = memory.forget(&[id(0)]).unwrap();
    assert!(forgotten.family.entries.len() == 10 && forgotten.erased.is_ok());
    let kept = entries[10..].iter().map(|(_, secret)| secret.clone());
    assert_eq!(on_disk(back.folder()), kept.collect());
}

/// How many orders of forgetting are tried; the nightly job says how many more.
const ORDERS: u64 = 12;

/// What goes because it is forgotten, because it is too old, or for what is new is nowhere, whatever its size and whatever
/// went before.
pub(crate) fn whatever_goes_in_whatever_order_is_nowhere<B: Back>(_: &B) {
    const ENTRIES: usize = SIZES.len();
    const MORE: usize = 5;
    let orders = std::env::var("SLUICE_ORDERS").map_or(ORDERS, |orders| orders.parse().unwrap());
    let limits = Limits {
        entries: ENTRIES,
        ..Limits::default()
    };
    for order in 0..orders {
        let back = B::new();
        let memory = back.open(lattice(), limits);
        let mut random = numbers(order);
        // Near to sizes of which it is known that pages are joined; others seldom do that.
        let mut sizes: Vec<usize> = SIZES.iter().chain(&SIZES[..MORE]).copied().collect();
        for _ in 0..order % 5 {
            sizes[random() as usize % (ENTRIES + MORE)] = SIZES[random() as usize % ENTRIES];
        }
        let (first, last) = (random() % 2, 8 + random() % 4);
        let entries = entries_of(&sizes, |number| {
            (first < number && number <= last).then_some(first)
        });
        let check = |after: &str| {
            let there = entries.iter().filter(|(draft, _)| {
                let found = memory.show(draft.id, &label(&["any"])).unwrap();
                found.is_some()
            });
            let kept = there.map(|(_, secret)| secret.clone());
            assert_eq!(on_disk(back.folder()), kept.collect(), "{order}, {after}");
        };
        let add = |(draft, _): &(Draft, String)| {
            // Its source may have gone by now.
            drop(memory.append(&Namespace::Hub, std::slice::from_ref(draft)));
        };
        let (there, more) = entries.split_at(ENTRIES);
        there.iter().for_each(add);
        memory.forget(&[id(first)]).unwrap();
        check("a family is forgotten");
        memory.forget(&[id(random() % 20)]).unwrap();
        check("another is forgotten");
        let old = Time::from_millis(1_000 + i64::from(random() % 20));
        memory.expire(old).unwrap();
        check("some are too old");
        more.iter().for_each(add);
        check("some made room");
    }
}

/// Answers follow from one another, so whoever forgets all of a conversation names each of a chain: each is read and
/// removed once, not once for each that it was derived from.
pub(crate) fn a_whole_chain_is_forgotten_at_once(back: &impl Back) {
    const CHAIN: u32 = 300;
    let memory = open(back);
    let chain: Vec<Draft> = (0..CHAIN)
        .map(|number| {
            let sources: Vec<u32> = number.checked_sub(1).into_iter().collect();
            derived(number, "x", &[], &sources)
        })
        .collect();
    for batch in chain.chunks(256) {
        memory.append(&Namespace::Hub, batch).unwrap();
    }
    memory
        .append(&app("mail"), &[derived(1_000, "x", &[], &[7])])
        .unwrap();
    let all = memory.ids(&Namespace::Hub).unwrap();
    assert_eq!(all, (0..CHAIN).map(id).collect::<Vec<_>>());
    let told = memory.derived(&all).unwrap();
    // One that is not there, and one twice, change nothing.
    let named: Vec<_> = all.iter().chain(&[id(9_999), id(3)]).copied().collect();
    let forgotten = memory.forget(&named).unwrap();
    assert_eq!(forgotten.family.entries.len(), CHAIN as usize + 1);
    assert_eq!(told.entries, forgotten.family.entries);
    assert_eq!(memory.ids(&Namespace::Hub).unwrap(), []);
    assert_eq!(memory.ids(&app("mail")).unwrap(), []);
}

pub(crate) fn what_is_not_there_is_nothing_to_forget(back: &impl Back) {
    let memory = open(back);
    let forgotten = memory.forget(&[id(1)]).unwrap();
    assert!(forgotten.family.entries.is_empty() && forgotten.family.unreadable.is_empty());
}

/// Every secret that is in any file below a folder.
fn on_disk(folder: &Path) -> BTreeSet<String> {
    const BEGINNING: &[u8] = b"sesame-";
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(on_disk(&entry.path()));
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap();
            for at in 0..bytes.len().saturating_sub(20) {
                if bytes[at] == b's' && bytes[at..].starts_with(BEGINNING) {
                    found.insert(String::from_utf8_lossy(&bytes[at..at + 20]).into_owned());
                }
            }
        }
    }
    found
}

/// Numbers that look random and are the same each time.
fn numbers(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u32::try_from(state >> 33).unwrap()
    }
}

pub(crate) fn what_is_too_old_goes_with_what_came_of_it(back: &impl Back) {
    let memory = open(back);
    let old = [said(1, "x", &[]), said(2, "x", &["secret:card"])];
    memory.append(&Namespace::Hub, &old).unwrap();
    // Made from the first, long after it, elsewhere.
    let later = Draft {
        time: Time::from_millis(90_000),
        ..derived(3, "x", &["untrusted:mail"], &[1])
    };
    memory.append(&app("mail"), &[later]).unwrap();
    let new = Draft {
        time: Time::from_millis(80_000),
        ..said(4, "x", &[])
    };
    memory.append(&Namespace::Hub, &[new]).unwrap();
    assert_eq!(memory.expire(Time::from_millis(1_001)).unwrap().count, 0);
    assert_eq!(memory.expire(Time::from_millis(50_000)).unwrap().count, 3);
    let top = label(&["any"]);
    assert_eq!(found(&*memory, "x", &top), [id(4)]);
    let list = |namespace| {
        memory
            .list(namespace, &Page::newest(9), &top)
            .unwrap()
            .len()
    };
    assert_eq!((list(&Namespace::Hub), list(&app("mail"))), (1, 0));
    // Their room is free again.
    assert_eq!(memory.expire(Time::from_millis(50_000)).unwrap().count, 0);
}

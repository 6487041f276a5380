//! Forgetting.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use store::{Draft, Family, Namespace, Time};

use crate::{Back, app, derived, found, id, ids, label, said};

const HUB: Namespace = Namespace::Hub;

pub(crate) fn derived_entries_are_forgotten_too(back: &impl Back) {
    let memory = back.open();
    let top = label(&["any"]);
    let drafts = [
        said(1, "one", &[]),
        said(2, "two", &[]),
        derived(3, "of one", &[], &[1]),
        derived(4, "of both", &[], &[2, 1]),
        derived(5, "of two", &[], &[2]),
    ];
    memory.append(&HUB, &drafts).unwrap();
    let shared = derived(6, "of that, elsewhere", &["any"], &[4]);
    memory.append(&app("mail"), &[shared]).unwrap();

    let before = memory.derived(&[id(1)]).unwrap();
    let forgotten = memory.forget(&[id(1)]).unwrap();
    assert_eq!(ids(&forgotten.family.entries), [1, 3, 4, 6].map(id));
    assert_eq!(before, forgotten.family);
    assert_eq!(memory.derived(&[id(1)]).unwrap(), Family::default());
    assert!(forgotten.erased.is_ok());
    assert_eq!(forgotten.family.entries[0].content, drafts[0].content);
    assert_eq!(forgotten.family.entries[3].namespace, app("mail"));
    assert_eq!(ids(&memory.list(&HUB, 9, &top).unwrap()), [id(5), id(2)]);
    assert_eq!(memory.list(&app("mail"), 9, &top).unwrap(), []);
    assert_eq!(found(&*memory, "of one both two", &top), [id(5), id(2)]);
    // The rest can be forgotten still, an id can be used again, and a missing one is ignored.
    assert_eq!(memory.forget(&[id(5), id(99)]).unwrap().family.count(), 1);
    memory.append(&HUB, &[said(1, "one", &[])]).unwrap();
    assert_eq!(memory.forget(&[id(2)]).unwrap().family.count(), 1);
    assert_eq!(memory.forget(&[id(2)]).unwrap().family.count(), 0);
}

/// Many entries of many sizes, in groups that are forgotten together, so that pages are split, joined and used
/// again.
pub(crate) fn forgotten_text_is_nowhere_on_disk(back: &impl Back) {
    const ENTRIES: u32 = 240;
    const GROUP: u32 = 12;
    let memory = back.open();
    let bottom = label(&[]);
    let there = |number| memory.show(id(number), &bottom).unwrap().is_some();
    let mut random = numbers(7);
    let mut secrets = Vec::new();
    for number in 0..ENTRIES {
        let secret = format!("sesame-{number:04}-{:08x}", random());
        let filler = "and so on ".repeat(random() as usize % 700 / (1 + number as usize % 7));
        let text = format!("{filler}{secret}{filler}");
        let first = number - number % GROUP;
        let source = (first < number && there(first)).then_some(first);
        let sources: Vec<u32> = source.into_iter().collect();
        memory
            .append(&HUB, &[derived(number, &text, &[], &sources)])
            .unwrap();
        secrets.push(secret);
        if number % 10 == 9 {
            let forgotten = memory.forget(&[id(random() % (number + 1))]).unwrap();
            assert!(forgotten.erased.is_ok());
        }
    }
    let left: Vec<u32> = (0..ENTRIES).filter(|number| there(*number)).collect();
    assert!((20..230).contains(&left.len()));
    let kept = left.iter().map(|number| secrets[*number as usize].clone());
    assert_eq!(on_disk(back.folder()), kept.collect());
    let left: Vec<_> = left.into_iter().map(id).collect();
    memory.forget(&left).unwrap();
    assert_eq!(on_disk(back.folder()), BTreeSet::new());
}

/// Sizes with which SQLite joins pages and leaves copies of entries that it moved, when the first ten go at once.
const SIZES: [usize; 20] = [
    700, 1500, 300, 60, 20, 60, 60, 700, 60, 20, 60, 20, 300, 200, 20, 200, 700, 20, 700, 700,
];

/// `secure_delete` overwrites an entry where it lies, and not where it lay before pages were joined.
pub(crate) fn moved_text_is_forgotten_too(back: &impl Back) {
    let memory = back.open();
    let secret = |number: u32| {
        format!(
            "sesame-{number:04}-{:08x}",
            number.wrapping_mul(0x9e37_79b9)
        )
    };
    for (number, size) in (0_u32..).zip(SIZES) {
        let text = format!("{:.<size$}", secret(number));
        let sources: &[u32] = if (1..10).contains(&number) { &[0] } else { &[] };
        memory
            .append(&HUB, &[derived(number, &text, &[], sources)])
            .unwrap();
    }
    let forgotten = memory.forget(&[id(0)]).unwrap();
    assert!(forgotten.family.entries.len() == 10 && forgotten.erased.is_ok());
    assert_eq!(on_disk(back.folder()), (10..20).map(secret).collect());
}

/// Answers follow from one another, so the ids of a conversation name each entry of a chain: each is removed
/// once, not once for each entry that it was derived from.
pub(crate) fn chains_are_forgotten_at_once(back: &impl Back) {
    const CHAIN: u32 = 300;
    let memory = back.open();
    let chain = (0..CHAIN).map(|number| {
        let sources: Vec<u32> = number.checked_sub(1).into_iter().collect();
        derived(number, "x", &[], &sources)
    });
    for batch in chain.collect::<Vec<Draft>>().chunks(256) {
        memory.append(&HUB, batch).unwrap();
    }
    memory
        .append(&app("mail"), &[derived(1_000, "x", &[], &[7])])
        .unwrap();
    let all = memory.ids(&HUB).unwrap();
    assert_eq!(all, (0..CHAIN).map(id).collect::<Vec<_>>());
    let named: Vec<_> = all.iter().chain(&[id(3)]).copied().collect();
    let forgotten = memory.forget(&named).unwrap();
    assert_eq!(forgotten.family.entries.len(), CHAIN as usize + 1);
    assert_eq!(memory.ids(&HUB).unwrap(), []);
    assert_eq!(memory.ids(&app("mail")).unwrap(), []);
}

pub(crate) fn old_entries_expire(back: &impl Back) {
    let memory = back.open();
    let old = [said(1, "x", &[]), said(2, "x", &["secret:card"])];
    memory.append(&HUB, &old).unwrap();
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
    memory.append(&HUB, &[new]).unwrap();
    for (before, count) in [(1_001, 0), (50_000, 3), (50_000, 0)] {
        assert_eq!(memory.expire(Time::from_millis(before)).unwrap(), count);
    }
    let top = label(&["any"]);
    assert_eq!(found(&*memory, "x", &top), [id(4)]);
    assert_eq!(ids(&memory.list(&HUB, 9, &top).unwrap()), [id(4)]);
    assert_eq!(memory.list(&app("mail"), 9, &top).unwrap(), []);
}

/// Every secret that is in any file below a folder.
fn on_disk(folder: &Path) -> BTreeSet<String> {
    const BEGINNING: &[u8] = b"sesame-";
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(on_disk(&entry.path()));
            continue;
        }
        let bytes = fs::read(entry.path()).unwrap();
        let secrets = bytes
            .windows(20)
            .filter(|window| window.starts_with(BEGINNING));
        found.extend(secrets.map(|secret| String::from_utf8_lossy(secret).into_owned()));
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

//! Whose memory it is, and handing it over.

use store::{EntryId, Limits, Memory, Name, Namespace, Page, Query};

use crate::backs::Back;
use crate::{apps, derived, id, label, lattice, open, said};

fn names(joined: &str) -> Namespace {
    Namespace::Names(Name::new(joined).unwrap())
}

fn ids(memory: &dyn Memory, namespace: &Namespace) -> Vec<EntryId> {
    memory.ids(namespace).unwrap()
}

/// What a search for `word` finds, best first.
fn found(memory: &dyn Memory, namespace: &Namespace, at: &[&str]) -> Vec<EntryId> {
    let word = Query::new("word").unwrap();
    let found = memory.search(namespace, &word, &label(at), 100).unwrap();
    found.into_iter().map(|found| found.entry.id).collect()
}

/// The attack: another app takes the name of one that is gone.
pub(crate) fn an_app_of_the_same_name_has_another_memory(back: &impl Back) {
    let memory = open(back);
    let whose = [
        apps(&[("mail", 1)]),
        apps(&[("mail", 1), ("web", 1)]),
        names("mail"),
        names("mail+web"),
        Namespace::Hub,
    ];
    for (number, namespace) in (0..).zip(&whose) {
        memory
            .append(namespace, &[said(number, "word", &["secret:card"])])
            .unwrap();
    }
    let others = [
        apps(&[("mail", 2)]),
        apps(&[("mail", 1), ("web", 2)]),
        apps(&[("mail", 2), ("web", 1)]),
        apps(&[("mail", 1), ("other", 1)]),
        names("web"),
    ];
    for other in &others {
        let page = Page::newest(9);
        assert_eq!(memory.list(other, &page, &label(&["any"])).unwrap(), []);
        assert_eq!(found(&*memory, other, &["any"]), [], "{other:?}");
        assert_eq!(memory.labels(other).unwrap(), [], "{other:?}");
        assert_eq!(ids(&*memory, other), [], "{other:?}");
    }
    for (number, namespace) in (0..).zip(&whose) {
        assert_eq!(found(&*memory, namespace, &["any"]), [id(number)]);
        let entry = memory.show(id(number), &label(&["any"])).unwrap().unwrap();
        assert_eq!(entry.namespace, *namespace);
    }
    let mut sorted = whose.to_vec();
    sorted.sort_unstable();
    assert_eq!(open(back).namespaces().unwrap(), sorted);
}

/// Together their names are longer than one may be.
pub(crate) fn many_apps_with_long_names_have_a_memory(back: &impl Back) {
    let long: Vec<String> = (0..9).map(|number| format!("{number:x>256}")).collect();
    let long: Vec<(&str, u8)> = long.iter().map(|name| (name.as_str(), 1)).collect();
    let (all, one_less) = (apps(&long), apps(&long[1..]));
    let memory = open(back);
    memory.append(&all, &[said(1, "word", &[])]).unwrap();
    assert_eq!(found(&*memory, &all, &[]), [id(1)]);
    assert_eq!(found(&*memory, &one_less, &[]), []);
    assert_eq!(open(back).namespaces().unwrap(), [all]);
}

pub(crate) fn what_is_handed_over_is_told_to_the_other_alone(back: &impl Back) {
    let (memory, other) = (open(back), open(back));
    let (from, to) = (names("mail"), apps(&[("mail", 1)]));
    let secret = &["secret:card"];
    memory.append(&from, &[said(1, "word one", &[])]).unwrap();
    memory.append(&to, &[said(2, "word two", secret)]).unwrap();
    let more = [
        said(3, "word three", secret),
        derived(4, "word four", &["secret:card"], &[1, 3]),
    ];
    memory.append(&from, &more).unwrap();
    memory
        .append(&Namespace::Hub, &[derived(5, "word five", &[], &[1])])
        .unwrap();
    // Both handles have an index of each.
    for memory in [&memory, &other] {
        assert_eq!(found(&**memory, &from, secret).len(), 3);
        assert_eq!(found(&**memory, &to, secret), [id(2)]);
    }
    let before = memory.show(id(4), &label(secret)).unwrap().unwrap();

    assert_eq!(memory.hand_over(&from, &to).unwrap(), 3);
    for memory in [&memory, &other, &open(back)] {
        assert_eq!(found(&**memory, &from, secret), []);
        assert_eq!(ids(&**memory, &from), []);
        // In the order in which they were added, under the labels that they had.
        assert_eq!(ids(&**memory, &to), [1, 2, 3, 4].map(id));
        assert_eq!(found(&**memory, &to, &[]), [id(1)]);
        assert_eq!(found(&**memory, &to, secret), [4, 3, 2, 1].map(id));
        assert_eq!(memory.labels(&to).unwrap().len(), 2);
        let page = Page {
            before: Some(id(3)),
            ..Page::newest(9)
        };
        let older = memory.list(&to, &page, &label(secret)).unwrap();
        let older: Vec<EntryId> = older.iter().map(|entry| entry.id).collect();
        assert_eq!(older, [id(2), id(1)]);
    }
    let after = memory.show(id(4), &label(secret)).unwrap().unwrap();
    assert_eq!(after.namespace, to);
    assert_eq!((after.sources, after.time), (before.sources, before.time));
    // What is added later is newer than all of it, in both.
    memory.append(&from, &[said(6, "word six", &[])]).unwrap();
    memory.append(&to, &[said(7, "word seven", &[])]).unwrap();
    assert_eq!(found(&*other, &from, &[]), [id(6)]);
    assert_eq!(found(&*other, &to, &[]), [id(7), id(1)]);
    // What was derived goes along still.
    memory.forget(&[id(1)]).unwrap();
    assert_eq!(ids(&*other, &to), [2, 3, 7].map(id));
    assert_eq!(ids(&*other, &Namespace::Hub), []);
    assert_eq!(found(&*other, &to, secret), [7, 3, 2].map(id));
}

pub(crate) fn to_hand_over_nothing_changes_nothing(back: &impl Back) {
    let memory = open(back);
    let own = apps(&[("mail", 1)]);
    memory.append(&own, &[said(1, "word", &[])]).unwrap();
    assert_eq!(memory.hand_over(&names("mail"), &own).unwrap(), 0);
    assert_eq!(memory.hand_over(&own, &own).unwrap(), 1);
    assert_eq!(found(&*memory, &own, &[]), [id(1)]);
    assert_eq!(memory.namespaces().unwrap(), [own]);
}

/// Handing over keeps more than there is room for, and the next entry makes it, of its label alone.
pub(crate) fn what_was_handed_over_makes_room_too(back: &impl Back) {
    let limits = Limits {
        entries: 16,
        ..Limits::default()
    };
    let memory = back.open(lattice(), limits);
    let (from, to) = (names("mail"), apps(&[("mail", 1)]));
    for number in 0..16 {
        memory.append(&from, &[said(number, "word", &[])]).unwrap();
        memory
            .append(&to, &[said(100 + number, "word", &[])])
            .unwrap();
    }
    let above = said(50, "word", &["secret:card"]);
    memory.append(&from, &[above]).unwrap();
    assert_eq!(memory.hand_over(&from, &to).unwrap(), 17);
    assert_eq!(ids(&*memory, &to).len(), 33);
    let gone = memory.append(&to, &[said(200, "word", &[])]).unwrap().count;
    let left = ids(&*memory, &to);
    assert_eq!((gone, left.len()), (17, 17));
    assert!(left.contains(&id(50)) && left.contains(&id(200)));
    assert!(!left.contains(&id(0)), "the oldest go");
    // The room of the one that handed over is free.
    for number in 300..316 {
        let gone = memory
            .append(&from, &[said(number, "word", &[])])
            .unwrap()
            .count;
        assert_eq!(gone, 0);
    }
}

/// Sessions go on meanwhile: each entry is of one of both, and found there.
pub(crate) fn nothing_is_lost_while_it_is_handed_over(back: &impl Back) {
    const EACH: u32 = 30;
    let (from, to) = (names("mail"), apps(&[("mail", 1)]));
    std::thread::scope(|scope| {
        for (writer, namespace) in (0..).zip([&from, &to]) {
            let memory = open(back);
            scope.spawn(move || {
                for at in 0..EACH {
                    let one = said(writer * 1000 + at, "word", &[]);
                    memory.append(namespace, &[one]).unwrap();
                    found(&*memory, namespace, &[]);
                }
            });
        }
        let memory = open(back);
        scope.spawn({
            let (from, to) = (&from, &to);
            move || {
                for _ in 0..EACH {
                    memory.hand_over(from, to).unwrap();
                }
            }
        });
    });
    let memory = open(back);
    memory.hand_over(&from, &to).unwrap();
    assert_eq!(ids(&*memory, &from), []);
    let all = ids(&*memory, &to);
    assert_eq!(all.len(), 2 * EACH as usize);
    // Each writer's own stay in their order.
    for writer in 0..2 {
        let own = (0..EACH).map(|at| id(writer * 1000 + at));
        let own: Vec<EntryId> = own.collect();
        let kept: Vec<EntryId> = all.iter().filter(|id| own.contains(id)).copied().collect();
        assert_eq!(kept, own);
    }
    assert_eq!(found(&*memory, &to, &[]).len(), all.len());
}

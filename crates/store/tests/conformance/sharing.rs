//! Several handles of one memory, as several processes have them.

use store::{Namespace, Page};

use crate::backs::Back;
use crate::{derived, found, id, label, open, said};

pub(crate) fn one_handle_sees_what_another_does(back: &impl Back) {
    let (one, other) = (open(back), open(back));
    let bottom = label(&[]);
    one.append(&Namespace::Hub, &[said(1, "first word", &[])])
        .unwrap();
    assert_eq!(found(&*other, "word", &bottom), [id(1)]);
    one.append(&Namespace::Hub, &[said(2, "second word", &[])])
        .unwrap();
    assert_eq!(found(&*other, "word", &bottom), [id(2), id(1)]);
    one.forget(&[id(1)]).unwrap();
    assert_eq!(found(&*other, "word", &bottom), [id(2)]);
    assert_eq!(found(&*other, "first", &bottom), []);
    // Forgotten and added: as many entries as before, others.
    one.forget(&[id(2)]).unwrap();
    one.append(&Namespace::Hub, &[said(3, "third word", &[])])
        .unwrap();
    assert_eq!(found(&*other, "word", &bottom), [id(3)]);
}

pub(crate) fn writers_do_not_get_into_each_others_way(back: &impl Back) {
    const EACH: u32 = 40;
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let memory = open(back);
            scope.spawn(move || {
                for at in 0..EACH {
                    let number = writer * 1000 + 2 * at;
                    let pair = [
                        said(number, "turn", &[]),
                        derived(number + 1, "sum", &[], &[number]),
                    ];
                    memory.append(&Namespace::Hub, &pair).unwrap();
                    if at % 10 == 9 {
                        let forgotten = memory.forget(&[id(number)]).unwrap();
                        assert_eq!(forgotten.family.entries.len(), 2);
                    }
                    found(&*memory, "turn", &label(&[]));
                }
            });
        }
    });
    let memory = open(back);
    let page = Page::newest(1000);
    let left = memory.list(&Namespace::Hub, &page, &label(&[])).unwrap();
    assert_eq!(left.len(), 3 * 2 * (EACH as usize - 4));
    assert_eq!(found(&*memory, "turn", &label(&[])).len(), 100);
}

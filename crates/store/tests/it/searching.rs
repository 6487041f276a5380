//! Searching.

use store::{Content, Draft, Namespace, Query};

use crate::{Back, app, found, id, label, said};

const HUB: Namespace = Namespace::Hub;

pub(crate) fn rare_words_count_more(back: &impl Back) {
    let memory = back.open();
    let drafts = [
        said(1, "the delivery of the Heron comes on Friday", &[]),
        said(2, "the delivery of the bread", &[]),
        said(3, "the delivery, the delivery, the delivery", &[]),
        said(4, "lunch with MÜLLER in 東京", &[]),
    ];
    memory.append(&HUB, &drafts).unwrap();
    let bottom = label(&[]);
    assert_eq!(found(&*memory, "heron delivery", &bottom)[0], id(1));
    // Repetition and shortness count.
    assert_eq!(found(&*memory, "DELIVERY", &bottom), [3, 2, 1].map(id));
    assert_eq!(found(&*memory, "nothing of this", &bottom), [2, 1].map(id));
    for query in ["muller", "京"] {
        assert_eq!(found(&*memory, query, &bottom), [id(4)], "{query}");
    }
    let one = memory
        .search(&HUB, &Query::new("delivery"), &bottom, 1)
        .unwrap();
    assert_eq!((one.len(), one[0].entry.id), (1, id(3)));
    assert!(one[0].score > 0.0);
    // Of equal entries the newer comes first.
    for number in [25, 23, 29, 21] {
        memory
            .append(&HUB, &[said(number, "same words", &[])])
            .unwrap();
    }
    assert_eq!(found(&*memory, "words", &bottom), [21, 29, 23, 25].map(id));
}

pub(crate) fn any_query_is_text(back: &impl Back) {
    let memory = back.open();
    let both = [said(1, "a near b", &[]), said(2, "other", &[])];
    memory.append(&HUB, &both).unwrap();
    for query in [
        r#"a" OR "b"#,
        "NEAR(a b, 5)",
        "'; DROP TABLE memory; -- a",
        "a* ^b {words}: c",
        "NOT other AND a\u{0}",
    ] {
        let answers = found(&*memory, query, &label(&[]));
        assert!(answers.contains(&id(1)), "{query}");
        assert_eq!(answers.contains(&id(2)), query.contains("other"), "{query}");
    }
    for nothing in ["", "*", "\u{0}"] {
        assert_eq!(found(&*memory, nothing, &label(&[])), []);
    }
}

fn fact(number: u32, entity: &str, value: &str, names: &[&str]) -> Draft {
    Draft {
        content: Content::Fact {
            entity: entity.to_owned(),
            attribute: "day".to_owned(),
            value: value.to_owned(),
        },
        ..said(number, "", names)
    }
}

pub(crate) fn facts_are_found_by_each_part(back: &impl Back) {
    let memory = back.open();
    memory
        .append(&HUB, &[fact(1, "Karin", "Monday", &[])])
        .unwrap();
    for query in ["karin", "day", "monday"] {
        assert_eq!(found(&*memory, query, &label(&[])), [id(1)]);
    }
    // The origin is not searched.
    assert_eq!(found(&*memory, "chat", &label(&[])), []);
}

/// A later word of the user replaces an earlier one, and a mail does not.
pub(crate) fn later_facts_replace_less_trusted_ones(back: &impl Back) {
    let memory = back.open();
    let mail = &["untrusted:mail"][..];
    let both = label(mail);
    let add = |draft| memory.append(&HUB, &[draft]).unwrap();
    add(fact(1, "delivery", "Monday", mail));
    add(fact(2, "delivery", "Tuesday", mail));
    assert_eq!(found(&*memory, "delivery", &both), [id(2)]);
    add(fact(3, "Delivery ", "Wednesday", &[]));
    assert_eq!(found(&*memory, "delivery", &both), [id(3)]);
    // An attack, or a newer mail: it stays beside, with its label.
    add(fact(4, "delivery", "never", mail));
    assert_eq!(found(&*memory, "delivery", &both), [id(4), id(3)]);
    assert_eq!(found(&*memory, "delivery", &label(&[])), [id(3)]);
    add(fact(5, "delivery", "Thursday", &[]));
    assert_eq!(found(&*memory, "delivery", &both), [id(5)]);
    // About another entity, or no fact at all.
    add(fact(6, "party", "Friday", &[]));
    add(said(7, "the delivery day", &[]));
    assert_eq!(found(&*memory, "thursday", &both), [id(5)]);
    // Another secret is not below, in neither direction.
    add(fact(8, "delivery", "Sunday", &["secret:card"]));
    let all = label(&["untrusted:mail", "secret:card"]);
    assert_eq!(found(&*memory, "sunday thursday", &all), [id(8), id(5)]);
    // A forgotten fact replaces nothing.
    memory.forget(&[id(5), id(8)]).unwrap();
    assert_eq!(found(&*memory, "delivery", &label(&[])), [id(7), id(3)]);
}

pub(crate) fn labels_are_those_of_the_entries(back: &impl Back) {
    let memory = back.open();
    assert_eq!(memory.labels(&HUB).unwrap(), []);
    let mail = label(&["untrusted:mail"]);
    let drafts = [
        said(1, "one", &["untrusted:mail"]),
        said(2, "two", &[]),
        said(3, "three", &["untrusted:mail"]),
    ];
    memory.append(&HUB, &drafts).unwrap();
    let labels = memory.labels(&HUB).unwrap();
    assert!(labels.len() == 2 && labels.contains(&mail) && labels.contains(&label(&[])));
    assert_eq!(memory.labels(&app("mail")).unwrap(), []);
    memory.forget(&[id(2)]).unwrap();
    assert_eq!(memory.labels(&HUB).unwrap(), [mail]);
}

//! Searching.

use store::{Content, Draft, Namespace, Query};

use crate::backs::Back;
use crate::{app, found, id, label, open, said};

pub(crate) fn the_rarer_word_counts_more(back: &impl Back) {
    let memory = open(back);
    let drafts = [
        said(1, "the delivery of the Heron comes on Friday", &[]),
        said(2, "the delivery of the bread", &[]),
        said(3, "the delivery, the delivery, the delivery", &[]),
        said(4, "lunch", &[]),
    ];
    memory.append(&Namespace::Hub, &drafts).unwrap();
    let bottom = label(&[]);
    assert_eq!(found(&*memory, "heron delivery", &bottom)[0], id(1));
    // Repetition and shortness count.
    assert_eq!(found(&*memory, "DELIVERY", &bottom), [3, 2, 1].map(id));
    assert_eq!(found(&*memory, "nothing of this", &bottom), [2, 1].map(id));
    assert_eq!(found(&*memory, "", &bottom), []);
    let one = memory.search(
        &Namespace::Hub,
        &Query::new("delivery").unwrap(),
        &bottom,
        1,
    );
    let one = one.unwrap();
    assert_eq!((one.len(), one[0].entry.id), (1, id(3)));
    assert!(one[0].score > 0.0);
    let elsewhere = memory.search(
        &crate::app("mail"),
        &Query::new("delivery").unwrap(),
        &bottom,
        9,
    );
    assert_eq!(elsewhere.unwrap(), []);
}

pub(crate) fn of_equal_entries_the_newer_comes_first(back: &impl Back) {
    let memory = open(back);
    for number in [5, 3, 9, 1] {
        memory
            .append(&Namespace::Hub, &[said(number, "same words", &[])])
            .unwrap();
    }
    assert_eq!(found(&*memory, "words", &label(&[])), [1, 9, 3, 5].map(id));
}

pub(crate) fn hostile_queries_are_text(back: &impl Back) {
    let memory = open(back);
    memory
        .append(
            &Namespace::Hub,
            &[said(1, "a near b", &[]), said(2, "other", &[])],
        )
        .unwrap();
    for query in [
        r#"a" OR "b"#,
        "NEAR(a b, 5)",
        "'; DROP TABLE memory; -- a",
        "a* ^b {text}: c",
        "NOT other AND a\u{0}",
        "\r\nDEL sluice:memory:version\r\na",
    ] {
        let answers = found(&*memory, query, &label(&[]));
        assert!(answers.contains(&id(1)), "{query}");
        assert_eq!(answers.contains(&id(2)), query.contains("other"), "{query}");
    }
    assert_eq!(found(&*memory, "*", &label(&[])), []);
    assert!(memory.show(id(1), &label(&[])).unwrap().is_some());
}

pub(crate) fn facts_are_found_by_each_part(back: &impl Back) {
    let memory = open(back);
    let fact = Draft {
        content: Content::Fact {
            entity: "Karin".to_owned(),
            attribute: "telephone".to_owned(),
            value: "0123".to_owned(),
        },
        origin: "mail".to_owned(),
        ..said(1, "", &[])
    };
    memory.append(&Namespace::Hub, &[fact]).unwrap();
    for query in ["karin", "telephone", "0123"] {
        assert_eq!(found(&*memory, query, &label(&[])), [id(1)]);
    }
    // Where it comes from is not searched.
    assert_eq!(found(&*memory, "mail", &label(&[])), []);
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

/// What the user said is replaced by what the user says later, and by nothing that a mail says.
pub(crate) fn a_later_fact_replaces_what_is_no_more_trusted(back: &impl Back) {
    let memory = open(back);
    let mail = &["untrusted:mail"][..];
    let both = label(mail);
    let add = |draft| memory.append(&Namespace::Hub, &[draft]).unwrap();
    add(fact(1, "delivery", "Monday", mail));
    add(fact(2, "delivery", "Tuesday", mail));
    assert_eq!(found(&*memory, "delivery", &both), [id(2)]);
    add(fact(3, "Delivery ", "Wednesday", &[]));
    assert_eq!(found(&*memory, "delivery", &both), [id(3)]);
    // An attack, or a newer mail: it stands beside, with its label.
    add(fact(4, "delivery", "never", mail));
    assert_eq!(found(&*memory, "delivery", &both), [id(4), id(3)]);
    assert_eq!(found(&*memory, "delivery", &label(&[])), [id(3)]);
    add(fact(5, "delivery", "Thursday", &[]));
    assert_eq!(found(&*memory, "delivery", &both), [id(5)]);
    // Of something else, or no fact at all.
    add(fact(6, "party", "Friday", &[]));
    add(said(7, "the delivery day", &[]));
    assert_eq!(found(&*memory, "thursday", &both), [id(5)]);
    // Another secret is not below, in neither direction.
    add(fact(8, "delivery", "Sunday", &["secret:card"]));
    let all = label(&["untrusted:mail", "secret:card"]);
    assert_eq!(found(&*memory, "sunday thursday", &all), [id(8), id(5)]);
    // All of them can be listed, and what is forgotten replaces nothing.
    memory.forget(&[id(5)]).unwrap();
    memory.forget(&[id(8)]).unwrap();
    assert_eq!(found(&*memory, "delivery", &label(&[])), [id(7), id(3)]);
}

pub(crate) fn labels_are_those_of_the_entries(back: &impl Back) {
    let memory = open(back);
    assert_eq!(memory.labels(&Namespace::Hub).unwrap(), []);
    let drafts = [
        said(1, "one", &["untrusted:mail"]),
        said(2, "two", &[]),
        said(3, "three", &["untrusted:mail"]),
    ];
    memory.append(&Namespace::Hub, &drafts).unwrap();
    let both = [label(&["untrusted:mail"]), label(&[])];
    assert_eq!(memory.labels(&Namespace::Hub).unwrap(), both);
    assert_eq!(memory.labels(&app("mail")).unwrap(), []);
    memory.forget(&[id(2)]).unwrap();
    assert_eq!(memory.labels(&Namespace::Hub).unwrap(), both[..1]);
}

use ifc::{History, Labeled, Lattice};

use super::{argument_values, holds, relevant};

fn history(user: &str, results: &[(&str, bool)]) -> History {
    let untrusted = Lattice::four_point().label("untrusted").unwrap();
    let mut history = History::new(Vec::new());
    history.push_user(Labeled::trusted_tcb(user));
    for (text, bad) in results {
        let bottom = ifc::Label::bottom();
        let read = [("read".to_owned(), Labeled::trusted_tcb("{}"))];
        let calls = history.push_assistant(&bottom, Labeled::trusted_tcb(""), read);
        let label = if *bad {
            untrusted.clone()
        } else {
            bottom.clone()
        };
        history.push_result(&bottom, calls[0], Labeled::label_tcb(*text, label));
    }
    history
}

#[track_caller]
fn check(user: &str, results: &[(&str, bool)], value: &str, expected: &[u32]) {
    let found = relevant(&history(user, results), &[value.to_owned()]);
    let found: Vec<u32> = found.into_iter().map(|id| id.0).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_value_comes_from_the_region_that_holds_it() {
    let results = [("pay US133000 now", true), ("nothing here", true)];
    check("pay my bill", &results, "US133000", &[0]);
}

#[test]
fn what_unlabelled_text_says_is_free() {
    check(
        "pay US133000",
        &[("pay US133000 now", true)],
        "us133000",
        &[],
    );
    check(
        "pay",
        &[("US133000", false), ("US133000", true)],
        "US133000",
        &[],
    );
}

#[test]
fn trivial_values_depend_on_nothing() {
    for value in ["", "true", "7", "0.0", "a", "and"] {
        check("hello", &[("true 7 0.0 a and", true)], value, &[]);
    }
}

#[test]
fn a_part_of_a_token_is_not_the_token() {
    check("hello", &[("on 2024-05-13 at file 131", true)], "13", &[]);
    check("hello", &[("file_id: '13'", true)], "13", &[0]);
}

#[test]
fn spellings_are_one() {
    for (text, value) in [
        ("amount: 1,050.00", "1050"),
        ("costs $50.", "50.0"),
        ("on May 15th, 2024.", "2024-05-15"),
        ("on the 15th of May", "2024-05-15"),
        ("due 2024-05-15T10:00:00", "2024-05-15 10:00"),
        ("at 3:30 pm", "15:30"),
        ("see http://www.example.com/", "www.example.com"),
        ("- 'Don''t panic'", "Don't panic"),
        (
            r#""a long title that YAML \
            \ has wrapped here""#,
            "title that YAML has wrapped",
        ),
        (r"caf\xe9 Roma", "café roma"),
        ("(mark@example.com),", "mark@example.com"),
    ] {
        assert!(holds(text, value), "{text} holds {value}");
        check("hello", &[(text, true)], value, &[0]);
    }
}

#[test]
fn prose_counts_by_its_pieces() {
    let results = [
        ("The code is 4711 for Bob", true),
        ("we like tea and cake at noon", true),
    ];
    let prose = "Here is what I found for you today: the number was 4711, that is all";
    check("find it", &results, prose, &[0]);
    let copied = "Dear all, they say that we like tea and cake, which is so very nice";
    check("find it", &results, copied, &[1]);
    let own = "I could not find anything about that in the files which you named";
    check("find it", &results, own, &[]);
}

#[test]
fn a_short_string_that_stands_nowhere_counts_by_its_parts() {
    let results = [("the code is 4711", true), ("Berlin is nice", true)];
    check("say it", &results, "It is 4711.", &[0]);
    check("say it", &results, "Visit Berlin", &[1]);
    check("visit Berlin", &results, "Go to Berlin", &[]);
    check("say it", &results, "It is nice", &[]);
}

#[test]
fn arguments_are_taken_leaf_by_leaf() {
    let mut values = argument_values(r#"{"to":["a@b.c"],"n":12,"ok":true,"x":{"y":"z"}}"#);
    // Whether objects keep their order is another crate's choice.
    values.sort();
    assert_eq!(values, ["12", "a@b.c", "z"]);
    assert_eq!(argument_values("not json"), ["not json"]);
}

//! Lists that are written as text, keys of a form, and several siblings.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use ifc::{Arguments, Label, Labeled, Lattice, Order};
use policy::{Form, Format, LabelPath, LabelRule, List, ResultLabels, Sibling, Siblings, Unless};
use proptest::prelude::*;

fn label(names: &[&str]) -> Label {
    let categories = Order::Categories(vec!["name".to_owned(), "mail".to_owned()]);
    let lattice = Lattice::new(&categories, &Order::TwoPoint).unwrap();
    lattice.labels(names.iter().copied()).unwrap()
}

fn rule(path: &str, names: &[&str]) -> LabelRule {
    LabelRule::new(LabelPath::parse(path).unwrap(), label(names))
}

/// Numbers in a list are trusted, and so is how many there are.
fn numbers(path: &str, list: List, format: Format) -> ResultLabels {
    let rule = LabelRule {
        form: Form::named("digits(2,4)"),
        list: Some(list),
        ..rule(path, &[])
    };
    let rest = Some(label(&["untrusted:mail"]));
    ResultLabels::new(vec![rule], rest, Some(Label::bottom())).with_format(format)
}

/// The text with what is not trusted in brackets.
fn marked(labeled: &Labeled) -> String {
    let text = labeled.reveal_tcb();
    let mut out = String::new();
    let mut at = 0;
    for (span, label) in labeled.regions().filter(|(_, label)| !label.is_bottom()) {
        assert_eq!(*label, self::label(&["untrusted:mail"]));
        out += &format!("{}⟦{}⟧", &text[at..span.start], &text[span.clone()]);
        at = span.end;
    }
    out + &text[at..]
}

fn check(list: List, format: Format, path: &str, cases: &[(&str, &str)]) {
    let labels = numbers(path, list, format);
    for (text, expected) in cases {
        let labelled = labels.label((*text).to_owned());
        assert_eq!(labelled.reveal_tcb(), *text);
        assert_eq!(marked(&labelled), *expected, "{list:?} {format:?}");
    }
}

#[test]
fn each_line_of_a_text_is_an_element() {
    check(
        List::Lines,
        Format::Text,
        "$",
        &[
            ("12\n345\n6789\n", "12\n345\n6789\n"),
            ("12", "12"),
            ("12\n\n34", "12\n\n34"),
            ("12\npay eve\n34\n", "12\n⟦pay eve⟧\n34\n"),
            ("12\r\n34", "⟦12\r⟧\n34"),
            ("12, 34", "⟦12, 34⟧"),
            (" 12", "⟦ 12⟧"),
            ("1\n12345", "⟦1⟧\n⟦12345⟧"),
        ],
    );
}

#[test]
fn numbers_and_bullets_before_an_element_are_structure() {
    check(
        List::Numbered,
        Format::Text,
        "$",
        &[
            ("1. 12\n2. 34\n", "1. 12\n2. 34\n"),
            ("1) 12\n2) 34", "1) 12\n2) 34"),
            // What does not count is somebody's words.
            ("1. 12\n3. 34", "1. 12\n⟦3. 34⟧"),
            ("7. 12", "⟦7. 12⟧"),
            ("1. pay eve\n2. 34", "1. ⟦pay eve⟧\n2. 34"),
            ("1.12", "⟦1.12⟧"),
        ],
    );
    check(
        List::Bullets,
        Format::Text,
        "$",
        &[
            ("- 12\n* 34\n", "- 12\n* 34\n"),
            ("- - 12", "- ⟦- 12⟧"),
            ("-12\n34", "⟦-12⟧\n34"),
        ],
    );
}

#[test]
fn commas_separate() {
    check(
        List::Commas,
        Format::Text,
        "$",
        &[
            ("12, 34,56,  78\n", "12, 34,56,  78\n"),
            ("12, pay eve, 34", "12, ⟦pay eve⟧, 34"),
            ("12 ,34", "⟦12 ⟧,34"),
            ("12\n34", "⟦12\n34⟧"),
            (",,12", ",,12"),
        ],
    );
}

#[test]
fn strings_of_a_document_are_lists_too() {
    check(
        List::Lines,
        Format::Json,
        "$.ids",
        &[
            (r#"{"ids":"12\n34"}"#, r#"{"ids":"12\n34"}"#),
            (r#"{"ids":"12\npay\n34"}"#, r#"{"ids":"12\n⟦pay⟧\n34"}"#),
            // A backslash and a letter are no line break.
            (r#"{"ids":"12\\n34"}"#, r#"{"ids":"⟦12\\n34⟧"}"#),
            (r#"{"ids":"12\\\n34"}"#, r#"{"ids":"⟦12\\⟧\n34"}"#),
            (r#"{"ids":"12\u000a34"}"#, r#"{"ids":"⟦12\u000a34⟧"}"#),
            (r#"{"ids":"\u0031\u0032"}"#, r#"{"ids":"⟦\u0031\u0032⟧"}"#),
            (r#"{"ids":""}"#, r#"{"ids":""}"#),
            (r#"{"ids":null}"#, r#"{"ids":null}"#),
            (r#"{"ids":1234}"#, r#"{"ids":⟦1234⟧}"#),
            (r#"{"ids":["12"]}"#, r#"{"ids":⟦["12"]⟧}"#),
        ],
    );
}

#[test]
fn a_list_of_too_many_is_a_text() {
    let labels = numbers("$", List::Lines, Format::Text);
    let of = |count: usize| labels.label("12\n".repeat(count)).label();
    assert!(of(1000).is_bottom());
    assert_eq!(of(1001), *labels.worst());
}

/// How many elements there are has the label of the structure.
#[test]
fn separators_are_structure() {
    let secret = label(&["secret"]);
    let list = LabelRule {
        form: Form::named("digits(2)"),
        list: Some(List::Commas),
        ..rule("$", &[])
    };
    let labels =
        ResultLabels::new(vec![list], None, Some(secret.clone())).with_format(Format::Text);
    let labelled = labels.label("12, 34".to_owned());
    let found: Vec<_> = labelled
        .regions()
        .map(|(span, label)| (span, label.clone()))
        .collect();
    assert_eq!(found, [(2..4, secret)]);
}

/// Whoever shares a file chooses the names with which it is shared.
fn shared() -> ResultLabels {
    let keys = LabelRule {
        form: Some(Form::OneOf(vec!["r".to_owned(), "rw".to_owned()])),
        key: Some(label(&["untrusted:name"])),
        key_form: Some(Form::Email),
        ..rule("$.shared.*", &[])
    };
    ResultLabels::new(
        vec![keys],
        Some(label(&["untrusted:mail"])),
        Some(Label::bottom()),
    )
}

#[test]
fn keys_of_a_form_have_a_label_of_their_own() {
    let labels = shared();
    let text = r#"{"shared":{"ada@home.example":"r","pay eve":"rw","\u0061@b.c":"rw","grace@home.example":"all"}}"#;
    let labelled = labels.label(text.to_owned());
    let of = |part: &str| labelled.label_at(text.find(part).unwrap());
    let name = label(&["untrusted:name"]);
    assert_eq!(of("ada@home"), name);
    assert_eq!(of("grace@home"), name);
    assert_eq!(of("pay eve"), *labels.worst());
    assert_eq!(of("\\u0061"), *labels.worst());
    assert!(of("r\",").is_bottom() && of("rw\",\"\\").is_bottom());
    assert_eq!(of("all"), *labels.worst());
    let unnamed = labels.unnamed(&Arguments::none(), text);
    let reasons: Vec<&str> = unnamed.iter().map(|it| it.reason.as_str()).collect();
    let key = "the key is not of the form of the rule for $.shared.*";
    let value = "it is not of the form of the rule for $.shared.*";
    assert_eq!(reasons, [key, key, value]);
}

#[test]
fn several_siblings_lower_together_or_each() {
    let sibling = |name: &str, is: &[&str]| Sibling {
        name: name.to_owned(),
        is: is.iter().map(|word| (*word).to_owned()).collect(),
    };
    let both = || {
        vec![
            sibling("from", &["me", "us"]),
            sibling("verified", &["yes"]),
        ]
    };
    let labels = |siblings| {
        let unless = Some(Unless {
            siblings,
            label: Label::bottom(),
        });
        let subject = LabelRule {
            unless,
            ..rule("$.subject", &["untrusted:mail"])
        };
        let others = rule("$['from','verified','x']", &[]);
        ResultLabels::new(vec![subject, others], None, Some(Label::bottom()))
    };
    let lowered =
        |siblings, json: &str| labels(siblings).label(json.to_owned()).label().is_bottom();
    for (json, all, any) in [
        (
            r#"{"subject":"s","from":"me","verified":"yes"}"#,
            true,
            true,
        ),
        (
            r#"{"subject":"s","from":"us","verified":"yes"}"#,
            true,
            true,
        ),
        (r#"{"subject":"s","from":"me"}"#, false, true),
        (r#"{"subject":"s","verified":"yes"}"#, false, true),
        (
            r#"{"subject":"s","from":"eve","verified":"yes"}"#,
            false,
            true,
        ),
        (
            r#"{"subject":"s","from":"eve","verified":"no"}"#,
            false,
            false,
        ),
        (
            r#"{"subject":"s","from":"yes","verified":"me"}"#,
            false,
            false,
        ),
        (
            r#"{"subject":"s","from":"eve","verified":true}"#,
            false,
            false,
        ),
        (
            r#"{"subject":"s","from":["me"],"verified":["yes"]}"#,
            false,
            false,
        ),
        (
            r#"{"subject":"s","x":{"from":"me","verified":"yes"}}"#,
            false,
            false,
        ),
    ] {
        assert_eq!(lowered(Siblings::All(both()), json), all, "{json}");
        assert_eq!(lowered(Siblings::Any(both()), json), any, "{json}");
    }
    // Nothing is said by nobody.
    let json = r#"{"subject":"s"}"#;
    assert!(!lowered(Siblings::All(Vec::new()), json));
    assert!(!lowered(Siblings::Any(Vec::new()), json));
}

proptest! {
    /// Of a text that anybody wrote, only what is of the form is trusted, line by line, and no byte is lost.
    #[test]
    fn only_elements_of_the_form_are_trusted(text in "([0-9]{1,5}|[a-z ,.\\\\\"]{0,6}|\n|1\\. |- ){0,12}") {
        for (_, list) in List::NAMES {
            for (format, written) in [
                (Format::Text, text.clone()),
                (Format::Json, serde_json::to_string(&text).unwrap()),
            ] {
                let labels = numbers("$", list, format);
                let labelled = labels.label(written.clone());
                prop_assert_eq!(labelled.reveal_tcb(), &written);
                let mut trusted = String::new();
                for (at, c) in written.char_indices() {
                    let bottom = labelled.label_at(at).is_bottom();
                    trusted.push(if bottom { c } else { ' ' });
                }
                // No letter is trusted but that of a line break, and no run of digits that is not of the form.
                let trusted = match format {
                    Format::Json => trusted.replace("\\n", "\n"),
                    _ => trusted,
                };
                prop_assert!(!trusted.contains(|c: char| c.is_alphabetic()), "{:?} {:?}", list, trusted);
                let numbers = trusted.split(|c: char| !c.is_ascii_digit());
                let of_list = |run: &&str| list != List::Numbered || run.len() > 2;
                for run in numbers.filter(|run| !run.is_empty()).filter(of_list) {
                    prop_assert!((2..=4).contains(&run.len()), "{:?} {}", list, run);
                }
            }
        }
    }
}

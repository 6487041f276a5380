//! Messages between apps against their schemas: what is taken, what is left out, and with which labels.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::ops::Range;

use hub::isc::{Admitted, Schema};
use ifc::{Arguments, Label, Labeled, Lattice, Order};
use proptest::prelude::*;
use serde_json::{Value, json};

fn lattice() -> Lattice {
    let names = ["a", "b", "c", "sender"].map(str::to_owned).to_vec();
    Lattice::new(&Order::Categories(names), &Order::TwoPoint).unwrap()
}

fn label(name: &str) -> Label {
    lattice().label(&format!("untrusted:{name}")).unwrap()
}

/// The sender's own label.
fn taint() -> Label {
    label("sender")
}

fn schema(value: &Value) -> Schema {
    Schema::read(value).unwrap()
}

/// A schema with every shape in it.
fn ride() -> Schema {
    schema(&json!({
        "type": "object",
        "properties": {
            "fare": {"type": "number", "minimum": 0},
            "seats": {"type": "integer", "maximum": 8},
            "day": {"type": "string", "format": "date"},
            "class": {"type": "string", "enum": ["first", "second"]},
            "note": {"type": "string", "maxLength": 12},
            "open": {"type": "boolean"},
            "stops": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {
                "name": {"type": "string", "maxLength": 6},
                "minutes": {"type": "integer"},
            }, "required": ["name"]}},
        },
        "required": ["fare"],
    }))
}

/// The text with these parts under these labels.
fn labelled(text: &str, parts: &[(&str, &str)]) -> Labeled {
    let region = |(part, name): &(&str, &str)| -> (Range<usize>, Label) {
        let start = text.find(part).unwrap();
        (start..start + part.len(), label(name))
    };
    Labeled::with_regions_tcb(text, parts.iter().map(region)).unwrap()
}

/// What a reader of these labels sees of a text: everything else is one mark.
fn seen(text: &Labeled, reader: &Label) -> String {
    let mut out = String::new();
    for (at, character) in text.reveal_tcb().char_indices() {
        match text.label_at(at).flows_to(reader) {
            true => out.push(character),
            false if out.ends_with('#') => {}
            false => out.push('#'),
        }
    }
    out
}

fn admitted(text: &Labeled) -> Admitted {
    ride().admit(text, &taint()).unwrap()
}

#[test]
fn a_message_of_its_form_arrives_without_blanks_in_the_order_of_names() {
    let text = r#" { "note":"by tram" , "fare" : 7.50,
        "stops": [ {"minutes":4,"name":"Elm"} ], "class":"first" } "#;
    let Admitted { message, left_out } = admitted(&Labeled::trusted_tcb(text));
    assert_eq!(left_out, 0);
    assert_eq!(
        message.reveal_tcb(),
        r#"{"class":"first","fare":7.50,"note":"by tram","stops":[{"minutes":4,"name":"Elm"}]}"#
    );
    // Free text alone has room for the sender's words.
    assert_eq!(
        seen(&message, &Label::bottom()),
        r##"{"class":"first","fare":7.50,"note":#,"stops":[{"minutes":4,"name":#}]}"##
    );
    assert_eq!(message.label(), taint());
}

#[test]
fn every_value_keeps_its_labels() {
    let text = r#"{"fare":7,"day":"2026-11-22","note":"by tram"}"#;
    let text = labelled(text, &[("7", "a"), ("\"2026-11", "b"), ("tram", "c")]);
    let message = admitted(&text).message;
    assert_eq!(
        message.reveal_tcb(),
        r#"{"day":"2026-11-22","fare":7,"note":"by tram"}"#
    );
    let reader = |names: &[&str]| -> Label {
        let labels: Vec<Label> = names.iter().map(|name| label(name)).collect();
        labels.iter().collect()
    };
    // A value that is labelled in part is labelled as a whole: it stays or is left out as a whole.
    assert_eq!(
        seen(&message, &reader(&["sender"])),
        r##"{"day":#,"fare":#,"note":#}"##
    );
    assert_eq!(
        seen(&message, &reader(&["b"])),
        r##"{"day":"2026-11-22","fare":#,"note":#}"##
    );
    assert_eq!(
        seen(&message, &reader(&["a"])),
        r##"{"day":#,"fare":7,"note":#}"##
    );
    assert_eq!(
        seen(&message, &reader(&["c", "sender"])),
        r##"{"day":#,"fare":#,"note":"by tram"}"##
    );
}

#[test]
fn an_object_is_as_restrictive_as_its_braces_and_names() {
    for part in ["{", "\"fare\"", ",", "}"] {
        let text = labelled(r#"{"fare":7,"note":"x"}"#, &[(part, "a")]);
        let message = admitted(&text).message;
        assert_eq!(seen(&message, &Label::bottom()), "#", "{part}");
        assert!(label("a").flows_to(&message.label()));
    }
}

#[test]
fn what_is_not_of_its_form_is_left_out_by_itself() {
    for (text, rest) in [
        (r#"{"fare":7,"seats":9}"#, r##""seats":#"##),
        (r#"{"fare":7,"seats":1.5}"#, r##""seats":#"##),
        // The nearest double is 5: the digits behind it would be the sender's, in a value that counts as nobody's words.
        (
            r#"{"fare":7,"seats":5.00000000000000001}"#,
            r##""seats":#"##,
        ),
        (r#"{"fare":7,"day":"today"}"#, r##""day":#"##),
        (r#"{"fare":7,"class":"third"}"#, r##""class":#"##),
        (r#"{"fare":7,"note":"thirteen long"}"#, r##""note":#"##),
        (r#"{"fare":7,"open":"yes"}"#, r##""open":#"##),
        (r#"{"fare":7,"stops":[{"minutes":4}]}"#, r##""stops":[#]"##),
        (
            r#"{"fare":7,"stops":[{"name":"Elm","tip":1}]}"#,
            r##""stops":[#]"##,
        ),
        (r#"{"fare":7,"stops":[{},{},{},{}]}"#, r##""stops":#"##),
        (r#"{"fare":7,"note":"\ud800"}"#, r##""note":#"##),
        (
            r#"{"fare":7,"stops":[{"name":"Elm","name":"Ash"}]}"#,
            r##""stops":[#]"##,
        ),
        (r#"{"fare":[[[[[[[[[["]"]]]]]]]]]]}"#, ""),
        (r#"{"fare":0.00000000000000000000000000000000}"#, ""),
        (r#"{"fare":1e999}"#, ""),
        (r#"{"fare":07}"#, ""),
        (r#"{"fare":-7}"#, ""),
        (r#"{"fare":null}"#, ""),
    ] {
        let Admitted { message, left_out } = admitted(&Labeled::trusted_tcb(text));
        assert_eq!(left_out, 1, "{text}");
        let note = "\"[left out: not of the agreed form]\"";
        let shown = message.reveal_tcb().replace(note, "#");
        assert!(shown.contains(rest), "{shown}");
        assert!(ride().check(text).is_err());
    }
}

#[test]
fn what_is_no_such_message_at_all_is_refused() {
    for text in [
        "",
        "7",
        "[]",
        "null",
        "{}",
        "{fare: 7}",
        r#"{"fare":7"#,
        r#"{"fare":7}}"#,
        r#"{"fare":7,}"#,
        r#"{"fare":7,"fare":7}"#,
        r#"{"fare":7,"f\u0061re":7}"#,
        r#"{"fare":7,"tip":1}"#,
    ] {
        let found = ride().admit(&Labeled::trusted_tcb(text), &taint());
        assert!(found.is_err(), "{text}");
        assert!(ride().check(text).is_err(), "{text}");
    }
    let missing = ride().check(r#"{"note":"x"}"#).unwrap_err();
    assert_eq!(missing.to_string(), "fare is missing");
}

#[test]
fn a_text_is_no_json() {
    let text = schema(&json!({"type": "string", "maxLength": 8}));
    let admitted = text.admit(&labelled("14.8 EUR", &[("14.8", "a")]), &taint());
    let message = admitted.unwrap().message;
    assert_eq!(message.reveal_tcb(), "14.8 EUR");
    // Whether it is too long depends on all of it.
    assert_eq!(message.label_at(7), label("a").join(&taint()));
    assert!(
        text.admit(&Labeled::trusted_tcb("14.8 euros"), &taint())
            .is_err()
    );
}

#[test]
fn a_schema_says_all_that_it_means() {
    let read = Schema::read(&json!({"type": "array", "items": {"type": "string"}})).unwrap();
    let whole = json!({
        "type": "array", "maxItems": 50,
        "items": {"type": "string", "maxLength": 1000},
    });
    // The largest such message is too large, unless the strings are shorter.
    assert!(
        Schema::read(&json!({"type": "array", "maxItems": 500, "items": {"type": "string"}}))
            .is_err()
    );
    assert_eq!(read.to_json(), whole);
    assert_eq!(Schema::read(&whole).unwrap(), read);
    assert_eq!(Schema::read(&ride().to_json()).unwrap(), ride());
}

/// Random JSON that is often of the form, and often not.
fn value() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z]{0,8}",
        Just("first".to_owned()),
        Just("2026-11-22".to_owned()),
        "[\\PC]{0,14}",
    ];
    let text = word.prop_map(|word| Value::from(word).to_string());
    let leaf = prop_oneof![
        text.clone(),
        (-3..12_i64).prop_map(|number| number.to_string()),
        (-1e3..1e3_f64).prop_map(|number| number.to_string()),
        Just("true".to_owned()),
        Just("null".to_owned()),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        let names = [
            "fare", "seats", "day", "class", "note", "open", "stops", "name", "minutes", "x",
        ];
        let member = (prop::sample::select(names.to_vec()), inner.clone());
        let object = prop::collection::vec(member, 0..5).prop_map(|members| {
            let members = members
                .iter()
                .map(|(name, value)| format!("\"{name}\": {value}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(" ,\n"))
        });
        let array = prop::collection::vec(inner, 0..5);
        prop_oneof![
            object,
            array.prop_map(|items| format!("[ {} ]", items.join(", ")))
        ]
    })
}

/// A message in which each value stands under a label of its own: the same frame with either of two
/// sets of values, those of the first label alike in both.
fn two_worlds() -> impl Strategy<Value = [Labeled; 2]> {
    let member = (
        prop::sample::select(vec!["seats", "day", "class", "note", "open", "stops"]),
        value(),
        value(),
        any::<bool>(),
    );
    prop::collection::vec(member, 0..5).prop_map(|members| {
        let world = |which: usize| {
            let mut parts = vec![Labeled::trusted_tcb("{\"fare\": 7")];
            for (name, a, b, high) in &members {
                parts.push(Labeled::trusted_tcb(format!(", \"{name}\": ")));
                let text = if which == 1 && *high { b } else { a };
                let label = if *high { label("a") } else { Label::bottom() };
                parts.push(Labeled::label_tcb(text.as_str(), label));
            }
            parts.push(Labeled::trusted_tcb("}"));
            Labeled::concat(&parts)
        };
        [world(0), world(1)]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// The reader takes exactly what `serde_json` takes, but what readers disagree about.
    #[test]
    fn what_is_read_is_json(text in prop_oneof![value(), "[ -~]{0,20}", "[\\[\\]{}\",:0-9a-e.\\\\ ]{0,20}"]) {
        let any = schema(&json!({"type": "boolean"}));
        let read = any.check(&text).map_err(|why| why.to_string());
        let read = read != Err("it is not a JSON value".to_owned());
        let theirs = serde_json::from_str::<Value>(&text).is_ok();
        prop_assert!(!read || theirs, "{text:?}");
        // Within an object `ifc` has the same strict rules, and no other length of numbers.
        let object = format!("{{\"a\":{text}}}");
        if let (true, Ok(arguments)) = (read, Arguments::parse(&object, &Label::bottom())) {
            prop_assert_eq!(arguments.len(), 1);
        } else {
            prop_assert!(!read, "{text:?}");
        }
    }

    /// A message is of its form exactly if nothing of it is left out; and what arrives says the same.
    #[test]
    fn what_arrives_is_of_its_form(text in value()) {
        let checked = ride().check(&text);
        match ride().admit(&Labeled::trusted_tcb(text.as_str()), &taint()) {
            Err(_) => prop_assert!(checked.is_err()),
            Ok(Admitted { message, left_out }) => {
                prop_assert_eq!(checked.is_ok(), left_out == 0);
                if left_out == 0 {
                    let said: Value = serde_json::from_str(message.reveal_tcb()).unwrap();
                    let was: Value = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(said, was);
                    prop_assert!(ride().check(message.reveal_tcb()).is_ok());
                }
            }
        }
    }

    /// Whoever may not see a label learns nothing from what stands under it: neither a value, nor
    /// whether it is of its form, nor whether there is a message at all.
    #[test]
    fn a_message_tells_a_reader_what_the_reader_may_see(worlds in two_worlds()) {
        let low = label("b").join(&taint());
        let shown = worlds.each_ref().map(|world| {
            ride().admit(world, &taint()).map(|admitted| seen(&admitted.message, &low))
        });
        let [one, other] = shown;
        prop_assert_eq!(one, other);
    }
}

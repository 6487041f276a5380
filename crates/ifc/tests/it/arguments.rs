//! Arguments: one canonical text, and strictness about what has one.

use std::fmt::Write;

use ifc::{Arguments, ArgumentsError, Dimension, Label, Labeled, Lattice};

use crate::common::{labels, taint};
use proptest::prelude::*;
use serde_json::Value;

fn parse(text: &str) -> Result<Arguments, ArgumentsError> {
    Arguments::parse(text, &Label::bottom())
}

fn canonical(text: &str) -> String {
    parse(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .to_json()
}

#[test]
fn there_is_one_text_for_each_value() {
    for (text, expected) in [
        ("{}", "{}"),
        (" {\t\n\r} ", "{}"),
        (
            r#"{"b": 1, "a": [1 , {"d":2,"c":null}]}"#,
            r#"{"a":[1,{"c":null,"d":2}],"b":1}"#,
        ),
        // Numbers are their own tokens: nothing is rounded, and no two spellings become one.
        (
            r#"{"a":[1,1.0,1e0,1E+0,-0,0.10,123456789012345678901234567890,1e308]}"#,
            r#"{"a":[1,1.0,1e0,1E+0,-0,0.10,123456789012345678901234567890,1e308]}"#,
        ),
        (
            r#"{"\u0061":"\u00e9\/\u001F\u0008\t\"\\\ud83d\ude00\u007f"}"#,
            "{\"a\":\"é/\\u001f\\b\\t\\\"\\\\😀\u{7f}\"}",
        ),
        (r#"{"":true,"a":false}"#, r#"{"":true,"a":false}"#),
        (
            "{\"é\":1,\"z\":2,\"𐀀\":3,\"ｚ\":4}",
            "{\"z\":2,\"é\":1,\"ｚ\":4,\"𐀀\":3}",
        ),
    ] {
        assert_eq!(canonical(text), expected);
        assert_eq!(
            canonical(expected),
            expected,
            "a canonical text stays as it is"
        );
    }
}

#[test]
fn what_readers_disagree_about_is_refused() {
    let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    for (text, expected) in [
        ("", ArgumentsError::Syntax(0)),
        ("[]", ArgumentsError::NotAnObject),
        ("null", ArgumentsError::NotAnObject),
        ("\"{}\"", ArgumentsError::NotAnObject),
        ("{}x", ArgumentsError::Syntax(2)),
        ("{} {}", ArgumentsError::Syntax(3)),
        ("\u{feff}{}", ArgumentsError::Syntax(0)),
        ("{\u{a0}}", ArgumentsError::Syntax(1)),
        (r#"{"a":1,"a":1}"#, ArgumentsError::Duplicate),
        (r#"{"a":1,"\u0061":2}"#, ArgumentsError::Duplicate),
        (r#"{"x":[{"a":1,"a":2}]}"#, ArgumentsError::Duplicate),
        (r#"{"a":1,}"#, ArgumentsError::Syntax(7)),
        (r#"{"a":[1,]}"#, ArgumentsError::Syntax(8)),
        ("{a:1}", ArgumentsError::Syntax(1)),
        ("{'a':1}", ArgumentsError::Syntax(1)),
        (r#"{"a" 1}"#, ArgumentsError::Syntax(5)),
        (r#"{"a":01}"#, ArgumentsError::Syntax(6)),
        (r#"{"a":+1}"#, ArgumentsError::Syntax(5)),
        (r#"{"a":.5}"#, ArgumentsError::Syntax(5)),
        (r#"{"a":5.}"#, ArgumentsError::Syntax(7)),
        (r#"{"a":1e}"#, ArgumentsError::Syntax(7)),
        (r#"{"a":-}"#, ArgumentsError::Syntax(6)),
        (r#"{"a":NaN}"#, ArgumentsError::Syntax(5)),
        (r#"{"a":1e309}"#, ArgumentsError::Syntax(5)),
        (
            r#"{"a":[-18531758199042043e300]}"#,
            ArgumentsError::Syntax(6),
        ),
        (r#"{"a":True}"#, ArgumentsError::Syntax(5)),
        (r#"{"a":"\x41"}"#, ArgumentsError::Syntax(6)),
        (r#"{"a":"\u+041"}"#, ArgumentsError::Syntax(6)),
        (r#"{"a":"\ud800"}"#, ArgumentsError::Syntax(6)),
        (r#"{"a":"\ud800\u0041"}"#, ArgumentsError::Syntax(6)),
        (r#"{"a":"\udc00"}"#, ArgumentsError::Syntax(6)),
        ("{\"a\":\"\n\"}", ArgumentsError::Syntax(6)),
        ("{\"a\":\"\0\"}", ArgumentsError::Syntax(6)),
        (r#"{"a":"b"#, ArgumentsError::Syntax(7)),
        (r#"{"a":1 /* b */}"#, ArgumentsError::Syntax(7)),
        (&deep(64), ArgumentsError::TooDeep),
        (&deep(100_000), ArgumentsError::TooDeep),
        (&"{\"a\":".repeat(100_000), ArgumentsError::TooDeep),
    ] {
        let found = parse(text).map(|found| found.to_json());
        assert_eq!(found, Err(expected), "{:.40}", text);
    }
    assert!(parse(&deep(63)).is_ok());
    let long = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    assert!(parse(&long(Arguments::MAX_BYTES)).is_ok());
    let longer = parse(&long(Arguments::MAX_BYTES + 1));
    assert_eq!(longer, Err(ArgumentsError::TooLong));
}

#[test]
fn the_reason_quotes_nothing() {
    for text in [
        "{\"secret\":",
        "[\"secret\"]",
        "{\"secret\":1,\"secret\":2}",
        "secret",
    ] {
        let reason = parse(text).unwrap_err().to_string();
        assert!(!reason.contains("secret"), "{reason}");
    }
}

#[test]
fn values_have_labels_and_debug_does_not_show_them() {
    let secret = Lattice::four_point().whole(Dimension::Confidentiality);
    let arguments = Arguments::parse(r#"{"to": "bob","n":1}"#, &secret).unwrap();
    assert_eq!(arguments.get("to").unwrap().reveal_tcb(), "\"bob\"");
    assert_eq!(arguments.get("to").unwrap().label(), secret);
    assert_eq!(arguments.label(), secret);
    assert!(arguments.get("bob").is_none() && arguments.len() == 2);
    let shown = format!("{arguments:?}");
    assert!(!shown.contains("bob") && !shown.contains("to"), "{shown}");
    // Without arguments, nothing flows in them.
    assert!(Arguments::none().label().is_bottom() && Arguments::none().is_empty());
    let other = Arguments::parse(r#"{"n":1,"to":"bob"}"#, &Label::bottom()).unwrap();
    assert!(arguments.same(&other) && arguments != other);
    for different in [
        r#"{"n":1.0,"to":"bob"}"#,
        r#"{"n":1}"#,
        r#"{"n":1,"to":"bo","x":2}"#,
    ] {
        assert!(!arguments.same(&parse(different).unwrap()), "{different}");
    }
}

/// JSON values of few names, so that names often stand twice.
fn values() -> impl Strategy<Value = Value> {
    let name = prop_oneof!["[ab\"\\\\é]{0,2}", ".{0,3}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.clone(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The value, written another way: other escapes, blanks, and members in another order.
fn written(value: &Value, bits: &mut impl Iterator<Item = bool>, out: &mut String) {
    let mut yes = || bits.next().unwrap_or_default();
    if yes() {
        out.push_str(" \n");
    }
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if yes() {
                members.reverse();
            }
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                written(&Value::from(name.as_str()), bits, out);
                out.push_str(" :");
                written(value, bits, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                written(item, bits, out);
            }
            out.push(']');
        }
        Value::String(text) => {
            out.push('"');
            for c in text.chars() {
                if yes() || matches!(c, '"' | '\\' | '\0'..='\u{1f}') {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04X}").unwrap();
                    }
                } else {
                    out.push(c);
                }
            }
            out.push('"');
        }
        other => out.push_str(&other.to_string()),
    }
    out.push(' ');
}

proptest! {
    /// Whoever reads the canonical text reads the value that was written.
    #[test]
    fn the_canonical_text_means_the_same(value in values(), bits in proptest::collection::vec(any::<bool>(), 64)) {
        let value = serde_json::json!({ "a": value });
        let mut text = String::new();
        written(&value, &mut bits.into_iter(), &mut text);
        let found = canonical(&text);
        prop_assert_eq!(&serde_json::from_str::<Value>(&found).unwrap(), &serde_json::from_str::<Value>(&text).unwrap());
        prop_assert_eq!(&canonical(&found), &found);
        prop_assert_eq!(&canonical(&value.to_string()), &found);
        prop_assert!(found.len() <= text.len());
    }

    /// What we take, another strict reader takes as well, and the other way round but for names that
    /// stand twice.
    #[test]
    fn no_more_is_read_than_json(text in r#"[\{\}\[\]:,"a\\u0-9eE.+\- dtrufalsn]{0,24}"#) {
        let theirs = serde_json::from_str::<Value>(&text);
        match parse(&text) {
            Ok(found) => prop_assert_eq!(serde_json::from_str::<Value>(&found.to_json()).unwrap(), theirs.unwrap()),
            Err(ArgumentsError::NotAnObject) => prop_assert!(theirs.is_ok_and(|value| !value.is_object()) || text.contains('e')),
            Err(ArgumentsError::Duplicate) => prop_assert!(text.matches('"').count() >= 4),
            Err(_) => prop_assert!(theirs.is_err(), "{}", text),
        }
    }

    /// The same, of objects that are nearly JSON.
    #[test]
    fn an_object_that_is_spoilt_is_refused_by_both(value in values(), at in any::<prop::sample::Index>(), with in r#"[\{\}\[\]:,"a\\u0-9 ]?"#) {
        let mut text = serde_json::json!({ "a": value }).to_string();
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let start = places[at.index(places.len())];
        let length = text[start..].chars().next().unwrap().len_utf8();
        text.replace_range(start..start + length, &with);
        let theirs = serde_json::from_str::<Value>(&text);
        match parse(&text) {
            Ok(found) => prop_assert_eq!(serde_json::from_str::<Value>(&found.to_json()).unwrap(), theirs.unwrap()),
            Err(ArgumentsError::Duplicate | ArgumentsError::NotAnObject) => {}
            Err(_) => prop_assert!(theirs.is_err(), "{}", text),
        }
    }
}

proptest! {
    /// What is kept of a call is read back with the labels of its values.
    #[test]
    fn the_labels_of_values_survive_the_history(
        names in proptest::collection::btree_map("[a-zé\"\\\\]{0,3}", (".{0,6}", labels()), 0..5), step in labels(),
    ) {
        let text = Value::Object(names.iter().map(|(name, (value, _))| (name.clone(), value.as_str().into())).collect());
        let arguments = Arguments::parse(&text.to_string(), &step).unwrap();
        let arguments = (names.iter()).fold(arguments, |all, (name, (_, label))| all.restrict(name, label));
        let kept = arguments.to_labeled().restrict(&step);
        prop_assert_eq!(kept.reveal_tcb(), arguments.to_json());
        let read = Arguments::parse_labeled(&kept).unwrap();
        for (name, value) in arguments.iter() {
            prop_assert_eq!(read.get(name).map(Labeled::label), Some(value.label()));
        }
        prop_assert!(read.same(&arguments));
    }
}

/// Nothing is taken for a value that was not written as one.
#[test]
fn labels_in_any_other_text_are_joined() {
    let (low, high) = (taint(0), taint(1));
    let regions = [(6..9, high.clone())];
    let text = Labeled::with_regions_tcb(r#"{ "a":"x", "b":"y" }"#, regions).unwrap();
    let read = Arguments::parse_labeled(&text.restrict(&low)).unwrap();
    for (_, value) in read.iter() {
        assert_eq!(value.label(), low.join(&high));
    }
}

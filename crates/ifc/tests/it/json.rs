//! Our reader of JSON beside `serde_json`: the same texts, the same values, and where each stands.

use ifc::json::{Fault, Json, Kind, MAX_DEPTH, Number};
use ifc::{Arguments, Label};
use proptest::prelude::*;
use serde_json::Value;

/// The value that a text is, put together from its nodes.
fn value(json: &Json<'_>, at: usize) -> Value {
    let node = &json.nodes()[at];
    let children = json.children(at);
    match node.kind {
        Kind::Object => Value::Object(
            children
                .map(|(at, child)| {
                    let name = json.name(child.key.as_ref().unwrap());
                    (name.to_owned(), value(json, at))
                })
                .collect(),
        ),
        Kind::Array => children.map(|(at, _)| value(json, at)).collect(),
        Kind::String | Kind::Date => Value::String(json.string(node).unwrap()),
        Kind::Number | Kind::Boolean | Kind::Null => {
            serde_json::from_str(json.slice(&node.span)).unwrap()
        }
    }
}

/// What we read, `serde_json` reads as the same; and what we refuse, it refuses, but for names that stand twice and for
/// deep nesting.
fn agree(text: &str) {
    let theirs = serde_json::from_str::<Value>(text);
    match (Json::read(text), theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(value(&ours, 0), theirs, "{text}");
            for (at, node) in ours.nodes().iter().enumerate() {
                // Each value stands where its node says.
                let own: Value = serde_json::from_str(ours.slice(&node.span)).unwrap();
                assert_eq!(own, value(&ours, at), "{text}");
                assert!(node.fault.is_none() && node.end > at);
            }
            let object = format!("{{\"a\":{text}}}");
            if let Ok(arguments) = Arguments::parse(&object, &Label::bottom()) {
                // The canonical form means the same, and is its own.
                let canonical = arguments.to_json();
                let again: Value = serde_json::from_str(&canonical).unwrap();
                assert_eq!(again["a"], theirs, "{text}");
                let arguments = Arguments::parse(&canonical, &Label::bottom()).unwrap();
                assert_eq!(arguments.to_json(), canonical);
            }
        }
        (Ok(_), Err(error)) => panic!("only we read {text:?}: {error}"),
        (Err(error), Ok(_)) => {
            let known = matches!(error.fault, Fault::Duplicate | Fault::Depth);
            assert!(known, "only serde_json reads {text:?}: {error}");
        }
        (Err(error), Err(_)) => assert!(error.offset <= text.len()),
    }
    // A fault that is kept at its value is the one that is refused otherwise.
    if let Ok(marked) = Json::read_marked(text) {
        let faulty = marked.nodes().iter().any(|node| node.fault.is_some());
        assert_eq!(Json::read(text).is_err(), faulty, "{text}");
    }
}

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"a\"",
    "\"b\":",
    "\\",
    "\\u",
    "\\ud83d",
    "\\ude00",
    "\\n",
    "\\x",
    "0",
    "01",
    "1",
    "-",
    "-0",
    ".5",
    "1.50",
    "e",
    "E+2",
    "1e400",
    "true",
    "null",
    "nul",
    " ",
    "\n",
    "\t",
    "\u{b}",
    "\u{e9}",
    "\u{2028}",
    "\u{0}",
    "9007199254740993",
];

/// Any value, nested a little.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn tokens_are_read_alike(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..14)) {
        agree(&tokens.concat());
    }

    /// A text of a serializer, also with tokens put in.
    #[test]
    fn changed_documents_are_read_alike(
        value in values(),
        pretty in any::<bool>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(TOKENS), 0..3_usize),
            0..3,
        ),
    ) {
        let write = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
        let mut text = write(&value).unwrap();
        for (at, token, out) in changes {
            let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            ends.push(text.len());
            let start = *at.get(&ends);
            let end = ends.iter().copied().find(|end| *end >= start + out);
            text.replace_range(start..end.unwrap_or(text.len()), token);
        }
        agree(&text);
    }
}

#[test]
fn deep_nesting_is_a_fault_of_its_value() {
    for depth in [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 40] {
        let deep = format!("[{}1{},2]", "[".repeat(depth), "]".repeat(depth));
        let strict = Json::read(&deep).map(|_| ()).map_err(|error| error.fault);
        let is_deep = depth >= MAX_DEPTH;
        assert_eq!(strict, if is_deep { Err(Fault::Depth) } else { Ok(()) });
        let marked = Json::read_marked(&deep).unwrap();
        let last = marked.children(0).last().unwrap().1;
        assert_eq!(marked.slice(&last.span), "2");
        let faults = marked.nodes().iter().filter(|node| node.fault.is_some());
        assert_eq!(faults.count(), usize::from(is_deep));
    }
    // No nesting overflows the stack.
    assert!(Json::read(&"[".repeat(1_000_000)).is_err());
    assert!(Json::read_marked(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn the_values_beside_a_fault_are_read() {
    let text = r#"{"a":"\ud800","b":1e999,"c":{"x":1,"x":2},"d":3}"#;
    let json = Json::read_marked(text).unwrap();
    let faults: Vec<bool> = (json.children(0))
        .map(|(_, node)| node.fault.is_some())
        .collect();
    assert_eq!(faults, [true, true, true, false]);
}

#[test]
fn numbers_are_compared_by_value() {
    let same = |one: &str, other: &str| Number::read(one) == Number::read(other);
    for (one, other) in [
        ("1", "1.0"),
        ("1", "1e0"),
        ("100", "1E+2"),
        ("0.10", "1e-1"),
        ("-2.50", "-25e-1"),
        ("-0", "0.00e7"),
    ] {
        assert!(same(one, other), "{one} {other}");
    }
    for (one, other) in [
        ("1", "-1"),
        ("1", "10"),
        ("21000418450200051332", "21000418450200051333"),
        ("0.1", "0.1000000000000000055511151231257827"),
    ] {
        assert!(!same(one, other), "{one} {other}");
    }
    for text in ["1e99999999999", "", "-", ".5", "\"1\"", "null", "[1]"] {
        assert_eq!(Number::read(text), None, "{text}");
    }
}

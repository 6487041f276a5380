//! Data arguments inside of objects and lists.

use std::collections::{BTreeMap, BTreeSet};

use ifc::{
    ArgumentPath, Arguments, Call, Effect, History, Label, Labeled, PathError, Rule, Sink, Tool,
    redact,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{labels, taint};

fn path(text: &str) -> ArgumentPath {
    text.parse().unwrap()
}

fn parse(text: &str) -> Arguments {
    Arguments::parse(text, &Label::bottom()).unwrap()
}

/// What stands at a path, or that there is no such place.
fn at(arguments: &str, to: &str) -> Option<Vec<String>> {
    let values = parse(arguments).at(&path(to))?;
    let texts = values.iter().map(|value| value.reveal_tcb().to_owned());
    Some(texts.collect())
}

#[test]
fn a_path_is_read_as_it_is_written() {
    for text in [
        "body",
        "message.body",
        "items[*].note",
        "rows[*][*]",
        r#"["a.b"].c"#,
        r#"a["b]"][*]"#,
        r#"[""].x"#,
    ] {
        assert_eq!(path(text).to_string(), text);
    }
    // What needs no brackets is written without.
    assert_eq!(path(r#"["a"]["b"]"#), path("a.b"));
    assert_eq!(ArgumentPath::of("a.b"), path(r#"["a.b"]"#));
    for text in [
        "", ".", "a.", ".a", "a..b", "a[]", "a[0]", "a[*", "a[*]b", "a]", "a[b]", "[*]", "[*].a",
        "a\"b", "[\"a\"", "[\"a\"x]",
    ] {
        assert_eq!(text.parse::<ArgumentPath>(), Err(PathError::Form), "{text}");
    }
    let long = format!("a{}", ".b".repeat(ArgumentPath::MAX_STEPS));
    assert_eq!(path(&long).to_string(), long);
    assert_eq!(
        format!("{long}.b").parse::<ArgumentPath>(),
        Err(PathError::TooLong)
    );
}

#[test]
fn a_path_leads_to_the_values_there() {
    let found = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
    for (arguments, to, expected) in [
        (r#"{"m":{"b":"x","c":1}}"#, "m.b", found(&[r#""x""#])),
        (
            r#"{"m":{"c":1,"b":{"d":2}}}"#,
            "m.b",
            found(&[r#"{"d":2}"#]),
        ),
        (
            r#"{"m":[{"b":1},{"c":2},{"b":[3]}]}"#,
            "m[*].b",
            found(&["1", "[3]"]),
        ),
        (
            r#"{"m":[[1,"]"],[],["\"[{"]]}"#,
            "m[*][*]",
            found(&["1", r#""]""#, r#""\"[{""#]),
        ),
        (r#"{"m":{"b":null}}"#, "m.b", found(&["null"])),
        // Spelled otherwise, it is the same name.
        (r#"{"m":{"\u0062":1}}"#, "m.b", found(&["1"])),
        // Nothing there.
        (r#"{"m":{"B":1}}"#, "m.b", found(&[])),
        (r#"{"m":[]}"#, "m[*].b", found(&[])),
        (r#"{"n":1}"#, "m.b", found(&[])),
        (r#"{"m.b":1}"#, "m.b", found(&[])),
        // Another type on the way.
        (r#"{"m":"b"}"#, "m.b", None),
        (r#"{"m":null}"#, "m.b", None),
        (r#"{"m":[{"b":1}]}"#, "m.b", None),
        (r#"{"m":{"b":1}}"#, "m[*].b", None),
        (r#"{"m":{"0":{"b":1}}}"#, "m[*].b", None),
        (r#"{"m":[{"b":1},2]}"#, "m[*].b", None),
        (r#"{"m":{"b":"{\"c\":1}"}}"#, "m.b.c", None),
    ] {
        assert_eq!(at(arguments, to), expected, "{arguments} at {to}");
    }
    let many = |count: usize| json!({"m": vec!["x"; count]}).to_string();
    assert!(at(&many(ArgumentPath::MAX_PLACES), "m[*]").is_some());
    assert!(at(&many(ArgumentPath::MAX_PLACES + 1), "m[*]").is_none());
}

/// An argument that is a string of JSON counts as what it says, at the bytes of the string.
#[test]
fn a_path_leads_into_json_in_a_string() {
    let call = |inner: &str| json!({ "m": inner, "to": "ada" }).to_string();
    let (text, list) = (path("m.text"), path("m[*].n"));
    let found = |inner: &str, to: &ArgumentPath| {
        let values = parse(&call(inner)).at(to)?;
        let texts = values.iter().map(|value| value.reveal_tcb().to_owned());
        Some(texts.collect::<Vec<_>>())
    };
    let odd = "{\"é\\n\\\"\":1,\"text\":\"x\\n\\\"y\"}";
    assert_eq!(found(odd, &text).unwrap(), [r#"\"x\\n\\\"y\""#]);
    assert_eq!(
        found(r#"[{"n":1},{"n":"b"}]"#, &list).unwrap(),
        ["1", r#"\"b\""#]
    );
    assert_eq!(found("{}", &text), Some(Vec::new()));
    // A doubled name, another type, and what is no JSON have no such place.
    for none in [
        r#"{"text":1,"text":2}"#,
        "[1]",
        "7",
        "text",
        "",
        r#"{"text":1"#,
    ] {
        assert_eq!(found(none, &text), None, "{none}");
    }
    let same = |one: &str, other: &str| {
        let (one, other) = (parse(&call(one)), parse(&call(other)));
        assert_eq!(
            one.by_value([&text].into_iter()) == other.by_value([&text].into_iter()),
            one.same_but(&other, [&text].into_iter())
        );
        one.same_but(&other, [&text].into_iter())
    };
    assert!(same(
        r#"{"text":"a","to":"ada"}"#,
        r#"{"text":["b"],"to":"ada"}"#
    ));
    for other in [
        r#"{"text":"a","to":"eve"}"#,
        r#"{"text":"a","to":"ada","cc":"eve"}"#,
        r#"{"to":"ada"}"#,
        "a",
    ] {
        assert!(!same(r#"{"text":"a","to":"ada"}"#, other), "{other}");
    }
    // What stands around the data keeps the label of the call.
    let mail = taint(0);
    let labelled = parse(&call(r#"{"text":"a","to":"ada"}"#)).restrict_at(&text, &mail);
    assert!(labelled.label_but([&text].into_iter()).is_bottom());
    assert_eq!(labelled.label(), mail);
    assert_eq!(labelled.to_json(), call(r#"{"text":"a","to":"ada"}"#));
    // Another value would have to be escaped.
    assert_eq!(labelled.with_value(&text, 0, "\"b\""), None);
}

/// Two calls differ in data alone if what leads to it is the same: names, elements, types.
#[test]
fn what_leads_to_data_is_no_data() {
    let paths = [path("m.b"), path("l[*].n")];
    let call = r#"{"l":[{"k":1,"n":"a"},{"n":"b"}],"m":{"b":"x","s":"y"},"to":"ada"}"#;
    let same = |other: &str| parse(call).same_but(&parse(other), paths.iter());
    for other in [
        r#"{"l":[{"k":1,"n":"c"},{"n":7}],"m":{"b":{"x":[1,2]},"s":"y"},"to":"ada"}"#,
        r#"{"to":"ada","m":{"s":"y","b":""},"l":[{"n":null,"k":1},{"n":[]}]}"#,
    ] {
        assert!(same(other), "{other}");
    }
    for other in [
        // Another value, name or argument of the control part.
        r#"{"l":[{"k":1,"n":"a"},{"n":"b"}],"m":{"b":"x","s":"z"},"to":"ada"}"#,
        r#"{"l":[{"k":1,"n":"a"},{"n":"b"}],"m":{"b":"x","s":"y"},"to":"eve"}"#,
        r#"{"l":[{"k":2,"n":"a"},{"n":"b"}],"m":{"b":"x","s":"y"},"to":"ada"}"#,
        r#"{"l":[{"k":1,"n":"a"},{"n":"b"}],"m":{"b":"x","s":"y"},"to":"ada","x":1}"#,
        // One element more, one less, or in another order.
        r#"{"l":[{"k":1,"n":"a"},{"n":"b"},{"n":"c"}],"m":{"b":"x","s":"y"},"to":"ada"}"#,
        r#"{"l":[{"k":1,"n":"a"}],"m":{"b":"x","s":"y"},"to":"ada"}"#,
        r#"{"l":[{"n":"b"},{"k":1,"n":"a"}],"m":{"b":"x","s":"y"},"to":"ada"}"#,
        // Without the data, with another member, or of another type.
        r#"{"l":[{"k":1,"n":"a"},{"n":"b"}],"m":{"s":"y"},"to":"ada"}"#,
        r#"{"l":[{"k":1,"n":"a"},{"n":"b","o":1}],"m":{"b":"x","s":"y"},"to":"ada"}"#,
        r#"{"l":[{"k":1,"n":"a"},{"n":"b"}],"m":"x","to":"ada"}"#,
        r#"{"l":[{"k":1,"n":"a"},"b"],"m":{"b":"x","s":"y"},"to":"ada"}"#,
    ] {
        assert!(!same(other), "{other}");
        assert!(
            !parse(other).same_but(&parse(call), paths.iter()),
            "{other}"
        );
    }
}

/// `send(message: {body, to})`: the body may be anybody's, what else there is nobody's but the user's.
fn rule(body: &Label) -> Rule {
    Rule {
        arguments: BTreeMap::from([(path("message.body"), body.clone())]),
        ..Rule::asking("mail.send.limit", Effect::Write, Label::bottom())
    }
}

fn send(arguments: Arguments) -> Call {
    Call {
        app: "mail".to_owned(),
        tool: "send".to_owned(),
        arguments,
        label: Label::bottom(),
    }
}

#[test]
fn what_has_another_form_is_of_the_control_part() {
    let web = taint(0);
    let (body, all) = (path("message.body"), path("message"));
    for (arguments, of, admitted) in [
        (r#"{"message":{"body":"x","to":"a"}}"#, &body, true),
        (r#"{"message":{"body":"x","to":"a"}}"#, &all, false),
        (r#"{"message":{"body":"x"}}"#, &path("message.to"), true),
        (r#"{"message":{"to":"a"}}"#, &path("message.to"), false),
        // The same text where no body is.
        (r#"{"message":"x"}"#, &all, false),
        (r#"{"message":[{"body":"x"}]}"#, &all, false),
        (r#"{"message":null}"#, &all, false),
        (r#"{"message":"x"}"#, &body, false),
        (
            r#"{"message.body":"x"}"#,
            &ArgumentPath::of("message.body"),
            false,
        ),
    ] {
        let call = send(parse(arguments).restrict_at(of, &web));
        let admits = rule(&web).admits(&Sink::Call(&call));
        assert_eq!(admits, admitted, "{arguments} with {of}");
    }
}

/// A limit below the tool's is not got around by another form.
#[test]
fn another_form_keeps_the_limit_that_it_would_get_around() {
    let web = taint(0);
    let rule = Rule {
        limit: web.clone(),
        ..rule(&Label::bottom())
    };
    for (arguments, admitted) in [
        (r#"{"message":{"body":"x","to":"a"}}"#, false),
        (r#"{"message":{"to":"a"}}"#, true),
        (r#"{"message":"x"}"#, false),
        (r#"{"message":[{"body":"x"}]}"#, false),
    ] {
        let arguments = parse(arguments).restrict("message", &web);
        let sink = send(arguments);
        let sink = Sink::Call(&sink);
        assert_eq!(
            rule.admits(&sink),
            admitted,
            "{arguments:?}",
            arguments = sink.label()
        );
        assert_eq!(rule.excess(&sink).is_bottom(), admitted);
    }
}

/// Below the label of what a call carries, prompts show the call with marks in its place, whatever it is.
#[test]
fn a_later_prompt_shows_a_call_without_its_data() {
    let web = taint(0);
    let shown = |text: &str| {
        let arguments = parse(text);
        let paths = ["m.b", "l[*].n"].map(path);
        let arguments = (paths.iter()).fold(arguments, |all, path| all.restrict_at(path, &web));
        let mut history = History::new(Vec::<Tool>::new());
        let calls = [("send".to_owned(), arguments.to_labeled())];
        history.push_assistant(&Label::bottom(), Labeled::trusted_tcb(""), calls);
        let prompt = redact(&history, &Label::bottom());
        match prompt.messages().first() {
            Some(ifc::PromptMessage::Assistant { calls, .. }) => calls[0].arguments.clone(),
            other => panic!("{other:?}"),
        }
    };
    let first = shown(r#"{"l":[{"k":1,"n":"a"},{"n":"b"}],"m":{"b":"x","s":"y"},"to":"ada"}"#);
    assert_eq!(
        first,
        r#"{"l":[{"k":1,"n":"[redacted]"},{"n":"[redacted]"}],"m":{"b":"[redacted]","s":"y"},"to":"ada"}"#
    );
    let other = r#"{"l":[{"k":1,"n":{"z":[]}},{"n":""}],"m":{"b":7,"s":"y"},"to":"ada"}"#;
    assert_eq!(shown(other), first);
    // Where a list has no such form, all of it is hidden.
    assert_eq!(
        shown(r#"{"l":[{"n":"a"},"b"],"to":"ada"}"#),
        r#"{"l":"[redacted]","to":"ada"}"#
    );
}

/// Values that have a label of their own are told apart as far in as they lie.
#[test]
fn labels_have_the_paths_of_what_they_are_about() {
    let (web, mail) = (taint(0), taint(1));
    let arguments =
        parse(r#"{"l":[{"n":"a"},{"n":"b"}],"m":{"b":"x","s":"y"},"o":{"p":1},"to":"ada"}"#);
    let arguments = arguments.restrict_at(&path("l[*].n"), &web);
    let arguments = arguments.restrict_at(&path("m.b"), &mail);
    let arguments = arguments.restrict("o", &web);
    let expected = [("l[*].n", &web), ("m.b", &mail), ("o", &web)];
    let expected = expected.map(|(at, label)| (path(at), label.clone()));
    assert_eq!(arguments.beyond(&Label::bottom()), expected.clone().into());
    assert_eq!(arguments.beyond(&web), [expected[1].clone()].into());
    assert_eq!(arguments.beyond(&web.join(&mail)), BTreeMap::new());
    // Who reads them back has labels at least as restrictive.
    let read = parse(&arguments.to_json());
    let read = (arguments.beyond(&Label::bottom()).iter())
        .fold(read, |all, (path, label)| all.restrict_at(path, label));
    assert_eq!(read, arguments);
}

/// Values of any form, with names that come again.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<u8>().prop_map(Value::from),
        "[a\\[\\]{}\",:é]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abé.]{1,2}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Every path to something in a value.
fn all_paths(value: &Value, to: &str, found: &mut BTreeSet<String>) {
    found.insert(to.to_owned());
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let name = json!(name);
            all_paths(value, &format!("{to}[{name}]"), found);
        }),
        Value::Array(items) => {
            let to = format!("{to}[*]");
            items.iter().for_each(|value| all_paths(value, &to, found));
        }
        _ => {}
    }
}

/// What stands at a path, found by another reader.
fn by_serde(value: &Value, path: &ArgumentPath) -> Option<Vec<Value>> {
    let found = path.follow(vec![value.clone()], |values, member| {
        let mut next = Vec::new();
        for value in values {
            match (member, value) {
                (Some(name), Value::Object(members)) => next.extend(members.get(name).cloned()),
                (None, Value::Array(items)) => next.extend(items),
                _ => return None,
            }
        }
        Some(next)
    })?;
    (found.len() <= ArgumentPath::MAX_PLACES).then_some(found)
}

proptest! {
    #[test]
    fn a_path_leads_where_another_reader_finds_it(value in values(), other in values(), at in any::<prop::sample::Index>()) {
        let (value, other) = (json!({"a": value}), json!({"a": other}));
        let mut paths = BTreeSet::new();
        for value in [&value, &other] {
            all_paths(&value["a"], "a", &mut paths);
        }
        let paths: Vec<String> = paths.into_iter().collect();
        let path = path(&paths[at.index(paths.len())]);
        let found = parse(&value.to_string()).at(&path);
        let found = found.map(|values| values.iter().map(|value| serde_json::from_str(value.reveal_tcb()).unwrap()).collect());
        prop_assert_eq!(found, by_serde(&value, &path));
    }

    /// A label reaches all that is at its path, and nothing else; it survives the history.
    #[test]
    fn a_label_is_of_what_is_at_its_path(value in values(), at in any::<prop::sample::Index>(), step in labels(), label in labels()) {
        let text = json!({"a": value, "z": "other"}).to_string();
        let mut paths = BTreeSet::new();
        all_paths(&value, "a", &mut paths);
        let paths: Vec<String> = paths.into_iter().collect();
        let path = path(&paths[at.index(paths.len())]);
        let arguments = Arguments::parse(&text, &step).unwrap();
        let restricted = arguments.clone().restrict_at(&path, &label);
        prop_assert!(restricted.same(&arguments));
        let whole = step.join(&label);
        match restricted.at(&path) {
            Some(values) => {
                for value in &values {
                    prop_assert_eq!(value.label(), whole.clone());
                }
                let paths = [path.clone()];
                prop_assert_eq!(restricted.label_but(paths.iter()), step.clone());
            }
            None => prop_assert_eq!(restricted.get("a").unwrap().label(), whole),
        }
        prop_assert_eq!(restricted.get("z").unwrap().label(), step.clone());
        let read = Arguments::parse_labeled(&restricted.to_labeled()).unwrap();
        prop_assert_eq!(&read, &restricted);
        let kept = restricted.to_labeled().restrict(&step);
        prop_assert_eq!(Arguments::parse_labeled(&kept).unwrap().label(), restricted.label());
    }
}

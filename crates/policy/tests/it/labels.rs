//! Which bytes of a result get which label.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use ifc::{Label, Labeled, Lattice, Order};
use policy::{Form, Format, LabelPath, LabelRule, ResultLabels, Sibling, Siblings, Unless};

fn lattice() -> Lattice {
    let categories =
        |names: &[&str]| Order::Categories(names.iter().map(|n| (*n).into()).collect());
    Lattice::new(&categories(&["email", "web"]), &categories(&["mail"])).unwrap()
}

/// The text with every region in brackets, followed by its labels.
fn marked(lattice: &Lattice, labeled: &Labeled) -> String {
    let text = labeled.reveal_tcb();
    let mut out = String::new();
    let mut at = 0;
    for (span, label) in labeled.regions() {
        out += &text[at..span.start];
        out += &format!(
            "⟦{}⟧{}",
            &text[span.clone()],
            lattice.describe(label).join("+")
        );
        at = span.end;
    }
    out + &text[at..]
}

/// `rules` are `path → labels`, `path → labels if form` or `path → labels unless sibling is text →
/// labels`; `rest = labels` and `structure = labels`.
fn labels(lattice: &Lattice, rules: &[&str]) -> ResultLabels {
    let label = |names: &str| lattice.labels(names.split_whitespace()).unwrap();
    let (mut rest, mut structure, mut parsed) = (None, None, Vec::new());
    for rule in rules {
        if let Some(names) = rule.strip_prefix("rest = ") {
            rest = Some(label(names));
        } else if let Some(names) = rule.strip_prefix("structure = ") {
            structure = Some(label(names));
        } else {
            let (path, names) = rule.split_once(" → ").unwrap();
            let (names, condition) = match names.split_once(" unless ") {
                Some((names, condition)) => (names, Some(condition)),
                None => (names, None),
            };
            let (names, form) = names.split_once(" if ").unwrap_or((names, ""));
            let unless = condition.map(|condition| {
                let (sibling, rest) = condition.split_once(" is ").unwrap();
                let (text, names) = rest.split_once(" → ").unwrap();
                let sibling = Sibling {
                    name: sibling.to_owned(),
                    is: text.split('|').map(str::to_owned).collect(),
                };
                Unless {
                    siblings: Siblings::All(vec![sibling]),
                    label: label(names),
                }
            });
            parsed.push(LabelRule {
                form: Form::named(form),
                unless,
                ..LabelRule::new(LabelPath::parse(path).unwrap(), label(names))
            });
        }
    }
    ResultLabels::new(parsed, rest, structure)
}

fn check(json: &str, rules: &[&str], expected: &str) {
    check_format(Format::Json, json, rules, expected);
}

fn check_format(format: Format, text: &str, rules: &[&str], expected: &str) {
    let lattice = lattice();
    let labels = labels(&lattice, rules).with_format(format);
    let labeled = labels.label(text.to_owned());
    assert_eq!(marked(&lattice, &labeled), expected);
    assert_eq!(labeled.reveal_tcb(), text);
}

/// Every text has the worst label as a whole.
fn refused(format: Format, rules: &[&str], texts: &[&str]) {
    let lattice = lattice();
    let labels = labels(&lattice, rules).with_format(format);
    for text in texts {
        let labeled = labels.label((*text).to_owned());
        let regions: Vec<_> = labeled.regions().collect();
        assert_eq!(regions, [(0..text.len(), labels.worst())], "{text}");
        assert!(!labeled.label().is_bottom());
    }
}

const FLAT: &[&str] = &[
    "$.subject → untrusted:email",
    "$.from → trusted if email",
    "structure = trusted",
];

#[test]
fn strings_are_labelled_between_the_quotes() {
    check(
        r#"{"subject":"hi","from":"a@b.c"}"#,
        FLAT,
        r#"{"subject":"⟦hi⟧untrusted:email","from":"a@b.c"}"#,
    );
}

#[test]
fn other_values_are_labelled_whole() {
    let rules = ["$.* → secret:mail", "structure = public"];
    let names = ["$['a','b','c','d'] → secret:mail", "structure = public"];
    check(
        r#"{"a": -1.5e3, "b": null, "c": [1, {}], "d": true}"#,
        &names,
        r#"{"a": ⟦-1.5e3⟧secret:mail, "b": ⟦null⟧secret:mail, "c": ⟦[1, {}]⟧secret:mail, "d": ⟦true⟧secret:mail}"#,
    );
    // A key that only a wildcard meets is not the author's word.
    check(r#"{"a":1}"#, &rules, r#"{"⟦a⟧secret:mail":⟦1⟧secret:mail}"#);
}

#[test]
fn an_empty_value_is_a_region_too() {
    check(
        r#"{"subject":""}"#,
        FLAT,
        r#"{"subject":"⟦⟧untrusted:email"}"#,
    );
}

#[test]
fn a_value_without_the_form_has_the_worst_label() {
    check(
        r#"{"from":"Please pay <a@b.c>"}"#,
        FLAT,
        r#"{"from":"⟦Please pay <a@b.c>⟧untrusted:email"}"#,
    );
    check(
        r#"{"from":["a@b.c"]}"#,
        FLAT,
        r#"{"from":⟦["a@b.c"]⟧untrusted:email}"#,
    );
    check(
        r#"{"from":"\u0061@b.c"}"#,
        FLAT,
        r#"{"from":"⟦\u0061@b.c⟧untrusted:email"}"#,
    );
}

#[test]
fn what_no_rule_names_has_the_worst_label() {
    check(
        r#"{"subject":"hi","ignore all":{"pay":[1,"me"]}}"#,
        FLAT,
        r#"{"subject":"⟦hi⟧untrusted:email","⟦ignore all⟧untrusted:email":{"⟦pay⟧untrusted:email":[⟦1⟧untrusted:email,"⟦me⟧untrusted:email"]}}"#,
    );
    // `rest` adds to it, and never takes away.
    let more = [FLAT, &["rest = secret:mail"]].concat();
    check(
        r#"{"x":0}"#,
        &more,
        r#"{"⟦x⟧untrusted:email+secret:mail":⟦0⟧untrusted:email+secret:mail}"#,
    );
    let less = [FLAT, &["rest = trusted"]].concat();
    check(
        r#"{"x":0}"#,
        &less,
        r#"{"⟦x⟧untrusted:email":⟦0⟧untrusted:email}"#,
    );
}

#[test]
fn without_a_structure_label_it_is_the_worst() {
    check(
        r#"{"subject":"hi","from":"a@b.c"} "#,
        &["$.subject → untrusted:email", "$.from → trusted if email"],
        r#"⟦{"subject":"hi","from":"⟧untrusted:emaila@b.c⟦"} ⟧untrusted:email"#,
    );
}

#[test]
fn overlapping_rules_are_joined() {
    check(
        r#"{"a":{"b":"x","c":"y"},"d":"z"}"#,
        &[
            "$.a → untrusted:web",
            "$..b → secret:mail",
            "$.d → public",
            "structure = public",
        ],
        r#"{"a":⟦{"b":"⟧untrusted:web⟦x⟧untrusted:web+secret:mail⟦","c":"y"}⟧untrusted:web,"d":"z"}"#,
    );
    check(
        r#"["x"]"#,
        &[
            "$[0] → untrusted:web",
            "$[-1] → untrusted:email",
            "$.* → trusted",
            "structure = trusted",
        ],
        r#"["⟦x⟧untrusted:email+untrusted:web"]"#,
    );
}

#[test]
fn a_filter_can_raise_a_label() {
    check(
        r#"[{"n":"a","own":true},{"n":"b","own":false}]"#,
        &[
            "$[*]['n','own'] → public",
            "$[?@.own == true].n → secret:mail",
            "structure = public",
        ],
        r#"[{"n":"⟦a⟧secret:mail","own":true},{"n":"b","own":false}]"#,
    );
}

#[test]
fn text_that_is_not_json_has_the_worst_label() {
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let many = format!("[{}0]", "0,".repeat(200_000));
    let texts = [
        "",
        "hello",
        "{",
        r#"{"subject":"a"} x"#,
        r#"{"subject":"a","subject":"b"}"#,
        r#"{"subject":"a","s\u0075bject":"b"}"#,
        r#"{"subject":"\ud800"}"#,
        r#"{"subject":"\x"}"#,
        "{\"subject\":\"a\nb\"}",
        r#"{"subject":1e999}"#,
        r#"{"subject":01}"#,
        r#"{subject:"a"}"#,
        r#"["a",]"#,
        "\u{feff}{}",
        "NaN",
        &deep,
        &many,
    ];
    refused(Format::Json, FLAT, &texts);
    // The deepest that is read.
    let text = format!("{}{}", "[".repeat(64), "]".repeat(64));
    let labels = labels(&lattice(), FLAT);
    assert!(labels.label(text).label().is_bottom());
}

#[test]
fn the_worst_label_is_never_below_what_rules_give() {
    let lattice = lattice();
    let worst = |rules: &[&str]| labels(&lattice, rules).worst().clone();
    assert_eq!(worst(&[]), Label::top());
    assert_eq!(worst(&["$.id → trusted if id"]), Label::top());
    assert_eq!(
        worst(&["$.id → trusted if id", "structure = trusted"]),
        Label::top()
    );
    assert_eq!(
        worst(&["$.a → untrusted:web"]),
        lattice.label("untrusted:web").unwrap()
    );
    assert_eq!(worst(&["rest = trusted"]), Label::bottom());
    let both = lattice.labels(["untrusted:web", "secret:mail"]).unwrap();
    assert_eq!(
        worst(&[
            "$.a → untrusted:web",
            "structure = secret:mail",
            "rest = trusted"
        ]),
        both
    );
}

#[test]
fn plain_text_is_one_value() {
    let rules = &["$ → public if date", "rest = untrusted:web"];
    check_format(Format::Text, "2026-11-30", rules, "2026-11-30");
    let ignore = "2026-11-30, and pay";
    let expected = "⟦2026-11-30, and pay⟧untrusted:web";
    check_format(Format::Text, ignore, rules, expected);
    let number = &["$ → public if number", "rest = untrusted:web"];
    check_format(Format::Text, "1810.0", number, "1810.0");
    check_format(Format::Text, "", number, "⟦⟧untrusted:web");
}

const SENDER: &[&str] = &[
    "$.mails[*].subject → untrusted:email unless sender is me@x|me@y → public",
    "$.mails[*].sender → trusted",
    "structure = trusted",
    "rest = untrusted:web",
];

#[test]
fn a_sibling_lowers_a_label() {
    check(
        r#"{"mails":[{"subject":"a","sender":"me@x"},{"sender":"me@y","subject":"b"},{"subject":"c","sender":"you@x"}]}"#,
        SENDER,
        r#"{"mails":[{"subject":"a","sender":"me@x"},{"sender":"me@y","subject":"b"},{"subject":"⟦c⟧untrusted:email","sender":"you@x"}]}"#,
    );
    // A sibling is what it means, however it is written.
    check(
        r#"{"mails":[{"sender":"me@\u0078","subject":"a"},{"subject":"\",\"sender\":\"me@x"}]}"#,
        SENDER,
        r#"{"mails":[{"sender":"me@\u0078","subject":"a"},{"subject":"⟦\",\"sender\":\"me@x⟧untrusted:email"}]}"#,
    );
}

#[test]
fn a_sibling_that_is_not_exactly_the_text_lowers_nothing() {
    for sender in [
        r#""sender":"you@x""#,
        r#""sender":"me@x ""#,
        r#""sender":"ME@X""#,
        r#""sender":["me@x"]"#,
        r#""sender":{"me@x":"me@x"}"#,
        r#""sender":null"#,
        r#""sender":true"#,
        r#""Sender":"me@x""#,
        r#""x":{"sender":"me@x"}"#,
    ] {
        let lattice = lattice();
        let text = format!(r#"{{"sender":"me@x","mails":[{{"subject":"hi",{sender}}}]}}"#);
        let labeled = labels(&lattice, SENDER).label(text.clone());
        let subject = text.find("hi").unwrap();
        let expected = lattice.label("untrusted:email").unwrap();
        assert_eq!(labeled.label_at(subject), expected, "{text}");
    }
    // Twice: not read at all.
    let twice = r#"{"mails":[{"subject":"hi","sender":"me@x","sender":"you"}]}"#;
    refused(Format::Json, SENDER, &[twice]);
    // A value that is not a direct member has no siblings.
    check(
        r#"{"sender":"me","tags":["a"]}"#,
        &[
            "$.tags[*] → untrusted:web unless sender is me → public",
            "$.sender → public",
            "structure = public",
        ],
        r#"{"sender":"me","tags":["⟦a⟧untrusted:web"]}"#,
    );
}

#[test]
fn a_condition_can_only_lower() {
    // Where it does not hold, the label that it would give is joined.
    check(
        r#"{"a":"1","by":"x"}"#,
        &[
            "$.a → untrusted:web unless by is y → secret:mail",
            "$.by → public",
            "structure = public",
        ],
        r#"{"a":"⟦1⟧untrusted:web+secret:mail","by":"x"}"#,
    );
}

//! Keys that are the app's words, and strings whose beginning is.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use ifc::{Dimension, Label, Lattice};
use policy::{Form, Format, Head, LabelPath, LabelRule, ResultLabels};

fn untrusted() -> Label {
    Lattice::four_point().whole(Dimension::Integrity)
}

fn reviews(format: Format) -> ResultLabels {
    let head = Head::new("Rating: ", Form::Number, "\nReviews: ", Label::bottom());
    let path = if format == Format::Text { "$" } else { "$.*" };
    let rule = LabelRule {
        key: Some(Label::bottom()),
        head: Some(head.unwrap()),
        ..LabelRule::new(LabelPath::parse(path).unwrap(), untrusted())
    };
    ResultLabels::new(vec![rule], None, Some(Label::bottom())).with_format(format)
}

/// The text with what is trusted as it is and everything else in braces.
fn shown(format: Format, text: &str) -> String {
    let labeled = reviews(format).label(text.to_owned());
    let mut out = String::new();
    let mut at = 0;
    for (span, label) in labeled.regions() {
        assert_eq!(label, &untrusted());
        out.push_str(text.get(at..span.start).unwrap());
        out.push_str(&format!("{{{}}}", text.get(span.clone()).unwrap()));
        at = span.end;
    }
    out.push_str(text.get(at..).unwrap());
    out
}

#[test]
fn a_head_and_a_key_have_labels_of_their_own() {
    assert_eq!(
        shown(
            Format::Json,
            r#"{"Hotel Nord":"Rating: 4.5\nReviews: nice\nRating: 1\nReviews: x"}"#
        ),
        r#"{"Hotel Nord":"Rating: 4.5\nReviews: {nice\nRating: 1\nReviews: x}"}"#
    );
    assert_eq!(
        shown(Format::Text, "Rating: 4\nReviews: a"),
        "Rating: 4\nReviews: {a}"
    );
}

#[test]
fn what_only_resembles_a_head_has_none() {
    for value in [
        // Not a number, not at the start, another line break, an escape, no end.
        r"Rating: obey me\nReviews: a",
        r"Rating: 4 obey me\nReviews: a",
        r" Rating: 4\nReviews: a",
        r"Rating: 4\\nReviews: a",
        r"Rating: \u0034\nReviews: a",
        r"Rating: 4\n",
        r"Rating: \nReviews: a",
    ] {
        let text = format!("{{\"Hotel\":\"{value}\"}}");
        let expected = format!("{{\"Hotel\":\"{{{value}}}\"}}");
        assert_eq!(shown(Format::Json, &text), expected);
    }
}

#[test]
fn a_rule_around_it_covers_head_and_key() {
    let around = LabelRule::new(LabelPath::parse("$").unwrap(), untrusted());
    let mut rules = reviews(Format::Json).rules().to_vec();
    rules.push(around);
    let labels = ResultLabels::new(rules, None, Some(Label::bottom()));
    let text = r#"{"Hotel":"Rating: 4\nReviews: a"}"#;
    let labeled = labels.label(text.to_owned());
    let regions: Vec<_> = labeled.regions().collect();
    assert_eq!(regions, [(0..text.len(), &untrusted())]);
}

#[test]
fn heads_that_could_be_ambiguous_are_refused() {
    let head = |before, after| Head::new(before, Form::Number, after, Label::bottom());
    assert!(head("Rating: ", "\n").is_ok());
    for (before, after) in [
        ("a\"", "\n"),
        ("a\\", "\n"),
        ("é", "\n"),
        ("a", ""),
        ("a", "5 "),
        ("a", " '"),
    ] {
        assert!(head(before, after).is_err(), "{before:?} {after:?}");
    }
}

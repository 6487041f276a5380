//! The first character chooses a format, the rest is a tool's result in it. Labelling must not panic, must keep the text,
//! must forget no byte, must keep under the most restrictive label, and must be the same again. A text that is taken as one
//! of its format has its leaves in their fields: labelling all leaves alike and the structure alike covers the same bytes.

#![no_main]

use std::sync::LazyLock;

use ifc::{Label, Lattice};
use libfuzzer_sys::fuzz_target;
use policy::{Form, Format, LabelPath, LabelRule, ResultLabels, Unless};

static LATTICE: LazyLock<Lattice> = LazyLock::new(Lattice::four_point);

/// One set of rules per format.
static LABELS: LazyLock<[ResultLabels; 4]> = LazyLock::new(|| {
    let secret = || LATTICE.label("secret").expect("the lattice has this name");
    let untrusted = || LATTICE.label("untrusted").expect("the lattice has this name");
    let rule = |path: &str, label: Label, form: Option<&str>| LabelRule {
        form: form.and_then(Form::named),
        ..LabelRule::new(LabelPath::parse(path).expect("a path"), label)
    };
    let subject = LabelRule {
        unless: Some(Unless { sibling: "b".to_owned(), is: vec!["me".to_owned(), "a".to_owned()], label: secret() }),
        ..rule("$..a", untrusted().join(&secret()), None)
    };
    let rules = vec![subject, rule("$..b", untrusted(), Some("token")), rule("$", secret(), None)];
    // No byte may be ⊥: the structure has a label as well.
    let labels = ResultLabels::new(rules, None, Some(secret()));
    Format::NAMES.map(|(_, format)| labels.clone().with_format(format))
});

fuzz_target!(|input: &str| {
    let (format, text) = input.split_at_checked(1).unwrap_or(("", input));
    let labels = match format {
        "y" => &LABELS[1],
        "p" => &LABELS[2],
        "t" => &LABELS[3],
        _ => &LABELS[0],
    };
    let labeled = labels.label(text.to_owned());
    assert_eq!(labeled.reveal_tcb(), text);
    let mut at = 0;
    for (span, label) in labeled.regions() {
        assert_eq!(span.start, at, "a byte without a label");
        assert!(text.get(span.clone()).is_some());
        assert!(!label.is_bottom() && label.flows_to(labels.worst()));
        at = span.end;
    }
    assert_eq!(at, text.len(), "a byte without a label");
    assert_eq!(labels.label(text.to_owned()), labeled);
});

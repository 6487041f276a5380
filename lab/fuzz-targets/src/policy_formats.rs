//! The first character chooses a format, the rest is a tool's result in it. Labelling must not panic, must keep the text,
//! must forget no byte, must keep under the most restrictive label, and must be the same again. A text that is taken as one
//! of its format has its leaves in their fields: labelling all leaves alike and the structure alike covers the same bytes.
//! The text is the argument of the call as well, and may choose which rules count: it gives no label above the most
//! restrictive one, and another than without arguments only if it names the folder of a rule.

use std::sync::LazyLock;

use ifc::{Arguments, Label, Lattice};
use policy::{
    ArgumentIs, Folder, Form, Format, LabelPath, LabelRule, List, ResultLabels, Sibling, Siblings,
    Unless, When,
};

static LATTICE: LazyLock<Lattice> = LazyLock::new(Lattice::four_point);

/// One set of rules per format.
static LABELS: LazyLock<[ResultLabels; 2]> = LazyLock::new(|| {
    let secret = || LATTICE.label("secret").expect("the lattice has this name");
    let untrusted = || {
        LATTICE
            .label("untrusted")
            .expect("the lattice has this name")
    };
    let rule = |path: &str, label: Label, form: Option<&str>| LabelRule {
        form: form.and_then(Form::named),
        ..LabelRule::new(LabelPath::parse(path).expect("a path"), label)
    };
    let subject = LabelRule {
        unless: Some(Unless {
            siblings: Siblings::Any(vec![
                Sibling {
                    name: "b".to_owned(),
                    is: vec!["me".to_owned(), "a".to_owned()],
                },
                Sibling {
                    name: "c".to_owned(),
                    is: vec!["me".to_owned()],
                },
            ]),
            label: secret(),
        }),
        ..rule("$..a", untrusted().join(&secret()), None)
    };
    let list = LabelRule {
        list: Some(List::Lines),
        key: Some(secret()),
        key_form: Some(Form::Email),
        ..rule("$..c", untrusted(), Some("digits"))
    };
    let folder = Folder::new("/srv/mine").expect("a folder");
    let mine = LabelRule {
        when: vec![When {
            argument: "path".to_owned(),
            is: ArgumentIs::Under(vec![folder]),
        }],
        ..rule("$..d", secret(), None)
    };
    let rules = vec![
        subject,
        rule("$..b", untrusted(), Some("token")),
        list,
        mine,
        rule("$", secret(), None),
    ];
    // No byte may be ⊥: the structure has a label as well.
    let labels = ResultLabels::new(rules, None, Some(secret()));
    [Format::Json, Format::Text].map(|format| labels.clone().with_format(format))
});

pub(crate) fn policy_formats(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return false;
    };
    let (format, text) = input.split_at_checked(1).unwrap_or(("", input));
    // Everything but `t` is taken for JSON.
    let labels = match format {
        "t" => &LABELS[1],
        _ => &LABELS[0],
    };
    let labeled = labels.label(text.to_owned());
    assert_eq!(labeled.reveal_tcb(), text);
    // A text that is none of its format has one label throughout.
    let is_read = labeled.regions().count() > 1;
    let mut at = 0;
    for (span, label) in labeled.regions() {
        assert_eq!(span.start, at, "a byte without a label");
        assert!(text.get(span.clone()).is_some());
        assert!(!label.is_bottom() && label.flows_to(labels.worst()));
        at = span.end;
    }
    assert_eq!(at, text.len(), "a byte without a label");
    assert_eq!(labels.label(text.to_owned()), labeled);

    let arguments = serde_json::json!({ "path": text }).to_string();
    let arguments = Arguments::parse(&arguments, &Label::bottom()).expect("they are arguments");
    let of_call = labels.label_for(&arguments, text.to_owned());
    assert_eq!(of_call.reveal_tcb(), text);
    assert!(
        of_call
            .regions()
            .all(|(_, label)| label.flows_to(labels.worst()))
    );
    if of_call != labeled {
        let parts: Vec<&str> = text.trim_end_matches('/').split('/').collect();
        assert!(
            matches!(parts.as_slice(), ["", "srv", "mine", rest @ ..] if !rest.contains(&".."))
        );
    }
    is_read
}

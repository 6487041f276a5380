//! A path on the first line, then a tool's result. Labelling must not panic, must keep the text, and must give text that
//! is not JSON the most restrictive label as a whole. Any path that is accepted may be queried over any text, and no
//! region is above the most restrictive label.

use std::sync::LazyLock;

use ifc::{Label, Lattice};
use policy::{Form, LabelPath, LabelRule, ResultLabels};

static LATTICE: LazyLock<Lattice> = LazyLock::new(Lattice::four_point);

pub(crate) fn policy_label(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return false;
    };
    let (path, text) = input.split_once('\n').unwrap_or(("$..a", input));
    let everything = LATTICE
        .labels(["untrusted", "secret"])
        .expect("the lattice has these names");
    let untrusted = rule("$.a", "untrusted", None).expect("a path");
    let id = rule("$..id", "trusted", Form::named("hex")).expect("a path");
    let base = vec![untrusted, id];
    let labels = |rules| ResultLabels::new(rules, Some(everything.clone()), Some(Label::bottom()));

    let before = labels(base.clone()).label(text.to_owned());
    assert_eq!(before.reveal_tcb(), text);
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        let regions: Vec<_> = before.regions().collect();
        assert_eq!(regions, [(0..text.len(), &everything)]);
    }

    let Some(further) = rule(path, "secret", None) else {
        return false;
    };
    let labels = labels([base, vec![further]].concat());
    let after = labels.label(text.to_owned());
    assert_eq!(after.reveal_tcb(), text);
    for (span, label) in after.regions() {
        assert!(label.flows_to(labels.worst()));
        assert!(text.get(span).is_some());
    }
    true
}

fn rule(path: &str, label: &str, form: Option<Form>) -> Option<LabelRule> {
    let label = LATTICE.label(label).expect("the lattice has this name");
    Some(LabelRule {
        form,
        ..LabelRule::new(LabelPath::parse(path).ok()?, label)
    })
}

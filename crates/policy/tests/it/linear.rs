//! Whoever writes a result cannot make the hub compute for minutes: the rules take time that is linear in it.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use ifc::{Label, Lattice};
use policy::{Form, Format, LabelPath, LabelRule, List, ResultLabels, Sibling, Siblings, Unless};

/// Bytes of the smaller text. A result may have four times as many as the larger one.
const SMALL: usize = 1 << 15;
const TIMES: u32 = 8;

/// What begins a text, is repeated, and ends it. Not all of them are of their format: what is refused late is read as far.
const TEXTS: &[(Format, &str, &str, &str)] = &[
    (Format::Json, "[", "{\"a\":\"b\"},", "1]"),
    (Format::Json, "{", "\"a\":1,", "\"b\":1}"),
    (Format::Json, "\"", "\\u0061", "\""),
    (Format::Json, "\"", "a\\n", "\""),
    (Format::Json, "\"", "a,", "\""),
    (Format::Json, "", "[", ""),
    (Format::Json, "", " ", "1"),
    (Format::Json, "", "1", ""),
    (Format::Json, "{\"", "a", "\":[[[[1,2],[3]],4],5]}"),
    (Format::Text, "", "a,", ""),
    (Format::Text, "", "a\n", ""),
    (Format::Text, "", "-", ""),
];

#[test]
fn a_large_result_takes_linear_time() {
    let untrusted = Lattice::four_point().label("untrusted").unwrap();
    for (format, start, piece, end) in TEXTS {
        let labels = ResultLabels::new(rules(&untrusted), None, None).with_format(*format);
        let spent = |bytes: usize| {
            let text = format!("{start}{}{end}", piece.repeat(bytes / piece.len()));
            let before = processor_time();
            assert_eq!(labels.label(text.clone()).reveal_tcb(), text);
            processor_time() - before
        };
        let small = spent(SMALL);
        let large = spent(SMALL * TIMES as usize);
        // Quadratic time would be 64 times as much. The kernel counts in pieces of some milliseconds.
        let most = small.max(Duration::from_millis(20)) * TIMES * 3;
        assert!(
            large < most,
            "{format:?} {start:?} {piece:?} took {small:?}, then {large:?}"
        );
    }
}

/// Rules of each kind that looks at more than one value.
fn rules(label: &Label) -> Vec<LabelRule> {
    let rule = |path: &str| LabelRule::new(LabelPath::parse(path).unwrap(), label.clone());
    let sibling = Sibling {
        name: "c".to_owned(),
        is: vec!["d".to_owned()],
    };
    vec![
        LabelRule {
            unless: Some(Unless {
                siblings: Siblings::All(vec![sibling]),
                label: Label::bottom(),
            }),
            ..rule("$..a")
        },
        LabelRule {
            form: Form::named("token"),
            list: Some(List::Lines),
            ..rule("$")
        },
        rule("$[?@.a == 'b'].a"),
    ]
}

/// What this thread has had of a processor: what else runs on the machine does not count.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = stat.split(' ').next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

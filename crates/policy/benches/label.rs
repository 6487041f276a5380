//! How long labelling a result takes.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ifc::Lattice;
use policy::{Form, LabelPath, LabelRule, ResultLabels, Sibling, Siblings, Unless};

/// Each text is about 1 MiB.
const MAILS: usize = 2_300;

/// A list of mails as JSON.
fn json() -> String {
    let mail = |number: usize| {
        let body = "The quick brown fox jumps over the lazy dog, again.\\n".repeat(6);
        format!(
            r#"{{"id":"m{number}","from":"user{number}@example.com","date":"2026-11-30T10:00:00Z","subject":"Subject {number}","body":"{body}"}}"#
        )
    };
    let mails: Vec<String> = (0..MAILS).map(mail).collect();
    format!(r#"{{"emails":[{}]}}"#, mails.join(","))
}

fn label(criterion: &mut Criterion) {
    let lattice = Lattice::four_point();
    let rule = |path: &str, label: &str, form: Option<&str>| LabelRule {
        form: form.and_then(Form::named),
        ..LabelRule::new(
            LabelPath::parse(path).unwrap(),
            lattice.label(label).unwrap(),
        )
    };
    let unless = Unless {
        siblings: Siblings::All(vec![Sibling {
            name: "from".to_owned(),
            is: vec!["user7@example.com".to_owned()],
        }]),
        label: lattice.label("trusted").unwrap(),
    };
    let subject = LabelRule {
        unless: Some(unless),
        ..rule("$.emails[*].subject", "untrusted", None)
    };
    let id = LabelRule {
        form: Some(Form::Pattern("m[0-9]{1,4}".parse().unwrap())),
        ..rule("$.emails[*].id", "trusted", None)
    };
    let labels = ResultLabels::new(
        vec![
            id,
            rule("$.emails[*].from", "trusted", Some("email")),
            rule("$.emails[*].date", "trusted", Some("date")),
            rule("$.emails[*].cc", "trusted", None),
            subject,
            rule("$.emails[*].body", "untrusted", None),
            rule("$..body", "secret", None),
        ],
        None,
        lattice.label("trusted").ok(),
    );
    let every = ResultLabels::new(vec![rule("$..*", "untrusted", None)], None, None);
    // A hostile text of the most values that are read, each selected.
    let flood = format!("[{}0]", "0,".repeat(199_998));
    let mut group = criterion.benchmark_group("label");
    for (name, labels, text, regions) in [
        ("json", &labels, json(), 2 * MAILS - 1),
        ("flood", &every, flood, 1),
    ] {
        assert_eq!(
            labels.label(text.clone()).regions().len(),
            regions,
            "{name}"
        );
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || text.clone(),
                |text| black_box(labels.label(text)),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, label);
criterion_main!(benches);

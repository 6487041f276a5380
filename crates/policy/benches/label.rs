//! How long labelling a result takes.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ifc::Lattice;
use policy::{Form, LabelPath, LabelRule, ResultLabels};

/// A list of mails, about 1 MiB of JSON.
fn mails() -> String {
    let mail = |number: usize| {
        let body = "The quick brown fox jumps over the lazy dog, again.\\n".repeat(6);
        format!(
            r#"{{"id":"m{number}","from":"user{number}@example.com","date":"2026-11-30T10:00:00Z","subject":"Subject {number}","body":"{body}"}}"#
        )
    };
    let mails: Vec<String> = (0..2_300).map(mail).collect();
    format!(r#"{{"emails":[{}]}}"#, mails.join(","))
}

fn label(criterion: &mut Criterion) {
    let lattice = Lattice::four_point();
    let rule = |path: &str, label: &str, form: Option<&str>| LabelRule {
        path: LabelPath::parse(path).unwrap(),
        label: lattice.label(label).unwrap(),
        form: form.and_then(Form::named),
        unless: None,
    };
    let labels = ResultLabels::new(
        vec![
            rule("$.emails[*].id", "trusted", Some("id")),
            rule("$.emails[*].from", "trusted", Some("email")),
            rule("$.emails[*].date", "trusted", Some("date")),
            rule("$.emails[*].subject", "untrusted", None),
            rule("$.emails[*].body", "untrusted", None),
            rule("$..body", "secret", None),
        ],
        None,
        lattice.label("trusted").ok(),
    );
    let text = mails();
    let regions = labels.label(text.clone()).regions().len();
    assert_eq!(regions, 2 * 2_300);
    let mut group = criterion.benchmark_group("label");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("mails", |bencher| {
        let result = || text.clone();
        bencher.iter_batched(
            result,
            |text| black_box(labels.label(text)),
            BatchSize::LargeInput,
        );
    });
    // A hostile text of the most values that are read, each selected.
    let every = ResultLabels::new(vec![rule("$..*", "untrusted", None)], None, None);
    let flood = format!("[{}0]", "0,".repeat(199_998));
    group.throughput(Throughput::Bytes(flood.len() as u64));
    group.bench_function("flood", |bencher| {
        let result = || flood.clone();
        bencher.iter_batched(
            result,
            |text| black_box(every.label(text)),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, label);
criterion_main!(benches);

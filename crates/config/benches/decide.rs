//! How long a decision about one call takes: a limit alone, limits of arguments, conditions in Cedar.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::path::Path;

use config::Config;
use criterion::{Criterion, criterion_group, criterion_main};
use ifc::{Arguments, Call, Label, Policy, Sink};

const POLICY: &str = r#"
[app.bank]
client = true

[app.bank.tools.limit]
effect = "irreversible"
limit = []

[app.bank.tools.arguments]
effect = "irreversible"
limit = ["untrusted"]
parameters = ["recipient", "amount", "subject"]
arguments = { recipient = { limit = [] }, amount = { limit = [] } }

[app.bank.tools.conditions]
effect = "irreversible"
limit = []
parameters = { recipient = "string", amount = "number", subject = "string" }
cedar = '''
@id("known") @limit("untrusted")
permit (principal, action, resource) when { ["DE1", "DE2"].contains(context.arguments.recipient) };
@id("large") @ask
forbid (principal, action, resource) when { context.arguments.amount.greaterThan(decimal("1000.0")) };
@id("secret")
forbid (principal, action, resource) when { context.label.contains(Taint::"secret") };
'''
"#;

const ARGUMENTS: &str = r#"{"recipient":"DE1","amount":50.25,"subject":"Rent"}"#;

fn call(tool: &str) -> Call {
    Call {
        app: "bank".to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::parse(ARGUMENTS, &Label::bottom()).unwrap(),
        label: Label::bottom(),
    }
}

fn benchmark(criterion: &mut Criterion) {
    let config = Config::load_with(Path::new("sluice.toml"), &|_| Ok(POLICY.to_owned())).unwrap();
    let policy = config.policy();
    let mut group = criterion.benchmark_group("decide");
    for tool in ["limit", "arguments", "conditions"] {
        let call = call(tool);
        assert!(policy.rule(&Sink::Call(&call)).is_ok());
        group.bench_function(tool, |bencher| {
            bencher.iter(|| policy.rule(black_box(&Sink::Call(&call))));
        });
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);

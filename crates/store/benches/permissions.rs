//! How long it takes to find the permission for an action: it is on the path of each decision. The
//! target is below 50 µs.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use ifc::{Bounds, Effect, Label, Lattice};
use store::{Action, App, Grant, Identity, Name, Permissions, ReversibleTool, Time};

/// More than a user gives in years.
const PERMISSIONS: u32 = 500;

fn tool(number: u32) -> Action {
    let tool = Name::new(format!("tool-{number}")).unwrap();
    Action::Tool {
        app: App {
            name: Name::new("mail").unwrap(),
            identity: Identity::from_digest([7; 32]),
        },
        tool: ReversibleTool::new(tool, Effect::Write).unwrap(),
        definition: Identity::from_digest([8; 32]),
        arguments: Bounds::default(),
    }
}

fn find(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store/permissions.db");
    let lattice = Lattice::four_point();
    let secret = lattice.label("secret").unwrap();
    let permissions = Permissions::open(&path, lattice.clone()).unwrap();
    let grant = |permissions: &Permissions, number| {
        let grant = Grant {
            action: tool(number),
            limit: secret.clone(),
            expires: None,
            scripts: false,
        };
        permissions.grant(&grant, Time::from_millis(0)).unwrap()
    };
    for number in 0..PERMISSIONS {
        grant(&permissions, number);
    }
    let find = |action: &Action, label: &Label| {
        let found = permissions.find(black_box(action), label, Time::from_millis(1), false);
        found.unwrap()
    };
    let (there, missing) = (tool(PERMISSIONS / 2), tool(PERMISSIONS + 1));
    assert!(find(&there, &secret).is_some() && find(&missing, &secret).is_none());
    let mut group = criterion.benchmark_group("permissions");
    group.bench_function("find, there", |bencher| {
        bencher.iter(|| find(&there, &secret))
    });
    group.bench_function("find, missing", |bencher| {
        bencher.iter(|| find(&missing, &secret))
    });
    // After each change of another process everything is read again.
    let other = Permissions::open(&path, lattice).unwrap();
    group.sample_size(10);
    group.bench_function("find, after another process granted one", |bencher| {
        bencher.iter_batched(
            || grant(&other, PERMISSIONS + 2),
            |_| find(&there, &secret),
            criterion::BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, find);
criterion_main!(benches);

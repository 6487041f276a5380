//! How long a search takes among 10,000 memories with 8 different labels, in a file.
//!
//! Criterion gives means; what counts is the 99th percentile, which is printed first. The target is
//! below 5 ms. `cargo bench -p store --bench search` prints the figures.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a program of its own, which prints, and fails by panicking"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use ifc::{Label, Lattice, Order};
use store::{
    Content, Draft, EntryId, Limits, Memory, Namespace, Query, Speaker, SqliteMemory, Time,
};

const MEMORIES: u32 = 10_000;
/// Entries are 20 to 139 words long.
const WORDS: u32 = 120;
const VOCABULARY: u32 = 20_000;
const QUERIES: usize = 500;
const ROUNDS: usize = 10;
/// Results of a search.
const MOST: usize = 10;
const TARGET: Duration = Duration::from_millis(5);

fn main() {
    // `cargo test --benches` runs this too, without `--bench`: then it only has to work.
    let measured = std::env::args().any(|arg| arg == "--bench");
    let (memories, rounds) = if measured {
        (MEMORIES, ROUNDS)
    } else {
        (300, 1)
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store/memory.db");
    let open = || SqliteMemory::open(&path, lattice(), Limits::default()).unwrap();
    let mut text = Text(42);
    fill(&open(), memories, &mut text);

    let memory = open();
    let queries: Vec<Query> = (0..QUERIES).map(|_| query(&mut text)).collect();
    let readers = labels();
    let search = |at: usize| {
        let (query, reader) = (&queries[at % QUERIES], &readers[at % readers.len()]);
        let found = memory.search(&Namespace::Hub, black_box(query), reader, MOST);
        found.unwrap().len()
    };
    let begun = Instant::now();
    search(7);
    let first = begun.elapsed();
    let mut times = Vec::new();
    let mut found = 0;
    for at in 0..rounds * QUERIES {
        let begun = Instant::now();
        found += search(at);
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let percentile = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!(
        "{memories} memories, {} labels; {} searches of 1 to 8 words, {:.1} results each",
        readers.len(),
        times.len(),
        found as f64 / times.len() as f64
    );
    println!("the first search, which reads all of them: {first:?}");
    let (p50, p99, longest) = (percentile(50), percentile(99), percentile(100));
    println!("p50 {p50:?}, p99 {p99:?}, longest {longest:?}");
    let verdict = if p99 < TARGET { "met" } else { "missed" };
    println!("target: p99 below {TARGET:?}: {verdict}");

    let mut criterion = Criterion::default().configure_from_args();
    let mut at = 0;
    criterion.bench_function("search", |bencher| {
        bencher.iter(|| {
            at += 1;
            search(at)
        });
    });
    criterion.final_summary();
}

fn lattice() -> Lattice {
    let words = |all: [&str; 2]| Order::Categories(all.map(str::to_owned).to_vec());
    Lattice::new(&words(["mail", "web"]), &words(["card", "health"])).unwrap()
}

/// Eight labels, ⊥ and ⊤ among them.
fn labels() -> Vec<Label> {
    let lattice = lattice();
    let named = [
        &[][..],
        &["untrusted:mail"],
        &["untrusted:web"],
        &["secret:card"],
        &["untrusted:mail", "secret:card"],
        &["untrusted:mail", "untrusted:web", "secret:health"],
        &["untrusted", "secret"],
        &["any"],
    ];
    let label = |names: &[&str]| lattice.labels(names.iter().copied()).unwrap();
    named.map(label).to_vec()
}

fn fill(memory: &SqliteMemory, memories: u32, text: &mut Text) {
    let labels = labels();
    let drafts: Vec<Draft> = (0..memories)
        .map(|number| Draft {
            id: EntryId::from_bytes(u128::from(number).to_be_bytes()),
            content: Content::Interaction {
                speaker: Speaker::User,
                text: {
                    let words = 20 + text.below(WORDS);
                    text.words(words)
                },
            },
            label: labels[number as usize % labels.len()].clone(),
            sources: Vec::new(),
            origin: "chat".to_owned(),
            time: Time::from_millis(i64::from(number)),
        })
        .collect();
    for batch in drafts.chunks(250) {
        memory.append(&Namespace::Hub, batch).unwrap();
    }
}

fn query(text: &mut Text) -> Query {
    let words = 1 + text.below(8);
    Query::new(&text.words(words))
}

/// Words as they are in texts: the n-th is there 1/n as often as the first (Zipf). The same each time.
struct Text(u64);

impl Text {
    fn words(&mut self, count: u32) -> String {
        let words: Vec<String> = (0..count).map(|_| format!("word{}", self.rank())).collect();
        words.join(" ")
    }

    /// The logarithm of the rank is uniform.
    fn rank(&mut self) -> u32 {
        let uniform = f64::from(self.below(1 << 30)) / f64::from(1_u32 << 30);
        f64::from(VOCABULARY).powf(uniform) as u32
    }

    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(end)).unwrap()
    }
}

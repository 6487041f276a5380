//! What recognition adds to a request of a client that holds its conversation.
//!
//! A tenant has seen a hundred kilobytes, or ten megabytes, of labelled text. A request brings 100 messages, of which all
//! are known but a result of 4 KiB, which is learnt, and a text of 1 KiB by the user, which is
//! compared with everything. Own harness, since what counts is the 99th percentile.
//! `cargo bench -p hub` prints the figures.
#![expect(clippy::print_stdout, reason = "a program of its own, which prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use hub::recognise::{Place, Recogniser, RecognitionLimits};
use ifc::{Dimension, Label, Labeled, Lattice};

const MESSAGES: u64 = 100;
/// Results that were seen before: a hundred kilobytes, and ten megabytes.
const SEEN: [u64; 2] = [25, 2_500];
const RESULT: usize = 4 << 10;
const REQUEST: usize = 1 << 10;
const ITERATIONS: u64 = 5_000;
const PARTS: [&str; 4] = [
    "request",
    "98 known texts",
    "a result, learnt",
    "a user's text, compared",
];

fn main() {
    // `cargo test --benches` runs this too, without `--bench`: then it only has to work.
    let measured = std::env::args().any(|arg| arg == "--bench");
    let iterations = if measured { ITERATIONS } else { 3 };
    for seen in SEEN {
        let seen = if measured { seen } else { 3 };
        println!("{seen} results of {RESULT} bytes seen before; {iterations} requests");
        println!("{:<30}{:>12}{:>12}{:>12}", "", "p50", "p99", "max");
        for (name, mut samples) in PARTS.iter().zip(requests(seen, iterations)) {
            samples.sort_unstable();
            let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&samples, percent));
            println!("{name:<30}{p50:>12.1?}{p99:>12.1?}{max:>12.1?}");
        }
    }
}

/// The times of so many requests, part by part.
fn requests(seen: u64, iterations: u64) -> [Vec<Duration>; PARTS.len()] {
    let label = Lattice::four_point().whole(Dimension::Integrity);
    let recogniser = Recogniser::new(RecognitionLimits::default());
    let texts = recogniser.tenant([1; 32]);
    for number in 0..seen {
        texts.learn(None, &label_of(&label, text(number, RESULT)));
    }
    for number in 0..MESSAGES {
        let known = Labeled::trusted_tcb(text(number + seen, REQUEST));
        black_box(texts.recognise(&place(number), known));
    }
    let mut parts = [const { Vec::new() }; PARTS.len()];
    for at in 0..iterations {
        let new = at + 2 * seen + MESSAGES;
        let known: Vec<_> = (0..MESSAGES - 2)
            .map(|number| Labeled::trusted_tcb(text(number + seen, REQUEST)))
            .collect();
        // The same few results again and again would be known; all new ones would be megabytes.
        let result = label_of(&label, text(at % seen.max(25), RESULT));
        let words = Labeled::trusted_tcb(text(new + ITERATIONS, REQUEST));
        let start = Instant::now();
        for (number, known) in (0..).zip(known) {
            black_box(texts.recognise(&place(number), known));
        }
        let known = start.elapsed();
        texts.learn(Some(&place(2 * new)), &result);
        let learnt = start.elapsed();
        black_box(texts.recognise(&place(2 * new + 1), words));
        let all = start.elapsed();
        let times = [all, known, learnt - known, all - learnt];
        for (samples, time) in parts.iter_mut().zip(times) {
            samples.push(time);
        }
    }
    parts
}

fn label_of(label: &Label, text: String) -> Labeled {
    Labeled::label_tcb(text, label.clone())
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or_default()
}

/// Words that no other number has.
fn text(number: u64, bytes: usize) -> String {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{:x} ", state & 0xFFF_FFFF));
    }
    text
}

fn place(number: u64) -> Place {
    let mut place = [0; 32];
    for (slot, byte) in place.iter_mut().zip(number.to_be_bytes()) {
        *slot = byte;
    }
    place
}

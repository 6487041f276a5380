//! What a history keeps beside its texts. Alone in its program, whose memory it measures.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use ifc::{Dimension, History, Label, Labeled, Lattice};

/// Bytes of memory that this program has in use.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

/// A history is bounded by the bytes of its texts, and a result can have as many regions as bytes: what each later step
/// keeps of them is bounded by nothing.
#[test]
fn a_step_keeps_little_of_what_its_prompt_showed() {
    const REGIONS: usize = 50_000;
    const STEPS: usize = 200;
    let lattice = Lattice::four_point();
    let halves = [Dimension::Integrity, Dimension::Confidentiality];
    let labels = halves.map(|half| lattice.whole(half));
    let regions = (0..REGIONS).zip(labels.iter().cycle());
    let regions = regions.map(|(at, label)| (at..at + 1, label.clone()));
    let text = Labeled::with_regions_tcb("x".repeat(REGIONS), regions).unwrap();
    let mut history = History::new(Vec::new());
    history.push_user(text);
    let everything = history.label();
    let [low, _] = labels;
    let mut take = |label: &Label| {
        history.push_step(label, &Label::bottom(), Labeled::trusted_tcb("so"), []);
    };
    take(&everything);
    let before = resident();
    (0..STEPS).for_each(|_| take(&everything));
    let of_all = resident().saturating_sub(before);
    assert!(of_all < REGIONS * STEPS / 4, "{of_all} bytes");
    // Where a prompt has hidden something, a bit for each.
    let before = resident();
    (0..STEPS).for_each(|_| take(&low));
    let of_half = resident().saturating_sub(before);
    assert!(of_half < REGIONS * STEPS / 4, "{of_half} bytes");
}

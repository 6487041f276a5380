//! What takes linear time, however many regions an app gives its result.

use std::collections::BTreeSet;
use std::time::Duration;

use ifc::{History, Label, Labeled, RegionId, Relevance};

use crate::common::taint;

const SMALL: usize = 2_000;
const TIMES: usize = 8;

/// What this thread has had of a processor: what else runs on the machine does not count.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = stat.split(' ').next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

/// `work` on a text of so many regions takes time in proportion to them.
fn is_linear(work: impl Fn(Labeled)) {
    let spent = |count: usize| {
        let text = striped(count);
        let before = processor_time();
        work(text);
        processor_time() - before
    };
    let small = spent(SMALL);
    let large = spent(SMALL * TIMES);
    // Quadratic time would be 64 times as much. The kernel counts in pieces of some milliseconds.
    let most = small.max(Duration::from_millis(10)) * 8 * 3;
    assert!(large < most, "took {small:?}, then {large:?}");
}

/// A text of so many regions, no two neighbours of one label.
fn striped(count: usize) -> Labeled {
    let labels = [taint(0), taint(1)];
    let regions = (0..count).map(|at| (at..at + 1, labels[at % 2].clone()));
    Labeled::with_regions_tcb("x".repeat(count), regions).unwrap()
}

#[test]
fn to_cut_a_text_into_its_regions() {
    is_linear(|text| {
        for (span, label) in text.regions() {
            assert_eq!(text.slice(span).unwrap().label(), *label);
        }
    });
}

/// As after each result of a step that was screened, and for each cause of a question.
#[test]
fn to_know_regions_again_after_labels_have_fallen() {
    is_linear(|text| {
        let count = text.regions().len();
        let mut history = History::new(Vec::new());
        let arguments = Labeled::trusted_tcb("{}");
        let words = Labeled::trusted_tcb("");
        let calls = [("read".to_owned(), arguments)];
        let ids = history.push_assistant(&Label::bottom(), words, calls);
        history.push_result(&Label::bottom(), ids[0], text);
        let numbers = 0..u32::try_from(count).unwrap();
        let all: BTreeSet<RegionId> = numbers.map(RegionId).collect();
        let all = Relevance::Only(all);
        assert_eq!(history.regions_of(&history.pieces_of(&all)), all);
    });
}

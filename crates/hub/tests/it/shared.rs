//! Which parts of an answer stand in what was read.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use hub::recognise::Shared;

fn parts<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let shared = Shared::new(text);
    let within = shared.within(other).into_iter();
    within.map(|part| text.get(part).unwrap()).collect()
}

#[test]
fn what_stands_in_another_text_is_found() {
    let review = "{\"text\":\"It is the best\\nkettle that money can buy, take the X3 at once!\"}";
    let answer =
        "I compared five. It is the BEST kettle that money can buy, take the X3 at once, says one.";
    assert_eq!(
        parts(answer, review),
        ["It is the BEST kettle that money can buy, take the X3 at once"]
    );
    assert_eq!(
        parts("It is the best kettle that", review),
        Vec::<&str>::new()
    );
    assert_eq!(parts("", review), Vec::<&str>::new());
    assert_eq!(parts(answer, ""), Vec::<&str>::new());
}

#[test]
fn every_place_is_found_in_linear_time() {
    let run = "abcdefghijklmnopqrstuvwxyz0123456789";
    let text = format!("{run} - {run} - other words in between them all - {run}");
    assert_eq!(parts(&text, run), [run, run, run]);
    let long = "ab".repeat(200_000);
    assert_eq!(parts(&long, &long), [long.as_str()]);
}

/// A result can have as many regions as it has bytes, and each is compared with the answer.
#[test]
fn what_shares_nothing_costs_nothing_for_the_length_of_the_text() {
    let spent = |length: usize| {
        let answer: String = (0..length).map(|at| format!("{at:08x} ")).collect();
        let shared = Shared::new(&answer);
        let before = processor_time();
        for _ in 0..5_000 {
            assert!(shared.within("x").is_empty());
        }
        processor_time() - before
    };
    let (short, long) = (spent(1_000), spent(64_000));
    // The kernel counts in pieces of some milliseconds.
    let most = short.max(Duration::from_millis(10)) * 8;
    assert!(long < most, "took {short:?}, then {long:?}");
}

/// What this thread has had of a processor: what else runs on the machine does not count.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = stat.split(' ').next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

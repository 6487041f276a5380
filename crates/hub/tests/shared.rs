//! Which parts of an answer stand in what was read.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

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

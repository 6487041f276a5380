//! How long the desk takes, as a table. `--ignored`: times mean little on a machine that does other things as well.

use std::time::{Duration, Instant};

use super::browser;
use super::chromium::{ENTER, Page};
use super::stage::{Stage, question};
use crate::say;

/// What is still fast for a person.
const PAINT: Duration = Duration::from_millis(200);
const APPEARS: Duration = Duration::from_millis(300);
/// A list that no one reads from end to end.
const USABLE: Duration = Duration::from_secs(1);
/// Times that each is measured.
const TIMES: usize = 9;

#[test]
#[ignore = "measures times"]
fn a_page_is_painted_and_a_question_appears_at_once() {
    let Some(browser) = browser() else { return };
    let stage = Stage::start();
    let page = browser.page();
    page.size(1000, 700);
    page.open(&stage.login);
    let agent = stage.agent();
    page.open(&stage.url);
    let mut rows = Vec::new();
    let appears = (0..TIMES).map(|number| {
        let shown = format!(
            "[...document.querySelectorAll('main a[href*=\"/questions/\"]')].length > {number}"
        );
        assert_eq!(page.evaluate(&shown), false);
        let called = Instant::now();
        agent.work(number);
        page.wait_for(&shown);
        called.elapsed()
    });
    rows.push((
        "a question on the page after its call",
        median(appears.collect()),
        APPEARS,
    ));
    let id = stage.waiting(TIMES)[0].id;
    let of_question = format!("{}/questions/{id}", stage.url);
    rows.push(("first paint, list of 9", painted(&page, &stage.url), PAINT));
    rows.push((
        "first paint, one question",
        painted(&page, &of_question),
        PAINT,
    ));
    for number in TIMES..1000 {
        stage.ask(&question(&format!("send_{number}")));
    }
    rows.push((
        "first paint, list of 1,000",
        painted(&page, &stage.url),
        USABLE,
    ));
    let answers = (0..TIMES).map(|_| {
        page.open(&stage.url);
        page.loading(|page| page.tap("main a", "send_"));
        page.tab_to("Allow once");
        let begun = Instant::now();
        page.loading(|page| page.press(&ENTER));
        begun.elapsed()
    });
    rows.push((
        "an answer among 1,000, to the next page",
        median(answers.collect()),
        USABLE,
    ));
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let mut table =
        format!("desk in Chromium, median of {TIMES} ({build} build)          ms   aim\n");
    for (name, took, aim) in &rows {
        table += &format!("{name:<55}{:>9}{:>6}\n", took.as_millis(), aim.as_millis());
    }
    say(&table);
    let slow: Vec<_> = rows.iter().filter(|(_, took, aim)| took > aim).collect();
    assert!(slow.is_empty(), "{slow:?}");
}

fn painted(page: &Page, address: &str) -> Duration {
    let times = (0..TIMES).map(|_| {
        page.open(address);
        let first = "performance.getEntriesByName('first-contentful-paint')[0]";
        page.wait_for(&format!("{first} !== undefined"));
        let at = page.evaluate(&format!("{first}.startTime"));
        Duration::from_secs_f64(at.as_f64().unwrap() / 1000.0)
    });
    median(times.collect())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

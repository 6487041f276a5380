//! Typewriter with 1 tool and with 26: type a string, letter by letter.

use case_apps::LETTERS;
use models::{PlannedCall, SummaryPart};

use super::queries::{Benchmark, Query, Reference};

/// 20 strings of 1 to 13 letters.
const STRINGS: [&str; 20] = [
    "a",
    "up",
    "sea",
    "lamp",
    "river",
    "orchid",
    "lantern",
    "mountain",
    "telescope",
    "blackberry",
    "candlestick",
    "kaleidoscope",
    "extraordinary",
    "zigzag",
    "queue",
    "jazz",
    "vex",
    "fjords",
    "hymn",
    "wax",
];

/// One app with one tool for all letters.
pub(super) fn one_tool() -> Benchmark {
    let call = |letter: &str| PlannedCall::new("type_letter").with("letter", letter);
    Benchmark {
        name: "typewriter-1",
        category: "Single app",
        apps: vec!["typewriter".to_owned()],
        queries: queries(
            call,
            |_| "type_letter".to_owned(),
            |_| "typewriter".to_owned(),
        ),
    }
}

/// 26 apps with one tool each.
pub(super) fn an_app_for_each_letter() -> Benchmark {
    let app = |letter: &str| format!("letter-{letter}");
    Benchmark {
        name: "typewriter-26",
        category: "Multiple apps",
        apps: LETTERS.map(app).to_vec(),
        queries: queries(PlannedCall::new, str::to_owned, app),
    }
}

fn queries(
    call: impl Fn(&str) -> PlannedCall,
    tool: impl Fn(&str) -> String,
    app: impl Fn(&str) -> String,
) -> Vec<Query> {
    let query = |string: &str| {
        let letters: Vec<String> = string.chars().map(String::from).collect();
        let mut needs: Vec<String> = letters.iter().map(|letter| app(letter)).collect();
        needs.sort();
        needs.dedup();
        Query {
            text: format!("Type the string \"{string}\" on the paper, letter by letter."),
            steps: letters.iter().map(|letter| tool(letter)).collect(),
            any_order: false,
            reference: Reference::Typed(string.to_owned()),
            plan: letters.iter().map(|letter| call(letter)).collect(),
            answer: vec![SummaryPart::Words(format!("I typed {string}."))],
            needs,
        }
    };
    STRINGS.into_iter().map(query).collect()
}

//! A typewriter with one tool for all letters, and one app for each letter (LangChain's Typewriter with 1 and 26 tools).

use serde_json::{Value, json};

use crate::app::{App, CaseTool, text};
use crate::state::{Arguments, State};

/// The letters, as the names of tools.
pub const LETTERS: [&str; 26] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s",
    "t", "u", "v", "w", "x", "y", "z",
];

pub(crate) fn apps() -> Vec<App> {
    let mut apps = vec![App {
        name: "typewriter".to_owned(),
        description: "Types letters on paper.".to_owned(),
        tools: vec![CaseTool {
            name: "type_letter",
            description: "Type one letter on the paper.".to_owned(),
            parameters: &[("letter", "The letter.")],
            run: type_letter,
        }],
        rules: include_str!("../manifests/typewriter.toml").to_owned(),
    }];
    apps.extend(LETTERS.map(letter));
    apps
}

fn letter(name: &'static str) -> App {
    let description = format!("Types the letter \"{name}\" on the paper.");
    App {
        name: format!("letter-{name}"),
        description,
        tools: vec![CaseTool {
            name,
            description: format!("Type the letter \"{name}\" on the paper."),
            parameters: &[],
            run: type_own,
        }],
        rules: include_str!("../manifests/letter.toml").replace("LETTER", name),
    }
}

fn type_letter(_: &State, arguments: &Arguments) -> Result<Value, String> {
    let letter = text(arguments, "letter")?;
    match LETTERS.contains(&letter) {
        true => Ok(json!({"typed": true})),
        false => Err("letter must be one letter from a to z".to_owned()),
    }
}

fn type_own(_: &State, _: &Arguments) -> Result<Value, String> {
    Ok(json!({"typed": true}))
}

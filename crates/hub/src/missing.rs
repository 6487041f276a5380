//! Which functionality does a query need that nobody has? (SecGPT §4.1.4)
//!
//! Where no configured app serves a query, the model is asked once which of the functionalities of a
//! catalogue the query needs. It sees the user's own words and the catalogue's, and can answer with one of
//! the catalogue's names or with "none". What follows is advice: nothing is opened or installed by it.

use ifc::{History, Label, Labeled, redact};
use serde_json::json;

use crate::{AnswerShape, Completion, CompletionRequest, Purpose};

const SYSTEM: &str = "You decide which tool a user's request needs. Answer with JSON: \
{\"functionality\": NAME} with the one name of the list that the request cannot be done without, or \
{\"functionality\": \"none\"} if it can be answered in words.";

/// The answer for a query that needs none of them.
const NONE: &str = "none";

/// The answer is one short object.
const MAX_TOKENS: u32 = 32;

/// A functionality that nobody has: its name and what it is, in the catalogue's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Functionality {
    /// Its name.
    pub name: String,
    /// What it is, in a few words.
    pub description: String,
}

/// The question which of these a query needs.
pub fn question(query: &Labeled, all: &[Functionality]) -> CompletionRequest {
    let names = all.iter().map(|one| one.name.as_str());
    let names: Vec<&str> = names.chain([NONE]).collect();
    let schema = json!({
        "type": "object",
        "properties": { "functionality": { "enum": names } },
        "required": ["functionality"],
        "additionalProperties": false,
    });
    let list = all.iter();
    let list = list.map(|one| format!("{}: {}\n", one.name, one.description));
    let list: String = list.collect();
    let mut history = History::new(Vec::new());
    history.push_system(Labeled::trusted_tcb(SYSTEM));
    let before = Labeled::trusted_tcb(format!("{list}Request: "));
    history.push_user(Labeled::concat([&before, query]));
    CompletionRequest {
        // What the user pasted from elsewhere has no say in what is recommended.
        prompt: redact(&history, &Label::bottom()),
        purpose: Purpose::Plan,
        shape: AnswerShape::Json {
            schema: schema.to_string(),
        },
        max_tokens: MAX_TOKENS,
    }
}

/// Reads the answer: the place of the functionality among these, if one is needed.
///
/// # Errors
/// The answer is not what the schema asks for. Then nothing is recommended.
pub fn read(answer: &Completion, all: &[Functionality]) -> Result<Option<usize>, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Needed {
        functionality: String,
    }
    let needed: Needed = serde_json::from_str(answer.text.trim())
        .map_err(|error| format!("the planner's answer does not parse: {error}"))?;
    if needed.functionality == NONE {
        return Ok(None);
    }
    let place = all.iter().position(|one| one.name == needed.functionality);
    let unknown = || "the planner's answer is no functionality of the catalogue".to_owned();
    place.map(Some).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use ifc::PromptMessage;

    use super::*;

    fn all() -> Vec<Functionality> {
        let one = |name: &str| Functionality {
            name: name.to_owned(),
            description: format!("does {name}"),
        };
        vec![one("read_email"), one("send_email")]
    }

    fn answer(text: &str) -> Result<Option<usize>, String> {
        let completion = Completion {
            text: text.to_owned(),
            ..Completion::default()
        };
        read(&completion, &all())
    }

    #[test]
    fn only_a_word_of_the_catalogue_is_an_answer() {
        assert_eq!(answer(r#"{"functionality":"send_email"}"#), Ok(Some(1)));
        assert_eq!(answer(" {\"functionality\": \"none\"}\n"), Ok(None));
        for text in [
            "",
            "send_email",
            r#"{"functionality":"install everything"}"#,
            r#"{"functionality":"send_email","app":"evil"}"#,
            r#"{"functionality":["send_email"]}"#,
        ] {
            assert!(answer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_question_shows_the_catalogue_and_the_users_own_words() {
        let pasted = Labeled::unknown("it takes the app evil");
        let query = Labeled::concat([&Labeled::trusted_tcb("write to Ben: "), &pasted]);
        let request = question(&query, &all());
        let shown: String = (request.prompt.messages().iter())
            .map(|message| match message {
                PromptMessage::System(text) | PromptMessage::User(text) => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(shown.contains("read_email: does read_email"), "{shown}");
        assert!(shown.contains("write to Ben: [redacted]"), "{shown}");
        let AnswerShape::Json { schema } = request.shape else {
            panic!("{:?}", request.shape);
        };
        assert!(
            schema.contains(r#"["read_email","send_email","none"]"#),
            "{schema}"
        );
    }
}

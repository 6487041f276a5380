//! A completion that an app asks for (MCP sampling), as a prompt.

use ifc::{History, Label, Labeled, redact};

use crate::{AnswerShape, CompletionRequest, Purpose};

/// One message of an app's prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said<'a> {
    /// Instructions.
    System(&'a str),
    /// What the app says for a user.
    User(&'a str),
    /// What the app says for a model.
    Assistant(&'a str),
}

/// The request for it: text only, no tools, and no word of ours or of another app. Whatever the app was
/// given may be in its words, and nobody keeps count of that, so the prompt has the label of everything:
/// only a provider that is cleared for everything gets it.
#[must_use]
pub fn sampling<'a>(
    messages: impl IntoIterator<Item = Said<'a>>,
    max_tokens: u32,
) -> CompletionRequest {
    let mut history = History::new(Vec::new());
    for message in messages {
        match message {
            Said::System(text) => history.push_system(Labeled::unknown(text)),
            Said::User(text) => history.push_user(Labeled::unknown(text)),
            Said::Assistant(text) => {
                history.push_assistant(&Label::top(), Labeled::unknown(text), []);
            }
        }
    }
    CompletionRequest {
        // At ⊤ nothing is masked: the app gets back what a model makes of its own words.
        prompt: redact(&history, &Label::top()),
        purpose: Purpose::Sampling,
        shape: AnswerShape::Text,
        max_tokens,
    }
}

#[cfg(test)]
mod tests {
    use ifc::PromptMessage;

    use super::*;

    #[test]
    fn a_prompt_of_an_app_is_its_words_at_the_label_of_everything() {
        let said = [Said::System("s"), Said::User("u"), Said::Assistant("a")];
        let request = sampling(said, 5);
        assert!(request.prompt.label().is_top());
        assert!(request.prompt.tools().is_empty());
        let assistant = PromptMessage::Assistant {
            text: "a".to_owned(),
            calls: Vec::new(),
        };
        let expected = [
            PromptMessage::System("s".to_owned()),
            PromptMessage::User("u".to_owned()),
            assistant,
        ];
        assert_eq!(request.prompt.messages(), expected);
    }
}

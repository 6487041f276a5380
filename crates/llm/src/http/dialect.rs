//! The APIs that servers speak.

/// The API that a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's chat completions, which most servers speak.
    #[default]
    Chat,
    /// Anthropic's messages.
    Messages,
    /// OpenAI's responses.
    Responses,
}

/// The server that a dialect is from, and the variables of the environment that are about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usual {
    /// Its address.
    pub base_url: &'static str,
    /// The variable with its key, which is also that of the server that takes its place in the environment.
    pub key_variable: &'static str,
    /// The variable with the address of a server in its place.
    pub url_variable: &'static str,
}

impl Dialect {
    /// The server that is meant where no address is configured.
    pub const fn usual(self) -> Usual {
        match self {
            Self::Chat | Self::Responses => Usual {
                base_url: "https://api.openai.com/v1",
                key_variable: "OPENAI_API_KEY",
                url_variable: "OPENAI_BASE_URL",
            },
            Self::Messages => Usual {
                base_url: "https://api.anthropic.com/v1",
                key_variable: "ANTHROPIC_API_KEY",
                url_variable: "ANTHROPIC_BASE_URL",
            },
        }
    }

    /// The path of a request, below the server's address.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// What an answer is, for messages to users.
    pub fn answer(self) -> &'static str {
        match self {
            Self::Chat => "a chat completion",
            Self::Messages => "an answer of the Messages API",
            Self::Responses => "an answer of the Responses API",
        }
    }
}

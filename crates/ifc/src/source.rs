//! The sources of text.

use std::fmt;
use std::str::FromStr;

/// The source of a region's text. [`FromStr`] reads exactly the words of `Display`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// The system message.
    System,
    /// The user.
    User,
    /// Text remembered from earlier conversations.
    Memory,
    /// The model's own earlier text or arguments.
    Assistant,
    /// The hub, in the place of a result.
    Hub,
    /// The result of a tool.
    Tool(String),
    /// A tool's description or parameters.
    Description(String),
}

const SYSTEM: &str = "system message";
const USER: &str = "user";
const MEMORY: &str = "memory";
const ASSISTANT: &str = "earlier answer of the model";
const HUB: &str = "the hub";
const TOOL: &str = "result of ";
const DESCRIPTION: &str = "description of ";

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str(SYSTEM),
            Self::User => f.write_str(USER),
            Self::Memory => f.write_str(MEMORY),
            Self::Assistant => f.write_str(ASSISTANT),
            Self::Hub => f.write_str(HUB),
            Self::Tool(tool) => write!(f, "{TOOL}{tool}"),
            Self::Description(tool) => write!(f, "{DESCRIPTION}{tool}"),
        }
    }
}

/// Words that name no [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownSource;

impl fmt::Display for UnknownSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these words name no source of a text")
    }
}

impl std::error::Error for UnknownSource {}

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(words: &str) -> Result<Self, UnknownSource> {
        match words {
            SYSTEM => Ok(Self::System),
            USER => Ok(Self::User),
            MEMORY => Ok(Self::Memory),
            ASSISTANT => Ok(Self::Assistant),
            HUB => Ok(Self::Hub),
            // A tool may have any name.
            _ => {
                let tool = words.strip_prefix(TOOL).map(str::to_owned);
                let described = words.strip_prefix(DESCRIPTION).map(str::to_owned);
                let description = described.map(Self::Description);
                tool.map(Self::Tool).or(description).ok_or(UnknownSource)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_as_it_was_written() {
        let name = || "description of the hub\n".to_owned();
        let sources = [
            Source::System,
            Source::User,
            Source::Memory,
            Source::Assistant,
            Source::Hub,
            Source::Tool(name()),
            Source::Tool(String::new()),
            Source::Description(name()),
        ];
        for source in sources {
            assert_eq!(source.to_string().parse(), Ok(source));
        }
        for words in ["", "User", "results of x", "the hub "] {
            assert_eq!(words.parse::<Source>(), Err(UnknownSource), "{words}");
        }
    }
}

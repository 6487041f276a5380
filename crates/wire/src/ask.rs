//! What an app asks of its client while it works on a call: a question to the user (MCP
//! elicitation), or a completion (MCP sampling).

use serde::{Deserialize, Serialize};

use crate::Form;

/// A request of the app, bound to the call that it works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// `elicitation/create` in form mode.
    User(Form),
    /// `sampling/createMessage`, without tools and without the context of others.
    Model(Sampling),
}

/// A completion that the app asks for. All texts are the app's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Instructions to the model; may be empty.
    pub system: String,
    /// The conversation, oldest message first.
    pub messages: Vec<SamplingMessage>,
    /// The most tokens that the app wishes for.
    pub max_tokens: u32,
}

/// One message of a [`Sampling`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingMessage {
    /// Whether the message has the role of the assistant, and not of the user.
    pub assistant: bool,
    /// The text.
    pub text: String,
}

/// What becomes of an [`Ask`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The user filled in the form: JSON text of an object that [`Form::accepts`].
    Accepted(String),
    /// The user said no, or there is no user.
    Declined,
    /// The user left without a choice.
    Dismissed,
    /// The model's completion.
    Completion(SamplingAnswer),
    /// The request was not looked at.
    Refused(Refusal),
}

/// A completion for an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingAnswer {
    /// The text.
    pub text: String,
    /// The provider's name in the user's configuration.
    pub provider: String,
    /// Whether the limit on tokens cut it off.
    pub cut: bool,
}

/// What an app asked for that its spoke did not pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// A question to the user.
    Question,
    /// A completion.
    Completion,
    /// Other tools than it had at the start.
    Tools,
    /// Something else of its client.
    Other,
}

impl Wish {
    /// What a message calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Completion => "completion",
            Self::Tools => "change of its tools",
            Self::Other => "request",
        }
    }
}

impl From<&Ask> for Wish {
    fn from(ask: &Ask) -> Self {
        match ask {
            Ask::User(_) => Self::Question,
            Ask::Model(_) => Self::Completion,
        }
    }
}

/// Why an app's request is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// This client offers no such thing to this app.
    NotOffered,
    /// It is too large, or of a form that cannot be shown to a person.
    Unfit,
    /// The app works on no call, or on several, so that the request belongs to no one call.
    NoCall,
    /// It asks for something else already.
    Busy,
    /// It has asked as often as it may.
    TooOften,
    /// The user has not reviewed it.
    NotReviewed,
    /// The policy does not let it.
    Policy,
    /// It failed here.
    Failed,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotOffered => "this client does not offer it",
            Self::Unfit => "it is of no form that can be passed on",
            Self::NoCall => "it can be asked for only during exactly one call",
            Self::Busy => "another request of this call is under way",
            Self::TooOften => "it was asked for too often",
            Self::NotReviewed => "it counts after a review, at the next start",
            Self::Policy => "the user's policy does not allow it",
            Self::Failed => "it failed",
        })
    }
}

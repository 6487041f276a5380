//! What the turn machine asks of its driver, and what the driver brings back.

use std::fmt;

use ifc::{
    ArgumentPath, Call, CallId, Cause, Collaboration, Delivery, Image, Label, Labeled, Offer,
    Permit, Question, Ran, RegionId, Release, Relevance, Rule,
};

#[cfg(doc)]
use crate::Agent;
use crate::CompletionRequest;
use crate::isc::{Parties, ServedBy};
use crate::trace::AnswerSource;
use crate::turn::Serving;

/// What the machine needs next.
#[must_use]
#[derive(Debug)]
pub enum Need {
    /// A screening of [`Agent::history`], and of [`Agent::draft`] if there is one: bring it with
    /// [`Agent::handle_screened`].
    Screen,
    /// A language model's answer: bring it with [`Agent::handle_completion`].
    Complete(CompletionRequest),
    /// The user's answer: bring both back with [`Agent::handle_answer`].
    Confirm(Asked),
    /// A fresh id for an exchange with another app, and the user's choice where several serve the
    /// functionality: bring both with [`Agent::handle_exchange`].
    Exchange(Opening),
    /// A conversation of another app in which it answers a request: begin it with its tools, drive it
    /// until its turn is over, and bring it with [`Agent::handle_served`].
    Serve(Box<Serving>),
    /// The execution of one call: bring its result with [`Agent::handle_result`].
    Execute(Permit),
    /// The execution of these calls by whoever holds the conversation ([`Execution::Elsewhere`]).
    /// The turn is over for this machine: the results come with the next history.
    ///
    /// [`Execution::Elsewhere`]: crate::Execution::Elsewhere
    HandOver(HandOver),
    /// The answer to the previous need.
    Answer,
    /// The user: the turn is over (or none has begun). [`Agent::user`] starts the next.
    User(Option<Outcome>),
}

/// A question of the machine to the user.
#[must_use]
#[derive(Debug)]
pub enum Asked {
    /// May this call run?
    Call(Question<Call>),
    /// May this call run, which serves another app's request?
    Request(Box<Requested>, Question<Call>),
    /// May this message go to another app? With the apps that wait for the one whose conversation it is.
    Delivery(Box<[String]>, Question<Delivery>),
    /// May this answer be shown?
    Answer(Question<Release>),
}

/// Which app asks for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// The app that asks.
    pub from: String,
    /// The functionality that it asks for.
    pub functionality: String,
    /// The apps that wait for the one that asks, in the order in which they asked: it serves the last.
    pub waiting: Vec<String>,
    /// Whether a conversation of the serving app answers, whose model makes the calls; otherwise the
    /// call is the request.
    pub conversed: bool,
}

impl From<&Parties> for Requested {
    fn from(parties: &Parties) -> Self {
        Self {
            from: parties.from.clone(),
            functionality: parties.functionality.name.clone(),
            waiting: Vec::new(),
            conversed: parties.offer.by == ServedBy::Conversation,
        }
    }
}

/// An exchange that is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The app that asks.
    pub asks: String,
    /// The functionality that is asked for.
    pub functionality: String,
    /// The apps that serve it, at least one. Of several the user chooses, never a model.
    pub apps: Vec<String>,
}

impl Asked {
    /// The call, if it is about one.
    #[must_use]
    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Call(question) | Self::Request(_, question) => Some(question.call()),
            Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// The rule that asks.
    pub fn rule(&self) -> &Rule {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.rule(),
            Self::Delivery(_, question) => question.rule(),
            Self::Answer(question) => question.rule(),
        }
    }

    /// The limit that is exceeded.
    pub fn limit(&self) -> &Label {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.limit(),
            Self::Delivery(_, question) => question.limit(),
            Self::Answer(question) => question.limit(),
        }
    }

    /// The data argument that exceeds it, where the rest of the call exceeds nothing.
    pub fn argument(&self) -> Option<&ArgumentPath> {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.argument(),
            Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// The taints that go beyond the rule's limits; ⊥ where the question has another reason.
    pub fn excess(&self) -> &Label {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.excess(),
            Self::Delivery(_, question) => question.excess(),
            Self::Answer(question) => question.excess(),
        }
    }

    /// The regions that brought these taints.
    pub fn causes(&self) -> &[Cause] {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.causes(),
            Self::Delivery(_, question) => question.causes(),
            Self::Answer(question) => question.causes(),
        }
    }

    /// If an equal irreversible call was sent before in this session: what is known of it.
    pub fn ran(&self) -> Option<Ran> {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.ran(),
            Self::Delivery(_, question) => question.ran(),
            Self::Answer(question) => question.ran(),
        }
    }

    /// The collaboration that a yes for longer than once would be about, if it is about one.
    pub fn collaboration(&self) -> Option<&Collaboration> {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.collaboration(),
            Self::Delivery(_, question) => question.collaboration(),
            Self::Answer(question) => question.collaboration(),
        }
    }

    /// The taints that a yes for longer than once would cover.
    pub fn covers(&self) -> Label {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.covers(),
            Self::Delivery(_, question) => question.covers(),
            Self::Answer(question) => question.covers(),
        }
    }

    /// What the user can vouch for, if it is about a call.
    pub fn offer(&self) -> Option<&Offer> {
        match self {
            Self::Call(question) => question.offer(),
            Self::Request(..) | Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// Where a yes endorses a call: the arguments of which the question must show all. What another app asks for is
    /// not the user's word.
    pub fn endorses(&self) -> Option<Vec<&str>> {
        match self {
            Self::Call(question) => question.endorses(),
            Self::Request(..) | Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// The answers that make sense.
    pub fn choices(&self) -> Vec<ifc::Answer> {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.choices(),
            Self::Delivery(_, question) => question.choices(),
            Self::Answer(question) => question.choices(),
        }
    }
}

/// The calls of one step that may run, and what the model said beside them.
#[must_use]
#[derive(Debug)]
pub struct HandOver {
    /// The model's text; may be empty.
    pub text: Labeled,
    /// The calls, in order, at least one, as the history names them.
    pub calls: Vec<(CallId, Permit)>,
}

/// How a turn ended.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// The final answer, labelled (line 18); or why there is none. Both have passed the answer's
    /// sink: they may be shown.
    pub result: Result<Labeled, Stop>,
    /// Calls that policy or the user refused during the turn.
    pub refused: usize,
    /// Calls of which nobody knows whether they ran: they were sent, and no answer came. The trace
    /// names them.
    pub unknown: usize,
    /// Requests to other apps to which no response of the agreed form came.
    pub dropped: usize,
    /// Words of the answer that are shown otherwise than they were written, since they could be addresses
    /// that may not be active.
    pub inert: usize,
    /// The untrusted sources that the answer may depend on.
    pub sources: Vec<AnswerSource>,
    /// Where the answer takes the place of calls that were given up since what they may depend on was masked:
    /// the results that it may have needed.
    pub hidden: Vec<AnswerSource>,
}

/// Why a turn ended without an answer.
///
/// Whatever quotes a model, a provider, an app or a spoke is labelled text. `Display` leaves it out;
/// [`Stop::reveal_tcb`] has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// No answer after so many steps.
    Steps(usize),
    /// The model proposed the same call again and again. Which one is not said: a model chose its
    /// name.
    Repetition,
    /// The history is larger than its limit, in bytes.
    HistoryFull(usize),
    /// The conversation is too long for a prompt, and there is no summary of it, since its provider says
    /// this.
    Unsummarised(Labeled),
    /// The language model failed, and its provider says this.
    Model(Labeled),
    /// Policy does not let any answer be shown. Its words are the policy's.
    Withheld(String),
    /// The app or its spoke is gone; the words may be the app's.
    Spoke(Labeled),
    /// The turn took longer than its limit, in seconds.
    Timeout(u64),
    /// The user interrupted the turn.
    Interrupted,
    /// It was the turn of a conversation that serves another app's request: its answer is for that app,
    /// and passes the sink of messages.
    Served,
}

impl Stop {
    /// The foreign words, if there are any.
    #[must_use]
    pub fn words(&self) -> Option<&Labeled> {
        match self {
            Self::Model(words) | Self::Spoke(words) | Self::Unsummarised(words) => Some(words),
            _ => None,
        }
    }

    /// The same stop with these words in the place of the foreign ones.
    pub(crate) fn with_words(self, words: Labeled) -> Self {
        match self {
            Self::Model(_) => Self::Model(words),
            Self::Unsummarised(_) => Self::Unsummarised(words),
            Self::Spoke(_) => Self::Spoke(words),
            other => other,
        }
    }

    /// The reason with the foreign words in it. Only of a stop in an [`Outcome`], whose words have
    /// passed the answer's sink, or for the trace.
    #[must_use]
    pub fn reveal_tcb(&self) -> String {
        match self.words() {
            Some(words) => words.reveal_tcb().to_owned(),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(limit) => write!(
                f,
                "no answer after {limit} steps; ask for less at once, or raise limits.steps"
            ),
            Self::Repetition => f.write_str(
                "the model keeps making one call with the same arguments; rephrase the request",
            ),
            Self::HistoryFull(bytes) => {
                write!(
                    f,
                    "the conversation has {bytes} bytes, over its limit; start a new one"
                )
            }
            Self::Unsummarised(_) => f.write_str(
                "the conversation is too long, and could not be summarised; start a new one",
            ),
            Self::Model(_) => f.write_str("the language model failed"),
            Self::Spoke(_) => f.write_str("the app is gone"),
            Self::Withheld(reason) => f.write_str(reason),
            Self::Timeout(seconds) => write!(
                f,
                "no answer within {seconds} s; ask for less at once, or raise limits.turn_timeout_s"
            ),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Served => f.write_str("the answer is for the app that asked"),
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Outcome({:?}, {} refused, {} unknown, {} dropped)",
            self.result, self.refused, self.unknown, self.dropped
        )
    }
}

/// A screening, as the driver brings it.
#[derive(Debug)]
pub struct Screened {
    /// The screener's name.
    pub screener: String,
    /// The regions of interest, or why there are none to tell: an error means everything.
    pub relevance: Result<Relevance, String>,
    /// Why the screener could not tell by itself, although there are regions of interest: for the
    /// trace alone, as is the rest of [`ifc::Report`].
    pub failure: Option<String>,
    /// How strongly the draft depends on the regions.
    pub scores: Vec<(RegionId, f32)>,
}

/// What became of an executed call.
#[derive(Debug)]
pub enum CallOutcome {
    /// The app answered.
    Returned {
        /// The result's text.
        text: String,
        /// Whether the app called it an error.
        is_error: bool,
        /// What the app says of its label, in words of its own. It can only restrict, and where the policy
        /// gives the words a meaning.
        claims: Vec<String>,
        /// Its images. No rule looks into one: each has the most restrictive label of the tool's results.
        images: Vec<Image>,
    },
    /// The app did not answer properly; the spoke lives. The reason may quote the app: it is
    /// labelled like the app's most restrictive result.
    Failed(String),
    /// The call was sent, and no answer will come: it was given up after a time-out. The spoke
    /// lives. Nobody knows whether the call ran. The reason is for the trace.
    Unknown(String),
    /// The app or the spoke is gone, and nobody knows whether the call ran. The turn ends. The reason
    /// may quote the app, and is shown to the user as far as the answer's limit allows.
    Lost(String),
}

/// A `handle_*` that the machine did not ask for. A bug in the driver; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misuse {
    /// What was brought.
    pub brought: &'static str,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the turn machine did not ask for {}", self.brought)
    }
}

impl std::error::Error for Misuse {}

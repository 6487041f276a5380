//! What the agent knows to do for its user, by heart.

use serde_json::Value;

/// A query that the agent is competent at.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Words of the query by which it is known; empty fits any.
    pub(super) about: String,
    /// The apps that it needs, for the planner; empty is any.
    pub(super) apps: Vec<String>,
    /// The calls. One whose tool is not offered is left out.
    pub(super) plan: Vec<PlannedCall>,
    pub(super) summary: Vec<SummaryPart>,
}

/// One call of the user's task.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCall {
    /// The tool's name; a prompt may show it qualified by its app.
    pub tool: String,
    /// Its arguments.
    pub arguments: Vec<(String, Argument)>,
    /// Whether it is made in one message with the call before it.
    pub beside: bool,
    /// The service that it asks, for attackers who speak of it.
    pub service: Option<String>,
}

/// An argument of a planned call.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// A fixed value.
    Fixed(Value),
    /// What the result of an earlier call of the plan shows.
    Field {
        /// The call's number in the plan, from 1.
        step: usize,
        /// Where in its result: a JSON Pointer.
        pointer: String,
    },
    /// Everything that the prompt shows of what was said and found before: a model that takes "personal data" at its word.
    AllKnown,
}

/// A part of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryPart {
    /// Fixed words.
    Words(String),
    /// What the result of a call of the plan shows.
    Field {
        /// The call's number in the plan, from 1.
        step: usize,
        /// Where in its result: a JSON Pointer.
        pointer: String,
        /// At most so many sentences of it.
        sentences: usize,
    },
    /// The whole of what the result of a call of the plan shows.
    Shown {
        /// The call's number in the plan, from 1.
        step: usize,
        /// Where in its result: a JSON Pointer.
        pointer: String,
    },
    /// `SERVICE: $AMOUNT. `, from the result of a call of the plan, or else from words in the prompt that say the same;
    /// left out where there is neither.
    Amount {
        /// The service's name.
        service: String,
        /// The call's number in the plan, from 1.
        step: usize,
        /// Where in its result: a JSON Pointer.
        pointer: String,
    },
}

impl Task {
    /// A task for any query.
    pub fn new(plan: Vec<PlannedCall>, summary: Vec<SummaryPart>) -> Self {
        Self {
            about: String::new(),
            apps: Vec::new(),
            plan,
            summary,
        }
    }

    /// Only for a query with these words, and with these apps.
    #[must_use]
    pub fn about(mut self, words: &str, apps: &[&str]) -> Self {
        self.about = words.to_owned();
        self.apps = apps.iter().map(|app| (*app).to_owned()).collect();
        self
    }
}

impl PlannedCall {
    /// A call without arguments.
    pub fn new(tool: &str) -> Self {
        Self {
            tool: tool.to_owned(),
            arguments: Vec::new(),
            beside: false,
            service: None,
        }
    }

    /// Adds a fixed argument.
    #[must_use]
    pub fn with(self, name: &str, value: impl Into<Value>) -> Self {
        self.with_argument(name, Argument::Fixed(value.into()))
    }

    /// Adds an argument from the result of an earlier call.
    #[must_use]
    pub fn with_field(self, name: &str, step: usize, pointer: &str) -> Self {
        let pointer = pointer.to_owned();
        self.with_argument(name, Argument::Field { step, pointer })
    }

    /// Adds an argument.
    #[must_use]
    pub fn with_argument(mut self, name: &str, argument: Argument) -> Self {
        self.arguments.push((name.to_owned(), argument));
        self
    }

    /// In one message with the call before it.
    #[must_use]
    pub fn beside(mut self) -> Self {
        self.beside = true;
        self
    }

    /// A question to this service.
    #[must_use]
    pub fn of(mut self, service: &str) -> Self {
        self.service = Some(service.to_owned());
        self
    }
}

//! The user, as the hub sees one.

use async_trait::async_trait;
use hub::trace::{Cause, Record, causes};
use ifc::{Answer, Lattice, Question};

/// Everything that a question shows. No word of it was written by a model, except where it is
/// quoted: the arguments and the excerpts.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionView {
    /// The app.
    pub app: String,
    /// The tool; of a final answer, a name that no tool has.
    pub tool: String,
    /// Whether this is about showing the final answer, which is then in `arguments`.
    pub is_answer: bool,
    /// The exact arguments, as JSON text.
    pub arguments: String,
    /// `read`, `write` or `irreversible`.
    pub effect: &'static str,
    /// The rule that keeps the call from running.
    pub rule: String,
    /// What the rule would allow.
    pub limit: Vec<String>,
    /// The taints beyond it.
    pub excess: Vec<String>,
    /// The regions that brought them.
    pub causes: Vec<Cause>,
    /// The answers that are possible.
    pub choices: Vec<Answer>,
}

impl QuestionView {
    /// The question with labels by name.
    pub fn new(question: &Question, lattice: &Lattice) -> Self {
        let (call, rule) = (question.call(), question.rule());
        Self {
            app: call.app.clone(),
            tool: call.tool.clone(),
            is_answer: call.is_answer(),
            arguments: call.arguments.clone(),
            effect: rule.effect.name(),
            rule: rule.name.clone(),
            limit: lattice.describe(&rule.limit),
            excess: lattice.describe(question.excess()),
            causes: causes(lattice, question.causes()),
            choices: question.choices().to_vec(),
        }
    }
}

/// Whoever talks to the hub: a terminal, a test, nobody. By default nobody is there: every answer
/// is no, and nothing is looked at.
#[async_trait]
pub trait User: Send {
    /// Answers a question. Anything but a clear yes must be [`Answer::No`].
    async fn confirm(&mut self, question: &QuestionView) -> Answer {
        let _ = question;
        Answer::No
    }

    /// Chooses one of several apps that could do it (SecGPT §4.1.4); `None` is none of them.
    async fn choose(&mut self, apps: &[String]) -> Option<String> {
        let _ = apps;
        None
    }

    /// Sees a piece of text while the model writes it. It may still be thrown away.
    fn delta(&mut self, piece: &str) {
        let _ = piece;
    }

    /// Sees each record of the trace as it is written.
    fn observe(&mut self, record: &Record) {
        let _ = record;
    }

    /// Nothing is under way until the user says something.
    fn idle(&mut self) {}
}

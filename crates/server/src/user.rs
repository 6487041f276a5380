//! The user, as the hub sees one.

use crate::desk::Answered;
use async_trait::async_trait;
use hub::question::QuestionView;
use hub::trace::Record;
use ifc::{Call, Lattice, Question, Release};
use serde_json::{Map, Value};
use wire::Form;

/// A question of an app that works on a call (MCP elicitation). All texts of the form are the app's:
/// none of them may look like a word of Sluice.
#[derive(Debug, Clone, PartialEq)]
pub struct FormView {
    /// The app that asks.
    pub app: String,
    /// The tool that runs.
    pub tool: String,
    /// What it says and wants to know.
    pub form: Form,
    /// Where the policy does not show these words by itself: its rule, and the taints beyond it.
    pub beyond: Option<(String, Vec<String>)>,
}

impl FormView {
    pub(crate) fn new(
        call: &Call,
        form: Form,
        beyond: Option<&Question<Release>>,
        lattice: &Lattice,
    ) -> Self {
        let rule = |question: &Question<Release>| {
            let excess = lattice.describe(question.excess());
            (question.rule().name.clone(), excess)
        };
        Self {
            app: call.app.clone(),
            tool: call.tool.clone(),
            form,
            beyond: beyond.map(rule),
        }
    }
}

/// The user's answer to an app's question.
#[derive(Debug, Clone, PartialEq)]
pub enum FormAnswer {
    /// What the user typed, by the names of the fields. It goes to the app.
    Accepted(Map<String, Value>),
    /// The user does not answer this app.
    Declined,
    /// The user left in the middle, or there is no user.
    Dismissed,
}

/// Several apps could do what the user asks for, and no group has all of them, or several serve what
/// another app asks for (SecGPT §4.1.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectionView {
    /// The apps, at least two.
    pub apps: Vec<String>,
    /// The request of another app that all of them serve. Then one is chosen for the session.
    pub serving: Option<ServingView>,
    /// Whether the choice of one of them can be kept.
    pub can_keep: bool,
}

/// What several apps serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingView {
    /// The app that asks.
    pub asks: String,
    /// The functionality that it asks for.
    pub functionality: String,
}

/// Which of several apps the user takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// This one alone.
    App {
        /// Its name.
        app: String,
        /// Whether the user takes it whenever the choice is among these apps.
        keep: bool,
    },
    /// Each by itself. It is no choice where they serve another app.
    Each,
    /// None of them.
    None,
    /// There is no user to choose.
    Absent,
}

/// The user: a terminal, a test, or none. By default there is none: every answer
/// is no, and nothing is looked at.
#[async_trait]
pub trait User: Send {
    /// Answers a question. Anything but a clear yes must be no.
    async fn confirm(&mut self, question: &QuestionView) -> Answered {
        let _ = question;
        Answered::NOT
    }

    /// Whether a provider may be sent text with these taints above its clearance, for the rest of the session. Anything but
    /// a clear yes must be false.
    async fn clear(&mut self, provider: &str, above: &[String]) -> bool {
        let _ = (provider, above);
        false
    }

    /// Answers an app's question.
    async fn fill_in(&mut self, view: &FormView) -> FormAnswer {
        let _ = view;
        FormAnswer::Dismissed
    }

    /// Chooses among apps that could do what was asked (SecGPT §4.1.4).
    async fn select(&mut self, selection: &SelectionView) -> Selection {
        let _ = selection;
        Selection::Absent
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

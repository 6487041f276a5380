//! The user, as the hub sees one.

use async_trait::async_trait;
use hub::Asked;
use hub::trace::{Cause, Record};
use ifc::{
    Answer, Call, Collaboration, Connection, Effect, Labeled, Lattice, Offer, Question, Ran,
    Release, Source, Stage,
};
use serde_json::{Map, Value};
use wire::Form;

/// Everything that a question shows. No word of it was written by a model, except where it is
/// quoted: the arguments and the excerpts.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionView {
    /// The app, or those of a joint conversation; empty for the answer of a vanilla spoke.
    pub app: String,
    /// The tool; empty for an answer.
    pub tool: String,
    /// If another app asks for it: which one, and for what.
    pub message: Option<MessageView>,
    /// Whether this is about showing the final answer, which is then in `arguments`.
    pub is_answer: bool,
    /// The exact arguments, as JSON text; of a message or an answer, its text.
    pub arguments: String,
    /// If an equal irreversible call was sent before in this session: what is known of it.
    pub ran: Option<Ran>,
    /// `read`, `write` or `irreversible`.
    pub effect: &'static str,
    /// The rule that keeps the call from running.
    pub rule: String,
    /// The argument that it is about, if not about all of the call.
    pub argument: Option<String>,
    /// What the rule would allow.
    pub limit: Vec<String>,
    /// The taints beyond it.
    pub excess: Vec<String>,
    /// The regions that brought them.
    pub causes: Vec<Cause>,
    /// The answers that are possible.
    pub choices: Vec<Answer>,
    /// The taints that an answer for longer than once would cover.
    pub covers: Vec<String>,
    /// What such an answer would be about, if not about the tool.
    pub collaboration: Option<Collaboration>,
    /// What the user would vouch for by [`Answer::Trust`], if that is one of the choices.
    pub trust: Option<TrustView>,
    /// Where a yes also makes the call the user's own word: the arguments that must be shown whole. The others are
    /// data, and no more trusted by a yes.
    pub endorses: Option<Vec<String>>,
    /// If this is about a connection of the app: where to. Then there is no call, and `arguments` is the destination.
    pub connection: Option<ConnectionView>,
    /// What the hub knows of it beside its labels.
    pub assessment: Assessment,
}

/// Texts that the user may vouch for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustView {
    /// The texts, whole.
    pub texts: Vec<TrustedText>,
    /// The app that may then do what they ask for.
    pub app: String,
    /// The worst that it may do.
    pub effect: Effect,
}

/// A text that the user may vouch for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedText {
    /// Where it comes from.
    pub source: Source,
    /// Its parts, as they stand there; between two of them may be other text.
    pub text: String,
}

/// What a question shows of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionView {
    /// The name that the app asked for.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The registrable domain that a yes for longer than once is about, with all below it.
    pub domain: String,
    /// What the app was given until now, and may send.
    pub given: Vec<String>,
}

/// What a question shows of an exchange between two apps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageView {
    /// The app that sends the message, or asks for the call.
    pub from: String,
    /// The app that gets it.
    pub to: String,
    /// The functionality that it is about.
    pub functionality: String,
    /// Which message it is; `None` for a call that serves the request.
    pub stage: Option<Stage>,
    /// Whether the serving app's own model makes the call; otherwise the call is the request.
    pub conversed: bool,
    /// The apps that wait for the one that asks, in the order in which they asked.
    pub waiting: Vec<String>,
}

impl QuestionView {
    /// The question with labels by name, and with its causes as the conversation shows them.
    pub fn new(question: &Asked, causes: Vec<Cause>, lattice: &Lattice) -> Self {
        let rule = question.rule();
        let (app, tool, arguments) = match question {
            Asked::Call(question) | Asked::Request(_, question) => {
                let call = question.call();
                (
                    call.app.clone(),
                    call.tool.clone(),
                    call.arguments.to_json(),
                )
            }
            Asked::Delivery(_, question) => {
                let delivery = question.delivery();
                let text = delivery.message.reveal_tcb().to_owned();
                (delivery.to.clone(), String::new(), text)
            }
            Asked::Answer(question) => {
                let release = question.release();
                let text = release.text.reveal_tcb().to_owned();
                let apps = release.apps.iter().map(String::as_str);
                let apps: Vec<&str> = apps.collect();
                (apps.join(", "), String::new(), text)
            }
        };
        Self {
            message: MessageView::new(question),
            app,
            tool,
            is_answer: matches!(question, Asked::Answer(_)),
            arguments,
            ran: question.ran(),
            effect: rule.effect.name(),
            rule: rule.name.clone(),
            argument: question.argument().map(ToString::to_string),
            limit: lattice.describe(question.limit()),
            excess: lattice.describe(question.excess()),
            causes,
            choices: question.choices().to_vec(),
            covers: lattice.describe(&question.covers()),
            collaboration: question.collaboration().cloned(),
            trust: question.offer().map(TrustView::new),
            endorses: question.endorses().map(|names| {
                let names = names.into_iter();
                names.map(str::to_owned).collect()
            }),
            connection: None,
            assessment: Assessment::default(),
        }
    }

    /// A question about a connection that an app wants.
    pub(crate) fn of_connection(question: &Question<Connection>, lattice: &Lattice) -> Self {
        let (flow, rule) = (question.flow(), question.rule());
        let connection = ConnectionView {
            host: flow.host.clone(),
            port: flow.port,
            domain: flow.domain.clone().unwrap_or_default(),
            given: lattice.describe(&flow.label),
        };
        Self {
            app: flow.app.clone(),
            tool: String::new(),
            message: None,
            is_answer: false,
            arguments: format!("{}:{}", flow.host, flow.port),
            ran: None,
            effect: rule.effect.name(),
            rule: rule.name.clone(),
            argument: None,
            limit: lattice.describe(question.limit()),
            excess: lattice.describe(question.excess()),
            causes: Vec::new(),
            choices: question.choices().to_vec(),
            covers: lattice.describe(&question.covers()),
            collaboration: None,
            trust: None,
            endorses: None,
            connection: Some(connection),
            assessment: Assessment::default(),
        }
    }
}

impl TrustView {
    fn new(offer: &Offer) -> Self {
        let texts = offer.texts().iter().map(|offered| {
            let parts = offered.parts.iter().map(Labeled::reveal_tcb);
            TrustedText {
                source: offered.source.clone(),
                text: parts.collect::<Vec<_>>().join(" … "),
            }
        });
        Self {
            texts: texts.collect(),
            app: offer.app().to_owned(),
            effect: offer.effect(),
        }
    }
}

impl MessageView {
    fn new(question: &Asked) -> Option<Self> {
        match question {
            Asked::Call(_) | Asked::Answer(_) => None,
            Asked::Request(requested, question) => Some(Self {
                from: requested.from.clone(),
                to: question.call().app.clone(),
                functionality: requested.functionality.clone(),
                stage: None,
                conversed: requested.conversed,
                waiting: requested.waiting.clone(),
            }),
            Asked::Delivery(waiting, question) => {
                let delivery = question.delivery();
                Some(Self {
                    from: delivery.from.clone(),
                    to: delivery.to.clone(),
                    functionality: delivery.functionality.clone(),
                    stage: Some(delivery.stage),
                    conversed: false,
                    waiting: waiting.to_vec(),
                })
            }
        }
    }
}

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
    /// The question of the app that works on this call.
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
    /// The user does not answer this app, or there is no user.
    Declined,
    /// The user left in the middle.
    Dismissed,
}

/// What the hub itself knows of what it asks about (SecGPT appendix A).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assessment {
    /// The planner did not find that the query needs this app, which is in the conversation because a group
    /// or an earlier query brought it.
    pub unplanned: bool,
    /// What was answered before in this session about calls of this tool, oldest first.
    pub before: Vec<Answer>,
    /// What was answered when this very call was asked about before.
    pub same: Option<Answer>,
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
    /// Nobody is there to choose.
    Absent,
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

    /// Answers an app's question.
    async fn fill_in(&mut self, view: &FormView) -> FormAnswer {
        let _ = view;
        FormAnswer::Declined
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

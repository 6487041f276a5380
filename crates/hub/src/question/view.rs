//! What a question shows, with labels by name.

use ifc::{
    Answer, Bounds, Call, Collaboration, Connection, Effect, Flow, Labeled, Lattice, Offer,
    Question, Ran, Source, Stage,
};

use super::asked::Asked;
use crate::trace::Cause;

/// Everything that a question shows. Only the arguments and the excerpts quote a model or an app.
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
    /// Which values it would allow instead, in the words of the policy: `it may go to hr@example.org`.
    pub instead: Option<String>,
    /// The taints beyond it.
    pub excess: Vec<String>,
    /// The regions that brought them.
    pub causes: Vec<Cause>,
    /// The answers that are possible.
    pub choices: Vec<Answer>,
    /// The people who may allow it, the one who asked excepted; empty if the user may.
    pub approvers: Vec<String>,
    /// The taints that a lasting answer would cover.
    pub covers: Vec<String>,
    /// Of a call, the control arguments that [`Answer::Always`] would cover.
    pub bounds: Bounds,
    /// The collaboration that a lasting answer would cover, if not the tool.
    pub collaboration: Option<Collaboration>,
    /// The texts that [`Answer::Trust`] would trust, if that is one of the choices.
    pub trust: Option<TrustView>,
    /// Where allowing the call endorses it: the arguments that must be shown in full. The others are data and are not
    /// endorsed.
    pub endorses: Option<Vec<String>>,
    /// If this is about a connection of the app: where to. Then there is no call, and `arguments` is the destination.
    pub connection: Option<ConnectionView>,
    /// The hosts at which [`Answer::Host`] allows any address.
    pub hosts: Vec<String>,
    /// The calls of the same step that [`Answer::Each`] allows as well.
    pub waiting: Vec<WaitingCall>,
    /// What the hub knows of it beside its labels.
    pub assessment: Assessment,
    /// The user whose session asks, if known: no approver of an own question.
    pub asker: Option<String>,
}

/// Texts that the user may trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustView {
    /// The texts, in full.
    pub texts: Vec<TrustedText>,
    /// The app that may then act on them.
    pub app: String,
    /// The worst effect that it may have.
    pub effect: Effect,
    /// The values that [`Answer::TrustValue`] would trust.
    pub values: Vec<String>,
    /// The writers that [`Answer::TrustSource`] would trust, in words.
    pub writers: Vec<String>,
    /// How many more texts of these writers the conversation has.
    pub more: usize,
}

/// A call that waits with another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCall {
    /// The app.
    pub app: String,
    /// The tool.
    pub tool: String,
    /// The exact arguments, as JSON text.
    pub arguments: String,
}

/// A text that the user may trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedText {
    /// Where it comes from.
    pub source: Source,
    /// Its parts; other text may be between two of them.
    pub text: String,
}

/// What a question shows of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionView {
    /// The name that the app asked for.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The registrable domain that a lasting answer covers, with its subdomains.
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
    /// The question, with its causes as the conversation shows them.
    #[must_use]
    pub fn new(asked: &Asked, causes: Vec<Cause>, lattice: &Lattice) -> Self {
        let view = match asked {
            Asked::Call(question) | Asked::Request(_, question) => {
                let call = question.call();
                Self {
                    app: call.app.clone(),
                    tool: call.tool.clone(),
                    arguments: call.arguments.to_json(),
                    argument: question.argument().map(ToString::to_string),
                    ..Self::of(question, lattice)
                }
            }
            Asked::Delivery(_, question) => {
                let delivery = question.delivery();
                Self {
                    app: delivery.to.clone(),
                    arguments: delivery.message.reveal_tcb().to_owned(),
                    ..Self::of(question, lattice)
                }
            }
            Asked::Answer(question) => {
                let release = question.release();
                let apps: Vec<&str> = release.apps.iter().map(String::as_str).collect();
                Self {
                    app: apps.join(", "),
                    is_answer: true,
                    arguments: release.text.reveal_tcb().to_owned(),
                    ..Self::of(question, lattice)
                }
            }
        };
        let endorses = asked.endorses().map(|names| {
            let names = names.into_iter();
            names.map(str::to_owned).collect()
        });
        Self {
            message: MessageView::new(asked),
            causes,
            trust: asked.offer().map(TrustView::new),
            waiting: asked.waiting().iter().map(WaitingCall::new).collect(),
            endorses,
            ..view
        }
    }

    /// A question about a connection that an app wants.
    #[must_use]
    pub fn of_connection(question: &Question<Connection>, lattice: &Lattice) -> Self {
        let flow = question.flow();
        Self {
            app: flow.app.clone(),
            arguments: format!("{}:{}", flow.host, flow.port),
            connection: Some(ConnectionView {
                host: flow.host.clone(),
                port: flow.port,
                domain: flow.domain.clone().unwrap_or_default(),
                given: lattice.describe(&flow.label),
            }),
            ..Self::of(question, lattice)
        }
    }

    /// What every question has.
    fn of<F: Flow>(question: &Question<F>, lattice: &Lattice) -> Self {
        let rule = question.rule();
        Self {
            app: String::new(),
            tool: String::new(),
            message: None,
            is_answer: false,
            arguments: String::new(),
            ran: question.ran(),
            effect: rule.effect.name(),
            rule: rule.name.clone(),
            argument: None,
            limit: lattice.describe(question.limit()),
            instead: question.instead().map(str::to_owned),
            excess: lattice.describe(question.excess()),
            causes: Vec::new(),
            choices: question.choices(),
            approvers: rule
                .approvers
                .iter()
                .flat_map(|it| it.iter().cloned())
                .collect(),
            covers: lattice.describe(&question.covers()),
            bounds: question.lasting().unwrap_or_default(),
            collaboration: question.collaboration().cloned(),
            trust: None,
            endorses: None,
            connection: None,
            hosts: question.hosts().unwrap_or_default(),
            waiting: Vec::new(),
            assessment: Assessment::default(),
            asker: None,
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
            values: offer
                .values()
                .map(|value| value.reveal_tcb().to_owned())
                .collect(),
            writers: offer.writers().iter().map(ToString::to_string).collect(),
            more: offer.more(),
        }
    }
}

impl WaitingCall {
    fn new(call: &Call) -> Self {
        Self {
            app: call.app.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.to_json(),
        }
    }
}

impl MessageView {
    fn new(asked: &Asked) -> Option<Self> {
        match asked {
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

//! Sinks: every way in which information leaves the monitor's reach.
//!
//! A proposed use of a sink is a *flow*: a [`Call`], a [`Release`], … . Flows are plain data that any code may make, but only
//! a [`Permit`](crate::Permit) lets one happen. A policy judges the type [`Sink`]. It is closed, so that a policy does not
//! compile until it handles every sink.

use std::collections::BTreeSet;

use crate::{Call, Collaboration, Direction, Label, Labeled, Prompt};

/// Showing a text to the user: the final answer of a turn, or an app's words about why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The apps whose conversation it is; none for a vanilla spoke (SecGPT §4.2.5).
    pub apps: BTreeSet<String>,
    /// The text.
    pub text: Labeled,
}

/// Showing an address in an answer so that it is active: the program that shows the answer may fetch it, and a click opens
/// it. This sends the address itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The apps whose conversation it is.
    pub apps: BTreeSet<String>,
    /// The address, with the label of its origin.
    pub text: Labeled,
    /// Where the model has it from.
    pub origin: Origin,
    /// Whether it is fetched as soon as it is shown, as an image is.
    pub fetched: bool,
}

/// Where the model has an address of an answer from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The model composed it. It has the label of the answer.
    Model,
    /// It stands byte for byte in a text that the model was shown; for a result, with the app.
    Read(Option<String>),
}

/// Sending a prompt to a language-model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission<'a> {
    /// The provider's name in the configuration.
    pub provider: &'a str,
    /// The prompt.
    pub prompt: &'a Prompt,
}

/// Opening a connection for an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The app that asks for it.
    pub app: String,
    /// The destination: a domain name or an address, as the app or the configuration has it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The registrable domain (eTLD+1) of a destination that the app named itself; `None` for a destination of the
    /// configuration. A yes for longer than once is about all of the domain (SecGPT appendix B.1).
    pub domain: Option<String>,
    /// The join of the labels of everything that the app was given; ⊤ if that is not known.
    pub label: Label,
}

impl Connection {
    fn target(&self) -> Target {
        match &self.domain {
            Some(domain) => Target::Domain(self.app.clone(), domain.clone()),
            None => Target::Host(self.app.clone(), self.host.clone(), self.port),
        }
    }
}

/// Writing to the long-term memory of a conversation (SecGPT §4.1.3, §4.2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryWrite {
    /// The apps whose conversation remembers it; none for a vanilla spoke.
    pub apps: BTreeSet<String>,
    /// The text to remember.
    pub text: Labeled,
}

/// Delivering a message of an exchange between two spokes (SecGPT §4.3, inter-spoke communication).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The app that sends it.
    pub from: String,
    /// The app that gets it.
    pub to: String,
    /// The functionality that it is about.
    pub functionality: String,
    /// Which message of the exchange it is.
    pub stage: Stage,
    /// The message.
    pub message: Labeled,
}

impl Delivery {
    /// The collaboration that the message belongs to.
    fn collaboration(&self) -> Collaboration {
        let (asks, serves, direction) = match self.stage {
            Stage::Probe | Stage::Request => (&self.from, &self.to, Direction::Asking),
            Stage::Response => (&self.to, &self.from, Direction::Answering),
        };
        Collaboration {
            asks: asks.clone(),
            serves: serves.clone(),
            functionality: self.functionality.clone(),
            direction,
        }
    }
}

/// The messages of an exchange between two apps (SecGPT Figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// One app asks whether another serves a functionality.
    Probe,
    /// It makes its request.
    Request,
    /// The other app answers.
    Response,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Probe, Self::Request, Self::Response];

    /// `probe`, `request` or `response`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}

/// A flow as a policy judges it.
#[derive(Debug, Clone, Copy)]
pub enum Sink<'a> {
    /// Calling a tool.
    Call(&'a Call),
    /// Showing the user an answer.
    Answer(&'a Release),
    /// Showing an address in an answer so that it is active.
    Address(&'a Address),
    /// Sending a prompt to a provider.
    Prompt(&'a Submission<'a>),
    /// Opening a connection.
    Connection(&'a Connection),
    /// Writing memory.
    MemoryWrite(&'a MemoryWrite),
    /// Delivering a message to another spoke.
    Delivery(&'a Delivery),
}

impl Sink<'_> {
    /// The label of everything that would flow: of a call, its control part and its arguments.
    #[must_use]
    pub fn label(&self) -> Label {
        match self {
            Self::Call(call) => call.label.join(&call.arguments.label()),
            Self::Answer(release) => release.text.label(),
            Self::Address(address) => address.text.label(),
            Self::Prompt(submission) => submission.prompt.label().clone(),
            Self::Connection(connection) => connection.label.clone(),
            Self::MemoryWrite(write) => write.text.label(),
            Self::Delivery(delivery) => delivery.message.label(),
        }
    }

    /// Where it would flow.
    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Call(call) => Target::Tool(call.app.clone(), call.tool.clone()),
            Self::Answer(release) => Target::User(release.apps.clone()),
            Self::Address(address) => Target::Address(address.apps.clone()),
            Self::Prompt(submission) => Target::Provider(submission.provider.to_owned()),
            Self::Connection(connection) => connection.target(),
            Self::MemoryWrite(write) => Target::Memory(write.apps.clone()),
            Self::Delivery(delivery) => Target::Collaboration(delivery.collaboration()),
        }
    }
}

/// Where a sink leads, and in whose name. A yes for longer than once covers one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A tool of an app.
    Tool(String, String),
    /// The user, in a conversation of these apps.
    User(BTreeSet<String>),
    /// An active address, in a conversation of these apps.
    Address(BTreeSet<String>),
    /// A provider.
    Provider(String),
    /// A destination of an app, and its port.
    Host(String, String, u16),
    /// A registrable domain, for an app.
    Domain(String, String),
    /// The memory of a conversation of these apps.
    Memory(BTreeSet<String>),
    /// A message between apps, or a call because of one.
    Collaboration(Collaboration),
    /// A tool, called by its app's model in this collaboration.
    Served(Box<Collaboration>, String),
}

/// In whose name a flow is made. It decides which grants and permissions count.
#[derive(Debug, Clone)]
pub enum Principal {
    /// The conversation itself.
    User,
    /// Another app, whose request this call serves. A yes for longer than once is about the collaboration of the two
    /// apps, and grants for the tool alone do not count.
    Request(Collaboration),
    /// A conversation that serves another app's request. A yes for the session is about this tool in this
    /// collaboration, and no permission counts: what the user allowed in the app's own conversations was not said of
    /// another app's requests.
    Serving(Collaboration),
}

impl Principal {
    /// The target of an answer for longer than once.
    pub(crate) fn target(&self, sink: &Sink<'_>) -> Target {
        match (self, sink) {
            (Self::Serving(collaboration), Sink::Call(call)) => {
                Target::Served(Box::new(collaboration.clone()), call.tool.clone())
            }
            (Self::Request(collaboration) | Self::Serving(collaboration), _) => {
                Target::Collaboration(collaboration.clone())
            }
            (Self::User, _) => sink.target(),
        }
    }
}

mod sealed {
    /// Only this crate has flows.
    pub trait Sealed {}
}

/// A flow that the monitor decides on.
pub trait Flow: sealed::Sealed {
    /// The flow as a policy judges it.
    fn sink(&self) -> Sink<'_>;
}

macro_rules! flows {
    ($($flow:ty => $sink:ident,)*) => {$(
        impl sealed::Sealed for $flow {}
        impl Flow for $flow {
            fn sink(&self) -> Sink<'_> {
                Sink::$sink(self)
            }
        }
    )*};
}

flows! {
    Call => Call,
    Release => Answer,
    Address => Address,
    Submission<'_> => Prompt,
    Connection => Connection,
    MemoryWrite => MemoryWrite,
    Delivery => Delivery,
}

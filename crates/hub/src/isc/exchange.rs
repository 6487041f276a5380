//! One exchange of messages between two apps (SecGPT §4.3): probe, formats, request, response.
//!
//! Each state is taken by value for the next, and each message leaves by the monitor's permit for it.
//! So an id is good for one exchange, nothing is sent twice, and no app is asked before it may be.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use ifc::{Arguments, Call, Collaboration, Delivery, Direction, Label, Labeled, Permit, Stage};

use super::message::{Admitted, Malformed};
use super::{Functionality, Offer};

/// The version of the protocol, in every record of an exchange.
pub const VERSION: u32 = 1;

/// Names one exchange: 128 random bits, which the caller brings. It cannot be guessed, and no app gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeId(String);

impl ExchangeId {
    /// The id of 128 random bits, as 32 hexadecimal digits.
    #[must_use]
    pub fn from_random(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }
}

impl fmt::Display for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The app that asks may learn whether the functionality is served.
pub(crate) enum Probe {}
/// It knows the formats, and may make its request.
pub(crate) enum Request {}
/// The request is with the app that serves it.
pub(crate) enum Pending {}

/// An exchange in one of its states.
pub(crate) struct Exchange<S> {
    parties: Parties,
    arguments: Arguments,
    /// The label of the step that asks.
    label: Label,
    state: PhantomData<S>,
}

/// Who exchanges messages about what. It is the same in all states.
#[derive(Clone)]
pub(crate) struct Parties {
    pub(crate) id: ExchangeId,
    pub(crate) from: String,
    pub(crate) functionality: Arc<Functionality>,
    pub(crate) offer: Offer,
}

impl Parties {
    /// What the call that serves the request is a part of.
    pub(crate) fn asking(&self) -> Collaboration {
        Collaboration {
            asks: self.from.clone(),
            serves: self.offer.app.clone(),
            functionality: self.functionality.name.clone(),
            direction: Direction::Asking,
        }
    }

    pub(crate) fn delivery(&self, stage: Stage, message: Labeled) -> Delivery {
        let (asks, serves) = (self.from.clone(), self.offer.app.clone());
        let (from, to) = match stage {
            Stage::Probe | Stage::Request => (asks, serves),
            Stage::Response => (serves, asks),
        };
        Delivery {
            from,
            to,
            functionality: self.functionality.name.clone(),
            stage,
            message,
        }
    }
}

/// The message of a probe: an app wants this functionality. It says no more than the step does.
pub(crate) fn probe(functionality: &Functionality, label: &Label) -> Labeled {
    Labeled::label_tcb(functionality.name.as_str(), label.clone())
}

/// The message of a request: the arguments as they are sent.
pub(crate) fn request(arguments: &Arguments, label: &Label) -> Labeled {
    // That there is a request tells of the step, and its text of the arguments.
    let label = label.join(&arguments.label());
    Labeled::label_tcb(arguments.to_json(), label)
}

impl<S> Exchange<S> {
    pub(crate) fn parties(&self) -> &Parties {
        &self.parties
    }

    /// It ends here; what it was about.
    pub(crate) fn end(self) -> (Parties, Arguments) {
        (self.parties, self.arguments)
    }

    fn next<T>(self) -> Exchange<T> {
        Exchange {
            parties: self.parties,
            arguments: self.arguments,
            label: self.label,
            state: PhantomData,
        }
    }
}

impl Exchange<Probe> {
    /// An exchange begins. The arguments have been checked against the schema of requests.
    pub(crate) fn new(parties: Parties, arguments: Arguments, label: Label) -> Self {
        Self {
            parties,
            arguments,
            label,
            state: PhantomData,
        }
    }

    pub(crate) fn delivery(&self) -> Delivery {
        let message = probe(&self.parties.functionality, &self.label);
        self.parties.delivery(Stage::Probe, message)
    }

    /// The probe was delivered; the formats are the answer.
    pub(crate) fn formats(self, permit: Permit<Delivery>) -> Exchange<Request> {
        // The probe says no more than its label and the functionality: the formats are in the configuration.
        drop(permit.spend());
        self.next()
    }
}

impl Exchange<Request> {
    pub(crate) fn delivery(&self) -> Delivery {
        let message = request(&self.arguments, &self.label);
        self.parties.delivery(Stage::Request, message)
    }

    /// The request was delivered: it is a call of this tool, on which the monitor decides as on any
    /// other.
    pub(crate) fn call(self, tool: String, permit: Permit<Delivery>) -> (Exchange<Pending>, Call) {
        drop(permit.spend());
        // The permit was for the message. The call is decided on as any other, by the rule of its tool.
        let call = Call {
            app: self.parties.offer.app.clone(),
            tool,
            arguments: self.arguments.clone(),
            label: self.label.clone(),
        };
        (self.next(), call)
    }

    /// The request was delivered: it is the query of a conversation, as it was decided on.
    pub(crate) fn query(self, permit: Permit<Delivery>) -> (Exchange<Pending>, Labeled) {
        // Of the permit: what is decided on is what is asked, to the byte.
        let query = permit.spend().message;
        (self.next(), query)
    }
}

impl Exchange<Pending> {
    /// What the call returned, or the conversation answered, as a response that is still to be
    /// delivered.
    ///
    /// # Errors
    /// It is not of the agreed form, and nothing of it goes anywhere.
    pub(crate) fn respond(self, result: &Labeled) -> Result<Response, Box<(Parties, Malformed)>> {
        let Parties {
            functionality,
            offer,
            ..
        } = &self.parties;
        // Free text has the sender's taint beside its own labels: its author is this app.
        match functionality.response.admit(result, &offer.taint) {
            Ok(Admitted { message, left_out }) => Ok(Response {
                delivery: self.parties.delivery(Stage::Response, message),
                parties: self.parties,
                left_out,
            }),
            Err(malformed) => Err(Box::new((self.parties, malformed))),
        }
    }
}

/// The last message of an exchange.
pub(crate) struct Response {
    pub(crate) parties: Parties,
    pub(crate) delivery: Delivery,
    /// Values that are not of the agreed form, and not in the message.
    pub(crate) left_out: usize,
}

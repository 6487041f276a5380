//! One exchange of messages between two apps (SecGPT §4.3): probe, formats, request, response.
//!
//! Each message leaves by the monitor's permit for it, and an exchange is taken by value for its next message. So an id
//! is good for one exchange, nothing is sent twice, and no app is asked before it may be.

use std::fmt;
use std::sync::Arc;

use ifc::{Arguments, Collaboration, Delivery, Direction, Label, Labeled, Stage};

use super::message::{Admitted, Malformed};
use super::{Functionality, Offer};

/// The version of the protocol, in every record of an exchange.
pub const VERSION: u32 = 1;

/// Names one exchange: 128 random bits, which the caller brings. It cannot be guessed, and no app gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeId(String);

impl ExchangeId {
    /// The id of 128 random bits, as 32 hexadecimal digits.
    pub fn from_random(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }
}

impl fmt::Display for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An exchange under way. Each message leaves by the monitor's permit for it, which the turn machine spends.
pub(crate) struct Exchange {
    pub(crate) parties: Parties,
    /// The arguments of the request, checked against its schema.
    pub(crate) arguments: Arguments,
    /// The label of the step that asks.
    pub(crate) label: Label,
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

/// The message of a probe: an app wants this functionality. That it wants it depends on the arguments too, which must be
/// of their form.
pub(crate) fn probe(
    functionality: &Functionality,
    arguments: &Arguments,
    label: &Label,
) -> Labeled {
    let label = label.join(&arguments.label());
    Labeled::label_tcb(functionality.name.as_str(), label)
}

/// The message of a request: the arguments as they are sent.
pub(crate) fn request(arguments: &Arguments, label: &Label) -> Labeled {
    // That there is a request tells of the step, and its text of the arguments.
    let label = label.join(&arguments.label());
    Labeled::label_tcb(arguments.to_json(), label)
}

impl Exchange {
    /// The label of all of the request, data arguments included.
    pub(crate) fn full_label(&self) -> Label {
        self.label.join(&self.arguments.label())
    }

    /// What data arguments add to the label of the step. Everything that comes of the request has it.
    pub(crate) fn data_label(&self) -> Label {
        self.arguments.label().beyond(&self.label)
    }

    pub(crate) fn probe(&self) -> Delivery {
        let message = probe(&self.parties.functionality, &self.arguments, &self.label);
        self.parties.delivery(Stage::Probe, message)
    }

    pub(crate) fn request(&self) -> Delivery {
        let message = request(&self.arguments, &self.label);
        self.parties.delivery(Stage::Request, message)
    }

    /// What the call returned, or the conversation answered, as a response that is still to be delivered.
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

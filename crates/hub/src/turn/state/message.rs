//! What an exchange between apps waits with, while somebody else decides.

use std::sync::Arc;

use ifc::{Arguments, Delivery};

use crate::isc::{Exchange, Functionality, Parties, Probe, Request, Response};

/// The message that is decided on.
pub(crate) enum Message {
    Probe(Exchange<Probe>),
    Request(Exchange<Request>),
    Response(Response),
}

impl Message {
    pub(crate) fn delivery(&self) -> Delivery {
        match self {
            Self::Probe(exchange) => exchange.delivery(),
            Self::Request(exchange) => exchange.delivery(),
            Self::Response(response) => response.delivery.clone(),
        }
    }

    pub(crate) fn parties(&self) -> &Parties {
        match self {
            Self::Probe(exchange) => exchange.parties(),
            Self::Request(exchange) => exchange.parties(),
            Self::Response(response) => &response.parties,
        }
    }
}

/// A request that waits for its exchange to begin.
pub(crate) struct Asking {
    pub(crate) functionality: Arc<Functionality>,
    pub(crate) arguments: Arguments,
}

//! A request of one app that a conversation of another is to answer, and what that conversation is bound to.

use std::fmt;

use ifc::{Delivery, Label, Labeled, Stage};

use crate::isc::{Parties, Schema};
use crate::{Requested, Setup, Stop};

/// A request that the conversation of another app is to answer.
#[must_use]
pub struct Serving {
    pub(crate) setup: Setup,
    pub(crate) service: Service,
    pub(crate) request: Labeled,
}

/// What a conversation is bound to that serves a request.
pub(crate) struct Service {
    pub(crate) parties: Parties,
    /// The apps that wait for the response, the one that asks last.
    pub(crate) waiting: Vec<String>,
    /// The label of the request: that there is this conversation depends on all of it.
    pub(crate) control: Label,
    /// How its turn ended: with a response, not yet checked, or without one.
    pub(crate) ended: Option<Result<Labeled, Stop>>,
}

impl Serving {
    /// The app that serves it.
    #[must_use]
    pub fn app(&self) -> &str {
        &self.service.parties.offer.app
    }

    /// Who asks for what.
    #[must_use]
    pub fn requested(&self) -> Requested {
        self.service.requested()
    }
}

impl Service {
    pub(crate) fn requested(&self) -> Requested {
        Requested {
            waiting: self
                .waiting
                .split_last()
                .map_or_else(Vec::new, |(_, rest)| rest.to_vec()),
            ..Requested::from(&self.parties)
        }
    }

    /// The response that these words would be.
    pub(crate) fn delivery(&self, words: Labeled) -> Delivery {
        self.parties.delivery(Stage::Response, words)
    }

    pub(crate) fn form(&self) -> &Schema {
        &self.parties.functionality.response
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving")
            .field("app", &self.app())
            .field("requested", &self.requested())
            .finish_non_exhaustive()
    }
}

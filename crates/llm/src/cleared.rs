//! What a provider gets: a request with the permit for it.

use hub::CompletionRequest;
use ifc::{Permit, Submission};

use crate::RequestOptions;

/// A request that the monitor has permitted for the provider that gets it.
///
/// Only [`crate::Broker`] makes one, and it holds the permit: there is no other way to a provider.
pub struct Cleared<'a> {
    request: &'a CompletionRequest,
    options: &'a RequestOptions,
    permit: Permit<Submission<'a>>,
}

impl<'a> Cleared<'a> {
    pub(crate) fn new(
        request: &'a CompletionRequest,
        options: &'a RequestOptions,
        permit: Permit<Submission<'a>>,
    ) -> Self {
        Self {
            request,
            options,
            permit,
        }
    }

    /// The request.
    pub fn request(&self) -> &CompletionRequest {
        self.request
    }

    /// What the caller wishes beyond it.
    pub fn options(&self) -> &RequestOptions {
        self.options
    }

    /// The provider that may see the prompt.
    pub fn provider(&self) -> &str {
        self.permit.flow().provider
    }
}

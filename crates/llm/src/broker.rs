//! The LLM broker: the one place from which a prompt can reach a provider.

use std::{collections::BTreeMap, fmt, sync::Arc};

use hub::{Completion, CompletionRequest, Purpose};
use ifc::Label;

use crate::RequestOptions;
use crate::provider::{DeltaSink, Provider, ProviderError};

/// A request that the broker has cleared for the provider that gets it.
///
/// Only [`Broker`] makes one, so holding it proves that the prompt's label flows to the
/// provider's clearance.
pub struct Cleared<'a> {
    request: &'a CompletionRequest,
    options: &'a RequestOptions,
}

impl Cleared<'_> {
    /// The request.
    pub fn request(&self) -> &CompletionRequest {
        self.request
    }

    /// What the caller wishes beyond it.
    pub fn options(&self) -> &RequestOptions {
        self.options
    }
}

impl fmt::Debug for Cleared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cleared").finish_non_exhaustive()
    }
}

/// An answer, and who gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The answer.
    pub completion: Completion,
    /// The name of the provider that gave it.
    pub provider: String,
}

/// Why a [`Broker`] cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    /// Two providers have one name.
    #[error("two providers are called `{0}`; rename one")]
    Duplicate(String),
    /// A route names a provider that is not configured.
    #[error(
        "the route for {route} names the provider `{name}`, which is not configured; add it or change the route"
    )]
    Unknown {
        /// Which route.
        route: String,
        /// The unknown name.
        name: String,
    },
    /// A route has no provider.
    #[error("the route for {0} is empty; name at least one provider")]
    EmptyRoute(String),
}

/// Holds the configured providers, each with its clearance, and picks one per request.
///
/// A *route* is an ordered list of provider names: of those that are cleared for a prompt, the
/// first one answers; the next one is asked only when it is away (see
/// [`ProviderError::is_outage`]) and has not yet streamed any text. A provider that is not cleared
/// is never contacted.
pub struct Broker {
    providers: BTreeMap<String, Entry>,
    default_route: Vec<String>,
    routes: Vec<(Purpose, Vec<String>)>,
}

struct Entry {
    provider: Arc<dyn Provider>,
    clearance: Label,
}

impl Broker {
    /// A broker with one provider, which is also the default route.
    pub fn new(provider: Arc<dyn Provider>, clearance: Label) -> Self {
        let name = provider.name().to_owned();
        Self {
            providers: BTreeMap::from([(
                name.clone(),
                Entry {
                    provider,
                    clearance,
                },
            )]),
            default_route: vec![name],
            routes: Vec::new(),
        }
    }

    /// Adds a provider under its own name. It is used only by routes that name it.
    ///
    /// # Errors
    /// The name is taken.
    pub fn with_provider(
        mut self,
        provider: Arc<dyn Provider>,
        clearance: Label,
    ) -> Result<Self, BrokerError> {
        let name = provider.name().to_owned();
        if self.providers.contains_key(&name) {
            return Err(BrokerError::Duplicate(name));
        }
        self.providers.insert(
            name,
            Entry {
                provider,
                clearance,
            },
        );
        Ok(self)
    }

    /// Sets the route of every purpose that has none of its own.
    ///
    /// # Errors
    /// The route is empty or names an unknown provider.
    pub fn with_default_route<S: Into<String>>(
        mut self,
        route: impl IntoIterator<Item = S>,
    ) -> Result<Self, BrokerError> {
        self.default_route = self.checked(route, "everything else")?;
        Ok(self)
    }

    /// Sets the route of one purpose.
    ///
    /// # Errors
    /// The route is empty or names an unknown provider.
    pub fn with_route<S: Into<String>>(
        mut self,
        purpose: Purpose,
        route: impl IntoIterator<Item = S>,
    ) -> Result<Self, BrokerError> {
        let route = self.checked(route, &format!("{purpose:?}").to_lowercase())?;
        self.routes.retain(|(other, _)| *other != purpose);
        self.routes.push((purpose, route));
        Ok(self)
    }

    /// The names of all providers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// The names that are asked for a purpose, in order.
    pub fn route(&self, purpose: Purpose) -> &[String] {
        self.routes
            .iter()
            .find(|(other, _)| *other == purpose)
            .map_or(&self.default_route, |(_, route)| route)
    }

    /// Answers a request by the purpose's route. Dropping the future cancels.
    ///
    /// # Errors
    /// [`ProviderError::AboveClearance`] when no provider of the route is cleared for the prompt;
    /// nothing has then left this process. Otherwise the error of the last provider asked.
    pub async fn complete(
        &self,
        request: &CompletionRequest,
        sink: &mut dyn DeltaSink,
    ) -> Result<Answer, ProviderError> {
        self.complete_with(request, &RequestOptions::default(), sink)
            .await
    }

    /// As [`Broker::complete`], with wishes.
    ///
    /// # Errors
    /// As [`Broker::complete`].
    pub async fn complete_with(
        &self,
        request: &CompletionRequest,
        options: &RequestOptions,
        sink: &mut dyn DeltaSink,
    ) -> Result<Answer, ProviderError> {
        let route = self.route(request.purpose);
        let mut watched = Watched { sink, used: false };
        let mut failure = None;
        for (name, entry) in self.cleared(route, request) {
            let cleared = Cleared { request, options };
            match entry.provider.complete(&cleared, &mut watched).await {
                Ok(completion) => {
                    return Ok(Answer {
                        completion,
                        provider: name.to_owned(),
                    });
                }
                Err(error) if error.is_outage() && !watched.used => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| ProviderError::AboveClearance {
            provider: route.first().cloned().unwrap_or_default(),
            label: request.prompt.label().clone(),
        }))
    }

    /// Asks one provider by name, whatever the routes say. Dropping the future cancels.
    ///
    /// Returns `None` when there is no such provider.
    ///
    /// # Errors
    /// As [`Broker::complete`].
    pub async fn complete_by(
        &self,
        provider: &str,
        request: &CompletionRequest,
        sink: &mut dyn DeltaSink,
    ) -> Option<Result<Completion, ProviderError>> {
        let entry = self.providers.get(provider)?;
        if !request.prompt.label().flows_to(&entry.clearance) {
            return Some(Err(ProviderError::AboveClearance {
                provider: provider.to_owned(),
                label: request.prompt.label().clone(),
            }));
        }
        let options = &RequestOptions::default();
        let cleared = Cleared { request, options };
        Some(entry.provider.complete(&cleared, sink).await)
    }

    /// The providers of a route whose clearance is not below the prompt.
    fn cleared<'a>(
        &'a self,
        route: &'a [String],
        request: &'a CompletionRequest,
    ) -> impl Iterator<Item = (&'a str, &'a Entry)> {
        route.iter().filter_map(move |name| {
            let entry = self.providers.get(name)?;
            let cleared = request.prompt.label().flows_to(&entry.clearance);
            cleared.then_some((name.as_str(), entry))
        })
    }

    fn checked<S: Into<String>>(
        &self,
        route: impl IntoIterator<Item = S>,
        what: &str,
    ) -> Result<Vec<String>, BrokerError> {
        let route: Vec<String> = route.into_iter().map(Into::into).collect();
        if route.is_empty() {
            return Err(BrokerError::EmptyRoute(what.to_owned()));
        }
        match route
            .iter()
            .find(|name| !self.providers.contains_key(*name))
        {
            Some(name) => Err(BrokerError::Unknown {
                route: what.to_owned(),
                name: name.clone(),
            }),
            None => Ok(route),
        }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker")
            .field("providers", &self.providers.keys())
            .field("default_route", &self.default_route)
            .field("routes", &self.routes)
            .finish()
    }
}

/// Remembers whether any text went through: such an answer cannot be taken back by asking another
/// provider.
struct Watched<'a> {
    sink: &'a mut dyn DeltaSink,
    used: bool,
}

impl DeltaSink for Watched<'_> {
    fn text(&mut self, piece: &str) {
        self.used |= !piece.is_empty();
        self.sink.text(piece);
    }
}

//! The LLM broker: the one place from which a prompt can reach a provider.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::{fmt, slice};

use hub::{Completion, CompletionRequest, Purpose};
use ifc::{
    Call, Decision, Effect, Exceeded, History, Label, Labeled, Monitor, Policy, PolicyError, Rule,
    Sink, Submission,
};

use crate::RequestOptions;
use crate::cleared::Cleared;
use crate::provider::{DeltaSink, ErrorKind, Provider, ProviderError};

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
/// [`ErrorKind::is_outage`]) and has not yet streamed any text. A provider that is not cleared
/// is never contacted.
pub struct Broker {
    providers: BTreeMap<String, Arc<dyn Provider>>,
    default_route: Vec<String>,
    routes: Vec<(Purpose, Vec<String>)>,
    clearances: Clearances,
    /// The providers about whose clearance the user may be asked.
    open: BTreeSet<String>,
    /// Decides on prompts. No user is asked about a prompt, so it shares no state with a session's monitor.
    monitor: Monitor,
}

/// The clearance of each provider, as the policy of the one sink that a broker has. No other part of the program
/// holds them. They change only by [`Broker::grant`].
#[derive(Default)]
struct Clearances(RwLock<BTreeMap<String, Label>>);

impl Clearances {
    fn of(&self, provider: &str) -> Option<Label> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(provider).cloned()
    }

    /// What a provider may see from now on, beside what it may see already.
    fn join(&self, provider: &str, more: &Label) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(provider.to_owned()).or_insert(Label::bottom());
        *own = own.join(more);
    }
}

impl Policy for Clearances {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let Sink::Prompt(Submission { provider, .. }) = sink else {
            return Err(PolicyError("a broker sends prompts only".to_owned()));
        };
        // An unknown provider is an error and not ⊥: an error denies, and the prompt stays here.
        let Some(clearance) = self.of(provider) else {
            return Err(PolicyError(format!("there is no provider {provider}")));
        };
        Ok(Rule {
            // Never a question: the configuration says what a provider may see, and a broker cannot ask the user.
            exceeded: Exceeded::Deny,
            ..Rule::asking(
                format!("provider.{provider}.clearance"),
                Effect::Read,
                clearance,
            )
        })
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        // A broker calls no tool, so this is never called. ⊤ is the label under which least is allowed.
        Labeled::unknown(result)
    }
}

impl Broker {
    /// A broker with one provider, which is also the default route.
    pub fn new(provider: Arc<dyn Provider>, clearance: Label) -> Self {
        let name = provider.name().to_owned();
        let clearances = Clearances::default();
        clearances.join(&name, &clearance);
        Self {
            clearances,
            open: BTreeSet::new(),
            providers: BTreeMap::from([(name.clone(), provider)]),
            default_route: vec![name],
            routes: Vec::new(),
            monitor: Monitor::new(),
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
        // Routes go by name: a second provider of that name would take over the first one's prompts, with a clearance
        // that was not meant for it.
        if self.providers.contains_key(&name) {
            return Err(BrokerError::Duplicate(name));
        }
        self.clearances.join(&name, &clearance);
        self.providers.insert(name, provider);
        Ok(self)
    }

    /// Says that the user may be asked whether these providers may see more ([`Broker::grant`]).
    #[must_use]
    pub fn with_open<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.open.extend(names.into_iter().map(Into::into));
        self
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

    /// The clearances of the providers that may take steps, in the order in which they are asked: the provider of a
    /// conversation's own model, or those of the route. A name that is not configured has no clearance.
    pub fn clearances(&self, own: Option<&String>) -> Arc<[Label]> {
        let route = self.steps(own).iter();
        route.filter_map(|name| self.clearances.of(name)).collect()
    }

    /// The providers that may take steps, in that order.
    fn steps<'a>(&'a self, own: Option<&'a String>) -> &'a [String] {
        own.map_or_else(|| self.route(Purpose::Step), slice::from_ref)
    }

    /// The first provider that may take steps, if the user may be asked what it may see: then no other of them has a
    /// clearance that the user has settled.
    pub fn open_provider<'a>(&'a self, own: Option<&'a String>) -> Option<&'a str> {
        let steps = self.steps(own);
        let is_open = steps.iter().all(|name| self.open.contains(name));
        steps.first().filter(|_| is_open).map(String::as_str)
    }

    /// Lets an open provider see text with these taints as well, until the broker is dropped. The user must have said so.
    pub fn grant(&self, provider: &str, more: &Label) {
        if self.open.contains(provider) {
            self.clearances.join(provider, more);
        }
    }

    /// Answers a request by the purpose's route. Dropping the future cancels.
    ///
    /// # Errors
    /// [`ErrorKind::AboveClearance`] when no provider of the route is cleared for the prompt;
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
        self.complete_over(self.route(request.purpose), request, options, sink)
            .await
    }

    /// As [`Broker::complete_with`] over these providers instead of a route: for a conversation with a
    /// model of its own, in whose place no other may answer.
    ///
    /// # Errors
    /// As [`Broker::complete`]. A name that is not configured is passed over, as if it were cleared for nothing.
    pub async fn complete_over(
        &self,
        route: &[String],
        request: &CompletionRequest,
        options: &RequestOptions,
        sink: &mut dyn DeltaSink,
    ) -> Result<Answer, ProviderError> {
        let options = &*options.below(request.prompt.label());
        // One for all attempts: what the first provider has streamed rules out the next.
        let mut watched = Watched { sink, used: false };
        let mut failure = None;
        for (name, provider) in self.known(route) {
            // Each provider is decided on by itself: the next one may be cleared for what this one may not see.
            let Some(cleared) = self.clear(name, request, options) else {
                continue;
            };
            match provider.complete(&cleared, &mut watched).await {
                Ok(completion) => {
                    return Ok(Answer {
                        completion,
                        provider: name.to_owned(),
                    });
                }
                // Text that was streamed cannot be taken back, and another provider's answer would be joined to it.
                Err(error) if error.kind.is_outage() && !watched.used => {
                    failure = Some(error);
                }
                // About the request or the answer: another provider would only be one more that has seen the prompt.
                Err(error) => return Err(error),
            }
        }
        // No failure means that no provider was asked: none of the route is cleared.
        let first = route.first().cloned().unwrap_or_default();
        Err(failure.unwrap_or_else(|| ErrorKind::AboveClearance.at(first)))
    }

    /// The providers of a route, in order.
    fn known<'a>(
        &'a self,
        route: &'a [String],
    ) -> impl Iterator<Item = (&'a str, &'a Arc<dyn Provider>)> {
        let entries = route.iter().map(|name| self.providers.get_key_value(name));
        entries.flatten().map(|(name, it)| (name.as_str(), it))
    }

    /// Asks the monitor whether this provider may see the prompt.
    fn clear<'a>(
        &self,
        provider: &'a str,
        request: &'a CompletionRequest,
        options: &'a RequestOptions,
    ) -> Option<Cleared<'a>> {
        let prompt = &request.prompt;
        let submission = Submission { provider, prompt };
        // The history is for the causes that a question shows, and there is no question.
        let history = History::default();
        match self.monitor.decide(&self.clearances, &history, submission) {
            Decision::Allow(permit) => Some(Cleared::new(request, options, permit)),
            // A question cannot be put here, so it counts as a refusal.
            Decision::Ask(_) | Decision::Deny(_) => None,
        }
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

/// Without the clearances, which nothing else may read.
impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Broker")
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

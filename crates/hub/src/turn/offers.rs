//! Who serves a functionality here, and what stands in the way of a request for it.

use ifc::{Call, Collaboration, Delivery, Direction, Label, Labeled, Sink, Stage};

use super::machine::TurnMachine;
use super::read::request_of;
use crate::ProposedCall;
use crate::isc::{self, Functionality, Offer, ServedBy};

impl TurnMachine {
    /// The offers that can be taken up here: none of an app that waits for this very conversation, and
    /// none at all where as many apps wait as may.
    pub(super) fn reachable<'a>(
        &'a self,
        functionality: &'a Functionality,
    ) -> impl Iterator<Item = &'a Offer> {
        let waiting = self.waiting();
        // Each link is a conversation inside of another: without an end, two apps that ask each other would keep the
        // turn.
        let is_far = waiting.len() >= self.settings.limits.hops;
        let offers = functionality.offers.iter();
        offers.filter(move |offer| !is_far && !waiting.contains(&offer.app))
    }

    /// Whether a proposed call would be answered by a conversation.
    pub(super) fn is_conversed(&self, proposed: &ProposedCall) -> bool {
        let functionality = self.asks.named(&proposed.tool);
        let offer = functionality.and_then(|functionality| self.offer(functionality));
        offer.is_some_and(|offer| offer.by == ServedBy::Conversation)
    }

    /// What a proposed call is a part of, if it is a request and it is known which app serves it.
    pub(super) fn asking(&self, proposed: &ProposedCall) -> Option<Collaboration> {
        let functionality = self.asks.named(&proposed.tool)?;
        Some(Collaboration {
            asks: self.asks.app().to_owned(),
            serves: self.offer(functionality)?.app.clone(),
            functionality: functionality.name.clone(),
            direction: Direction::Asking,
        })
    }

    /// Whether no label stands in the way of this call that a step proposes: of a request, its messages
    /// included.
    pub(super) fn may_make(&self, proposed: &ProposedCall, call: &Call) -> bool {
        match self.asking(proposed) {
            Some(asking) => {
                let policy = self.policy.as_ref();
                !self.is_held_back(proposed, &call.label)
                    && self
                        .monitor
                        .would_allow_requested(policy, &self.history, call, asking)
            }
            None => self.may_call(call),
        }
    }

    /// Whether the label of a proposed request stands in the way of its messages.
    pub(super) fn is_held_back(&self, proposed: &ProposedCall, label: &Label) -> bool {
        let Some(functionality) = self.asks.named(&proposed.tool) else {
            return false;
        };
        let (Some(offer), Ok(arguments)) = (
            self.offer(functionality),
            request_of(functionality, proposed, label),
        ) else {
            // Who serves it is asked first, and what makes no sense goes nowhere.
            return false;
        };
        let messages = [
            (Stage::Probe, isc::probe(functionality, label)),
            (Stage::Request, isc::request(&arguments, label)),
        ];
        messages.into_iter().any(|(stage, message)| {
            let delivery = self.delivery(functionality, offer, stage, message);
            !self
                .monitor
                .would_allow(self.policy.as_ref(), &self.history, &delivery)
        })
    }

    /// A limit that all requests for a functionality keep to, as [`ifc::Policy::floor`] is one of all
    /// calls of a tool.
    pub(super) fn floor_of(&self, functionality: &Functionality) -> Label {
        let of_offer = |offer: &Offer| {
            let stages = [Stage::Probe, Stage::Request];
            let limits = stages.map(|stage| {
                let message = Labeled::trusted_tcb("");
                let delivery = self.delivery(functionality, offer, stage, message);
                let rule = self.policy.rule(&Sink::Delivery(&delivery));
                rule.map_or(Label::bottom(), |rule| rule.limit)
            });
            let call = match &offer.by {
                ServedBy::Tool(tool) => self.policy.floor(&offer.app, tool),
                // What it calls is decided there.
                ServedBy::Conversation => Label::top(),
            };
            limits.iter().fold(call, |all, limit| all.meet(limit))
        };
        // What nobody serves cannot be called.
        let offers = self.reachable(functionality).map(of_offer);
        offers.fold(Label::top(), |all, limit| all.meet(&limit))
    }

    /// The app that serves a functionality, where that is known.
    pub(super) fn offer<'a>(&'a self, functionality: &'a Functionality) -> Option<&'a Offer> {
        let settled = self.settled.get(&functionality.name);
        self.offer_by(functionality, settled.map(String::as_str))
    }

    /// The only app that can serve a functionality here; of several the chosen one.
    pub(super) fn offer_by<'a>(
        &'a self,
        functionality: &'a Functionality,
        chosen: Option<&str>,
    ) -> Option<&'a Offer> {
        let mut offers = self.reachable(functionality);
        match (offers.next(), offers.next()) {
            // Nothing is left to choose, so nobody is asked which.
            (only, None) => only,
            _ => {
                let mut offers = self.reachable(functionality);
                offers.find(|offer| Some(offer.app.as_str()) == chosen)
            }
        }
    }

    fn delivery(
        &self,
        functionality: &Functionality,
        offer: &Offer,
        stage: Stage,
        message: Labeled,
    ) -> Delivery {
        Delivery {
            from: self.asks.app().to_owned(),
            to: offer.app.clone(),
            functionality: functionality.name.clone(),
            stage,
            message,
        }
    }
}

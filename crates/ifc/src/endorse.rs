//! Endorsements: the user vouches for certain texts, for calls of one app.
//!
//! The taints of such a text become *endorsed* ([`Label::endorse_tcb`]). They still flow only where the taints do, but the
//! limits of the app's tools are raised by them. So nothing changes for any other sink, and when the endorsement ends, an
//! endorsed taint counts as the taint itself.

use std::collections::BTreeSet;

use crate::relabel::OwnPiece;
use crate::{
    Call, Cause, Effect, History, Label, Labeled, Pieces, RegionId, Relevance, Rule, Source,
};

/// How long an endorsement counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Until the user's next message.
    Task,
    /// Until the session ends.
    Session,
}

impl Until {
    /// `task` or `session`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Session => "session",
        }
    }
}

/// The texts that a user who trusts the causes of a question would vouch for. Only the monitor makes an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub(crate) texts: Vec<Offered>,
    /// The first region of each cause of the question that has them.
    pub(crate) regions: Vec<RegionId>,
    /// The taints that would no longer be in the way. All are about integrity.
    pub(crate) taints: Label,
    pub(crate) app: String,
    pub(crate) effect: Effect,
}

/// A text that the user would vouch for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Where it comes from.
    pub source: Source,
    /// Its parts with the taints in question, complete and in order.
    pub parts: Vec<Labeled>,
}

impl Offer {
    /// The most texts. A user would not read more before the answer.
    pub const MOST: usize = 3;

    /// The complete texts.
    pub fn texts(&self) -> &[Offered] {
        &self.texts
    }

    /// Whether the texts are those of this cause of the question.
    pub fn is_of(&self, cause: &Cause) -> bool {
        self.regions.contains(&cause.region)
    }

    /// The app whose tools may then be called because of the texts.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The worst effect of a tool that may be called then.
    pub fn effect(&self) -> Effect {
        self.effect
    }
}

/// An endorsement, by its number in the session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Endorsement {
    /// The apps of the conversation, in which a tool's name means one tool.
    place: BTreeSet<String>,
    source: Source,
    parts: Vec<String>,
    taints: Label,
    /// Empty after the endorsement has ended. Its number is not used again, since it marks taints in histories.
    reach: Vec<Reach>,
}

/// The calls of an app's tools with at most this effect.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reach {
    app: String,
    effect: Effect,
    until: Until,
}

impl Reach {
    fn covers(&self, app: &str, effect: Effect) -> bool {
        self.app == app && effect <= self.effect
    }
}

/// The endorsements of a session.
#[derive(Debug, Default)]
pub(crate) struct Endorsements {
    all: Vec<Endorsement>,
    /// The number of the first one.
    first: u64,
}

/// Most endorsed texts of one session. Beyond it nothing is offered.
const MAX_ENDORSEMENTS: usize = 64;

impl Endorsements {
    /// Begins with numbers that no other session has whose labels could be mixed with this one's.
    pub(crate) fn number_from(&mut self, session: u64) {
        self.first = session.saturating_mul(MAX_ENDORSEMENTS as u64);
    }

    /// Whether there is room for any offer.
    pub(crate) fn has_room(&self) -> bool {
        self.all.len() + Offer::MOST <= MAX_ENDORSEMENTS
    }

    /// The user accepts an offer.
    pub(crate) fn add(&mut self, offer: &Offer, place: &BTreeSet<String>, until: Until) {
        for offered in &offer.texts {
            let parts = offered
                .parts
                .iter()
                .map(|part| part.reveal_tcb().to_owned());
            let parts: Vec<String> = parts.collect();
            let reach = Reach {
                app: offer.app.clone(),
                effect: offer.effect,
                until,
            };
            let same = |known: &&mut Endorsement| {
                // A tool's name means one tool only within one conversation.
                known.place == *place && known.source == offered.source && known.parts == parts
            };
            match self.all.iter_mut().find(same) {
                Some(known) => {
                    known.taints = known.taints.join(&offer.taints);
                    known.reach.push(reach);
                }
                None => self.all.push(Endorsement {
                    place: place.clone(),
                    source: offered.source.clone(),
                    parts,
                    taints: offer.taints.clone(),
                    reach: vec![reach],
                }),
            }
        }
    }

    /// Whether the user has accepted all of this offer before.
    pub(crate) fn have(&self, offer: &Offer) -> bool {
        offer.texts.iter().all(|offered| {
            let parts = || offered.parts.iter().map(Labeled::reveal_tcb);
            self.all.iter().any(|known| {
                known.source == offered.source
                    && known.parts.iter().map(String::as_str).eq(parts())
                    && offer.taints.flows_to(&known.taints)
                    && (known.reach.iter()).any(|reach| reach.covers(&offer.app, offer.effect))
            })
        })
    }

    /// Another task begins.
    pub(crate) fn begin_task(&mut self) {
        for endorsement in &mut self.all {
            let reach = &mut endorsement.reach;
            reach.retain(|reach| reach.until == Until::Session);
        }
    }

    /// Raises each limit of the rule for a call by what the user has vouched for.
    pub(crate) fn raise(&self, rule: &mut Rule, call: &Call) {
        for (endorsement, by) in self.numbered() {
            let mut reach = endorsement.reach.iter();
            if !reach.any(|reach| reach.covers(&call.app, rule.effect)) {
                continue;
            }
            // By the number of the endorsement, so that another text with the same taints stays above this limit.
            let endorsed = Label::endorsed(&endorsement.taints, by);
            rule.limit = rule.limit.join(&endorsed);
            for limit in rule.arguments.values_mut() {
                *limit = limit.join(&endorsed);
            }
        }
    }

    /// Endorses in the history of a conversation of these apps what the user vouches for.
    pub(crate) fn endorse(&self, history: &mut History, place: &BTreeSet<String>) {
        for (endorsement, by) in self.numbered() {
            if endorsement.place == *place && !endorsement.reach.is_empty() {
                endorsement.mark(history, by);
            }
        }
    }

    fn numbered(&self) -> impl Iterator<Item = (&Endorsement, u64)> {
        self.all.iter().zip(self.first..)
    }
}

impl Endorsement {
    /// Endorses this text wherever it is in a history: in each text of this source that has all of its parts in their
    /// order, those parts. Text between them is not endorsed.
    fn mark(&self, history: &mut History, by: u64) {
        let mut found = BTreeSet::new();
        for (origin, pieces) in history.own_pieces() {
            if origin.source() != self.source {
                continue;
            }
            // A text can be read again with other text around it. All parts must follow in order, since one alone could be
            // put where it means something else.
            let mut pieces = tainted(pieces, &self.taints).into_iter();
            loop {
                let mut next = |part: &String| pieces.find(|piece| piece.words == part);
                let parts = self.parts.iter();
                let parts = parts.map(|part| next(part).map(|piece| piece.number));
                match parts.collect::<Option<Vec<usize>>>() {
                    Some(all) if !all.is_empty() => found.extend(all),
                    _ => break,
                }
            }
        }
        if !found.is_empty() {
            history.endorse_tcb(&Pieces(Some(found)), &self.taints, by);
        }
    }
}

impl History {
    /// The parts of a cause's regions that came with one of these taints; `None` if there are none.
    pub(crate) fn offered(&self, cause: &Cause, taints: &Label) -> Option<Offered> {
        let chosen = self.chosen(cause)?;
        let label = cause.excerpt.label();
        let of_text = |pieces| {
            let pieces = tainted(pieces, taints).into_iter();
            let pieces = pieces.filter(|piece| chosen.contains(&piece.number));
            pieces
                .map(|piece| Labeled::label_tcb(piece.words, label.clone()))
                .collect()
        };
        let mut texts = self.own_pieces().map(|(_, pieces)| of_text(pieces));
        // All regions of a cause are of one text.
        let parts = texts.find(|parts: &Vec<Labeled>| !parts.is_empty())?;
        Some(Offered {
            source: cause.source.clone(),
            parts,
        })
    }

    /// Whether an image of a cause came with one of these taints. The user, who is shown its note, cannot vouch for it, and
    /// to vouch for the text beside it would not let the call pass.
    pub(crate) fn has_tainted_image(&self, cause: &Cause, taints: &Label) -> bool {
        let Some(chosen) = self.chosen(cause) else {
            return true;
        };
        let mut pieces = self.own_pieces().flat_map(|(_, it)| tainted(it, taints));
        pieces.any(|piece| piece.is_image && chosen.contains(&piece.number))
    }

    /// The numbers of the pieces of a cause's regions.
    fn chosen(&self, cause: &Cause) -> Option<BTreeSet<usize>> {
        let regions = cause.regions().collect();
        let Pieces(chosen) = self.pieces_of(&Relevance::Only(regions));
        chosen
    }
}

/// The pieces that came with one of these taints, endorsed or not.
fn tainted<'a>(mut pieces: Vec<OwnPiece<'a>>, taints: &Label) -> Vec<OwnPiece<'a>> {
    pieces.retain(|piece| !piece.label.unendorsed().meet(taints).is_bottom());
    pieces
}

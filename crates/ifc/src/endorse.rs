//! What the user has vouched for: exactly these texts of these sources, for what one app may do.
//!
//! An endorsement lowers no label of the lattice. The taints of the text become *endorsed* ones
//! ([`Label::endorse_tcb`]), which flow wherever the taints do; and the limits of the tools that the
//! question named are raised by them. So nothing changes for any other sink, and when the endorsement
//! ends, an endorsed taint is once more what the taint is.

use std::collections::BTreeSet;

use crate::relabel::OwnPiece;
use crate::{
    Call, Cause, Effect, History, Label, Labeled, Pieces, RegionId, Relevance, Rule, Source,
};

/// Until when the user vouches for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// For the task: until the user says something else.
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

/// What a user who trusts the causes of a question would vouch for, and for what. Only an offer of the
/// monitor can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub(crate) texts: Vec<Offered>,
    /// The causes of the question that have them, each by its first region.
    pub(crate) regions: Vec<RegionId>,
    /// The taints that would no longer stand in the way; all about integrity.
    pub(crate) taints: Label,
    pub(crate) app: String,
    pub(crate) effect: Effect,
}

/// A text that the user would vouch for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Where it comes from.
    pub source: Source,
    /// Its parts with the taints in question, in the order in which they stand in the result or message,
    /// whole.
    pub parts: Vec<Labeled>,
}

impl Offer {
    /// Texts of more sources than a person reads before saying yes are not vouched for.
    pub const MOST: usize = 3;

    /// The texts, whole.
    pub fn texts(&self) -> &[Offered] {
        &self.texts
    }

    /// Whether the texts are those of this cause of the question.
    pub fn is_of(&self, cause: &Cause) -> bool {
        self.regions.contains(&cause.region)
    }

    /// The app whose tools may then do what the texts ask for.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The worst that these tools may do.
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
    /// For what. Empty where the endorsement has ended; its number is never that of another text.
    reach: Vec<Reach>,
}

/// Calls of an app's tools that do no worse than this.
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

/// Texts that one session vouches for; nobody reads more. Beyond it nothing is offered.
const MAX_ENDORSEMENTS: usize = 64;

impl Endorsements {
    /// Numbers, beginning here, that no other session has whose labels could be mixed with this one's.
    pub(crate) fn number_from(&mut self, session: u64) {
        self.first = session.saturating_mul(MAX_ENDORSEMENTS as u64);
    }

    /// Whether there is room for whatever is offered.
    pub(crate) fn has_room(&self) -> bool {
        // Before it is offered, so that no yes of the user comes to nothing.
        self.all.len() + Offer::MOST <= MAX_ENDORSEMENTS
    }

    /// The user takes an offer.
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
                // A tool's name means one tool within a place only, so the source is the same only there.
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

    /// Whether the user has taken this offer before, all of it: something else stands in the way.
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
            endorsement
                .reach
                // The endorsement stays without a reach: its number marks taints in histories, and must never mean
                // another text.
                .retain(|reach| reach.until == Until::Session);
        }
    }

    /// The rule for a call, with each of its limits raised by what the user has vouched for.
    pub(crate) fn raise(&self, rule: &mut Rule, call: &Call) {
        for (endorsement, by) in self.numbered() {
            let mut reach = endorsement.reach.iter();
            if !reach.any(|reach| reach.covers(&call.app, rule.effect)) {
                continue;
            }
            // By the number of the endorsement: another text with the same taints stays above this limit.
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
    /// Endorses this text wherever it stands in a history: in a text of this source that has all of its
    /// parts, in their order, these parts. Whatever stands between them is not endorsed.
    fn mark(&self, history: &mut History, by: u64) {
        let mut found = BTreeSet::new();
        for (origin, pieces) in history.own_pieces() {
            if origin.source() != self.source {
                continue;
            }
            // A text can be read again with other things around it: only the parts that the user was shown count, one
            // after another and all of them. One alone could be put where it means something else.
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
    /// What the user would vouch for of a cause: the parts of its regions that came with one of these
    /// taints. `None` if there are none.
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

    /// Whether an image of a cause came with one of these taints: a user who is shown its note cannot vouch
    /// for it, so to vouch for the text beside it would let nothing pass.
    pub(crate) fn has_tainted_image(&self, cause: &Cause, taints: &Label) -> bool {
        let Some(chosen) = self.chosen(cause) else {
            return true;
        };
        let mut pieces = self.own_pieces().flat_map(|(_, it)| tainted(it, taints));
        pieces.any(|piece| piece.is_image && chosen.contains(&piece.number))
    }

    /// What the regions of a cause are made of.
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

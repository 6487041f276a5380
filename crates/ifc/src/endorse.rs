//! Endorsements: the user vouches for certain texts, for calls of one app.
//!
//! The taints of such a text become *endorsed* ([`Label::endorse_tcb`]). They still flow only where the taints do, but the
//! limits of the app's tools are raised by them. So nothing changes for any other sink, and when the endorsement ends, an
//! endorsed taint counts as the taint itself.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::Origin;
use crate::relabel::OwnPiece;
use crate::trusted::{Extent, Final, Trusted, values};
use crate::{
    Call, Cause, Effect, History, Label, Labeled, Pieces, RegionId, Relevance, Rule, Source, Writer,
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
    /// The parts of the texts that are a value of the call's control part, if they are not all of the texts.
    pub(crate) values: Vec<Offered>,
    /// The writers of the texts, if all of them are known and few.
    pub(crate) writers: Vec<Writer>,
    /// How many more texts of these writers the conversation has.
    pub(crate) more: usize,
    /// The irreversible calls that trust in the values or the texts covers, and trust in the writers.
    pub(crate) finals: [Final; 2],
}

/// A text that the user would vouch for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Where it comes from.
    pub source: Source,
    /// Its parts with the taints in question, complete and in order.
    pub parts: Vec<Labeled>,
    /// The writers of the parts, if all are known.
    pub(crate) writers: Option<BTreeSet<Writer>>,
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

    /// The values of the call that stand in the texts as fields of their own, if the texts say more than these.
    pub fn values(&self) -> impl Iterator<Item = &Labeled> {
        self.values.iter().flat_map(|offered| &offered.parts)
    }

    /// The writers whose text the user can vouch for; none if the rules name none that a stranger cannot be.
    pub fn writers(&self) -> &[Writer] {
        &self.writers
    }

    /// How many more texts of these writers the conversation has.
    pub fn more(&self) -> usize {
        self.more
    }

    /// Whether it offers as much.
    pub(crate) fn has(&self, extent: Extent) -> bool {
        match extent {
            Extent::Texts => true,
            Extent::Values => self.values().next().is_some(),
            Extent::Writers => !self.writers.is_empty(),
        }
    }

    /// What the user vouches for by accepting as much, and the irreversible calls that this covers.
    fn accepted(&self, extent: Extent) -> (Vec<Trusted>, &Final) {
        let [named, same] = &self.finals;
        let parts = |source: &Source, parts: &[Labeled]| {
            let parts = parts.iter().map(|part| part.reveal_tcb().to_owned());
            Trusted::Parts(source.clone(), parts.collect())
        };
        match extent {
            Extent::Writers => {
                let writers = self.writers.iter().cloned();
                (writers.map(Trusted::Writer).collect(), same)
            }
            // Each by itself: one value can be in a text without the other.
            Extent::Values => {
                let each = self.values.iter().flat_map(|offered| {
                    let one = |part: &Labeled| parts(&offered.source, std::slice::from_ref(part));
                    offered.parts.iter().map(one)
                });
                (each.collect(), named)
            }
            Extent::Texts => {
                let texts = self.texts.iter();
                (
                    texts.map(|it| parts(&it.source, &it.parts)).collect(),
                    named,
                )
            }
        }
    }
}

/// An endorsement.
#[derive(Clone, PartialEq, Eq)]
pub struct Endorsement {
    /// Marks the taints that it has endorsed. It depends on the session, the place and the text, so that processes which
    /// share the session give it one number.
    pub number: u64,
    /// The apps of the conversation, in which a tool's name means one tool.
    pub place: BTreeSet<String>,
    /// What the user vouches for.
    pub what: Trusted,
    /// The taints that are endorsed in it.
    pub taints: Label,
    /// The calls that it is for; none after it has ended.
    pub reach: Vec<Reach>,
}

/// The calls of an app's tools with at most this effect.
#[derive(Clone, PartialEq, Eq)]
pub struct Reach {
    /// The app.
    pub app: String,
    /// The worst effect.
    pub effect: Effect,
    /// The irreversible calls among them.
    pub finals: Final,
    /// When it ends.
    pub until: Until,
}

impl Reach {
    fn covers(&self, call: &Call, rule: &Rule) -> bool {
        self.app == call.app && rule.effect <= self.effect && self.finals.covers(call, rule)
    }
}

/// The endorsements of a session.
#[derive(Default)]
pub(crate) struct Endorsements {
    pub(crate) all: Vec<Endorsement>,
    /// The number of the session, which no other one has whose labels could be mixed with this one's.
    pub(crate) session: u64,
}

/// Most endorsed texts of one session. Beyond it nothing is offered.
const MAX_ENDORSEMENTS: usize = 64;

impl Endorsements {
    /// Whether there is room for any offer.
    pub(crate) fn has_room(&self) -> bool {
        self.all.len() + Offer::MOST <= MAX_ENDORSEMENTS
    }

    /// The user accepts an offer, or a part of it.
    pub(crate) fn add(
        &mut self,
        offer: &Offer,
        place: &BTreeSet<String>,
        extent: Extent,
        until: Until,
    ) {
        let (accepted, finals) = offer.accepted(extent);
        for what in accepted {
            let reach = Reach {
                app: offer.app.clone(),
                effect: offer.effect,
                finals: finals.clone(),
                until,
            };
            self.absorb(Endorsement {
                number: number(self.session, place, &what),
                place: place.clone(),
                what,
                taints: offer.taints.clone(),
                reach: vec![reach],
            });
        }
    }

    /// Adds an endorsement to those of the session.
    pub(crate) fn absorb(&mut self, other: Endorsement) {
        // A tool's name means one tool only within one conversation.
        let same =
            |known: &&mut Endorsement| known.place == other.place && known.what == other.what;
        if let Some(known) = self.all.iter_mut().find(same) {
            known.taints = known.taints.join(&other.taints);
            let new = other.reach.into_iter();
            let new: Vec<Reach> = new.filter(|it| !known.reach.contains(it)).collect();
            known.reach.extend(new);
        } else if self.all.len() < MAX_ENDORSEMENTS
            // Two texts with one number would be one text.
            && self.all.iter().all(|known| known.number != other.number)
        {
            self.all.push(other);
        }
    }

    /// Whether the user has accepted as much of the offer before.
    pub(crate) fn have(&self, offer: &Offer, extent: Extent, call: &Call, rule: &Rule) -> bool {
        let (accepted, _) = offer.accepted(extent);
        accepted.iter().all(|what| {
            self.all.iter().any(|known| {
                known.what == *what
                    && offer.taints.flows_to(&known.taints)
                    && known.reach.iter().any(|reach| reach.covers(call, rule))
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
        for endorsement in &self.all {
            let mut reach = endorsement.reach.iter();
            if !reach.any(|reach| reach.covers(call, rule)) {
                continue;
            }
            // By the number of the endorsement, so that another text with the same taints stays above this limit.
            let endorsed = Label::endorsed(&endorsement.taints, endorsement.number);
            rule.limit = rule.limit.join(&endorsed);
            for limit in rule.arguments.values_mut() {
                *limit = limit.join(&endorsed);
            }
        }
    }

    /// Endorses in the history of a conversation of these apps what the user vouches for.
    pub(crate) fn endorse(&self, history: &mut History, place: &BTreeSet<String>) {
        for endorsement in &self.all {
            if endorsement.place == *place && !endorsement.reach.is_empty() {
                endorsement.mark(history);
            }
        }
    }
}

impl Endorsement {
    /// Endorses this text or this writer's text wherever it is in a history.
    fn mark(&self, history: &mut History) {
        let mut found = BTreeSet::new();
        for (origin, pieces) in history.own_pieces() {
            let pieces = tainted(pieces, &self.taints);
            match &self.what {
                Trusted::Writer(writer) => {
                    let own = pieces.iter().filter(|piece| piece.writer == Some(writer));
                    found.extend(own.map(|piece| piece.number));
                }
                Trusted::Parts(source, parts) if origin.source() == *source => {
                    found.extend(occurrences(parts, pieces));
                }
                Trusted::Parts(..) => {}
            }
        }
        if !found.is_empty() {
            history.endorse_tcb(&Pieces(Some(found)), &self.taints, self.number);
        }
    }
}

/// The number of an endorsement. A session's number cannot be guessed, so no stranger can write two texts with one number.
fn number(session: u64, place: &BTreeSet<String>, what: &Trusted) -> u64 {
    let mut hasher = DefaultHasher::new();
    (session, place, what).hash(&mut hasher);
    // That of checked forms is none.
    hasher.finish().min(u64::MAX - 1)
}

/// The pieces that are these parts in their order, as often as they are there. Text between them is not endorsed.
///
/// A text can be read again with other text around it. All parts must follow in order, since one alone could be put where
/// it means something else.
fn occurrences(parts: &[String], pieces: Vec<OwnPiece<'_>>) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut pieces = pieces.into_iter();
    loop {
        let mut next = |part: &String| pieces.find(|piece| piece.words == part);
        let all = parts
            .iter()
            .map(|part| next(part).map(|piece| piece.number));
        match all.collect::<Option<Vec<usize>>>() {
            Some(all) if !all.is_empty() => found.extend(all),
            _ => return found,
        }
    }
}

impl History {
    /// The offer to vouch for these texts of a call's causes.
    pub(crate) fn offer(
        &self,
        texts: Vec<Offered>,
        regions: Vec<RegionId>,
        taints: Label,
        call: &Call,
        rule: &Rule,
    ) -> Offer {
        // One letter or digit is in many places by accident.
        let control = values(&call.arguments, rule).into_iter();
        let control: Vec<String> = control.filter(|it| it.chars().count() > 2).collect();
        let is_value = |part: &&Labeled| {
            let words = part.reveal_tcb().trim();
            control.iter().any(|value| value == words)
        };
        let fields = texts.iter().map(|text| Offered {
            parts: text.parts.iter().filter(is_value).cloned().collect(),
            ..text.clone()
        });
        let fields: Vec<Offered> = fields.collect();
        let count = |all: &[Offered]| all.iter().map(|it| it.parts.len()).sum::<usize>();
        let (few, all) = (count(&fields), count(&texts));
        let is_less = few < all && few <= Offer::MOST;
        let writers: Option<Vec<_>> = texts.iter().map(|text| text.writers.clone()).collect();
        let writers: BTreeSet<Writer> = writers.into_iter().flatten().flatten().collect();
        let writers = match writers.len() <= Offer::MOST {
            true => writers,
            false => BTreeSet::new(),
        };
        let pieces = self.own_pieces().flat_map(|(_, it)| tainted(it, &taints));
        let theirs = pieces.filter(|it| it.writer.is_some_and(|it| writers.contains(it)));
        Offer {
            finals: [
                Final::named(call, rule, self.read_texts(&texts, call)),
                Final::same(call, rule),
            ],
            values: if is_less { fields } else { Vec::new() },
            more: theirs.count().saturating_sub(all),
            writers: writers.into_iter().collect(),
            texts,
            regions,
            taints,
            app: call.app.clone(),
            effect: rule.effect,
        }
    }

    /// What the user has read in a question or written: the texts, the arguments of the call, and the user's own messages.
    fn read_texts(&self, texts: &[Offered], call: &Call) -> Vec<Labeled> {
        let parts = texts.iter().flat_map(|offered| &offered.parts);
        let user = self.texts().filter_map(|(origin, text)| match origin {
            // A message can have a tool's text in it.
            Origin::User if text.label().is_bottom() => Some(text),
            _ => None,
        });
        let arguments = call.arguments.to_labeled();
        parts.chain(user).cloned().chain([arguments]).collect()
    }

    /// The parts of a cause's regions that came with one of these taints; `None` if there are none.
    pub(crate) fn offered(&self, cause: &Cause, taints: &Label) -> Option<Offered> {
        let chosen = self.chosen(cause)?;
        let label = cause.excerpt.label();
        let own = |pieces| -> Vec<OwnPiece<'_>> {
            let pieces = tainted(pieces, taints).into_iter();
            pieces
                .filter(|piece| chosen.contains(&piece.number))
                .collect()
        };
        let mut texts = self.own_pieces().map(|(_, pieces)| own(pieces));
        // All regions of a cause are of one text.
        let pieces = texts.find(|pieces| !pieces.is_empty())?;
        let parts = pieces.iter();
        Some(Offered {
            source: cause.source.clone(),
            writers: parts.clone().map(|it| it.writer.cloned()).collect(),
            parts: parts
                .map(|it| Labeled::label_tcb(it.words, label.clone()))
                .collect(),
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

    /// The writers of a cause's regions, as far as the rules tell them.
    pub fn writers(&self, cause: &Cause) -> BTreeSet<&Writer> {
        let chosen = self.chosen(cause).unwrap_or_default();
        let pieces = self.own_pieces().flat_map(|(_, pieces)| pieces);
        let own = pieces.filter(|piece| chosen.contains(&piece.number));
        own.filter_map(|piece| piece.writer).collect()
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

//! What is known of one tenant: fingerprints with labels, bounded, and never forgotten silently.

use std::{
    collections::{HashMap, HashSet},
    hash::{Hash, Hasher},
    ops::Range,
    sync::Arc,
};

use foldhash::fast::RandomState;
use ifc::Label;

use super::prints::Lengths;

/// Names a text in a conversation: the digest of everything up to and with it.
pub type Place = [u8; 32];

/// Bytes that one fingerprint takes in a table at its emptiest: 8 and one of control, 7/16 full.
pub(super) const PRINT_BYTES: usize = 21;
/// Bytes that one place takes, likewise, and one part of the text there.
const PLACE_BYTES: usize = 150;
const PART_BYTES: usize = 64;
/// The number of ⊤ among the labels of a tenant.
const TOP: u16 = 0;
static TOP_LABEL: Label = Label::top();

/// A part of a text, and what it was recognised as.
pub(super) type Parts = Arc<[(Range<usize>, Label)]>;

/// One tenant's fingerprints and places, each in two generations: what is used moves to the young
/// one, and when that is full, the old one is forgotten.
pub(super) struct Generations {
    /// By their numbers.
    labels: Vec<Label>,
    numbers: HashMap<Label, u16>,
    /// The number that was asked for last.
    last: (u16, Label),
    young: Prints,
    old: Prints,
    /// How many generations of fingerprints were forgotten.
    turns: u32,
    /// The join of the labels of everything forgotten.
    forgotten: Label,
    /// How many letters the phrases have that were kept.
    phrases: Lengths,
    young_places: Places,
    old_places: Places,
    most_prints: usize,
    most_place_bytes: usize,
}

#[derive(Default)]
struct Places {
    all: HashMap<Place, Known>,
    bytes: usize,
}

/// A set of fingerprints.
struct Prints {
    all: HashSet<Print, RandomState>,
    /// The join of their labels.
    label: Label,
}

impl Default for Prints {
    fn default() -> Self {
        Self {
            all: HashSet::default(),
            label: Label::bottom(),
        }
    }
}

/// 48 bits of a fingerprint and 16 of the number of its label. Equality is that of fingerprints;
/// two texts with one of them, which chance makes of one in millions, are taken for each other:
/// that labels too much and never too little.
#[derive(Clone, Copy)]
struct Print(u64);

impl Print {
    fn new(print: u64, number: u16) -> Self {
        Self((print & !0xFFFF) | u64::from(number))
    }

    fn number(self) -> u16 {
        // The lowest 16 bits.
        u16::try_from(self.0 & 0xFFFF).unwrap_or(TOP)
    }
}

impl PartialEq for Print {
    fn eq(&self, other: &Self) -> bool {
        self.0 >> 16 == other.0 >> 16
    }
}

impl Eq for Print {}

impl Hash for Print {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0 >> 16);
    }
}

/// What is known of the text at one place.
#[derive(Clone)]
pub(super) enum Known {
    /// Its fingerprints were kept, in this generation.
    Learned(u32),
    /// It was recognised as this.
    Recognised(Parts),
}

impl Known {
    fn bytes(&self) -> usize {
        match self {
            Self::Learned(_) => PLACE_BYTES,
            Self::Recognised(parts) => PLACE_BYTES + parts.len() * PART_BYTES,
        }
    }
}

impl Generations {
    /// Nothing, of a tenant that may have had something of this label which was forgotten.
    pub(super) fn new(forgotten: Label, bytes: usize) -> Self {
        // An eighth for places, the rest for fingerprints; each in two generations.
        let places = bytes / 8;
        Self {
            // ⊤ has the number of every label that cannot be numbered or looked up.
            labels: vec![Label::top()],
            numbers: HashMap::from([(Label::top(), TOP)]),
            last: (TOP, Label::top()),
            young: Prints::default(),
            old: Prints::default(),
            turns: 0,
            forgotten,
            phrases: 0,
            young_places: Places::default(),
            old_places: Places::default(),
            most_prints: ((bytes - places) / 2 / PRINT_BYTES).max(1),
            most_place_bytes: places / 2,
        }
    }

    /// Bytes that it takes, by the reckoning of the limits.
    pub(super) fn bytes(&self) -> usize {
        let prints = self.young.all.len() + self.old.all.len();
        prints * PRINT_BYTES + self.young_places.bytes + self.old_places.bytes
    }

    /// The join of the labels of what was forgotten: the label of every text that is not recognised.
    pub(super) fn forgotten(&self) -> &Label {
        &self.forgotten
    }

    /// The join of the labels of everything that is or was known.
    pub(super) fn label(&self) -> Label {
        let both = self.young.label.join(&self.old.label);
        both.join(&self.forgotten)
    }

    /// Whether nothing that was ever known could be recognised.
    pub(super) fn is_empty(&self) -> bool {
        self.young.all.is_empty() && self.old.all.is_empty()
    }

    /// The numbers of letters of all phrases.
    pub(super) fn phrases(&self) -> Lengths {
        self.phrases
    }

    /// From now on phrases of these numbers of letters are looked for.
    pub(super) fn look_for(&mut self, phrases: Lengths) {
        self.phrases |= phrases;
    }

    /// Keeps a fingerprint of text with this label. One of two texts has both labels.
    pub(super) fn keep(&mut self, print: u64, label: &Label) {
        let number = self.number(label);
        // Mostly it is new, or known with this very label: one look into each large table.
        let old = self.old.all.get(&Print::new(print, TOP)).copied();
        let young = self.young.all.replace(Print::new(print, number));
        let mut joined = label.clone();
        for known in [old, young].into_iter().flatten() {
            if known.number() != number {
                let known = self.labels.get(usize::from(known.number()));
                // Two texts with one fingerprint cannot be told apart: it has both labels.
                joined = joined.join(known.unwrap_or(&TOP_LABEL));
            }
        }
        // Only restricted: the label of a fingerprint never falls, however often the text is sent.
        if joined != *label {
            let number = self.number(&joined);
            self.young.all.replace(Print::new(print, number));
        }
        if !joined.flows_to(&self.young.label) {
            self.young.label = self.young.label.join(&joined);
        }
        if self.young.all.len() > self.most_prints {
            self.forget_old_prints();
        }
    }

    /// The label of the text with this fingerprint.
    pub(super) fn find(&self, print: u64) -> Option<&Label> {
        let key = Print::new(print, TOP);
        // One that is in both has the label of the old one in the young one too.
        let known = self.young.all.get(&key).or_else(|| self.old.all.get(&key));
        known.map(|known| {
            let label = self.labels.get(usize::from(known.number()));
            label.unwrap_or(&TOP_LABEL)
        })
    }

    /// Takes note that text of this label cannot be kept.
    pub(super) fn give_up(&mut self, label: &Label) {
        self.forgotten = self.forgotten.join(label);
    }

    /// Forgets the older half of everything.
    pub(super) fn forget_old(&mut self) {
        self.forget_old_prints();
        self.old_places = std::mem::take(&mut self.young_places);
    }

    fn forget_old_prints(&mut self) {
        let gone = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        // Fail closed: what is not recognised from now on may be what was forgotten.
        self.forgotten = self.forgotten.join(&gone.label);
        // A text that was learnt before is learnt again when it comes back, and so moves to the young generation.
        self.turns = self.turns.wrapping_add(1);
    }

    /// Whether the fingerprints of the text at this place are in the young generation.
    pub(super) fn is_learned(&mut self, place: &Place) -> bool {
        matches!(self.known(place), Some(Known::Learned(turn)) if turn == self.turns)
    }

    pub(super) fn learned(&mut self, place: Place) {
        self.remember(place, Known::Learned(self.turns));
    }

    /// What the text at this place was recognised as, when it was seen for the first time.
    pub(super) fn recognised(&mut self, place: &Place) -> Option<Parts> {
        match self.known(place)? {
            Known::Recognised(parts) => Some(parts),
            Known::Learned(_) => None,
        }
    }

    pub(super) fn remember_parts(&mut self, place: Place, parts: Parts) {
        self.remember(place, Known::Recognised(parts));
    }

    fn known(&mut self, place: &Place) -> Option<Known> {
        if let Some(known) = self.young_places.all.get(place) {
            return Some(known.clone());
        }
        let known = self.old_places.all.remove(place)?;
        self.old_places.bytes -= known.bytes();
        self.remember(*place, known.clone());
        Some(known)
    }

    fn remember(&mut self, place: Place, known: Known) {
        let bytes = known.bytes();
        if self.young_places.bytes + bytes > self.most_place_bytes {
            // A place that is forgotten is looked at again as if it were new, which can only restrict it.
            self.old_places = std::mem::take(&mut self.young_places);
        }
        self.young_places.bytes += bytes;
        if let Some(before) = self.young_places.all.insert(place, known) {
            self.young_places.bytes -= before.bytes();
        }
    }

    fn number(&mut self, label: &Label) -> u16 {
        // Texts have few labels, most one.
        let (last, known) = &self.last;
        if known == label {
            return *last;
        }
        let number = self.numbers.get(label).copied();
        let number = number.unwrap_or_else(|| self.new_number(label));
        self.last = (number, label.clone());
        number
    }

    fn new_number(&mut self, label: &Label) -> u16 {
        // There are few labels; any more are ⊤.
        let Ok(number) = u16::try_from(self.labels.len()) else {
            return TOP;
        };
        self.labels.push(label.clone());
        self.numbers.insert(label.clone(), number);
        number
    }
}

//! Labels: sets of taints, ordered by inclusion.

use std::collections::BTreeMap;

/// One reason for care, interned by a [`Lattice`](crate::Lattice).
///
/// A taint says either who may have influenced a text (integrity, `untrusted:email`) or what it may reveal
/// (confidentiality, `secret:card`). Every finite distributive lattice embeds into sets of such taints (Birkhoff), so no
/// other representation is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint(pub(crate) u8);

impl Taint {
    /// The taint's number in its lattice, below [`Lattice::MAX_TAINTS`](crate::Lattice::MAX_TAINTS).
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A security label `(l_i, l_c)` of RTBAS §6.2: a set of taints.
///
/// - [`join`](Label::join) (⊔) is union: the least label that is at least as restrictive as both.
/// - [`flows_to`](Label::flows_to) (⊑) is subset, a partial order.
/// - [`bottom`](Label::bottom) (⊥) is the empty set: trusted and public.
/// - [`top`](Label::top) (⊤) is above every set, also above taints that no lattice has named yet. It is the label of the
///   unknown.
///
/// A taint can be *endorsed*: the user has vouched for the text that brought it. An endorsed taint is strictly below the
/// taint itself. It flows wherever the taint may flow, and also to the limits that the user has raised by it (see
/// [`Monitor`](crate::Monitor)). The set is then a down-set of this order, and everything above still holds.
///
/// A policy endorses the taints of a value whose form it has checked in the same way: see [`Label::formed`].
///
/// A label without endorsed taints is two machine words, and needs no allocation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Label(Repr);

/// Canonical: `Endorsed` only if some taint is, so that derived equality is set equality.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// A bit for each taint. A `u128` would make a label a third larger.
    Words([u64; 2]),
    Endorsed(Box<Endorsed>),
    Top,
}

/// A label with endorsed taints.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Endorsed {
    /// The other taints; not ⊤.
    plain: Label,
    /// The taints by their endorsements. No set is empty, and none has a taint of `plain`, which is above it.
    by: BTreeMap<u64, Label>,
}

const WORD: usize = u64::BITS as usize;

impl Default for Label {
    /// ⊥.
    fn default() -> Self {
        Self::bottom()
    }
}

impl Label {
    /// The number of the endorsement of values by their form. No other endorsement has it.
    pub const FORM: u64 = u64::MAX;

    /// The most taints that a label can hold.
    pub(crate) const BITS: usize = 2 * WORD;

    /// ⊥: no taint at all. It flows everywhere.
    pub const fn bottom() -> Self {
        Label(Repr::Words([0, 0]))
    }

    /// ⊤: flows only to itself. The label of everything unknown.
    pub const fn top() -> Self {
        Label(Repr::Top)
    }

    /// The label with exactly this taint.
    pub fn of(taint: Taint) -> Self {
        let bit = 1 << (taint.index() % WORD);
        Label(Repr::Words(match taint.index() < WORD {
            true => [bit, 0],
            false => [0, bit],
        }))
    }

    /// Whether information may flow from `self` to `other` (⊑): `self` is a subset.
    #[must_use]
    pub fn flows_to(&self, other: &Label) -> bool {
        match (&self.0, &other.0) {
            (_, Repr::Top) => true,
            (Repr::Top, _) => false,
            (Repr::Words([a, b]), Repr::Words([c, d])) => a & !c == 0 && b & !d == 0,
            // Rare, so by the definition of the order.
            (Repr::Endorsed(_), _) | (_, Repr::Endorsed(_)) => self.beyond(other).is_bottom(),
        }
    }

    /// The least upper bound (⊔).
    #[must_use]
    pub fn join(&self, other: &Label) -> Label {
        match (&self.0, &other.0) {
            (Repr::Top, _) | (_, Repr::Top) => Label::top(),
            (Repr::Words([a, b]), Repr::Words([c, d])) => Label(Repr::Words([a | c, b | d])),
            (Repr::Endorsed(_), _) | (_, Repr::Endorsed(_)) => {
                let plain = self.plain().join(other.plain());
                self.by_endorsement(other, plain, |mine, theirs| mine.join(theirs))
            }
        }
    }

    /// Becomes the join with another label, in place: each step joins all labels of a history.
    pub(crate) fn absorb(&mut self, other: &Label) {
        match (&mut self.0, &other.0) {
            (Repr::Words([a, b]), Repr::Words([c, d])) => {
                *a |= c;
                *b |= d;
            }
            _ => *self = self.join(other),
        }
    }

    /// The greatest lower bound (⊓).
    #[must_use]
    pub fn meet(&self, other: &Label) -> Label {
        match (&self.0, &other.0) {
            (Repr::Top, _) => other.clone(),
            (_, Repr::Top) => self.clone(),
            (Repr::Words([a, b]), Repr::Words([c, d])) => Label(Repr::Words([a & c, b & d])),
            (Repr::Endorsed(_), _) | (_, Repr::Endorsed(_)) => {
                let (mine, theirs) = (self.plain(), other.plain());
                self.by_endorsement(other, mine.meet(theirs), |a, b| {
                    // An endorsed taint is below the taint itself, so a plain taint of the one meets an endorsed taint of
                    // the other. `of_parts` removes what is plain in both.
                    mine.join(a).meet(&theirs.join(b))
                })
            }
        }
    }

    /// The taints of `self` beyond `limit`, which are in the way of a flow. ⊤ beyond anything but ⊤ is ⊤.
    #[must_use]
    pub fn beyond(&self, limit: &Label) -> Label {
        match (&self.0, &limit.0) {
            (_, Repr::Top) => Label::bottom(),
            (Repr::Top, _) => Label::top(),
            (Repr::Words([a, b]), Repr::Words([c, d])) => Label(Repr::Words([a & !c, b & !d])),
            (Repr::Endorsed(_), _) | (_, Repr::Endorsed(_)) => {
                let (mine, allowed) = (self.plain(), limit.plain());
                self.by_endorsement(limit, mine.beyond(allowed), |a, b| {
                    // A limit admits an endorsed taint by the taint itself or by the same endorsement.
                    a.beyond(allowed).beyond(b)
                })
            }
        }
    }

    /// Whether this is ⊥.
    #[must_use]
    pub fn is_bottom(&self) -> bool {
        matches!(self.0, Repr::Words([0, 0]))
    }

    /// Whether this is ⊤.
    #[must_use]
    pub fn is_top(&self) -> bool {
        matches!(self.0, Repr::Top)
    }

    /// The label as if the user had vouched for nothing: each endorsed taint is the taint itself. It is at or above this
    /// one.
    #[must_use]
    pub fn unendorsed(&self) -> Label {
        match &self.0 {
            Repr::Endorsed(endorsed) => {
                let by = endorsed.by.values();
                by.fold(endorsed.plain.clone(), |all, taints| all.join(taints))
            }
            _ => self.clone(),
        }
    }

    /// Whether one of its taints is endorsed.
    pub(crate) fn is_endorsed(&self) -> bool {
        matches!(self.0, Repr::Endorsed(_))
    }

    /// The taints that are not endorsed.
    #[must_use]
    pub fn plain(&self) -> &Label {
        match &self.0 {
            Repr::Endorsed(endorsed) => &endorsed.plain,
            _ => self,
        }
    }

    /// This label, with those of `taints` that it has endorsed by this endorsement of the session. ⊤ stays ⊤, since the
    /// user cannot vouch for the unknown. Trusted: the user must have vouched for the text.
    #[must_use]
    pub fn endorse_tcb(&self, taints: &Label, by: u64) -> Label {
        if self.is_top() || taints.is_top() {
            return self.clone();
        }
        let mine = self.plain().meet(taints.plain());
        let plain = Self::of_parts(self.plain().beyond(&mine), self.endorsements().clone());
        plain.join(&Self::endorsed(&mine, by))
    }

    /// These taints as a value has them that cannot instruct, since its form is checked, but whose author chose it and so
    /// what it names. Such a value flows where the taints may flow, and to limits with [`Label::forms`]. ⊤ stays ⊤.
    #[must_use]
    pub fn formed(&self) -> Label {
        match self.is_top() {
            true => Label::top(),
            false => Self::endorsed(&self.unendorsed(), Self::FORM),
        }
    }

    /// Every taint as [`Label::formed`]: a limit that is joined with it admits each value of a checked form.
    #[must_use]
    pub fn forms() -> Label {
        Label(Repr::Words([u64::MAX; 2])).formed()
    }

    /// The taints of this label that it has by a checked form alone, as plain taints.
    #[must_use]
    pub fn formed_taints(&self) -> Label {
        self.endorsements()
            .get(&Self::FORM)
            .cloned()
            .unwrap_or_default()
    }

    /// The label without what the user has vouched for: its plain taints, and those that it has by a checked form.
    #[must_use]
    pub fn without_trust(&self) -> Label {
        self.plain().join(&self.formed_taints().formed())
    }

    /// These taints, endorsed. A limit is raised by joining it with them.
    pub(crate) fn endorsed(taints: &Label, by: u64) -> Label {
        if taints.is_top() {
            return Label::bottom();
        }
        let by = BTreeMap::from([(by, taints.plain().clone())]);
        Self::of_parts(Label::bottom(), by)
    }

    /// The label of these plain taints and, for each endorsement, the combined taints of both labels.
    fn by_endorsement(
        &self,
        other: &Label,
        plain: Label,
        combine: impl Fn(&Label, &Label) -> Label,
    ) -> Label {
        let (mine, theirs) = (self.endorsements(), other.endorsements());
        let none = Label::bottom();
        let of = |all: &BTreeMap<u64, Label>, id| all.get(id).unwrap_or(&none).clone();
        let ids = mine.keys().chain(theirs.keys());
        let by = ids.map(|id| (*id, combine(&of(mine, id), &of(theirs, id))));
        Self::of_parts(plain, by.collect())
    }

    /// The endorsed taints by the number of their endorsement. That of a checked form is [`Label::FORM`].
    #[must_use]
    pub fn endorsements(&self) -> &BTreeMap<u64, Label> {
        static NONE: BTreeMap<u64, Label> = BTreeMap::new();
        match &self.0 {
            Repr::Endorsed(endorsed) => &endorsed.by,
            _ => &NONE,
        }
    }

    fn of_parts(plain: Label, by: BTreeMap<u64, Label>) -> Label {
        // ⊤ is above every endorsement.
        if plain.is_top() {
            return plain;
        }
        let by = by
            .into_iter()
            .map(|(id, taints)| (id, taints.beyond(&plain)));
        let by: BTreeMap<_, _> = by.filter(|(_, taints)| !taints.is_bottom()).collect();
        match by.is_empty() {
            true => plain,
            false => Label(Repr::Endorsed(Box::new(Endorsed { plain, by }))),
        }
    }

    /// The taints of this label in ascending order, endorsed ones included; `None` for ⊤.
    pub fn taints(&self) -> Option<impl Iterator<Item = Taint> + use<>> {
        let Repr::Words(words) = self.unendorsed().0 else {
            return None;
        };
        let bits = words
            .into_iter()
            .flat_map(|word| (0..WORD).map(move |bit| word & (1 << bit) != 0));
        Some(
            bits.zip(0..)
                .filter_map(|(is_set, number)| is_set.then_some(Taint(number))),
        )
    }
}

impl FromIterator<Taint> for Label {
    fn from_iter<I: IntoIterator<Item = Taint>>(taints: I) -> Self {
        taints.into_iter().map(Label::of).collect()
    }
}

impl FromIterator<Label> for Label {
    /// The join of all labels; ⊥ for none.
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        let mut joined = Label::bottom();
        labels.into_iter().for_each(|label| joined.absorb(&label));
        joined
    }
}

impl<'a> FromIterator<&'a Label> for Label {
    /// The join of all labels; ⊥ for none.
    fn from_iter<I: IntoIterator<Item = &'a Label>>(labels: I) -> Self {
        let mut joined = Label::bottom();
        labels.into_iter().for_each(|label| joined.absorb(label));
        joined
    }
}

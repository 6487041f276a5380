//! Named lattices over taints: two points, levels, categories.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Label, Taint};

/// Longest name, in bytes. An error message lists names, and a lattice has up to [`Lattice::MAX_TAINTS`].
const MAX_NAME_BYTES: usize = 64;

/// Most names that an error lists.
const MAX_KNOWN: usize = 64;

/// Which half of a label a taint belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Who may have influenced the text (`l_i`).
    Integrity,
    /// What the text may reveal (`l_c`).
    Confidentiality,
}

impl Dimension {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Integrity, Self::Confidentiality];

    /// `integrity` or `confidentiality`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integrity => "integrity",
            Self::Confidentiality => "confidentiality",
        }
    }

    /// The names of its bottom and of its top.
    fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::Integrity => ("trusted", "untrusted"),
            Self::Confidentiality => ("public", "secret"),
        }
    }
}

/// The order of one dimension, as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// `trusted ⊑ untrusted`, or `public ⊑ secret` (RTBAS §6.2's four-point lattice has two of them).
    TwoPoint,
    /// A chain, from the least restrictive level to the most (`public`, `internal`, `secret`).
    Levels(Vec<String>),
    /// A set of independent categories (RTBAS §8.3.1): `untrusted:NAME` or `secret:NAME`.
    Categories(Vec<String>),
    /// Groups of readers: `readers:NAME` is a text that only members of this group may read, and a join of several one that
    /// only members of all of them may.
    Readers(Vec<String>),
}

/// Why a lattice or a label name is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LatticeError {
    /// A name is used twice, or is a built-in name with another meaning: a level `public` above the bottom, a level
    /// `secret` at the bottom, or a name of the other dimension.
    Duplicate(String),
    /// A name is empty or longer than 64 bytes, or has characters outside `a-z 0-9 - _ .`.
    BadName(String),
    /// A chain or category set without names.
    Empty(Dimension),
    /// More taints than [`Lattice::MAX_TAINTS`].
    TooMany(usize),
    /// A label name that this lattice does not have.
    Unknown {
        /// The name as written.
        name: String,
        /// The names that exist, or the first ones of many.
        known: Vec<String>,
    },
}

impl fmt::Display for LatticeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(name) => write!(
                f,
                "the name '{name}' is taken in this lattice; choose another"
            ),
            Self::BadName(name) => write!(
                f,
                "'{name}' is not a name: use at most {MAX_NAME_BYTES} lowercase letters, digits, '-', '_' and '.'"
            ),
            Self::Empty(dimension) => write!(f, "the {} order has no names", dimension.name()),
            Self::TooMany(count) => write!(
                f,
                "{count} taints are more than the {} that a lattice may have",
                Lattice::MAX_TAINTS
            ),
            Self::Unknown { name, known } => write!(
                f,
                "there is no label '{name}' in this lattice; it has {}",
                known.join(", ")
            ),
        }
    }
}

impl std::error::Error for LatticeError {}

/// The product of an integrity order and a confidentiality order.
///
/// It interns taints and translates between the names of a configuration and [`Label`]s. Labels of different lattices
/// must not be mixed. A hub has one lattice.
#[derive(Debug, Clone, Default)]
pub struct Lattice {
    /// Their names, by number.
    taints: Vec<String>,
    names: BTreeMap<String, Label>,
    /// The levels of each dimension that is a chain, the lowest first.
    chains: Vec<Vec<(String, Label)>>,
    integrity: Label,
    confidentiality: Label,
}

impl Lattice {
    /// The most taints that one may have. A label is a bit for each.
    pub const MAX_TAINTS: usize = Label::BITS;

    /// Before the name of a label that a text has by its form alone.
    pub const FORM: &str = "form:";

    /// The category of what apps say of their own tools. Every lattice has it, named or not.
    pub const DESCRIPTIONS: &str = "untrusted:descriptions";

    /// What stands before the colon in the label of a group of readers.
    pub const READERS: &str = "readers";

    /// The four-point lattice of RTBAS §6.2.
    pub fn four_point() -> Self {
        // Two orders without names of their own, so there is nothing to refuse.
        Self::new(&Order::TwoPoint, &Order::TwoPoint).unwrap_or_default()
    }

    /// The product of two orders.
    ///
    /// # Errors
    /// Any name that is bad, empty or used twice; see [`LatticeError`].
    pub fn new(integrity: &Order, confidentiality: &Order) -> Result<Self, LatticeError> {
        let mut lattice = Self::default();
        lattice.add(Dimension::Integrity, integrity)?;
        lattice.add(Dimension::Confidentiality, confidentiality)?;
        match lattice.taints.len() {
            0..Self::MAX_TAINTS => lattice.add_descriptions(integrity),
            Self::MAX_TAINTS => {}
            count => return Err(LatticeError::TooMany(count)),
        }
        Ok(lattice)
    }

    /// The label of what apps say of their own tools: [`Lattice::DESCRIPTIONS`], or all of integrity where the lattice has
    /// no room for it.
    pub fn descriptions(&self) -> Label {
        let own = self.names.get(Self::DESCRIPTIONS);
        own.unwrap_or(&self.integrity).clone()
    }

    /// The label that a configuration calls `name`: a level, `untrusted:NAME`, `secret:NAME`, `readers:NAME`, `trusted` or
    /// `public` (⊥), `untrusted` or `secret` (every taint of a dimension), or `any` (⊤). `form:NAME` is that label as
    /// [`Label::formed`].
    ///
    /// # Errors
    /// [`LatticeError::Unknown`], with names that exist.
    pub fn label(&self, name: &str) -> Result<Label, LatticeError> {
        if let Some(inner) = name.strip_prefix(Self::FORM) {
            return self.label(inner).map(|label| label.formed());
        }
        match (name, self.names.get(name)) {
            ("any", _) => Ok(Label::top()),
            (_, Some(label)) => Ok(label.clone()),
            (_, None) => {
                let known = self.names.keys().take(MAX_KNOWN).cloned();
                Err(LatticeError::Unknown {
                    name: name.to_owned(),
                    known: known.chain(["any".to_owned()]).collect(),
                })
            }
        }
    }

    /// The join of several named labels; ⊥ for none.
    ///
    /// # Errors
    /// As [`Lattice::label`], for the first unknown name.
    pub fn labels<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Label, LatticeError> {
        names.into_iter().try_fold(Label::bottom(), |joined, name| {
            Ok(joined.join(&self.label(name)?))
        })
    }

    /// Every taint of one dimension: `untrusted` or `secret` without further detail.
    pub fn whole(&self, dimension: Dimension) -> Label {
        match dimension {
            Dimension::Integrity => self.integrity.clone(),
            Dimension::Confidentiality => self.confidentiality.clone(),
        }
    }

    /// The names of a label's taints, for people. ⊤ is `any`; ⊥ is an empty list.
    ///
    /// A level of a chain has its one name, without the taints below it. For a join of named labels, [`Lattice::labels`]
    /// of the result is the label again. Taints that the user has endorsed are named as well. [`Label::forms`] has no name.
    pub fn describe(&self, label: &Label) -> Vec<String> {
        let formed = label.formed_taints();
        let admits_forms = Label::forms().flows_to(label);
        let Some(taints) = label.taints() else {
            return vec!["any".to_owned()];
        };
        let label = &label.unendorsed().beyond(&formed);
        let mut rest = label.clone();
        let mut names = Vec::new();
        for chain in &self.chains {
            let level = chain.iter().rev().find(|(_, level)| level.flows_to(label));
            if let Some((name, level)) = level.filter(|(_, level)| !level.is_bottom()) {
                names.push(name.clone());
                rest = rest.beyond(level);
            }
        }
        let taints = taints.filter(|taint| Label::of(*taint).flows_to(&rest));
        names.extend(taints.map(|taint| {
            let name = self.taints.get(taint.index()).cloned();
            name.unwrap_or_else(|| format!("taint-{}", taint.index()))
        }));
        if !formed.is_bottom() && !admits_forms {
            let formed = self.describe(&formed).into_iter();
            names.extend(formed.map(|name| format!("{}{name}", Self::FORM)));
        }
        names
    }

    /// Every taint of this lattice by name, with its label. The label of a level has the taints below it as well.
    pub fn taints(&self) -> impl Iterator<Item = (&str, Label)> {
        self.taints
            .iter()
            .filter_map(|name| Some((name.as_str(), self.names.get(name).cloned()?)))
    }

    /// The label of the taint of this name alone, without those below it in a chain.
    #[must_use]
    pub fn taint(&self, name: &str) -> Option<Label> {
        let number = self.taints.iter().position(|own| own == name)?;
        Some(Label::of(Taint(u8::try_from(number).ok()?)))
    }

    /// The names of a label's taints, one by one, endorsed or not; `None` for ⊤ and for taints of another lattice.
    #[must_use]
    pub fn taint_names(&self, label: &Label) -> Option<Vec<&str>> {
        let name = |taint: Taint| self.taints.get(taint.index()).map(String::as_str);
        label.taints()?.map(name).collect()
    }

    /// Every label name of this lattice, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    fn add(&mut self, dimension: Dimension, order: &Order) -> Result<(), LatticeError> {
        let (bottom, top) = dimension.ends();
        match order {
            Order::TwoPoint => {
                self.intern(top.to_owned(), dimension);
            }
            Order::Levels(levels) => self.add_chain(dimension, levels)?,
            Order::Categories(names) | Order::Readers(names) => {
                check(dimension, names)?;
                let prefix = match order {
                    Order::Readers(_) => Self::READERS,
                    _ => top,
                };
                for name in names {
                    let name = format!("{prefix}:{name}");
                    let label = self.intern(name.clone(), dimension);
                    self.name(name, label)?;
                }
            }
        }
        self.names.entry(bottom.to_owned()).or_default();
        let whole = self.whole(dimension);
        self.names.entry(top.to_owned()).or_insert(whole);
        Ok(())
    }

    /// Adds the category of descriptions, unless the order has a category of this name. `untrusted` and the last of several
    /// levels, which mean all of integrity, have it too; a single category does not.
    fn add_descriptions(&mut self, order: &Order) {
        if self.names.contains_key(Self::DESCRIPTIONS) {
            return;
        }
        let (_, top) = Dimension::Integrity.ends();
        let before = self.integrity.clone();
        let own = self.intern(Self::DESCRIPTIONS.to_owned(), Dimension::Integrity);
        let all = &self.integrity;
        let is_chain = !matches!(order, Order::Categories(_)) && !before.is_bottom();
        for (name, label) in &mut self.names {
            if *label == before && (is_chain || name == top) {
                *label = all.clone();
            }
        }
        let levels = self.chains.iter_mut().flatten();
        for (_, label) in levels.filter(|(_, label)| is_chain && *label == before) {
            *label = all.clone();
        }
        if *order == Order::TwoPoint {
            let chain = [(Self::DESCRIPTIONS, &own), (top, all)];
            let chain = chain.map(|(name, label)| (name.to_owned(), label.clone()));
            self.chains.push(chain.into());
        }
        self.names.insert(Self::DESCRIPTIONS.to_owned(), own);
    }

    /// Level k is the set of the first k taints. The least level is ⊥.
    fn add_chain(&mut self, dimension: Dimension, levels: &[String]) -> Result<(), LatticeError> {
        check(dimension, levels)?;
        let mut chain = Vec::new();
        let mut below = Label::bottom();
        for (at, level) in levels.iter().enumerate() {
            // The names of the ends keep their meaning: `secret` is never ⊥, `public` always is, and both are about
            // confidentiality.
            let is_misused = |of: Dimension| {
                let (bottom, top) = of.ends();
                let is_own = of == dimension;
                (level == bottom && !(is_own && at == 0)) || (level == top && !(is_own && at > 0))
            };
            if Dimension::ALL.into_iter().any(is_misused) {
                return Err(LatticeError::Duplicate(level.clone()));
            }
            if at > 0 {
                below = below.join(&self.intern(level.clone(), dimension));
            }
            self.name(level.clone(), below.clone())?;
            chain.push((level.clone(), below.clone()));
        }
        self.chains.push(chain);
        Ok(())
    }

    fn name(&mut self, name: String, label: Label) -> Result<(), LatticeError> {
        if name == "any" || self.names.contains_key(&name) {
            return Err(LatticeError::Duplicate(name));
        }
        self.names.insert(name, label);
        Ok(())
    }

    fn intern(&mut self, name: String, dimension: Dimension) -> Label {
        // Past the limit the construction fails at its end. Until then the label is ⊤.
        let label = match u8::try_from(self.taints.len()) {
            Ok(number) if self.taints.len() < Self::MAX_TAINTS => Label::of(Taint(number)),
            _ => Label::top(),
        };
        self.taints.push(name);
        let half = match dimension {
            Dimension::Integrity => &mut self.integrity,
            Dimension::Confidentiality => &mut self.confidentiality,
        };
        *half = half.join(&label);
        label
    }
}

fn check(dimension: Dimension, names: &[String]) -> Result<(), LatticeError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    let is_name =
        |name: &String| (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(allowed);
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(LatticeError::BadName(name.clone())),
        None if names.is_empty() => Err(LatticeError::Empty(dimension)),
        None => Ok(()),
    }
}

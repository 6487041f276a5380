//! Named lattices over taints: four-point, n-level, category sets, reader sets, diagrams.

use std::collections::BTreeMap;

use crate::hasse::Diagram;
use crate::order::{MAX_NAME_BYTES, MAX_TAINTS};
use crate::{Dimension, Label, LatticeError, Order, Taint};

/// Most names that an error lists, and most readers. Nobody reads more, and each label of a configuration may be wrong.
const MAX_KNOWN: usize = 64;

/// A finite distributive lattice: the product of an integrity order and a confidentiality order.
///
/// It interns taints and translates between the names of a configuration and [`Label`]s.
/// Labels of different lattices must not be mixed; a hub has one.
#[derive(Debug, Clone)]
pub struct Lattice {
    taints: Vec<(String, Dimension)>,
    names: BTreeMap<String, Label>,
    readers: Vec<(String, Label)>,
    /// Names of the levels of a chain, or of the elements of a diagram, with their labels; each
    /// after everything below it.
    chains: [Vec<(String, Label)>; 2],
    halves: [Label; 2],
}

impl Lattice {
    /// The most taints that one may have.
    pub const MAX_TAINTS: usize = MAX_TAINTS;

    /// The four-point lattice of RTBAS §6.2.
    pub fn four_point() -> Self {
        let mut lattice = Self::empty();
        for dimension in [Dimension::Integrity, Dimension::Confidentiality] {
            let (bottom, top) = dimension.ends();
            let taint = lattice.intern(top.to_owned(), dimension);
            lattice.names.insert(bottom.to_owned(), Label::bottom());
            lattice.names.insert(top.to_owned(), taint);
        }
        lattice
    }

    /// The product of two orders.
    ///
    /// # Errors
    /// Any name that is bad, empty or used twice; see [`LatticeError`].
    pub fn new(integrity: &Order, confidentiality: &Order) -> Result<Self, LatticeError> {
        let mut lattice = Self::empty();
        lattice.add(Dimension::Integrity, integrity)?;
        lattice.add(Dimension::Confidentiality, confidentiality)?;
        if lattice.taints.len() > Self::MAX_TAINTS {
            return Err(LatticeError::TooMany(lattice.taints.len()));
        }
        Ok(lattice)
    }

    /// The label that a configuration calls `name`: a level, `untrusted:NAME`, `secret:NAME`,
    /// `readers:A,B`, `not-for:A` (everybody else may read), or one of `trusted`, `untrusted`, `public`, `secret` (⊥ and the whole of a
    /// dimension), or `any` (⊤).
    ///
    /// # Errors
    /// [`LatticeError::Unknown`], with names that exist.
    pub fn label(&self, name: &str) -> Result<Label, LatticeError> {
        // Before the names of the configuration, none of which may be `any`: ⊤ must not be renamed.
        if name == "any" {
            return Ok(Label::top());
        }
        if let Some(list) = name.strip_prefix("readers:") {
            return self.readers(list).ok_or_else(|| self.unknown(name));
        }
        let found = self.names.get(name).cloned();
        found.ok_or_else(|| self.unknown(name))
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
        let [integrity, confidentiality] = &self.halves;
        match dimension {
            Dimension::Integrity => integrity.clone(),
            Dimension::Confidentiality => confidentiality.clone(),
        }
    }

    /// The names of a label's taints, for people. ⊤ is `any`; ⊥ is an empty list.
    ///
    /// A level of a chain is shown as its one name, not as the taints below it. For a join of named
    /// labels, [`Lattice::labels`] of the result is the label again. A taint that the user has endorsed in
    /// this session is named all the same: the name is where the text comes from.
    pub fn describe(&self, label: &Label) -> Vec<String> {
        let Some(taints) = label.taints() else {
            return vec!["any".to_owned()];
        };
        let label = &label.unendorsed();
        let mut rest = label.clone();
        let mut names = Vec::new();
        for chain in &self.chains {
            let level = chain.iter().rev().find(|(_, level)| level.flows_to(label));
            if let Some((name, level)) = level.filter(|(_, level)| !level.is_bottom()) {
                names.push(name.clone());
                rest = rest.beyond(level);
            }
        }
        names.extend(
            taints
                .filter(|taint| Label::of(*taint).flows_to(&rest))
                .map(|taint| match self.taints.get(taint.index()) {
                    Some((name, _)) => name.clone(),
                    None => format!("taint-{}", taint.index()),
                }),
        );
        names
    }

    /// Every taint of this lattice by name, with its label. The taint of a level or of an element of
    /// a diagram comes with everything below it: a label has it exactly where its level flows to
    /// the label.
    pub fn taints(&self) -> impl Iterator<Item = (&str, Label)> {
        self.taints.iter().filter_map(|(name, _)| {
            let label = self.names.get(name).cloned();
            // A two-point order's taint is the whole dimension and has its name as well.
            Some((name.as_str(), label?))
        })
    }

    /// Every label name of this lattice, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    fn empty() -> Self {
        Self {
            taints: Vec::new(),
            names: BTreeMap::new(),
            readers: Vec::new(),
            chains: [Vec::new(), Vec::new()],
            halves: [Label::bottom(), Label::bottom()],
        }
    }

    fn add(&mut self, dimension: Dimension, order: &Order) -> Result<(), LatticeError> {
        let (bottom, top) = dimension.ends();
        match order {
            Order::TwoPoint => {
                self.intern(top.to_owned(), dimension);
            }
            Order::Levels(levels) => self.add_chain(dimension, levels)?,
            Order::Hasse(edges) => self.add_diagram(dimension, edges)?,
            Order::Categories(categories) => {
                Self::check(dimension, categories)?;
                for category in categories {
                    let name = format!("{top}:{category}");
                    let label = self.intern(name.clone(), dimension);
                    self.name(name, label)?;
                }
            }
            Order::Readers(_) if dimension == Dimension::Integrity => {
                return Err(LatticeError::ReadersForIntegrity);
            }
            Order::Readers(readers) => {
                Self::check(dimension, readers)?;
                for reader in readers {
                    let name = format!("not-for:{reader}");
                    // By the sorted names: the limit on taints is checked only once all of them are there.
                    if self.names.contains_key(&name) {
                        return Err(LatticeError::Duplicate(reader.clone()));
                    }
                    let label = self.intern(name.clone(), dimension);
                    self.name(name, label.clone())?;
                    self.readers.push((reader.clone(), label));
                }
            }
        }
        self.names
            .entry(bottom.to_owned())
            .or_insert_with(Label::bottom);
        let whole = self.whole(dimension);
        self.names.entry(top.to_owned()).or_insert(whole);
        Ok(())
    }

    /// Level k is the set of the first k taints; the least level is ⊥. A taint is shown by the
    /// level that it makes.
    fn add_chain(&mut self, dimension: Dimension, levels: &[String]) -> Result<(), LatticeError> {
        Self::check(dimension, levels)?;
        for (at, level) in levels.iter().enumerate() {
            Self::check_ends(dimension, level, at == 0)?;
        }
        let mut below = Label::bottom();
        for (at, level) in levels.iter().enumerate() {
            if at > 0 {
                below = below.join(&self.intern(level.clone(), dimension));
            }
            self.name(level.clone(), below.clone())?;
            if let Some(chain) = self.chains.get_mut(dimension.at()) {
                chain.push((level.clone(), below.clone()));
            }
        }
        Ok(())
    }

    /// An element is the set of its join-irreducible parts (Birkhoff), each of them a taint that is
    /// shown by the element's name; the least element has none and is ⊥.
    fn add_diagram(
        &mut self,
        dimension: Dimension,
        edges: &[(String, Vec<String>)],
    ) -> Result<(), LatticeError> {
        let named = edges
            .iter()
            .flat_map(|(lower, uppers)| std::iter::once(lower).chain(uppers));
        Self::check(dimension, &named.cloned().collect::<Vec<_>>())?;
        let diagram = Diagram::new(dimension, edges)?;
        let mut taints = BTreeMap::new();
        for (at, element) in diagram.elements.iter().enumerate() {
            Self::check_ends(dimension, &element.name, element.parts.is_empty())?;
            if element.irreducible {
                taints.insert(at, self.intern(element.name.clone(), dimension));
            }
            // Every part is below the element, so it came before.
            let parts = element.parts.iter().filter_map(|part| taints.get(part));
            let label: Label = parts.collect();
            self.name(element.name.clone(), label.clone())?;
            if let Some(chain) = self.chains.get_mut(dimension.at()) {
                chain.push((element.name.clone(), label));
            }
        }
        Ok(())
    }

    /// The names of the ends keep their meaning: what is called `secret` is never ⊥, what is called
    /// `public` always is, and neither says anything of integrity.
    fn check_ends(dimension: Dimension, name: &str, is_bottom: bool) -> Result<(), LatticeError> {
        let (bottom, top) = dimension.ends();
        let (other_bottom, other_top) = dimension.other().ends();
        let misnamed = [other_bottom, other_top].contains(&name)
            || (name == bottom && !is_bottom)
            || (name == top && is_bottom);
        match misnamed {
            true => Err(LatticeError::Duplicate(name.to_owned())),
            false => Ok(()),
        }
    }

    fn check(dimension: Dimension, names: &[String]) -> Result<(), LatticeError> {
        if names.is_empty() {
            return Err(LatticeError::Empty(dimension));
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        match names
            .iter()
            .find(|name| !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.chars().all(allowed))
        {
            Some(name) => Err(LatticeError::BadName(name.clone())),
            None => Ok(()),
        }
    }

    fn name(&mut self, name: String, label: Label) -> Result<(), LatticeError> {
        if name == "any" || self.names.contains_key(&name) {
            return Err(LatticeError::Duplicate(name));
        }
        self.names.insert(name, label);
        Ok(())
    }

    fn intern(&mut self, name: String, dimension: Dimension) -> Label {
        // Past the limit the construction fails as a whole; until then the label is ⊤.
        let label = match u16::try_from(self.taints.len()) {
            Ok(index) if self.taints.len() < Self::MAX_TAINTS => Label::of(Taint(index)),
            _ => Label::top(),
        };
        self.taints.push((name, dimension));
        if let Some(half) = self.halves.get_mut(dimension.at()) {
            *half = half.join(&label);
        }
        label
    }

    fn readers(&self, list: &str) -> Option<Label> {
        let allowed: Vec<&str> = list
            .split(',')
            .map(str::trim)
            .filter(|r| !r.is_empty())
            .collect();
        let exists = |reader: &&str| self.readers.iter().any(|(name, _)| name == reader);
        // A reader who does not exist is a mistake in the configuration, and none to pass over.
        if self.readers.is_empty() || !allowed.iter().all(exists) {
            return None;
        }
        let left_out = self
            .readers
            .iter()
            .filter(|(name, _)| !allowed.contains(&name.as_str()));
        Some(left_out.map(|(_, label)| label).collect())
    }

    fn unknown(&self, name: &str) -> LatticeError {
        let mut known: Vec<String> = self.names.keys().take(MAX_KNOWN).cloned().collect();
        if !self.readers.is_empty() {
            let readers = self.readers.iter().take(MAX_KNOWN);
            let readers: Vec<&str> = readers.map(|(name, _)| name.as_str()).collect();
            known.push(format!("readers:{}", readers.join(",")));
        }
        known.push("any".to_owned());
        LatticeError::Unknown {
            name: name.to_owned(),
            known,
        }
    }
}

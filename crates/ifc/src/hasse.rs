//! Orders that are given as a diagram: which name stands directly above which.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Dimension, LatticeError};

/// Most names of one diagram: every bound of every pair is compared with every other, and nobody
/// draws more by hand.
const MAX_ELEMENTS: usize = 64;

/// A finite distributive lattice, checked, as Birkhoff's theorem represents it: every element is
/// the set of the join-irreducible elements below it, and then join is union.
#[derive(Debug)]
pub(crate) struct Diagram {
    /// Names, each after everything below it.
    pub(crate) elements: Vec<Element>,
}

/// One element.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// The positions in [`Diagram::elements`] of the join-irreducible elements at or below it.
    pub(crate) parts: Vec<usize>,
    /// Whether it is join-irreducible: it then is one of its own parts, and becomes a taint.
    pub(crate) irreducible: bool,
}

impl Diagram {
    /// From edges: a name, and the names directly above it (more restrictive).
    ///
    /// # Errors
    /// The relation has a cycle, two names without a unique least upper or greatest lower bound, or
    /// three that break distributivity.
    pub(crate) fn new(
        dimension: Dimension,
        edges: &[(String, Vec<String>)],
    ) -> Result<Self, LatticeError> {
        let order = Order::new(dimension, edges)?;
        let elements = order.elements()?;
        Ok(Self { elements })
    }
}

/// A partial order, closed under transitivity.
struct Order<'a> {
    /// Each after everything below it.
    names: Vec<&'a str>,
    /// `below[x]` holds every element at or below x, also x itself.
    below: Vec<BTreeSet<usize>>,
}

impl<'a> Order<'a> {
    fn new(dimension: Dimension, edges: &'a [(String, Vec<String>)]) -> Result<Self, LatticeError> {
        let mut directly_below: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (lower, uppers) in edges {
            directly_below.entry(lower).or_default();
            for upper in uppers {
                directly_below.entry(upper).or_default().insert(lower);
            }
        }
        match directly_below.len() {
            0 => return Err(LatticeError::Empty(dimension)),
            count if count > MAX_ELEMENTS => return Err(LatticeError::TooManyElements(count)),
            _ => {}
        }
        let names = sorted(&directly_below)?;
        let at: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, n)| (*n, at)).collect();
        let mut below: Vec<BTreeSet<usize>> = Vec::with_capacity(names.len());
        for (own, name) in names.iter().enumerate() {
            let mut all = BTreeSet::from([own]);
            let lowers = directly_below.get(name).into_iter().flatten();
            for lower in lowers.filter_map(|lower| at.get(lower)) {
                all.extend(below.get(*lower).into_iter().flatten());
            }
            below.push(all);
        }
        Ok(Self { names, below })
    }

    fn elements(&self) -> Result<Vec<Element>, LatticeError> {
        let all = 0..self.names.len();
        // With a unique join for every pair, a finite order has a greatest element; the least one
        // must be there as well, since nothing restricts less than ⊥.
        self.check_bottom()?;
        let mut joins = BTreeMap::new();
        for (a, b) in pairs(all.clone()) {
            joins.insert((a, b), self.join(a, b)?);
        }
        // x is join-irreducible if it is not the join of what is strictly below it.
        let irreducible = |x: &usize| {
            let bottom = self.below(*x).len() == 1;
            let strictly = self.below(*x).iter().filter(|y| **y != *x);
            let splits =
                pairs(strictly.copied()).any(|(a, b)| joins.get(&(a, b)).is_some_and(|j| j == x));
            !bottom && !splits
        };
        let irreducibles: BTreeSet<usize> = all.clone().filter(irreducible).collect();
        for (&(a, b), &join) in &joins {
            // j ≤ a ∨ b, but neither j ≤ a nor j ≤ b. Then j ∧ (a ∨ b) is j, and both j ∧ a and
            // j ∧ b are strictly below j, so that their join is not j.
            let lost = self
                .below(join)
                .iter()
                .find(|j| irreducibles.contains(j) && !self.flows(**j, a) && !self.flows(**j, b));
            if let Some(j) = lost {
                let [a, b, j] = [a, b, *j].map(|x| self.name(x));
                return Err(LatticeError::NotDistributive([j, a, b]));
            }
        }
        let element = |x: usize| Element {
            name: self.name(x),
            parts: self.below(x).intersection(&irreducibles).copied().collect(),
            irreducible: irreducibles.contains(&x),
        };
        Ok(all.map(element).collect())
    }

    fn check_bottom(&self) -> Result<(), LatticeError> {
        let minimal: Vec<usize> = (0..self.names.len())
            .filter(|x| self.below(*x).len() == 1)
            .collect();
        match minimal.as_slice() {
            [a, b, ..] => Err(LatticeError::NoMeet(self.name(*a), self.name(*b))),
            _ => Ok(()),
        }
    }

    /// The unique least upper bound.
    fn join(&self, a: usize, b: usize) -> Result<usize, LatticeError> {
        let upper: Vec<usize> = (0..self.names.len())
            .filter(|x| self.flows(a, *x) && self.flows(b, *x))
            .collect();
        let least = upper
            .iter()
            .find(|x| upper.iter().all(|y| self.flows(**x, *y)));
        least.copied().ok_or_else(|| {
            let minimal = |x: &&usize| !upper.iter().any(|y| y != *x && self.flows(*y, **x));
            LatticeError::NoJoin {
                elements: [self.name(a), self.name(b)],
                bounds: upper
                    .iter()
                    .filter(minimal)
                    .map(|x| self.name(*x))
                    .collect(),
            }
        })
    }

    fn flows(&self, a: usize, b: usize) -> bool {
        self.below(b).contains(&a)
    }

    fn below(&self, x: usize) -> &BTreeSet<usize> {
        const NOTHING: &BTreeSet<usize> = &BTreeSet::new();
        self.below.get(x).unwrap_or(NOTHING)
    }

    fn name(&self, x: usize) -> String {
        self.names
            .get(x)
            .map_or(String::new(), |name| (*name).to_owned())
    }
}

/// Every pair of different elements, the smaller first; `all` must be ascending.
fn pairs(all: impl Iterator<Item = usize> + Clone) -> impl Iterator<Item = (usize, usize)> {
    let rest = all.clone();
    all.flat_map(move |a| rest.clone().filter(move |b| a < *b).map(move |b| (a, b)))
}

/// The names, each after everything below it.
fn sorted<'a>(
    directly_below: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> Result<Vec<&'a str>, LatticeError> {
    let mut done: Vec<&str> = Vec::new();
    let mut left: BTreeSet<&str> = directly_below.keys().copied().collect();
    while !left.is_empty() {
        let waits = |name: &str| {
            let below = directly_below.get(name).into_iter().flatten();
            below.copied().find(|lower| left.contains(lower))
        };
        let Some(next) = left.iter().copied().find(|name| waits(name).is_none()) else {
            // Everything left has something left below it: going down must come back.
            let mut path: Vec<&str> = left.iter().copied().take(1).collect();
            while let Some(lower) = path.last().and_then(|name| waits(name)) {
                if let Some(start) = path.iter().position(|name| *name == lower) {
                    path = path.split_off(start);
                    path.push(lower);
                    break;
                }
                path.push(lower);
            }
            path.reverse();
            return Err(LatticeError::Cycle(
                path.into_iter().map(str::to_owned).collect(),
            ));
        };
        left.remove(next);
        done.push(next);
    }
    Ok(done)
}

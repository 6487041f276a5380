//! The labelled regions of a history.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::{Label, Labeled, Source};

/// Names a labelled region within one state of a history: its position in reading order.
///
/// Appending to the history keeps the numbers of the regions that were there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

/// One labelled region of a history.
#[derive(Debug, Clone)]
pub struct RegionRef<'a> {
    /// Its number.
    pub id: RegionId,
    /// Where it comes from.
    pub source: Source,
    /// Its text.
    pub(crate) text: &'a Labeled,
    pub(crate) span: Range<usize>,
    /// Its label.
    pub label: &'a Label,
}

impl<'a> RegionRef<'a> {
    /// The region's text. Only for the trusted computing base, as [`Labeled::reveal_tcb`].
    pub fn reveal_tcb(&self) -> &'a str {
        self.text
            .reveal_tcb()
            .get(self.span.clone())
            .unwrap_or_default()
    }
}

/// The regions of interest.
///
/// A wrong answer costs questions or context, never security: regions that are left out are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relevance {
    /// Every region. Any doubt and any error must give this.
    Everything,
    /// Exactly these regions.
    Only(BTreeSet<RegionId>),
}

//! Text with labelled regions.

use std::fmt;
use std::ops::Range;

use crate::Label;

/// Text with non-overlapping labelled regions; the rest is ⊥ (RTBAS §7).
///
/// Slicing, concatenation and editing keep every label with its characters. Neither `Display` nor `Debug` shows the text.
/// [`Labeled::reveal_tcb`] does, for the trusted computing base (policy, the user's screen, the trace). Language models get
/// text only through the redactor.
///
/// A region may be empty, since an empty secret must not look different from a long one.
#[derive(Clone, PartialEq, Eq)]
pub struct Labeled {
    text: String,
    /// Sorted by start, non-overlapping, on character boundaries, never ⊥.
    regions: Vec<Region>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) span: Range<usize>,
    pub(crate) label: Label,
}

impl Labeled {
    /// Text of unknown origin: everything is ⊤.
    pub fn unknown(text: impl Into<String>) -> Self {
        Self::label_tcb(text, Label::top())
    }

    /// Trusted, public text (⊥), which the developer or the user wrote.
    pub fn trusted_tcb(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            regions: Vec::new(),
        }
    }

    /// Text with one label over all of it.
    pub fn label_tcb(text: impl Into<String>, label: Label) -> Self {
        Self::trusted_tcb(text).restrict(&label)
    }

    /// Text with labelled spans (byte offsets), in any order; uncovered text is ⊥. `None` if a span is outside of the text
    /// or cuts a character, or if two spans overlap.
    pub fn with_regions_tcb(
        text: impl Into<String>,
        regions: impl IntoIterator<Item = (Range<usize>, Label)>,
    ) -> Option<Self> {
        let text = text.into();
        let regions = regions.into_iter();
        let mut regions: Vec<Region> = regions
            .map(|(span, label)| Region { span, label })
            .collect();
        regions.sort_by_key(|region| (region.span.start, region.span.end));
        let mut end = 0;
        for Region { span, .. } in &regions {
            text.get(span.clone()).filter(|_| end <= span.start)?;
            end = span.end;
        }
        // After the checks: overlapping spans are a mistake, even if one of them is ⊥.
        regions.retain(|region| !region.label.is_bottom());
        Some(Self { text, regions })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The join of all regions: the label of the text as a whole.
    #[must_use]
    pub fn label(&self) -> Label {
        self.regions.iter().map(|region| &region.label).collect()
    }

    /// The label of the byte at `offset`; ⊤ past the end.
    #[must_use]
    pub fn label_at(&self, offset: usize) -> Label {
        if offset >= self.text.len() {
            return Label::top();
        }
        let region = self
            .regions
            .iter()
            .find(|region| region.span.contains(&offset));
        region.map_or(Label::bottom(), |region| region.label.clone())
    }

    /// The labelled regions in order: byte span and label.
    pub fn regions(&self) -> impl ExactSizeIterator<Item = (Range<usize>, &Label)> {
        self.regions
            .iter()
            .map(|region| (region.span.clone(), &region.label))
    }

    /// The full text. Only for the trusted computing base; see the type.
    pub fn reveal_tcb(&self) -> &str {
        &self.text
    }

    /// Every character becomes at least as restrictive as `label` (Algorithm 4, line 13: `m^(l_t ⊔ l)`).
    #[must_use]
    pub fn restrict(mut self, label: &Label) -> Self {
        if label.is_bottom() {
            return self;
        }
        let mut regions = Vec::with_capacity(self.regions.len() * 2 + 1);
        let mut covered = 0;
        for region in self.regions {
            if covered < region.span.start {
                regions.push(Region {
                    span: covered..region.span.start,
                    label: label.clone(),
                });
            }
            covered = region.span.end;
            regions.push(Region {
                label: region.label.join(label),
                span: region.span,
            });
        }
        // An empty text gets a region too: that it is empty is as secret as its text would be.
        if covered < self.text.len() || regions.is_empty() {
            regions.push(Region {
                span: covered..self.text.len(),
                label: label.clone(),
            });
        }
        self.regions = regions;
        self
    }

    /// The same text, labelled as if the user had vouched for nothing.
    #[must_use]
    pub fn unendorsed(&self) -> Self {
        let mut text = self.clone();
        for region in &mut text.regions {
            region.label = region.label.unendorsed();
        }
        text
    }

    /// Adjacent regions of one label become one region. No character changes its label.
    #[must_use]
    pub fn merge(self) -> Self {
        self.merge_apart(usize::MAX)
    }

    /// The same, without merging across this byte.
    pub(crate) fn merge_apart(mut self, at: usize) -> Self {
        self.regions.dedup_by(|next, last| {
            let apart = last.span.end <= at && next.span.end > at;
            let same = last.span.end == next.span.start && last.label == next.label;
            let merges = same && !apart;
            if merges {
                last.span.end = next.span.end;
            }
            merges
        });
        self
    }

    /// The same text with these regions, which are in order, do not overlap and cut no character.
    pub(crate) fn relabel(&mut self, regions: impl Iterator<Item = (Range<usize>, Label)>) {
        self.regions.clear();
        self.regions.reserve(regions.size_hint().1.unwrap_or(0));
        for (span, label) in regions {
            if !label.is_bottom() {
                self.regions.push(Region { span, label });
            }
        }
    }

    /// The bytes of `range` with their labels; `None` where `str` slicing would fail.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let text = self.text.get(range.clone())?.to_owned();
        let regions = self.touching(&range).map(|region| Region {
            span: region.span.start.max(range.start) - range.start
                ..region.span.end.min(range.end) - range.start,
            label: region.label.clone(),
        });
        Some(Self {
            regions: regions.collect(),
            text,
        })
    }

    /// The join of the labels in a range, as [`Labeled::slice`] has them; ⊥ for what is no range of the text.
    pub(crate) fn label_in(&self, range: &Range<usize>) -> Label {
        self.touching(range).map(|region| &region.label).collect()
    }

    /// The regions that a slice has a part of.
    fn touching(&self, range: &Range<usize>) -> impl Iterator<Item = &Region> {
        let Range { start, end } = *range;
        // By bisection, since an app decides how many regions its result has, and a caller that cuts a text into its
        // regions would take quadratic time otherwise.
        let first = self
            .regions
            .partition_point(|region| region.span.end < start);
        let near = self.regions.iter().skip(first);
        let near = near.take_while(move |region| region.span.start <= end);
        // An empty region at the edge belongs to both parts, so that a cut does not lose an empty secret.
        near.filter(move |Region { span, .. }| {
            span.is_empty() || (span.start < end && start < span.end)
        })
    }

    /// Appends `other` with its labels.
    pub fn push(&mut self, other: &Labeled) {
        let offset = self.text.len();
        self.text.push_str(&other.text);
        self.regions
            .extend(other.regions.iter().map(|region| Region {
                span: region.span.start + offset..region.span.end + offset,
                label: region.label.clone(),
            }));
    }

    /// The parts one after another.
    #[must_use]
    pub fn concat<'a>(parts: impl IntoIterator<Item = &'a Labeled>) -> Self {
        let mut whole = Labeled::trusted_tcb("");
        for part in parts {
            whole.push(part);
        }
        whole
    }

    /// This text with `range` replaced by `insert`; `None` where `str` slicing would fail.
    ///
    /// The label of the removed text does not stay. A caller whose decision depended on that text restricts the result by
    /// its label.
    #[must_use]
    pub fn replace(&self, range: Range<usize>, insert: &Labeled) -> Option<Self> {
        let before = self.slice(0..range.start)?;
        let after = self.slice(range.end..self.text.len())?;
        self.text.get(range)?;
        Some(Self::concat([&before, insert, &after]))
    }

    pub(crate) fn raw_regions(&self) -> &[Region] {
        &self.regions
    }
}

impl fmt::Debug for Labeled {
    /// Sizes only: a labelled value never reveals itself in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Labeled({} bytes, {} regions)",
            self.text.len(),
            self.regions.len()
        )
    }
}

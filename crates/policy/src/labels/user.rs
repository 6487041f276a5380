//! Regions of the user's own messages.

use std::ops::Range;

use ifc::{Label, Labeled};

/// Marks a part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// From the first `open` to the last `close` after it, the marks themselves left out; without a
    /// `close`, to the end. The *last*, because what is pasted between them may hold a `close` too,
    /// and must not end its own region. So two marked parts are one region with what is between them.
    Between {
        /// Begins the part.
        open: String,
        /// Ends it. It may be the same as `open`.
        close: String,
    },
    /// Every line that begins with this, like the lines of a quoted mail.
    Lines(String),
}

/// The label of the parts that a mark marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRule {
    /// Which parts.
    pub mark: Mark,
    /// Their label.
    pub label: Label,
}

/// Which parts of the user's messages the user did not write: pasted text, quoted mail.
///
/// What no rule marks is the user's own word: trusted and public. Rules only add labels, and a part
/// that several rules mark has the join of theirs, so a mark inside pasted text gains nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct UserLabels {
    rules: Vec<UserRule>,
}

impl UserLabels {
    /// Rules; an empty mark marks the whole message.
    pub fn new(rules: Vec<UserRule>) -> Self {
        Self { rules }
    }

    /// The rules.
    pub fn rules(&self) -> &[UserRule] {
        &self.rules
    }

    /// Labels a message.
    pub fn label(&self, text: String) -> Labeled {
        let regions = self.regions(&text);
        let labeled = Labeled::with_regions_tcb(text.as_str(), regions);
        labeled.unwrap_or_else(|_| Labeled::unknown(text))
    }

    fn regions(&self, text: &str) -> Vec<(Range<usize>, Label)> {
        // Where which rule begins and ends to count.
        let mut edges: Vec<(usize, bool, usize)> = Vec::new();
        for (number, rule) in self.rules.iter().enumerate() {
            for part in rule.mark.parts(text) {
                edges.push((part.start, true, number));
                edges.push((part.end, false, number));
            }
        }
        // From the beginning of the text to its end, so that a part which several rules mark has the labels of all that
        // count there.
        edges.sort_unstable();
        let mut active = vec![0_usize; self.rules.len()];
        let mut regions: Vec<(Range<usize>, Label)> = Vec::new();
        let mut at = 0;
        for (offset, begins, number) in edges {
            let counts = self.rules.iter().zip(&active);
            let marking = counts.filter(|(_, count)| **count > 0);
            let label: Label = marking.map(|(rule, _)| &rule.label).collect();
            if offset > at && !label.is_bottom() {
                match regions.last_mut() {
                    Some((last, same)) if last.end == at && *same == label => last.end = offset,
                    _ => regions.push((at..offset, label)),
                }
            }
            at = offset;
            if let Some(count) = active.get_mut(number) {
                *count = if begins {
                    *count + 1
                } else {
                    count.saturating_sub(1)
                };
            }
        }
        regions
    }
}

impl Mark {
    fn parts(&self, text: &str) -> Vec<Range<usize>> {
        match self {
            Self::Between { open, close } => {
                let Some(found) = text.find(open.as_str()) else {
                    return Vec::new();
                };
                let start = found + open.len();
                let rest = text.get(start..).unwrap_or_default();
                // To the end of the text where the mark is missing: that must not make pasted text the user's own.
                let length = rest.rfind(close.as_str()).unwrap_or(rest.len());
                std::iter::once(start..start + length).collect()
            }
            Self::Lines(prefix) => {
                let mut at = 0;
                let lines = text.split_inclusive('\n').map(|line| {
                    at += line.len();
                    (line, at - line.len()..at)
                });
                lines
                    .filter(|(line, _)| line.starts_with(prefix.as_str()))
                    .map(|(_, span)| span)
                    .collect()
            }
        }
    }
}

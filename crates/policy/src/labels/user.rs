//! Regions of the user's own messages.

use std::ops::Range;

use ifc::{Label, Labeled};

/// Marks a part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// From the first `open` to the last `close` after it, without the marks; to the end if there is no `close`. It is the
    /// *last*, since pasted text may have a `close` too. So two marked parts are one region with the text between them.
    Between {
        /// Begins the part.
        open: String,
        /// Ends it. It may be the same as `open`.
        close: String,
    },
    /// Every line that begins with this, like the lines of a quoted mail.
    Lines(String),
}

/// A mark, and the label of the parts that it marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRule {
    /// The mark.
    pub mark: Mark,
    /// Their label.
    pub label: Label,
}

/// The labels of parts of the user's messages that the user did not write: pasted text, quoted mail.
///
/// Text without a mark is the user's own: trusted and public. A part with several marks has the join of their labels, so a
/// mark inside of pasted text gains nothing.
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
        labeled.unwrap_or_else(|| Labeled::unknown(text))
    }

    fn regions(&self, text: &str) -> Vec<(Range<usize>, Label)> {
        // The starts and ends of marked parts.
        let mut edges: Vec<(usize, bool, usize)> = Vec::new();
        for (number, rule) in self.rules.iter().enumerate() {
            for part in rule.mark.parts(text) {
                edges.push((part.start, true, number));
                edges.push((part.end, false, number));
            }
        }
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
                // To the end if there is no `close`, so that pasted text does not count as the user's own.
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

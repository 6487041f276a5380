//! From single matches to the parts of a text that carry their labels.

use std::ops::Range;

use ifc::{Label, Labeled};

use super::{
    letters::{Letters, View, letters},
    prints::{Gram, WINDOW},
    words,
};

/// Letters beside a match that may belong to it too: the fingerprint that was kept lies somewhere in
/// the common part.
const MARGIN: usize = WINDOW - 1;
/// Letters between two matches that count as matched: about two lines. Words that were put into a
/// text, or changed in it, were chosen with the text in sight.
pub(super) const GAP: usize = 160;
/// Matches that are kept apart. Beyond them everything from the first to the last is one part.
const MATCHES: usize = 4096;

/// The matches of one view of a text so far: ranges of letters with labels, by their beginning.
#[derive(Clone)]
pub(super) struct Matches {
    view: View,
    /// Letters between two matches of one label that are joined at once.
    gap: usize,
    parts: Vec<(Range<usize>, Label)>,
}

impl Matches {
    pub(super) fn new(view: View, gap: usize) -> Self {
        Self {
            view,
            gap,
            parts: Vec::new(),
        }
    }

    /// Adds a match.
    pub(super) fn add(&mut self, gram: &Gram, label: &Label) {
        let Range { start, end } = gram.letters;
        let is_full = self.parts.len() >= MATCHES;
        match self.parts.last_mut() {
            Some((last, known)) if known == label && start <= last.end.saturating_add(self.gap) => {
                last.start = last.start.min(start);
                last.end = last.end.max(end);
            }
            // Bounded for any client: from here on too much is labelled, never too little.
            Some((last, known)) if is_full => {
                last.start = last.start.min(start);
                last.end = last.end.max(end);
                *known = known.join(label);
            }
            _ => self.parts.push((start..end, label.clone())),
        }
    }

    /// The parts of `text` that are known for sure: matches, and the gaps between close ones.
    pub(super) fn sure(self, text: &str) -> Vec<(Range<usize>, Label)> {
        in_bytes(letters(text, self.view), bridged(flattened(self.parts)))
    }

    /// The same with the letters beside them that may belong to the text that matched.
    pub(super) fn possible(mut self, text: &str) -> Vec<(Range<usize>, Label)> {
        for (range, _) in &mut self.parts {
            range.start = range.start.saturating_sub(MARGIN);
            range.end = range.end.saturating_add(MARGIN);
        }
        self.sure(text)
    }

    /// What a message of the user's repeats: parts of it that had labels before, and the join of the labels of the sentences
    /// in the user's own words.
    pub(super) fn in_message(&self, text: &Labeled) -> (Vec<(Range<usize>, Label)>, Label) {
        let mut parts = self.parts.clone();
        parts.sort_by_key(|(range, _)| range.start);
        let mut runs: Vec<(Range<usize>, Label)> = Vec::new();
        for (range, label) in parts {
            match runs.last_mut() {
                // Fields of different labels can be one sentence together.
                Some((last, known)) if range.start <= last.end => {
                    last.end = last.end.max(range.end);
                    *known = known.join(&label);
                }
                _ => runs.push((range, label)),
            }
        }
        let words = text.reveal_tcb();
        let (mut inserted, mut own) = (Vec::new(), Vec::new());
        for (run, label) in in_bytes(letters(words, self.view), runs) {
            let mut at = run.start;
            for (span, _) in text.regions() {
                let start = span.start.clamp(at, run.end);
                let end = span.end.clamp(at, run.end);
                if start < end {
                    own.push((at..start, label.clone()));
                    inserted.push((start..end, label.clone()));
                    at = end;
                }
            }
            own.push((at..run.end, label));
        }
        let sentences = words::sentences(text, &own);
        (inserted, sentences)
    }
}

/// Ranges that overlap are cut where one begins or ends; each piece has the labels of all that cover it.
fn flattened(mut ranges: Vec<(Range<usize>, Label)>) -> Vec<(Range<usize>, Label)> {
    // Merging may have moved a beginning before that of its predecessor.
    ranges.sort_by_key(|(range, _)| range.start);
    let mut cuts: Vec<usize> = (ranges.iter())
        .flat_map(|(range, _)| [range.start, range.end])
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut flat: Vec<(Range<usize>, Label)> = Vec::new();
    let mut coming = ranges.into_iter().peekable();
    let mut active: Vec<(Range<usize>, Label)> = Vec::new();
    for (start, end) in cuts.iter().zip(cuts.iter().skip(1)) {
        active.retain(|(range, _)| range.end > *start);
        while let Some(range) = coming.next_if(|(range, _)| range.start <= *start) {
            active.push(range);
        }
        if !active.is_empty() {
            let label = active.iter().map(|(_, label)| label).collect();
            flat.push((*start..*end, label));
        }
    }
    flat
}

/// Gaps up to [`GAP`] get the labels of both sides; neighbours of one label become one.
fn bridged(flat: Vec<(Range<usize>, Label)>) -> Vec<(Range<usize>, Label)> {
    let mut bridged: Vec<(Range<usize>, Label)> = Vec::with_capacity(flat.len());
    let mut push = |range: Range<usize>, label: Label| match bridged.last_mut() {
        Some((last, known)) if last.end == range.start && *known == label => last.end = range.end,
        _ => bridged.push((range, label)),
    };
    let mut before: Option<(usize, Label)> = None;
    for (range, label) in flat {
        if let Some((end, known)) = &before
            && *end < range.start
            && range.start - end <= GAP
        {
            push(*end..range.start, known.join(&label));
        }
        before = Some((range.end, label.clone()));
        push(range, label);
    }
    bridged
}

/// From ranges of letters to ranges of bytes.
fn in_bytes(
    letters: Letters<'_>,
    ranges: Vec<(Range<usize>, Label)>,
) -> Vec<(Range<usize>, Label)> {
    let mut parts: Vec<(Range<usize>, Label)> = Vec::with_capacity(ranges.len());
    let mut all = letters.enumerate().peekable();
    let mut covered = 0;
    for (range, label) in ranges {
        while all.next_if(|(at, _)| *at < range.start).is_some() {}
        let mut bytes: Option<Range<usize>> = None;
        while let Some((_, letter)) = all.next_if(|(at, _)| *at < range.end) {
            let start = bytes.map_or(letter.start, |bytes| bytes.start);
            bytes = Some(start..letter.end);
        }
        let Some(bytes) = bytes else { continue };
        // The text between two neighbours belongs to the second one. Two letters can be of one
        // character, which then belongs to the first.
        let start = match parts.last() {
            Some((last, _)) if range.start == covered => last.end,
            Some((last, _)) => bytes.start.max(last.end),
            None => bytes.start,
        };
        covered = range.end;
        if start < bytes.end {
            parts.push((start..bytes.end, label));
        }
    }
    parts
}

/// The text, of which these parts, in order and without overlaps, are at least as restrictive as their labels.
pub fn restricted(text: Labeled, parts: &[(Range<usize>, Label)]) -> Labeled {
    if parts.is_empty() {
        return text;
    }
    let mut pieces = Vec::with_capacity(parts.len() * 2 + 1);
    let mut from = 0;
    // Parts lie on characters of this very text. If one did not, nothing would be sure.
    let slice = |range: Range<usize>| text.slice(range).ok_or(());
    let mut cut = || {
        for (range, label) in parts {
            pieces.push(slice(from..range.start)?);
            pieces.push(slice(range.clone())?.restrict(label));
            from = range.end;
        }
        pieces.push(slice(from..text.len())?);
        Ok::<(), ()>(())
    };
    match cut() {
        Ok(()) => Labeled::concat(&pieces).merge(),
        Err(()) => text.restrict(&Label::top()),
    }
}

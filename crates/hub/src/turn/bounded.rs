//! Results that are larger than a conversation should hold.

use std::ops::Range;

use ifc::{Label, Labeled};

/// What is too large is left out, with a note in its place. A region counts only with what is below
/// its own label: otherwise the size of a secret would decide whether trusted text is shown.
pub fn bounded(content: Labeled, limit: usize) -> Labeled {
    if content.len() <= limit {
        return content;
    }
    let mut parts: Vec<(Range<usize>, Label)> = Vec::new();
    let mut covered = 0;
    for (span, label) in content.regions() {
        parts.push((covered..span.start, Label::bottom()));
        covered = span.end;
        parts.push((span, label.clone()));
    }
    parts.push((covered..content.len(), Label::bottom()));
    // There are few different labels, however many regions there are.
    let mut sizes: Vec<(&Label, usize)> = Vec::new();
    for (span, label) in &parts {
        match sizes.iter_mut().find(|(known, _)| *known == label) {
            Some((_, size)) => *size += span.len(),
            None => sizes.push((label, span.len())),
        }
    }
    let below = |label: &Label| -> usize {
        let below = sizes.iter().filter(|(own, _)| own.flows_to(label));
        below.map(|(_, size)| size).sum()
    };
    let mut noted: Vec<&Label> = Vec::new();
    let kept = parts.iter().map(|(span, label)| {
        let bytes = below(label);
        // Decided region by region, by what a reader at its label could count itself.
        if bytes <= limit {
            return content.slice(span.clone()).unwrap_or(Labeled::unknown(""));
        }
        let mut note = String::new();
        // Once for each label: the number of notes would be the number of regions.
        if !noted.contains(&label) {
            noted.push(label);
            note = format!("the result has {bytes} bytes, over the limit of {limit}");
        }
        Labeled::label_tcb(note, label.clone())
    });
    let kept: Vec<Labeled> = kept.collect();
    Labeled::concat(&kept)
}

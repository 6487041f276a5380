//! Features that need no model: which values of the draft are in which region.

use std::collections::{HashMap, HashSet};

use super::{Encoded, Sight, Spoken, Transcript};

/// Words of text outside regions that are looked at, newest first: every word is compared with
/// every word of the draft.
const FREE_WORDS: usize = 20_000;

/// Characters below which a value is too common to count: one letter or digit occurs everywhere.
const LEAST_CHARACTERS: usize = 2;

/// Values that are too common to count, regardless of their length.
const TRIVIAL: [&str; 4] = ["true", "false", "none", "nothing"];

/// What a region's words have to do with the draft's values, in the order of [`Lexical`].
pub(crate) type Words = [f32; 8];

/// A value as words.
struct Wanted {
    words: Vec<u32>,
    characters: usize,
    /// The longest passage of it in free text.
    free: usize,
    /// Regions in which it stands.
    regions: usize,
}

/// No word: between texts that do not follow each other.
const GAP: u32 = u32::MAX;

#[derive(Default)]
struct Vocabulary(HashMap<String, u32>);

impl Vocabulary {
    fn words(&mut self, text: &str) -> Vec<u32> {
        let words = text.split(|character: char| !character.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        let numbers = words.map(|word| {
            let next = u32::try_from(self.0.len()).unwrap_or(GAP);
            *self.0.entry(word.to_lowercase()).or_insert(next)
        });
        numbers.collect()
    }
}

/// One for each region that is seen, in order.
pub(crate) fn lexical(transcript: &Transcript, draft: &Spoken, encoded: &Encoded) -> Vec<Words> {
    let mut vocabulary = Vocabulary::default();
    let mut values = wanted(draft, &mut vocabulary);
    // Text outside regions is ⊥: a value that occurs there need not come from a region.
    let free = free(transcript, &mut vocabulary);
    for value in &mut values {
        value.free = longest_run(&value.words, &free);
    }
    let free: HashSet<u32> = free.into_iter().collect();
    let own: HashSet<u32> = values
        .iter()
        .flat_map(|value| &value.words)
        .copied()
        .collect();
    let own: HashSet<u32> = own.difference(&free).copied().collect();

    let seen = transcript.regions().iter().zip(&encoded.regions);
    let seen = seen.filter(|(_, sight)| matches!(sight, Sight::Tokens(_)));
    let regions: Vec<Vec<u32>> = seen
        .map(|(placed, _)| vocabulary.words(transcript.text(placed)))
        .collect();
    let runs: Vec<Vec<usize>> = regions
        .iter()
        .map(|region| {
            let runs = values.iter().map(|value| longest_run(&value.words, region));
            runs.collect()
        })
        .collect();
    for runs in &runs {
        for (value, run) in values.iter_mut().zip(runs) {
            // The whole value; a common part of it, such as a greeting, does not make it less
            // unique.
            value.regions += usize::from(*run == value.words.len());
        }
    }
    let regions = regions.iter().zip(&runs);
    let regions = regions.map(|(region, runs)| measure(&values, runs, region, &own));
    regions.collect()
}

fn measure(values: &[Wanted], runs: &[usize], region: &[u32], own: &HashSet<u32>) -> Words {
    let [mut run_words, mut cover, mut excess] = [0.0_f32; 3];
    let [mut here, mut only_here, mut unique, mut characters] = [0.0_f32; 4];
    let part = 1.0 / values.len().max(1) as f32;
    for (value, run) in values.iter().zip(runs) {
        let length = value.words.len();
        run_words = run_words.max((*run as f32).ln_1p());
        cover = cover.max(*run as f32 / length as f32);
        excess = excess.max((*run as f32 - value.free as f32) / length as f32);
        if *run < length {
            continue;
        }
        here += part;
        if value.free == length {
            continue;
        }
        only_here += part;
        characters = characters.max((value.characters as f32).ln_1p());
        if value.regions == 1 {
            unique += part;
        }
    }
    let region: HashSet<u32> = region.iter().copied().collect();
    let words = own.intersection(&region).count() as f32 / own.len().max(1) as f32;
    [
        run_words, cover, excess, here, only_here, unique, words, characters,
    ]
}

/// The values that say enough to be looked for.
fn wanted(draft: &Spoken, vocabulary: &mut Vocabulary) -> Vec<Wanted> {
    let wanted = draft.values.iter().filter_map(|value| {
        let text = draft.value(value);
        let characters = text.chars().filter(|it| it.is_alphanumeric()).count();
        let trivial = TRIVIAL
            .iter()
            .any(|trivial| text.eq_ignore_ascii_case(trivial));
        (characters >= LEAST_CHARACTERS && !trivial).then(|| Wanted {
            words: vocabulary.words(text),
            characters,
            free: 0,
            regions: 0,
        })
    });
    wanted.collect()
}

/// The newest words that no region covers.
fn free(transcript: &Transcript, vocabulary: &mut Vocabulary) -> Vec<u32> {
    let mut words = Vec::new();
    // Newest first, so that the bound drops the oldest words. Regions come in the order of the
    // text, so they are met from the last one back.
    let mut regions = transcript.regions().iter().rev().peekable();
    for (index, turn) in transcript.turns().iter().enumerate().rev() {
        let mut end = turn.text.len();
        let mut of_turn = std::iter::from_fn(|| {
            let place = |placed: &&super::Placed| matches!(&placed.place, Some((turn, _)) if *turn == index);
            regions.next_if(place)
        });
        loop {
            let covered = of_turn.next().and_then(|placed| placed.place.as_ref());
            let start = covered.map_or(0, |(_, bytes)| bytes.end);
            let text = turn.text.get(start..end).unwrap_or_default();
            // Reversed like the texts, and turned round as a whole at the end.
            words.extend(vocabulary.words(text).into_iter().rev());
            // No passage may run across a region, whose words are left out here.
            words.push(GAP);
            if words.len() >= FREE_WORDS {
                words.truncate(FREE_WORDS);
            }
            match covered {
                Some((_, bytes)) => end = bytes.start,
                None => break,
            }
        }
        if words.len() >= FREE_WORDS {
            break;
        }
    }
    words.reverse();
    words
}

/// The words of the longest passage that is in both.
fn longest_run(value: &[u32], text: &[u32]) -> usize {
    // For each word of the text, how long the passage is that ends there and at a value's word.
    let mut runs = vec![0usize; value.len()];
    let mut longest = 0;
    for word in text {
        // The row before is overwritten while it is read: `before` holds what the left neighbour
        // was in it. Memory is one row, not words times words.
        let mut before = 0;
        for (run, own) in runs.iter_mut().zip(value) {
            let here = if own == word { before + 1 } else { 0 };
            before = std::mem::replace(run, here);
            longest = longest.max(here);
        }
    }
    longest
}

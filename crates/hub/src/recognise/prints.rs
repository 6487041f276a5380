//! Fingerprints of text: winnowing (Schleimer, Wilkerson, Aiken, SIGMOD 2003) over letters.
//!
//! A text is fingerprinted by the hashes of runs of [`GRAM`] letters, of which one in each window of
//! [`WINDOW`] is kept. Another text is looked at everywhere, so that a run of
//! `GRAM + WINDOW - 1` letters that both have is always found, and one below `GRAM` letters never.

use std::ops::Range;

use super::letters::{Letter, View, letters};

/// Letters under one fingerprint: four or five words. Shorter runs occur in unrelated texts.
pub(super) const GRAM: usize = 24;
/// Fingerprints of which one is kept.
pub(super) const WINDOW: usize = 9;
/// A text below [`GRAM`] letters is kept as a whole if it has as many letters …
const PHRASE_LETTERS: usize = 8;
/// … and as many words: a sentence, and not a name, a number or an address, which users type
/// themselves.
pub(super) const PHRASE_WORDS: usize = 3;
/// Of the polynomial hash modulo 2^64: odd, from the golden ratio.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;
/// `BASE` to the power [`GRAM`].
const LEAVING: u64 = power(BASE, GRAM);

/// A fingerprint and the bytes that it stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Gram {
    pub(super) print: u64,
    pub(super) bytes: Range<usize>,
    /// The numbers of its letters.
    pub(super) letters: Range<usize>,
}

/// A set of numbers of letters below [`GRAM`], one bit for each.
pub(super) type Lengths = u32;

/// The fingerprints of all runs of [`GRAM`] letters, in order, and those of the phrases: runs of one of
/// these numbers of letters between two ends of words.
pub(super) fn grams(
    letters: impl Iterator<Item = Letter>,
    phrases: Lengths,
    mut found: impl FnMut(Gram),
) {
    let mut ring = Ring::default();
    for letter in letters {
        if letter.begins_word {
            ring.phrases(phrases, &mut found);
        }
        ring.push(letter);
        if let Some(gram) = ring.gram() {
            found(gram);
        }
    }
    ring.phrases(phrases, &mut found);
}

/// The fingerprints by which a text is kept: of each window of [`WINDOW`] the least.
pub(super) fn winnowed(letters: impl Iterator<Item = Letter>, mut keep: impl FnMut(&Gram)) {
    let mut window: [Gram; WINDOW] = Default::default();
    let mut ring = Ring::default();
    let (mut count, mut least) = (0, (0, u64::MAX));
    // The number of the gram that was kept last.
    let mut kept = None;
    let mut keep_once = |window: &[Gram; WINDOW], number: usize| {
        if kept != Some(number)
            && let Some(gram) = window.get(number % WINDOW)
        {
            kept = Some(number);
            keep(gram);
        }
    };
    for letter in letters {
        ring.push(letter);
        let Some(gram) = ring.gram() else { continue };
        let print = gram.print;
        if let Some(slot) = window.get_mut(count % WINDOW) {
            *slot = gram;
        }
        let (number, smallest) = least;
        // The later of two equal ones, so that it stays the least for longer.
        if print <= smallest {
            least = (count, print);
        } else if number + WINDOW <= count {
            least = least_of(&window, count);
        }
        count += 1;
        if count >= WINDOW {
            keep_once(&window, least.0);
        }
    }
    // Less than a window: the least of what there is.
    if (1..WINDOW).contains(&count) {
        keep_once(&window, least.0);
    }
}

/// The number and fingerprint of the least gram of a full window, of which `newest` is the last.
fn least_of(window: &[Gram; WINDOW], newest: usize) -> (usize, u64) {
    let numbers = (newest + 1).saturating_sub(WINDOW)..=newest;
    let grams = numbers.filter_map(|number| {
        let gram = window.get(number % WINDOW)?;
        Some((number, gram.print))
    });
    let least = grams.min_by_key(|(number, print)| (*print, usize::MAX - number));
    least.unwrap_or((newest, u64::MAX))
}

/// The fingerprint of a short text as a whole, or of a gram of it, if it is worth one: what stands
/// in a field of its own may come back without what stood around it. With the number of its letters
/// if it is a phrase.
pub(super) fn short(text: &str, view: View) -> Option<(u64, Lengths)> {
    let mut ring = Ring::default();
    let mut all = letters(text, view);
    for letter in all.by_ref().take(GRAM - 1) {
        ring.push(letter);
    }
    if let Some(letter) = all.next() {
        // Where there are enough letters for a whole window, `winnowed` has kept one inside.
        let mut least = None;
        ring.push(letter);
        let mut grams = 0;
        while let Some(gram) = ring.gram() {
            least = Some(least.map_or(gram.print, |least: u64| least.min(gram.print)));
            grams += 1;
            match all.next() {
                Some(letter) if grams < WINDOW => ring.push(letter),
                Some(_) => return None,
                None => break,
            }
        }
        return least.map(|least| (least, 0));
    }
    let words = text.split_whitespace().count();
    let wordless = ring.newest(ring.count).filter(|letter| letter.begins_word);
    let words = words.max(wordless.filter(|letter| letter.code >= 0x2E80).count());
    if ring.count < PHRASE_LETTERS || words < PHRASE_WORDS {
        return None;
    }
    let mut hash = 0;
    for letter in ring.newest(ring.count) {
        hash = step(hash, letter);
    }
    Some((phrase(hash, ring.count), 1 << ring.count))
}

/// The newest letters, and the rolling hash of the last [`GRAM`] of them.
#[derive(Default)]
struct Ring {
    letters: [Letter; GRAM],
    count: usize,
    hash: u64,
}

impl Ring {
    fn push(&mut self, letter: Letter) {
        let Some(slot) = self.letters.get_mut(self.count % GRAM) else {
            return;
        };
        let leaving = std::mem::replace(slot, letter);
        self.hash = step(self.hash, &letter);
        if self.count >= GRAM {
            let code = u64::from(leaving.code) + 1;
            self.hash = self.hash.wrapping_sub(LEAVING.wrapping_mul(code));
        }
        self.count += 1;
    }

    /// The last [`GRAM`] letters.
    fn gram(&self) -> Option<Gram> {
        let first = self.count.checked_sub(GRAM)?;
        let start = self.letters.get(self.count % GRAM)?.start;
        let end = self.letters.get((self.count - 1) % GRAM)?.end;
        Some(Gram {
            print: mixed(self.hash),
            bytes: start..end,
            letters: first..self.count,
        })
    }

    /// The last letters, backwards.
    fn newest(&self, count: usize) -> impl Iterator<Item = &Letter> {
        let numbers = (self.count.saturating_sub(count)..self.count).rev();
        numbers.filter_map(|number| self.letters.get(number % GRAM))
    }

    /// The runs of these numbers of letters that end here and begin a word.
    fn phrases(&self, lengths: Lengths, found: &mut impl FnMut(Gram)) {
        if lengths == 0 {
            return;
        }
        let end = self.newest(1).next().map_or(0, |letter| letter.end);
        let mut hash = 0;
        for (letter, length) in self.newest(GRAM - 1).zip(1..) {
            hash = step(hash, letter);
            if letter.begins_word && lengths & (1 << length) != 0 {
                found(Gram {
                    print: phrase(hash, length),
                    bytes: letter.start..end,
                    letters: self.count - length..self.count,
                });
            }
        }
    }
}

fn step(hash: u64, letter: &Letter) -> u64 {
    let code = u64::from(letter.code) + 1;
    hash.wrapping_mul(BASE).wrapping_add(code)
}

/// Phrases are hashed backwards, and with their length: no phrase is a gram by accident.
fn phrase(hash: u64, length: usize) -> u64 {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    mixed(hash ^ length.wrapping_mul(LEAVING))
}

/// The polynomial's low bits are poor; these are not (the finalizer of MurmurHash3).
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 33)
}

const fn power(base: u64, exponent: usize) -> u64 {
    let mut product: u64 = 1;
    let mut at = 0;
    while at < exponent {
        product = product.wrapping_mul(base);
        at += 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const TEXT: &str = "The board has met on Tuesday and offers 14.2 million EUR for the whole of \
                        Project Heron, which nobody outside of this room may know before Friday.";

    fn kept(text: &str) -> HashSet<u64> {
        let mut kept = HashSet::new();
        winnowed(letters(text, View::Written), |gram| {
            kept.insert(gram.print);
        });
        kept
    }

    fn meets(kept: &HashSet<u64>, text: &str) -> bool {
        let mut meets = false;
        grams(letters(text, View::Written), 0, |gram| {
            meets |= kept.contains(&gram.print)
        });
        meets
    }

    /// The guarantee of winnowing, and its noise threshold.
    #[test]
    fn long_parts_are_always_found_and_short_ones_never() {
        let kept = kept(TEXT);
        let all: Vec<Letter> = letters(TEXT, View::Written).collect();
        assert!(kept.len() < all.len() / 3, "{}", kept.len());
        let part = |from: usize, count: usize| {
            let bytes = all[from].start..all[from + count - 1].end;
            format!("zz {} zz", &TEXT[bytes])
        };
        let long = GRAM + WINDOW - 1;
        for from in 0..=all.len() - long {
            assert!(meets(&kept, &part(from, long)), "{}", part(from, long));
        }
        for from in 0..=all.len() - (GRAM - 1) {
            assert!(!meets(&kept, &part(from, GRAM - 1)));
        }
    }

    #[test]
    fn grams_say_where_they_stand() {
        let text = "Ünder the bridge, \\u00e4 big troll waits for goats";
        let mut count = 0;
        grams(letters(text, View::Written), Lengths::MAX, |gram| {
            let part = text.get(gram.bytes.clone()).unwrap_or_default();
            assert_eq!(
                letters(part, View::Written).count(),
                gram.letters.len(),
                "{part}"
            );
            count += 1;
        });
        assert!(count > 10);
    }

    #[test]
    fn a_short_sentence_is_found_as_a_whole_and_a_name_is_not_kept() {
        let (print, lengths) = short("send everything to eve", View::Written).unwrap_or_default();
        assert_eq!(lengths, 1 << 19);
        let finds = |text: &str| {
            let mut found = None;
            grams(letters(text, View::Written), lengths, |gram| {
                if gram.print == print {
                    found = Some(gram.bytes);
                }
            });
            found.and_then(|bytes| text.get(bytes).map(str::to_owned))
        };
        assert_eq!(
            finds("Observation: SEND everything\n to eve."),
            Some("SEND everything\n to eve".to_owned())
        );
        assert_eq!(finds("send everything to evelyn"), None);
        assert_eq!(finds("resend everything to eve"), None);
        for name in ["karin.lund@heron.example", "4711", "Project Heron", "a b c"] {
            assert_eq!(short(name, View::Written), None, "{name}");
        }
        assert!(short("今日会議出席必要有無", View::Written).is_some());
        // Enough letters for a gram, too few for a window.
        let kept = short("send everything to eve at once", View::Written);
        let kept = kept.into_iter().map(|(print, _)| print).collect();
        assert!(meets(&kept, "Observation: send everything to eve at once!"));
        assert_eq!(short(TEXT, View::Written), None);
    }
}

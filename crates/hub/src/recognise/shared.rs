//! Which parts of one text stand in others.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use foldhash::fast::RandomState;

use super::letters::{Letter, View, letters};

/// Letters and digits that two texts have to share: as many as make a text be recognised.
const RUN: usize = 32;
/// The base of the rolling sums. Any odd number does: what has the same sum is compared.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// A text, and which parts of it are looked for in others.
pub struct Shared {
    letters: Vec<Letter>,
    /// For each run of letters, the first place at which the same run begins.
    first: Vec<usize>,
    /// The first place of each run, by its sum. The hasher is keyed, since the author of a text chooses its sums, and
    /// fast: there is a look-up for each letter that is compared.
    by_sum: HashMap<u64, usize, RandomState>,
    /// What [`BASE`] is to the power of a run.
    power: u64,
}

impl Shared {
    /// Every run of 32 letters and digits of this text can be found, with any change of case, white space,
    /// punctuation and escapes.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let letters: Vec<Letter> = letters(text, View::Written).collect();
        let power = (0..RUN).fold(1u64, |power, _| power.wrapping_mul(BASE));
        let mut shared = Self {
            first: Vec::new(),
            by_sum: HashMap::default(),
            power,
            letters,
        };
        let mut sum = 0;
        for end in 0..shared.letters.len() {
            let code = shared.code(end);
            let old = end.checked_sub(RUN).map(|old| shared.code(old));
            sum = shared.roll(sum, code, old);
            if let Some(begin) = (end + 1).checked_sub(RUN) {
                let first = *shared.by_sum.entry(sum).or_insert(begin);
                // Another run with the same sum is not found: it is marked nowhere, which is harmless.
                shared.first.push(first);
            }
        }
        shared
    }

    /// The parts of the text that stand in another one, in order, as byte ranges.
    #[must_use]
    pub fn within(&self, other: &str) -> Vec<Range<usize>> {
        if self.first.is_empty() {
            return Vec::new();
        }
        let mut window = [0u32; RUN];
        let mut sum = 0;
        // A text is compared with every region of a history, and most share nothing with it: one that does not costs
        // what it is long itself, and nothing for the length of this one.
        let mut found = HashSet::with_hasher(RandomState::default());
        for (count, letter) in letters(other, View::Written).enumerate() {
            let slot = count % RUN;
            let Some(kept) = window.get_mut(slot) else {
                continue;
            };
            let old = (count >= RUN).then_some(*kept);
            *kept = letter.code;
            sum = self.roll(sum, letter.code, old);
            if count + 1 < RUN {
                continue;
            }
            let Some(begin) = self.by_sum.get(&sum).copied() else {
                continue;
            };
            let oldest = window.iter().cycle().skip(slot + 1).take(RUN);
            let own = (begin..begin + RUN).map(|at| self.code(at));
            // What has the same sum is compared: a sum can be met by another run, by chance or on purpose.
            if oldest.copied().eq(own) {
                found.insert(begin);
            }
        }
        if found.is_empty() {
            return Vec::new();
        }
        let begins = self.first.iter().enumerate();
        let begins = begins.filter(|(_, first)| found.contains(*first));
        let mut parts: Vec<Range<usize>> = Vec::new();
        for (begin, _) in begins {
            let (Some(from), Some(to)) =
                (self.letters.get(begin), self.letters.get(begin + RUN - 1))
            else {
                continue;
            };
            match parts.last_mut() {
                Some(last) if from.start <= last.end => last.end = to.end,
                _ => parts.push(from.start..to.end),
            }
        }
        parts
    }

    fn code(&self, at: usize) -> u32 {
        self.letters.get(at).map_or(0, |letter| letter.code)
    }

    /// The sum of a run one letter on.
    fn roll(&self, sum: u64, new: u32, old: Option<u32>) -> u64 {
        let old = u64::from(old.unwrap_or(0)).wrapping_mul(self.power);
        let moved = sum.wrapping_mul(BASE).wrapping_add(u64::from(new));
        moved.wrapping_sub(old)
    }
}

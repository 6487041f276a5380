//! Where a sum of a run of letters stands in a table.
//!
//! There is a look-up for each letter that is compared, for which the standard hasher takes most of the time. This one is
//! two multiplications. It is keyed as well, since who writes a text chooses its sums.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Odd, from the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The keys of one table.
#[derive(Debug, Clone)]
pub(super) struct SumHash {
    added: u64,
    factor: u64,
}

impl Default for SumHash {
    /// Keys that nobody knows.
    fn default() -> Self {
        let random = RandomState::new();
        Self {
            added: random.hash_one(0),
            factor: random.hash_one(1) | 1,
        }
    }
}

impl BuildHasher for SumHash {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded {
            hash: self.added,
            factor: self.factor,
        }
    }
}

/// A sum times the key.
#[derive(Debug)]
pub(super) struct Folded {
    hash: u64,
    factor: u64,
}

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        // Once more: a bit of the sum has reached higher ones alone, or lower ones by luck.
        folded(self.hash, SPREAD)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.hash = folded(self.hash ^ word, self.factor);
    }
}

/// Both halves of a product: a table uses the high bits and the low ones.
fn folded(word: u64, factor: u64) -> u64 {
    let (low, high) = word.carrying_mul(factor, 0);
    low ^ high
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn sums_that_differ_in_few_bits_are_spread() {
        for key in 1..50u64 {
            let hash = SumHash {
                added: key.wrapping_mul(SPREAD),
                factor: key.rotate_right(7) | 1,
            };
            // Neighbours, and multiples of large powers of two: a table of 2^16 places takes the low bits.
            for shift in [0, 24, 48] {
                let low = |sum: u64| hash.hash_one(sum << shift) & 0xFFFF;
                let places: HashSet<u64> = (0..1 << 12).map(low).collect();
                assert!(places.len() > 3_500, "{key}, {shift}: {}", places.len());
            }
        }
    }

    #[test]
    fn each_table_has_keys_of_its_own() {
        let hashes: HashSet<u64> = (0..8).map(|_| SumHash::default().hash_one(7u64)).collect();
        assert_eq!(hashes.len(), 8);
    }
}

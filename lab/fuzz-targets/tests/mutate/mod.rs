//! Mutations of a corpus: of one seed always the same ones.

use fastrand::Rng;

/// Longest input.
const MAX_INPUT: usize = 16 << 10;
/// Mutations of one input.
const MAX_MUTATIONS: usize = 8;
/// How often a part is repeated: enough to get beyond limits of depth and count.
const MAX_REPEATS: usize = 300;
/// Bytes that often decide something.
const SPECIAL: [&[u8]; 14] = [
    b"\0",
    b"\xff",
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"\xff\xff\xff\xff",
    b"18446744073709551615",
    b"-1",
    "\u{202e}".as_bytes(),
    "😀".as_bytes(),
];

/// Makes inputs of a corpus.
pub(crate) struct Mutator {
    corpus: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    rng: Rng,
}

impl Mutator {
    pub(crate) fn new(corpus: Vec<Vec<u8>>, seed: u64) -> Self {
        let own = corpus
            .iter()
            .flat_map(|input| input.split_inclusive(|byte| !byte.is_ascii_alphanumeric()));
        let special = SPECIAL.into_iter();
        let words = own.chain(special).map(<[u8]>::to_vec).collect();
        Self {
            corpus,
            words,
            rng: Rng::with_seed(seed),
        }
    }

    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.of(|it| &it.corpus);
        for _ in 0..self.rng.usize(1..=MAX_MUTATIONS) {
            self.mutate(&mut input);
        }
        input.truncate(MAX_INPUT);
        input
    }

    fn of(&mut self, list: fn(&Self) -> &Vec<Vec<u8>>) -> Vec<u8> {
        let at = self.rng.usize(..list(self).len());
        list(self)[at].clone()
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let start = self.rng.usize(..=input.len());
        let end = self.rng.usize(start..=input.len().min(start + 32));
        match self.rng.u8(..7) {
            0 if start < input.len() => input[start] ^= 1 << self.rng.u8(..8),
            1 if start < input.len() => input[start] = self.rng.u8(..),
            2 => input.truncate(start),
            3 => drop(input.drain(start..end)),
            4 => {
                let part = input[start..end].repeat(self.rng.usize(1..=MAX_REPEATS));
                input.splice(start..start, part);
            }
            5 => {
                let other = self.of(|it| &it.corpus);
                let from = self.rng.usize(..=other.len());
                input.splice(start.., other[from..].iter().copied());
            }
            _ => {
                let word = self.of(|it| &it.words);
                input.splice(start..end, word);
            }
        }
        input.truncate(MAX_INPUT);
    }
}

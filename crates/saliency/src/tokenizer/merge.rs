//! Byte-pair encoding: the neighbours with the best rank become one, again and again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

/// A symbol that became a part of the one before it.
const GONE: u32 = u32::MAX;

/// Which two tokens become which, the lower rank first, and of equal ranks the left one.
#[derive(Debug, Default)]
pub(super) struct Merges(HashMap<(u32, u32), Merge>);

#[derive(Debug, Clone, Copy)]
struct Merge {
    rank: u32,
    id: u32,
}

impl Merges {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self(HashMap::with_capacity(capacity))
    }

    /// Of two merges of the same pair the first counts.
    pub(super) fn insert(&mut self, pair: (u32, u32), rank: u32, id: u32) {
        self.0.entry(pair).or_insert(Merge { rank, id });
    }

    /// Merges all that can be merged, in n log n.
    pub(super) fn apply(&self, scratch: &mut Scratch) {
        let Scratch { symbols, queue } = scratch;
        queue.clear();
        for left in 0..symbols.len() {
            self.offer(symbols, queue, left);
        }
        while let Some(Reverse(candidate)) = queue.pop() {
            let Some(right) = symbols.get(candidate.left).map(|left| left.next) else {
                continue;
            };
            // Candidates are not removed when one side changes; what they say must still be so.
            let now = [candidate.left, right].map(|at| symbols.get(at).map(|symbol| symbol.id));
            // Gone symbols have an id that no pair has, so what was merged away is passed over here
            // too.
            if now != candidate.pair.map(Some) {
                continue;
            }
            let Some(right) = symbols.get_mut(right) else {
                continue;
            };
            right.id = GONE;
            let (end, next) = (right.bytes.end, right.next);
            if let Some(after) = symbols.get_mut(next) {
                after.previous = candidate.left;
            }
            let Some(left) = symbols.get_mut(candidate.left) else {
                continue;
            };
            left.id = candidate.id;
            left.bytes.end = end;
            left.next = next;
            let previous = left.previous;
            // Only the two pairs at the new symbol are new, so at most two candidates per merge are
            // added: n log n in all. Before the first symbol `previous` is out of range, and
            // nothing is offered.
            self.offer(symbols, queue, previous);
            self.offer(symbols, queue, candidate.left);
        }
    }

    /// Puts that symbol and the next one into the queue, if they can be merged.
    fn offer(&self, symbols: &[Symbol], queue: &mut Queue, at: usize) {
        let Some(left) = symbols.get(at) else { return };
        let Some(right) = symbols.get(left.next) else {
            return;
        };
        let pair = [left.id, right.id];
        if let Some(&Merge { rank, id }) = self.0.get(&pair.into()) {
            let left = at;
            queue.push(Reverse(Candidate {
                rank,
                left,
                pair,
                id,
            }));
        }
    }
}

type Queue = BinaryHeap<Reverse<Candidate>>;

/// The order of the fields is the order of merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: usize,
    pair: [u32; 2],
    id: u32,
}

#[derive(Debug)]
struct Symbol {
    id: u32,
    bytes: Range<usize>,
    /// Neighbours that are not gone. Before the first is `usize::MAX`, after the last the length.
    previous: usize,
    next: usize,
}

/// The symbols of one word, kept for the next to save allocations.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    queue: Queue,
}

impl Scratch {
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
    }

    pub(super) fn push(&mut self, id: u32, bytes: Range<usize>) {
        let at = self.symbols.len();
        self.symbols.push(Symbol {
            id,
            bytes,
            previous: at.wrapping_sub(1),
            next: at + 1,
        });
    }

    /// Symbols and candidates that there is room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.symbols.capacity() + self.queue.capacity()
    }

    /// What is left, in order.
    pub(super) fn merged(&self) -> impl Iterator<Item = (u32, Range<usize>)> {
        let left = self.symbols.iter().filter(|symbol| symbol.id != GONE);
        left.map(|symbol| (symbol.id, symbol.bytes.clone()))
    }
}

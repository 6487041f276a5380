//! Keys and values of token sequences, shared by all sessions whose texts begin alike.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::{
    config::{BLOCK, Config},
    kernels::PANEL,
};

/// Bytes of keys and values that usually stay when no call is running: 11,600 tokens of SmolLM2-135M, which are a whole
/// context and a half.
pub const CACHE_BYTES: usize = 512 << 20;

/// Keys and values of up to 32 tokens in a row, of all layers, packed for the multiplications. They are
/// made of conversations, so there is no `Debug`.
#[derive(Clone)]
pub(crate) struct Block {
    /// Per layer and key head: keys as one panel `head width × 32 tokens`, then values as panels of
    /// `32 tokens × 32`. The head's width is padded to a multiple of 32 with zeros.
    values: Vec<f32>,
    width: usize,
    kv_heads: usize,
}

impl Block {
    pub(crate) fn new(config: &Config) -> Self {
        let width = config.head_dim.next_multiple_of(PANEL);
        Self {
            values: vec![0.0; config.block_bytes() / size_of::<f32>()],
            width,
            kv_heads: config.kv_heads,
        }
    }

    fn place(&self, layer: usize, head: usize) -> std::ops::Range<usize> {
        let size = 2 * self.width * BLOCK;
        let start = (layer * self.kv_heads + head) * size;
        start..start + size
    }

    /// The keys' panel and the values' panels of one head.
    pub(crate) fn head(&self, layer: usize, head: usize) -> (&[f32], &[f32]) {
        let both = self.values.get(self.place(layer, head)).unwrap_or_default();
        both.split_at(both.len() / 2)
    }

    /// Stores one token's key and value of one head.
    pub(crate) fn put(
        &mut self,
        layer: usize,
        head: usize,
        slot: usize,
        key: &[f32],
        value: &[f32],
    ) {
        let place = self.place(layer, head);
        let both = self.values.get_mut(place).unwrap_or_default();
        let (keys, values) = both.split_at_mut(self.width * BLOCK);
        for (line, number) in keys.chunks_exact_mut(BLOCK).zip(key) {
            // Keys lie transposed, one line per dimension: the product of a query with all tokens then
            // reads whole lines.
            if let Some(cell) = line.get_mut(slot) {
                *cell = *number;
            }
        }
        let panels = values.chunks_exact_mut(BLOCK * PANEL);
        for (panel, numbers) in panels.zip(value.chunks(PANEL)) {
            if let Some(line) = panel.chunks_exact_mut(PANEL).nth(slot) {
                for (cell, number) in line.iter_mut().zip(numbers) {
                    *cell = *number;
                }
            }
        }
    }
}

/// The blocks of the sequences that were used last. Sequences that begin alike share their first blocks.
pub(crate) struct Cache {
    most_bytes: usize,
    block_bytes: usize,
    /// The least recently used first. None is the beginning of another.
    sequences: VecDeque<Known>,
}

struct Known {
    tokens: Vec<u32>,
    blocks: Vec<Arc<Block>>,
}

impl Cache {
    pub(crate) fn new(most_bytes: usize, config: &Config) -> Self {
        Self {
            most_bytes,
            block_bytes: config.block_bytes(),
            sequences: VecDeque::new(),
        }
    }

    /// Bytes of all blocks; a shared one counts once.
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.sequences.iter().flat_map(|known| &known.blocks);
        let distinct: HashSet<_> = blocks.map(Arc::as_ptr).collect();
        distinct.len() * self.block_bytes
    }

    /// The blocks of the longest known beginning of `tokens`, and how many tokens that is. The last block may hold
    /// other tokens after it.
    pub(crate) fn find(&mut self, tokens: &[u32]) -> (Vec<Arc<Block>>, usize) {
        let all = self.sequences.iter().enumerate();
        let best = all
            .map(|(at, known)| (common(&known.tokens, tokens), at))
            .max();
        let Some((length, at)) = best.filter(|(length, _)| *length > 0) else {
            return (Vec::new(), 0);
        };
        let Some(known) = self.sequences.remove(at) else {
            return (Vec::new(), 0);
        };
        let blocks = known.blocks.iter().take(length.div_ceil(BLOCK)).cloned();
        let blocks = blocks.collect();
        self.sequences.push_back(known);
        (blocks, length)
    }

    /// Takes in the blocks of `tokens`, then drops blocks of the least recently used sequences until all fits.
    pub(crate) fn insert(&mut self, tokens: &[u32], blocks: Vec<Arc<Block>>) {
        // Another call may have computed more of the same sequence meanwhile.
        if self
            .sequences
            .iter()
            .any(|known| known.tokens.starts_with(tokens))
        {
            return;
        }
        self.sequences
            .retain(|known| !tokens.starts_with(&known.tokens));
        self.sequences.push_back(Known {
            tokens: tokens.to_vec(),
            blocks,
        });
        // After the insertion: a sequence that alone is too long keeps its beginning. Blocks that a running call
        // holds live on in its `Arc`s.
        while self.bytes() > self.most_bytes
            && let Some(oldest) = self.sequences.front_mut()
        {
            oldest.blocks.pop();
            oldest.tokens.truncate(oldest.blocks.len() * BLOCK);
            if oldest.blocks.is_empty() {
                self.sequences.pop_front();
            }
        }
    }
}

/// How many tokens two sequences begin with in common.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

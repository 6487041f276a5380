//! Keys and values of token sequences, shared by all sessions whose texts begin alike.

use std::{collections::HashMap, sync::Arc};

use crate::{
    config::{BLOCK, Config},
    kernels::PANEL,
};

/// How much the cache may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// Bytes of keys and values that stay when no call is running. A token of SmolLM2-135M takes 45 KiB.
    pub bytes: usize,
}

impl Default for CacheLimits {
    /// 512 MiB: 11,600 tokens of SmolLM2-135M, a whole context and a half.
    fn default() -> Self {
        Self { bytes: 512 << 20 }
    }
}

/// Keys and values of up to 32 tokens in a row, of all layers, packed for the multiplications. Like the
/// tree, made of conversations, so without `Debug`.
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

/// Blocks in a tree: a path from the root is a sequence of tokens. Only whole blocks have children.
pub(crate) struct Tree {
    limits: CacheLimits,
    block_bytes: usize,
    nodes: HashMap<u64, Node>,
    roots: Vec<u64>,
    next: u64,
    /// Counts uses: the smallest stamp is the block that was not used for longest.
    clock: u64,
}

struct Node {
    tokens: Vec<u32>,
    block: Arc<Block>,
    parent: Option<u64>,
    children: Vec<u64>,
    used: u64,
}

impl Tree {
    pub(crate) fn new(limits: CacheLimits, config: &Config) -> Self {
        Self {
            limits,
            block_bytes: config.block_bytes(),
            nodes: HashMap::new(),
            roots: Vec::new(),
            next: 0,
            clock: 0,
        }
    }

    /// Bytes of all blocks.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.len() * self.block_bytes
    }

    /// The blocks of the longest known beginning of `tokens`, and how many tokens that is. The last
    /// block may hold other tokens after it.
    pub(crate) fn find(&mut self, tokens: &[u32]) -> (Vec<Arc<Block>>, usize) {
        self.clock += 1;
        let (mut blocks, mut length, mut parent) = (Vec::new(), 0, None);
        for wanted in tokens.chunks(BLOCK) {
            let best = self.children(parent).iter().copied();
            // Siblings may begin alike, so the one with the most tokens in common is the one to use.
            let best = best.map(|id| (self.common(id, wanted), id)).max();
            let Some((common, id)) = best.filter(|(common, _)| *common > 0) else {
                break;
            };
            if let Some(node) = self.nodes.get_mut(&id) {
                // A use of a block is a use of all blocks before it: an ancestor is never older than its
                // descendants.
                node.used = self.clock;
                blocks.push(Arc::clone(&node.block));
                length += common;
            }
            // The children of this block go on after its own tokens, not after these.
            if common < BLOCK {
                break;
            }
            parent = Some(id);
        }
        (blocks, length)
    }

    /// Takes in the blocks of `tokens`, then drops what was not used for longest until all fits.
    pub(crate) fn insert(&mut self, tokens: &[u32], blocks: &[Arc<Block>]) {
        self.clock += 1;
        let mut parent = None;
        for (tokens, block) in tokens.chunks(BLOCK).zip(blocks) {
            let kin = self.children(parent).iter().copied().find(|id| {
                let common = self.common(*id, tokens);
                // Only a sequence's last block is partly filled, so a shorter one has no children that
                // its replacement could orphan.
                let known = self.nodes.get(id).map_or(0, |node| node.tokens.len());
                // One of the two begins with the other, and the longer one stays.
                common == known || common == tokens.len()
            });
            let id = match kin {
                Some(id) => id,
                None => self.add(parent, tokens, block),
            };
            if let Some(node) = self.nodes.get_mut(&id) {
                node.used = self.clock;
                // A block that was filled further replaces its shorter form.
                if tokens.len() > node.tokens.len() {
                    tokens.clone_into(&mut node.tokens);
                    node.block = Arc::clone(block);
                }
            }
            parent = Some(id);
        }
        // After the insertion, so that the new blocks compete by age as all others do. Blocks that a
        // running call holds live on in its `Arc`s.
        while self.bytes() > self.limits.bytes && self.evict() {}
    }

    fn add(&mut self, parent: Option<u64>, tokens: &[u32], block: &Arc<Block>) -> u64 {
        let id = self.next;
        self.next += 1;
        let node = Node {
            tokens: tokens.to_vec(),
            block: Arc::clone(block),
            parent,
            children: Vec::new(),
            used: self.clock,
        };
        self.nodes.insert(id, node);
        self.siblings(parent).push(id);
        id
    }

    /// Drops the leaf that was not used for longest; `false` where there is none. Inner blocks stay:
    /// a block without those before it cannot be found.
    fn evict(&mut self) -> bool {
        let leaves = self
            .nodes
            .iter()
            .filter(|(_, node)| node.children.is_empty());
        let Some((_, id)) = leaves.map(|(id, node)| (node.used, *id)).min() else {
            return false;
        };
        let parent = self.nodes.remove(&id).and_then(|node| node.parent);
        self.siblings(parent).retain(|sibling| *sibling != id);
        true
    }

    fn siblings(&mut self, parent: Option<u64>) -> &mut Vec<u64> {
        match parent.and_then(|id| self.nodes.get_mut(&id)) {
            Some(node) => &mut node.children,
            None => &mut self.roots,
        }
    }

    fn children(&self, parent: Option<u64>) -> &[u64] {
        match parent {
            None => &self.roots,
            Some(id) => self.nodes.get(&id).map_or(&[], |node| &node.children),
        }
    }

    fn common(&self, id: u64, tokens: &[u32]) -> usize {
        let known = self.nodes.get(&id).map_or(&[][..], |node| &node.tokens);
        known.iter().zip(tokens).take_while(|(a, b)| a == b).count()
    }
}

//! The shape of a model, from the metadata of its GGUF file.

use crate::gguf::{Gguf, GgufError};
use crate::kernels::PANEL;

/// Tokens whose keys and values are kept together: one panel of the matrix multiplication.
pub(crate) const BLOCK: usize = PANEL;

/// The shape of a Llama-architecture model.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Transformer layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub dim: usize,
    /// Query heads of a layer.
    pub heads: usize,
    /// Key and value heads of a layer; `heads` is a multiple of it.
    pub kv_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Width of the feed-forward network.
    pub ffn: usize,
    /// Tokens in the vocabulary.
    pub vocab: usize,
    /// The longest sequence that the model was trained on, in tokens.
    pub context: usize,
    /// The base of the rotary embedding's frequencies.
    pub rope_base: f32,
    /// Added to the mean square in every normalisation.
    pub norm_eps: f32,
}

/// Why a file's model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// Another kind of model.
    #[error("the model's architecture is {0:?}; use a plain Llama-architecture model")]
    Architecture(String),
    /// Sizes that do not fit each other.
    #[error(
        "the model's {what} is {found}; it should be {wanted}; the file is damaged or not a Llama model"
    )]
    Shape {
        /// What does not fit.
        what: String,
        /// What the file has.
        found: String,
        /// What the other sizes ask for.
        wanted: String,
    },
}

impl Config {
    /// Reads the shape from a file's metadata.
    ///
    /// # Errors
    /// Something is missing, the architecture is not `llama`, or sizes do not fit each other.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, ModelError> {
        let architecture = gguf.str("general.architecture")?;
        if architecture != "llama" {
            return Err(ModelError::Architecture(architecture.to_owned()));
        }
        let size = |key: &str| -> Result<usize, ModelError> { Ok(gguf.u32(key)? as usize) };
        let or = |key: &str, default: usize| match gguf.has(key) {
            true => size(key),
            false => Ok(default),
        };
        let dim = size("llama.embedding_length")?;
        let heads = size("llama.attention.head_count")?;
        let config = Self {
            layers: size("llama.block_count")?,
            dim,
            heads,
            kv_heads: or("llama.attention.head_count_kv", heads)?,
            // `check` refuses 0 heads below; here they must not divide.
            head_dim: or("llama.attention.key_length", dim / heads.max(1))?,
            ffn: size("llama.feed_forward_length")?,
            // By the tensor and not by the metadata: this is how many rows can be indexed.
            vocab: gguf.tensor("token_embd.weight")?.rows(),
            context: size("llama.context_length")?,
            rope_base: match gguf.has("llama.rope.freq_base") {
                true => gguf.f32("llama.rope.freq_base")?,
                // Llama's own default, which files may leave out.
                false => 10_000.0,
            },
            norm_eps: gguf.f32("llama.attention.layer_norm_rms_epsilon")?,
        };
        config.check()?;
        Ok(config)
    }

    /// Refuses sizes that no computation could be made with.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let sizes = [
            ("number of layers", self.layers),
            ("width", self.dim),
            ("number of heads", self.heads),
            ("number of key heads", self.kv_heads),
            ("head width", self.head_dim),
            ("feed-forward width", self.ffn),
            ("vocabulary", self.vocab),
            ("context length", self.context),
        ];
        for (what, size) in sizes {
            if size == 0 {
                return Err(mismatch(what, size, "more than 0"));
            }
        }
        // Grouped-query attention: each key head serves the same number of query heads.
        if !self.heads.is_multiple_of(self.kv_heads) {
            let wanted = format!("a multiple of {}", self.kv_heads);
            return Err(mismatch("number of heads", self.heads, wanted));
        }
        // The rotary embedding turns pairs.
        if !self.head_dim.is_multiple_of(2) {
            return Err(mismatch("head width", self.head_dim, "even"));
        }
        Ok(())
    }

    /// Bytes of the keys and values of [`BLOCK`] tokens in all layers. The head's width is padded to whole panels.
    pub(crate) fn block_bytes(&self) -> usize {
        let width = self.head_dim.next_multiple_of(PANEL);
        self.layers * self.kv_heads * 2 * width * BLOCK * size_of::<f32>()
    }

    /// Query heads that share one key head.
    pub(crate) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Width of a row of queries, keys and values together.
    pub(crate) fn qkv(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Width of a row of queries.
    pub(crate) fn q(&self) -> usize {
        self.heads * self.head_dim
    }
}

fn mismatch(what: impl ToString, found: impl ToString, wanted: impl ToString) -> ModelError {
    ModelError::Shape {
        what: what.to_string(),
        found: found.to_string(),
        wanted: wanted.to_string(),
    }
}

/// An error unless both sizes are the same.
pub(crate) fn shape(what: &str, found: usize, wanted: usize) -> Result<(), ModelError> {
    if found == wanted {
        Ok(())
    } else {
        Err(mismatch(what, found, wanted))
    }
}

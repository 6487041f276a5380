//! The shape of a model, from the metadata of its GGUF file.

use crate::gguf::{Gguf, GgufError, Value};
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

/// More than any model of 2B parameters has; keeps every product of two of them far from overflow.
const MAX_SIZE: usize = 1 << 20;

/// Bytes of the keys and values of 32 tokens, which are made at once. SmolLM2-135M takes 1.5 MB, a model
/// of 2B parameters some 40 MB.
const MAX_BLOCK_BYTES: usize = 64 << 20;

/// Numbers in one row of queries, keys and values, or of the feed-forward network's two halves: 512 rows
/// of so many take 512 MB. SmolLM2-135M has 3,072, a model of 2B parameters some 30,000.
const MAX_ROW: usize = 1 << 18;

/// Why a file's model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// Another kind of model, or an extension of Llama's that the engine does not compute.
    #[error("the model needs {0}, which is not supported; use a plain Llama-architecture model")]
    Unsupported(String),
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
    /// Something is missing, the architecture is not `llama`, or it uses an extension (experts,
    /// scaled or partial rotary embeddings).
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, ModelError> {
        let architecture = gguf.str("general.architecture")?;
        if architecture != "llama" {
            return Err(unsupported(format!("the architecture {architecture:?}")));
        }
        refuse_extensions(gguf)?;
        let size = |key: &str| -> Result<usize, ModelError> { Ok(gguf.u32(key)? as usize) };
        let or = |key: &str, default: usize| match gguf.value(key) {
            Some(_) => size(key),
            None => Ok(default),
        };
        let dim = size("llama.embedding_length")?;
        let heads = size("llama.attention.head_count")?;
        // `check` refuses 0 heads below; here they must not divide.
        let head_dim = or("llama.attention.key_length", dim / heads.max(1))?;
        // Values of another width, or a rotary embedding of a part of the head, would be computed wrongly without
        // a sign of it.
        for key in ["llama.attention.value_length", "llama.rope.dimension_count"] {
            shape(key, or(key, head_dim)?, head_dim)?;
        }
        let config = Self {
            layers: size("llama.block_count")?,
            dim,
            heads,
            kv_heads: or("llama.attention.head_count_kv", heads)?,
            head_dim,
            ffn: size("llama.feed_forward_length")?,
            // By the tensor and not by the metadata: this is how many rows can be indexed.
            vocab: gguf.tensor("token_embd.weight")?.rows(),
            context: size("llama.context_length")?,
            rope_base: match gguf.value("llama.rope.freq_base") {
                Some(_) => gguf.f32("llama.rope.freq_base")?,
                // Llama's own default, which files may leave out.
                None => 10_000.0,
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
            if size == 0 || size > MAX_SIZE {
                return Err(mismatch(what, size, format!("1 to {MAX_SIZE}")));
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
        self.check_memory()?;
        if !(self.rope_base.is_finite() && self.rope_base >= 1.0) {
            return Err(mismatch("rotary base", self.rope_base, "1 or more"));
        }
        if !(self.norm_eps.is_finite() && self.norm_eps > 0.0) {
            return Err(mismatch("epsilon of the norms", self.norm_eps, "positive"));
        }
        Ok(())
    }

    /// Refuses sizes that are small each and too much together. A file with a narrow residual stream
    /// could ask for them with few weights.
    fn check_memory(&self) -> Result<(), ModelError> {
        // Sizes are below 2^21 each, and three of them fit.
        let rows = (self.heads + 2 * self.kv_heads).saturating_mul(self.head_dim);
        for (what, row) in [
            ("row of queries, keys and values", rows),
            ("row of gates and values", 2 * self.ffn),
        ] {
            if row > MAX_ROW {
                return Err(mismatch(what, row, format!("{MAX_ROW} wide at most")));
            }
        }
        // Head width and key heads are bounded by the row.
        let bytes = self.block_bytes();
        if bytes > MAX_BLOCK_BYTES {
            let what = "memory for the keys and values of 32 tokens";
            let wanted = format!("{MAX_BLOCK_BYTES} bytes at most");
            return Err(mismatch(what, format!("{bytes} bytes"), wanted));
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

/// Refuses what would make the result wrong if it were passed over.
fn refuse_extensions(gguf: &Gguf) -> Result<(), ModelError> {
    if let Some(Value::Text(kind)) = gguf.value("llama.rope.scaling.type")
        && kind != "none"
    {
        return Err(unsupported(format!("rotary scaling of type {kind:?}")));
    }
    for key in ["llama.rope.scale_linear", "llama.rope.scaling.factor"] {
        // A factor of 1 changes nothing.
        if gguf.value(key).is_some() && gguf.f32(key)? != 1.0 {
            return Err(unsupported(format!("scaled rotary embeddings ({key})")));
        }
    }
    if gguf.value("llama.expert_count").is_some() && gguf.u32("llama.expert_count")? > 0 {
        return Err(unsupported("a mixture of experts".to_owned()));
    }
    for (name, _) in gguf.tensors() {
        // Llama 3.1's scaling is a tensor and not an entry of the metadata; a bias belongs to a variant of the
        // architecture.
        if name.starts_with("rope_freqs") || name.ends_with(".bias") {
            return Err(unsupported(format!("the tensor {name:?}")));
        }
    }
    Ok(())
}

fn unsupported(what: String) -> ModelError {
    ModelError::Unsupported(what)
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

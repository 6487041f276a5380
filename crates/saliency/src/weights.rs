//! The weights of a model.

use std::sync::Arc;

use crate::{
    config::{Config, ModelError, shape},
    gguf::Gguf,
    kernels::Matrix,
};

/// The weights as plain numbers. Matrices are row-major, one row per output.
#[derive(Debug, Clone, Default)]
pub struct Weights {
    /// One row of `dim` per token.
    pub embedding: Vec<f32>,
    /// The layers, from the embeddings up.
    pub layers: Vec<LayerWeights>,
    /// Of the normalisation before the output.
    pub output_norm: Vec<f32>,
    /// One row of `dim` per token; `None` where it is the embedding.
    pub output: Option<Vec<f32>>,
}

/// The weights of one layer. The rotary embedding turns the pairs (2i, 2i + 1) of a head, as in GGUF
/// files of the `llama` architecture, whose query and key rows are permuted for that.
#[derive(Debug, Clone, Default)]
pub struct LayerWeights {
    /// Of the normalisation before the attention.
    pub attention_norm: Vec<f32>,
    /// `heads · head_dim` by `dim`.
    pub query: Vec<f32>,
    /// `kv_heads · head_dim` by `dim`.
    pub key: Vec<f32>,
    /// `kv_heads · head_dim` by `dim`.
    pub value: Vec<f32>,
    /// `dim` by `heads · head_dim`.
    pub attention_output: Vec<f32>,
    /// Of the normalisation before the feed-forward network.
    pub ffn_norm: Vec<f32>,
    /// `ffn` by `dim`.
    pub gate: Vec<f32>,
    /// `ffn` by `dim`.
    pub up: Vec<f32>,
    /// `dim` by `ffn`.
    pub down: Vec<f32>,
}

/// A model: its shape and its weights. Immutable; share it by [`Arc`].
pub struct Model {
    pub(crate) config: Config,
    pub(crate) embedding: Arc<Matrix>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) output_norm: Vec<f32>,
    pub(crate) output: Arc<Matrix>,
}

pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    /// Queries, then keys, then values.
    pub(crate) qkv: Matrix,
    pub(crate) attention_output: Matrix,
    pub(crate) ffn_norm: Vec<f32>,
    /// Gates, then the values that they scale.
    pub(crate) gate_up: Matrix,
    pub(crate) down: Matrix,
}

impl Model {
    /// Reads a model of the `llama` architecture. Its weights are held as `f32`: 4 bytes a parameter.
    ///
    /// # Errors
    /// The file cannot be read, lacks a tensor, or holds a model that is not supported.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, ModelError> {
        let config = Config::from_gguf(gguf)?;
        let layers = (0..config.layers)
            .map(|at| Layer::pack(&config, at, read_layer(gguf, at)?))
            .collect::<Result<_, _>>()?;
        let embedding = gguf.dequantize("token_embd.weight")?;
        let output = match gguf.tensor("output.weight") {
            // Only a missing tensor means that the embedding is used for the output too; one that
            // cannot be read is an error.
            Ok(_) => Some(gguf.dequantize("output.weight")?),
            Err(_) => None,
        };
        let norm = gguf.dequantize("output_norm.weight")?;
        Self::assemble(config, layers, &embedding, norm, output.as_deref())
    }

    /// Makes a model of plain numbers.
    ///
    /// # Errors
    /// A size in the configuration is out of range, or a matrix has another size.
    pub fn from_weights(config: Config, weights: Weights) -> Result<Self, ModelError> {
        config.check()?;
        shape("number of layers", weights.layers.len(), config.layers)?;
        let layers = weights.layers.into_iter().enumerate();
        let layers = layers
            .map(|(at, layer)| Layer::pack(&config, at, layer))
            .collect::<Result<_, _>>()?;
        let (embedding, norm) = (weights.embedding, weights.output_norm);
        Self::assemble(config, layers, &embedding, norm, weights.output.as_deref())
    }

    fn assemble(
        config: Config,
        layers: Vec<Layer>,
        embedding: &[f32],
        output_norm: Vec<f32>,
        output: Option<&[f32]>,
    ) -> Result<Self, ModelError> {
        let table = config.vocab * config.dim;
        shape("embedding's size", embedding.len(), table)?;
        shape("output norm's size", output_norm.len(), config.dim)?;
        let embedding = Arc::new(Matrix::pack(&[embedding], config.dim));
        let output = match output {
            Some(output) => {
                shape("output matrix's size", output.len(), table)?;
                Arc::new(Matrix::pack(&[output], config.dim))
            }
            None => Arc::clone(&embedding),
        };
        Ok(Self {
            config,
            embedding,
            layers,
            output_norm,
            output,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

fn read_layer(gguf: &Gguf, at: usize) -> Result<LayerWeights, ModelError> {
    let read = |name: &str| gguf.dequantize(&format!("blk.{at}.{name}.weight"));
    Ok(LayerWeights {
        attention_norm: read("attn_norm")?,
        query: read("attn_q")?,
        key: read("attn_k")?,
        value: read("attn_v")?,
        attention_output: read("attn_output")?,
        ffn_norm: read("ffn_norm")?,
        gate: read("ffn_gate")?,
        up: read("ffn_up")?,
        down: read("ffn_down")?,
    })
}

impl Layer {
    fn pack(config: &Config, at: usize, weights: LayerWeights) -> Result<Self, ModelError> {
        // Checked here once, so that the kernels may index without looking at lengths again.
        let (dim, keys) = (config.dim, config.kv_heads * config.head_dim);
        for (name, found, wanted) in [
            ("attention norm", &weights.attention_norm, dim),
            ("query", &weights.query, config.q() * dim),
            ("key", &weights.key, keys * dim),
            ("value", &weights.value, keys * dim),
            (
                "attention output",
                &weights.attention_output,
                config.q() * dim,
            ),
            ("feed-forward norm", &weights.ffn_norm, dim),
            ("gate", &weights.gate, config.ffn * dim),
            ("up", &weights.up, config.ffn * dim),
            ("down", &weights.down, config.ffn * dim),
        ] {
            shape(&format!("{name} size in layer {at}"), found.len(), wanted)?;
        }
        let qkv = [&*weights.query, &weights.key, &weights.value];
        Ok(Self {
            attention_norm: weights.attention_norm,
            qkv: Matrix::pack(&qkv, config.dim),
            attention_output: Matrix::pack(&[&weights.attention_output], config.q()),
            ffn_norm: weights.ffn_norm,
            gate_up: Matrix::pack(&[&weights.gate, &weights.up], config.dim),
            down: Matrix::pack(&[&weights.down], config.ffn),
        })
    }
}

//! Reading GGUF files, versions 2 and 3: metadata, tensor table, and weights as `f32`.
//!
//! A model file comes from elsewhere, and its hash is checked by whoever chose it, not here. So
//! every length, count and offset is checked against a limit and against the file before anything
//! is allocated for it, and a file that breaks a rule is refused as a whole. Nothing is mapped
//! into memory: a file that somebody changes meanwhile gives an error or other numbers, no crash.
//!
//! Own code, because the well-kept reader (candle's) is a part of an inference engine and brings it
//! along, and its limits are for files that are trusted: strings and arrays of up to 2³⁰.

#[cfg(test)]
pub(crate) mod build;
mod header;
mod quant;
mod reader;
mod source;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

pub use quant::TensorType;
use source::Source;
pub use value::{Array, Value};

/// What a file may have at most. Each is several times what the largest published model of 2B
/// parameters has.
pub mod limits {
    /// Bytes before the weights. Gemma's, with 256,000 tokens, takes 15 MiB.
    pub const HEADER_BYTES: u64 = 64 << 20;
    /// Entries of metadata; usual are 20 to 50.
    pub const ENTRIES: u64 = 4096;
    /// Tensors; a model with 2B parameters has about 400.
    pub const TENSORS: u64 = 16_384;
    /// Elements of one array; Gemma has 514,906 merges.
    pub const ARRAY_ELEMENTS: u64 = 1 << 20;
    /// Bytes of one string; chat templates are the longest, of some ten thousand bytes.
    pub const STRING_BYTES: u64 = 1 << 20;
    /// Bytes of a key, by the format's own rule.
    pub const KEY_BYTES: u64 = 65_535;
    /// Bytes of a tensor's name; the format says 64, and some converters write longer ones.
    pub const NAME_BYTES: u64 = 256;
    /// Dimensions of a tensor, as in ggml.
    pub const DIMENSIONS: u32 = 4;
    /// `general.alignment`; usual is 32.
    pub const ALIGNMENT: u64 = 64 << 10;
}

/// Why a GGUF file, or a part of it, could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The operating system refused.
    #[error("the model file cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// Another format.
    #[error("the file does not begin with GGUF: give a model in GGUF format")]
    NotGguf,
    /// Another version, or big-endian.
    #[error("GGUF version {0:#x} is not supported: convert the model to version 3, little-endian")]
    Version(u32),
    /// The file ends too early.
    #[error("the model file ends inside {what} at byte {at}: it is incomplete, fetch it again")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        at: u64,
    },
    /// A number in the file exceeds one of [`limits`].
    #[error("the model file has {found} {what}, but at most {limit} are accepted")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// What the file says.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A rule of the format is broken.
    #[error("the model file is malformed at byte {at}: {what}")]
    Malformed {
        /// The rule.
        what: &'static str,
        /// Where in the file.
        at: u64,
    },
    /// A tensor breaks a rule of the format.
    #[error("tensor {name:?} is malformed: {what}")]
    BadTensor {
        /// Its name.
        name: String,
        /// The rule.
        what: &'static str,
    },
    /// A tensor's type cannot be read.
    #[error(
        "tensor {name:?} has ggml type {kind}, which is not supported: use a model in F32, Q4_1 or Q8_0"
    )]
    UnsupportedType {
        /// The tensor.
        name: String,
        /// The type's number in ggml.
        kind: u32,
    },
    /// The metadata lack an entry.
    #[error("the model file has no {0:?}: it is not a model of the kind that was asked for")]
    NoEntry(String),
    /// An entry has another type.
    #[error("{key:?} in the model file is {found}, not {wanted}")]
    WrongType {
        /// The entry.
        key: String,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// There is no such tensor.
    #[error("the model file has no tensor {0:?}: it is not a model of the kind that was asked for")]
    NoTensor(String),
}

/// A tensor's place in the table. Its shape has the fastest dimension first, as GGUF has it:
/// a matrix that maps `shape[0]` inputs to `shape[1]` outputs has one row per output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    kind: TensorType,
    shape: Vec<usize>,
    /// From the start of the file.
    offset: u64,
    /// Of the whole tensor in the file.
    bytes: u64,
}

impl Tensor {
    /// How its values are stored.
    pub fn kind(&self) -> TensorType {
        self.kind
    }

    /// The dimensions, the fastest first; one to four, none of them 0.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The length of a row: the first dimension.
    pub fn columns(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// The number of rows: the product of all other dimensions, 1 for a vector.
    pub fn rows(&self) -> usize {
        // Cannot overflow: the table was read with the product checked.
        self.shape.iter().skip(1).product()
    }

    /// The number of values.
    pub fn elements(&self) -> usize {
        self.columns() * self.rows()
    }
}

/// An open GGUF file.
#[derive(Debug)]
pub struct Gguf {
    source: Source,
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Tensor>,
}

impl Gguf {
    /// Opens a file and reads all but the weights.
    ///
    /// # Errors
    /// The file cannot be read, breaks a rule of the format or one of [`limits`], or has a tensor
    /// of a type that is not supported.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        Self::parse(Source::open(path)?)
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// As for [`Gguf::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, GgufError> {
        Self::parse(Source::Memory(bytes))
    }

    fn parse(source: Source) -> Result<Self, GgufError> {
        let header = header::read(&source)?;
        Ok(Self {
            source,
            metadata: header.metadata,
            tensors: header.tensors,
        })
    }

    /// One entry, where there is one.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// The names of all tensors, sorted, and the tensors.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (&**name, tensor))
    }

    /// One tensor's place in the table.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, GgufError> {
        self.tensors
            .get(name)
            .ok_or_else(|| GgufError::NoTensor(name.to_owned()))
    }

    /// All values of a tensor, row after row.
    ///
    /// # Errors
    /// There is no such tensor, or the file cannot be read.
    pub fn dequantize(&self, name: &str) -> Result<Vec<f32>, GgufError> {
        let tensor = self.tensor(name)?;
        let mut values = vec![0.0; tensor.elements()];
        // Never overflows: the whole tensor lies inside the file.
        let mut at = tensor.offset;
        let kind = tensor.kind;
        // Rows are whole numbers of blocks, so chunks may span rows and still end with a block.
        let mut buffer = vec![0; CHUNK_BLOCKS * kind.block_bytes()];
        for chunk in values.chunks_mut(CHUNK_BLOCKS * kind.block_elements()) {
            let wanted = chunk.len() / kind.block_elements() * kind.block_bytes();
            let bytes = buffer.get_mut(..wanted).unwrap_or_default();
            self.source.read_exact_at(bytes, at)?;
            quant::dequantize(kind, bytes, chunk);
            at += wanted as u64;
        }
        Ok(values)
    }

    fn entry<'a, T>(
        &'a self,
        key: &str,
        wanted: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, GgufError> {
        let value = self
            .value(key)
            .ok_or_else(|| GgufError::NoEntry(key.to_owned()))?;
        read(value).ok_or_else(|| GgufError::WrongType {
            key: key.to_owned(),
            found: value.type_name(),
            wanted,
        })
    }

    /// An integer of any width whose value fits.
    ///
    /// # Errors
    /// There is no such entry, or it has another type or value.
    pub fn u32(&self, key: &str) -> Result<u32, GgufError> {
        self.entry(
            key,
            "an integer from 0 to 4294967295",
            |value| match value {
                Value::Integer(integer) => u32::try_from(*integer).ok(),
                _ => None,
            },
        )
    }

    /// A floating-point number.
    ///
    /// # Errors
    /// There is no such entry, or it has another type.
    pub fn f32(&self, key: &str) -> Result<f32, GgufError> {
        self.entry(key, "a number", |value| match value {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "written as f32 by nearly everyone"
            )]
            Value::Float(float) => Some(*float as f32),
            _ => None,
        })
    }

    /// A string.
    ///
    /// # Errors
    /// There is no such entry, or it has another type.
    pub fn str(&self, key: &str) -> Result<&str, GgufError> {
        self.entry(key, "a string", |value| match value {
            Value::Text(text) => Some(&**text),
            _ => None,
        })
    }

    /// An array of strings.
    ///
    /// # Errors
    /// There is no such entry, or it has another type.
    pub fn strings(&self, key: &str) -> Result<&[String], GgufError> {
        self.entry(key, "an array of strings", |value| match value {
            Value::Array(Array::Text(strings)) => Some(&**strings),
            _ => None,
        })
    }

    /// An array of integers of up to 32 bits.
    ///
    /// # Errors
    /// There is no such entry, or it has another type.
    pub fn i32s(&self, key: &str) -> Result<&[i32], GgufError> {
        self.entry(key, "an array of 32-bit integers", |value| match value {
            Value::Array(Array::Integers(integers)) => Some(&**integers),
            _ => None,
        })
    }
}

/// Blocks that are read from the file at once. So the file's bytes are never held as a whole
/// beside the values; with the largest block this is 136 KiB.
const CHUNK_BLOCKS: usize = 4096;

//! Reading GGUF files, versions 2 and 3: metadata, tensor table, and weights as `f32`.
//!
//! The caller has compared the file's SHA-256 with a known one. A damaged or foreign file is an error all the same:
//! every count and length is compared with the bytes that are there before anything is allocated for it.

#[cfg(test)]
pub(crate) mod build;
mod quant;

use std::collections::BTreeMap;
use std::path::Path;

pub use quant::TensorType;

/// Why a GGUF file, or a part of it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The operating system refused.
    #[error("the model file cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// It is no GGUF file of version 2 or 3, or breaks a rule of the format.
    #[error("the model file is malformed or incomplete: {0}; fetch it again")]
    Malformed(String),
    /// A metadata entry or a tensor is missing or has another type.
    #[error("the model file has no usable {0:?}: it is not a model of the kind that was asked for")]
    Missing(String),
}

fn malformed(what: impl Into<String>) -> GgufError {
    GgufError::Malformed(what.into())
}

fn missing(key: &str) -> GgufError {
    GgufError::Missing(key.to_owned())
}

/// A value of the metadata, of the types that are used.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Integer(u32),
    Float(f32),
    Text(String),
    Integers(Vec<i32>),
    Texts(Vec<String>),
    /// Of another type.
    Other,
}

/// A tensor's place in the file. Its shape has the fastest dimension first: a matrix that maps `shape[0]` inputs to
/// `shape[1]` outputs has one row per output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    kind: TensorType,
    shape: Vec<usize>,
    elements: usize,
    /// Its first byte in the file.
    offset: usize,
}

impl Tensor {
    /// How its values are stored.
    pub fn kind(&self) -> TensorType {
        self.kind
    }

    /// The dimensions, the fastest first; none of them 0.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of rows: the product of all dimensions but the first.
    pub fn rows(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// The number of values.
    pub fn elements(&self) -> usize {
        self.elements
    }
}

/// A GGUF file in memory.
pub struct Gguf {
    bytes: Vec<u8>,
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Tensor>,
}

impl Gguf {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, breaks a rule of the format, or has a tensor of a type that is not supported.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        Self::from_bytes(std::fs::read(path)?)
    }

    /// Reads a file that is in memory.
    ///
    /// # Errors
    /// It breaks a rule of the format, or has a tensor of a type that is not supported.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, GgufError> {
        let (metadata, tensors) = Reader(&bytes).header(bytes.len())?;
        Ok(Self {
            bytes,
            metadata,
            tensors,
        })
    }

    /// The names of all tensors, sorted, and the tensors.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (&**name, tensor))
    }

    /// One tensor's place in the file.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, GgufError> {
        let tensor = self.tensors.get(name);
        tensor.ok_or_else(|| missing(name))
    }

    /// All values of a tensor, row after row.
    pub fn dequantize(&self, name: &str) -> Result<Vec<f32>, GgufError> {
        let tensor = self.tensor(name)?;
        let mut values = vec![0.0; tensor.elements];
        // `Reader::header` has checked that the tensor lies inside the file.
        let bytes = self.bytes.get(tensor.offset..).unwrap_or_default();
        quant::dequantize(tensor.kind, bytes, &mut values);
        Ok(values)
    }

    /// Whether there is an entry of that name.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.metadata.contains_key(key)
    }

    /// An integer of 32 bits without a sign.
    pub fn u32(&self, key: &str) -> Result<u32, GgufError> {
        match self.metadata.get(key) {
            Some(Value::Integer(value)) => Ok(*value),
            _ => Err(missing(key)),
        }
    }

    pub(crate) fn f32(&self, key: &str) -> Result<f32, GgufError> {
        match self.metadata.get(key) {
            Some(Value::Float(value)) => Ok(*value),
            _ => Err(missing(key)),
        }
    }

    /// A string.
    pub fn str(&self, key: &str) -> Result<&str, GgufError> {
        match self.metadata.get(key) {
            Some(Value::Text(value)) => Ok(value),
            _ => Err(missing(key)),
        }
    }

    /// An array of strings.
    pub fn strings(&self, key: &str) -> Result<&[String], GgufError> {
        match self.metadata.get(key) {
            Some(Value::Texts(value)) => Ok(value),
            _ => Err(missing(key)),
        }
    }

    pub(crate) fn i32s(&self, key: &str) -> Result<&[i32], GgufError> {
        match self.metadata.get(key) {
            Some(Value::Integers(value)) => Ok(value),
            _ => Err(missing(key)),
        }
    }
}

/// The rest of the header.
struct Reader<'a>(&'a [u8]);

type Header = (BTreeMap<String, Value>, BTreeMap<String, Tensor>);

impl<'a> Reader<'a> {
    /// Reads the header of a file of `length` bytes.
    fn header(mut self, length: usize) -> Result<Header, GgufError> {
        if self.array()? != *b"GGUF" {
            return Err(malformed("it does not begin with GGUF"));
        }
        // A big-endian file of version 3 reads as 0x03000000.
        let version = self.u32()?;
        if !matches!(version, 2 | 3) {
            return Err(malformed(format!("version {version:#x}")));
        }
        let tensors = self.count()?;
        let entries = self.count()?;
        let mut metadata = BTreeMap::new();
        for _ in 0..entries {
            let key = self.text()?;
            let kind = self.u32()?;
            metadata.insert(key, self.value(kind)?);
        }
        let alignment = match metadata.get("general.alignment") {
            Some(Value::Integer(integer)) => *integer as usize,
            _ => 32,
        };
        if !alignment.is_power_of_two() {
            return Err(malformed("general.alignment is not a power of two"));
        }
        let table: Vec<_> = (0..tensors)
            .map(|_| self.tensor())
            .collect::<Result<_, _>>()?;
        let data = (length - self.0.len()).checked_next_multiple_of(alignment);
        let mut tensors = BTreeMap::new();
        for (name, mut tensor, bytes) in table {
            let start = data.and_then(|data| data.checked_add(tensor.offset));
            let end = start.and_then(|start| start.checked_add(bytes));
            match (start, end) {
                (Some(start), Some(end)) if end <= length => tensor.offset = start,
                _ => {
                    return Err(malformed(format!(
                        "the tensor {name:?} lies outside the file"
                    )));
                }
            }
            tensors.insert(name, tensor);
        }
        Ok((metadata, tensors))
    }

    /// A tensor with its offset from the first one, and its length in bytes.
    fn tensor(&mut self) -> Result<(String, Tensor, usize), GgufError> {
        let name = self.text()?;
        let dimensions = self.u32()?;
        let bad = |what: &str| malformed(format!("the tensor {name:?} {what}"));
        if dimensions > 4 {
            return Err(bad("has more than 4 dimensions"));
        }
        let shape: Vec<usize> = (0..dimensions)
            .map(|_| self.size())
            .collect::<Result<_, _>>()?;
        let (kind, offset) = (self.u32()?, self.size()?);
        let kind = TensorType::of(kind).ok_or_else(|| bad("is not in F32, Q4_1 or Q8_0"))?;
        let columns = shape.first().copied().unwrap_or(0);
        let elements = shape
            .iter()
            .try_fold(1_usize, |all, size| all.checked_mul(*size));
        let elements = elements.filter(|elements| *elements > 0);
        let elements = elements.ok_or_else(|| bad("is empty or too large"))?;
        if !columns.is_multiple_of(kind.block_elements()) {
            return Err(bad("has a row that is not a whole number of blocks"));
        }
        let bytes = (elements / kind.block_elements()).checked_mul(kind.block_bytes());
        let bytes = bytes.ok_or_else(|| bad("is too large"))?;
        let tensor = Tensor {
            kind,
            shape,
            elements,
            offset,
        };
        Ok((name, tensor, bytes))
    }

    fn value(&mut self, kind: u32) -> Result<Value, GgufError> {
        // Bytes of the types that nothing is read from.
        let skipped = match kind {
            4 => return Ok(Value::Integer(self.u32()?)),
            6 => return Ok(Value::Float(f32::from_le_bytes(self.array()?))),
            8 => return Ok(Value::Text(self.text()?)),
            9 => return self.values(),
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            5 => 4,
            10..=12 => 8,
            kind => return Err(malformed(format!("a value has the unknown type {kind}"))),
        };
        self.take(skipped)?;
        Ok(Value::Other)
    }

    fn values(&mut self) -> Result<Value, GgufError> {
        let (kind, count) = (self.u32()?, self.count()?);
        let values = 0..count;
        Ok(match kind {
            5 => Value::Integers(
                values
                    .map(|_| Ok(i32::from_le_bytes(self.array()?)))
                    .collect::<Result<_, GgufError>>()?,
            ),
            8 => Value::Texts(values.map(|_| self.text()).collect::<Result<_, _>>()?),
            9 => return Err(malformed("an array holds arrays")),
            kind => {
                for _ in values {
                    self.value(kind)?;
                }
                Value::Other
            }
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], GgufError> {
        let taken = self.0.split_at_checked(length);
        let (taken, rest) = taken.ok_or_else(|| malformed("it ends inside its header"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let taken = self.0.split_first_chunk();
        let (taken, rest) = taken.ok_or_else(|| malformed("it ends inside its header"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn size(&mut self) -> Result<usize, GgufError> {
        let size = u64::from_le_bytes(self.array()?);
        usize::try_from(size).map_err(|_| malformed("a size is too large"))
    }

    /// A number of things that take at least a byte each.
    fn count(&mut self) -> Result<usize, GgufError> {
        let count = self.size()?;
        match count <= self.0.len() {
            true => Ok(count),
            false => Err(malformed("it ends inside its header")),
        }
    }

    fn text(&mut self) -> Result<String, GgufError> {
        let length = self.size()?;
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| malformed("a string is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::build::Build;
    use super::*;

    fn file() -> Build {
        Build::default()
            .u32("n", 7)
            .str("name", "é")
            .bool("flag", true)
            .strings("words", &["a", ""])
            .i32s("kinds", &[1, -3])
            .f32s("scores", &[0.5])
            .entry("f", 6, &1.5_f32.to_le_bytes())
            .tensor("b", &[2, 3], 0, &[0; 24])
            .tensor("a", &[1], 0, &2.5_f32.to_le_bytes())
    }

    #[test]
    fn what_is_in_a_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, file().bytes()).unwrap();
        for gguf in [
            Gguf::open(&path).unwrap(),
            Gguf::from_bytes(file().bytes()).unwrap(),
        ] {
            assert_eq!(
                (gguf.u32("n").unwrap(), gguf.str("name").unwrap()),
                (7, "é")
            );
            assert_eq!(gguf.strings("words").unwrap(), ["a", ""]);
            assert_eq!(
                (gguf.i32s("kinds").unwrap(), gguf.f32("f").unwrap()),
                (&[1, -3][..], 1.5)
            );
            let names: Vec<&str> = gguf.tensors().map(|(name, _)| name).collect();
            assert_eq!(names, ["a", "b"]);
            let tensor = gguf.tensor("b").unwrap();
            assert_eq!(
                (tensor.shape(), tensor.rows(), tensor.elements()),
                (&[2, 3][..], 3, 6)
            );
            assert_eq!(gguf.dequantize("a").unwrap(), [2.5]);
            for missing in ["flag", "scores", "none"] {
                let error = gguf.u32(missing).unwrap_err();
                assert!(matches!(error, GgufError::Missing(_)), "{error}");
            }
        }
    }

    #[test]
    fn a_file_that_is_cut_or_changed_is_an_error() {
        let bytes = file().bytes();
        for length in 0..bytes.len() {
            let cut = bytes.get(..length).unwrap().to_vec();
            assert!(Gguf::from_bytes(cut).is_err(), "{length} bytes");
        }
        // A file with any byte changed may be read, and must not panic or allocate without end.
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            *changed.get_mut(at).unwrap() ^= 0xff;
            if let Ok(gguf) = Gguf::from_bytes(changed) {
                for (name, _) in gguf.tensors() {
                    gguf.dequantize(name).unwrap();
                }
            }
        }
    }

    #[test]
    fn bad_tensors_are_errors() {
        for (shape, kind, offset) in [
            (&[][..], 0, 0),
            (&[0][..], 0, 0),
            (&[1, 1, 1, 1, 1][..], 0, 0),
            (&[1 << 40, 1 << 40][..], 0, 0),
            (&[1 << 61][..], 0, 0),
            (&[33][..], 8, 0),
            (&[32][..], 2, 0),
            (&[1][..], 0, u64::MAX),
            (&[1][..], 0, 32),
        ] {
            let build = Build::default().line("t", shape, kind, offset);
            let result = Gguf::from_bytes(build.bytes());
            assert!(result.is_err(), "{shape:?} {kind} {offset}");
        }
    }
}

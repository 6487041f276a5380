//! The header: metadata and the table of tensors.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::reader::{Reader, too_large};
use super::source::Source;
use super::{Array, GgufError, Tensor, TensorType, Value, limits};

const MAGIC: [u8; 4] = *b"GGUF";
const DEFAULT_ALIGNMENT: u64 = 32;
/// A key's length, a value's type and a value of one byte.
const LEAST_ENTRY_BYTES: u64 = 8 + 4 + 1;
/// A name's length, the number of dimensions, one dimension, type and offset.
const LEAST_TENSOR_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

/// All that stands before the weights.
pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: BTreeMap<String, Tensor>,
}

pub(super) fn read(source: &Source) -> Result<Header, GgufError> {
    let mut reader = Reader::new(source);
    if reader.bytes("the magic number")? != MAGIC {
        return Err(GgufError::NotGguf);
    }
    let version = reader.u32("the version")?;
    // Version 1 has lengths of 32 bits. A big-endian file of version 3 reads as 0x03000000 and is
    // refused here too.
    if !matches!(version, 2 | 3) {
        return Err(GgufError::Version(version));
    }
    // Both counts come first in the file; the metadata come before the table, which needs their
    // alignment.
    let tensors = reader.count("tensors", LEAST_TENSOR_BYTES, limits::TENSORS)?;
    let entries = reader.count("entries of metadata", LEAST_ENTRY_BYTES, limits::ENTRIES)?;
    let metadata = read_metadata(&mut reader, entries)?;
    let alignment = alignment(&metadata, reader.position())?;
    let tensors = read_tensors(&mut reader, tensors, alignment)?;
    // No overflow: the header ends below 64 MiB.
    let data = reader.position().next_multiple_of(alignment);
    Ok(Header {
        metadata,
        tensors: place(tensors, data, source.length())?,
    })
}

fn read_metadata(
    reader: &mut Reader<'_>,
    count: usize,
) -> Result<BTreeMap<String, Value>, GgufError> {
    let mut metadata = BTreeMap::new();
    for _ in 0..count {
        let at = reader.position();
        let key = reader.string("bytes in a key", limits::KEY_BYTES)?;
        let kind = reader.u32("a value's type")?;
        let value = read_value(reader, kind)?;
        match metadata.entry(key) {
            Entry::Vacant(entry) => entry.insert(value),
            // Readers disagree about which one counts.
            Entry::Occupied(_) => {
                let what = "a key occurs twice";
                return Err(GgufError::Malformed { what, at });
            }
        };
    }
    Ok(metadata)
}

/// The numbers of the types of values.
mod kind {
    pub(super) const U8: u32 = 0;
    pub(super) const I8: u32 = 1;
    pub(super) const U16: u32 = 2;
    pub(super) const I16: u32 = 3;
    pub(super) const U32: u32 = 4;
    pub(super) const I32: u32 = 5;
    pub(super) const F32: u32 = 6;
    pub(super) const BOOL: u32 = 7;
    pub(super) const STRING: u32 = 8;
    pub(super) const ARRAY: u32 = 9;
    pub(super) const U64: u32 = 10;
    pub(super) const I64: u32 = 11;
    pub(super) const F64: u32 = 12;
}

const VALUE: &str = "a value";

fn read_value(reader: &mut Reader<'_>, kind: u32) -> Result<Value, GgufError> {
    Ok(match kind {
        kind::U32 => Value::Integer(reader.u32(VALUE)?.into()),
        kind::U64 => Value::Integer(reader.u64(VALUE)?.into()),
        kind::I64 => Value::Integer(i64::from_le_bytes(reader.bytes(VALUE)?).into()),
        kind::F32 => Value::Float(f32::from_le_bytes(reader.bytes(VALUE)?).into()),
        kind::F64 => Value::Float(f64::from_le_bytes(reader.bytes(VALUE)?)),
        kind::BOOL => Value::Bool(read_bool(reader)?),
        kind::STRING => Value::Text(read_text(reader)?),
        kind::ARRAY => Value::Array(read_array(reader)?),
        kind => Value::Integer(read_small(reader, kind)?.into()),
    })
}

/// An integer of a type that fits into 32 bits.
fn read_small(reader: &mut Reader<'_>, kind: u32) -> Result<i32, GgufError> {
    let at = reader.position();
    Ok(match kind {
        kind::U8 => u8::from_le_bytes(reader.bytes(VALUE)?).into(),
        kind::I8 => i8::from_le_bytes(reader.bytes(VALUE)?).into(),
        kind::U16 => u16::from_le_bytes(reader.bytes(VALUE)?).into(),
        kind::I16 => i16::from_le_bytes(reader.bytes(VALUE)?).into(),
        kind::I32 => i32::from_le_bytes(reader.bytes(VALUE)?),
        _ => {
            let what = "a value has an unknown type";
            return Err(GgufError::Malformed { what, at });
        }
    })
}

fn read_bool(reader: &mut Reader<'_>) -> Result<bool, GgufError> {
    let at = reader.position();
    match reader.bytes(VALUE)? {
        [0] => Ok(false),
        [1] => Ok(true),
        [_] => Err(GgufError::Malformed {
            what: "a truth value is neither 0 nor 1",
            at,
        }),
    }
}

fn read_text(reader: &mut Reader<'_>) -> Result<String, GgufError> {
    reader.string("bytes in a string", limits::STRING_BYTES)
}

fn read_array(reader: &mut Reader<'_>) -> Result<Array, GgufError> {
    let at = reader.position();
    let kind = reader.u32("an array's type")?;
    let least = match kind {
        kind::U8 | kind::I8 | kind::BOOL => 1,
        kind::U16 | kind::I16 => 2,
        kind::U32 | kind::I32 | kind::F32 => 4,
        kind::U64 | kind::I64 | kind::F64 | kind::STRING => 8,
        _ => {
            let what = "an array has elements of an unknown type, or arrays";
            return Err(GgufError::Malformed { what, at });
        }
    };
    let count = reader.count("elements in an array", least, limits::ARRAY_ELEMENTS)?;
    Ok(match kind {
        kind::STRING => Array::Text(repeat(count, || read_text(reader))?),
        kind::I32 => Array::Integers(repeat(count, || read_small(reader, kind))?),
        // Nobody asks for these, but what follows begins after them.
        other => {
            for _ in 0..count {
                read_value(reader, other)?;
            }
            Array::Other
        }
    })
}

fn repeat<T>(
    count: usize,
    mut read: impl FnMut() -> Result<T, GgufError>,
) -> Result<Vec<T>, GgufError> {
    (0..count).map(|_| read()).collect()
}

/// `general.alignment`, a power of two.
fn alignment(metadata: &BTreeMap<String, Value>, at: u64) -> Result<u64, GgufError> {
    let Some(value) = metadata.get("general.alignment") else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let alignment = match value {
        Value::Integer(integer) => u64::try_from(*integer).unwrap_or(0),
        _ => 0,
    };
    // What is no integer, or negative, counts as 0, which is no power of two.
    if !alignment.is_power_of_two() || alignment < 8 {
        let what = "general.alignment is not a power of two from 8 on";
        return Err(GgufError::Malformed { what, at });
    }
    if alignment > limits::ALIGNMENT {
        return Err(too_large(
            "bytes of alignment",
            alignment,
            limits::ALIGNMENT,
        ));
    }
    Ok(alignment)
}

fn read_tensors(
    reader: &mut Reader<'_>,
    count: usize,
    alignment: u64,
) -> Result<Vec<(String, Tensor)>, GgufError> {
    repeat(count, || {
        let name = reader.string("bytes in a tensor's name", limits::NAME_BYTES)?;
        let tensor = read_tensor(reader, &name, alignment)?;
        Ok((name, tensor))
    })
}

/// One line of the table, its offset still relative to the weights.
fn read_tensor(reader: &mut Reader<'_>, name: &str, alignment: u64) -> Result<Tensor, GgufError> {
    let bad = |what| GgufError::BadTensor {
        name: name.to_owned(),
        what,
    };
    let dimensions = reader.u32("a tensor's dimensions")?;
    if dimensions > limits::DIMENSIONS {
        let limit = limits::DIMENSIONS.into();
        return Err(too_large(
            "dimensions of a tensor",
            dimensions.into(),
            limit,
        ));
    }
    let mut shape = Vec::new();
    // Checked at each step: dimensions that wrap around would describe a small tensor whose rows
    // lie outside it.
    let mut elements = 1_usize;
    for _ in 0..dimensions {
        let dimension = usize::try_from(reader.u64("a tensor's dimensions")?)
            .map_err(|_too_large| bad("a dimension is too large"))?;
        elements = elements
            .checked_mul(dimension)
            .ok_or_else(|| bad("its dimensions are too large"))?;
        shape.push(dimension);
    }
    let kind = reader.u32("a tensor's type")?;
    let offset = reader.u64("a tensor's offset")?;
    let kind = TensorType::of(kind).ok_or_else(|| GgufError::UnsupportedType {
        name: name.to_owned(),
        kind,
    })?;
    let columns = shape.first().copied().unwrap_or(0);
    if elements == 0 || columns == 0 {
        return Err(bad("it is empty"));
    }
    // A block never spans two rows, so rows can be read alone.
    if !columns.is_multiple_of(kind.block_elements()) {
        return Err(bad("a row is not a whole number of blocks"));
    }
    if !offset.is_multiple_of(alignment) {
        return Err(bad("it is not aligned"));
    }
    let bytes = (elements / kind.block_elements())
        .checked_mul(kind.block_bytes())
        .ok_or_else(|| bad("its dimensions are too large"))? as u64;
    Ok(Tensor {
        kind,
        shape,
        offset,
        bytes,
    })
}

/// Puts the tensors into the file; each must lie inside it, and none on another.
fn place(
    mut tensors: Vec<(String, Tensor)>,
    data: u64,
    length: u64,
) -> Result<BTreeMap<String, Tensor>, GgufError> {
    // In the order of the file, each tensor need be compared with the end of the one before it
    // only.
    tensors.sort_by_key(|(_, tensor)| tensor.offset);
    let mut placed = BTreeMap::new();
    let mut free = data;
    for (name, mut tensor) in tensors {
        let bad = |what| {
            let name = name.clone();
            Err(GgufError::BadTensor { name, what })
        };
        let start = data.checked_add(tensor.offset);
        let end = start.and_then(|start| start.checked_add(tensor.bytes));
        let (Some(start), Some(end)) = (start, end) else {
            return bad("it lies outside the file");
        };
        if end > length {
            return bad("it ends after the file does: the file is incomplete, fetch it again");
        }
        // Else a small file could have any amount of weights.
        if start < free {
            return bad("it overlaps another tensor");
        }
        tensor.offset = start;
        free = end;
        match placed.entry(name) {
            Entry::Vacant(entry) => entry.insert(tensor),
            Entry::Occupied(entry) => {
                let (name, what) = (entry.key().clone(), "its name occurs twice");
                return Err(GgufError::BadTensor { name, what });
            }
        };
    }
    Ok(placed)
}

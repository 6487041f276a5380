//! Whole files, good and spoilt.

use std::ops::Range;

use super::build::{Build, text};
use super::*;
use proptest::prelude::*;

fn sample() -> Build {
    let floats: Vec<u8> = (0..6_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    Build::default()
        .str("general.architecture", "llama")
        .u32("llama.block_count", 30)
        .entry("llama.eps", 6, &1e-5_f32.to_le_bytes())
        .entry("negative", 5, &(-3_i32).to_le_bytes())
        .entry("eight", 0, &[8])
        .bool("yes", true)
        .strings("words", &["a", "", "ß"])
        .i32s("types", &[1, -2, 3])
        .f32s("scores", &[0.5, -1.0])
        .tensor("w", &[3, 2], 0, &floats)
        .tensor("h", &[1], 0, &1_f32.to_le_bytes())
}

fn open(build: &Build) -> Result<Gguf, GgufError> {
    Gguf::from_bytes(build.bytes())
}

#[test]
fn metadata_and_tensors_are_read() {
    let gguf = open(&sample()).unwrap();
    assert_eq!(gguf.str("general.architecture").unwrap(), "llama");
    assert_eq!(gguf.u32("llama.block_count").unwrap(), 30);
    assert_eq!(gguf.u32("eight").unwrap(), 8);
    assert_eq!(gguf.f32("llama.eps").unwrap(), 1e-5);
    assert_eq!(gguf.value("yes"), Some(&Value::Bool(true)));
    assert_eq!(gguf.strings("words").unwrap(), ["a", "", "ß"]);
    assert_eq!(gguf.i32s("types").unwrap(), [1, -2, 3]);
    assert_eq!(gguf.value("scores"), Some(&Value::Array(Array::Other)));
    let tensor = gguf.tensor("w").unwrap();
    assert_eq!(
        (tensor.shape(), tensor.kind()),
        (&[3, 2][..], TensorType::F32)
    );
    assert_eq!(
        (tensor.columns(), tensor.rows(), tensor.elements()),
        (3, 2, 6)
    );
    assert_eq!(
        gguf.dequantize("w").unwrap(),
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    );
    assert_eq!(gguf.dequantize("h").unwrap(), [1.0]);
}

#[test]
fn what_is_not_there_is_named() {
    let gguf = open(&sample()).unwrap();
    let errors = [
        gguf.u32("x").unwrap_err(),
        gguf.u32("yes").unwrap_err(),
        gguf.u32("negative").unwrap_err(),
        gguf.strings("types").unwrap_err(),
        gguf.dequantize("x").unwrap_err(),
    ];
    assert_eq!(
        errors.map(|error| error.to_string()),
        [
            r#"the model file has no "x": it is not a model of the kind that was asked for"#,
            r#""yes" in the model file is a truth value, not an integer from 0 to 4294967295"#,
            r#""negative" in the model file is an integer, not an integer from 0 to 4294967295"#,
            r#""types" in the model file is an array of 32-bit integers, not an array of strings"#,
            r#"the model file has no tensor "x": it is not a model of the kind that was asked for"#,
        ]
    );
}

fn refused(bytes: Vec<u8>, expected: &str) {
    let error = Gguf::from_bytes(bytes).unwrap_err().to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

#[test]
fn spoilt_headers_are_refused() {
    let with = |range: Range<usize>, new: &[u8]| {
        let mut bytes = sample().bytes();
        bytes.splice(range, new.iter().copied());
        bytes
    };
    refused(vec![], "ends inside the magic number at byte 0");
    refused(with(0..4, b"GGML"), "does not begin with GGUF");
    refused(with(4..8, &[1, 0, 0, 0]), "version 0x1 is not supported");
    refused(
        with(4..8, &[0, 0, 0, 3]),
        "version 0x3000000 is not supported",
    );
    refused(with(8..16, &[255; 8]), "tensors, but at most 16384");
    refused(
        with(16..24, &[255; 8]),
        "entries of metadata, but at most 4096",
    );
    // More than the rest of the file can hold is refused before anything is read of it.
    refused(
        with(16..24, &4096_u64.to_le_bytes()),
        "ends inside entries of metadata",
    );
    refused(with(24..32, &[255; 8]), "bytes in a key, but at most 65535");
}

#[test]
fn spoilt_entries_are_refused() {
    let with = |kind: u32, value: &[u8], expected: &str| {
        refused(Build::default().entry("k", kind, value).bytes(), expected);
    };
    let array = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
    with(13, &[0; 8], "a value has an unknown type");
    with(7, &[2], "a truth value is neither 0 nor 1");
    with(
        8,
        &u64::MAX.to_le_bytes(),
        "bytes in a string, but at most 1048576",
    );
    with(8, &1000_u64.to_le_bytes(), "ends inside bytes in a string");
    with(
        8,
        &[2, 0, 0, 0, 0, 0, 0, 0, 0xc3, 0x28],
        "a string is not UTF-8",
    );
    with(9, &array(9, 1), "of an unknown type, or arrays");
    with(
        9,
        &array(4, u64::MAX),
        "elements in an array, but at most 1048576",
    );
    with(9, &array(4, 1 << 20), "ends inside elements in an array");
    refused(
        Build::default().u32("k", 1).u32("k", 1).bytes(),
        "a key occurs twice",
    );
    for alignment in [0, 1, 48] {
        refused(
            Build::default().u32("general.alignment", alignment).bytes(),
            "not a power of two",
        );
    }
    refused(
        Build::default().u32("general.alignment", 1 << 31).bytes(),
        "bytes of alignment, but at most 65536",
    );
}

#[test]
fn spoilt_tensors_are_refused() {
    let with = |shape: &[u64], kind: u32, offset: u64, expected: &str| {
        let file = Build::default().line("t", shape, kind, offset);
        refused([file.bytes(), vec![0; 64]].concat(), expected);
    };
    with(
        &[1, 1, 1, 1, 1],
        0,
        0,
        "5 dimensions of a tensor, but at most 4",
    );
    with(&[0], 0, 0, "it is empty");
    with(&[], 0, 0, "it is empty");
    with(&[u64::MAX, 2], 0, 0, "dimensions are too large");
    with(&[1 << 62], 0, 0, "dimensions are too large");
    with(&[1 << 40], 0, 0, "it ends after the file does");
    with(&[33], 3, 0, "a row is not a whole number of blocks");
    with(&[1], 0, 8, "it is not aligned");
    with(&[1], 0, u64::MAX - 31, "it lies outside the file");
    with(&[256], 10, 0, "ggml type 10, which is not supported");
    with(&[256], u32::MAX, 0, "ggml type 4294967295, which");
    let twice = |name: &str, offset| {
        let file = Build::default()
            .line("t", &[8], 0, 0)
            .line(name, &[8], 0, offset);
        [file.bytes(), vec![0; 64]].concat()
    };
    refused(twice("t", 32), "its name occurs twice");
    refused(twice("u", 0), "it overlaps another tensor");
    let long = Build::default().line(&"n".repeat(300), &[1], 0, 0);
    refused(
        long.bytes(),
        "300 bytes in a tensor's name, but at most 256",
    );
}

#[test]
fn a_header_larger_than_the_limit_is_refused() {
    // Strings of a mebibyte each, one more than fit.
    let value = text(&"x".repeat(1 << 20));
    let file = (0..=64).fold(Build::default(), |file, i| {
        file.entry(&i.to_string(), 8, &value)
    });
    refused(
        file.bytes(),
        "bytes before its weights, but at most 67108864",
    );
}

#[test]
fn a_file_that_shrinks_gives_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let bytes = sample().bytes();
    std::fs::write(&path, &bytes).unwrap();
    let gguf = Gguf::open(&path).unwrap();
    assert_eq!(gguf.dequantize("h").unwrap(), [1.0]);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(bytes.len() as u64 - 1).unwrap();
    assert!(matches!(gguf.dequantize("h"), Err(GgufError::Io(_))));
    assert!(matches!(Gguf::open(folder.path()), Err(GgufError::Io(_))));
}

#[test]
fn a_header_may_lie_across_what_is_read_ahead() {
    let words: Vec<String> = (0..100_000).map(|i| format!("word {i}")).collect();
    let gguf = open(&sample().strings("many", &words)).unwrap();
    assert_eq!(gguf.strings("many").unwrap(), words);
    assert_eq!(
        gguf.dequantize("w").unwrap(),
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    );
}

/// Everything that was accepted can be used.
fn use_all(bytes: Vec<u8>) {
    let length = bytes.len();
    let Ok(gguf) = Gguf::from_bytes(bytes) else {
        return;
    };
    let names: Vec<_> = gguf.tensors().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let values = gguf.dequantize(&name).unwrap();
        assert_eq!(values.len(), gguf.tensor(&name).unwrap().elements());
        // Q4_1 has the most values per byte.
        assert!(values.len() <= 2 * length);
    }
}

proptest! {
    #[test]
    fn a_truncated_file_is_refused(cut in 0..sample().bytes().len()) {
        let mut bytes = sample().bytes();
        bytes.truncate(cut);
        prop_assert!(Gguf::from_bytes(bytes).is_err());
    }

    #[test]
    fn flipped_bits_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..8)) {
        let mut bytes = sample().bytes();
        let length = bytes.len();
        for (index, bit) in flips {
            bytes[index.index(length)] ^= 1 << bit;
        }
        use_all(bytes);
    }

    #[test]
    fn any_bytes_never_panic(rest in prop::collection::vec(any::<u8>(), 0..300)) {
        use_all([b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", &rest[..]].concat());
    }
}

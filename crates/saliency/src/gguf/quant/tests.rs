//! One block of each format, by hand and against another implementation.

use super::*;

fn values(kind: TensorType, block: &[u8]) -> Vec<f32> {
    let mut values = vec![f32::NAN; kind.block_elements()];
    assert_eq!(block.len(), kind.block_bytes());
    dequantize(kind, block, &mut values);
    values
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// What the Python package `gguf` makes of a random block (scale 0.046875, minimum -0.8125): the sum, the sum with weights 1 to 7 in turn, and single values.
fn check(kind: TensorType, hex: &str, sum: f64, weighted: f64, some: &[(usize, f64)]) {
    let values: Vec<f64> = values(kind, &bytes(hex))
        .into_iter()
        .map(f64::from)
        .collect();
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    let total: f64 = values.iter().sum();
    let weights = (1..=7).map(f64::from).cycle();
    let turns: f64 = values.iter().zip(weights).map(|(v, w)| v * w).sum();
    assert!(near(total, sum), "{kind:?}: sum {total}, not {sum}");
    assert!(
        near(turns, weighted),
        "{kind:?}: weighted {turns}, not {weighted}"
    );
    for &(at, value) in some {
        assert!(
            near(values[at], value),
            "{kind:?} {at}: {}, not {value}",
            values[at]
        );
    }
}

#[test]
fn as_the_reference() {
    check(
        TensorType::Q4_1,
        "002a80ba36ac64f86eabb114b3131a74fbab7b9b",
        -14.421875,
        -56.28125,
        &[
            (0, -0.53125),
            (16, -0.671875),
            (17, -0.34375),
            (31, -0.390625),
        ],
    );
    check(
        TensorType::Q8_0,
        "002a800fbcbb267a16a8c6e50901356e8fa4b2237e69f8c999a7e6f67473f1fbdd3e",
        -6.46875,
        144.9375,
        &[(0, -6.0), (16, -3.65625), (17, 1.640625), (31, 2.90625)],
    );
}

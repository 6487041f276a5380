//! The feature model: the reader's numbers against those of the Python package `gguf`.
use saliency::gguf::{Gguf, TensorType};

/// Name, number of values, sum, sum of squares, and the first value, that at a third, and the last.
type Golden = (&'static str, usize, f64, f64, [f64; 3]);

fn check(gguf: &Gguf, golden: &[Golden]) {
    for &(name, count, sum, squares, some) in golden {
        let values = gguf.dequantize(name).unwrap();
        assert_eq!(values.len(), count, "{name}");
        let (mut total, mut square) = (0.0, 0.0);
        for value in &values {
            total += f64::from(*value);
            square += f64::from(*value) * f64::from(*value);
        }
        let near =
            |a: f64, b: f64| (a - b).abs() <= 1e-5 * squares.max(1.0) && (a - b).abs() < 0.05;
        assert!(near(total, sum), "{name}: sum {total}, not {sum}");
        assert!(
            (square / squares - 1.0).abs() < 1e-6,
            "{name}: {square}, not {squares}"
        );
        let found = [values[0], values[count / 3], values[count - 1]];
        for (found, value) in found.into_iter().zip(some) {
            assert!(
                (f64::from(found) - value).abs() <= 1e-6 * value.abs().max(1e-3),
                "{name}: {found}, not {value}"
            );
        }
    }
}

#[test]
fn smollm2() {
    let Some(path) = super::model() else {
        return;
    };
    let gguf = Gguf::open(&path).unwrap();
    assert_eq!(gguf.str("general.architecture").unwrap(), "llama");
    assert_eq!(gguf.u32("llama.block_count").unwrap(), 30);
    assert_eq!(gguf.strings("tokenizer.ggml.tokens").unwrap().len(), 49152);
    assert_eq!(gguf.tensors().count(), 272);
    let tensor = gguf.tensor("blk.0.ffn_down.weight").unwrap();
    assert_eq!(tensor.shape(), [1536, 576]);
    assert_eq!(tensor.kind(), TensorType::Q4_1);
    check(
        &gguf,
        &[
            (
                "token_embd.weight",
                28311552,
                -15353.0445,
                520415.715,
                [-0.106544495, 0.0710678101, -0.0417022705],
            ),
            (
                "blk.0.attn_norm.weight",
                576,
                0.612943649,
                0.918083541,
                [0.0139770508, -0.00117492676, -0.0383300781],
            ),
            (
                "blk.0.ffn_down.weight",
                884736,
                150.635773,
                33220.12,
                [-0.330810547, 0.02734375, -0.181365967],
            ),
            (
                "blk.17.attn_k.weight",
                110592,
                77.5488358,
                3902.26123,
                [-0.0560913086, -0.0156555176, -0.248657227],
            ),
            (
                "blk.29.attn_q.weight",
                331776,
                191.086124,
                7444.87907,
                [0.261962891, -0.0343933105, 0.0181274414],
            ),
            (
                "output_norm.weight",
                576,
                1038.33203,
                1921.73555,
                [1.7578125, 1.71875, 1.984375],
            ),
        ],
    );
}

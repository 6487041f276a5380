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

/// What the Python package `gguf` makes of a random block (one scale 0.046875, minimum -0.8125; in
/// `Q6_K` 0.03125): the sum, the sum with weights 1 to 7 in turn, and single values.
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
        TensorType::Q4_0,
        "002af8b9fb1f6cf1b529a3e1cc5ce682c38e",
        1.21875,
        0.984375,
        &[(0, 0.0), (16, 0.328125), (17, 0.140625), (31, 0.0)],
    );
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
        TensorType::Q5_0,
        "002a7b48bf6c61607b0981a0c26549cd0410b694deda",
        -0.046875,
        -2.390625,
        &[(0, 0.046875), (16, 0.28125), (17, 0.28125), (31, -0.140625)],
    );
    check(
        TensorType::Q5_1,
        "002a80ba447d23df14463b385fbe3f8b3e7a94564591f7e6",
        -1.203125,
        -2.046875,
        &[(0, -0.625), (16, -0.015625), (17, 0.125), (31, 0.59375)],
    );
    check(
        TensorType::Q8_0,
        "002a800fbcbb267a16a8c6e50901356e8fa4b2237e69f8c999a7e6f67473f1fbdd3e",
        -6.46875,
        144.9375,
        &[(0, -6.0), (16, -3.65625), (17, 1.640625), (31, 2.90625)],
    );
    check(
        TensorType::Q4K,
        "002a80bae95190bb09fc0bf8e952d09260acd4ed1ce3e196e4427d2d3549cc7616b3dd9b3767ce4d160472b454278368\
         f8945bf14ae22e35448668aa8fb11917673926227c866f853e40747fb5579b7f93de5d7e987106dbd3d20e8062c1375d\
         11a665f530b044e2577f9559ef216b33dd104939b771332a687ea7858d186e9315c723a4f6af27e6e15169f07b0cc988",
        9939.09375,
        39754.125,
        &[
            (0, 7.3125),
            (17, 13.078125),
            (128, 19.390625),
            (255, 59.0625),
        ],
    );
    check(
        TensorType::Q5K,
        "002a80ba56e84414a4ba9044d96a1bffe4b605ee3788e10650b5e17de1637d7f154901ad32d7851da0afdd790198205e\
         c5008c37a0464ecf3e174bb15329022e120a48c56fc0c389f683d73056a054a9490ebd751d879e7a69e99f5c92bd46f9\
         0ef3b42b38c7f4fe9b80aa38212beecdbde266f6fcd3b82021715ce2d6a3e1088be0dd61d5c23588531e4ebd7c11be2b\
         d36abe0a289fbb4b513041ea81b03c5466078489973142121e12fdd1a23d28f5",
        11500.5,
        46291.5625,
        &[
            (0, 34.40625),
            (17, 56.0625),
            (128, 51.796875),
            (255, 35.734375),
        ],
    );
    check(
        TensorType::Q6K,
        "bfe3a346783cd5d974a64960329cf54da664195996d527275acef1f8fb8add183815f16d02a62fa20addeb7fa6d27218\
         0009bbf484439fdb79d337e73bd0bf24a7681f65abfe1d673502af4e73de18018cb19ace5332d9bc1342831b5798452e\
         1e7e666499b71de975f75de02b32f320019deaea47533d4bca19c53bb5eabdfaf7002714ea99b2096482a8c95c83fe3e\
         e8d82c9fd8343a56a01dcd3cf669be6764378281c40fca26f0764812fa7a60fd31ec38b381614b58bf7ad78693da52f7\
         6ccd63b44b69c0959d4492168579610c0028",
        639.28125,
        1363.53125,
        &[(0, 104.625), (17, 44.625), (128, 77.34375), (255, 11.625)],
    );
    check(
        TensorType::Bf16,
        "49c0",
        -3.140625,
        -3.140625,
        &[(0, -3.140625)],
    );
    check(
        TensorType::F16,
        "cdbe",
        -1.70019531,
        -1.70019531,
        &[(0, -1.7001953125)],
    );
}

/// 1.0 in half precision.
const ONE: [u8; 2] = [0, 0x3c];
/// 0.5 in half precision.
const HALF: [u8; 2] = [0, 0x38];

#[test]
fn four_bits_by_hand() {
    let mut block = ONE.to_vec();
    block.extend([0x80; 16]);
    // Low halves 0 and high halves 8, both less 8.
    assert_eq!(
        values(TensorType::Q4_0, &block),
        [[-8.0; 16], [0.0; 16]].concat()
    );
    let block = [&HALF[..], &ONE, &[0x2f; 16]].concat();
    assert_eq!(
        values(TensorType::Q4_1, &block),
        [[8.5; 16], [2.0; 16]].concat()
    );
}

#[test]
fn five_bits_by_hand() {
    // The fifth bits: set for the first value and the last.
    let block = [&ONE[..], &[1, 0, 0, 0x80], &[0x10; 16]].concat();
    let found = values(TensorType::Q5_0, &block);
    assert_eq!(
        (found[0], found[1], found[30], found[31]),
        (0.0, -16.0, -15.0, 1.0)
    );
    let block = [&ONE[..], &HALF, &[1, 0, 0, 0x80], &[0x10; 16]].concat();
    let found = values(TensorType::Q5_1, &block);
    assert_eq!(
        (found[0], found[1], found[30], found[31]),
        (16.5, 0.5, 1.5, 17.5)
    );
}

#[test]
fn eight_bits_by_hand() {
    let mut block = HALF.to_vec();
    block.extend([0xff, 0x7f, 0x80]);
    block.extend([2; 29]);
    let found = values(TensorType::Q8_0, &block);
    assert_eq!(found[..4], [-0.5, 63.5, -64.0, 1.0]);
}

#[test]
fn the_scales_of_k_blocks_by_hand() {
    // Scales 1 to 4 with upper bits 1, minima 5 to 8 with upper bits 2; lower bits 9 and 3.
    let mut packed = [0x41, 0x42, 0x43, 0x44, 0x85, 0x86, 0x87, 0x88, 0, 0, 0, 0];
    packed[8..].fill(0x39);
    let expected = [(1.0, 5.0), (2.0, 6.0), (3.0, 7.0), (4.0, 8.0)];
    assert_eq!(scales(&packed)[..4], expected);
    assert_eq!(scales(&packed)[4..], [(25.0, 35.0); 4]);
}

#[test]
fn six_bits_by_hand() {
    let mut block = vec![0; 210];
    block[192..208].fill(2);
    block[208..].copy_from_slice(&HALF);
    block[0] = 0xa1;
    block[128] = 0b11_10_01_00;
    let found = values(TensorType::Q6K, &block);
    // Rows 0 to 3 of the first half take two upper bits each.
    let rows = [found[0], found[32], found[64], found[96]];
    assert_eq!(rows, [-31.0, -16.0, 10.0, 16.0]);
    assert_eq!(found[1], -32.0);
}

#[test]
fn the_names_of_types_fit_their_numbers() {
    for (number, name) in [
        (3, "Q4_1"),
        (10, "Q2_K"),
        (23, "IQ4_XS"),
        (30, "BF16"),
        (39, "MXFP4"),
    ] {
        assert_eq!(TensorType::name_of(number), name);
    }
}

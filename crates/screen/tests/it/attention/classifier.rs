//! The classifier: what it computes, and its file.

use ifc::RegionId;
use proptest::prelude::*;
use screen::attention::{
    About, Classifier, ClassifierError, Columns, Linear, LstmLayer, Network, Normalisation, Platt,
    RegionFeatures, WeightsError, thresholds,
};
use sha2::{Digest, Sha256};

/// The paper's columns, a projection or none, layers of these units; weights from `number`.
pub(crate) fn classifier(
    projection: Option<usize>,
    units: &[usize],
    mut number: impl FnMut() -> f32,
) -> Classifier {
    let columns = Columns::paper();
    let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| number()).collect() };
    let features = columns.len();
    let mean = numbers(features);
    let std_dev = numbers(features).iter().map(|it| it.abs() + 0.1).collect();
    let mut linear = |inputs: usize, outputs: usize| Linear {
        inputs,
        weights: numbers(inputs * outputs),
        bias: numbers(outputs),
    };
    let mut width = features;
    let projection = projection.map(|units| linear(std::mem::replace(&mut width, units), units));
    let layers = units.iter().map(|units| {
        let input = linear(std::mem::replace(&mut width, *units), 4 * units);
        let recurrent = linear(*units, 4 * units).weights;
        LstmLayer { input, recurrent }
    });
    let layers = layers.collect();
    let head = linear(width, 1);
    Classifier {
        about: About {
            name: "test".to_owned(),
            model: "aa".to_owned(),
            data: "bb".to_owned(),
            command: "train --seed 1".to_owned(),
        },
        columns,
        normalisation: Normalisation { mean, std_dev },
        network: Network {
            projection,
            layers,
            head,
        },
        platt: Platt {
            slope: 1.5,
            intercept: -0.25,
        },
        thresholds: vec![0.5; 50],
        target_recall: 95,
    }
}

fn random(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

fn regions(count: usize, seed: u64) -> Vec<RegionFeatures> {
    let mut random = random(seed);
    let mut region = |number| RegionFeatures {
        region: RegionId(number),
        values: (0..6).map(|_| 3.0 * random()).collect(),
    };
    (0..count as u32).map(&mut region).collect()
}

/// The equations, index by index, in double precision.
fn naive(classifier: &Classifier, regions: &[RegionFeatures]) -> Vec<f64> {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let apply = |linear: &Linear, x: &[f64]| -> Vec<f64> {
        (0..linear.bias.len())
            .map(|row| {
                let products =
                    (0..x.len()).map(|at| f64::from(linear.weights[row * x.len() + at]) * x[at]);
                f64::from(linear.bias[row]) + products.sum::<f64>()
            })
            .collect()
    };
    let Normalisation { mean, std_dev } = &classifier.normalisation;
    let mut sequence: Vec<Vec<f64>> = Vec::new();
    for region in regions {
        let mut x: Vec<f64> = (0..region.values.len())
            .map(|at| {
                let deviation = f64::from(region.values[at]) - f64::from(mean[at]);
                (deviation / f64::from(std_dev[at])).clamp(-8.0, 8.0)
            })
            .collect();
        if let Some(projection) = &classifier.network.projection {
            x = apply(projection, &x).iter().map(|it| it.tanh()).collect();
        }
        sequence.push(x);
    }
    for layer in &classifier.network.layers {
        let units = layer.input.bias.len() / 4;
        let (mut h, mut c) = (vec![0.0; units], vec![0.0; units]);
        for x in &mut sequence {
            let mut gates = apply(&layer.input, x);
            for (gate, weights) in gates.iter_mut().zip(layer.recurrent.chunks(units)) {
                let products = weights.iter().zip(&h);
                *gate += products
                    .map(|(weight, h)| f64::from(*weight) * h)
                    .sum::<f64>();
            }
            for unit in 0..units {
                let [i, f, g, o] = [0, 1, 2, 3].map(|gate| gates[gate * units + unit]);
                c[unit] = sigmoid(f) * c[unit] + sigmoid(i) * g.tanh();
                h[unit] = sigmoid(o) * c[unit].tanh();
            }
            *x = h.clone();
        }
    }
    let Platt { slope, intercept } = classifier.platt;
    let score = |x: &Vec<f64>| {
        sigmoid(f64::from(slope) * apply(&classifier.network.head, x)[0] + f64::from(intercept))
    };
    sequence.iter().map(score).collect()
}

fn shape() -> impl Strategy<Value = (Option<usize>, Vec<usize>)> {
    (
        prop::option::of(1usize..6),
        prop::collection::vec(1usize..6, 0..3),
    )
}

/// The same file with another content, and the hash of that.
fn signed(mut content: Vec<u8>) -> Vec<u8> {
    let hash = Sha256::digest(&content);
    content.extend(hash);
    content
}

proptest! {
    #[test]
    fn scores_are_those_of_the_equations((projection, units) in shape(), count in 0usize..9, seed in 0u64..1000) {
        let classifier = classifier(projection, &units, random(seed));
        let regions = regions(count, seed + 1);
        let scores = classifier.scores(&regions).unwrap();
        prop_assert_eq!(scores.len(), count);
        for (score, expected) in scores.iter().zip(naive(&classifier, &regions)) {
            prop_assert!((f64::from(*score) - expected).abs() < 1e-5, "{score} {expected}");
        }
    }

    #[test]
    fn a_region_does_not_depend_on_later_ones(seed in 0u64..1000, count in 1usize..9) {
        let classifier = classifier(Some(4), &[5, 3], random(seed));
        let all = regions(count + 3, seed);
        let (whole, part) = (classifier.scores(&all).unwrap(), classifier.scores(&all[..count]).unwrap());
        prop_assert_eq!(&whole[..count], &part[..]);
    }

    #[test]
    fn what_is_written_is_read((projection, units) in shape(), seed in 0u64..1000) {
        let classifier = classifier(projection, &units, random(seed));
        let bytes = classifier.to_bytes().unwrap();
        prop_assert_eq!(&Classifier::from_bytes(&bytes).unwrap(), &classifier);
        prop_assert_eq!(Classifier::from_bytes(&bytes).unwrap().to_bytes().unwrap(), bytes);
    }

    #[test]
    fn any_change_is_found(at in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<prop::sample::Index>()) {
        let bytes = classifier(None, &[2], random(1)).to_bytes().unwrap();
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(Classifier::from_bytes(&changed).is_err());
        prop_assert!(Classifier::from_bytes(&bytes[..cut.index(bytes.len())]).is_err());
    }
}

#[test]
fn names_are_pytorchs() {
    let made = classifier(Some(3), &[4, 2], random(3)).network;
    let find = |name: &str| {
        let projection = made.projection.as_ref().unwrap();
        let found = match name {
            "projection.weight" => &projection.weights,
            "projection.bias" => &projection.bias,
            "weight_ih_l0" => &made.layers[0].input.weights,
            "weight_hh_l0" => &made.layers[0].recurrent,
            "bias_ih_l0" => &made.layers[0].input.bias,
            "weight_ih_l1" => &made.layers[1].input.weights,
            "weight_hh_l1" => &made.layers[1].recurrent,
            "bias_ih_l1" => &made.layers[1].input.bias,
            "output.weight" => &made.head.weights,
            "output.bias" => &made.head.bias,
            _ => return None,
        };
        Some(found.clone())
    };
    assert_eq!(Network::from_weights(6, true, 2, find), Some(made.clone()));
    assert_eq!(Network::from_weights(6, true, 3, find), None);
    assert_eq!(Network::from_weights(5, true, 2, find), None);
}

#[test]
fn a_classifier_that_cannot_be_used_is_neither_written_nor_asked() {
    let good = || classifier(Some(3), &[4, 2], random(4));
    type Change = fn(&mut Classifier);
    let changes: [(&str, Change); 16] = [
        ("a layer too small", |it| {
            it.network.layers[1].recurrent.truncate(3)
        }),
        ("a layer too wide", |it| {
            it.network.layers[0].input.inputs += 1
        }),
        ("no head", |it| it.network.head.bias.clear()),
        ("a head for two", |it| it.network.head.bias.push(0.0)),
        ("too few means", |it| it.normalisation.mean.truncate(2)),
        ("a deviation below 0", |it| {
            it.normalisation.std_dev[0] = -0.5
        }),
        ("a deviation that is NaN", |it| {
            it.normalisation.std_dev[0] = f32::NAN
        }),
        ("an infinite deviation", |it| {
            it.normalisation.std_dev[0] = f32::INFINITY
        }),
        ("a threshold above 1", |it| it.thresholds[0] = 1.5),
        ("a threshold that is none", |it| it.thresholds[9] = f32::NAN),
        ("too few thresholds", |it| it.thresholds.truncate(3)),
        ("thresholds that rise", |it| it.thresholds[9] = 0.75),
        ("a recall of everything", |it| it.target_recall = 100),
        ("a weight that is none", |it| {
            it.network.head.weights[0] = f32::INFINITY
        }),
        ("a slope downwards", |it| it.platt.slope = -1.0),
        ("an intercept that is NaN", |it| {
            it.platt.intercept = f32::NAN
        }),
    ];
    assert!(good().to_bytes().is_ok());
    for (what, change) in changes {
        let mut classifier = good();
        change(&mut classifier);
        assert!(classifier.check().is_err(), "{what}");
        assert!(classifier.to_bytes().is_err(), "{what}");
    }
    let mut region = regions(1, 1);
    region[0].values.pop();
    let wrong = ClassifierError::Features {
        found: 5,
        wanted: 6,
    };
    assert_eq!(good().scores(&region).unwrap_err(), wrong);
    let mut nan = regions(1, 1);
    nan[0].values[0] = f32::NAN;
    assert_eq!(good().scores(&nan).unwrap_err(), ClassifierError::Overflow);
}

#[test]
fn a_feature_that_was_constant_in_training_says_nothing() {
    for (projection, layers) in [(Some(3), &[4, 2][..]), (None, &[])] {
        let mut made = classifier(projection, layers, random(6));
        made.normalisation.std_dev[2] = 0.0;
        let made = Classifier::from_bytes(&made.to_bytes().unwrap()).unwrap();
        let seen = regions(5, 7);
        let with = |value: f32| {
            let mut regions = seen.clone();
            regions.iter_mut().for_each(|it| it.values[2] = value);
            made.scores(&regions)
        };
        let scores = made.scores(&seen).unwrap();
        for value in [0.0, 1.0, -1e30] {
            assert_eq!(with(value).unwrap(), scores);
        }
        for value in [f32::NAN, f32::INFINITY] {
            assert_eq!(with(value).unwrap_err(), ClassifierError::Overflow);
        }
    }
}

#[test]
fn headers_are_strict() {
    let bytes = classifier(None, &[2], random(5)).to_bytes().unwrap();
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let header = String::from_utf8(bytes[16..16 + length].to_vec()).unwrap();
    let with = |old: &str, new: &str| {
        assert!(header.contains(old), "{old} in {header}");
        let header = header.replace(old, new);
        let mut content = bytes[..12].to_vec();
        content.extend((header.len() as u32).to_le_bytes());
        content.extend(header.as_bytes());
        content.extend(&bytes[16 + length..bytes.len() - 32]);
        Classifier::from_bytes(&signed(content))
    };
    assert!(with("all.sum", "all.sum").is_ok());
    assert!(matches!(
        with("all.sum", "all.total"),
        Err(WeightsError::Columns(_))
    ));
    assert!(matches!(
        with("all.sum", "all.mean"),
        Err(WeightsError::Columns(_))
    ));
    // Too large, none, too many, and others than the numbers are for.
    for layers in ["[4294967295]", "[0]", "[1,1,1,1,1]", "[3]", "[1]"] {
        assert!(with("\"layers\":[2]", &format!("\"layers\":{layers}")).is_err());
    }
    assert!(matches!(
        with("\"layers\":[2]", "\"layers\": [2]"),
        Err(WeightsError::Length)
    ));
    assert!(matches!(
        with("{\"about\"", "{\"x\":1,\"about\""),
        Err(WeightsError::Header(_))
    ));
}

#[test]
fn thresholds_find_what_they_say() {
    // 1.00, 0.99, … 0.01
    let relevant: Vec<f32> = (1..=100).map(|it| it as f32 / 100.0).collect();
    let found = thresholds(&relevant);
    assert_eq!([found[0], found[40], found[49]], [0.51, 0.11, 0.02]);
    assert_eq!(thresholds(&[0.7, 0.2, 0.4])[0], 0.4);
    assert_eq!(thresholds(&[]), [0.0; 50]);
    let made = Classifier {
        thresholds: found,
        target_recall: 90,
        ..classifier(None, &[], random(1))
    };
    assert!(made.check().is_ok());
    assert_eq!(
        [made.threshold_for(49), made.threshold_for(100)],
        [None, None]
    );
    assert_eq!(
        [Some(made.threshold()), made.threshold_for(90)],
        [Some(0.11); 2]
    );
}

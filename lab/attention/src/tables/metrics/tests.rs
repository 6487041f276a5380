use proptest::prelude::*;

use super::*;

/// Of a step of its own user task.
fn pair(step: usize, label: bool, score: f64) -> ScoredPair {
    ScoredPair {
        step,
        task: step,
        label,
        score,
        predicted: score >= 0.5,
        weight: 1.0,
    }
}

/// Scores 0.9 T, 0.8 F, 0.6 T, 0.4 T, 0.2 F, one step each.
fn five() -> Vec<ScoredPair> {
    let all = [
        (true, 0.9),
        (false, 0.8),
        (true, 0.6),
        (true, 0.4),
        (false, 0.2),
    ];
    let pairs = all.into_iter().enumerate();
    pairs
        .map(|(step, (label, score))| pair(step, label, score))
        .collect()
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("defined");
    assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
}

fn auroc_of(pairs: &[ScoredPair]) -> Option<f64> {
    Metrics::of(pairs).auroc
}

#[test]
fn metrics_are_those_computed_by_hand() {
    let metrics = Metrics::of(&five());
    // At 0.5 the scores 0.8 and 0.4 are wrong.
    near(metrics.accuracy, 3.0 / 5.0);
    // Of six pairs of a dependent and an independent one, 0.6 and 0.4 are below 0.8.
    near(metrics.auroc, 4.0 / 6.0);
}

#[test]
fn a_weight_is_so_many_equal_pairs() {
    let mut weighted = five();
    weighted[1].weight = 3.0;
    let mut repeated = five();
    repeated.extend([repeated[1]; 2]);
    let (weighted, repeated) = (Metrics::of(&weighted), Metrics::of(&repeated));
    near(weighted.accuracy, repeated.accuracy.expect("defined"));
    // Above 0.8 and 0.2 is 0.9, above 0.2 are 0.6 and 0.4: 4 + 1 + 1 of 3 · 4.
    near(weighted.auroc, 6.0 / 12.0);
    near(repeated.auroc, 6.0 / 12.0);
}

#[test]
fn equal_scores_are_half_above_each_other() {
    let pairs = [pair(0, true, 0.5), pair(1, false, 0.5), pair(2, false, 0.1)];
    near(auroc_of(&pairs), 0.75);
    // In any order.
    let pairs = [pair(0, false, 0.5), pair(1, true, 0.5), pair(2, false, 0.1)];
    near(auroc_of(&pairs), 0.75);
}

#[test]
fn what_is_not_defined_is_none() {
    let none = Metrics::of(&[]);
    assert_eq!((none.auroc, none.accuracy), (None, None));
    let one = Metrics::of(&[pair(0, true, 0.7)]);
    assert_eq!((one.auroc, one.accuracy), (None, Some(1.0)));
    // One score for all orders nothing.
    let same = Metrics::of(&[pair(0, true, 0.5), pair(1, false, 0.5)]);
    assert_eq!((same.auroc, same.accuracy), (None, Some(0.5)));
}

#[test]
fn weights_tell_as_much_as_so_many_equal_steps() {
    let weighted = |step, weight| ScoredPair {
        weight,
        ..pair(step, true, 0.5)
    };
    assert_eq!(effective_steps(&[]), 0.0);
    // Steps of two pairs and of one with their weight are alike.
    let even = [weighted(0, 1.0), weighted(0, 1.0), weighted(1, 2.0)];
    assert!((effective_steps(&even) - 2.0).abs() < 1e-12);
    // 1 and 3: 16 over 10.
    let uneven = [weighted(0, 1.0), weighted(1, 3.0)];
    assert!((effective_steps(&uneven) - 1.6).abs() < 1e-12);
}

fn pairs() -> impl Strategy<Value = Vec<ScoredPair>> {
    let one = (0_usize..9, any::<bool>(), 0_u8..=20, 1_u8..4);
    let one = one.prop_map(|(step, label, score, weight)| ScoredPair {
        weight: f64::from(weight),
        ..pair(step, label, f64::from(score) / 20.0)
    });
    prop::collection::vec(one, 1..40)
}

fn constant(pairs: &[ScoredPair]) -> bool {
    pairs.iter().all(|pair| pair.score == pairs[0].score)
}

proptest! {
    /// The definition, pair by pair.
    #[test]
    fn auroc_is_the_share_of_pairs_in_order(pairs in pairs()) {
        let (mut above, mut all) = (0.0, 0.0);
        for a in pairs.iter().filter(|pair| pair.label) {
            for b in pairs.iter().filter(|pair| !pair.label) {
                let weight = a.weight * b.weight;
                all += weight;
                above += weight * match a.score.total_cmp(&b.score) {
                    std::cmp::Ordering::Greater => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Less => 0.0,
                };
            }
        }
        match auroc_of(&pairs) {
            None => prop_assert!(all == 0.0 || constant(&pairs)),
            Some(area) => prop_assert!((area - above / all).abs() < 1e-9),
        }
    }

    /// Scores that are turned around turn the area around.
    #[test]
    fn the_reverse_order_has_the_rest_of_the_area(pairs in pairs()) {
        let turned = pairs.iter().map(|pair| ScoredPair { score: 1.0 - pair.score, ..*pair });
        let turned: Vec<ScoredPair> = turned.collect();
        if let (Some(a), Some(b)) = (auroc_of(&pairs), auroc_of(&turned)) {
            prop_assert!((a + b - 1.0).abs() < 1e-9);
        }
    }
}

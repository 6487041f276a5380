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
        kept: score >= 0.3,
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

#[test]
fn metrics_are_those_computed_by_hand() {
    let pairs = five();
    let metrics = Metrics::of(&pairs, &Ranking::new(&pairs), |_| 1.0);
    // At 0.5: true positives 0.9 and 0.6, false positive 0.8, false negative 0.4, true negative 0.2.
    near(metrics.accuracy, 3.0 / 5.0);
    near(metrics.precision, 2.0 / 3.0);
    near(metrics.recall, 2.0 / 3.0);
    near(metrics.f1, 2.0 / 3.0);
    // Of six pairs of a dependent and an independent one, 0.6 and 0.4 are below 0.8.
    near(metrics.auroc, 4.0 / 6.0);
    // At 0.3 only 0.2 is out of sight.
    near(metrics.kept_recall, 1.0);
    near(metrics.kept_accuracy, 4.0 / 5.0);
    near(metrics.kept, 4.0 / 5.0);
}

#[test]
fn a_weight_is_so_many_equal_pairs() {
    let mut weighted = five();
    weighted[1].weight = 3.0;
    let mut repeated = five();
    repeated.extend([repeated[1]; 2]);
    let of = |pairs: &[ScoredPair]| Metrics::of(pairs, &Ranking::new(pairs), |_| 1.0).list();
    for (a, b) in of(&weighted).into_iter().zip(of(&repeated)) {
        near(a, b.expect("defined"));
    }
    // Above 0.8 and 0.2 is 0.9, above 0.2 are 0.6 and 0.4: 4 + 1 + 1 of 3 · 4.
    near(Ranking::new(&weighted).auroc(|_| 1.0), 6.0 / 12.0);
    // Leaving out a user task is a weight of nothing.
    let without = |task: usize| f64::from(u8::from(task != 1));
    near(Ranking::new(&weighted).auroc(without), 1.0);
}

#[test]
fn equal_scores_are_half_above_each_other() {
    let pairs = [pair(0, true, 0.5), pair(1, false, 0.5), pair(2, false, 0.1)];
    near(Ranking::new(&pairs).auroc(|_| 1.0), 0.75);
    // Whatever their order.
    let pairs = [pair(0, false, 0.5), pair(1, true, 0.5), pair(2, false, 0.1)];
    near(Ranking::new(&pairs).auroc(|_| 1.0), 0.75);
}

#[test]
fn what_is_not_defined_is_none() {
    let none = Metrics::of(&[], &Ranking::new(&[]), |_| 1.0);
    assert_eq!(none.list(), [None; NAMES.len()]);
    let one = [pair(0, true, 0.7)];
    let one = Metrics::of(&one, &Ranking::new(&one), |_| 1.0);
    assert_eq!((one.auroc, one.accuracy), (None, Some(1.0)));
    // Who says the same of all orders nothing.
    let same = [pair(0, true, 0.5), pair(1, false, 0.5)];
    let same = Metrics::of(&same, &Ranking::new(&same), |_| 1.0);
    assert_eq!((same.auroc, same.accuracy), (None, Some(0.5)));
}

#[test]
fn an_interval_covers_what_a_fair_coin_would_show() {
    // 400 user tasks, a quarter wrong: the standard error of the accuracy is 0.0217.
    let pairs = (0..400).map(|at| pair(at, at % 4 != 0, 0.9));
    let pairs: Vec<ScoredPair> = pairs.collect();
    let (low, high) = intervals(&pairs, 1, 2000)[0].expect("defined");
    assert!((low - (0.75 - 1.96 * 0.0217)).abs() < 0.006, "{low}");
    assert!((high - (0.75 + 1.96 * 0.0217)).abs() < 0.006, "{high}");
    // Sixteen steps of each of 25 tasks, all right or all wrong: four times the spread, whatever the steps.
    let copies = pairs.iter().map(|pair| ScoredPair {
        task: pair.step / 16,
        predicted: pair.step / 16 % 4 != 0,
        label: true,
        ..*pair
    });
    let copies: Vec<ScoredPair> = copies.collect();
    let (low, high) = intervals(&copies, 1, 2000)[0].expect("defined");
    assert!((0.28..0.40).contains(&(high - low)), "{low} to {high}");
    // In one user task they are one observation, so nothing is known of the spread.
    let pairs: Vec<ScoredPair> = pairs
        .iter()
        .map(|pair| ScoredPair { task: 7, ..*pair })
        .collect();
    assert_eq!(intervals(&pairs, 1, 100)[0], Some((0.75, 0.75)));
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
        match Ranking::new(&pairs).auroc(|_| 1.0) {
            None => prop_assert!(all == 0.0 || constant(&pairs)),
            Some(area) => prop_assert!((area - above / all).abs() < 1e-9),
        }
    }

    #[test]
    fn metrics_are_shares_and_their_intervals_are_in_order(pairs in pairs()) {
        let metrics = Metrics::of(&pairs, &Ranking::new(&pairs), |_| 1.0);
        for value in metrics.list().into_iter().flatten() {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&value));
        }
        for (low, high) in intervals(&pairs, 3, 40).into_iter().flatten() {
            prop_assert!(low <= high);
        }
    }

    /// Scores that are turned around turn the area around.
    #[test]
    fn the_reverse_order_has_the_rest_of_the_area(pairs in pairs()) {
        let turned = pairs.iter().map(|pair| ScoredPair { score: 1.0 - pair.score, ..*pair });
        let turned: Vec<ScoredPair> = turned.collect();
        if let (Some(a), Some(b)) = (Ranking::new(&pairs).auroc(|_| 1.0), Ranking::new(&turned).auroc(|_| 1.0)) {
            prop_assert!((a + b - 1.0).abs() < 1e-9);
        }
    }
}

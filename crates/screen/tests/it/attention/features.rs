//! Features against a computation that keeps everything and takes its time.

use ifc::{History, Label, RegionId};
use saliency::{Observer, Row};
use screen::attention::{
    Columns, Encoded, FeatureError, Reducer, RegionFeatures, Sight, Spoken, Transcript, Window,
    encode, features,
};

use crate::attention::histories::{WORDS, draft, secret, text, untrusted};

const LAYERS: usize = 2;
const HEADS: usize = 3;

struct Step {
    transcript: Transcript,
    draft: Spoken,
    encoded: Encoded,
}

fn step(history: &History, said: &str, calls: &[(&str, &str)]) -> Step {
    let transcript = Transcript::of(history);
    let draft = Spoken::of(&draft(said, calls));
    let encoded = encode(&transcript, &draft, &WORDS, Window::default()).unwrap();
    Step {
        transcript,
        draft,
        encoded,
    }
}

/// Two mails, one of which holds what is sent.
fn mails() -> History {
    let mut history = History::default();
    history.push_user(text(&[
        ("Send Bob's answer to ", None),
        ("ann@x.org", Some(secret())),
    ]));
    let read = ("read".to_owned(), text(&[("{}", None)]));
    let ids = history.push_assistant(&Label::bottom(), text(&[]), [read]);
    let mail = text(&[
        ("Body: ", None),
        ("Lunch is at noon sharp, says Bob", Some(untrusted())),
        ("\nBody: ", None),
        ("Nothing new under the sun", Some(untrusted())),
    ]);
    history.push_result(&Label::bottom(), ids[0], mail);
    history
}

fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count).map(|_| next()).collect()
}

/// Rows of a model that is not there: output, layer, head, attention, gradient.
type Made = (usize, usize, usize, Vec<f32>, Vec<f32>);

fn rows(encoded: &Encoded, seed: u64) -> Vec<Made> {
    let mut rows = Vec::new();
    for output in 0..encoded.output.len() {
        for layer in 0..LAYERS {
            for head in 0..HEADS {
                let length = encoded.input.len() + output;
                let seed = seed + ((output * LAYERS + layer) * HEADS + head) as u64;
                let attention = noise(seed, length).iter().map(|it| it.powi(6)).collect();
                let gradient = noise(seed + 7_777, length)
                    .iter()
                    .map(|it| it - 0.5)
                    .collect();
                rows.push((output, layer, head, attention, gradient));
            }
        }
    }
    rows
}

fn see(reducer: &mut Reducer, rows: &[Made]) {
    for (output, layer, head, attention, gradient) in rows {
        reducer.row(Row {
            output: *output,
            layer: *layer,
            head: *head,
            attention,
            gradient,
        });
    }
}

fn extract(step: &Step, columns: &Columns, seed: u64) -> Vec<RegionFeatures> {
    let mut reducer = Reducer::new(&step.encoded, columns);
    see(&mut reducer, &rows(&step.encoded, seed));
    let Step {
        transcript,
        draft,
        encoded,
    } = step;
    features(transcript, draft, encoded, columns, &reducer).unwrap()
}

/// The value of one named column of one region.
fn column(columns: &Columns, features: &[RegionFeatures], region: u32, name: &str) -> f32 {
    let at = columns.names().position(|it| it == name).unwrap();
    let region = features
        .iter()
        .find(|it| it.region == RegionId(region))
        .unwrap();
    region.values[at]
}

fn close(a: f64, b: f32) -> bool {
    (a - f64::from(b)).abs() <= 1e-4 + 1e-3 * a.abs()
}

/// Straight from the definitions, in double precision.
struct Naive<'a> {
    step: &'a Step,
    rows: &'a [Made],
}

impl Naive<'_> {
    fn is_value(&self, output: usize, argument: Option<usize>) -> bool {
        let values = &self.step.encoded.values;
        if values.is_empty() {
            return true;
        }
        let own = values.iter().find(|value| value.tokens.contains(&output));
        own.is_some_and(|own| argument.is_none_or(|wanted| own.argument == wanted))
    }

    /// `A_i`, over the output tokens for which `counts`.
    fn saliency(&self, counts: impl Fn(usize) -> bool) -> Vec<f64> {
        let mut sums = vec![0.0; self.step.encoded.input.len()];
        for (output, _, _, attention, gradient) in self.rows {
            if counts(*output) {
                for (token, sum) in sums.iter_mut().enumerate() {
                    *sum += (f64::from(attention[token]) * f64::from(gradient[token])).abs();
                }
            }
        }
        sums
    }

    /// Sum, mean, quantiles and peak.
    fn statistics(&self, saliency: &[f64], tokens: &std::ops::Range<usize>) -> Vec<f64> {
        let total: f64 = saliency.iter().sum();
        let input = saliency.len() as f64;
        let mut own: Vec<f64> = saliency[tokens.clone()].to_vec();
        let sum = own.iter().sum::<f64>() / total;
        own.sort_by(f64::total_cmp);
        let quantile = |part: f64| {
            let at = part * (own.len() - 1) as f64;
            let (low, high) = (own[at.floor() as usize], own[at.ceil() as usize]);
            (low + (high - low) * at.fract()) / total * input
        };
        let largest = saliency.iter().copied().fold(0.0, f64::max);
        let mean = sum * input / own.len() as f64;
        let peak = own[own.len() - 1] / largest;
        vec![
            sum,
            mean,
            quantile(0.2),
            quantile(0.5),
            quantile(0.8),
            quantile(0.99),
            peak,
        ]
    }

    /// Share, logarithm of the peak, spike.
    fn head(&self, layer: usize, head: usize, tokens: &std::ops::Range<usize>) -> [f64; 3] {
        let (mut own, mut total, mut peak, mut spike) = (0.0, 0.0, 0.0f64, 0.0f64);
        for (output, of_layer, of_head, attention, gradient) in self.rows {
            if (*of_layer, *of_head) != (layer, head) || !self.is_value(*output, None) {
                continue;
            }
            let product =
                |token: usize| (f64::from(attention[token]) * f64::from(gradient[token])).abs();
            let region: f64 = tokens.clone().map(product).sum();
            let all: f64 = (0..self.step.encoded.input.len()).map(product).sum();
            own += region;
            total += all;
            spike = spike.max(region / all);
            let largest = tokens.clone().map(|token| f64::from(attention[token]));
            peak = largest.fold(peak, f64::max);
        }
        [own / total, peak.max(1e-6).ln(), spike]
    }
}

/// Every column of saliency and heads against the definition.
fn compare(step: &Step, seed: u64) {
    let columns = Columns::full(LAYERS as u16, HEADS as u16);
    let found = extract(step, &columns, seed);
    let rows = rows(&step.encoded, seed);
    let naive = Naive { step, rows: &rows };
    let arguments = step
        .encoded
        .values
        .iter()
        .map(|value| value.argument)
        .max()
        .unwrap_or(0);
    let all = naive.saliency(|_| true);
    let values = naive.saliency(|output| naive.is_value(output, None));
    let single: Vec<Vec<f64>> = (0..=arguments)
        .map(|argument| naive.saliency(|output| naive.is_value(output, Some(argument))))
        .filter(|one| one.iter().sum::<f64>() > 0.0)
        .collect();
    let placed = step.transcript.regions().iter();
    let seen: Vec<_> = placed
        .zip(&step.encoded.regions)
        .filter_map(|(placed, sight)| match sight {
            Sight::Tokens(tokens) => Some((placed.region.0, tokens)),
            _ => None,
        })
        .collect();
    assert_eq!(found.len(), seen.len());
    for (region, tokens) in seen {
        let check = |name: String, expected: f64| {
            let value = column(&columns, &found, region, &name);
            assert!(
                close(expected, value),
                "{name} of {region}: {value}, not {expected}"
            );
        };
        let largest = single.iter().map(|one| naive.statistics(one, tokens));
        let largest = largest.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a.max(*b)).collect());
        let over = [
            ("all", naive.statistics(&all, tokens)),
            ("values", naive.statistics(&values, tokens)),
            ("argument", largest.unwrap()),
        ];
        for (over, statistics) in over {
            let names = ["sum", "mean", "q20", "q50", "q80", "q99", "peak"];
            for (name, expected) in names.iter().zip(statistics) {
                check(format!("{over}.{name}"), expected);
                check(format!("{over}.ln.{name}"), expected.max(1e-6).ln());
            }
        }
        for layer in 0..LAYERS {
            for head in 0..HEADS {
                let expected = naive.head(layer, head, tokens);
                for (name, expected) in ["share", "peak", "spike"].iter().zip(expected) {
                    check(format!("head.{layer}.{head}.{name}"), expected);
                }
            }
        }
    }
}

#[test]
fn features_of_a_call_are_those_of_the_definition() {
    let calls = [
        (
            "send",
            r#"{"to": "ann@x.org", "body": "Lunch is at noon sharp"}"#,
        ),
        ("log", r#"{"what": "sent"}"#),
    ];
    compare(&step(&mails(), "I send it.", &calls), 1);
}

#[test]
fn features_of_an_answer_and_of_a_call_without_values_too() {
    compare(&step(&mails(), "Lunch is at noon.", &[]), 2);
    compare(&step(&mails(), "", &[("list", "{}")]), 3);
}

#[test]
fn the_order_of_output_tokens_changes_nothing() {
    let calls = [(
        "send",
        r#"{"to": "ann@x.org", "body": "Lunch is at noon sharp"}"#,
    )];
    let step = step(&mails(), "I send it.", &calls);
    let columns = Columns::full(LAYERS as u16, HEADS as u16);
    let extract = |rows: &[Made]| {
        let mut reducer = Reducer::new(&step.encoded, &columns);
        see(&mut reducer, rows);
        let Step {
            transcript,
            draft,
            encoded,
        } = &step;
        features(transcript, draft, encoded, &columns, &reducer).unwrap()
    };
    let mut made = rows(&step.encoded, 6);
    let forwards = extract(&made);
    // Rows of one output token keep their order, as the engine promises.
    made.sort_by_key(|row| std::cmp::Reverse(row.0));
    assert_eq!(extract(&made), forwards);
}

#[test]
fn what_the_words_say() {
    let columns = Columns::full(0, 0);
    let call = r#"{"to": "ann@x.org", "body": "lunch is at NOON", "urgent": true}"#;
    let step = step(&mails(), "", &[("send", call)]);
    let features = extract(&step, &columns, 4);
    let of = |region, name| column(&columns, &features, region, name);
    // Region 0 is the user's address, 1 the mail that is passed on, 2 the other.
    assert_eq!(
        [of(0, "text.here"), of(1, "text.here"), of(2, "text.here")],
        [0.5, 0.5, 0.0]
    );
    assert_eq!(
        [
            of(0, "text.only-here"),
            of(1, "text.unique"),
            of(2, "text.unique")
        ],
        [0.5, 0.5, 0.0]
    );
    assert_eq!(of(1, "text.run"), 4f32.ln_1p());
    assert_eq!(
        [
            of(0, "text.cover"),
            of(1, "text.cover"),
            of(2, "text.cover")
        ],
        [1.0, 1.0, 0.0]
    );
    assert_eq!(of(1, "text.words"), 4.0 / 7.0);
    assert_eq!(of(1, "text.characters"), 13f32.ln_1p());
    assert_eq!(
        [of(0, "place.from-user"), of(1, "place.from-tool")],
        [1.0, 1.0]
    );
    assert_eq!([of(0, "place.newest"), of(1, "place.newest")], [0.0, 1.0]);
    assert_eq!(of(1, "place.same-tool"), 0.0);
}

#[test]
fn a_value_in_free_text_is_no_regions_own() {
    let mut history = mails();
    history.push_user(text(&[("Lunch is at noon, they said.", None)]));
    let step = step(&history, "", &[("send", r#"{"body": "lunch is at noon"}"#)]);
    let columns = Columns::full(0, 0);
    let features = extract(&step, &columns, 5);
    let of = |name| column(&columns, &features, 1, name);
    assert_eq!(
        [of("text.here"), of("text.only-here"), of("text.excess")],
        [1.0, 0.0, 0.0]
    );
}

#[test]
fn rows_that_do_not_fit_give_no_features() {
    let step = step(&mails(), "Noon.", &[]);
    let columns = Columns::paper();
    let (t, d, e) = (&step.transcript, &step.draft, &step.encoded);
    let mut made = rows(e, 1);
    let check = |rows: &[Made], expected: FeatureError| {
        let mut reducer = Reducer::new(e, &columns);
        see(&mut reducer, rows);
        let found = features(t, d, e, &columns, &reducer);
        assert_eq!(found, Err(expected));
    };
    check(&[], FeatureError::Rows);
    let short = (0, 0, 0, vec![0.1; 3], vec![0.1; 3]);
    check(&[&made[..], &[short]].concat(), FeatureError::Rows);
    made[0].4[0] = f32::NAN;
    check(&made, FeatureError::NotFinite("saliency".to_owned()));
}

#[test]
fn columns_have_stable_names() {
    let paper: Vec<String> = Columns::paper().names().collect();
    assert_eq!(
        paper,
        [
            "all.sum", "all.mean", "all.q20", "all.q50", "all.q80", "all.q99"
        ]
    );
    let full = Columns::full(1, 1);
    insta::assert_snapshot!(full.names().collect::<Vec<_>>().join("\n"));
    let names: Vec<String> = full.names().collect();
    assert_eq!(
        Columns::parse(names.iter().map(String::as_str)).unwrap(),
        full
    );
    for wrong in [
        "",
        "all",
        "all.ln",
        "head.01.1.share",
        "head.256.0.share",
        "head.-1.0.peak",
        "text.x",
    ] {
        assert!(Columns::parse([wrong]).is_err(), "{wrong}");
    }
    assert!(Columns::parse(["all.sum", "all.sum"]).is_err());
    assert!(Columns::parse([]).is_err());
}

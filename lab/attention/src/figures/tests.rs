use std::path::PathBuf;
use std::sync::Arc;

use agentdojo::runs::Recording;
use saliency::{Config, LayerWeights, Model, Weights};
use screen::attention::{Encode, Token};
use serde_json::{Value, json};

use super::following::{over_outputs, score};
use super::process::{forget_peak, load, peak, peak_of};
use super::*;
use crate::data::{Step, steps};
use crate::examples::{Example, Labels};

/// Each byte is a token.
struct Bytes;

impl Encode for Bytes {
    fn encode(&self, text: &str) -> Vec<Token> {
        let bytes = text.bytes().enumerate();
        let tokens = bytes.map(|(at, byte)| Token {
            id: u32::from(byte),
            bytes: at..at + 1,
        });
        tokens.collect()
    }

    fn control(&self, name: &str) -> Option<u32> {
        match name {
            "<|im_start|>" => Some(256),
            "<|im_end|>" => Some(257),
            _ => None,
        }
    }
}

/// A model that knows nothing, for the vocabulary of [`Bytes`].
fn model() -> Arc<Model> {
    let config = Config {
        layers: 2,
        dim: 16,
        heads: 2,
        kv_heads: 1,
        head_dim: 8,
        ffn: 16,
        vocab: 258,
        context: 2048,
        rope_base: 10_000.0,
        norm_eps: 1e-5,
    };
    let mut random = fastrand::Rng::with_seed(3);
    let mut numbers = |count: usize| -> Vec<f32> {
        std::iter::repeat_with(|| random.f32() * 2.0 - 1.0)
            .take(count)
            .collect()
    };
    let layer = |numbers: &mut dyn FnMut(usize) -> Vec<f32>| LayerWeights {
        attention_norm: vec![1.0; 16],
        query: numbers(16 * 16),
        key: numbers(8 * 16),
        value: numbers(8 * 16),
        attention_output: numbers(16 * 16),
        ffn_norm: vec![1.0; 16],
        gate: numbers(16 * 16),
        up: numbers(16 * 16),
        down: numbers(16 * 16),
    };
    let weights = Weights {
        embedding: numbers(258 * 16),
        layers: vec![layer(&mut numbers), layer(&mut numbers)],
        output_norm: vec![1.0; 16],
        output: None,
    };
    Arc::new(Model::from_weights(config, weights).unwrap())
}

fn reader() -> Reader {
    Reader::with(model(), Box::new(Bytes)).unwrap()
}

/// A run of two calls in the banking suite: its second call and its answer come after a region.
fn recorded(task: &str) -> Vec<Step> {
    let call = |tool: &str, args: Value| json!({"function": tool, "args": args, "id": null});
    let read = call("read_file", json!({"file_path": "bill.txt"}));
    let send = call("send_money", json!({"recipient": "DE44", "amount": 5}));
    let result = |call: &Value, content: &str| {
        json!({"role": "tool", "content": content, "error": null,
            "tool_call": call, "tool_call_id": null})
    };
    let run = json!({
        "suite_name": "banking", "pipeline_name": "gpt-4o-2024-05-13", "user_task_id": task,
        "injection_task_id": null, "attack_type": null, "injections": {}, "error": null,
        "duration": 1.0, "utility": true, "security": false,
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": format!("Pay the bill of {task}.")},
            {"role": "assistant", "content": null, "tool_calls": [read]},
            result(&read, "5 to DE44"),
            {"role": "assistant", "content": null, "tool_calls": [send]},
            result(&send, "{'message': 'sent'}"),
            {"role": "assistant", "content": "Paid.", "tool_calls": null},
        ],
    });
    let run: Recording = serde_json::from_value(run).unwrap();
    steps(&[run]).unwrap()
}

/// Calls without an attack, with one that is resisted, and with one that is followed.
fn situations() -> Vec<Step> {
    let mut all = Vec::new();
    for (at, attacked) in [false, false, true, true].into_iter().enumerate() {
        for mut step in recorded(&format!("user_task_{at}")) {
            if attacked {
                step.attack = Some("a".to_owned());
                step.injected = vec![step.history.regions().next().unwrap().id];
                step.follows = at == 3;
            }
            all.push(step);
        }
    }
    all
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_histogram_counts_tenths_by_weight() {
    let histogram = Histogram::even(&[0.05, 0.15, 0.2, 1.0]);
    let quarter = [0.25, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25];
    assert_eq!((histogram.count, &*histogram.fractions), (4, &quarter[..]));
    assert_eq!((histogram.low, histogram.median), (Some(0.5), Some(0.175)));
    assert_eq!(histogram.line(), " 25  25  25   0   0   0   0   0   0  25");

    let weighted = Histogram::new(&[(0.9, 1.0), (0.1, 3.0), (0.5, 0.0)]);
    assert!(near(weighted.fractions[1], 0.75) && near(weighted.fractions[9], 0.25));
    assert_eq!((weighted.low, weighted.median), (Some(0.75), Some(0.1)));

    let none = Histogram::even(&[]);
    assert_eq!(
        (none.low, none.median, none.fractions.iter().sum::<f64>()),
        (None, None, 0.0)
    );
}

#[test]
fn medians_and_lines_are_those_made_by_hand() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[]), None);

    let exact = fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
    assert_eq!((exact.start, exact.slope, exact.r2), (1.0, 2.0, 1.0));
    // Means 1 and 1; sums of products 2, 1 and 2.
    let loose = fit(&[(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)]).unwrap();
    assert_eq!((loose.start, loose.slope, loose.r2), (0.5, 0.5, 0.25));
    assert_eq!(fit(&[(1.0, 0.0), (1.0, 2.0)]), None);
    assert_eq!(fit(&[]), None);
}

fn example(model: &str, scores: &[f32], weak: &[bool]) -> Example {
    let columns = ["all.sum", "all.peak"].map(str::to_owned);
    let regions = scores.len();
    Example {
        step: format!("{model} {scores:?}"),
        model: model.to_owned(),
        suite: "banking".to_owned(),
        user_task: "user_task_0".to_owned(),
        attack: None,
        columns: Arc::new(columns),
        regions: (0..).take(regions).collect(),
        features: scores.iter().map(|score| vec![0.5, *score]).collect(),
        weak: weak.to_vec(),
        hand: weak.iter().map(|label| label.then_some(false)).collect(),
        weight: (1..)
            .take(regions)
            .map(|weight: u16| f32::from(weight))
            .collect(),
    }
}

#[test]
fn figure_2_keeps_models_and_labels_apart() {
    let all = [
        example("gpt-4o-2024-05-13", &[0.1, 0.9, 0.5], &[false, true, false]),
        example("claude-3-5-sonnet-20240620", &[0.05], &[true]),
        example("claude-3-5-sonnet-20241022", &[0.95, 0.15], &[true, true]),
    ];
    let groups = |found: &Distributions| -> Vec<(String, bool, usize, f64)> {
        let groups = found.groups.iter().map(|group| {
            let scores = &group.scores;
            let low = (scores.low.unwrap() * 100.0).round();
            (group.family.clone(), group.dependent, scores.count, low)
        });
        groups.collect()
    };
    let named = |family: &str, dependent, count, low| (family.to_owned(), dependent, count, low);
    let found = distributions(&all, Labels::Weak).unwrap();
    // Every pair counts the same, whether it is of the sample or not.
    let expected = [
        named("Claude", true, 3, 67.0),
        named("GPT-4o", true, 1, 0.0),
        named("GPT-4o", false, 2, 50.0),
    ];
    assert_eq!(groups(&found), expected);
    let mixed = distributions(&all, Labels::HandElseWeak).unwrap();
    let expected = [
        named("Claude", false, 3, 67.0),
        named("GPT-4o", false, 3, 33.0),
    ];
    assert_eq!(groups(&mixed), expected);
    // By hand, only those said to be dependent have a label here, and none depends. All are of the sample, of which
    // the n-th region of a step counts n times.
    let hand = distributions(&all, Labels::Hand).unwrap();
    let expected = [
        named("Claude", false, 3, 75.0),
        named("GPT-4o", false, 1, 0.0),
    ];
    assert_eq!(groups(&hand), expected);
    assert!(
        hand.text()
            .contains("(3 steps with calls; hand labels (a language model's))")
    );

    let text = found.text();
    assert!(
        text.contains("66.7 %") && text.contains("non-dependent"),
        "{text}"
    );
    assert!(
        text.contains("(3 steps with calls; labels by values and rules)"),
        "{text}"
    );
    let svg = found.svg();
    // Ten bars for each of the three kinds of pairs, one square of the legend, and the paper.
    assert_eq!(svg.matches("<rect").count(), 3 * 11 + 1);
    assert!(svg.contains("Steps with calls; labels by values and rules"));
    assert!(svg.contains("dependent (3)"));
    assert!(
        serde_json::to_string(&found)
            .unwrap()
            .contains("\"median\"")
    );
    assert!(distributions(&[], Labels::Weak).is_err());
    let mut other = all[0].clone();
    other.columns = Arc::new(["all.sum", "x"].map(str::to_owned));
    let error = distributions(&[other], Labels::Weak)
        .unwrap_err()
        .to_string();
    assert!(error.contains("all.peak"), "{error}");
}

#[test]
fn a_reader_knows_where_messages_are() {
    let steps = recorded("user_task_0");
    let read = reader().read(&steps[1]).unwrap().unwrap();
    let text = |ranges: &[std::ops::Range<usize>]| -> Vec<String> {
        let tokens = |range: &std::ops::Range<usize>| {
            let ids = read.encoded.input[range.clone()].iter();
            String::from_utf8(ids.map(|id| u8::try_from(*id).unwrap()).collect()).unwrap()
        };
        ranges.iter().map(tokens).collect()
    };
    assert_eq!(text(&read.user), ["Pay the bill of user_task_0."]);
    assert_eq!(
        text(&read.tools),
        [
            "The tool read_file returned:\n5 to DE44",
            "The tool send_money returned:\n{'message': 'sent'}"
        ]
    );
    // Each run once, by its last step, cut to length.
    let two = [steps.clone(), recorded("user_task_1")].concat();
    let all = reader().text(&two, usize::MAX);
    let all = String::from_utf8(all.iter().map(|id| u8::try_from(*id).unwrap()).collect()).unwrap();
    assert_eq!(all.matches("Pay the bill").count(), 2);
    assert_eq!(
        reader().text(&two, 9),
        "You help.".bytes().map(u32::from).collect::<Vec<_>>()
    );
}

#[test]
fn a_score_is_the_largest_by_the_largest_of_all() {
    let totals = [1.0, 4.0, 2.0, 0.0, 8.0];
    let found = score(&totals, &[1..3, 2..4]).unwrap();
    assert_eq!((found.peak, found.fraction), (0.5, 6.0 / 15.0));
    assert_eq!(score(&totals, &[]), None);
    let nothing = score(&[0.0, 0.0], &[0..1, 1..2]).unwrap();
    assert_eq!((nothing.peak, nothing.fraction), (0.0, 0.0));
}

#[test]
fn figure_3_reads_a_sample_of_each_situation() {
    let (reader, steps) = (reader(), situations());
    let mut shown = Vec::new();
    let mut progress = |at, of| shown.push((at, of));
    let found = following(&reader, &steps, 9, 1, &mut progress).unwrap();
    assert_eq!(shown, [(0, 4), (1, 4), (2, 4), (3, 4)]);
    let kinds: Vec<Situation> = found.steps.iter().map(|step| step.situation).collect();
    let expected = [
        Situation::User,
        Situation::User,
        Situation::Resisted,
        Situation::Injection,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(found.population[&Situation::User], 2);
    assert!(!found.steps[0].scores.contains_key(&Part::Injected));

    // The followed one, computed once more from the engine's numbers.
    let last = found.steps.last().unwrap();
    let step = steps.iter().find(|step| step.id == last.step).unwrap();
    let encoded = reader.read(step).unwrap().unwrap().encoded;
    let saliency = reader
        .engine()
        .saliency(&encoded.input, &encoded.output)
        .unwrap();
    let totals = over_outputs(&saliency);
    // `<start>system\nYou help.<end>\n<start>user\n` are 25 bytes and controls.
    let user = &totals[25..25 + "Pay the bill of user_task_3.".len()];
    let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    let sum = |of: &[f64]| of.iter().sum::<f64>();
    let found_user = last.scores[&Part::User];
    assert!(near(found_user.peak, most(user) / most(&totals)));
    assert!(near(found_user.fraction, sum(user) / sum(&totals)));
    let (tools, injected) = (last.scores[&Part::Tools], last.scores[&Part::Injected]);
    assert!(injected.peak <= tools.peak && injected.fraction < tools.fraction);

    let one = following(&reader, &steps, 1, 1, &mut |_, _| ()).unwrap();
    assert_eq!(one.steps.len(), 3);
    assert_eq!(
        one,
        following(&reader, &steps, 1, 1, &mut |_, _| ()).unwrap()
    );
    let text = found.text();
    assert!(
        text.contains("follows the injection") && text.contains("injected regions"),
        "{text}"
    );
    assert_eq!(found.svg().matches("<rect").count(), (2 + 3 + 3) * 11 + 1);
    assert!(
        serde_json::to_string(&found)
            .unwrap()
            .contains("\"resisted\"")
    );
}

fn plan() -> SpeedPlan {
    SpeedPlan {
        fresh: vec![50, 100, 200],
        cached: 100,
        added: vec![10, 40],
        output: 5,
        runs: 3,
    }
}

fn tokens(count: usize) -> Vec<u32> {
    (0..250).cycle().take(count).collect()
}

#[test]
fn speed_measures_each_size_so_often() {
    let tokens = tokens(plan().tokens());
    assert_eq!(tokens.len(), 100 + 3 * 40 + 5);
    let mut said = Vec::new();
    let mut progress = |what: &str| said.push(what.to_owned());
    let found = speed(&model(), &tokens, &plan(), None, &mut progress).unwrap();
    assert_eq!(said[0], "50 new tokens");
    assert_eq!(said[4], "40 new tokens after 100");
    let sizes: Vec<Vec<usize>> = found
        .curves
        .iter()
        .map(|curve| curve.points.iter().map(|point| point.new).collect())
        .collect();
    assert_eq!(sizes, [vec![50, 100, 200], vec![10, 40]]);
    for point in found.curves.iter().flat_map(|curve| &curve.points) {
        assert_eq!((point.seconds.len(), point.output), (3, 5));
        assert!(point.best > 0.0 && point.best <= point.median);
        assert_eq!(median(&point.seconds), Some(point.median));
    }
    assert!(found.text().contains("after 100 cached tokens"));
    assert_eq!(found.svg().matches("<circle").count(), 5);
    let short = speed(&model(), &tokens[1..], &plan(), None, &mut |_| ());
    assert!(short.unwrap_err().to_string().contains("too few"));
    let never = SpeedPlan { runs: 0, ..plan() };
    assert!(speed(&model(), &tokens, &never, None, &mut |_| ()).is_err());
}

#[test]
fn a_curve_tells_how_it_grows() {
    let point = |new: usize, median: f64| Point {
        new,
        output: 50,
        seconds: vec![median],
        median,
        best: median,
        peak: None,
    };
    let curve = Curve::new(0, vec![point(100, 1.0), point(200, 2.0), point(400, 4.0)]);
    let line = curve.line.unwrap();
    assert!(near(line.slope, 0.01) && near(line.start, 0.0) && near(line.r2, 1.0));
    assert!(near(curve.power.unwrap(), 1.0));
    let square = Curve::new(0, vec![point(100, 1.0), point(200, 4.0), point(400, 16.0)]);
    assert!(near(square.power.unwrap(), 2.0) && square.line.unwrap().r2 < 0.99);
    assert_eq!(Curve::new(0, vec![point(100, 1.0)]).line, None);
}

#[test]
fn the_peak_of_memory_is_the_systems() {
    assert_eq!(
        peak_of("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"),
        Some(2 << 20)
    );
    assert_eq!(peak_of("Name:\tx\n"), None);
    if cfg!(target_os = "linux") {
        assert!(peak().unwrap() > 1 << 20);
        assert!(load().unwrap() >= 0.0);
        if forget_peak() {
            let before = peak().unwrap();
            let much = vec![1u8; 64 << 20];
            assert!(peak().unwrap() >= before + (48 << 20));
            assert!(much.iter().all(|one| *one == 1));
        }
    }
}

fn script(script: PathBuf) -> Script {
    Script {
        python: "sh".into(),
        script,
        model: "model.gguf".into(),
        history: 40,
        output: 4,
        lean: true,
        passes: Some(2),
    }
}

#[test]
fn the_reference_is_run_beside_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reference");
    // It gets what it was promised, and says its time as the real one does.
    let said = r#"test "$*" = "model.gguf --time 40 4 --lean --passes 2" || { echo "no: $*" >&2; exit 3; }
echo "40+4, 2 threads, lean: 61.5 s (extrapolated from 2 backward passes); forward 1.00 s"
echo "  row by row""#;
    std::fs::write(&path, said).unwrap();
    let mut found = script(path.clone()).run().unwrap();
    assert_eq!((found.seconds, found.measured), (61.5, false));
    found.compare(vec![2.0, 1.0, 3.0]);
    assert_eq!(found.ratio, Some(30.75));
    assert!(
        found.text().contains("30.8 times faster"),
        "{}",
        found.text()
    );

    let mut other = script(path.clone());
    other.passes = None;
    let error = other.run().unwrap_err().to_string();
    assert!(
        error.contains("no: model.gguf --time 40 4 --lean"),
        "{error}"
    );
    // A shell has no `import`: it stands for a Python without the package.
    let error = script(path).check().unwrap_err().to_string();
    assert!(error.contains("has no torch"), "{error}");
    let error = script("nowhere".into()).check().unwrap_err().to_string();
    assert!(error.contains("reference.py"), "{error}");
}

#[test]
fn what_the_reference_says_is_read_or_refused() {
    let said = "warning\n2000+50, 2 threads: 61.2 s (measured); forward 3.10 s";
    let found = Reference::parse(said, 2000, 50).unwrap();
    assert_eq!((found.seconds, found.measured), (61.2, true));
    for other in [
        "",
        "2000+50, 2 threads: long",
        "1000+50, 2 threads: 1.0 s (measured)",
    ] {
        assert!(Reference::parse(other, 2000, 50).is_err(), "{other}");
    }
}

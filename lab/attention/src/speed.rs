//! What attention saliency costs: seconds of one step, from nothing and after a history that is in the cache.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use agentdojo::report::table;
use anyhow::{Context, Result, ensure};
use saliency::gguf::Gguf;
use saliency::tokenizer::Tokenizer;
use saliency::{CACHE_BYTES, Engine, Model, Observer, Row};
use screen::attention::{Encode, Transcript};

use crate::data::Step;

/// A feature model with its tokenizer.
pub struct Reader {
    model: Arc<Model>,
    tokenizer: Box<dyn Encode + Send + Sync>,
}

impl Reader {
    /// Reads with the model of this file.
    pub fn open(model: &Path) -> Result<Self> {
        let shown = model.display();
        let gguf = Gguf::open(model).with_context(|| format!("cannot read {shown}"))?;
        let tokenizer = Tokenizer::from_gguf(&gguf)?;
        let model = Arc::new(Model::from_gguf(&gguf)?);
        Ok(Self {
            model,
            tokenizer: Box::new(tokenizer),
        })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The first `count` tokens of the texts of these steps, one after the other; fewer if there are
    /// no more. Each run counts once, by its last step.
    pub fn text(&self, steps: &[Step], count: usize) -> Vec<u32> {
        let run = |step: &Step| step.id.rsplit_once('/').map(|(run, _)| run.to_owned());
        let runs = steps.chunk_by(|a, b| run(a) == run(b));
        let mut tokens = Vec::new();
        // The last step of a run has the longest history, and the histories of the others are its beginnings.
        for step in runs.filter_map(<[Step]>::last) {
            for turn in Transcript::of(&step.history).turns() {
                let new = self.tokenizer.encode(&turn.text).into_iter();
                tokens.extend(new.map(|token| token.id));
            }
            if tokens.len() >= count {
                break;
            }
        }
        tokens.truncate(count);
        tokens
    }
}

/// The sizes to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeedPlan {
    /// History tokens that are all new.
    pub fresh: Vec<usize>,
    /// The tokens of a cached history, to which others are added.
    pub cached: usize,
    /// Tokens that are added to it.
    pub added: Vec<usize>,
    /// Output tokens.
    pub output: usize,
    /// How often each is measured.
    pub runs: usize,
}

impl Default for SpeedPlan {
    /// The sizes that the project has set itself targets for.
    fn default() -> Self {
        Self {
            fresh: vec![500, 1000, 2000, 4000, 8000],
            cached: 4000,
            added: vec![1, 100, 300, 1000],
            output: 50,
            runs: 5,
        }
    }
}

impl SpeedPlan {
    /// How many tokens of text it needs.
    pub fn tokens(&self) -> usize {
        let fresh = self.fresh.iter().copied().max().unwrap_or_default();
        let added = self.added.iter().copied().max().unwrap_or_default();
        let after = self.cached + added * self.runs;
        fresh.max(after) + self.output
    }
}

/// The measurement of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// History tokens in the cache.
    pub cached: usize,
    /// New history tokens.
    pub new: usize,
    /// Of each run, sorted.
    pub seconds: Vec<f64>,
    /// The most memory of the process during these runs, in bytes.
    pub peak: Option<u64>,
}

impl Point {
    fn new(cached: usize, new: usize, mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self {
            cached,
            new,
            seconds,
            peak: peak(),
        }
    }

    /// The median of the runs, the upper one of an even number.
    pub fn median(&self) -> f64 {
        let middle = self.seconds.get(self.seconds.len() / 2);
        middle.copied().unwrap_or_default()
    }
}

/// Measures the model on these tokens, of which there must be [`SpeedPlan::tokens`].
///
/// # Errors
/// Too few tokens, or more than the model reads.
pub fn speed(
    model: &Arc<Model>,
    tokens: &[u32],
    plan: &SpeedPlan,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Point>> {
    ensure!(
        plan.runs > 0,
        "nothing is measured in 0 runs; give at least 1"
    );
    ensure!(
        tokens.len() >= plan.tokens(),
        "{} tokens of text are too few to measure {}; give more",
        tokens.len(),
        plan.tokens()
    );
    // The output is taken off first, so that no history begins with it.
    let output = tokens.get(..plan.output).unwrap_or_default();
    let tokens = tokens.get(plan.output..).unwrap_or_default();
    let mut points = Vec::new();
    for new in &plan.fresh {
        progress(&format!("{new} new tokens"));
        forget_peak();
        let history = tokens.get(..*new).unwrap_or(tokens);
        let mut seconds = Vec::new();
        for _ in 0..plan.runs {
            let engine = Engine::new(Arc::clone(model), CACHE_BYTES)?;
            seconds.push(once(&engine, history, output)?);
        }
        points.push(Point::new(0, *new, seconds));
    }
    for new in &plan.added {
        progress(&format!("{new} new tokens after {}", plan.cached));
        points.push(added(model, tokens, output, plan, *new)?);
    }
    Ok(points)
}

/// After a history that is in the cache; another text is added each time.
fn added(
    model: &Arc<Model>,
    tokens: &[u32],
    output: &[u32],
    plan: &SpeedPlan,
    new: usize,
) -> Result<Point> {
    forget_peak();
    let (known, rest) = tokens
        .split_at_checked(plan.cached)
        .unwrap_or((tokens, &[]));
    let engine = Engine::new(Arc::clone(model), CACHE_BYTES)?;
    // The last history token is never cached, so one more is given.
    let filled: Vec<u32> = known.iter().chain(rest.first()).copied().collect();
    engine.observe(&filled, &[], &mut Sums(Vec::new()))?;
    let mut seconds = Vec::new();
    for tail in rest.chunks_exact(new.max(1)).take(plan.runs) {
        let history = [known, tail].concat();
        seconds.push(once(&engine, &history, output)?);
    }
    Ok(Point::new(plan.cached, new, seconds))
}

/// Equation 2 of RTBAS: a number per output token and history token, summed over layers and heads.
struct Sums(Vec<Vec<f32>>);

impl Observer for Sums {
    fn row(&mut self, row: Row<'_>) {
        if let Some(sums) = self.0.get_mut(row.output) {
            row.add_to(sums);
        }
    }
}

fn once(engine: &Engine, history: &[u32], output: &[u32]) -> Result<f64> {
    let start = Instant::now();
    let mut sums = Sums(vec![vec![0.0; history.len()]; output.len()]);
    engine.observe(history, output, &mut sums)?;
    let seconds = start.elapsed().as_secs_f64();
    // Outside of the measured time. A model whose numbers are not finite would have a time that says nothing.
    ensure!(
        sums.0.iter().flatten().all(|value| value.is_finite()),
        "the saliency is not finite; check the model file"
    );
    Ok(seconds)
}

/// The most memory that the process has held, in bytes, since [`forget_peak`].
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Begins to count the peak anew, where the system allows it.
fn forget_peak() {
    // "5" resets the peak of the resident set (proc(5)).
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The points as a table.
pub fn text(points: &[Point]) -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rows = points.iter().map(|point| {
        let best = point.seconds.first().copied().unwrap_or_default();
        let gib = point.peak.map(|bytes| bytes as f64 / f64::from(1 << 30));
        vec![
            point.cached.to_string(),
            point.new.to_string(),
            format!("{:.3}", point.median()),
            format!("{best:.3}"),
            gib.map_or("–".to_owned(), |gib| format!("{gib:.2}")),
        ]
    });
    let head = [
        "cached tokens",
        "new tokens",
        "median s",
        "best s",
        "peak GiB",
    ];
    let table = table(0, &head, &rows.collect::<Vec<_>>());
    format!("Seconds of one step, {threads} threads\n{table}")
}

#[cfg(test)]
mod tests {
    use saliency::{Config, LayerWeights, Weights};

    use super::*;

    /// A model that knows nothing.
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

    #[test]
    fn speed_measures_each_size_so_often() {
        let plan = SpeedPlan {
            fresh: vec![50, 100, 200],
            cached: 100,
            added: vec![10, 40],
            output: 5,
            runs: 3,
        };
        let tokens: Vec<u32> = (0..250).cycle().take(plan.tokens()).collect();
        assert_eq!(tokens.len(), 100 + 3 * 40 + 5);
        let mut said = Vec::new();
        let mut progress = |what: &str| said.push(what.to_owned());
        let found = speed(&model(), &tokens, &plan, &mut progress).unwrap();
        assert_eq!(said[0], "50 new tokens");
        assert_eq!(said[4], "40 new tokens after 100");
        let sizes: Vec<_> = found.iter().map(|it| (it.cached, it.new)).collect();
        assert_eq!(sizes, [(0, 50), (0, 100), (0, 200), (100, 10), (100, 40)]);
        for point in &found {
            assert_eq!(point.seconds.len(), 3);
            assert_eq!(point.median(), point.seconds[1]);
            assert!(point.seconds[0] > 0.0 && point.peak > Some(1 << 20));
        }
        assert!(text(&found).contains("median s"));
        let short = speed(&model(), &tokens[1..], &plan, &mut |_| ());
        assert!(short.unwrap_err().to_string().contains("too few"));
        let never = SpeedPlan { runs: 0, ..plan };
        assert!(speed(&model(), &tokens, &never, &mut |_| ()).is_err());
    }
}

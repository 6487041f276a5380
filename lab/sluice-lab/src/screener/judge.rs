//! `sluice-lab screener judge`: what the LM judge says of the steps of the hand-labelled sample.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use agentdojo::python::cache_folder;
use anyhow::{Context, Result};
use attention::data::{Step, hand};
use attention::examples::Example;
use attention::train::baselines::Answers;
use clap::Args;
use hub::{AnswerShape, CompletionRequest, Purpose};
use ifc::{Label, Nonce, Relevance, Screener, Screening};
use llm::embedded::{Embedded, EmbeddedConfig};
use llm::models::{Cache, QWEN_CODER_1_5B, find};
use llm::{Broker, NoDeltas, ProviderError};
use screen::LmJudge;
use serde::{Deserialize, Serialize};

use super::steps;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::terminal::say;

#[derive(Debug, Args)]
pub(super) struct JudgeArgs {
    /// How many of the steps, in the order of the sample [default: all].
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
}

/// The judge's verdict on a step; `None` is everything.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    step: String,
    relevant: Option<BTreeSet<u32>>,
}

/// The embedded model that judges: the default one.
const MODEL: &str = QWEN_CODER_1_5B;

/// Verdicts are kept; one takes as long as reading its history.
fn file() -> Result<PathBuf> {
    Ok(cache_folder()?.join(format!("screener-judge-{MODEL}.jsonl")))
}

fn read() -> Result<Vec<Verdict>> {
    let file = file()?;
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&file)?;
    let verdict = |line: &str| {
        serde_json::from_str(line)
            .with_context(|| format!("{} is damaged; remove it and judge again", file.display()))
    };
    text.lines().map(verdict).collect()
}

pub(super) async fn judge(args: &JudgeArgs, progress: &Progress) -> Result<Exit> {
    let own = progress.clone();
    let all = tokio::task::spawn_blocking(move || steps(&own)).await??;
    let all: BTreeMap<&str, &Step> = all.iter().map(|step| (step.id.as_str(), step)).collect();
    let done: BTreeSet<String> = read()?.into_iter().map(|it| it.step).collect();
    progress.say("loading the model");
    let model = find(MODEL).context("there is no such model")?;
    let config = EmbeddedConfig::new("judge", Cache::of_user()?.open(model)?);
    let broker = Broker::new(Arc::new(Embedded::load(config).await?), Label::top());
    let file = file()?;
    let mut out = OpenOptions::new().append(true).create(true).open(&file)?;
    let sample = hand::sample()?;
    let wanted = args.steps.unwrap_or(sample.len()).min(sample.len());
    for (at, sampled) in sample.iter().take(wanted).enumerate() {
        progress.moved("judging", at, wanted);
        if done.contains(&sampled.step) {
            continue;
        }
        let step = all.get(sampled.step.as_str());
        let step = step.with_context(|| format!("{} was not recorded", sampled.step))?;
        let verdict = Verdict {
            step: step.id.clone(),
            relevant: ask(&broker, step, at).await?,
        };
        writeln!(out, "{}", serde_json::to_string(&verdict)?)?;
    }
    progress.clear();
    say(&format!(
        "{wanted} steps are judged in {}\n",
        file.display()
    ));
    Ok(Exit::Done)
}

/// One consultation. The nonce need not be secret: the recordings are older than it.
async fn ask(broker: &Broker, step: &Step, number: usize) -> Result<Option<BTreeSet<u32>>> {
    let nonce = Nonce::from_random(0x9e37_79b9_7f4a_7c15 ^ number as u64);
    let consultation = match LmJudge.screen(&step.history, None, &nonce) {
        Screening::Consult(consultation) => consultation,
        Screening::Decided(Relevance::Only(regions)) => {
            return Ok(Some(regions.into_iter().map(|region| region.0).collect()));
        }
        Screening::Decided(Relevance::Everything) => return Ok(None),
    };
    let form = LmJudge.form(&consultation);
    let request = CompletionRequest {
        prompt: consultation.prompt.clone(),
        purpose: Purpose::Judge,
        shape: AnswerShape::Json {
            schema: form.schema.to_owned(),
        },
        max_tokens: form.max_tokens,
    };
    let relevance = match broker.complete(&request, &mut NoDeltas).await {
        Ok(answer) => LmJudge.read(&consultation, &answer.completion.text),
        // As in a session. Another error is no verdict, and the next call asks again.
        Err(ProviderError::ContextLength { .. }) => Relevance::Everything,
        Err(error) => return Err(error.into()),
    };
    Ok(match relevance {
        Relevance::Everything => None,
        Relevance::Only(regions) => Some(regions.into_iter().map(|region| region.0).collect()),
    })
}

/// What the embedded judge has said so far, as a row of the tables; `None` if it was not asked.
pub(super) fn answers(examples: &[Example]) -> Result<Option<Answers>> {
    let verdicts: BTreeMap<String, Option<BTreeSet<u32>>> = read()?
        .into_iter()
        .map(|verdict| (verdict.step, verdict.relevant))
        .collect();
    let scores = examples.iter().filter_map(|example| {
        let relevant = verdicts.get(&example.step)?;
        let is_relevant = |region: &u32| relevant.as_ref().is_none_or(|all| all.contains(region));
        let scores = example.regions.iter().map(is_relevant);
        Some((example.step.clone(), scores.map(f64::from).collect()))
    });
    let scores: BTreeMap<String, Vec<f64>> = scores.collect();
    Ok((!scores.is_empty()).then(|| Answers {
        name: format!("judge ({MODEL})"),
        scores: Arc::new(scores),
    }))
}

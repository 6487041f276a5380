//! From steps to features: the feature model reads every recorded step.
//!
//! Runs come in an order that is as good as random, so that the beginning of an unfinished file is a
//! sample of the whole; the steps of one run come one after the other, so that each finds the tokens
//! of the one before it in the model's cache.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use saliency::gguf::Gguf;
use saliency::tokenizer::Tokenizer;
use saliency::{CACHE_BYTES, Engine, Model};
use screen::attention::{
    Columns, EncodeError, Encoded, Reducer, RegionFeatures, Spoken, Transcript, Window, encode,
    features,
};
use sha2::{Digest, Sha256};

use crate::data::Step;
use crate::examples::{Example, Header, Writer};

/// The feature model, ready to read.
pub struct Extractor {
    engine: Engine,
    tokenizer: Tokenizer,
    columns: Columns,
    names: Arc<[String]>,
    digest: String,
}

impl Extractor {
    /// Reads with the model of this file, for every feature that there is.
    pub fn open(model: &Path) -> Result<Self> {
        let shown = model.display();
        // Read once, so that the digest in the header is of the very bytes that are parsed.
        let bytes = std::fs::read(model).with_context(|| format!("cannot read {shown}"))?;
        let digest = Sha256::digest(&bytes);
        let gguf = Gguf::from_bytes(bytes).with_context(|| format!("cannot read {shown}"))?;
        let tokenizer = Tokenizer::from_gguf(&gguf)?;
        let model = Arc::new(Model::from_gguf(&gguf)?);
        let (layers, heads) = (model.config().layers, model.config().heads);
        let columns = Columns::full(u16::try_from(layers)?, u16::try_from(heads)?);
        let names: Vec<String> = columns.names().collect();
        Ok(Self {
            engine: Engine::new(model, CACHE_BYTES)?,
            tokenizer,
            columns,
            names: names.into(),
            digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    /// The header of a file of its examples.
    pub fn header(&self) -> Header {
        let extractor = format!("model {}, {}", self.digest, Window::default().context);
        Header::new(&extractor, &self.names)
    }

    /// The features of the regions of a step that the model sees; `None` if it cannot read the step.
    pub fn read(&self, step: &Step) -> Result<Option<Vec<RegionFeatures>>> {
        let transcript = Transcript::of(&step.history);
        let spoken = Spoken::of(&step.draft);
        let Some(encoded) = self.encode(&transcript, &spoken)? else {
            return Ok(None);
        };
        let mut reducer = Reducer::new(&encoded, &self.columns);
        self.engine
            .observe(&encoded.input, &encoded.output, &mut reducer)?;
        let found = features(&transcript, &spoken, &encoded, &self.columns, &reducer);
        Ok(Some(found?))
    }

    /// A step as tokens; `None` if the model cannot read it.
    fn encode(&self, transcript: &Transcript, spoken: &Spoken) -> Result<Option<Encoded>> {
        match encode(transcript, spoken, &self.tokenizer, Window::default()) {
            Ok(encoded) => Ok(Some(encoded)),
            // Both lie in this step alone. Every other error (an unknown template, too small a window) would meet all
            // steps.
            Err(EncodeError::EmptyDraft | EncodeError::DraftTooLong { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Its labels come when the file is read: see [`label`](crate::label).
    pub(crate) fn example(&self, step: &Step) -> Result<Option<Example>> {
        let Some(found) = self.read(step)? else {
            return Ok(None);
        };
        let count = found.len();
        let goal = step.goal.as_deref().unwrap_or("none");
        let attack = step
            .attack
            .as_ref()
            .map(|attack| format!("{attack}/{goal}"));
        Ok(Some(Example {
            step: step.id.clone(),
            model: step.model.clone(),
            suite: step.suite.clone(),
            user_task: step.user_task.clone(),
            attack,
            columns: Arc::clone(&self.names),
            regions: found.iter().map(|region| region.region.0).collect(),
            weak: vec![false; count],
            features: found.into_iter().map(|region| region.values).collect(),
            hand: vec![None; count],
            weight: vec![1.0; count],
        }))
    }
}

/// The SHA-256 of the model file that made these features, as [`Extractor::header`] says.
pub fn model_of(header: &Header) -> Option<&str> {
    let (model, _) = header.extractor.strip_prefix("model ")?.split_once(", ")?;
    Some(model)
}

/// What an extraction did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Steps in the file now.
    pub steps: usize,
    /// Steps that the model cannot read: their draft is empty or too long.
    pub unread: usize,
}

/// Reads steps into the file at `path`, those of `first` before all others, until `enough` says so. A
/// file that is there already is continued.
pub fn extract(
    extractor: &Extractor,
    steps: &[Step],
    first: &BTreeSet<String>,
    path: &Path,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Extracted> {
    let mut writer = Writer::open(path, &extractor.header())?;
    let mut done = Extracted::default();
    for (at, step) in in_order(steps, first).into_iter().enumerate() {
        if !progress(at, steps.len()) {
            break;
        }
        if !writer.has(&step.id) {
            let example = extractor.example(step);
            match example.with_context(|| format!("step {}", step.id))? {
                Some(example) => writer.add(&example)?,
                None => {
                    done.unread += 1;
                    continue;
                }
            }
        }
        done.steps += 1;
    }
    Ok(done)
}

/// Runs in an order that is as good as random but always the same, those with a step of `first`
/// before the others.
fn in_order<'a>(steps: &'a [Step], first: &BTreeSet<String>) -> Vec<&'a Step> {
    let run = |step: &'a Step| step.id.rsplit_once('/').map_or("", |(run, _)| run);
    let mut runs: HashMap<&str, (bool, Vec<&Step>)> = HashMap::new();
    for step in steps {
        let (wanted, of_run) = runs.entry(run(step)).or_default();
        *wanted |= first.contains(&step.id);
        of_run.push(step);
    }
    // A digest of the name shuffles without a seed and without a list: a run keeps its place when others are added.
    // `false` sorts first.
    let mut runs: Vec<(bool, [u8; 32], Vec<&Step>)> = runs
        .into_iter()
        .map(|(name, (wanted, steps))| (!wanted, Sha256::digest(name).into(), steps))
        .collect();
    runs.sort_by_key(|(others, digest, _)| (*others, *digest));
    runs.into_iter().flat_map(|(_, _, steps)| steps).collect()
}

//! Recorded steps and their features, as every command finds them.

use std::path::PathBuf;

use agentdojo::python::cache_folder;
use anyhow::Result;
use attention::data::Step;
use attention::examples::{Example, Header};
use clap::Args;

use crate::progress::Progress;

/// Where the features of recorded steps are kept.
#[derive(Debug, Args)]
pub(crate) struct Kept {
    /// The file of features [default: in the user's cache folder].
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
}

impl Kept {
    pub(super) fn file(&self) -> Result<PathBuf> {
        match &self.features {
            Some(file) => Ok(file.clone()),
            None => Ok(cache_folder()?.join("screener-features")),
        }
    }

    /// The examples that are there, with their labels.
    pub(crate) fn read(&self, progress: &Progress) -> Result<(Header, Vec<Example>)> {
        let file = self.file()?;
        if !file.exists() {
            anyhow::bail!(
                "there are no features in {}; run `sluice-lab screener features` first",
                file.display()
            );
        }
        let steps = steps(progress)?;
        progress.say("reading features and labels");
        let (header, mut examples) = attention::examples::read(&file)?;
        attention::label::label(&mut examples, &steps)?;
        Ok((header, examples))
    }
}

pub(crate) fn steps(progress: &Progress) -> Result<Vec<Step>> {
    let python = agentdojo::python::Python::ready(&mut |line| progress.say(line))?;
    attention::corpus::call_steps(&cache_folder()?, python.interpreter(), &mut |line| {
        progress.say(line);
    })
}

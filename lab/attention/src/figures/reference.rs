//! The PyTorch reference, run by hand beside the engine: `python/reference.py --time N M`.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::number;
use super::statistics::median;

/// How to run the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// A Python that has what `requirements-reference.txt` names, and PyTorch.
    pub python: PathBuf,
    /// `lab/attention/python/reference.py`.
    pub script: PathBuf,
    /// The model file.
    pub model: PathBuf,
    /// History tokens.
    pub history: usize,
    /// Output tokens.
    pub output: usize,
    /// Free gradients early: all attention maps of 2,000 tokens take many gigabytes.
    pub lean: bool,
    /// Stop after so many backward passes, and extrapolate; `None` for all of them.
    pub passes: Option<usize>,
}

/// What the reference took, and what the engine took in the same command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reference {
    /// History tokens.
    pub history: usize,
    /// Output tokens.
    pub output: usize,
    /// The reference's seconds.
    pub seconds: f64,
    /// Was every backward pass run? Else the seconds are extrapolated from some.
    pub measured: bool,
    /// What it reports: threads, seconds of each part, memory.
    pub line: String,
    /// The engine's seconds, half of the runs before the reference and half after.
    pub engine: Vec<f64>,
    /// The reference's seconds by the engine's median.
    pub ratio: Option<f64>,
}

/// The packages that the script imports.
const PACKAGES: [&str; 3] = ["torch", "gguf", "tokenizers"];

/// The last words of Python that an error shows.
const ERROR_BYTES: usize = 400;

impl Script {
    /// Is there all that the script needs?
    ///
    /// # Errors
    /// Python, the script or a package is missing: says which, and how to get it.
    pub fn check(&self) -> Result<()> {
        let script = self.script.display();
        if !self.script.is_file() {
            bail!("{script} is not there; give the path of lab/attention/python/reference.py");
        }
        for package in PACKAGES {
            // One by one, so that the message names the package that is missing.
            let import = format!("import {package}");
            let done = self.python(&["-c", &import])?;
            if !done.status.success() {
                let python = self.python.display();
                bail!(
                    "{python} has no {package}; the head of {script} says how to install it, or leave the reference out"
                );
            }
        }
        Ok(())
    }

    /// Runs it: at 2,000 + 50 tokens this takes minutes.
    ///
    /// # Errors
    /// It fails, or prints something unexpected.
    pub fn run(&self) -> Result<Reference> {
        let mut arguments = vec![
            self.script.display().to_string(),
            self.model.display().to_string(),
            "--time".to_owned(),
            self.history.to_string(),
            self.output.to_string(),
        ];
        if self.lean {
            arguments.push("--lean".to_owned());
        }
        if let Some(passes) = self.passes {
            arguments.extend(["--passes".to_owned(), passes.to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = self.python(&arguments)?;
        if !done.status.success() {
            let error = String::from_utf8_lossy(&done.stderr);
            let error = error.trim_end();
            // A traceback ends with the error, so its last bytes are shown, from a whole character
            // on.
            let from = error.len().saturating_sub(ERROR_BYTES);
            let from = (from..error.len()).find(|at| error.is_char_boundary(*at));
            let end = from.and_then(|from| error.get(from..)).unwrap_or_default();
            bail!("the reference failed ({}): …{end}", done.status);
        }
        let said = String::from_utf8_lossy(&done.stdout);
        Reference::parse(&said, self.history, self.output)
    }

    fn python(&self, arguments: &[&str]) -> Result<Output> {
        let python = self.python.display();
        Command::new(&self.python)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("{python} does not start; give the path of a Python"))
    }
}

impl Reference {
    /// What the script printed: `2000+50, 2 threads, lean: 61.2 s (measured); …`.
    pub(super) fn parse(said: &str, history: usize, output: usize) -> Result<Self> {
        let begin = format!("{history}+{output}, ");
        let line = said.lines().find(|line| line.starts_with(&begin));
        let line = line.context("the reference printed no time; is the script of this version?")?;
        let time = line.split_once(": ").and_then(|(_, rest)| {
            let (seconds, rest) = rest.split_once(" s (")?;
            Some((seconds.parse::<f64>().ok()?, rest.starts_with("measured")))
        });
        let (seconds, measured) =
            time.with_context(|| format!("the reference printed no time: {line}"))?;
        Ok(Self {
            history,
            output,
            seconds,
            measured,
            line: line.to_owned(),
            engine: Vec::new(),
            ratio: None,
        })
    }

    pub(super) fn compare(&mut self, engine: Vec<f64>) {
        let median = median(&engine).filter(|median| *median > 0.0);
        self.ratio = median.map(|median| self.seconds / median);
        self.engine = engine;
    }

    pub(super) fn text(&self) -> String {
        let ratio = self
            .ratio
            .map_or(String::new(), |ratio| format!(", {ratio:.1} times faster"));
        format!(
            "PyTorch autograd {}\nthe engine, {} runs around it: median {} s{ratio}\n",
            self.line,
            self.engine.len(),
            number(median(&self.engine), 3),
        )
    }
}

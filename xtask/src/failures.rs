//! What fails of several parts that are all run.

use anyhow::{Result, bail};

/// The parts that failed, in order, each with its reason.
#[derive(Default)]
pub(crate) struct Failures(Vec<String>);

impl Failures {
    /// Remembers what came of a part, and says at once if it failed: the others may take hours.
    pub(crate) fn note(&mut self, part: &str, result: Result<()>) {
        if let Err(error) = result {
            let failure = format!("{part}: {error:#}");
            eprintln!("xtask: {failure}; going on with the other parts");
            self.0.push(failure);
        }
    }

    /// One error for all parts that failed.
    ///
    /// # Errors
    /// One failed.
    pub(crate) fn result(self) -> Result<()> {
        match self.0.as_slice() {
            [] => Ok(()),
            failures => bail!(
                "{} parts failed:\n  {}",
                failures.len(),
                failures.join("\n  ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn every_part_that_failed_is_named() {
        let mut failures = Failures::default();
        failures.note("worlds", Err(anyhow!("exit status: 101")));
        failures.note("kills", Ok(()));
        failures.note("fresh", Err(anyhow!("no disk").context("Debian")));
        let error = failures.result().unwrap_err().to_string();
        let expected = "2 parts failed:\n  worlds: exit status: 101\n  fresh: Debian: no disk";
        assert_eq!(error, expected);
        assert!(Failures::default().result().is_ok());
    }
}

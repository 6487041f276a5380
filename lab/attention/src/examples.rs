//! Steps as numbers: the features and labels of their regions, and the file that keeps them.
//!
//! Extracting features takes an hour, training minutes, so the features are kept. The file holds one line of JSON with
//! [`Header`], then one for each step. It only grows: a writer that was killed goes on after the last complete line.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The regions of one step with their features and labels. All lists are as long as `regions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// Which step of which run: unique in a file.
    pub step: String,
    /// The model whose run was recorded.
    pub model: String,
    /// The suite of the user's task.
    pub suite: String,
    /// The user's task: what splits keep together.
    pub user_task: String,
    /// The attack and its goal; `None` without one.
    pub attack: Option<String>,
    /// The names of the features; in a file they are in the header.
    #[serde(skip)]
    pub columns: Arc<[String]>,
    /// The regions in the order of the history.
    pub regions: Vec<u32>,
    /// For each region one value per column.
    pub features: Vec<Vec<f32>>,
    /// Does the call depend on the region, by values and rules?
    pub weak: Vec<bool>,
    /// Does it, as read "by hand" ([`hand`](crate::data::hand): by a language model, one by one)? `None` where it was
    /// not read.
    pub hand: Vec<Option<bool>>,
    /// The sampling weight of each pair; 1 where pairs were not sampled.
    pub weight: Vec<f32>,
}

/// Which labels predictions are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Labels {
    /// Those by values and rules, from which everything learns.
    Weak,
    /// Those of [`hand`](crate::data::hand); other regions have none.
    Hand,
}

impl Labels {
    /// The labels of an example's regions; `None` where there is none.
    #[must_use]
    pub fn of(self, example: &Example) -> Vec<Option<bool>> {
        let pairs = example.weak.iter().zip(&example.hand);
        let label = |(weak, hand): (&bool, &Option<bool>)| match self {
            Self::Weak => Some(*weak),
            Self::Hand => *hand,
        };
        pairs.map(label).collect()
    }

    /// The weight of each region of an example. Sampling weights stand for the pairs that the sample was drawn from,
    /// so they count only where all pairs are of the sample.
    #[must_use]
    pub fn weights(self, example: &Example) -> Vec<f64> {
        match self {
            Self::Hand => example.weight.iter().copied().map(f64::from).collect(),
            Self::Weak => vec![1.0; example.regions.len()],
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Weak => "labels by values and rules",
            Self::Hand => "hand labels (a language model's)",
        })
    }
}

impl Example {
    /// What a split may not part: the user's task.
    pub fn group(&self) -> (&str, &str) {
        (&self.suite, &self.user_task)
    }

    /// # Errors
    /// When a list is not as long as the regions, or a number is not finite.
    pub fn check(&self) -> Result<()> {
        let regions = self.regions.len();
        let lengths = [
            self.features.len(),
            self.weak.len(),
            self.hand.len(),
            self.weight.len(),
        ];
        // A list of another length would silently pair features with the labels of other regions.
        ensure!(
            lengths.iter().all(|length| *length == regions),
            "step {}: {regions} regions, but lists of {lengths:?}; extract it again",
            self.step
        );
        for row in &self.features {
            ensure!(
                row.len() == self.columns.len() && row.iter().all(|value| value.is_finite()),
                "step {}: a region has {} finite features of {}; extract it again",
                self.step,
                row.iter().filter(|value| value.is_finite()).count(),
                self.columns.len()
            );
        }
        ensure!(
            self.weight
                .iter()
                .all(|weight| weight.is_finite() && *weight >= 0.0),
            "step {}: a weight is negative or not finite",
            self.step
        );
        Ok(())
    }

    /// The same step with these columns only, in this order.
    pub fn with_columns(&self, columns: &Arc<[String]>) -> Result<Self> {
        if self.columns == *columns {
            return Ok(self.clone());
        }
        let place = |name: &String| {
            let place = self.columns.iter().position(|column| column == name);
            place.with_context(|| format!("step {}: no feature is named {name}", self.step))
        };
        let places: Vec<usize> = columns.iter().map(place).collect::<Result<_>>()?;
        let select = |row: &Vec<f32>| -> Vec<f32> {
            let values = places.iter().filter_map(|place| row.get(*place));
            values.copied().collect()
        };
        Ok(Self {
            columns: Arc::clone(columns),
            features: self.features.iter().map(select).collect(),
            ..self.clone()
        })
    }
}

/// The SHA-256 of steps, features and weak labels: what a classifier was trained on.
pub fn digest(examples: &[Example]) -> String {
    let mut hash = Sha256::new();
    for example in examples {
        // The length parts a step's name from the numbers behind it.
        hash.update((example.step.len() as u64).to_le_bytes());
        hash.update(example.step.as_bytes());
        for ((region, row), weak) in
            (example.regions.iter().zip(&example.features)).zip(&example.weak)
        {
            hash.update(region.to_le_bytes());
            hash.update([u8::from(*weak)]);
            row.iter()
                .for_each(|value| hash.update(value.to_le_bytes()));
        }
    }
    hex(&hash.finalize())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The header of a file of examples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    format: String,
    /// What made the features: the feature model's file by its digest, and how tokens were read.
    pub extractor: String,
    /// The names of the features.
    pub columns: Vec<String>,
    /// Of extractor and columns: files with the same digest may be joined.
    pub digest: String,
}

/// The first words of every file, with the version of the format.
const FORMAT: &str = "sluice examples 2";
impl Header {
    /// The header of features by this extractor.
    pub fn new(extractor: &str, columns: &[String]) -> Self {
        let mut hash = Sha256::new();
        for part in [FORMAT, extractor]
            .into_iter()
            .chain(columns.iter().map(String::as_str))
        {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        Self {
            format: FORMAT.to_owned(),
            extractor: extractor.to_owned(),
            columns: columns.to_vec(),
            digest: hex(&digest),
        }
    }
}

/// All examples of a file.
///
/// # Errors
/// When the file cannot be read, is of another version, or ends within a step.
pub fn read(path: &Path) -> Result<(Header, Vec<Example>)> {
    let shown = path.display();
    let bytes = fs::read(path).with_context(|| format!("{shown} cannot be read"))?;
    let (header, examples, end) = parse(&bytes).with_context(|| shown.to_string())?;
    ensure!(
        end == bytes.len(),
        "{shown} ends within a step: extract again to go on"
    );
    Ok((header, examples))
}

/// The header, the examples, and where the last complete line ends.
fn parse(bytes: &[u8]) -> Result<(Header, Vec<Example>, usize)> {
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let end = end.map_or(0, |last| last + 1);
    let complete = bytes.get(..end).unwrap_or_default();
    let mut lines = complete.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let header: Header =
        serde_json::from_slice(first).context("it is no file of examples: extract them anew")?;
    // Computed again, not believed: a header whose columns were edited has another digest.
    ensure!(
        header == Header::new(&header.extractor, &header.columns),
        "it is of another version ({}, not {FORMAT}): extract it anew",
        header.format
    );
    let columns: Arc<[String]> = header.columns.clone().into();
    let mut examples = Vec::new();
    for line in lines {
        let example: Example =
            serde_json::from_slice(line).context("it is damaged: remove it and extract anew")?;
        let example = Example {
            columns: Arc::clone(&columns),
            ..example
        };
        example.check()?;
        examples.push(example);
    }
    Ok((header, examples, end))
}

/// Adds steps to a file.
pub struct Writer {
    file: File,
    header: Header,
    done: BTreeSet<String>,
}

impl Writer {
    /// A new file, or the one that is there if its header is the same: half a step at its end is removed.
    ///
    /// # Errors
    /// When the file holds other features, is damaged before its end, or cannot be written.
    pub fn open(path: &Path, header: &Header) -> Result<Self> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        let mut file = options
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("{shown} cannot be written"))?;
        let bytes = fs::read(path).with_context(|| format!("{shown} cannot be read"))?;
        let mut done = BTreeSet::new();
        if bytes.is_empty() {
            write_line(&mut file, header)?;
        } else {
            let (own, examples, end) = parse(&bytes).with_context(|| shown.to_string())?;
            ensure!(
                own == *header,
                "{shown} holds other features (digest {}, not {}): choose another file",
                own.digest,
                header.digest
            );
            file.set_len(end as u64)?;
            done.extend(examples.into_iter().map(|example| example.step));
        }
        Ok(Self {
            file,
            header: header.clone(),
            done,
        })
    }

    /// Is this step in the file?
    pub fn has(&self, step: &str) -> bool {
        self.done.contains(step)
    }

    /// Adds a step, and writes it at once.
    ///
    /// # Errors
    /// When the example is not well-formed, is there already, or cannot be written.
    pub fn add(&mut self, example: &Example) -> Result<()> {
        example.check()?;
        ensure!(
            *example.columns == *self.header.columns,
            "step {} has other columns than the file",
            example.step
        );
        ensure!(
            self.done.insert(example.step.clone()),
            "step {} is in the file already",
            example.step
        );
        write_line(&mut self.file, example)
    }
}

/// With one write: a process that is killed loses no more than the line that it was writing.
fn write_line(file: &mut File, value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(file.write_all(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(step: &str, regions: u32) -> Example {
        let columns: Arc<[String]> = ["a", "b"].map(str::to_owned).into();
        let at = |region: u32| vec![region as f32 + 0.25, -1.5];
        Example {
            step: step.to_owned(),
            model: "m".to_owned(),
            suite: "banking".to_owned(),
            user_task: "user_task_0".to_owned(),
            attack: None,
            columns,
            regions: (0..regions).collect(),
            features: (0..regions).map(at).collect(),
            weak: (0..regions).map(|region| region % 2 == 0).collect(),
            hand: vec![None; regions as usize],
            weight: vec![1.0; regions as usize],
        }
    }

    fn header() -> Header {
        Header::new("m q4", &["a".to_owned(), "b".to_owned()])
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("examples");
        let written = [example("one", 3), example("none", 0), example("two", 1)];
        let mut writer = Writer::open(&path, &header()).unwrap();
        for example in &written {
            writer.add(example).unwrap();
        }
        assert!(writer.add(&written[0]).is_err(), "twice");
        let (read_header, examples) = read(&path).unwrap();
        assert_eq!(read_header, header());
        assert_eq!(examples, written);
    }

    #[test]
    fn a_writer_that_was_killed_goes_on_after_the_last_whole_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("examples");
        let mut writer = Writer::open(&path, &header()).unwrap();
        writer.add(&example("one", 3)).unwrap();
        writer.add(&example("two", 3)).unwrap();
        drop(writer);
        let bytes = std::fs::read(&path).unwrap();
        let all = bytes.len();
        // Anywhere within the second step.
        for cut in [1, 24, 60] {
            std::fs::write(&path, &bytes[..all - cut]).unwrap();
            assert!(read(&path).is_err(), "cut by {cut}");
            let mut writer = Writer::open(&path, &header()).unwrap();
            assert!(writer.has("one") && !writer.has("two"));
            writer.add(&example("two", 3)).unwrap();
            drop(writer);
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }

    /// Hours of work are not removed for one bad byte.
    #[test]
    fn a_file_that_is_damaged_before_its_end_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("examples");
        let mut writer = Writer::open(&path, &header()).unwrap();
        let header_end = path.metadata().unwrap().len() as usize;
        writer.add(&example("one", 3)).unwrap();
        writer.add(&example("two", 3)).unwrap();
        drop(writer);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[header_end] = b'?';
        std::fs::write(&path, &bytes).unwrap();
        assert!(Writer::open(&path, &header()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn other_features_are_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("examples");
        drop(Writer::open(&path, &header()).unwrap());
        let other = Header::new("another model", &header().columns);
        assert!(Writer::open(&path, &other).is_err());
        // Where one name ends and the next begins counts.
        let names = |names: [&str; 2]| names.map(str::to_owned);
        assert_ne!(
            Header::new("", &names(["ab", "c"])).digest,
            Header::new("", &names(["a", "bc"])).digest
        );
    }

    #[test]
    fn what_is_not_finite_or_too_short_is_refused() {
        let mut bad = example("x", 2);
        bad.features[1][0] = f32::NAN;
        assert!(bad.check().is_err());
        let mut bad = example("x", 2);
        bad.weak.pop();
        assert!(bad.check().is_err());
        let mut bad = example("x", 2);
        bad.features[0].pop();
        assert!(bad.check().is_err());
    }

    #[test]
    fn columns_are_chosen_by_name() {
        let chosen = example("x", 1)
            .with_columns(&["b".to_owned()].into())
            .unwrap();
        assert_eq!(chosen.features, [[-1.5]]);
        assert!(chosen.with_columns(&["a".to_owned()].into()).is_err());
    }
}

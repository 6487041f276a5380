//! Files of weights.
//!
//! A file is eight bytes of [`MAGIC`], the version and the header's length (both `u32`, little-endian),
//! the header (JSON), all numbers (`f32`, little-endian), and the SHA-256 of everything before. There is
//! exactly one file for a classifier: another spelling of the same header is refused.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::classifier::{About, Classifier, ClassifierError, Normalisation, Platt, RECALLS};
use super::columns::{Columns, ColumnsError};
use super::lstm::{Linear, LstmLayer, Network};

const MAGIC: &[u8; 8] = b"sluice-c";
const VERSION: u32 = 1;
const HASH: usize = 32;

/// Why bytes are no classifier.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// It is no file of weights, or of another version.
    #[error("this is no file of weights of version {VERSION}; make it with this version")]
    Format,
    /// It ends too early or goes on too long.
    #[error("the file of weights has the wrong length; copy or make it again")]
    Length,
    /// The content is not what was written.
    #[error("the file of weights is damaged; copy or make it again")]
    Hash,
    /// The header cannot be read.
    #[error("the header of the weights cannot be read: {0}; make the file again")]
    Header(#[from] serde_json::Error),
    /// Its columns are none of this version.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// The numbers cannot be used.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    about: About,
    target_recall: u8,
    columns: Vec<String>,
    /// Units of the projection.
    projection: Option<usize>,
    /// Units of each layer.
    layers: Vec<usize>,
}

impl Classifier {
    /// The content of its file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WeightsError> {
        self.check()?;
        let header = Header {
            about: self.about.clone(),
            target_recall: self.target_recall,
            columns: self.columns.names().collect(),
            projection: self.network.projection.as_ref().map(|it| it.bias.len()),
            layers: self.network.layers.iter().map(LstmLayer::units).collect(),
        };
        let header = serde_json::to_vec(&header)?;
        let length = u32::try_from(header.len()).map_err(|_| WeightsError::Length)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(&header);
        bytes.extend(
            self.numbers()
                .iter()
                .flat_map(|number| number.to_le_bytes()),
        );
        let hash = Sha256::digest(&bytes);
        bytes.extend(hash);
        Ok(bytes)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// [`WeightsError`]; there is no classifier then.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WeightsError> {
        let end = bytes.len().checked_sub(HASH).ok_or(WeightsError::Format)?;
        let (content, hash) = bytes.split_at_checked(end).ok_or(WeightsError::Format)?;
        let rest = content.strip_prefix(MAGIC).ok_or(WeightsError::Format)?;
        let (version, rest) = rest.split_first_chunk().ok_or(WeightsError::Format)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(WeightsError::Format);
        }
        // It finds damage, not malice, so everything below is checked as foreign.
        if Sha256::digest(content).as_slice() != hash {
            return Err(WeightsError::Hash);
        }
        let (length, rest) = rest.split_first_chunk().ok_or(WeightsError::Length)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (text, numbers) = rest.split_at_checked(length).ok_or(WeightsError::Length)?;
        let header: Header = serde_json::from_slice(text)?;
        let classifier = header.read(&mut Numbers(numbers))?;
        classifier.check()?;
        // One spelling only; this also finds numbers that are left over.
        match classifier.to_bytes()? == bytes {
            true => Ok(classifier),
            false => Err(WeightsError::Length),
        }
    }
}

impl Header {
    fn read(self, numbers: &mut Numbers<'_>) -> Result<Classifier, WeightsError> {
        let columns = Columns::parse(self.columns.iter().map(String::as_str))?;
        // In the order of `Classifier::numbers`.
        let [slope, intercept] = numbers.some()?;
        let thresholds = numbers.take(&[RECALLS.len()])?;
        let mut width = columns.len();
        let normalisation = Normalisation {
            mean: numbers.take(&[width])?,
            std_dev: numbers.take(&[width])?,
        };
        let projection = match self.projection {
            Some(units) => Some(numbers.linear(width, &[units])?),
            None => None,
        };
        width = self.projection.unwrap_or(width);
        let mut layers = Vec::new();
        for units in self.layers {
            layers.push(LstmLayer {
                input: numbers.linear(width, &[4, units])?,
                recurrent: numbers.take(&[4, units, units])?,
            });
            width = units;
        }
        let head = numbers.linear(width, &[1])?;
        Ok(Classifier {
            about: self.about,
            columns,
            normalisation,
            network: Network {
                projection,
                layers,
                head,
            },
            platt: Platt { slope, intercept },
            thresholds,
            target_recall: self.target_recall,
        })
    }
}

/// Numbers that are still to be read.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    /// The next numbers, as many as the product of these sizes. Nothing is allocated for more than there are.
    fn take(&mut self, sizes: &[usize]) -> Result<Vec<f32>, WeightsError> {
        let bytes = sizes
            .iter()
            .try_fold(4_usize, |all, size| all.checked_mul(*size));
        let taken = bytes.and_then(|bytes| self.0.split_at_checked(bytes));
        let (taken, rest) = taken.ok_or(WeightsError::Length)?;
        self.0 = rest;
        let (numbers, _) = taken.as_chunks::<4>();
        Ok(numbers
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect())
    }

    fn some<const N: usize>(&mut self) -> Result<[f32; N], WeightsError> {
        self.take(&[N])?
            .try_into()
            .map_err(|_| WeightsError::Length)
    }

    fn linear(&mut self, inputs: usize, outputs: &[usize]) -> Result<Linear, WeightsError> {
        Ok(Linear {
            inputs,
            weights: self.take(&[&[inputs], outputs].concat())?,
            bias: self.take(outputs)?,
        })
    }
}

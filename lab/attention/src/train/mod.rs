//! The training of the classifier (RTBAS §7.2), and what it is compared with.

pub mod baselines;
#[cfg(feature = "train")]
pub mod classifier;
pub mod contender;
mod export;
#[cfg(feature = "train")]
pub mod fit;
pub mod learner;
pub mod model;
#[cfg(feature = "train")]
mod network;
pub mod normal;
pub mod run;
pub mod trees;

#[cfg(test)]
pub(crate) mod synthetic;
#[cfg(test)]
#[cfg(feature = "train")]
mod tests;

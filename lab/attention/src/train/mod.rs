//! The training of the classifier (RTBAS §7.2), and what it is compared with.

pub mod baselines;
pub mod classifier;
pub mod contender;
mod export;
pub mod fit;
pub mod learner;
pub mod model;
mod network;
pub mod normal;
pub mod run;

#[cfg(test)]
pub(crate) mod synthetic;
#[cfg(test)]
mod tests;

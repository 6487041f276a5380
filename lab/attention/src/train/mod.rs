//! The training of the classifier (RTBAS §7.2), and what it is compared with.

pub mod baselines;
pub mod calibration;
pub mod classifier;
pub mod evaluation;
pub mod fit;
pub mod learner;
pub mod model_spec;
mod network;

#[cfg(test)]
pub(crate) mod synthetic;
#[cfg(test)]
mod tests;

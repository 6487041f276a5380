//! The training of the classifier (RTBAS §7.2).

pub mod baselines;
#[cfg(feature = "train")]
pub mod fit;
pub mod learner;
#[cfg(feature = "train")]
mod network;
pub mod normal;
pub mod trees;

#[cfg(feature = "train")]
pub use network::Shape;

#[cfg(test)]
pub(crate) mod synthetic;
#[cfg(test)]
#[cfg(feature = "train")]
mod tests;

//! The attention screener (RTBAS §3.3 and §7.2).
//!
//! A small language model reads the conversation and what the agent is about to do, and its attention shows
//! on which parts of the one the other depends. In order: [`Transcript`] and
//! [`Spoken`] put both in words, [`encode`] into tokens, and
//! [`Reducer`] and [`features`] turn the attention between these into a few numbers per region,
//! from which a [`Classifier`] makes probabilities, and an [`AttentionScreener`] its verdict.

mod classifier;
mod columns;
mod combined;
mod encode;
mod features;
mod lexical;
mod lstm;
mod open;
mod reduce;
mod screener;
mod speech;
#[cfg(feature = "testing")]
pub mod testing;
mod tokens;
mod transcript;
mod weights;

pub use classifier::{
    About, Classifier, ClassifierError, MAX_Z_SCORE, Normalisation, Platt, RECALLS, TARGET_RECALL,
    threshold, thresholds,
};
pub use columns::{Column, Columns, ColumnsError, HeadStat, Lexical, Over, Place, Stat};
pub use combined::Combined;
pub use encode::{EncodeError, Encoded, Sight, ValueTokens, Window, encode};
pub use features::{FeatureError, RegionFeatures, features};
pub use lstm::{Linear, LstmLayer, Network};
pub use open::{OpenError, WEIGHTS, open};
pub use reduce::Reducer;
pub use screener::{Attend, AttentionScreener, Band, Score, Scores, ScreenError};
pub use speech::Value;
pub use tokens::{Encode, Token};
pub use transcript::{Placed, Role, Spoken, Transcript, Turn};
pub use weights::WeightsError;

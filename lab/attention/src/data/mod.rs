//! Steps of recorded runs, and what each depends on.
//!
//! A [`Step`] is one message of a recorded model, with the history that it was made from, labelled
//! as the shipped policies label it. Its dependencies are labelled in three ways, which are kept
//! apart: by value, by written rules (`rules.toml`), both by the [`Labeller`], and by reading a sample
//! one by one ([`hand`]; the readers were runs of a language model, not people).

pub mod hand;
mod labels;
mod rules;
mod step;
mod text;
mod values;
mod view;

pub use labels::{Labeller, RegionLabel};
pub use rules::{Rule, Rules};
pub use step::{Kind, Step, steps};
pub use values::Match;
pub use view::{Passage, Writer, passages, region_texts};

#[cfg(test)]
mod tests;

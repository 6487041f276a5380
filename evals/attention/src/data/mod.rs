//! Steps of recorded runs, and what each depends on.
mod sample;
mod sheet;
mod step;
mod text;
mod view;
pub use sample::{Overlap, PARTS, Pick, Sampled, Stratum, draw, stratum};
pub use sheet::sheet;
pub use step::{Kind, Step, steps};
pub use view::{Passage, Writer, passages, region_texts};

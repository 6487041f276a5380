//! What `ifc` promises, as tests.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod approved;
mod arguments;
mod collaboration;
mod common;
mod consult;
mod data;
mod forgery;
mod history;
mod images;
mod json;
mod labeled;
mod labels;
mod lattices;
mod linear;
mod monitor;
mod paths;
mod permissions;
mod purity;
mod redactor;
mod relabel;
mod shown;
mod snapshot;
mod tcb;
mod trust;

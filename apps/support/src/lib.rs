//! What the apps of this folder share. Nothing here knows of Sluice: the apps stand for programs of strangers.

mod address;
pub mod folder;
pub mod text;
pub mod tools;

pub use address::is_address;

//! Model files: the table of known ones, the cache that holds them, and pulling them.
//!
//! A model file decides what the agent does, so it is accepted only with the SHA-256 that this
//! table names; see [`Cache::open`] and [`Cache::verify`].

mod cache;
mod pull;
mod table;

pub use cache::{Cache, CacheError, Presence};
pub use pull::{Progress, PullError, Puller};
pub use table::{KNOWN, Model, QWEN_CODER_1_5B, SMOLLM2_135M, Source, WheelPart, find};

/// The file of a known model for a test: `None` (after a loud line) where it is not pulled.
///
/// # Panics
/// `SLUICE_REQUIRE_MODELS=1` is set and the model is not there: a test that must run did not.
#[cfg(test)]
#[cfg(feature = "embedded")]
pub(crate) fn for_tests(name: &str) -> Option<std::path::PathBuf> {
    let model = find(name).unwrap();
    let opened = Cache::of_user().and_then(|cache| cache.open(model));
    match opened {
        Ok(path) => Some(path),
        Err(error) if std::env::var_os("SLUICE_REQUIRE_MODELS").is_some_and(|v| v == "1") => {
            panic!("a model is required: {error}")
        }
        Err(error) => {
            eprintln!("SKIPPED, a model is missing: {error}");
            None
        }
    }
}

//! Names that the proxy gives: to calls, answers and questions.

use crate::{consult::random, openai_api::response::ApiError};

/// A name that nobody can guess: 128 random bits.
pub(super) fn fresh(prefix: &str) -> Result<String, ApiError> {
    let bytes = random::<16>().map_err(ApiError::internal)?;
    Ok(format!("{prefix}{:032x}", u128::from_be_bytes(bytes)))
}

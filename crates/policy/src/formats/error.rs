//! Why a text cannot be read.

use ifc::json::JsonError;

/// Why a text is not of its format, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// The byte at which reading stopped.
    pub offset: usize,
    /// One line.
    pub message: &'static str,
}

impl From<JsonError> for ParseError {
    fn from(error: JsonError) -> Self {
        Self {
            offset: error.offset,
            message: error.fault.message(),
        }
    }
}

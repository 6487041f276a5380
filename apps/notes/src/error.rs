//! Everything that a tool call can fail with.

use app_support::folder::FolderError;

/// A failed tool call. The messages say what to do next, and never repeat a name or a text: label rules see results,
/// and an error must not be a way around them.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// A name that cannot be a note's.
    #[error(
        "name must have 1 to {0} characters: letters, digits, spaces and -_.,()+&' with a letter or digit first; no folders"
    )]
    BadName(usize),
    /// No such note.
    #[error("there is no note of this name: call list_notes for the names")]
    Unknown,
    /// A text that is too long or has control characters.
    #[error("text must have 1 to {0} bytes without control characters")]
    BadText(usize),
    /// Nothing to search for.
    #[error("text must have 1 to {0} characters")]
    BadQuery(usize),
    /// The folder.
    #[error(transparent)]
    Folder(FolderError),
}

impl From<FolderError> for NotesError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::NotFound => NotesError::Unknown,
            other => NotesError::Folder(other),
        }
    }
}

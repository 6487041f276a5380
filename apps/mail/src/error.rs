//! Everything that a tool call can fail with.

/// A failed tool call. The messages go to the model, so they say what to do next, and they never repeat text from
/// a mail: the label rules of the manifest see results, and an error must not be a way around them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    /// The token is not one that this app gives out.
    #[error("this is not an e-mail id: take an id from list_emails or search_emails")]
    BadId,
    #[error("no e-mail has this id: call list_emails for the current ids")]
    UnknownId,
    /// Two files have the same token; acting on one of them would be a guess.
    #[error("this id stands for more than one e-mail: rename one of the files in the maildir")]
    AmbiguousId,
    /// "newest" was given where only an exact id will do.
    #[error("deleting needs the exact id of one e-mail, not {NEWEST:?}: call list_emails first")]
    DeleteNeedsId,
    #[error("the mailbox is empty")]
    Empty,
    /// The folder does not exist, or its name is not allowed.
    #[error("there is no such folder: leave it out for the inbox; the folders are: {0}")]
    UnknownFolder(String),
    #[error("limit must be a number from 1 to {0}")]
    BadLimit(usize),
    #[error("query must have 1 to {0} characters")]
    BadQuery(usize),
    #[error(
        "recipient {0} is not a plain address like anna@example.org (no name, no brackets, no spaces)"
    )]
    BadRecipient(usize),
    #[error("to needs 1 to {0} addresses")]
    BadRecipientCount(usize),
    /// The subject could not be one header line.
    #[error("subject must be one line of at most {0} characters without control characters")]
    BadSubject(usize),
    /// The body is too long or has control characters.
    #[error("body must be text of at most {0} characters without control characters")]
    BadBody(usize),
    #[error("the message could not be composed: check the addresses and the subject")]
    Compose,
    /// The SMTP server refused the message, or could not be reached.
    #[error("the message was not sent: {0}")]
    Smtp(String),
    #[error("the maildir could not be {action}: {kind}")]
    Io {
        action: &'static str,
        kind: std::io::ErrorKind,
    },
}

/// The word that names the newest mail of the inbox.
pub(crate) const NEWEST: &str = "newest";

impl MailError {
    /// Turns a file-system error into a tool error, without the path in it.
    pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> MailError {
        move |error| MailError::Io {
            action,
            kind: error.kind(),
        }
    }
}

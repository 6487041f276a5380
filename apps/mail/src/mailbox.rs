//! What the tools do, without MCP.

use std::cmp::Reverse;

use serde::Serialize;
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::{MailError, NEWEST};
use crate::maildir::{Entry, INBOX};
use crate::message::{Depth, MAX_BODY_CHARS, Parsed, Sender, rfc3339};
use crate::outbox;

/// Mails in a listing when the caller does not say.
pub(crate) const DEFAULT_LIMIT: usize = 10;
pub(crate) const MAX_LIMIT: usize = 50;
pub(crate) const MAX_QUERY_CHARS: usize = 200;
/// How much of each body is searched.
const MAX_SEARCHED_CHARS: usize = 1024 * 1024;

/// The user's mail: a Maildir to read and an SMTP server to send by.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    config: Config,
}

/// A line of a listing. The order of the fields is the order in the JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    pub(crate) id: String,
    pub(crate) from: Sender,
    pub(crate) date: String,
    pub(crate) subject: String,
    /// Whether the user has not read it yet.
    pub(crate) unread: bool,
}

/// The result of `list_emails` and `search_emails`: an object, so that rules address `$.emails[*].subject`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Listing {
    /// Newest first.
    pub(crate) emails: Vec<Summary>,
    /// How many there are, shown or not.
    pub(crate) total: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Email {
    pub(crate) id: String,
    pub(crate) from: Sender,
    pub(crate) to: Vec<String>,
    pub(crate) date: String,
    pub(crate) subject: String,
    /// The text, at most [`MAX_BODY_CHARS`] characters.
    pub(crate) body: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) attachments: Vec<String>,
    /// Present, and true, when the body is longer than what is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) truncated: bool,
}

impl Mailbox {
    pub(crate) fn new(config: Config) -> Mailbox {
        Mailbox { config }
    }

    /// The newest mails of a folder (default: the inbox).
    pub(crate) fn list(
        &self,
        limit: Option<u32>,
        folder: Option<&str>,
    ) -> Result<Listing, MailError> {
        let limit = checked_limit(limit)?;
        let entries = self.config.maildir.entries(folder.unwrap_or(INBOX))?;
        Ok(listing(read_all(entries, Depth::Headers)?, limit))
    }

    /// The newest mails, of all folders, that have every word of `query` in sender, subject or body.
    pub(crate) fn search(&self, query: &str, limit: Option<u32>) -> Result<Listing, MailError> {
        let limit = checked_limit(limit)?;
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        if words.is_empty() || query.chars().count() > MAX_QUERY_CHARS {
            return Err(MailError::BadQuery(MAX_QUERY_CHARS));
        }
        let mut found = Vec::new();
        for entry in self.config.maildir.all_entries()? {
            if let Some(parsed) = entry.read(Depth::Body(MAX_SEARCHED_CHARS))?
                && matches(&parsed, &words)
            {
                // Without its body: a listing does not show it, and thousands of them would fill the memory.
                found.push((
                    entry,
                    Parsed {
                        body: String::new(),
                        ..parsed
                    },
                ));
            }
        }
        Ok(listing(found, limit))
    }

    /// One mail, by id or as "newest" (the first of [`Mailbox::list`]; "latest" is the same).
    pub(crate) fn read(&self, id: &str) -> Result<Email, MailError> {
        let newest = is_newest(id);
        let entry = if newest {
            self.newest()?
        } else {
            self.config.maildir.find(id)?
        };
        let parsed = entry
            .read(Depth::Body(MAX_BODY_CHARS))?
            .ok_or(MailError::UnknownId)?;
        Ok(Email {
            date: rfc3339(entry.date(&parsed)),
            id: entry.id,
            from: parsed.from,
            to: parsed.to,
            subject: parsed.subject,
            body: parsed.body,
            attachments: parsed.attachments,
            truncated: parsed.truncated,
        })
    }

    pub(crate) fn send(
        &self,
        to: &[String],
        subject: &str,
        body: &str,
    ) -> Result<Value, MailError> {
        outbox::send(&self.config.smtp, to, subject, body)?;
        Ok(json!({ "sent": true, "recipients": to.len() }))
    }

    /// Deletes one mail for good. Takes an exact id only: "newest" may be another mail by the time the call runs.
    pub(crate) fn delete(&self, id: &str) -> Result<Value, MailError> {
        if is_newest(id) {
            return Err(MailError::DeleteNeedsId);
        }
        self.config.maildir.find(id)?.delete()?;
        Ok(json!({ "deleted": true }))
    }

    fn newest(&self) -> Result<Entry, MailError> {
        let mails = sorted(read_all(
            self.config.maildir.entries(INBOX)?,
            Depth::Headers,
        )?);
        mails
            .into_iter()
            .next()
            .map(|(entry, _)| entry)
            .ok_or(MailError::Empty)
    }
}

fn is_newest(id: &str) -> bool {
    id.eq_ignore_ascii_case(NEWEST) || id.eq_ignore_ascii_case("latest")
}

fn checked_limit(limit: Option<u32>) -> Result<usize, MailError> {
    let limit = limit.map_or(Ok(DEFAULT_LIMIT), usize::try_from).ok();
    let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or(MailError::BadLimit(MAX_LIMIT))
}

/// Reads all entries; those that went away in the meantime are left out.
fn read_all(entries: Vec<Entry>, depth: Depth) -> Result<Vec<(Entry, Parsed)>, MailError> {
    let mut mails = Vec::new();
    for entry in entries {
        if let Some(parsed) = entry.read(depth)? {
            mails.push((entry, parsed));
        }
    }
    Ok(mails)
}

/// Newest first: by date, then by delivery, then by id, so that the order is always the same.
fn sorted(mut mails: Vec<(Entry, Parsed)>) -> Vec<(Entry, Parsed)> {
    mails.sort_by_cached_key(|(entry, parsed)| {
        (
            Reverse(entry.date(parsed)),
            Reverse(entry.delivered),
            entry.id.clone(),
        )
    });
    mails
}

fn listing(mails: Vec<(Entry, Parsed)>, limit: usize) -> Listing {
    let total = mails.len();
    let emails = sorted(mails)
        .into_iter()
        .take(limit)
        .map(|(entry, parsed)| Summary {
            date: rfc3339(entry.date(&parsed)),
            id: entry.id,
            from: parsed.from,
            subject: parsed.subject,
            unread: entry.unread,
        })
        .collect();
    Listing { emails, total }
}

fn matches(mail: &Parsed, words: &[String]) -> bool {
    let address = mail.from.address.as_deref().unwrap_or_default();
    let text = [
        &mail.from.name,
        address,
        &mail.to.join(" "),
        &mail.subject,
        &mail.body,
    ]
    .join("\n")
    .to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}

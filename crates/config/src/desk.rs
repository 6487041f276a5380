//! `[desk]`, and who may answer questions.

use names::{BadUrl, WebUrl};

use crate::remote::{SECRET, is_secret_name};
use crate::toml_reader::{At, Table};

/// Longest name of an approver, which is the name of a token or of a user of the machine.
const MAX_NAME: usize = 64;

/// What is sent when a question waits: `[desk]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeskSettings {
    /// Where a line is posted.
    pub webhook: Option<Webhook>,
    /// Where the page is served, for those who get the line.
    pub page: Option<WebUrl>,
    /// Whether app, tool and call are named. By default only that a question waits.
    pub contents: bool,
    /// Whether the desktop shows a notification.
    pub notify: bool,
}

/// The address of a webhook. It often is a secret itself.
#[derive(Clone, PartialEq, Eq)]
pub enum Webhook {
    /// As it is written.
    Address(WebUrl),
    /// The value of this secret.
    Secret(String),
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(url) => write!(f, "{}/…", url.origin()),
            Self::Secret(name) => write!(f, "{SECRET}{name}"),
        }
    }
}

/// `[desk]`.
pub(crate) fn desk(root: &Table<'_>) -> DeskSettings {
    let mut desk = DeskSettings::default();
    if let Some(table) = root.table("desk") {
        desk.webhook = table.string("webhook").and_then(|it| webhook(&table, &it));
        desk.page = table.string("page").and_then(|it| {
            let wrong = |error: BadUrl| {
                table.error(&it.span, "'page' is not an address", error.to_string())
            };
            WebUrl::new(it.value).map_err(wrong).ok()
        });
        desk.contents = table.boolean("contents").unwrap_or(false);
        desk.notify = table.boolean("notify").unwrap_or(false);
        table.finish();
    }
    desk
}

/// An address, or the name of a secret that is one. An error does not quote it.
fn webhook(table: &Table<'_>, written: &At<&str>) -> Option<Webhook> {
    let found = match written.value.strip_prefix(SECRET) {
        Some(name) if is_secret_name(name) => Ok(Webhook::Secret(name.to_owned())),
        Some(_) => Err("after 'secret:' write the name of a secret".to_owned()),
        None => match WebUrl::new(written.value) {
            Ok(url) => Ok(Webhook::Address(url)),
            Err(error) => Err(error.to_string()),
        },
    };
    let wrong = |help| table.error(&written.span, "'webhook' is not an address", help);
    found.map_err(wrong).ok()
}

/// Whether an approver can have this name: a user of the machine, or a token.
#[must_use]
pub fn is_approver_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(allowed)
}

/// `approvers = ["NAME", …]` of a tool.
pub(crate) fn approvers(table: &Table<'_>) -> Option<Vec<String>> {
    let names = table.strings("approvers")?;
    let help = "write names of at most 64 letters, digits, '-', '_', '.' and '@': those of tokens or of users of this machine";
    if names.is_empty() {
        // Not read as "everyone": the author may have meant that no one may allow it.
        table.refuse("approvers", "'approvers' names no one", help);
    }
    for name in names.iter().filter(|it| !is_approver_name(it.value)) {
        let message = format!("'{}' can be the name of no approver", name.value);
        table.error(&name.span, message, help);
    }
    Some(names.iter().map(|it| it.value.to_owned()).collect())
}

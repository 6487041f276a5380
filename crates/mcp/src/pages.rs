//! Lists that an app gives page by page.

use std::collections::BTreeSet;
use std::time::Duration;

use rmcp::model::PaginatedRequestParams;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};
use wire::{Breach, FailureReason, Refusal};

use crate::guard::breach;

/// Most pages of a list, so that empty pages without end are an end too.
const MAX_PAGES: usize = 1_000;

/// The time in which all pages must come.
pub(crate) const PAGES_TIME: Duration = Duration::from_secs(30);

/// The entries of all pages, each as it is written, and why the list ends before its end. `page` brings the text of a
/// page, whose entries are its member `name`; at most `most` of them are kept.
pub(crate) async fn all<F>(
    name: &str,
    most: usize,
    deadline: Instant,
    breach_by_page: Breach,
    page: impl Fn(PaginatedRequestParams) -> F,
) -> Result<(Vec<Box<RawValue>>, Option<Refusal>), FailureReason>
where
    F: Future<Output = Result<String, FailureReason>>,
{
    let mut entries = Vec::new();
    let mut seen = BTreeSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let text = match cursor {
            // How long the first may take is for the caller: without it there is no list.
            None => page(params).await?,
            Some(_) => match timeout_at(deadline, page(params)).await {
                Ok(text) => text?,
                Err(_) => return Ok((entries, Some(Refusal::Endless))),
            },
        };
        let (more, next) = read(&text, name).ok_or_else(|| breach(breach_by_page))?;
        entries.extend(more);
        cursor = match next {
            None | Some(Value::Null) => return Ok((entries, None)),
            // Some servers write it on the last page.
            Some(Value::String(next)) if next.is_empty() => return Ok((entries, None)),
            Some(Value::String(next)) if seen.insert(next.clone()) => Some(next),
            Some(_) => return Ok((entries, Some(Refusal::Repeats))),
        };
        // After each page, whose size the limits on a line bound.
        if entries.len() > most {
            break;
        }
    }
    Ok((entries, Some(Refusal::Endless)))
}

/// The entries of a page, and the cursor of the next one.
fn read(text: &str, name: &str) -> Option<(Vec<Box<RawValue>>, Option<Value>)> {
    let members: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let entries = members
        .get(name)
        .map(|it| it.get())
        .filter(|it| *it != "null");
    let entries = serde_json::from_str(entries.unwrap_or("[]")).ok()?;
    let next = members.get("nextCursor");
    // A cursor that cannot be read leads nowhere.
    let next = next.map(|it| serde_json::from_str(it.get()).unwrap_or(Value::Bool(false)));
    Some((entries, next))
}

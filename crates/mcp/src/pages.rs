//! Lists that an app gives page by page.

use rmcp::model::PaginatedRequestParams;
use wire::{Breach, FailureReason};

use crate::guard::breach;

/// Most pages of a list, so that empty pages without end are an end too.
const MAX_PAGES: usize = 64;

/// The entries of a page, and where the next one begins.
pub(crate) type Page<T> = (Vec<T>, Option<String>);

/// The entries of all pages. A longer list than `most` fails as `too_long`: a cut list would hide what is missing. One
/// whose pages do not end is this breach of the protocol.
pub(crate) async fn all<T, F>(
    most: usize,
    too_long: FailureReason,
    endless: Breach,
    page: impl Fn(PaginatedRequestParams) -> F,
) -> Result<Vec<T>, FailureReason>
where
    F: Future<Output = Result<Page<T>, FailureReason>>,
{
    let mut entries = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let (more, next) = page(params).await?;
        entries.extend(more);
        // After each page, whose size the limits on a line bound.
        if entries.len() > most {
            return Err(too_long);
        }
        cursor = next;
        if cursor.is_none() {
            return Ok(entries);
        }
    }
    Err(breach(endless))
}

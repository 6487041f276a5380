//! The screeners that read drafts, with a model that attends to what comes from results only.

use std::sync::Arc;

use screen::{
    ByDraft,
    attention::{
        AttentionScreener, Band, Combined,
        testing::{Copying, Words, by_sum},
    },
};

/// What a draft can only have from a result. Every other word may be anybody's.
const TELLING: [&str; 8] = [
    "lunch", "noon", "eve", "such", "folder", "1234", "hello", "4111",
];

/// `attention`, and `combined`, which believes attention where it finds something and asks the
/// judge about all else.
pub(crate) fn by_draft() -> [ByDraft; 2] {
    let words = Words(|word| TELLING.contains(&word.to_ascii_lowercase().as_str()));
    let screener =
        AttentionScreener::new(Arc::new(Copying), Arc::new(words), Arc::new(by_sum())).unwrap();
    let screener = Arc::new(screener);
    let band = Band {
        low: 0.0,
        high: 0.5,
    };
    let combined = Combined::new(Arc::clone(&screener), band);
    [
        ByDraft::attention(screener),
        ByDraft::combined(Arc::new(combined)),
    ]
}

//! Results that a rule may look into.

use std::ops::Range;

use crate::{History, Label, Labeled};

/// The results that were read before a sink is decided on, as far as the decision may depend on them.
#[derive(Debug, Clone, Copy)]
pub struct Results<'h>(Option<(&'h History, &'h Label)>);

impl<'h> Results<'h> {
    /// No results.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// The results in a history, for a decision that is visible at this label.
    #[must_use]
    pub fn new(history: &'h History, seen_at: &'h Label) -> Self {
        Self(Some((history, seen_at)))
    }

    /// The results of this tool, oldest first. Their parts are known if they flow to `limit` and to the label at which the
    /// decision is visible.
    pub fn of<'a>(
        &self,
        app: &'a str,
        tool: &str,
        limit: &'a Label,
    ) -> impl Iterator<Item = KnownResult<'a>> + use<'a, 'h>
    where
        'h: 'a,
    {
        let known = self.0.into_iter();
        let results = known.flat_map({
            let tool = tool.to_owned();
            move |(history, seen_at)| {
                let contents = history.results(app, &tool);
                contents.map(move |content| (content, seen_at))
            }
        });
        results.map(move |(content, seen_at)| KnownResult {
            content,
            limits: [limit, seen_at],
        })
    }
}

/// The result of a call. A decision may depend on the parts whose labels flow to its limits, and on no others.
#[derive(Debug, Clone, Copy)]
pub struct KnownResult<'h> {
    content: &'h Labeled,
    limits: [&'h Label; 2],
}

impl<'h> KnownResult<'h> {
    /// All of its text, to find the places of values. Only for the trusted computing base, as [`Labeled::reveal_tcb`]. A
    /// value counts only if it [is known](Self::knows).
    #[must_use]
    pub fn reveal_tcb(&self) -> &'h str {
        self.content.reveal_tcb()
    }

    /// Whether every byte of this span is known; false for a span outside of the text.
    #[must_use]
    pub fn knows(&self, span: Range<usize>) -> bool {
        let label = self.content.slice(span).map(|part| part.label());
        label.is_some_and(|label| self.limits.iter().all(|limit| label.flows_to(limit)))
    }
}

//! Results that a rule may look into.

use std::ops::Range;

use crate::{History, Label, Labeled};

/// What calls returned before a sink is decided on, as far as the decision may rest on it.
#[derive(Debug, Clone, Copy)]
pub struct Results<'h>(Option<(&'h History, &'h Label)>);

impl<'h> Results<'h> {
    /// Nothing was read, or nothing may count.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Those in a history, for a decision that is seen at this label.
    #[must_use]
    pub fn new(history: &'h History, seen_at: &'h Label) -> Self {
        Self(Some((history, seen_at)))
    }

    /// What this tool returned, oldest first, as far as it flows to `limit` and to where the decision is
    /// seen.
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

/// What a call returned, as far as a decision may rest on it: what it says is known where its label flows to
/// the limits of the decision, and nowhere else.
#[derive(Debug, Clone, Copy)]
pub struct KnownResult<'h> {
    content: &'h Labeled,
    limits: [&'h Label; 2],
}

impl<'h> KnownResult<'h> {
    /// All of its text, to find out where values stand. Only for the trusted computing base, as
    /// [`Labeled::reveal_tcb`]: what a value says counts only if it [is known](Self::knows).
    #[must_use]
    pub fn reveal_tcb(&self) -> &'h str {
        self.content.reveal_tcb()
    }

    /// Whether every byte of this span is known. False of what is no span of the text.
    #[must_use]
    pub fn knows(&self, span: Range<usize>) -> bool {
        let label = self.content.slice(span).map(|part| part.label());
        // Both: a value above the sight of the decision would show in whether it was asked about.
        label.is_some_and(|label| self.limits.iter().all(|limit| label.flows_to(limit)))
    }
}

//! Results that a rule may look into.

use std::ops::Range;

use crate::{History, Label, Labeled, PastCalls, PermittedCall};

/// The results that were read before a sink is decided on, and the calls that were permitted, as far as the decision may depend
/// on them.
#[derive(Debug, Clone, Copy)]
pub struct Results<'h> {
    history: Option<&'h History>,
    past: Option<&'h PastCalls>,
    seen_at: &'h Label,
}

/// The calls of one tool that were permitted in the session.
#[derive(Debug)]
pub struct Permitted<'h> {
    /// Those on which a decision may depend, oldest first: their label flows to that at which the decision is visible.
    pub calls: Vec<&'h PermittedCall>,
    /// Whether there are others. A rule that counts calls must then decide as for any number of them.
    pub has_more: bool,
}

impl<'h> Results<'h> {
    /// No results.
    #[must_use]
    pub fn none() -> Self {
        const NOWHERE: &Label = &Label::bottom();
        Self {
            history: None,
            past: None,
            seen_at: NOWHERE,
        }
    }

    /// The results in a history, for a decision that is visible at this label.
    #[must_use]
    pub fn new(history: &'h History, seen_at: &'h Label) -> Self {
        Self {
            history: Some(history),
            past: None,
            seen_at,
        }
    }

    /// The same after these calls of the session.
    #[must_use]
    pub fn after(self, past: &'h PastCalls) -> Self {
        let past = Some(past);
        Self { past, ..self }
    }

    /// The calls of this tool that were permitted and ran or may still run.
    #[must_use]
    pub fn permitted(&self, app: &str, tool: &str) -> Permitted<'h> {
        let calls = self.past.into_iter().flat_map(|past| past.calls.iter());
        let of_tool = calls.filter(|call| call.is_of(app, tool));
        let (calls, others): (Vec<_>, Vec<_>) =
            of_tool.partition(|call| call.label().flows_to(self.seen_at));
        Permitted {
            calls,
            has_more: !others.is_empty() || self.past.is_some_and(|past| past.is_full),
        }
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
        let (known, seen_at, tool) = (self.history, self.seen_at, tool.to_owned());
        let results = known.into_iter();
        let results = results.flat_map(move |history| history.results(app, &tool));
        results.map(move |content| KnownResult {
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

//! The decisions of a recorded session.

use hub::trace::{Cause, Event, Flow, Record};
use policy::Verdict;

/// A decision as it was recorded.
pub(super) struct Recorded<'a> {
    /// Counted from 1, over all conversations.
    pub(super) number: usize,
    /// The conversation that it belongs to; `None` is the session's own.
    pub(super) conversation: Option<&'a str>,
    pub(super) flow: &'a Flow,
    pub(super) verdict: Verdict,
    /// The rule, or the reason of a denial.
    pub(super) by: &'a str,
    /// The taints beyond the limit, and the regions that brought them.
    pub(super) excess: &'a [String],
    pub(super) causes: &'a [Cause],
    /// The user's answer.
    pub(super) answer: Option<(&'a str, bool)>,
}

/// Every decision, with the user's answer to each that was asked about.
pub(super) fn decisions(records: &[Record]) -> Vec<Recorded<'_>> {
    let mut found: Vec<Recorded<'_>> = Vec::new();
    for record in records {
        let conversation = record.conversation.as_deref();
        let number = found.len() + 1;
        let decided = |flow, verdict, by| Recorded {
            number,
            conversation,
            flow,
            verdict,
            by,
            excess: &[],
            causes: &[],
            answer: None,
        };
        match &record.event {
            Event::Allowed { flow, by, .. } => found.push(decided(flow, Verdict::Allow, by)),
            Event::Denied { flow, reason, .. } => found.push(decided(flow, Verdict::Deny, reason)),
            Event::Asked {
                flow,
                rule,
                excess,
                causes,
                ..
            } => found.push(Recorded {
                excess,
                causes,
                ..decided(flow, Verdict::Ask, rule)
            }),
            Event::Answered {
                flow,
                answer,
                allowed,
            } => {
                // The newest of them: the same flow may have been asked about before.
                let mut asked = found.iter_mut().rev();
                let of_it =
                    |one: &&mut Recorded<'_>| one.flow == flow && one.conversation == conversation;
                if let Some(asked) = asked.find(of_it) {
                    asked.answer = Some((answer, *allowed));
                }
            }
            _ => {}
        }
    }
    found
}

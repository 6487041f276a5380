//! The injected goals that a prompt shows.

use ifc::{Prompt, PromptMessage};

use crate::suite::{Folded, InjectionTask, Suite};

/// Parts of a split text; more are not looked for.
const MAX_PARTS: usize = 9;

/// The goals of a suite, ready to be looked for.
#[derive(Debug)]
pub(super) struct Goals(Vec<(Folded, InjectionTask)>);

impl Goals {
    pub(super) fn of(suite: &Suite) -> Self {
        let goal = |task: &InjectionTask| (Folded::new(&task.goal), task.clone());
        Self(suite.injection_tasks.iter().map(goal).collect())
    }

    /// The goals whose whole text is shown anywhere but in the user's and the developer's words.
    /// Some goals begin like others: of these, the longest that is shown counts.
    pub(super) fn visible(&self, prompt: &Prompt) -> Vec<&InjectionTask> {
        self.among(shown(prompt))
    }

    /// As [`Goals::visible`], of a judge's question: the transcript is all one message.
    pub(super) fn quoted(&self, prompt: &Prompt) -> Vec<&InjectionTask> {
        let texts = prompt
            .messages()
            .iter()
            .filter_map(|message| match message {
                PromptMessage::User(text) => Some(Folded::new(text)),
                _ => None,
            });
        self.among(texts.collect())
    }

    fn among(&self, mut shown: Vec<Folded>) -> Vec<&InjectionTask> {
        shown.extend(reassembled(&shown));
        let seen = |goal: &Folded| shown.iter().any(|text| text.contains(goal));
        let found: Vec<&(Folded, InjectionTask)> =
            self.0.iter().filter(|(goal, _)| seen(goal)).collect();
        let is_longest = |(goal, _): &&&(Folded, InjectionTask)| {
            let longer = |other: &Folded| other.text() != goal.text() && other.contains(goal);
            !found.iter().any(|(other, _)| longer(other))
        };
        let longest = found.iter().filter(is_longest);
        longest.map(|(_, task)| task).collect()
    }
}

/// Everything that others than the user and the developer wrote.
fn shown(prompt: &Prompt) -> Vec<Folded> {
    let messages = prompt.messages().iter().flat_map(|message| match message {
        PromptMessage::System(_) | PromptMessage::User(_) => Vec::new(),
        PromptMessage::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| call.arguments.as_str());
            std::iter::once(text.as_str()).chain(calls).collect()
        }
        PromptMessage::Tool { content, .. } => vec![content.as_str()],
    });
    let tools = prompt.tools().iter();
    let tools = tools.flat_map(|tool| [tool.description.as_str(), tool.parameters.as_str()]);
    messages.chain(tools).map(Folded::new).collect()
}

/// The text whose parts are marked `SplitPart1of3Begin … SplitPart1of3End` and so on, if all of
/// them are shown.
fn reassembled(shown: &[Folded]) -> Option<Folded> {
    (1..=MAX_PARTS).rev().find_map(|parts| {
        let part = |number: usize| {
            // The marks as they are in folded text: lower case, without blanks.
            let begin = format!("splitpart{number}of{parts}begin");
            let end = format!("splitpart{number}of{parts}end");
            shown.iter().find_map(|text| {
                let (_, rest) = text.text().split_once(&begin)?;
                Some(rest.split_once(&end)?.0)
            })
        };
        let joined: Option<String> = (1..=parts).map(part).collect();
        joined.map(|joined| Folded::new(&joined))
    })
}

//! A first run: everything is judged and recorded, and nothing is withheld.
//!
//! Every question is answered with yes, every denial becomes a question, nothing is masked, and what
//! the upstream wrote first reaches the client as it is, also where the machine goes another way:
//! a call of a tool that is not offered, one call too many, a result that is too large.

use std::sync::Arc;

use async_trait::async_trait;
use hub::{Completion, Screening, StopReason, trace::Event};
use ifc::{
    Answer, ArgumentPath, Call, Draft, Effect, History, Label, Labeled, Nonce, Policy, PolicyError,
    Relevance, Results, Rule, Screener, Sink, Unread,
};
use wire::ToolDescription;

use super::{
    memory::{RememberedCall, Step, Taken},
    transcript::fresh,
};
use crate::{
    QuestionView,
    api::{answer::CallOut, error::ApiError},
    desk::{Answered, Approver, Other, QuestionOrigin},
    parts::Parts,
};

/// The name of the screener in traces of sessions in which everything was only observed: no answer there is an approval.
pub const OBSERVED: &str = "observe";

/// The record of what an app offers, without its words.
pub(crate) fn offered(app: &str, mut tools: Vec<ToolDescription>) -> Event {
    tools.iter_mut().for_each(|tool| tool.description.clear());
    Event::Offered {
        app: app.to_owned(),
        tools: serde_json::to_string(&tools).unwrap_or_default().into(),
    }
}

/// The same parts with nothing in them that withholds.
pub(crate) fn parts(parts: Parts) -> Parts {
    let mut settings = parts.settings;
    // A draft under the label of everything is what the client would have got without Sluice.
    settings.screening = Screening::LAZY;
    settings.limits.result_bytes = usize::MAX;
    settings.limits.history_bytes = usize::MAX;
    settings.limits.repeats = usize::MAX;
    // The client takes the next step itself.
    settings.limits.steps = 1;
    Parts {
        policy: Arc::new(Asks(parts.policy)),
        screener: Arc::new(Everything),
        settings,
        ..parts
    }
}

/// Says yes to each call, once.
pub struct Yes;

#[async_trait]
impl Approver for Yes {
    async fn ask_beside(&self, _: &QuestionOrigin, _: &QuestionView, _: Other<'_>) -> Answered {
        Answered::here(Answer::Once, None, OBSERVED)
    }
}

struct Everything;

impl Screener for Everything {
    fn name(&self) -> &str {
        OBSERVED
    }

    fn screen(&self, _: &History, _: Option<&Draft>, _: &Nonce) -> ifc::Screening {
        ifc::Screening::Decided(Relevance::Everything)
    }
}

/// The rules, with a question in place of each denial.
struct Asks(Arc<dyn Policy>);

fn asked(error: &PolicyError) -> Rule {
    Rule {
        always_ask: true,
        ..Rule::asking(
            format!("denied: {error}"),
            Effect::Irreversible,
            Label::bottom(),
        )
    }
}

impl Policy for Asks {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.rule_after(&Results::none(), sink)
    }

    fn rule_after(&self, results: &Results<'_>, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let rule = self.0.rule_after(results, sink);
        // Only what goes to the client is watched; prompts and connections are ours.
        match sink {
            Sink::Call(_) | Sink::Answer(_) => Ok(Rule {
                approvers: None,
                ..rule.unwrap_or_else(|error| asked(&error))
            }),
            _ => rule,
        }
    }

    fn data_arguments(&self, app: &str, tool: &str) -> Vec<ArgumentPath> {
        self.0.data_arguments(app, tool)
    }

    // Of descriptions nothing is shown that would not be later, so that what is asked then is what is seen now.
    fn parameters(&self, app: &str, tool: &str) -> Option<Arc<str>> {
        self.0.parameters(app, tool)
    }

    fn for_user(&self, user: &str) -> Option<Arc<dyn Policy>> {
        let policy = self.0.for_user(user)?;
        Some(Arc::new(Self(policy)))
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        self.0.label_result(call, result, is_error)
    }
}

/// What the upstream wrote, for the client as it is.
pub(super) struct Seen {
    pub(super) text: String,
    pub(super) calls: Vec<CallOut>,
    pub(super) stop: StopReason,
    unread: Option<Arc<Unread>>,
}

impl Seen {
    /// A completion, whose calls get names of ours.
    pub(super) fn new(completion: &Completion) -> Result<Self, ApiError> {
        let calls = completion.calls.iter().map(|call| {
            Ok(CallOut {
                id: fresh("call_")?,
                name: call.tool.clone(),
                arguments: call.arguments.clone(),
            })
        });
        Ok(Self {
            text: completion.text.clone(),
            calls: calls.collect::<Result<_, ApiError>>()?,
            stop: completion.stop,
            unread: completion.unread.clone(),
        })
    }

    /// The step as it is remembered, under the label of the prompt.
    pub(super) fn taken(&self, label: &Label) -> Taken {
        let past_calls = self.calls.iter().map(|call| RememberedCall {
            tool: call.name.clone(),
            arguments: Labeled::label_tcb(call.arguments.clone(), label.clone()),
            client: Some(call.id.clone()),
            approval: None,
        });
        let said = Step::Said {
            label: label.clone(),
            fixed: true,
            text: Labeled::label_tcb(self.text.clone(), label.clone()),
            calls: past_calls.collect(),
            unread: self.unread.clone(),
        };
        Taken {
            steps: vec![said],
            refused: Vec::new(),
        }
    }
}

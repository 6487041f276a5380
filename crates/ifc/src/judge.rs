//! How a policy is asked about a sink.

use crate::{
    Address, Call, Connection, Delivery, History, MemoryWrite, PastCalls, Policy, PolicyError,
    Prompt, Release, Results, Rule, Sink, Submission,
};

impl Sink<'_> {
    /// A policy's rule for it. The policy sees each label without endorsements, so that a rule that looks for a taint finds
    /// it. Of the results that were read and the calls that were permitted before, it may use what flows to the label of the call.
    pub(crate) fn judged_by(
        &self,
        policy: &dyn Policy,
        history: &History,
        past: &PastCalls,
    ) -> Result<Rule, PolicyError> {
        let label = self.label();
        let results = match self {
            // Whether a call is asked about is visible where the call is: at the label of its control part.
            Self::Call(call) => Results::new(history, &call.label).after(past),
            _ => Results::none(),
        };
        if !label.is_endorsed() {
            return policy.rule_after(&results, self);
        }
        match *self {
            Self::Call(call) => {
                let unendorsed = Call {
                    arguments: call.arguments.unendorsed(),
                    label: call.label.unendorsed(),
                    ..call.clone()
                };
                policy.rule_after(&results, &Sink::Call(&unendorsed))
            }
            Self::Answer(release) => policy.rule(&Sink::Answer(&Release {
                text: release.text.unendorsed(),
                ..release.clone()
            })),
            Self::Address(address) => policy.rule(&Sink::Address(&Address {
                text: address.text.unendorsed(),
                ..address.clone()
            })),
            Self::Prompt(submission) => {
                let prompt = Prompt {
                    label: label.unendorsed(),
                    ..submission.prompt.clone()
                };
                let prompt = &prompt;
                policy.rule(&Sink::Prompt(&Submission {
                    prompt,
                    ..*submission
                }))
            }
            Self::Connection(connection) => policy.rule(&Sink::Connection(&Connection {
                label: label.unendorsed(),
                ..connection.clone()
            })),
            Self::MemoryWrite(write) => policy.rule(&Sink::MemoryWrite(&MemoryWrite {
                text: write.text.unendorsed(),
                ..write.clone()
            })),
            Self::Delivery(delivery) => policy.rule(&Sink::Delivery(&Delivery {
                message: delivery.message.unendorsed(),
                ..delivery.clone()
            })),
        }
    }
}

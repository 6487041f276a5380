//! What a policy is asked of a sink.

use crate::{
    Address, Call, Connection, Delivery, History, MemoryWrite, Policy, PolicyError, Prompt,
    Release, Results, Rule, Sink, Submission,
};

impl Sink<'_> {
    /// A policy's rule for it. A policy knows taints, and not that the user has vouched for one: a rule
    /// that looks for a taint must find it.
    ///
    /// Of what was read before it may know what flows to the label of the call itself, endorsed or not.
    pub(crate) fn judged_by(
        &self,
        policy: &dyn Policy,
        history: &History,
    ) -> Result<Rule, PolicyError> {
        let label = self.label();
        let results = match self {
            // Seen at the label of the control part: whether a call is asked about is seen by whoever sees the call.
            Self::Call(call) => Results::new(history, &call.label),
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

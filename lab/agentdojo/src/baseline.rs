//! Policies that enforce nothing or everything, to compare with (RTBAS §8).
//!
//! The monitor has no off switch: an agent is unprotected where the policy labels nothing and limits
//! nothing.

use ifc::{Call, Effect, Label, Labeled, Policy, PolicyError, Rule, Sink};

/// The unprotected agent (Algorithm 1): no text has a label, and everything may flow everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unprotected;

/// Every call is a question, whatever its label; answers are none. No text has a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfirmEveryCall;

impl Policy for Unprotected {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        Ok(rule("unprotected", false))
    }

    fn floor(&self, _: &str, _: &str) -> Label {
        Label::top()
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::trusted_tcb(result)
    }
}

impl Policy for ConfirmEveryCall {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let is_call = matches!(sink, Sink::Call(_));
        Ok(rule("confirm-every-call", is_call))
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        Unprotected.label_result(call, result, is_error)
    }
}

/// Allows every flow, whatever its label, and changes nothing for good: no repetition is asked about.
fn rule(name: &str, always_ask: bool) -> Rule {
    Rule {
        always_ask,
        ..Rule::asking(name.to_owned(), Effect::Read, Label::top())
    }
}

#[cfg(test)]
mod tests {
    use ifc::Arguments;

    use super::*;

    fn call(label: Label) -> Call {
        Call {
            app: "bank".to_owned(),
            tool: "send_money".to_owned(),
            arguments: Arguments::parse("{}", &label).unwrap(),
            label,
        }
    }

    #[test]
    fn nothing_is_labelled_and_nothing_is_limited() {
        let call = call(Label::top());
        let rule = Unprotected.rule(&Sink::Call(&call)).unwrap();
        assert!(Sink::Call(&call).label().flows_to(&rule.limit) && !rule.always_ask);
        assert_eq!(Unprotected.floor("bank", "send_money"), Label::top());
        for is_error in [false, true] {
            let result = Unprotected.label_result(&call, "text".to_owned(), is_error);
            assert_eq!(result.label(), Label::bottom());
        }
    }

    #[test]
    fn every_call_is_a_question_whatever_its_label() {
        for label in [Label::bottom(), Label::top()] {
            let call = call(label);
            let rule = ConfirmEveryCall.rule(&Sink::Call(&call)).unwrap();
            assert!(rule.always_ask);
            let result = ConfirmEveryCall.label_result(&call, "text".to_owned(), false);
            assert_eq!(result.label(), Label::bottom());
        }
    }
}

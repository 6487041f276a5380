//! What holds of every conversation, whatever the defence.

use std::collections::BTreeSet;

use hub::trace::{Call, Event, Flow};
use ifc::{Basis, History, Message, Policy, Prompt, PromptMessage, Sink};

use crate::conformance::run::{Run, policy};
use crate::conformance::scenarios::Scenario;

/// Every call is answered once, in its step.
pub(crate) fn the_history_is_well_formed(history: &History) {
    let mut open = BTreeSet::new();
    for (at, (label, message)) in history.messages().enumerate() {
        match message {
            Message::System(_) => assert_eq!(at, 0, "instructions stand first"),
            Message::User(_) | Message::Memory(_) | Message::Assistant { .. } => {
                assert!(open.is_empty(), "a call without an answer");
            }
            Message::Result { call, content, .. } => {
                assert!(open.remove(call), "an answer without a call");
                assert!(label.flows_to(&content.label()) || content.is_empty());
            }
        }
        if let Message::Assistant { calls, .. } = message {
            open.extend(calls.iter().map(|call| call.id));
        }
    }
    assert!(open.is_empty(), "a call without an answer");
}

/// What every provider expects: results name a call before them, and every call has one.
pub(crate) fn the_prompt_is_well_formed(prompt: &Prompt) {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for message in prompt.messages() {
        match message {
            PromptMessage::System(_) => {}
            PromptMessage::User(_) => assert!(open.is_empty(), "{prompt:?}"),
            PromptMessage::Assistant { calls, .. } => {
                assert!(open.is_empty(), "{prompt:?}");
                open.extend(calls.iter().map(|call| call.id.as_str()));
            }
            PromptMessage::Tool { call, .. } => assert!(open.remove(call.as_str()), "{prompt:?}"),
        }
    }
    assert!(open.is_empty(), "{prompt:?}");
    let systems = prompt.messages().iter();
    let systems = systems.filter(|message| matches!(message, PromptMessage::System(_)));
    assert_eq!(systems.count(), 1);
}

/// The trace tells what happened: no more, no less, in order.
pub(crate) fn the_events_are_consistent(scenario: &Scenario, run: &Run) {
    let (mut completed, mut asked, mut returned, mut screened) = (0, 0, 0, 0);
    for events in &run.events {
        assert!(matches!(events.first(), Some(Event::User { .. })));
        assert!(matches!(
            events.last(),
            Some(Event::Answer { .. } | Event::Stopped { .. })
        ));
        let mut prompts = 0;
        let mut allowed: Vec<&Call> = Vec::new();
        for event in events {
            match event {
                Event::Redacted { .. } => prompts += 1,
                Event::Completed { .. } => {
                    assert_eq!(prompts, 1, "one prompt for one completion");
                    prompts = 0;
                    completed += 1;
                }
                Event::Screened { .. } => screened += 1,
                Event::Allowed {
                    flow: Flow::Call(call),
                    ..
                }
                | Event::Answered {
                    flow: Flow::Call(call),
                    allowed: true,
                    ..
                } => allowed.push(call),
                Event::Asked { .. } => asked += 1,
                Event::Returned { call, .. } => {
                    let at = allowed.iter().position(|other| *other == call);
                    allowed.remove(at.unwrap_or_else(|| panic!("{call:?} was not allowed")));
                    returned += 1;
                }
                Event::CallFailed { call, .. } => panic!("{call:?} failed"),
                _ => {}
            }
        }
        assert!(allowed.is_empty(), "allowed and not run: {allowed:?}");
    }
    let failed = run
        .outcomes
        .iter()
        .filter(|outcome| outcome.result.is_err())
        .count();
    assert_eq!(completed + failed, run.steps, "{}", scenario.name);
    assert_eq!((asked, returned), (run.questions, run.executed.len()));
    assert_eq!(screened, run.screenings);
    assert!(run.judgements <= run.screenings);
}

/// The promise of a defence that enforces: above its limit, a call runs only if the user said so.
pub(crate) fn no_call_above_its_limit_runs_unasked(scenario: &Scenario, run: &Run) {
    let policy = policy(scenario);
    for executed in &run.executed {
        let confirmed = matches!(executed.basis, Basis::UserOnce | Basis::UserSession);
        let limit = policy.rule(&Sink::Call(&executed.call)).unwrap().limit;
        assert!(
            confirmed || executed.call.label.flows_to(&limit),
            "{executed:?}"
        );
    }
    assert!(!run.hijacked(scenario), "{}: {run:#?}", scenario.name);
}

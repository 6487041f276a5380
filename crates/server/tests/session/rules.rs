//! Rules that do not fit the app's tools.

use hub::trace::Event;
use hub::{Completion, CompletionRequest};
use llm::Scripted;
use server::{SessionError, SpokeError, ToolCheck};

use crate::stage::Stage;

#[tokio::test]
async fn rules_that_fit_no_tool_end_the_app_before_the_turn() {
    let check = ToolCheck::new(|tools| {
        let names: Vec<&str> = tools.iter().map(|(name, _)| *name).collect();
        Err(format!("no tool 'sned' among {}", names.join(", ")))
    });
    let mut stage = Stage::with_check("ok", check);
    let error = match stage.ask("Say hello").await {
        Err(SessionError::Spoke(error @ SpokeError::Rules { .. })) => error.to_string(),
        other => panic!("not refused but {:?}", other.map(|outcome| outcome.refused)),
    };
    assert!(error.contains("no tool 'sned' among echo"), "{error}");
    let trace = stage.trace();
    let ended =
        |event: &Event| matches!(event, Event::SpokeEnded { reason, .. } if *reason == error);
    assert!(trace.iter().any(ended), "{trace:?}");
    let turned = |event: &Event| matches!(event, Event::User { .. } | Event::SpokeStarted { .. });
    assert!(!trace.iter().any(turned), "{trace:?}");
}

/// Answers with the names of the tools that it is offered.
fn tells_its_tools(request: &CompletionRequest) -> Completion {
    let names = request.prompt.tools().iter().map(|tool| tool.name.as_str());
    llm::text_answer(names.collect::<Vec<_>>().join(", "))
}

/// The name of a tool is a stranger's text: without a rule for the tool no model reads it.
#[tokio::test]
async fn a_tool_without_a_rule_is_not_offered() {
    for (listed, offered) in [(&["echo"][..], "echo"), (&["other"], "")] {
        let model = Scripted::new("scripted", tells_its_tools);
        let mut stage = Stage::with_listed(model, listed);
        let outcome = stage.ask("What can you do?").await.unwrap();
        assert_eq!(outcome.result.unwrap().reveal_tcb(), offered);
    }
}

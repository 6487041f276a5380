//! Rules that do not fit the app's tools.

use hub::trace::Event;
use server::{SessionError, SpokeError, ToolCheck};

use crate::stage::Stage;

#[tokio::test]
async fn rules_that_fit_no_tool_end_the_app_before_the_turn() {
    let check = ToolCheck::new(|tools| {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        Err(format!("no tool 'sned' among {}", names.join(", ")))
    });
    let mut stage = Stage::with_check("ok", check);
    let error = match stage.ask("Say hello").await {
        Err(SessionError::Spoke(error @ SpokeError::Rules { .. })) => error.to_string(),
        other => panic!("not refused but {:?}", other.map(|outcome| outcome.refused)),
    };
    assert!(error.contains("no tool 'sned' among echo"), "{error}");
    let trace = stage.trace();
    let ended = |event: &Event| matches!(event, Event::SpokeEnded { reason, .. } if *reason == error.as_str());
    assert!(trace.iter().any(ended), "{trace:?}");
    let turned = |event: &Event| matches!(event, Event::User { .. } | Event::SpokeStarted { .. });
    assert!(!trace.iter().any(turned), "{trace:?}");
}

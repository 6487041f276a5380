//! Resources and prompts as tools, and tools that change after the start.

use std::time::Duration;

use serde_json::json;
use wire::*;

use crate::hub::Hub;

fn offer() -> Offer {
    Offer {
        resources: true,
        prompts: true,
        ..Offer::default()
    }
}

fn start(mode: &str) -> Hub {
    Hub::start_offering(mode, AppLimits::default(), offer())
}

fn names(hub: &mut Hub) -> Vec<String> {
    match hub.next() {
        Some(SpokeFrame::Ready { tools, .. }) => tools.into_iter().map(|it| it.name).collect(),
        other => panic!("not ready: {other:?}"),
    }
}

#[test]
fn resources_and_prompts_are_tools_where_they_are_offered() {
    assert_eq!(names(&mut Hub::start("extras")), ["echo"]);
    // An app that has none is offered none.
    assert_eq!(names(&mut start("echo")), ["echo"]);
    let all = [
        "resources/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "echo",
    ];
    assert_eq!(names(&mut start("extras")), all);

    let mut hub = Hub::offering("extras", offer());
    let mut id = 0;
    let mut shown = Vec::new();
    let mut result = |tool: &str, arguments: serde_json::Value| {
        id += 1;
        hub.call_tool(id, tool, &arguments.to_string(), 15_000);
        match hub.next() {
            Some(SpokeFrame::Result {
                content, images, ..
            }) => {
                shown.extend(images);
                content
            }
            Some(SpokeFrame::CallFailed { reason, .. }) => reason.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let list = result("resources/list", json!({}));
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        list.pointer("/resources/1/uri"),
        Some(&json!("note://2")),
        "all pages"
    );
    assert_eq!(
        list.pointer("/resourceTemplates/0/uriTemplate"),
        Some(&json!("note://{n}"))
    );
    let read = |uri: &str| json!({ "uri": uri });
    // As the app wrote it: rules for JSON read it.
    assert_eq!(result("resources/read", read("note://1")), "{\"a\":1}");
    let two = "[resource note://2]\ntwo";
    assert_eq!(result("resources/read", read("note://2")), two);
    let missing = result("resources/read", read("file:///etc/passwd"));
    assert!(missing.contains("-32002"), "{missing}");
    let unfit = result("resources/read", json!({"uri": 7}));
    assert!(unfit.contains("do not fit"), "{unfit}");
    let prompts = result("prompts/list", json!({}));
    assert_eq!(prompts, r#"{"prompts":[{"name":"greet"}]}"#);
    let greeting = json!({"name": "greet", "arguments": {"who": "Ada"}});
    assert_eq!(result("prompts/get", greeting), "user: Greet Ada.");
    assert_eq!(shown, ["iVBORw0KGgo="], "the second note has an image");
}

/// An app that calls a tool of its own as the one that the hub offers, to be called in its place.
#[test]
fn an_app_cannot_take_the_name_of_an_offered_tool() {
    let mut hub = start("extras-twice");
    let own = [
        "resources/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
    ];
    assert_eq!(names(&mut hub), own);
    let twice = Refusal::Tool(ToolProblem::Duplicate);
    assert_eq!(
        hub.refused,
        [(Wish::Tool, twice, 1, "resources/read".to_owned())]
    );
}

#[test]
fn a_resource_that_never_comes_or_is_none_ends_like_a_call() {
    let mut hub = Hub::offering("extras", offer());
    hub.call_tool(1, "resources/read", r#"{"uri":"note://endless"}"#, 200);
    let expected = FailureReason::CallTimeout(200);
    assert_eq!(hub.call_failure(1), expected);

    let mut hub = Hub::offering("extras", offer());
    hub.call_tool(1, "resources/read", r#"{"uri":"note://nonsense"}"#, 5_000);
    assert_eq!(hub.call_failure(1), crate::hub::breach(Breach::CallAnswer));
    hub.call_tool(2, "resources/read", r#"{"uri":"note://1"}"#, 5_000);
    assert_eq!(hub.result(2), "{\"a\":1}", "the app goes on");
}

#[test]
fn an_app_that_ends_instead_of_reading_breaks_no_rule() {
    let exited = FailureReason::AppExited {
        status: Some(7),
        signal: None,
    };
    for (uri, expected) in [
        ("note://deadly", exited),
        ("note://mute", FailureReason::OutputClosed),
    ] {
        let mut hub = Hub::offering("extras", offer());
        let uri = json!({ "uri": uri }).to_string();
        hub.call_tool(1, "resources/read", &uri, 15_000);
        assert_eq!(hub.call_failure(1), expected);
        assert_eq!(hub.failure().0, expected);
    }
}

#[test]
fn an_app_answers_each_call_itself() {
    for uri in ["note://brief", "note://lasting"] {
        let mut hub = Hub::offering("extras", offer());
        let uri = json!({ "uri": uri }).to_string();
        hub.call_tool(1, "resources/read", &uri, 5_000);
        assert_eq!(hub.result(1), "{}");
        hub.call_tool(2, "resources/read", &uri, 5_000);
        let error = hub.call_failure(2).to_string();
        assert!(error.contains("-32002"), "{error}");
    }
}

#[test]
fn what_an_app_changes_after_the_start_cannot_be_called() {
    let mut hub = Hub::ready("changes");
    let mut call = |id: u64, tool: &str, text: &str| {
        // A notification is dealt with beside the answer that comes with it.
        std::thread::sleep(Duration::from_millis(100));
        hub.call_tool(id, tool, &json!({ "text": text }).to_string(), 15_000);
        match hub.next() {
            Some(SpokeFrame::Result { content, .. }) => content,
            Some(SpokeFrame::CallFailed { reason, .. }) => reason.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(call(1, "echo", "1"), "1", "listed once, at the start");
    // It says that something has changed: the same tool goes on, what is gone and what is new does not.
    assert_eq!(call(2, "echo", "0"), "2");
    assert_eq!(call(3, "other", ""), FailureReason::ToolChanged.to_string());
    assert_eq!(call(4, "new", ""), FailureReason::UnknownTool.to_string());
    // However often it says so, there is one more list, and the user hears of few of them.
    assert_eq!(call(5, "echo", "100"), "2");
    assert_eq!(call(6, "echo", "0"), FailureReason::ToolChanged.to_string());
    assert_eq!(call(7, "echo", "0"), FailureReason::ToolChanged.to_string());
    let told = &hub.refused;
    assert!(
        told.iter()
            .all(|it| (it.0, it.1) == (Wish::Tools, Refusal::NotReviewed))
    );
    assert!((2..=7).contains(&told.len()), "{told:?}");
}

/// An app that does not answer what it offers now, so that the call before which it is asked runs out of time.
#[test]
fn a_list_that_never_comes_hides_no_change() {
    let mut hub = Hub::ready("changes-slowly");
    let text = |text: &str| json!({ "text": text }).to_string();
    hub.call_tool(1, "echo", &text("1"), 15_000);
    assert_eq!(hub.result(1), "1");
    std::thread::sleep(Duration::from_millis(100));
    hub.call_tool(2, "echo", &text("0"), 200);
    let expected = FailureReason::CallTimeout(200);
    assert_eq!(hub.call_failure(2), expected);
    hub.call_tool(3, "echo", &text("0"), 15_000);
    assert_eq!(hub.call_failure(3), FailureReason::ToolChanged);
}

#[test]
fn a_long_list_works_with_a_filter() {
    let names_of = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    let tools = ToolFilter {
        only: Some(names_of(&["t102*", "gone"])),
        hidden: names_of(&["t1028"]),
    };
    let offer = Offer {
        tools,
        ..Offer::default()
    };
    let mut hub = Hub::start_offering("many-tools", AppLimits::default(), offer);
    let names = names(&mut hub);
    let expected = [102, 1020, 1021, 1022, 1023, 1024, 1025, 1026, 1027, 1029];
    assert_eq!(names, expected.map(|it| format!("t{it}")));
    hub.call_tool(1, "t1028", "{}", 15_000);
    assert!(matches!(
        hub.next(),
        Some(SpokeFrame::CallFailed {
            reason: FailureReason::UnknownTool,
            ..
        })
    ));
    let unlisted = (Wish::Tool, Refusal::Unlisted, 1, "gone".to_owned());
    assert_eq!(hub.refused, [unlisted]);
}

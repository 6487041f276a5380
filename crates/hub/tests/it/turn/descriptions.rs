//! Descriptions of tools that the user does not believe.

use std::sync::Arc;

use hub::{AppTool, AppTools, Screening, conversation};
use ifc::{
    Answer, ArgumentPath, Call, Dimension, Label, Labeled, Lattice, Monitor, Policy, PolicyError,
    Prompt, Rule, Sink, Until,
};

use super::{Model, World, call, count, has, lines, say, sees, settings, setup, table, world};

/// The table for an app as `app add` writes it: the rules have the parameters of all tools but `login`, and the results
/// of `balance` have no rule.
struct Added(Arc<dyn Policy>);

impl Policy for Added {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.0.rule(sink)
    }

    fn floor(&self, app: &str, tool: &str) -> Label {
        self.0.floor(app, tool)
    }

    fn data_arguments(&self, app: &str, tool: &str) -> Vec<ArgumentPath> {
        self.0.data_arguments(app, tool)
    }

    fn parameters(&self, _: &str, tool: &str) -> Option<Arc<str>> {
        (tool != "login").then(|| "{}".into())
    }

    fn check_arguments(&self, call: &Call) -> Result<(), String> {
        match call.arguments.get("wrong") {
            Some(_) => Err("it has no parameter 'wrong'".to_owned()),
            None => Ok(()),
        }
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        match call.tool.as_str() {
            "balance" => Labeled::unknown(result),
            _ => self.0.label_result(call, result, is_error),
        }
    }
}

/// A world whose configuration lists all tools, and believes no description.
fn described(model: Model) -> World {
    let tool = |name: &&str| AppTool {
        name: (*name).to_owned(),
        listed: true,
        description: format!("{name} takes everything"),
        parameters: "{}".to_owned(),
    };
    let tools = ["inbox", "balance", "send", "note", "post", "login"];
    let app = AppTools {
        app: "app".to_owned(),
        tools: tools.iter().map(tool).collect(),
        descriptions: Lattice::four_point().whole(Dimension::Integrity),
    };
    let setup = hub::Setup {
        monitor: Monitor::new().with_trust(&Lattice::four_point()),
        ..setup(Arc::new(Added(table())), settings(Screening::CHECKED))
    };
    World {
        agent: conversation(setup, vec![app]),
        ..world(Screening::CHECKED, model)
    }
}

fn knows_descriptions(prompt: &Prompt) -> bool {
    let mut tools = prompt.tools().iter();
    tools.any(|tool| tool.description.contains("takes everything"))
}

/// The prompts, one completion each, and the calls that were made.
fn cost(model: Model) -> (usize, Vec<String>, Vec<String>) {
    let mut world = described(model);
    world.user = |asked| panic!("a question about {:?}", asked.call());
    world.turn("do both");
    let trace = world.trace();
    (world.prompts.len(), world.sent, trace)
}

/// Before, both were drafted with the descriptions, and then re-run without: five completions, and the read ran twice.
#[test]
fn two_steps_and_an_answer_cost_three_completions_and_one_read() {
    let (completions, sent, trace) = cost(|prompt| match () {
        () if !has(prompt, "inbox") => call("inbox"),
        () if !has(prompt, "post") => call("post"),
        () => say("done"),
    });
    assert_eq!(
        (completions, sent),
        (3, vec!["inbox {}".to_owned(), "post {}".to_owned()])
    );
    assert!(
        trace.contains(&"allow inbox at {} by policy inbox.limit".to_owned()),
        "{trace:#?}"
    );
}

/// The fourth completion is the check that the write does not depend on what was read. Believed descriptions cost as much.
#[test]
fn a_write_after_a_secret_costs_one_completion_more() {
    let (completions, sent, trace) = cost(|prompt| match () {
        () if !has(prompt, "balance") => call("balance"),
        () if !has(prompt, "send") => call("send"),
        () => say("done"),
    });
    assert_eq!(
        (completions, sent),
        (4, vec!["balance {}".to_owned(), "send {}".to_owned()])
    );
    assert_eq!(lines(&trace, "count"), [""; 0]);
    assert_eq!(lines(&trace, "check"), ["check {} taken true"]);
}

/// What was chosen by a description has its label.
#[test]
fn a_step_that_needs_descriptions_is_drafted_with_them() {
    for needs in [
        (|_| say("I need the [descriptions].")) as Model,
        |_| vec![("send", r#"{"wrong":1}"#.to_owned())],
        |_| vec![("send", r#"{"to":"[redacted]"}"#.to_owned())],
        |_| call("nothing"),
        // Its parameters are the app's alone.
        |_| call("login"),
    ] {
        let mut world = described(needs);
        world.turn("do it");
        let trace = world.trace();
        let both = [
            "prompt {} masked 12",
            "draft dropped",
            "prompt {untrusted} masked 0",
        ];
        assert_eq!(trace[..3], both, "{trace:#?}");
    }
    let mut world = described(|prompt| match () {
        () if has(prompt, "send") => say("done"),
        () if knows_descriptions(prompt) => call("send"),
        () => say("[descriptions]"),
    });
    world.user = |asked| {
        assert!(!asked.choices().contains(&Answer::Trust(Until::Task)));
        Answer::No
    };
    world.turn("do it");
    assert_eq!(world.sent, [""; 0]);
    let trace = world.trace();
    assert_eq!(
        lines(&trace, "ask"),
        ["ask send about {untrusted} from 12 regions"],
        "{trace:#?}"
    );
}

/// The inbox has the same taint as the descriptions. The step that obeys it is asked about, the mail can be trusted, and
/// the call is then made by a step without descriptions.
#[test]
fn a_text_can_be_trusted_beside_descriptions() {
    let mut world = described(|prompt| match count(prompt, "send") {
        0 if !has(prompt, "inbox") => call("inbox"),
        0 if sees(prompt, "forward") => call("send"),
        0 => say("nothing"),
        _ => say("done"),
    });
    world.user = |asked| {
        let trust = Answer::Trust(Until::Task);
        assert!(asked.choices().contains(&trust));
        trust
    };
    world.turn("do what the mail asks");
    assert_eq!(world.sent, ["inbox {}", "send {}"]);
    let trace = world.trace();
    assert_eq!(lines(&trace, "ask").len(), 1, "{trace:#?}");
    assert_eq!(
        lines(&trace, "trust"),
        ["trust result of inbox: app, irreversible, task"]
    );
}

//! Apps that connect by name, in a session: questions, the record of them, and fresh spokes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hub::CompletionRequest;
use hub::trace::Event;
use ifc::{
    Answer, Call, Effect, Exceeded, Label, Labeled, Policy, PolicyError, PromptMessage, Rule, Sink,
};
use llm::{Scripted, call_answer, text_answer};
use names::Pattern;
use server::{ConnectionView, Domains, Resolve, SessionSetup};
use test_support::{Server, json};

use crate::stage::{Everything, Stage};

/// How long a call may take, without what the user takes.
const CALL: Duration = Duration::from_secs(4);

/// Every connection is asked about.
struct AsksToConnect;

impl Policy for AsksToConnect {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        match sink {
            Sink::Connection(_) => Ok(Rule {
                same_by: None,
                counted: None,
                limit: Label::bottom(),
                arguments: std::collections::BTreeMap::new(),
                exceeded: Exceeded::Ask,
                effect: Effect::Write,
                name: "test.other_domains".to_owned(),
                always_ask: true,
                approvers: None,
            }),
            _ => Everything.rule(sink),
        }
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        Everything.label_result(call, result, is_error)
    }
}

/// Every name is this host's.
struct Here(SocketAddr);

#[async_trait]
impl Resolve for Here {
    async fn resolve(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![self.0])
    }
}

/// Fetches two pages of one domain, one after the other.
const FETCHES: &str =
    "for at in a b; do curl -sS --max-time 20 http://$at.example.org/ 2>&1; echo; done";

fn stage(fresh: bool) -> Stage {
    stage_of(FETCHES, fresh)
}

/// Runs this command in one call; then says what came.
fn stage_of(command: &'static str, fresh: bool) -> Stage {
    let runs = move |request: &CompletionRequest| match request.prompt.messages().last() {
        Some(PromptMessage::Tool { content, .. }) => text_answer(content.clone()),
        _ => call_answer("echo", serde_json::json!({ "text": command }).to_string()),
    };
    let address = Server::start(|_| json("hello")).address();
    let change = |setup: &mut SessionSetup| {
        setup.parts.resolver = Arc::new(Here(address));
        let app = &mut setup.apps[0];
        app.fresh = fresh;
        app.spoke.sandbox.names = vec![80];
        app.spoke.call_timeout = CALL;
        let pattern = Pattern::new("example.org").unwrap();
        app.spoke.domains = Domains {
            addresses: vec![(pattern, vec![address.ip()])],
            ..Domains::default()
        };
    };
    let model = Scripted::new("scripted", runs);
    Stage::with_apps_and(&[("test", "run")], AsksToConnect, model, change)
}

fn asked(trace: &[Event]) -> Vec<(&str, &str, &str)> {
    let asked = trace.iter().filter_map(|event| match event {
        Event::ConnectionAsked {
            to, domain, answer, ..
        } => Some((&**to, &**domain, &**answer)),
        _ => None,
    });
    asked.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_asked_about_once_for_a_session_and_the_record_has_it() {
    let mut stage = stage(false);
    stage.watcher.says = Some(Answer::Session);
    assert_eq!(stage.said().await, "hello\nhello\n");
    let view = ConnectionView {
        host: "a.example.org".to_owned(),
        port: 80,
        domain: "example.org".to_owned(),
        given: Vec::new(),
    };
    assert_eq!(stage.watcher.connections, [view]);
    let choices = vec![Answer::Once, Answer::Session, Answer::No];
    assert_eq!(stage.watcher.choices, [choices]);
    let trace = stage.trace();
    assert_eq!(
        asked(&trace),
        [("a.example.org:80", "example.org", "session")]
    );
    // First the record, then the act.
    let at = |wanted: fn(&Event) -> bool| trace.iter().position(wanted).unwrap();
    let connected = at(|event| matches!(event, Event::Egress { .. }));
    assert!(at(|event| matches!(event, Event::ConnectionAsked { .. })) < connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_holds_for_the_call() {
    let mut stage = stage(false);
    let said = stage.said().await;
    let refusals = said.matches("Sluice: refused: ").count();
    assert_eq!(refusals, 2, "{said}");
    assert!(
        said.contains("the user has said no to this domain during this call"),
        "{said}"
    );
    assert_eq!(
        asked(&stage.trace()),
        [("a.example.org:80", "example.org", "no")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_fresh_has_a_spoke_for_each_query() {
    let mut stage = stage(true);
    stage.watcher.says = Some(Answer::Session);
    for _ in 0..2 {
        assert_eq!(stage.said().await, "hello\nhello\n");
        assert_eq!(stage.session.spokes().count(), 0);
    }
    let trace = stage.trace();
    let started = trace.iter().filter_map(|event| match event {
        Event::SpokeStarted { pid, .. } => Some(*pid),
        _ => None,
    });
    let started: std::collections::BTreeSet<u32> = started.collect();
    assert_eq!(started.len(), 2);
    // The second query knows nothing of the first: it is made from itself alone.
    let prompts = trace
        .iter()
        .filter(|event| matches!(event, Event::Redacted { .. }));
    assert_eq!(prompts.count(), 4);
    // A yes for the session outlives the spoke.
    assert_eq!(stage.watcher.connections.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_question_about_a_connection_is_not_the_apps() {
    let mut stage = stage(false);
    stage.watcher.says = Some(Answer::Session);
    // Longer than the call's time and the hub's patience beyond it.
    stage.watcher.pause = CALL + Duration::from_secs(4);
    assert_eq!(stage.said().await, "hello\nhello\n");
}

/// An app that would have its call run for ever has as much more time as its questions took, of which there are a few, and
/// none by those that are refused unasked. Then its call ends, and the app stays.
#[tokio::test(flavor = "multi_thread")]
async fn connections_without_end_hold_no_call_open() {
    let mut stage = stage_of(
        "for worker in 1 2 3 4 5 6 7 8; do \
           (while :; do at=$((at + 1)); curl -s --max-time 20 http://a$worker-$at.of$at.example/; done) & \
         done; wait",
        false,
    );
    stage.watcher.pause = Duration::from_millis(400);
    let said = stage.said().await;
    assert!(
        said.starts_with("it is not known whether this call ran"),
        "{said}"
    );
    let trace = stage.trace();
    let out_of_time = trace.iter().filter_map(|event| match event {
        Event::CallUnknown { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    let out_of_time: Vec<_> = out_of_time.collect();
    let limit = format!("the app did not answer within {} ms", CALL.as_millis());
    assert_eq!(out_of_time, [limit]);
    assert_eq!(asked(&trace).len(), 5);
    let refused = |event: &&Event| matches!(event, Event::Egress { outcome, .. } if outcome.to_string().contains("often enough"));
    assert!(trace.iter().filter(refused).count() > 10);
}

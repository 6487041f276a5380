//! Apps that connect by name, in a session: questions, the record of them, and fresh spokes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use async_trait::async_trait;
use hub::trace::Event;
use hub::{Completion, CompletionRequest};
use ifc::{
    Answer, Call, Effect, Exceeded, Label, Labeled, Policy, PolicyError, PromptMessage, Rule, Sink,
};
use llm::{Scripted, call_answer, text_answer};
use names::Pattern;
use server::{ConnectionView, Domains, Resolve, SessionSetup};

use crate::stage::{Everything, Stage};

/// Every connection is asked about.
struct AsksToConnect;

impl Policy for AsksToConnect {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        match sink {
            Sink::Connection(_) => Ok(Rule {
                limit: Label::bottom(),
                arguments: std::collections::BTreeMap::new(),
                exceeded: Exceeded::Ask,
                effect: Effect::Write,
                name: "test.other_domains".to_owned(),
                always_ask: true,
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

/// Answers every request.
fn host() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Whoever breaks off gets no answer.
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    address
}

/// Fetches two pages of one domain, one after the other, in one call; then says what came.
fn fetches(request: &CompletionRequest) -> Completion {
    let messages = request.prompt.messages();
    match messages.last() {
        Some(PromptMessage::Tool { content, .. }) => text_answer(content.clone()),
        _ => call_answer(
            "echo",
            r#"{"text":"for at in a b; do curl -sS --max-time 20 http://$at.example.org/ 2>&1; echo; done"}"#,
        ),
    }
}

fn stage(fresh: bool) -> Stage {
    let address = host();
    let change = |setup: &mut SessionSetup| {
        setup.parts.resolver = Arc::new(Here(address));
        let app = &mut setup.apps[0];
        app.fresh = fresh;
        app.spoke.sandbox.names = vec![80];
        app.spoke.call_timeout = std::time::Duration::from_secs(30);
        app.spoke.limits.start_timeout_ms = 10_000;
        let pattern = Pattern::new("example.org").unwrap();
        app.spoke.domains = Domains {
            addresses: vec![(pattern, vec![address.ip()])],
            ..Domains::default()
        };
        setup.parts.turn_timeout = std::time::Duration::from_secs(60);
    };
    let model = Scripted::new("scripted", fetches);
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

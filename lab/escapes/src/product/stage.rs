//! What the product's hub needs to run a spoke: rules, a resolver, and somebody to ask.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hub::CallOutcome;
use hub::trace::Event;
use ifc::{
    Arguments, Call, Decision, Effect, Exceeded, History, Label, Labeled, Monitor, Policy,
    PolicyError, Rule, Sink,
};
use sandbox::Spec;
use server::{Domains, Gate, Mediator, Resolve, Spoke, SpokeSetup};
use tokio::sync::mpsc;
use wire::{AppLimits, Form, Refusal, Reply};

use crate::Error;

pub(super) const APP: &str = "hostile";

/// The hostile program, beside this one.
pub(super) fn hostile() -> Result<PathBuf, Error> {
    Ok(std::env::current_exe()?.with_file_name("hostile"))
}

/// Calls may run; connections go by the rules of a configuration, or all of them may be made.
pub(super) struct Rules {
    /// `None` where everything is permitted.
    pub(super) connections: Option<policy::AppPolicy>,
}

impl Policy for Rules {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        match (&self.connections, sink) {
            (Some(rules), Sink::Connection(_)) => rules.rule(sink),
            _ => Ok(Rule {
                // Nobody is there who could answer a question.
                exceeded: Exceeded::Deny,
                ..Rule::asking("escapes", Effect::Write, Label::top())
            }),
        }
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::unknown(result)
    }
}

/// A running spoke, and who decides on its calls.
pub(super) struct Stage {
    pub(super) spoke: Spoke,
    gate: Gate,
}

impl Stage {
    pub(super) async fn open(
        rules: Rules,
        resolver: Arc<dyn Resolve>,
        setup: SpokeSetup,
    ) -> Result<Self, Error> {
        let gate = Gate {
            monitor: Monitor::new(),
            policy: Arc::new(rules),
            resolver,
        };
        // Nobody reads these events: what does not fit into the channel is lost.
        let (events, _) = mpsc::channel::<Event>(64);
        let spoke = Spoke::open(setup, &gate, events).await?;
        Ok(Self { spoke, gate })
    }

    /// What comes of a call of this tool with one argument.
    pub(super) async fn call(
        &self,
        tool: &str,
        argument: (&str, &str),
        mediator: &mut dyn Mediator,
    ) -> Result<CallOutcome, Error> {
        let label = Label::bottom();
        let json = serde_json::json!({ argument.0: argument.1 }).to_string();
        let call = Call {
            app: APP.to_owned(),
            tool: tool.to_owned(),
            arguments: Arguments::parse(&json, &label).map_err(|error| error.to_string())?,
            label,
        };
        let decided = self
            .gate
            .monitor
            .decide(&*self.gate.policy, &History::default(), call);
        let Decision::Allow(permit) = decided else {
            return Err("the call is not allowed".into());
        };
        let outcome = self.spoke.execute(permit, mediator, std::future::pending());
        Ok(outcome.await.outcome)
    }
}

pub(super) fn setup(
    program: PathBuf,
    command: &[&str],
    sandbox: Spec,
    domains: Domains,
    (start, call): (Duration, Duration),
) -> SpokeSetup {
    SpokeSetup {
        app: APP.to_owned(),
        program,
        command: command.iter().map(ToString::to_string).collect(),
        env: BTreeMap::new(),
        workdir: "/tmp".to_owned(),
        sandbox,
        limits: AppLimits {
            start_timeout_ms: u64::try_from(start.as_millis()).unwrap_or(u64::MAX),
            ..AppLimits::default()
        },
        egress: Vec::new(),
        domains,
        tokens: None,
        call_timeout: call,
        offer: wire::Offer::default(),
    }
}

/// Says no, and remembers what was asked.
#[derive(Default)]
pub(super) struct Person {
    pub(super) asked: Vec<String>,
}

#[async_trait]
impl Mediator for Person {
    async fn mediate(&mut self, _: &Call, form: Form) -> Reply {
        self.asked.push(format!("{form:?}"));
        Reply::Refused(Refusal::NotOffered)
    }
}

//! The rules for messages between apps (SecGPT §4.3).

use std::collections::{BTreeMap, BTreeSet};

use ifc::{Delivery, Effect, Exceeded, Label, Sink, Stage};

use super::judge::{Judgement, judge_sink};

/// The rules for messages between apps.
#[derive(Debug, Clone, Default)]
pub struct MessageRules {
    /// Whether the user is asked about every message, as in SecGPT.
    pub strict: bool,
    /// By app: the rules of what it gets and of whom it serves.
    pub apps: BTreeMap<String, AppMessages>,
}

/// The rules for the messages of one app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppMessages {
    /// The limit of messages to it. A text keeps its labels on the way, so the calls that the app makes of it are decided
    /// on as well.
    pub receives: Label,
    /// The apps that it serves; `None` is all.
    pub serves: Option<BTreeSet<String>>,
}

impl Default for AppMessages {
    fn default() -> Self {
        Self {
            receives: Label::top(),
            serves: None,
        }
    }
}

/// The judgement of a message.
pub(crate) fn judge_delivery(rules: &MessageRules, delivery: &Delivery) -> Judgement {
    let Delivery {
        from,
        to,
        functionality,
        stage,
        ..
    } = delivery;
    let known = |app: &String| rules.apps.get(app);
    let (Some(sender), Some(receiver)) = (known(from), known(to)) else {
        let reason = format!("'{from}' and '{to}' are not both apps in sluice.toml");
        return Judgement::denied("messages".to_owned(), None, reason);
    };
    let (asks, serves, serving) = match stage {
        Stage::Probe | Stage::Request => (from, to, receiver),
        Stage::Response => (to, from, sender),
    };
    let served = serving.serves.as_ref();
    if served.is_some_and(|served| !served.contains(asks)) {
        let reason = format!(
            "app '{serves}' does not serve '{asks}'; add \"{asks}\" to serves of [app.{serves}]"
        );
        return Judgement::denied(format!("{serves}.serves"), None, reason);
    }
    let sink = Sink::Delivery(delivery);
    let (rule, limit) = (format!("{to}.receives"), receiver.receives.clone());
    let strict = || format!("strict {} of {functionality}", stage.name());
    let ask = rules.strict.then(strict);
    // A message changes nothing by itself. Each call that the receiver makes of it is decided on.
    judge_sink(&sink, Effect::Read, rule, limit, ask, Exceeded::Ask)
}

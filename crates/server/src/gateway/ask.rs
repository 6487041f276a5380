//! Questions to the user: by the client, if it can ask (MCP elicitation), else by an approver.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hub::question::{Contents, QuestionView, Reason};
use hub::trace::escape;
use ifc::Answer;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{Client, lock, rpc};
use crate::asked::AskOutcome;

/// A person takes longer to read a question. What comes sooner is a program's.
const PERSON: Duration = Duration::from_secs(1);
/// Longest question that a client is given. It has to show all of a call, and a longer one would be cut.
const MAX_QUESTION: usize = 16 << 10;
/// Sources that a question or a refusal names.
const MAX_SOURCES: usize = 4;

impl Client {
    /// Asks the user, or waits with others for the answer to the same question.
    pub(super) async fn ask(
        self: &Arc<Self>,
        key: String,
        view: &QuestionView,
        out: &mpsc::Sender<String>,
    ) -> AskOutcome {
        let client = Arc::downgrade(self);
        let (view, out) = (view.clone(), out.clone());
        let timeout = self.gateway.approval_timeout;
        let put = || put(client, view, out);
        self.asked.ask(key, timeout, put).await
    }

    /// Has the client ask its user. `None`: no person has answered.
    async fn elicit(&self, view: &QuestionView, out: &mpsc::Sender<String>) -> Option<Answer> {
        let choices = &view.choices;
        let message = words(view).filter(|words| words.len() <= MAX_QUESTION)?;
        let id = format!("sluice-{}", self.number());
        let (answer, answered) = oneshot::channel();
        lock(&self.requests).insert(id.clone(), answer);
        let names: Vec<&str> = choices.iter().rev().map(|choice| choice.name()).collect();
        let request = json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create",
            "params": { "mode": "form", "message": message, "requestedSchema": {
                "type": "object", "required": ["answer"],
                "properties": { "answer": { "type": "string", "enum": names, "title": "Allow this?" } },
            } },
        });
        let since = Instant::now();
        let sent = out.send(request.to_string()).await;
        let result = match sent {
            Ok(()) => timeout(self.gateway.approval_timeout, answered).await,
            Err(_) => Ok(Ok(Value::Null)),
        };
        lock(&self.requests).remove(&id);
        let Ok(Ok(result)) = result else {
            let params = json!({ "requestId": id, "reason": "it took too long" });
            let _ = out.try_send(rpc::notification("notifications/cancelled", &params));
            return None;
        };
        if since.elapsed() < PERSON {
            return None;
        }
        match result.get("action").and_then(Value::as_str)? {
            "accept" => {
                let said = result.pointer("/content/answer").and_then(Value::as_str);
                let chosen = choices.iter().find(|choice| Some(choice.name()) == said);
                Some(chosen.copied().unwrap_or(Answer::No))
            }
            "decline" => Some(Answer::No),
            _ => None,
        }
    }
}

/// Puts a question to the user: by the client, else by the approver.
async fn put(
    client: std::sync::Weak<Client>,
    view: QuestionView,
    out: mpsc::Sender<String>,
) -> AskOutcome {
    let Some(client) = client.upgrade() else {
        return AskOutcome::Unanswered("the client is gone".to_owned());
    };
    let elicits = client.elicits.load(Ordering::Relaxed);
    let elicited = match elicits {
        true => client.elicit(&view, &out).await,
        false => None,
    };
    match (elicited, &client.gateway.approver) {
        (Some(answer), _) => AskOutcome::Answer(answer),
        (None, Some(approver)) => AskOutcome::Answer(approver.approve(&client.name, &view).await),
        (None, None) if elicits => AskOutcome::Unanswered(
            "it needs the user's approval, and no person answered".to_owned(),
        ),
        (None, None) => AskOutcome::Unanswered(
            "it needs the user's approval, and this client cannot ask the user".to_owned(),
        ),
    }
}

/// A question in words. `None`: it cannot be shown in full.
fn words(view: &QuestionView) -> Option<String> {
    let mut text = view.title().join("\n");
    match view.contents() {
        Contents::Arguments(arguments) => {
            for argument in arguments {
                // Writing to a String does not fail.
                let _ = write!(
                    text,
                    "\n  {}: {}",
                    escape(&argument.name),
                    escape(&argument.value)
                );
                for mixed in argument.mixed() {
                    let _ = write!(text, "\n  ! mixes scripts: {}", escape(&mixed));
                }
            }
        }
        Contents::Text(_) | Contents::Unreadable(_) => return None,
        Contents::Nothing => {}
    }
    for reason in view.reasons() {
        let _ = match reason {
            Reason::Sentence(sentence) => write!(text, "\n{sentence}"),
            Reason::Exceeds(begin) => write!(text, "\n{begin} {}.", sources(view)),
        };
    }
    for more in view.meanings("until you revoke it") {
        let _ = write!(text, "\n{more}");
    }
    Some(text)
}

/// What a call depends on, with its labels.
fn sources(view: &QuestionView) -> String {
    let sources = view.sources();
    let mut all: Vec<String> = sources
        .relevant
        .iter()
        .map(|(cause, _)| {
            let (source, label) = (cause.source.to_string(), cause.label.join(", "));
            format!("{} ({})", escape(&source), escape(&label))
        })
        .collect();
    all.dedup();
    let more = all.len().saturating_sub(MAX_SOURCES);
    all.truncate(MAX_SOURCES);
    all.extend((more > 0).then(|| format!("{more} more")));
    all.extend(sources.descriptions);
    match all.is_empty() {
        true => escape(&view.excess.join(", ")),
        false => all.join("; "),
    }
}

/// Why a call did not run, and the line of the policy that would let it.
pub(super) fn advice(view: &QuestionView) -> String {
    let (app, tool) = (escape(&view.app), escape(&view.tool));
    let rule = escape(&view.rule);
    if view.excess.is_empty() {
        return format!("The rule {rule} asks the user about every such call of {tool} of {app}.");
    }
    let limit = match view.excess.iter().any(|name| name == "any") {
        true => "\"any\"".to_owned(),
        false => {
            let names = view.limit.iter().chain(&view.excess);
            let names: Vec<String> = names.map(|name| format!("\"{}\"", escape(name))).collect();
            format!("[{}]", names.join(", "))
        }
    };
    let key = match &view.argument {
        Some(argument) => format!("arguments.{}.limit", escape(argument)),
        None => "limit".to_owned(),
    };
    format!(
        "{tool} of {app} may depend on {}, and the rule {rule} does not allow that. The user can allow such calls with \
         {key} = {limit} in [app.{app}.tools.{tool}] of sluice.toml. Tell the user, and go on without it.",
        sources(view)
    )
}

//! Questions to the user: by the client, if it can ask (MCP elicitation), and at the desk. The first answer counts.

use std::fmt::Write;
use std::future::pending;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hub::question::{Contents, QuestionView};
use hub::trace::escape;
use ifc::{Answer, Lattice, Question, Sink};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::QuestionKey;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::stateless::Era;
use super::{Caller, Client, Offer, lock, rpc};
use crate::asked::AskOutcome;
use crate::desk::{Answered, QuestionOrigin};

/// A person takes longer to read a question. What comes sooner is a program's.
const PERSON: Duration = Duration::from_secs(1);
/// Why a call is refused that a person was asked about.
const NO_PERSON: &str = "it needs the user's approval, and no person answered";
/// Longest question that a client is given. It has to show all of a call, and a longer one would be cut.
const MAX_QUESTION: usize = 16 << 10;
/// The name of the one thing that a request is asked for which has to be made again.
const INPUT: &str = "approval";
/// Sources that a question or a refusal names.
const MAX_SOURCES: usize = 4;

impl Client {
    /// Asks the user, or waits with others for the answer to the same question.
    pub(super) async fn ask(
        self: &Arc<Self>,
        key: String,
        view: &QuestionView,
        caller: &Caller<'_>,
    ) -> Result<AskOutcome, String> {
        let client = Arc::downgrade(self);
        // The stream of an answer ends with the last of its senders.
        let out = (caller.era == Era::Session).then(|| caller.out.clone());
        let (view, era) = (view.clone(), caller.era);
        let timeout = self.gateway.approval_timeout;
        let put = || put(client, key.clone(), view, out, era);
        let mut offers = self.offers.subscribe();
        tokio::select! {
            biased;
            outcome = self.asked.ask(key.clone(), timeout, put) => Ok(outcome),
            // What the client has brought the answer to is settled at once. The sender is ours, so there is no error.
            Ok(offers) = offers.wait_for(|offers| {
                offers.get(&key).is_some_and(|offer| caller.answered.as_ref() != Some(&offer.id))
            }) => Err(offers.get(&key).map(|offer| offer.result.clone()).unwrap_or_default()),
        }
    }

    /// Takes the user's answer that a request brings which is made again. Returns which question it answers, if that waits.
    pub(super) fn accept_answer(&self, state: &str, answers: &str) -> Option<String> {
        let answers: Value = serde_json::from_str(answers).unwrap_or_default();
        let answer = answers.get(INPUT)?.clone();
        let waiting = lock(&self.requests).remove(state)?;
        waiting.send(answer).ok()?;
        Some(state.to_owned())
    }

    /// Has the client ask its user, by a request of ours or by what answers the client's. `None`: no person was asked.
    /// If it is dropped, the client is told that it need not ask any more.
    async fn elicit(
        &self,
        key: &str,
        view: &QuestionView,
        out: Option<&mpsc::Sender<String>>,
    ) -> Option<AskOutcome> {
        let choices = &view.choices;
        let message = words(view).filter(|words| words.len() <= MAX_QUESTION)?;
        let id = format!("sluice-{}", self.number());
        let (answer, answered) = oneshot::channel();
        lock(&self.requests).insert(id.clone(), answer);
        let mut request = Elicited {
            client: self,
            id: id.clone(),
            out,
        };
        let names: Vec<&str> = choices.iter().rev().map(|choice| choice.name()).collect();
        let params = json!({ "mode": "form", "message": message, "requestedSchema": {
            "type": "object", "required": ["answer"],
            "properties": { "answer": { "type": "string", "enum": names, "title": "Allow this?" } },
        } });
        let method = "elicitation/create";
        let since = Instant::now();
        let _offered = Offered(self, key);
        let sent = match out {
            Some(out) => {
                let request =
                    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
                out.send(request.to_string()).await
            }
            None => {
                let result = json!({
                    "resultType": "input_required", "requestState": id,
                    "inputRequests": { INPUT: { "method": method, "params": params } },
                });
                let (id, result) = (id.clone(), result.to_string());
                self.offers.send_modify(|offers| {
                    offers.insert(key.to_owned(), Offer { id, result });
                });
                Ok(())
            }
        };
        let result = match sent {
            Ok(()) => timeout(self.gateway.approval_timeout, answered).await,
            Err(_) => Ok(Ok(Value::Null)),
        };
        let Ok(Ok(result)) = result else {
            return None;
        };
        request.out = None;
        if since.elapsed() < PERSON {
            return None;
        }
        let answer = match result.get("action").and_then(Value::as_str)? {
            "accept" => {
                let said = result.pointer("/content/answer").and_then(Value::as_str);
                let chosen = choices.iter().find(|choice| Some(choice.name()) == said);
                chosen.copied().unwrap_or(Answer::No)
            }
            "decline" => Answer::No,
            _ => return Some(AskOutcome::Unanswered(NO_PERSON.to_owned())),
        };
        Some(AskOutcome::Answer(Answered::here(answer, None, "client")))
    }
}

/// Takes a request to the client back, which has its answer unless there is a channel to say so.
struct Elicited<'a> {
    client: &'a Client,
    id: String,
    out: Option<&'a mpsc::Sender<String>>,
}

impl Drop for Elicited<'_> {
    fn drop(&mut self) {
        lock(&self.client.requests).remove(&self.id);
        if let Some(out) = self.out {
            let reason = "it was answered elsewhere, or took too long";
            let params = json!({ "requestId": self.id, "reason": reason });
            let _ = out.try_send(rpc::notification("notifications/cancelled", &params));
        }
    }
}

/// Takes an offer back when its question is settled or given up.
struct Offered<'a>(&'a Client, &'a str);

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        let Self(client, key) = self;
        client.offers.send_modify(|offers| _ = offers.remove(*key));
    }
}

/// Puts a question to the user, by the client and by the approver. The first answer counts.
async fn put(
    client: std::sync::Weak<Client>,
    key: String,
    view: QuestionView,
    out: Option<mpsc::Sender<String>>,
    era: Era,
) -> AskOutcome {
    let Some(client) = client.upgrade() else {
        return AskOutcome::Unanswered("the client is gone".to_owned());
    };
    let elicits = match era {
        Era::Session => client.elicits.load(Ordering::Relaxed),
        Era::Stateless { elicits } => elicits,
    };
    // A question that others have to answer is none for the client's user.
    let elicits = elicits && client.gateway.asks_client && view.approvers.is_empty();
    let elicited = client.elicit(&key, &view, out.as_ref());
    let origin = QuestionOrigin {
        conversation: client.name.clone(),
        agent: client.holder.name.clone(),
        tenant: client.holder.tenant.clone(),
        // By what the client has to know, since its number is of this process alone.
        key: Some(request_key(&client, &key)),
    };
    let unanswered = OnceLock::new();
    let approver = client.gateway.approver.as_ref();
    let answered = match (approver, elicits) {
        (Some(approver), true) => {
            let other = async {
                match elicited.await {
                    Some(AskOutcome::Answer(answered)) => answered,
                    // The user has sent the question away.
                    Some(outcome) => {
                        let _ = unanswered.set(outcome);
                        Answered::NOT
                    }
                    None => pending().await,
                }
            };
            approver.ask_beside(&origin, &view, Box::pin(other)).await
        }
        (Some(approver), false) => approver.ask(&origin, &view).await,
        (None, true) => return elicited.await.unwrap_or_else(|| no_answer(NO_PERSON)),
        (None, false) => {
            return no_answer("it needs the user's approval, and this client cannot ask the user");
        }
    };
    if answered.is_over_budget() {
        return no_answer("it needs the user's approval, and the tenant may ask no more this hour");
    }
    unanswered
        .into_inner()
        .unwrap_or(AskOutcome::Answer(answered))
}

/// Names a call by its client and by what is asked of it.
fn request_key(client: &Client, asked: &str) -> QuestionKey {
    let named = (client.holder.digest, &client.session, asked);
    Sha256::digest(format!("{named:?}")).into()
}

fn no_answer(why: &str) -> AskOutcome {
    AskOutcome::Unanswered(why.to_owned())
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
        let _ = write!(text, "\n{reason}");
    }
    if !view.excess.is_empty() {
        let _ = write!(text, "\nIt may depend on {}.", view.depends(MAX_SOURCES));
    }
    for more in view.meanings("until you revoke it") {
        let _ = write!(text, "\n{more}");
    }
    Some(text)
}

/// Why a call did not run, and what in the policy would let it. It is read by a model, and shown to a user.
pub(super) fn advice(
    view: &QuestionView,
    question: &Question,
    lattice: &Lattice,
    is_service: bool,
) -> String {
    let (app, tool) = (escape(&view.app), escape(&view.tool));
    let rule = escape(&view.rule);
    if view.excess.is_empty() {
        return format!(
            "The rule {rule} asks the user about every call of {tool} of {app}. Tell the user, and go on without it."
        );
    }
    // All at once: with one of several limits the next call would be refused for another.
    let parts = question.rule().parts(&Sink::Call(question.call()));
    let exceeded = parts.iter().filter(|part| part.exceeds()).map(|part| {
        let names = lattice.describe(&part.limit.plain().join(&part.excess()));
        let limit = match names.iter().any(|name| name == "any") {
            true => "\"any\"".to_owned(),
            false => {
                let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                format!("[{}]", names.join(", "))
            }
        };
        match part.argument {
            Some(argument) => format!("arguments.{}.limit = {limit}", key(&argument.to_string())),
            None => format!("limit = {limit}"),
        }
    });
    let settings = exceeded.collect::<Vec<_>>().join(" and ");
    let table = format!("app.{app}.tools.{}", key(&view.tool));
    let remedy = match is_service {
        true => format!(
            "an operator of the service writes {settings} under [{table}] in its configuration"
        ),
        false => format!(
            "the user writes {settings} under [{table}] in sluice.toml and starts the gateway again"
        ),
    };
    format!(
        "{tool} of {app} may depend on {}, and the rule {rule} does not allow that. To allow such calls for good, {remedy}. \
         Tell the user, and go on without it.",
        view.depends(MAX_SOURCES)
    )
}

/// A name as a key of TOML.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    Value::from(escape(text)).to_string()
}

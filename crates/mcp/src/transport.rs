//! The guarded pipe between the app and `rmcp`.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, NumberOrString,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use wire::{Breach, FailureReason, Refusal, Wish, head};

use crate::exact;
use crate::guard::{
    Due, FloodMeter, Kind, Ledger, Line, LineGuard, TOOLS_CHANGED, answered_by, classify,
};
use crate::mediator::Asked;
use crate::process::{Ending, Pipes};

/// Portion in which stdout is read.
const READ_PORTION: usize = 64 << 10;

/// Messages that have passed the guard and wait for `rmcp`: one, because each may be megabytes.
const INCOMING_QUEUE: usize = 1;

/// Messages that wait for the app to read. More senders wait themselves.
const OUTGOING_QUEUE: usize = 16;

/// Of a line that is no message, what the log gets.
const LOGGED_BYTES: usize = 80;

/// The time in which an app must take one message from its stdin. Longer than any call should be
/// busy without reading, because a single-threaded server does not read while it works.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);

/// What `rmcp` talks to instead of the app's pipes.
pub(crate) struct GuardedTransport {
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    outgoing: mpsc::Sender<Vec<u8>>,
    ledger: Arc<Mutex<Ledger>>,
    ending: Ending,
}

impl GuardedTransport {
    /// Starts reading and writing. `output_ended` is dropped when nothing more will be read.
    pub(crate) fn open(
        pipes: Pipes,
        ending: Ending,
        output_ended: oneshot::Sender<()>,
        max_line: usize,
        asked: mpsc::Sender<Asked>,
    ) -> Self {
        let (incoming_tx, incoming) = mpsc::channel(INCOMING_QUEUE);
        let (outgoing, outgoing_rx) = mpsc::channel(OUTGOING_QUEUE);
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let reader = Reader {
            guard: LineGuard::new(max_line),
            flood: FloodMeter::new(),
            progress: FloodMeter::new(),
            started: Instant::now(),
            ledger: Arc::clone(&ledger),
            incoming: incoming_tx,
            asked,
            ending: ending.clone(),
        };
        tokio::spawn(read_all(pipes.stdout, reader, ending.clone(), output_ended));
        tokio::spawn(write_all(pipes.stdin, outgoing_rx, ending.clone()));
        Self {
            incoming,
            outgoing,
            ledger,
            ending,
        }
    }

    /// Notes which answers to expect before the question is out.
    fn enter(&self, item: &TxJsonRpcMessage<RoleClient>) {
        let mut ledger = lock(&self.ledger);
        match item {
            JsonRpcMessage::Request(request) => {
                let Some(id) = number(&request.id) else {
                    return;
                };
                ledger.asked(id);
                if let ClientRequest::InitializeRequest(_) = request.request {
                    ledger.initialize = Some(id);
                }
            }
            JsonRpcMessage::Notification(it) => {
                let ClientNotification::CancelledNotification(cancelled) = &it.notification else {
                    return;
                };
                let Some(id) = cancelled.params.request_id.as_ref().and_then(number) else {
                    return;
                };
                if let Err(reason) = ledger.gave_up(id) {
                    self.ending.record(reason);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }
}

impl Transport<RoleClient> for GuardedTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        // Now and not in the future below: an answer may come before that has been polled to its end.
        self.enter(&item);
        let outgoing = self.outgoing.clone();
        async move {
            let mut line = exact::line(item).map_err(io::Error::other)?;
            line.push(b'\n');
            outgoing
                .send(line)
                .await
                .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.incoming.close();
        Ok(())
    }
}

struct Reader {
    guard: LineGuard,
    flood: FloodMeter,
    progress: FloodMeter,
    started: Instant,
    ledger: Arc<Mutex<Ledger>>,
    incoming: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    asked: mpsc::Sender<Asked>,
    ending: Ending,
}

/// Reads until the app's output ends, breaks a rule, or is not wanted any more.
async fn read_all(
    stdout: ChildStdout,
    mut reader: Reader,
    ending: Ending,
    output_ended: oneshot::Sender<()>,
) {
    tokio::select! {
        _ = ending.cause() => {}
        result = reader.run(stdout) => if let Err(reason) = result {
            ending.record(reason);
        }
    }
    drop(output_ended);
}

impl Reader {
    async fn run(&mut self, mut stdout: ChildStdout) -> Result<(), FailureReason> {
        let mut portion = vec![0; READ_PORTION];
        // A read error is an end of output like any other; the supervisor finds out which.
        while let Ok(read @ 1..) = stdout.read(&mut portion).await {
            let mut input = portion.get(..read).unwrap_or_default();
            while let Some(line) = self.guard.feed(&mut input) {
                let kind = match &line {
                    Line::Whole(line) => classify(&String::from_utf8_lossy(line)),
                    Line::Cut(head, tail, reason) => match answered_by(head, tail) {
                        Some(id) => Kind::Answer(id, Err(reason.clone())),
                        None => Kind::Noise,
                    },
                };
                let (Line::Whole(line) | Line::Cut(line, ..)) = line;
                if let Some(message) = self.judge(kind, &line).await?
                    && self.incoming.send(message).await.is_err()
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Lets pass what answers us or asks us, and the notice of changed tools.
    async fn judge(
        &mut self,
        kind: Kind,
        line: &[u8],
    ) -> Result<Option<RxJsonRpcMessage<RoleClient>>, FailureReason> {
        let text = || String::from_utf8_lossy(line);
        let message = match kind {
            // Not counted as a flood: there is one for each question of ours, and its length has a limit.
            Kind::Answer(id, result) => {
                let (due, initialize) = {
                    let mut ledger = lock(&self.ledger);
                    (ledger.answered(id), ledger.initialize)
                };
                match due {
                    Due::Wanted if initialize == Some(id) => Some(handshake(id, result)),
                    Due::Wanted => Some(exact::answer(request_id(id), result)),
                    Due::Late => return Ok(None),
                    Due::Unasked => None,
                }
            }
            Kind::Noise => None,
            Kind::Request => {
                self.flood.count(line.len(), self.started.elapsed())?;
                serde_json::from_str(&text()).ok()
            }
            // Without what else it holds, which may be odd.
            Kind::ToolsChanged => {
                let notice = json!({"jsonrpc": "2.0", "method": TOOLS_CHANGED});
                serde_json::from_value(notice).ok()
            }
            Kind::Progress(call, progress) => {
                // Too many are skipped and no breach, since nothing answers them.
                if self
                    .progress
                    .count(line.len(), self.started.elapsed())
                    .is_ok()
                {
                    let _ = self.asked.send(Asked::Progress(call, progress)).await;
                }
                return Ok(None);
            }
            Kind::Ignored => return Ok(None),
        };
        if message.is_none() {
            let said = head(&text(), LOGGED_BYTES).to_owned();
            self.ending.keep_stderr(format!("{said}\n").as_bytes());
            // Without a receiver the app is about to end.
            let skipped = Asked::Refused(Wish::Line, Refusal::NoMessage, said);
            let _ = self.asked.send(skipped).await;
        }
        Ok(message)
    }
}

/// The answer to the handshake, of which we take what we need in the form that `rmcp` reads.
fn handshake(id: u64, result: Result<String, FailureReason>) -> RxJsonRpcMessage<RoleClient> {
    let read = || -> Result<Value, FailureReason> {
        let said: Value = serde_json::from_str(&result?).unwrap_or_default();
        let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
        let server = said.get("serverInfo").unwrap_or(&Value::Null);
        let has = |name: &&str| {
            let has = said.pointer(&format!("/capabilities/{name}"));
            has.is_some_and(|has| !has.is_null() && *has != false)
        };
        let has = ["tools", "resources", "prompts"].into_iter().filter(has);
        // The first version for a server that says what it has, but not which one it speaks.
        let first = said.get("capabilities").map(|_| "2024-11-05".to_owned());
        Ok(json!({
            "protocolVersion": text(&said, "protocolVersion").or(first),
            "capabilities": has.map(|name| (name.to_owned(), json!({}))).collect::<serde_json::Map<_, _>>(),
            "serverInfo": {
                "name": text(server, "name").unwrap_or_default(),
                "version": text(server, "version").unwrap_or_default(),
            },
        }))
    };
    let message = read().and_then(|result| {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        serde_json::from_value(message).map_err(|_| crate::guard::breach(Breach::Initialize))
    });
    message.unwrap_or_else(|reason| {
        let said = reason
            .quote()
            .map_or(String::new(), |it| it.as_str().to_owned());
        let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, said, None);
        JsonRpcMessage::error(error, Some(request_id(id)))
    })
}

fn request_id(id: u64) -> NumberOrString {
    NumberOrString::Number(i64::try_from(id).unwrap_or_default())
}

/// Hands messages to the app, one after the other.
async fn write_all(mut stdin: ChildStdin, mut outgoing: mpsc::Receiver<Vec<u8>>, ending: Ending) {
    loop {
        let line = tokio::select! {
            _ = ending.cause() => return,
            line = outgoing.recv() => match line {
                Some(line) => line,
                None => return,
            },
        };
        let written = tokio::select! {
            _ = ending.cause() => return,
            written = timeout(WRITE_TIMEOUT, stdin.write_all(&line)) => written,
        };
        // Part of the line may be written, and nothing can follow half a line: the connection is over.
        if !matches!(written, Ok(Ok(()))) {
            // An app that has just died is reported as such by the supervisor.
            let cause = ending.likely_cause().await;
            ending.record(cause);
            return;
        }
    }
}

fn number(id: &NumberOrString) -> Option<u64> {
    match id {
        NumberOrString::Number(number) => u64::try_from(*number).ok(),
        NumberOrString::String(_) => None,
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    // A ledger is whole after every statement, so a poisoned one is as good.
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use rmcp::model::ServerResult;

    use super::*;

    #[test]
    fn a_handshake_is_read_in_each_form() {
        for (result, is_read) in [
            (r#"{"protocolVersion":"2025-06-18"}"#, true),
            (
                r#"{"protocolVersion":"1.0","capabilities":{"tools":true,"logging":[]},"serverInfo":null}"#,
                true,
            ),
            (
                r#"{"protocolVersion":null,"capabilities":{"tools":{}},"instructions":7}"#,
                true,
            ),
            (r#"{"hello":"world"}"#, false),
            ("7", false),
        ] {
            let answer = match handshake(1, Ok(result.to_owned())) {
                JsonRpcMessage::Response(answer) => Some(answer.result),
                _ => None,
            };
            let answered = matches!(answer, Some(ServerResult::InitializeResult(_)));
            assert_eq!(answered, is_read, "{result}");
        }
    }

    /// What `rmcp` takes a line for.
    fn taken(line: &str) -> Option<Kind> {
        let read: RxJsonRpcMessage<RoleClient> = serde_json::from_str(line).ok()?;
        match &read {
            JsonRpcMessage::Request(_) => Some(Kind::Request),
            JsonRpcMessage::Notification(_) => Some(Kind::Ignored),
            // No answer is read by it.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
        }
    }

    /// Two readers look at a request. If they took it for two things, it could pass for a notification, which is not looked
    /// at.
    #[test]
    fn a_line_is_for_rmcp_what_it_was_for_the_guard() {
        let members: [&[&str]; 5] = [
            &[
                "",
                r#""id":7"#,
                r#""id":"7""#,
                r#""id":null"#,
                r#""id":7.0"#,
                r#""id":-7"#,
                r#""id":7,"id":8"#,
                r#""id":7,"\u0069d":8"#,
                r#""id":18446744073709551615"#,
            ],
            &[
                "",
                r#""method":"ping""#,
                r#""method":"notifications/tools/list_changed""#,
                r#""method":null"#,
                r#""method":7"#,
                r#""Method":"ping""#,
                r#""method":"ping","method":"roots/list""#,
            ],
            &[
                "",
                r#""result":{}"#,
                r#""result":null"#,
                r#""result":{"content":[],"content":[{"type":"text","text":"a"}]}"#,
                r#""result":{},"result":{"tools":[]}"#,
            ],
            &["", r#""error":{"code":1,"message":"m"}"#, r#""error":null"#],
            &["", r#""params":{}"#, r#""params":{},"params":{"a":1}"#],
        ];
        let mut lines = vec![r#"{"jsonrpc":"2.0""#.to_owned()];
        for choices in members {
            let longer = |line: &String| {
                let choices = choices.iter().map(|choice| match choice.is_empty() {
                    true => line.clone(),
                    false => format!("{line},{choice}"),
                });
                choices.collect::<Vec<_>>()
            };
            lines = lines.iter().flat_map(longer).collect();
        }
        let mut understood = 0;
        for line in lines {
            let line = line + "}";
            let kind = classify(&line);
            let is_request = kind == Kind::Request;
            if let (true, Some(taken)) = (is_request, taken(&line)) {
                understood += 1;
                assert_eq!(taken, kind, "{line}");
            }
        }
        assert!(understood > 15, "{understood}");
    }
}

//! The embedded model: the client of the program `sluice-model`.
//!
//! The program starts with the first request and serves all later ones. It speaks the protocol of
//! [`model_files::protocol`] over a socket that is its standard input, and it ends when this provider is dropped or this
//! process ends. If it ends by itself, the requests that wait fail and the next one starts it again.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hub::{AnswerShape, Completion, CompletionRequest, ProposedCall, StopReason, Usage};
use ifc::PromptMessage;
use model_files::protocol::{self, Answer, Command, Event, Failure, Message, Request, Shape, Stop};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::{Cleared, DeltaSink, ErrorKind, Provider, ProviderError, one_line};

/// How long a model may take to load. The default model takes two seconds where its file is in memory, and less than
/// a minute from a slow disk.
const LOAD_LIMIT: Duration = Duration::from_secs(120);

/// A GGUF model in a process of its own.
pub struct Embedded {
    name: String,
    program: PathBuf,
    model: PathBuf,
    load_limit: Duration,
    process: tokio::sync::Mutex<Option<Arc<Process>>>,
}

impl Embedded {
    /// A provider of this name over this GGUF file, which `program` (`sluice-model`) runs. Nothing is started yet.
    pub fn new(
        name: impl Into<String>,
        program: impl Into<PathBuf>,
        model: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            model: model.into(),
            load_limit: LOAD_LIMIT,
            process: tokio::sync::Mutex::default(),
        }
    }

    /// Sets how long the model may take to load; 120 s by default.
    #[must_use]
    pub fn with_load_limit(self, load_limit: Duration) -> Self {
        Self { load_limit, ..self }
    }

    /// The running process; starts one if there is none.
    async fn process(&self) -> Result<Arc<Process>, Failure> {
        let mut current = self.process.lock().await;
        if let Some(process) = current
            .as_ref()
            .filter(|process| process.waiting.calls().is_some())
        {
            return Ok(Arc::clone(process));
        }
        let process = Arc::new(self.start().await?);
        *current = Some(Arc::clone(&process));
        Ok(process)
    }

    async fn start(&self) -> Result<Process, Failure> {
        let spawned = self.spawn().map_err(|error| {
            let program = self.program.display();
            Failure::Model(format!("{program} does not start: {error}"))
        });
        let (child, socket) = spawned?;
        let (mut read, write) = socket.into_split();
        match timeout(self.load_limit, receive(&mut read)).await {
            Ok(Ok(Event::Ready)) => {}
            Ok(Ok(Event::Unusable(reason))) => return Err(Failure::Model(reason)),
            Ok(_) => return Err(ended()),
            // The child is dropped here, which ends it.
            Err(_) => {
                return Err(Failure::Model(format!(
                    "{} was not loaded within {} s; try again, or use a smaller model or an OpenAI-compatible provider",
                    self.model.display(),
                    self.load_limit.as_secs()
                )));
            }
        }
        let waiting = Arc::new(Waiting(Mutex::new(Some(HashMap::new()))));
        let (commands, queue) = mpsc::unbounded_channel();
        tokio::spawn(send_all(write, queue));
        tokio::spawn(receive_all(read, Arc::clone(&waiting)));
        Ok(Process {
            commands,
            waiting,
            next: AtomicU64::new(0),
            _child: child,
        })
    }

    fn spawn(&self) -> io::Result<(Child, UnixStream)> {
        let (own, other) = StdStream::pair()?;
        own.set_nonblocking(true)?;
        let child = tokio::process::Command::new(&self.program)
            .arg(&self.model)
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C at the terminal cancels a turn; it must not end the model.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        Ok((child, UnixStream::from_std(own)?))
    }

    async fn ask(&self, request: Request, sink: &mut dyn DeltaSink) -> Result<Answer, Failure> {
        let process = self.process().await?;
        let (mut call, mut events) = process.call().ok_or_else(ended)?;
        process.send(&Command::Complete {
            id: call.id,
            request,
        })?;
        while let Some(event) = events.recv().await {
            match event {
                Event::Text { text, .. } => sink.text(&text),
                Event::Done { result, .. } => {
                    call.is_done = true;
                    return result;
                }
                Event::Ready | Event::Unusable(_) => {}
            }
        }
        Err(ended())
    }
}

#[async_trait]
impl Provider for Embedded {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let result = self.ask(to_wire(request.request()), sink).await;
        result.map(from_wire).map_err(|failure| {
            let kind = match failure {
                Failure::TooLong(message) => ErrorKind::ContextLength(message),
                Failure::Model(reason) => ErrorKind::Model(one_line(&reason)),
            };
            kind.at(&self.name)
        })
    }
}

/// A running `sluice-model`.
struct Process {
    commands: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
    /// Killed when this is dropped.
    _child: Child,
}

impl Process {
    /// A new completion and its events; `None` when the process has ended.
    fn call(&self) -> Option<(Call<'_>, mpsc::UnboundedReceiver<Event>)> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // One event per token at most, so the requested number of tokens bounds the channel.
        let (sender, receiver) = mpsc::unbounded_channel();
        self.waiting.calls().as_mut()?.insert(id, sender);
        let call = Call {
            id,
            process: self,
            is_done: false,
        };
        Some((call, receiver))
    }

    fn send(&self, command: &Command) -> Result<(), Failure> {
        let frame =
            protocol::encode(command).map_err(|error| Failure::TooLong(error.to_string()))?;
        self.commands.send(frame).map_err(|_| ended())
    }
}

/// A completion that is waited for. Dropping it cancels the completion.
struct Call<'a> {
    id: u64,
    process: &'a Process,
    is_done: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.process.waiting.calls().as_mut() {
            calls.remove(&self.id);
        }
        if !self.is_done {
            // A process that has ended has nothing to cancel.
            let _ = self.process.send(&Command::Cancel { id: self.id });
        }
    }
}

/// Where the events of each completion go; `None` when no more events come.
struct Waiting(Mutex<Option<HashMap<u64, mpsc::UnboundedSender<Event>>>>);

impl Waiting {
    fn calls(&self) -> MutexGuard<'_, Option<HashMap<u64, mpsc::UnboundedSender<Event>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_on(&self, event: Event) {
        let (Event::Text { id, .. } | Event::Done { id, .. }) = event else {
            return;
        };
        if let Some(sender) = self.calls().as_ref().and_then(|calls| calls.get(&id)) {
            let _ = sender.send(event);
        }
    }
}

async fn send_all(mut socket: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if socket.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn receive_all(mut socket: OwnedReadHalf, waiting: Arc<Waiting>) {
    while let Ok(event) = receive(&mut socket).await {
        waiting.pass_on(event);
    }
    // Dropping the senders ends their receivers.
    *waiting.calls() = None;
}

async fn receive(socket: &mut OwnedReadHalf) -> io::Result<Event> {
    let mut prefix = [0; 4];
    socket.read_exact(&mut prefix).await?;
    let mut payload = vec![0; protocol::payload_length(prefix)?];
    socket.read_exact(&mut payload).await?;
    Ok(serde_json::from_slice(&payload)?)
}

fn ended() -> Failure {
    Failure::Model("sluice-model ended; the next request starts it again".to_owned())
}

fn to_wire(request: &CompletionRequest) -> Request {
    let message = |message: &PromptMessage| match message {
        PromptMessage::System(text) => Message::System(text.clone()),
        PromptMessage::User(text) => Message::User(text.clone()),
        PromptMessage::Assistant { text, calls } => Message::Assistant {
            text: text.clone(),
            calls: calls
                .iter()
                .map(|call| protocol::Call {
                    id: call.id.clone(),
                    tool: call.tool.clone(),
                    arguments: call.arguments.clone(),
                })
                .collect(),
        },
        PromptMessage::Tool {
            call,
            tool,
            content,
        } => Message::Tool {
            call: call.clone(),
            tool: tool.clone(),
            content: content.clone(),
        },
    };
    let tool = |tool: &ifc::PromptTool| protocol::Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    };
    Request {
        messages: request.prompt.messages().iter().map(message).collect(),
        tools: request.prompt.tools().iter().map(tool).collect(),
        shape: match &request.shape {
            AnswerShape::TextOrCalls => Shape::TextOrCalls,
            AnswerShape::Text => Shape::Text,
            AnswerShape::Calls => Shape::Calls,
            AnswerShape::Json { schema } => Shape::Json(schema.clone()),
        },
        max_tokens: request.max_tokens,
    }
}

fn from_wire(answer: Answer) -> Completion {
    let calls = answer.calls.into_iter();
    let usage = answer.usage;
    Completion {
        text: answer.text,
        calls: calls
            .map(|call| ProposedCall {
                tool: call.tool,
                arguments: call.arguments,
            })
            .collect(),
        stop: match answer.stop {
            Stop::End => StopReason::End,
            Stop::Length => StopReason::Length,
            Stop::Repetition => StopReason::Repetition,
        },
        usage: Usage {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            completion_tokens: usage.completion_tokens,
            time_to_first_token: usage.time_to_first_token,
            total_time: usage.total_time,
        },
        unread: None,
    }
}

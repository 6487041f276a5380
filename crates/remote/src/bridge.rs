//! From the client's lines to a server and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::http::Http;
use crate::input::lines;
use crate::mask::Mask;
use crate::message::Message;
use crate::output::Output;
use crate::settings::{Settings, Transport};
use crate::streamable::{Begun, Streamable};
use crate::trouble::Trouble;
use crate::two_streams::TwoStreams;

/// What is done for the client side by side. The error of one ends the program.
pub(crate) type Tasks = JoinSet<Result<(), Trouble>>;

/// A server whose way of speaking is known.
pub(crate) enum Server {
    Streamable(Arc<Streamable>),
    TwoStreams(Arc<TwoStreams>),
}

/// Passes the messages of the client on stdin to the server and back, until stdin ends.
pub(crate) async fn serve(settings: &Settings, mask: &Mask, output: Output) -> Result<(), Trouble> {
    let http = Arc::new(Http::new(settings, mask)?);
    let mut lines = lines();
    let Some((first, id)) = initialize(&mut lines).await else {
        return Ok(());
    };
    let mut tasks = Tasks::new();
    let server = connect(settings.transport, &http, &output, first, &id, &mut tasks).await?;
    let mut requests: BTreeMap<String, AbortHandle> = BTreeMap::new();
    loop {
        tokio::select! {
            Some(ended) = tasks.join_next() => {
                // One that was aborted, for a request that was given up, is no trouble.
                if let Ok(ended) = ended {
                    ended?;
                }
                requests.retain(|_, task| !task.is_finished());
            }
            line = lines.recv() => {
                let Some(line) = line else { break };
                let Some(message) = Message::read(&line) else { continue };
                match &server {
                    Server::Streamable(server) => {
                        streamable(server, line, message, &mut tasks, &mut requests).await?;
                    }
                    Server::TwoStreams(server) => server.send(line).await?,
                }
            }
        }
    }
    if let Server::Streamable(server) = &server {
        server.leave().await;
    }
    Ok(())
}

/// One message of the client to a server of streamable HTTP.
async fn streamable(
    server: &Arc<Streamable>,
    line: Vec<u8>,
    message: Message,
    tasks: &mut Tasks,
    requests: &mut BTreeMap<String, AbortHandle>,
) -> Result<(), Trouble> {
    match message {
        Message::Request { id, method, name } => {
            let server = Arc::clone(server);
            let own = id.clone();
            // Beside the others: a call may take minutes, and what cancels it comes by the same lines.
            let task = tasks.spawn(async move { server.ask(line, &own, &method, name).await });
            requests.insert(id, task);
            Ok(())
        }
        Message::Cancelled { id } => {
            // Whoever has gone away does not listen any more; in 2026-07-28 that is how it is said.
            if let Some(task) = requests.remove(&id) {
                task.abort();
            }
            tell(server, line, tasks);
            Ok(())
        }
        Message::Notification { method } => {
            // Waited for, so that the server hears it before what the client says next.
            server.tell(line, Some(&method)).await?;
            if method == "notifications/initialized" && server.speaks_unasked() {
                let server = Arc::clone(server);
                tasks.spawn(async move {
                    server.listen().await;
                    Ok(())
                });
            }
            Ok(())
        }
        Message::Answer => {
            tell(server, line, tasks);
            Ok(())
        }
    }
}

/// Sends what no other message has to wait for: a server that does not take it holds up nothing else.
fn tell(server: &Arc<Streamable>, line: Vec<u8>, tasks: &mut Tasks) {
    let server = Arc::clone(server);
    tasks.spawn(async move { server.tell(line, None).await });
}

/// Finds out how the server is spoken to, with the client's first message.
pub(crate) async fn connect(
    transport: Transport,
    http: &Arc<Http>,
    output: &Output,
    first: Vec<u8>,
    id: &str,
    tasks: &mut Tasks,
) -> Result<Server, Trouble> {
    let begun = match transport {
        Transport::Sse => Begun::Unknown(None),
        Transport::Any | Transport::Http => {
            Streamable::begin(Arc::clone(http), output.clone(), &first, id).await?
        }
    };
    match begun {
        Begun::Speaks(server) => Ok(Server::Streamable(Arc::new(server))),
        Begun::Unknown(Some(why)) if transport == Transport::Http => Err(why),
        Begun::Unknown(why) => {
            let (server, stream) = match TwoStreams::open(Arc::clone(http), output.clone()).await {
                Ok(opened) => opened,
                // Whoever wants a login knows this way of speaking.
                Err(trouble @ Trouble::Login(_)) => return Err(trouble),
                // What it said to the usual way is nearer to what is wrong.
                Err(trouble) => return Err(why.unwrap_or(trouble)),
            };
            // First the stream, by which the answer to the first message comes.
            tasks.spawn(stream);
            server.send(first).await?;
            Ok(Server::TwoStreams(Arc::new(server)))
        }
    }
}

/// The client's first request; what comes before it is passed over. `None` at the end.
async fn initialize(lines: &mut mpsc::Receiver<Vec<u8>>) -> Option<(Vec<u8>, String)> {
    loop {
        let line = lines.recv().await?;
        if let Some(Message::Request { id, method, .. }) = Message::read(&line)
            && method == "initialize"
        {
            return Some((line, id));
        }
    }
}

//! Serving tools over MCP on standard input and output.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use rmcp::model::{
    CallToolResult, ContentBlock, Implementation, ListToolsResult, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::schemars::Schema;
use rmcp::{ServerHandler, ServiceExt};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

const USAGE: u8 = 2;
/// Threads for calls and for standard input and output, which the runtime reads and writes on such threads as well:
/// enough that a slow call does not stop the protocol, few enough for a sandbox.
const MAX_THREADS: usize = 8;
/// Bytes of the hash in an id: short for a small model to repeat, long enough that no two of a user's things collide.
const ID_BYTES: usize = 6;
/// The words for a defect of the app, or a result that is no JSON: they say nothing of it, since it may quote a stranger's text.
const INTERNAL: &str = "the app failed inside: try again, and report it if it happens again";

/// Serves `server` until the client closes standard input; complaints go to standard error under the app's name.
pub fn serve<S: ServerHandler>(app: &str, server: Result<S, String>) -> ExitCode {
    match server.map(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => complain(app, &error.to_string(), 1),
        Err(error) => complain(app, &error, USAGE),
    }
}

/// Runs a call of an app on a thread of its own, so that files do not hold up the protocol, and gives its result as one
/// JSON text, or its error as a tool error.
pub async fn answer<A: Send + Sync + 'static, T: Serialize, E: Display>(
    app: &Arc<A>,
    call: impl FnOnce(&A) -> Result<T, E> + Send + 'static,
) -> CallToolResult {
    let app = Arc::clone(app);
    let result = tokio::task::spawn_blocking(move || {
        let value = call(&app).map_err(|error| error.to_string())?;
        serde_json::to_string(&value).map_err(|_| INTERNAL.to_owned())
    });
    match result.await.unwrap_or_else(|_| Err(INTERNAL.to_owned())) {
        Ok(json) => CallToolResult::success(vec![ContentBlock::text(json)]),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error)]),
    }
}

/// What a server with tools says of itself.
pub fn info(name: &str) -> ServerConfig {
    ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
        .with_server_info(Implementation::new(name, env!("CARGO_PKG_VERSION")))
}

/// The list of tools that are data: name, description and JSON Schema of each. A schema that is no object allows anything.
pub fn list(tools: impl Iterator<Item = (String, String, Value)>) -> ListToolsResult {
    let tool = |(name, description, schema): (String, String, Value)| {
        let schema = match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        Tool::new(name, description, schema)
    };
    ListToolsResult::with_all_items(tools.map(tool).collect())
}

/// An optional argument is left out, not null, and has one type: that is easier for a small model, and for a
/// grammar made from the schema. (A null is taken as left out all the same.)
pub fn plain(schema: &mut Schema) {
    let kind = schema.get("type").and_then(|kind| kind.get(0)).cloned();
    if let Some(kind) = kind {
        schema.insert("type".to_owned(), kind);
    }
    // `uint32` and its like are formats of schemars, not of JSON Schema.
    schema.remove("format");
}

/// A token for the thing that these words name together: twelve hexadecimal digits.
pub fn id(words: &[&str]) -> String {
    let mut hash = Sha256::new();
    for word in words {
        hash.update(word.as_bytes());
        // No word has a NUL, so that no two lists of words are one text.
        hash.update([0]);
    }
    id_of(&hash.finalize())
}

/// The token of a thing with this hash: its first twelve hexadecimal digits.
pub fn id_of(hash: &[u8]) -> String {
    let bytes = hash.iter().take(ID_BYTES);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `text` looks like an [`id`].
pub fn is_id(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 2 * ID_BYTES && text.bytes().all(digit)
}

fn run<S: ServerHandler>(server: S) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(MAX_THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let running = server.serve(rmcp::transport::stdio()).await?;
        running.waiting().await?;
        Ok(())
    })
}

fn complain(app: &str, message: &str, code: u8) -> ExitCode {
    let mut stderr = io::stderr();
    for line in message.lines() {
        // If standard error is closed, the exit code still says it.
        let _ = writeln!(stderr, "{app}: {line}");
    }
    ExitCode::from(code)
}

//! `sluice-fetching-app`: an app whose tool `fetch` takes bytes from a host over TCP and says how long that took. With
//! the tool's arguments as its own (`HOST PORT BYTES TIMES`) it does so at once, without MCP.
//!
//! The host is sent the number of bytes and a line feed, and sends as many back.

use std::env;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Instant;

use app_support::tools::answer;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => app_support::tools::serve("sluice-fetching-app", Ok(FetchingServer)),
        arguments => match at_once(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // Nobody is left to tell that standard error is closed.
                let _ = writeln!(io::stderr(), "sluice-fetching-app: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn at_once(arguments: &[String]) -> io::Result<()> {
    let [host, port, bytes, times] = arguments else {
        return Err(io::Error::other("name a host, a port, bytes and times"));
    };
    let number = |text: &str| text.parse().map_err(io::Error::other);
    let wish = Wish {
        host: host.clone(),
        port: port.parse().map_err(io::Error::other)?,
        bytes: number(bytes)?,
        times: number(times)?,
    };
    let fetched = serde_json::to_string(&wish.fetch()?)?;
    writeln!(io::stdout(), "{fetched}")
}

/// What to fetch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    host: String,
    port: u16,
    bytes: usize,
    /// Connections, one after the other.
    times: usize,
}

/// One connection, in microseconds from when it was asked for.
#[derive(Serialize)]
struct Fetched {
    first_byte_us: f64,
    all_us: f64,
}

impl Wish {
    fn fetch(&self) -> io::Result<Vec<Fetched>> {
        // Written to, so that no download waits for its pages.
        let mut buffer = vec![1; PIECE];
        (0..self.times).map(|_| self.once(&mut buffer)).collect()
    }

    fn once(&self, buffer: &mut [u8]) -> io::Result<Fetched> {
        // Names are resolved once per connection, as a program does that knows nothing of this bench.
        let begun = Instant::now();
        let mut stream = TcpStream::connect((self.host.as_str(), self.port))?;
        stream.write_all(format!("{}\n", self.bytes).as_bytes())?;
        // Microseconds since the name was asked for, so that both figures include its resolution.
        let elapsed = || begun.elapsed().as_secs_f64() * 1e6;
        let (mut got, mut first_byte_us) = (0, None);
        while got < self.bytes {
            match stream.read(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => got += read,
            }
            first_byte_us.get_or_insert_with(elapsed);
        }
        Ok(Fetched {
            first_byte_us: first_byte_us.unwrap_or_default(),
            all_us: elapsed(),
        })
    }
}

struct FetchingServer;

impl ServerHandler for FetchingServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({
            "type": "object",
            "properties": {
                "host": {"type": "string"},
                "port": {"type": "integer"},
                "bytes": {"type": "integer"},
                "times": {"type": "integer"},
            },
            "required": ["host", "port", "bytes", "times"],
            "additionalProperties": false,
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        let tool = Tool::new(
            "fetch",
            "Takes bytes from a host, and says how long.",
            schema,
        );
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments: Map<String, Value> = request.arguments.unwrap_or_default();
        let fetch = move || {
            let wish: Wish = serde_json::from_value(Value::Object(arguments))?;
            wish.fetch()
        };
        Ok(answer(fetch).await.into())
    }
}

//! A running app that can be called.

use std::sync::Arc;
use std::time::Duration;

use jsonschema::Validator;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ClientResult, ErrorCode, ErrorData, Implementation, ServerNotification, ServerRequest,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, RequestContext, RoleClient, RunningService,
    Service, ServiceError, serve_client,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;
use wire::limits::MAX_SERVER_INFO_BYTES;
use wire::{
    AppError, AppLimits, Breach, FailureReason, InvalidArguments, Limit, Protocol, Quote,
    ServerInfo, SpokeFault, Timeout, ToolDescription, head,
};

use crate::guard::breach;
use crate::process::{AppFailure, AppProcess, Ending};
use crate::render::render;
use crate::schema;
use crate::tools::{self, Toolbox};
use crate::transport::GuardedTransport;

/// An initialized app. Dropping it ends the app.
pub struct AppClient {
    service: RunningService<RoleClient, Refuser>,
    server: ServerInfo,
    toolbox: Toolbox,
    max_result: usize,
    ending: EndOnDrop,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The result as one text.
    pub content: String,
    /// Whether the app calls it an error.
    pub is_error: bool,
}

impl AppClient {
    /// Initializes the app and lists its tools, all within `limits.start_timeout_ms`. When the future
    /// is dropped the app is ended.
    ///
    /// # Errors
    /// The first reason, when the app is gone.
    pub async fn start(process: AppProcess, limits: &AppLimits) -> Result<Self, AppFailure> {
        let (output_ended, output_end) = oneshot::channel();
        let resources = |_| AppFailure {
            reason: FailureReason::Spoke(SpokeFault::Resources),
            stderr: Quote::default(),
        };
        let (pipes, ending) = process.watch(output_end).map_err(resources)?;
        let ending = EndOnDrop(ending);
        let max_line = size(limits.max_line_bytes);
        let transport = GuardedTransport::open(pipes, ending.0.clone(), output_ended, max_line);
        let time = Duration::from_millis(limits.start_timeout_ms);
        let outcome = tokio::select! {
            biased;
            reason = ending.0.cause() => Err(reason),
            outcome = timeout(time, handshake(transport, &ending.0)) => {
                outcome.unwrap_or(Err(FailureReason::StartTimeout(Timeout { ms: limits.start_timeout_ms })))
            }
        };
        match outcome {
            Ok((service, server, toolbox)) => Ok(Self {
                service,
                server,
                toolbox,
                max_result: size(limits.max_result_bytes),
                ending,
            }),
            Err(reason) => {
                ending.0.record(reason);
                Err(ending.0.complete().await)
            }
        }
    }

    /// Who the app says it is.
    #[must_use]
    pub fn server(&self) -> &ServerInfo {
        &self.server
    }

    /// What the app offers, in its own words.
    #[must_use]
    pub fn tools(&self) -> &[ToolDescription] {
        &self.toolbox.described
    }

    /// Calls a tool after its arguments (JSON text of an object) have been checked against its schema.
    /// The time counts from now. When `cancel` resolves first the app is told and the call ends; its
    /// late answer is thrown away.
    ///
    /// # Errors
    /// Why there is no result. If the app is gone as well, [`AppClient::ended`] says so.
    pub async fn call(
        &self,
        tool: &str,
        arguments: &str,
        time: Duration,
        cancel: impl Future<Output = ()>,
    ) -> Result<CallResult, FailureReason> {
        let validator = self
            .toolbox
            .validators
            .get(tool)
            .ok_or(FailureReason::UnknownTool)?;
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        tokio::select! {
            biased;
            result = self.checked_call(tool, arguments, Arc::clone(validator)) => result,
            reason = self.ending.0.cause() => Err(reason),
            () = cancel => Err(FailureReason::Cancelled),
            () = tokio::time::sleep(time) => Err(FailureReason::CallTimeout(Timeout { ms })),
        }
    }

    /// Waits until the app is gone, for whatever reason, and says why.
    pub async fn ended(&self) -> AppFailure {
        self.ending.0.complete().await
    }

    /// Ends the app and waits until it is gone.
    pub async fn stop(self) {
        self.ending.0.record(FailureReason::Cancelled);
        self.ending.0.complete().await;
    }

    async fn checked_call(
        &self,
        tool: &str,
        arguments: &str,
        validator: Arc<Validator>,
    ) -> Result<CallResult, FailureReason> {
        let arguments = check_arguments(arguments.to_owned(), validator).await?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.service.peer().call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => self.accept(result),
            // We offer no capability that an app could need more input or a task for.
            Ok(_) | Err(ServiceError::UnexpectedResponse) => Err(breach(Breach::CallAnswer)),
            Err(ServiceError::McpError(error)) => Err(FailureReason::AppError(AppError {
                code: error.code.0,
                said: Quote::head(&error.message),
            })),
            Err(_) => Err(self.ending.0.likely_cause().await),
        }
    }

    fn accept(&self, result: CallToolResult) -> Result<CallResult, FailureReason> {
        let is_error = result.is_error.unwrap_or(false);
        let content = render(result);
        if content.len() > self.max_result {
            return Err(FailureReason::ResultTooLong(Limit {
                limit: self.max_result as u64,
            }));
        }
        Ok(CallResult { content, is_error })
    }
}

/// Parses and checks on another thread: an app's schema can be made to take long.
async fn check_arguments(
    arguments: String,
    validator: Arc<Validator>,
) -> Result<serde_json::Map<String, Value>, FailureReason> {
    let checked = tokio::task::spawn_blocking(move || {
        let unusable = |_| InvalidArguments {
            problem: Quote::head("the arguments are not a JSON object within the limits"),
        };
        wire::json::check_object(&arguments).map_err(unusable)?;
        let value: Value = serde_json::from_str(&arguments)
            .map_err(|_| unusable(wire::json::JsonError::Invalid))?;
        schema::check(&validator, &value)?;
        match value {
            Value::Object(map) => Ok(map),
            _ => Err(unusable(wire::json::JsonError::NotAnObject)),
        }
    });
    match checked.await {
        Ok(result) => result.map_err(FailureReason::InvalidArguments),
        Err(_) => Err(FailureReason::Spoke(SpokeFault::Internal)),
    }
}

type Handshaken = (RunningService<RoleClient, Refuser>, ServerInfo, Toolbox);

async fn handshake(
    transport: GuardedTransport,
    ending: &Ending,
) -> Result<Handshaken, FailureReason> {
    let service = match serve_client(Refuser, transport).await {
        Ok(service) => service,
        Err(error) => return Err(initialize_failure(error, ending).await),
    };
    let info = service.peer().peer_info();
    let offers_tools = info
        .as_ref()
        .is_some_and(|info| info.capabilities.tools.is_some());
    let server = info.and_then(|info| info.server_info.clone()).map_or_else(
        || ServerInfo {
            name: String::new(),
            version: String::new(),
        },
        |it| ServerInfo {
            name: short(&it.name),
            version: short(&it.version),
        },
    );
    let toolbox = if offers_tools {
        tools::list(service.peer()).await?
    } else {
        Toolbox::default()
    };
    Ok((service, server, toolbox))
}

async fn initialize_failure(error: ClientInitializeError, ending: &Ending) -> FailureReason {
    match error {
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. } => ending.likely_cause().await,
        ClientInitializeError::JsonRpcError(error) => FailureReason::Protocol(Protocol {
            breach: Breach::Initialize,
            said: Quote::head(&error.message),
        }),
        _ => breach(Breach::Initialize),
    }
}

fn short(text: &str) -> String {
    head(text, MAX_SERVER_INFO_BYTES).to_owned()
}

fn size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Ends the app when nobody holds its client any more.
struct EndOnDrop(Ending);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.record(FailureReason::Cancelled);
    }
}

/// Our side of the protocol as the app sees it: alive, and without any capability. Sampling would hand
/// the app our model, elicitation our user, roots our files.
struct Refuser;

impl Service<RoleClient> for Refuser {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        match request {
            ServerRequest::PingRequest(_) => Ok(ClientResult::empty(())),
            _ => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                "this client offers no such capability",
                None,
            )),
        }
    }

    async fn handle_notification(
        &self,
        _notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("sluice", env!("CARGO_PKG_VERSION")),
        )
    }
}

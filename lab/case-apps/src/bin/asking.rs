//! `sluice-asking-app ASK`: a server of the real SDK whose tool `echo` asks its client for something (`user`,
//! `model` or `roots`) and returns what it got, as JSON.

#![expect(
    deprecated,
    reason = "servers ask for them as long as the protocol has them"
)]

use std::env;
use std::process::ExitCode;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
    CreateMessageRequestParams, ElicitRequest, ElicitRequestParams, ElicitationSchema, ErrorData,
    ListToolsResult, PaginatedRequestParams, SamplingMessage, SamplingMessageContentBlock,
    ServerCapabilities, ServerConfig, ServerRequest, Tool,
};
use rmcp::model::{ClientResult, Role};
use rmcp::service::{Peer, RequestContext, RoleServer, ServiceError};
use serde_json::{Value, json};

fn main() -> ExitCode {
    app_support::tools::serve("sluice-asking-app", server())
}

fn server() -> Result<AskingServer, String> {
    let ask = match env::args().nth(1).as_deref() {
        Some("user") => Ask::User,
        Some("model") => Ask::Model,
        Some("roots") => Ask::Roots,
        _ => return Err("name what to ask for: user, model or roots".to_owned()),
    };
    Ok(AskingServer { ask })
}

enum Ask {
    User,
    Model,
    Roots,
}

struct AskingServer {
    ask: Ask,
}

impl AskingServer {
    async fn got(&self, peer: &Peer<RoleServer>) -> Result<Value, String> {
        let got = match self.ask {
            Ask::User => json(elicit(peer).await),
            Ask::Model => json(peer.create_message(wish()).await),
            Ask::Roots => json(peer.list_roots().await),
        };
        got.map_err(|error| error.to_string())
    }
}

/// Without the SDK's feature for it, which brings a parser of addresses along.
async fn elicit(peer: &Peer<RoleServer>) -> Result<ClientResult, ServiceError> {
    let schema = ElicitationSchema::builder()
        .required_string("city")
        .optional_integer("nights", 1, 30)
        .build();
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Where do you want to go?".to_owned(),
        requested_schema: schema.unwrap_or_else(|_| ElicitationSchema::new(Default::default())),
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    peer.send_request(request).await
}

fn wish() -> CreateMessageRequestParams {
    let content = SamplingMessageContentBlock::text("Say something about hello.");
    CreateMessageRequestParams::new(vec![SamplingMessage::new(Role::User, content)], 50)
}

fn json(got: Result<impl serde::Serialize, ServiceError>) -> Result<Value, ServiceError> {
    got.map(|value| serde_json::to_value(value).unwrap_or_default())
}

impl ServerHandler for AskingServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let schema = schema.as_object().cloned().unwrap_or_default();
        let tool = Tool::new("echo", "Asks for something, and says what it got.", schema);
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(match self.got(&context.peer).await {
            Ok(got) => CallToolResult::success(vec![ContentBlock::text(got.to_string())]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error)]),
        }
        .into())
    }
}

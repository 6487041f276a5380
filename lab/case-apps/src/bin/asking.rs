//! `sluice-asking-app`: a server of the real SDK whose tool `echo` asks the user something and returns the answer, as JSON.

use std::process::ExitCode;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientResult, ContentBlock,
    ElicitRequest, ElicitRequestParams, ElicitationSchema, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, ServerRequest, Tool,
};
use rmcp::service::{Peer, RequestContext, RoleServer, ServiceError};
use serde_json::json;

fn main() -> ExitCode {
    app_support::tools::serve("sluice-asking-app", Ok(AskingServer))
}

struct AskingServer;

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
        Ok(match elicit(&context.peer).await {
            Ok(got) => {
                let got = serde_json::to_string(&got).unwrap_or_default();
                CallToolResult::success(vec![ContentBlock::text(got)])
            }
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        }
        .into())
    }
}

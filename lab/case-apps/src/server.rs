//! An [`App`] over MCP.

use std::sync::Arc;

use app_support::tools::{answer, info, list};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, ListToolsResult, PaginatedRequestParams,
    ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use crate::{App, CaseTool, Logged, State};

/// The MCP server of one app.
pub struct CaseServer {
    app: App,
    state: Arc<State>,
}

impl CaseServer {
    /// A server for this app and its state.
    pub fn new(app: App, state: State) -> Self {
        let state = Arc::new(state);
        Self { app, state }
    }

    fn find(&self, name: &str) -> Option<&CaseTool> {
        self.app.tools.iter().find(|tool| tool.name == name)
    }
}

impl ServerHandler for CaseServer {
    fn get_info(&self) -> ServerConfig {
        info(&format!("sluice-case-{}", self.app.name))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.app.tools.iter();
        let tools = tools.map(|it| (it.name.to_owned(), it.description.clone(), it.schema()));
        Ok(list(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.find(&request.name) else {
            return Err(ErrorData::invalid_params("there is no such tool", None));
        };
        let (run, name) = (tool.run, tool.name);
        let arguments = request.arguments.unwrap_or_default();
        let called = move |state: &State| {
            let result = run(state, &arguments);
            let logged = match &result {
                Ok(value) => value.clone(),
                Err(error) => Value::from(error.as_str()),
            };
            // Experiments are judged by this record, so a call that it cannot take is an error of the call.
            state.log(&Logged {
                tool: name.to_owned(),
                arguments,
                result: logged,
            })?;
            result
        };
        Ok(answer(&self.state, called).await.into())
    }
}

//! An [`App`] over MCP.

use std::sync::{Arc, Mutex, PoisonError};

use app_support::tools::{answer, list};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};

use crate::app::{App, World};

/// The MCP server of one app. Its world is gone when it ends, so that every run begins with the same.
pub struct AppServer {
    app: Arc<App>,
    world: Arc<Mutex<World>>,
}

impl AppServer {
    /// A server for this app.
    #[must_use]
    pub fn new(app: App) -> Self {
        let world = Arc::new(Mutex::new(World::new(&app)));
        Self {
            app: Arc::new(app),
            world,
        }
    }
}

impl ServerHandler for AppServer {
    fn get_info(&self) -> ServerConfig {
        let name = format!("sluice-leakage-{}", self.app.about.name);
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(name, env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.app.tools.iter();
        let tools = tools.map(|it| (it.name.clone(), it.description.clone(), it.schema()));
        Ok(list(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (app, world) = (Arc::clone(&self.app), Arc::clone(&self.world));
        let called = move || {
            // A call changes the world at once or not at all, so a thread that panicked left it whole.
            let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
            world.call(&app, &request.name, &request.arguments.unwrap_or_default())
        };
        Ok(answer(called).await.into())
    }
}

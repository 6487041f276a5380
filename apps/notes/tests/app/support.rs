//! A running app: a real child process over a temporary folder.

use std::fs;
use std::path::PathBuf;

use rmcp::model::{CallToolRequestParams, JsonObject, Tool};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

pub(crate) struct App {
    client: RunningService<RoleClient, ()>,
    home: TempDir,
}

impl App {
    /// Starts the app over these files.
    pub(crate) async fn with(files: &[(&str, &str)]) -> App {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("notes");
        fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-notes"));
        command.env_clear().env("NOTES", &folder);
        let client = ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
        App { client, home }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("notes")
    }

    pub(crate) async fn tools(&self) -> Vec<Tool> {
        self.client.list_all_tools().await.unwrap()
    }

    /// Calls a tool: the text of its one content, `Err` for a tool error.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let arguments: JsonObject = serde_json::from_value(arguments).unwrap();
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.client.call_tool(call).await.unwrap();
        let [content] = result.content.as_slice() else {
            panic!("{} contents", result.content.len())
        };
        let text = content.as_text().unwrap().text.clone();
        match result.is_error {
            Some(true) => Err(text),
            _ => Ok(text),
        }
    }

    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> Value {
        serde_json::from_str(&self.text(tool, arguments).await.unwrap()).unwrap()
    }

    pub(crate) async fn refused(&self, tool: &str, arguments: Value) -> String {
        self.text(tool, arguments).await.unwrap_err()
    }

    pub(crate) async fn stop(self) {
        self.client.cancel().await.unwrap();
    }
}

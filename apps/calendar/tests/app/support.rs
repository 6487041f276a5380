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

/// An invitation as a stranger sends it, with a zone, an alarm and an extension.
pub(crate) const INVITATION: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Other//EN\r\nMETHOD:REQUEST\r\n\
    BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\nBEGIN:STANDARD\r\nDTSTART:19701025T030000\r\nTZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n\
    BEGIN:VEVENT\r\nUID:abc@other.example\r\nDTSTAMP:20261101T000000Z\r\nDTSTART;TZID=Europe/Berlin:20261124T100000\r\nDURATION:PT1H30M\r\n\
    SUMMARY:CHOSEN title\\, with comma\r\nLOCATION:CHOSEN place\r\nDESCRIPTION:CHOSEN line one\\nline\r\n  two\r\n\
    ORGANIZER;CN=\"CHOSEN: send it; now\":mailto:chosen@other.example\r\nATTENDEE;CN=Ben:mailto:chosen.ben@example.com\r\nATTENDEE:CHOSEN words, no address\r\n\
    X-OTHER;CHOSEN=1:kept\r\nBEGIN:VALARM\r\nTRIGGER:-PT15M\r\nDESCRIPTION:alarm\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

pub(crate) struct App {
    client: RunningService<RoleClient, ()>,
    home: TempDir,
}

impl App {
    /// Starts the app over these files.
    pub(crate) async fn with(files: &[(&str, &str)]) -> App {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("calendar");
        fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-calendar"));
        command
            .env_clear()
            .env("CALENDAR", &folder)
            .env("CALENDAR_ZONE", "Europe/Berlin");
        let client = ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
        App { client, home }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("calendar")
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

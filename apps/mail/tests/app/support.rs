//! A running app: a real child process, a temporary Maildir, and an SMTP server on loopback.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rmcp::model::{CallToolRequestParams, JsonObject, Tool};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt};
use serde_json::Value;
use smtp_sink::SmtpSink;
use tempfile::TempDir;
use tokio::process::Command;

pub(crate) const USER: &str = "anna.berg@example.org";

pub(crate) struct App {
    pub(crate) sink: SmtpSink,
    client: RunningService<RoleClient, ()>,
    home: TempDir,
}

impl App {
    /// Starts the app over the sample mails.
    pub(crate) async fn with_sample() -> App {
        App::start(
            |maildir| sluice_mail::sample::write(maildir, "drop@evil.example").unwrap(),
            &[],
        )
        .await
    }

    /// Starts the app over what `fill` puts into the Maildir.
    pub(crate) async fn start(fill: impl FnOnce(&Path), vars: &[(&str, &str)]) -> App {
        let home = tempfile::tempdir().unwrap();
        let maildir = home.path().join("mail");
        fill(&maildir);
        for part in ["cur", "new", "tmp"] {
            std::fs::create_dir_all(maildir.join(part)).unwrap();
        }
        let sink = SmtpSink::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-mail"));
        command
            .env_clear()
            .env("MAILDIR", &maildir)
            .env("SMTP_SERVER", sink.addr().to_string())
            .env("MAIL_FROM", USER);
        command.envs(vars.iter().copied());
        let client = ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
        App { sink, client, home }
    }

    pub(crate) fn maildir(&self) -> PathBuf {
        self.home.path().join("mail")
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
        assert!(result.structured_content.is_none());
        let text = content.as_text().unwrap().text.clone();
        if result.is_error == Some(true) {
            Err(text)
        } else {
            Ok(text)
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

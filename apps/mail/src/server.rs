//! The tools over MCP.

use std::sync::Arc;

use app_support::tools::{answer, plain};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ErrorData, Implementation, ServerCapabilities, ServerConfig};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use serde::{Deserialize, Serialize};

use crate::error::MailError;
use crate::mailbox::Mailbox;
use crate::outbox::MAX_RECIPIENTS;

/// The MCP server around a [`Mailbox`].
#[derive(Clone, Debug)]
pub(crate) struct MailServer {
    mailbox: Arc<Mailbox>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListEmails {
    /// How many, 1 to 50. Default 10.
    #[schemars(range(min = 1, max = 50), transform = plain)]
    limit: Option<u32>,
    /// A folder such as "Sent". Leave out for the inbox.
    #[schemars(transform = plain)]
    folder: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadEmail {
    /// The id of the e-mail, or "newest".
    id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchEmails {
    /// Words to look for.
    query: String,
    /// How many, 1 to 50. Default 10.
    #[schemars(range(min = 1, max = 50), transform = plain)]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendEmail {
    /// The address of the recipient, or a list of addresses.
    to: Recipients,
    /// One line.
    subject: String,
    /// The text of the message.
    body: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteEmail {
    /// The id of the e-mail.
    id: String,
}

#[tool_router]
impl MailServer {
    /// A server for this mailbox.
    pub(crate) fn new(mailbox: Mailbox) -> MailServer {
        MailServer {
            mailbox: Arc::new(mailbox),
        }
    }

    #[tool(
        description = "List the user's e-mails, newest first.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_emails(
        &self,
        Parameters(call): Parameters<ListEmails>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |mailbox| mailbox.list(call.limit, call.folder.as_deref()))
            .await
    }

    #[tool(
        description = "Read one e-mail. Use the id \"newest\" for the newest e-mail in the inbox.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_email(
        &self,
        Parameters(call): Parameters<ReadEmail>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |mailbox| mailbox.read(&call.id)).await
    }

    #[tool(
        description = "Find e-mails that contain all the given words in sender, subject or text, newest first.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn search_emails(
        &self,
        Parameters(call): Parameters<SearchEmails>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |mailbox| mailbox.search(&call.query, call.limit))
            .await
    }

    #[tool(
        description = "Send an e-mail from the user. This cannot be undone.",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = false,
            open_world_hint = true
        )
    )]
    async fn send_email(
        &self,
        Parameters(call): Parameters<SendEmail>,
    ) -> Result<CallToolResult, ErrorData> {
        let to = match call.to {
            Recipients::One(address) => vec![address],
            Recipients::Several(addresses) => addresses,
        };
        self.run(move |mailbox| mailbox.send(&to, &call.subject, &call.body))
            .await
    }

    #[tool(
        description = "Delete one e-mail for ever, by its exact id. This cannot be undone.",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn delete_email(
        &self,
        Parameters(call): Parameters<DeleteEmail>,
    ) -> Result<CallToolResult, ErrorData> {
        self.run(move |mailbox| mailbox.delete(&call.id)).await
    }
}

#[tool_handler]
impl ServerHandler for MailServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(
            Implementation::new("sluice-mail", env!("CARGO_PKG_VERSION")),
        )
    }
}

impl MailServer {
    async fn run<T: Serialize + Send + 'static>(
        &self,
        call: impl FnOnce(&Mailbox) -> Result<T, MailError> + Send + 'static,
    ) -> Result<CallToolResult, ErrorData> {
        let mailbox = Arc::clone(&self.mailbox);
        Ok(answer(move || call(&mailbox)).await)
    }
}

// One address or several: small models write either. (No doc comment: it would be a part of the schema.)
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "an address or a list of addresses")]
#[schemars(inline)]
enum Recipients {
    One(String),
    Several(#[schemars(length(min = 1, max = MAX_RECIPIENTS))] Vec<String>),
}

//! The tools over MCP.

use std::sync::Arc;

use app_support::tools::{answer, info, plain};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ServerConfig};
use rmcp::schemars::{self, JsonSchema};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use serde::Deserialize;

use crate::mailbox::Mailbox;
use crate::outbox::MAX_RECIPIENTS;

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
    pub(crate) fn new(mailbox: Mailbox) -> MailServer {
        MailServer {
            mailbox: Arc::new(mailbox),
        }
    }

    #[tool(
        description = "List the user's e-mails, newest first.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_emails(&self, Parameters(call): Parameters<ListEmails>) -> CallToolResult {
        answer(&self.mailbox, move |mailbox| {
            mailbox.list(call.limit, call.folder.as_deref())
        })
        .await
    }

    #[tool(
        description = "Read one e-mail. Use the id \"newest\" for the newest e-mail in the inbox.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_email(&self, Parameters(call): Parameters<ReadEmail>) -> CallToolResult {
        answer(&self.mailbox, move |mailbox| mailbox.read(&call.id)).await
    }

    #[tool(
        description = "Find e-mails that contain all the given words in sender, subject or text, newest first.",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn search_emails(&self, Parameters(call): Parameters<SearchEmails>) -> CallToolResult {
        answer(&self.mailbox, move |mailbox| {
            mailbox.search(&call.query, call.limit)
        })
        .await
    }

    #[tool(
        description = "Send an e-mail from the user. This cannot be undone.",
        annotations(destructive_hint = true, open_world_hint = true)
    )]
    async fn send_email(&self, Parameters(call): Parameters<SendEmail>) -> CallToolResult {
        let to = match call.to {
            Recipients::One(address) => vec![address],
            Recipients::Several(addresses) => addresses,
        };
        answer(&self.mailbox, move |mailbox| {
            mailbox.send(&to, &call.subject, &call.body)
        })
        .await
    }

    #[tool(
        description = "Delete one e-mail for ever, by its exact id. This cannot be undone.",
        annotations(destructive_hint = true, open_world_hint = false)
    )]
    async fn delete_email(&self, Parameters(call): Parameters<DeleteEmail>) -> CallToolResult {
        answer(&self.mailbox, move |mailbox| mailbox.delete(&call.id)).await
    }
}

#[tool_handler]
impl ServerHandler for MailServer {
    fn get_info(&self) -> ServerConfig {
        info("sluice-mail")
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

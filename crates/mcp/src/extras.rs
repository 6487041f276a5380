//! Resources and prompts of an app, as tools of it: what is called, decided on and labelled like any other.

use rmcp::model::{
    GetPromptRequestParams, PromptMessage, ReadResourceRequestParams, Role, ServerCapabilities,
    Tool,
};
use rmcp::service::{Peer, RoleClient};
use serde_json::{Map, Value, json};
use wire::{Breach, FailureReason, Offer};

use crate::failure::answered;
use crate::guard::breach;
use crate::pages;
use crate::process::Ending;
use crate::render::{Rendered, render_contents, render_messages};

/// Most entries of a list.
const MAX_ENTRIES: usize = 10_000;

/// What such a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extra {
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

impl Extra {
    const ALL: [Self; 4] = [
        Self::ListResources,
        Self::ReadResource,
        Self::ListPrompts,
        Self::GetPrompt,
    ];

    /// Those that the app has and the hub offers.
    pub(crate) fn offered(
        offer: &Offer,
        has: &ServerCapabilities,
    ) -> impl Iterator<Item = Self> + use<> {
        let resources = offer.resources && has.resources.is_some();
        let prompts = offer.prompts && has.prompts.is_some();
        Self::ALL.into_iter().filter(move |extra| match extra {
            Self::ListResources | Self::ReadResource => resources,
            Self::ListPrompts | Self::GetPrompt => prompts,
        })
    }

    /// The method of the protocol, which no tool that we know of is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ListResources => "resources/list",
            Self::ReadResource => "resources/read",
            Self::ListPrompts => "prompts/list",
            Self::GetPrompt => "prompts/get",
        }
    }

    /// The tool, in words of ours.
    pub(crate) fn tool(self) -> Tool {
        let text = |description: &str| json!({"type": "string", "description": description});
        let (description, properties) = match self {
            Self::ListResources => (
                "Lists what this app has to read, with addresses.",
                json!({}),
            ),
            Self::ReadResource => (
                "Reads what this app has at an address.",
                json!({"uri": text("An address from resources/list or from a result.")}),
            ),
            Self::ListPrompts => (
                "Lists the prompts that this app suggests, with their arguments.",
                json!({}),
            ),
            Self::GetPrompt => (
                "Gives the text of a prompt that this app suggests. Only if the user asks for it.",
                json!({
                    "name": text("A name from prompts/list."),
                    "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
                }),
            ),
        };
        let required = match self {
            Self::ReadResource => json!(["uri"]),
            Self::GetPrompt => json!(["name"]),
            Self::ListResources | Self::ListPrompts => json!([]),
        };
        let schema = Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), properties),
            ("required".to_owned(), required),
            ("additionalProperties".to_owned(), json!(false)),
        ]);
        Tool::new(self.name(), description, schema)
    }

    /// Asks the app.
    pub(crate) async fn call(
        self,
        peer: &Peer<RoleClient>,
        arguments: &Map<String, Value>,
        ending: &Ending,
    ) -> Result<Rendered, FailureReason> {
        let text = |name: &str| {
            // Checked against the schema above: what it requires is there, and is a text.
            let value = arguments.get(name).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        match self {
            Self::ListResources | Self::ListPrompts => self.list(peer, ending).await,
            Self::ReadResource => {
                let params = ReadResourceRequestParams::new(text("uri"));
                let read = peer.read_resource(params);
                let read = answered(read, Breach::CallAnswer, ending).await?;
                Ok(render_contents(read.contents))
            }
            Self::GetPrompt => {
                let given = arguments.get("arguments").and_then(Value::as_object);
                let mut params = GetPromptRequestParams::new(text("name"));
                params.arguments = given.cloned();
                let prompt = peer.get_prompt(params);
                let prompt = answered(prompt, Breach::CallAnswer, ending).await?;
                let said = |it: PromptMessage| {
                    let who = match it.role {
                        Role::User => "user",
                        _ => "assistant",
                    };
                    (who, it.content)
                };
                Ok(render_messages(prompt.messages.into_iter().map(said)))
            }
        }
    }

    /// All pages, as JSON that label rules can read.
    async fn list(
        self,
        peer: &Peer<RoleClient>,
        ending: &Ending,
    ) -> Result<Rendered, FailureReason> {
        let too_long = FailureReason::ResultTooLong(MAX_ENTRIES as u64);
        let listed = pages::all(MAX_ENTRIES, too_long, Breach::CallAnswer, |params| async {
            let (page, next) = match self {
                Self::ListPrompts => {
                    let page = peer.list_prompts(Some(params));
                    let page = answered(page, Breach::CallAnswer, ending).await?;
                    (serde_json::to_value(page.prompts), page.next_cursor)
                }
                _ => {
                    let page = peer.list_resources(Some(params));
                    let page = answered(page, Breach::CallAnswer, ending).await?;
                    (serde_json::to_value(page.resources), page.next_cursor)
                }
            };
            match page {
                Ok(Value::Array(page)) => Ok((page, next)),
                _ => Err(breach(Breach::CallAnswer)),
            }
        });
        let entries = listed.await?;
        let kind = match self {
            Self::ListPrompts => "prompts",
            _ => "resources",
        };
        Ok(Rendered::text(json!({ kind: entries }).to_string()))
    }
}

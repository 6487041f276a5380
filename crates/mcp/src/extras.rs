//! Resources and prompts of an app, as tools of it: what is called, decided on and labelled like any other.

use std::time::Duration;

use rmcp::model::{
    GetPromptRequest, GetPromptRequestParams, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, ReadResourceRequest, ReadResourceRequestParams, ServerCapabilities,
};
use rmcp::service::{Peer, RoleClient};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};
use wire::{Breach, FailureReason, Offer};

use crate::exact;
use crate::guard::breach;
use crate::pages::{self, PAGES_TIME};
use crate::process::Ending;
use crate::render::{Rendered, render_contents, render_messages};

/// Most entries of a list.
const MAX_ENTRIES: usize = 10_000;

/// The time in which templates of resources must come.
const TEMPLATES_TIME: Duration = Duration::from_secs(2);

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

    /// The tool, in words of ours, as an app would list it.
    pub(crate) fn tool(self) -> Value {
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
        let schema = json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false});
        json!({"name": self.name(), "description": description, "inputSchema": schema})
    }

    /// Asks the app. A resource and a prompt come as the app wrote them as well.
    pub(crate) async fn call(
        self,
        peer: &Peer<RoleClient>,
        arguments: &Map<String, Value>,
        ending: &Ending,
    ) -> Result<(Rendered, Option<String>), FailureReason> {
        let text = |name: &str| {
            // Checked against the schema above: what it requires is there, and is a text.
            let value = arguments.get(name).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let (rendered, written) = match self {
            Self::ListResources | Self::ListPrompts => (Some(self.list(peer, ending).await?), None),
            Self::ReadResource => {
                let params = ReadResourceRequestParams::new(text("uri"));
                let request = ReadResourceRequest::new(params);
                let read = exact::ask(peer, request, Breach::CallAnswer, ending).await?;
                (render_contents(&read), Some(read))
            }
            Self::GetPrompt => {
                let given = arguments.get("arguments").and_then(Value::as_object);
                let mut params = GetPromptRequestParams::new(text("name"));
                params.arguments = given.cloned();
                let request = GetPromptRequest::new(params);
                let prompt = exact::ask(peer, request, Breach::CallAnswer, ending).await?;
                (render_messages(&prompt), Some(prompt))
            }
        };
        Ok((rendered.ok_or_else(|| breach(Breach::CallAnswer))?, written))
    }

    /// All pages, as JSON that label rules can read. Templates of resources are listed beside them.
    async fn list(
        self,
        peer: &Peer<RoleClient>,
        ending: &Ending,
    ) -> Result<Rendered, FailureReason> {
        let is_prompts = self == Self::ListPrompts;
        let kind = if is_prompts { "prompts" } else { "resources" };
        let deadline = Instant::now() + PAGES_TIME;
        let page = |params| async move {
            if is_prompts {
                let request = ListPromptsRequest::with_param(params);
                exact::ask(peer, request, Breach::CallAnswer, ending).await
            } else {
                let request = ListResourcesRequest::with_param(params);
                exact::ask(peer, request, Breach::CallAnswer, ending).await
            }
        };
        let listed = pages::all(kind, MAX_ENTRIES, deadline, Breach::CallAnswer, page).await?;
        let (entries, cut) = listed;
        let entries = to_raw_value(&entries).map_err(|_| breach(Breach::CallAnswer))?;
        let mut more = cut.map_or(String::new(), |why| {
            format!(",\"note\":{}", json!(why.to_string()))
        });
        if !is_prompts {
            let kind = "resourceTemplates";
            let page = |params| async move {
                let request = ListResourceTemplatesRequest::with_param(params);
                exact::ask(peer, request, Breach::CallAnswer, ending).await
            };
            // Most servers have none, some refuse the question, and a few answer nothing.
            let listed = pages::all(kind, MAX_ENTRIES, deadline, Breach::CallAnswer, page);
            if let Ok(Ok((templates, _))) = timeout(TEMPLATES_TIME, listed).await
                && !templates.is_empty()
                && let Ok(templates) = to_raw_value(&templates)
            {
                more.push_str(&format!(",\"{kind}\":{templates}"));
            }
        }
        Ok(Rendered::text(format!("{{\"{kind}\":{entries}{more}}}")))
    }
}

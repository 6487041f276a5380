//! The app's list of tools, bounded and compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonschema::Validator;
use rmcp::model::{Tool, ToolAnnotations};
use rmcp::service::{Peer, RoleClient};
use serde_json::Value;
use wire::limits::{MAX_DESCRIPTION_BYTES, MAX_SCHEMA_BYTES, MAX_TOOLS, MAX_TOOLS_BYTES};
use wire::{
    Breach, FailureReason, Hints, Offer, Quote, SpokeFault, ToolDescription, ToolProblem, head,
    is_tool_name,
};

use crate::extras::Extra;
use crate::failure::answered;
use crate::process::Ending;
use crate::{pages, schema};

/// The tools of an app: as described to the hub, and with what checks their arguments.
#[derive(Debug, Default)]
pub(crate) struct Toolbox {
    pub(crate) described: Vec<ToolDescription>,
    pub(crate) validators: BTreeMap<String, Arc<Validator>>,
    /// Those that are not the app's own tools.
    pub(crate) extras: BTreeMap<&'static str, Extra>,
}

impl Toolbox {
    /// Whether a tool of this box is in the other just as it is described here.
    pub(crate) fn is_unchanged(&self, tool: &str, now: &Self) -> bool {
        let described = |toolbox: &Self| {
            let mut tools = toolbox.described.iter();
            tools.find(|it| it.name == tool).cloned()
        };
        let before = described(self);
        before.is_some() && before == described(now)
    }
}

/// Asks for all pages and accepts all tools, or refuses the app. A tool left out silently would be
/// missed by the user and never explained.
pub(crate) async fn list(
    peer: &Peer<RoleClient>,
    offer: &Offer,
    ending: &Ending,
) -> Result<Toolbox, FailureReason> {
    let has = peer.peer_info().map(|info| info.capabilities.clone());
    let has = has.unwrap_or_default();
    let extras: Vec<Extra> = Extra::offered(offer, &has).collect();
    // Beside the app's own: one that is called the same is refused as a second one of its name.
    let mut tools: Vec<Tool> = extras.iter().map(|extra| extra.tool()).collect();
    let extras = extras
        .into_iter()
        .map(|extra| (extra.name(), extra))
        .collect();
    // By the protocol a client asks only for what the server has announced.
    if has.tools.is_none() {
        return accepted(tools, extras).await;
    }
    let too_many = FailureReason::TooManyTools(MAX_TOOLS as u64);
    let most = MAX_TOOLS.saturating_sub(tools.len());
    let listed = pages::all(most, too_many, Breach::ListTools, |params| async {
        let page = peer.list_tools(Some(params));
        let page = answered(page, Breach::ListTools, ending).await?;
        Ok((page.tools, page.next_cursor))
    });
    tools.extend(listed.await?);
    accepted(tools, extras).await
}

/// Compiling a schema can take long, and the supervisor must go on meanwhile.
async fn accepted(
    tools: Vec<Tool>,
    extras: BTreeMap<&'static str, Extra>,
) -> Result<Toolbox, FailureReason> {
    let toolbox = tokio::task::spawn_blocking(|| accept(tools)).await;
    let toolbox = toolbox.unwrap_or(Err(FailureReason::Spoke(SpokeFault::Internal)))?;
    Ok(Toolbox { extras, ..toolbox })
}

/// The annotations without their title, which is shown nowhere: a tool is known by its name.
fn hints(annotations: Option<&ToolAnnotations>) -> Hints {
    let hints = annotations.map(|said| Hints {
        read_only: said.read_only_hint,
        destructive: said.destructive_hint,
        idempotent: said.idempotent_hint,
        open_world: said.open_world_hint,
    });
    hints.unwrap_or_default()
}

fn accept(tools: Vec<Tool>) -> Result<Toolbox, FailureReason> {
    let mut toolbox = Toolbox::default();
    let mut total = 0_usize;
    for tool in tools {
        let name = tool.name.into_owned();
        let bad = |problem| FailureReason::BadTool {
            problem,
            name: Quote::head(&name),
        };
        if !is_tool_name(&name) {
            return Err(bad(ToolProblem::Name));
        }
        if toolbox.validators.contains_key(&name) {
            return Err(bad(ToolProblem::Duplicate));
        }
        let schema = Value::Object((*tool.input_schema).clone());
        let input_schema = schema.to_string();
        // Before it is compiled, which takes longer the longer it is.
        if input_schema.len() > MAX_SCHEMA_BYTES {
            return Err(bad(ToolProblem::SchemaTooLong));
        }
        // Without a validator the arguments of a call could not be checked, so there is no such tool.
        let validator = schema::compile(&schema).ok_or_else(|| bad(ToolProblem::SchemaInvalid))?;
        // Cut, unlike a schema: a description is words for the model, and checks nothing.
        let description = head(
            tool.description.as_deref().unwrap_or_default(),
            MAX_DESCRIPTION_BYTES,
        )
        .to_owned();
        let described = ToolDescription {
            name: name.clone(),
            description,
            input_schema,
            hints: hints(tool.annotations.as_ref()),
        };
        total = total.saturating_add(described.described_bytes());
        if total > MAX_TOOLS_BYTES {
            return Err(bad(ToolProblem::TotalTooLong));
        }
        toolbox.described.push(described);
        toolbox.validators.insert(name, Arc::new(validator));
    }
    Ok(toolbox)
}

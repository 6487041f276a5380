//! How a spoke's conversation begins.

use crate::{Agent, Setup};
use ifc::{Label, Labeled, Tool};

/// The developer's instructions (`m_s`). Short: small models follow few rules, and each of these
/// answers a mistake that they make.
const SYSTEM: &str = "You are the user's assistant. Call tools yourself, never tell the user to \
call one. As soon as a tool result holds the answer, reply to the user in plain text.";

/// The same for a vanilla spoke, which has no app (SecGPT §4.2.5).
const SYSTEM_VANILLA: &str = "You are a helpful assistant. Answer the user in plain words.";

/// A tool as its app describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppTool {
    /// The tool's name.
    pub name: String,
    /// Whether the user's configuration names it. Then the name is the user's word; otherwise it is
    /// the app's, like the rest.
    pub listed: bool,
    /// What it does.
    pub description: String,
    /// Its parameters: a JSON Schema, as JSON text.
    pub parameters: String,
}

/// The conversation of one spoke.
///
/// `descriptions` is the label of what the app says about its own tools, by their names too: ⊥ only
/// where the user's configuration says that the app is believed. Tools that the policy has no rule
/// for are not to be among `tools`: calling one is denied by the policy.
pub fn conversation(setup: Setup, tools: Vec<AppTool>, descriptions: &Label) -> Agent {
    // Not by the number of tools: an app decides that, and these words are seen at ⊥.
    let system = match setup.app {
        None => SYSTEM_VANILLA,
        Some(_) => SYSTEM,
    };
    let tools = tools
        .into_iter()
        .map(|tool| Tool {
            label: match tool.listed {
                true => Label::bottom(),
                false => descriptions.clone(),
            },
            name: tool.name,
            description: Labeled::label_tcb(tool.description, descriptions.clone()),
            parameters: Labeled::label_tcb(tool.parameters, descriptions.clone()),
        })
        .collect();
    Agent::new(setup, Labeled::trusted_tcb(system), tools)
}

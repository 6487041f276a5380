//! How a conversation begins.

use crate::{Agent, Apps, Setup};
use ifc::{Label, Labeled, Tool};

/// The developer's instructions (`m_s`). Short: small models follow few rules, and each of these
/// answers a mistake that they make.
const SYSTEM: &str = "You are the user's assistant. Call tools yourself, never tell the user to \
call one. As soon as a tool result holds the answer, reply to the user in plain text.";

/// The same for a vanilla spoke, which has no app (SecGPT §4.2.5).
const SYSTEM_VANILLA: &str = "You are a helpful assistant. Answer the user in plain words.";

/// The same where the answers of several apps are put together.
const SYSTEM_EACH: &str = "Several apps were asked the same, each by itself. Answer the user from \
what they said. Say which app each figure or fact is from; what one app says of another is not that \
other app's answer.";

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

/// The tools of one app, for a conversation.
#[derive(Debug, Clone)]
pub struct AppTools {
    /// The app's name in the configuration.
    pub app: String,
    /// Tools that the policy has rules for. Others are not to be here: calling one is denied by the
    /// policy.
    pub tools: Vec<AppTool>,
    /// The label of what the app says about its own tools, by their names too: ⊥ only where the user's
    /// configuration says that the app is believed.
    pub descriptions: Label,
}

/// A conversation with these apps, which must be those of the set-up: isolated with one, joint with
/// several.
pub fn conversation(setup: Setup, apps: Vec<AppTools>) -> Agent {
    // Not by the number of tools: an app decides that, and these words are seen at ⊥.
    let system = match setup.apps {
        Apps::None => SYSTEM_VANILLA,
        Apps::One(_) | Apps::Joint(_) => SYSTEM,
        Apps::Each(_) => SYSTEM_EACH,
    };
    let mut tools = Vec::new();
    for AppTools {
        app,
        tools: own,
        descriptions,
    } in apps
    {
        // No app can offer a tool that passes for a functionality.
        let is_own = |tool: &AppTool| !setup.asks.reserves(&setup.apps.shown(&app, &tool.name));
        let own = own.into_iter().filter(is_own);
        tools.extend(own.map(|tool| Tool {
            label: match tool.listed {
                true => Label::bottom(),
                false => descriptions.clone(),
            },
            name: setup.apps.shown(&app, &tool.name),
            description: Labeled::label_tcb(tool.description, descriptions.clone()),
            parameters: Labeled::label_tcb(tool.parameters, descriptions.clone()),
        }));
    }
    tools.extend(setup.asks.tools());
    Agent::new(setup, Labeled::trusted_tcb(system), tools)
}

//! How a conversation begins.

use ifc::{Label, Labeled, Tool};

use super::machine::TurnMachine;
use crate::isc::Functionality;
use crate::{Apps, Setup};

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

/// The same where another app asks. The request is the user's message; all else here is the user's own
/// word, who has predefined what can be asked for.
fn system_serving(functionality: &Functionality) -> String {
    let Functionality {
        description,
        response,
        ..
    } = functionality;
    let form = match response.is_text() {
        true => "in plain text".to_owned(),
        false => format!(
            "with one JSON value that matches this JSON Schema, and nothing else: {}",
            response.to_json()
        ),
    };
    format!(
        "Another app of the user asks for this: {description} Its request is the next message. Call \
         tools yourself to find the answer. As soon as you have it, reply {form}"
    )
}

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
pub fn conversation(setup: Setup, apps: Vec<AppTools>) -> TurnMachine {
    // Not by the number of tools: an app decides that, and these words are seen at ⊥.
    let system = match setup.apps {
        Apps::None => SYSTEM_VANILLA,
        Apps::One(_) | Apps::Joint(_) | Apps::Client(..) => SYSTEM,
        Apps::Each(_) => SYSTEM_EACH,
    };
    let tools = tools(&setup, apps);
    TurnMachine::new(setup, Labeled::trusted_tcb(system), tools)
}

/// The conversation of an app in which it serves another one's request.
pub(crate) fn serving(setup: Setup, app: AppTools, functionality: &Functionality) -> TurnMachine {
    let tools = tools(&setup, vec![app]);
    let system = Labeled::trusted_tcb(system_serving(functionality));
    TurnMachine::new(setup, system, tools)
}

fn tools(setup: &Setup, apps: Vec<AppTools>) -> Vec<Tool> {
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
                // The user has written it into the configuration.
                true => Label::bottom(),
                false => descriptions.clone(),
            },
            name: setup.apps.shown(&app, &tool.name),
            description: Labeled::label_tcb(tool.description, descriptions.clone()),
            parameters: Labeled::label_tcb(tool.parameters, descriptions.clone()),
        }));
    }
    tools.extend(setup.asks.tools());
    tools
}

//! The inter-spoke protocol (SecGPT §4.3): an app asks for a functionality, and another one serves it.
//!
//! The user defines a [`Functionality`]: its name, description and the [`Schema`]s of its messages. In the conversation
//! of an app it is a tool of the hub, `ask__NAME`, whether any app serves it or not, so that no app learns what is
//! installed. A call of it is an exchange of messages, each decided by the monitor, around one call of the serving app's
//! tool or around a turn of a conversation of that app. Ids come from the driver.

mod exchange;
mod format;
mod json;
mod message;
mod schema;

use std::sync::Arc;

use ifc::{Call, Label, Labeled, Tool};

pub(crate) use exchange::{Exchange, Parties, Response, probe, request};
pub use exchange::{ExchangeId, VERSION};
pub use message::{Admitted, Malformed};
pub use schema::{Schema, SchemaError};

/// What the names of the hub's tools for functionalities begin with.
pub const PREFIX: &str = "ask__";

/// Something that apps can ask for, predefined by the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Functionality {
    /// Its name.
    pub name: String,
    /// What it is, in the user's words.
    pub description: String,
    /// The form of a request: an object. Its properties are the arguments of a tool that serves it.
    pub request: Schema,
    /// The form of a response.
    pub response: Schema,
    /// The apps that serve it. Of several the user chooses one, in the configuration or in the session.
    pub offers: Vec<Offer>,
}

/// That an app serves a functionality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The app.
    pub app: String,
    /// How it serves.
    pub by: ServedBy,
    /// The label of what the app says: free text of its responses has it in addition to its own.
    pub taint: Label,
}

/// How an app serves a functionality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServedBy {
    /// By one call of this tool.
    Tool(String),
    /// By a conversation of its own, made for one request: the app's model answers it with the app's
    /// tools, and may ask further apps.
    Conversation,
}

impl Functionality {
    /// What a model calls it.
    pub fn shown(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// The apps that serve it.
    pub fn apps(&self) -> Vec<String> {
        self.offers.iter().map(|offer| offer.app.clone()).collect()
    }

    /// The tool that a call for this offer is a call of. A conversation that serves it has no such tool; the call is
    /// compared with what the user has refused.
    pub(crate) fn tool_of(&self, offer: &Offer) -> String {
        match &offer.by {
            ServedBy::Tool(tool) => tool.clone(),
            ServedBy::Conversation => self.shown(),
        }
    }

    /// Everything in it is the user's own word.
    fn tool(&self) -> Tool {
        Tool {
            label: Label::bottom(),
            name: self.shown(),
            description: Labeled::trusted_tcb(self.description.as_str()),
            parameters: Labeled::trusted_tcb(self.request.to_json().to_string()),
        }
    }
}

/// What a conversation may ask of apps that are not in it.
#[derive(Debug, Clone, Default)]
pub struct Asks {
    /// The app of the conversation; empty where nothing can be asked.
    app: String,
    functionalities: Vec<Arc<Functionality>>,
}

impl Asks {
    /// What the conversation of this app may ask for: of these functionalities those that it does not
    /// serve itself.
    pub fn of(app: &str, functionalities: impl IntoIterator<Item = Arc<Functionality>>) -> Self {
        let own = |functionality: &Arc<Functionality>| {
            functionality.offers.iter().any(|offer| offer.app == app)
        };
        let all = functionalities.into_iter();
        Self {
            app: app.to_owned(),
            functionalities: all.filter(|functionality| !own(functionality)).collect(),
        }
    }

    pub(crate) fn app(&self) -> &str {
        &self.app
    }

    /// The functionality that a model calls so.
    pub(crate) fn named(&self, shown: &str) -> Option<&Arc<Functionality>> {
        let name = shown.strip_prefix(PREFIX)?;
        let mut all = self.functionalities.iter();
        all.find(|functionality| functionality.name == name)
    }

    /// Whether this call is one by which a request is served.
    pub(crate) fn has(&self, call: &Call) -> bool {
        let mut all = self.functionalities.iter();
        all.any(|functionality| {
            let mut offers = functionality.offers.iter();
            offers.any(|offer| offer.app == call.app && functionality.tool_of(offer) == call.tool)
        })
    }

    /// Whether a name could be taken for that of a functionality.
    pub(crate) fn reserves(&self, shown: &str) -> bool {
        !self.functionalities.is_empty() && shown.starts_with(PREFIX)
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = Tool> {
        self.functionalities.iter().map(|one| one.tool())
    }
}

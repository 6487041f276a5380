//! Permissions as JSON. These are twins of the types of the store, for writing only.

use serde::Serialize;

use super::action::{Action, App};
use super::error::PermissionError;
use super::kept::{Kept, Standing};
use crate::Time;

/// Raised when a reader of the JSON would have to change.
const VERSION: u32 = 2;

#[derive(Serialize)]
struct Export {
    version: u32,
    permissions: Vec<Permission>,
}

/// Times are milliseconds since 1970-01-01 UTC.
#[derive(Serialize)]
struct Permission {
    id: String,
    action: ActionTwin,
    taints: Vec<String>,
    granted: i64,
    expires: Option<i64>,
    standing: StandingTwin,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum ActionTwin {
    Selection {
        functionality: String,
        app: AppTwin,
    },
    Collaboration {
        from: AppTwin,
        to: AppTwin,
        functionality: String,
        direction: &'static str,
    },
    Egress {
        app: AppTwin,
        domain: String,
    },
    Tool {
        app: AppTwin,
        tool: String,
    },
}

#[derive(Serialize)]
struct AppTwin {
    name: String,
    /// Hexadecimal.
    identity: String,
}

#[derive(Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
enum StandingTwin {
    Valid,
    Expired,
    AppsChanged { apps: Vec<String> },
    TaintsChanged,
    NotYet,
}

pub(super) fn json(kept: &[Kept]) -> Result<String, PermissionError> {
    let export = Export {
        version: VERSION,
        permissions: kept.iter().map(permission).collect(),
    };
    serde_json::to_string_pretty(&export).map_err(PermissionError::Json)
}

fn permission(kept: &Kept) -> Permission {
    Permission {
        id: kept.id.to_string(),
        action: action(&kept.action),
        taints: kept.taints.clone(),
        granted: kept.granted.millis(),
        expires: kept.expires.map(Time::millis),
        standing: match &kept.standing {
            Standing::Valid => StandingTwin::Valid,
            Standing::Expired => StandingTwin::Expired,
            Standing::AppsChanged(apps) => StandingTwin::AppsChanged {
                apps: apps.iter().map(ToString::to_string).collect(),
            },
            Standing::TaintsChanged => StandingTwin::TaintsChanged,
            Standing::NotYet => StandingTwin::NotYet,
        },
    }
}

fn action(action: &Action) -> ActionTwin {
    match action {
        Action::Selection { functionality, app } => ActionTwin::Selection {
            functionality: functionality.to_string(),
            app: twin(app),
        },
        Action::Collaboration {
            from,
            to,
            functionality,
            direction,
        } => ActionTwin::Collaboration {
            from: twin(from),
            to: twin(to),
            functionality: functionality.to_string(),
            direction: direction.name(),
        },
        Action::Egress { app, domain } => ActionTwin::Egress {
            app: twin(app),
            domain: domain.as_str().to_owned(),
        },
        Action::Tool { app, tool } => ActionTwin::Tool {
            app: twin(app),
            tool: tool.name().to_string(),
        },
    }
}

fn twin(app: &App) -> AppTwin {
    AppTwin {
        name: app.name.to_string(),
        identity: app.identity.to_string(),
    }
}

//! `sluice permissions`: list and revoke the permissions of the answer "always".

use anyhow::Result;
use clap::{Args, Subcommand};
use config::Config;
use hub::question::{may, with};
use hub::trace::escape;
use ifc::{Bound, Bounds, Lattice};
use serde_json::{Value, json};
use server::audit::Note;
use store::{Action, App, Kept, Name, PermissionId, Standing, Time};

use crate::deployment;
use crate::exit::Exit;
use crate::ids::PERMISSIONS;
use crate::json_lines;
use crate::permissions::{AND, apps, now, open, open_in};
use crate::place::ConfigFile;
use crate::terminal::{is_agreed, say, say_nothing};
use crate::words::{counted, minute};

#[derive(Debug, Args)]
pub(crate) struct Permissions {
    #[command(subcommand)]
    action: PermissionsAction,
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Debug, Subcommand)]
enum PermissionsAction {
    /// List your permissions, oldest first, each with its id.
    #[command(
        after_help = "Example:\n  sluice permissions list\n  sluice permissions list --json > permissions.jsonl"
    )]
    List {
        /// Print JSON, one permission per line.
        #[arg(long)]
        json: bool,
    },
    /// Revoke permissions, in running sessions too.
    #[command(
        after_help = "Example:\n  sluice permissions revoke 1f0c9e…\n  sluice permissions revoke --all"
    )]
    Revoke {
        /// The ids that `list` shows, or their beginnings.
        #[arg(required_unless_present = "all", value_name = "ID")]
        ids: Vec<String>,
        /// Revoke all.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        /// Revoke all without asking.
        #[arg(long, requires = "all")]
        yes: bool,
    },
}

/// Lists or revokes permissions.
pub(crate) async fn permissions(args: &Permissions) -> Result<Exit> {
    match &args.action {
        PermissionsAction::Revoke { ids, all, yes } => revoke(ids, *all, *yes).await,
        PermissionsAction::List { json } => list(&args.file.open(*json)?, *json),
    }
}

fn list(config: &Config, as_json: bool) -> Result<Exit> {
    let all = open(config)?.list(&apps(config)?, now())?;
    if all.is_empty() && !as_json {
        say("there are no permissions; the answer \"always\" to a question gives one\n");
    }
    for kept in &all {
        json_lines::show(as_json, &value(kept), &line(kept))?;
    }
    Ok(Exit::Done)
}

fn line(kept: &Kept) -> String {
    let what = what(&kept.action, &kept.taints);
    format!("{}  {what}  {}", kept.id, standing(kept))
}

/// The permitted action, with its taints; a choice among apps has none.
pub(crate) fn what(action: &Action, taints: &[String]) -> String {
    match action {
        Action::Tool {
            app,
            tool,
            arguments,
            ..
        } => {
            let (app, tool) = (escape(app.name.as_str()), escape(tool.name().as_str()));
            let under = match taints.is_empty() {
                true => String::new(),
                false => format!(" under {}", escape(&taints.join(", "))),
            };
            format!("calls of {app}.{tool} {}{under}", covered(arguments))
        }
        Action::Collaboration {
            from,
            to,
            functionality,
            direction,
        } => {
            let may = may(to.name.as_str(), functionality.as_str(), *direction);
            format!("{} may {may} {}", escape(from.name.as_str()), with(taints))
        }
        Action::Selection { functionality, app } => {
            let (app, of) = (escape(app.name.as_str()), escape(functionality.as_str()));
            // A choice for queries is kept under the names of all the apps among which it was made.
            match functionality.as_str().contains(AND) {
                true => format!("the choice of {app} among {of}"),
                false => format!("the choice of {app} whenever an app asks for {of}"),
            }
        }
        Action::Egress { app, domain } => {
            let (app, domain) = (escape(app.name.as_str()), escape(domain.as_str()));
            format!(
                "{app} may connect to {domain} and what is below it {}",
                with(taints)
            )
        }
    }
}

/// The control arguments that a permission covers, in full, and the names of the data arguments.
fn covered(bounds: &Bounds) -> String {
    let control = bounds
        .iter()
        .map(|Bound { name, value, below }| match below {
            true => escape(&format!("any {name} below \"{value}\"")),
            false => escape(&format!("{name} {value}")),
        });
    let data = bounds
        .data()
        .map(|name| escape(&format!("any {name} within its limit")));
    let all: Vec<String> = control.chain(data).collect();
    match all.is_empty() {
        true => "with no control argument".to_owned(),
        false => format!("with {}", all.join(" and ")),
    }
}

/// Where and how long a permission counts, and why it does not.
pub(crate) fn standing(kept: &Kept) -> String {
    let scripts = if kept.scripts { "in scripts too  " } else { "" };
    let since = minute(kept.granted);
    let until = kept.expires.map(|end| format!("  until {}", minute(end)));
    let until = until.unwrap_or_default();
    let why = match &kept.standing {
        Standing::Valid => String::new(),
        Standing::Expired => "  EXPIRED".to_owned(),
        Standing::AppsChanged(apps) => {
            let apps = apps.iter().map(|app| escape(app.as_str()));
            let apps = apps.collect::<Vec<_>>().join(", ");
            format!("  VOID: {apps} changed since, or is not configured")
        }
        Standing::TaintsChanged => "  VOID: the lattice has other taints since".to_owned(),
        Standing::NotYet => "  VOID: it was given later than now; check the clock".to_owned(),
    };
    format!("{scripts}since {since}{until}{why}")
}

/// Revokes by ids alone. The configuration may have mistakes or be untrusted, and a permission may be unreadable, while a
/// running session still uses them.
async fn revoke(ids: &[String], is_all: bool, yes: bool) -> Result<Exit> {
    // Ids are the same in every lattice.
    let permissions = open_in(Lattice::four_point())?;
    let all = permissions.ids()?;
    // All or none, in case of a typing mistake.
    let found = ids.iter().map(|id| PERMISSIONS.find(&all, id));
    let found: Vec<PermissionId> = found.collect::<Result<_>>()?;
    let meant = if is_all { all } else { found };
    let count = counted(meant.len(), "permission", "permissions");
    let prompt = format!("Type revoke to revoke {count} [no]: ");
    if is_all && !yes && !is_agreed(&prompt, "revoke") {
        say_nothing("revoked");
        return Ok(Exit::Refused);
    }
    for id in meant {
        let note = Note::new("permission", "revoke").with("name", id.to_string());
        deployment::note(None, note).await?;
        permissions.revoke(id)?;
        say(&format!("{id} is revoked\n"));
    }
    Ok(Exit::Done)
}

/// A permission as JSON. Times are milliseconds since 1970-01-01 UTC, identities hexadecimal.
fn value(kept: &Kept) -> Value {
    json!({
        "id": kept.id.to_string(),
        "action": action(&kept.action),
        "taints": kept.taints,
        "granted": kept.granted.millis(),
        "expires": kept.expires.map(Time::millis),
        "scripts": kept.scripts,
        "standing": match &kept.standing {
            Standing::Valid => json!({"is": "valid"}),
            Standing::Expired => json!({"is": "expired"}),
            Standing::AppsChanged(apps) => {
                let apps: Vec<&str> = apps.iter().map(Name::as_str).collect();
                json!({"is": "apps-changed", "apps": apps})
            }
            Standing::TaintsChanged => json!({"is": "taints-changed"}),
            Standing::NotYet => json!({"is": "not-yet"}),
        },
    })
}

fn action(action: &Action) -> Value {
    let app = |app: &App| json!({"name": app.name.as_str(), "identity": app.identity.to_string()});
    match action {
        Action::Selection {
            functionality,
            app: own,
        } => {
            json!({"kind": "selection", "functionality": functionality.as_str(), "app": app(own)})
        }
        Action::Collaboration {
            from,
            to,
            functionality,
            direction,
        } => json!({
            "kind": "collaboration",
            "from": app(from),
            "to": app(to),
            "functionality": functionality.as_str(),
            "direction": direction.name(),
        }),
        Action::Egress { app: own, domain } => {
            json!({"kind": "egress", "app": app(own), "domain": domain.as_str()})
        }
        Action::Tool {
            app: own,
            tool,
            definition,
            arguments,
        } => {
            json!({
                "kind": "tool",
                "app": app(own),
                "tool": tool.name().as_str(),
                "definition": definition.to_string(),
                "arguments": arguments.arguments(),
                "folders": arguments.folders(),
            })
        }
    }
}

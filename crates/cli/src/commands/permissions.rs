//! `sluice permissions`: what the user has allowed for good.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use config::Config;
use hub::trace::escape;
use ifc::Lattice;
use serde_json::{Value, json};
use store::{Action, App, Kept, Name, PermissionId, Standing, Time};

use crate::exit::Exit;
use crate::ids::PERMISSIONS;
use crate::permissions::{AND, apps, now, open, open_in};
use crate::terminal::{Terminal, print, say};
use crate::{configuration, json_lines};
use hub::question::{may, with};

#[derive(Debug, Args)]
pub(crate) struct Permissions {
    #[command(subcommand)]
    action: PermissionsAction,
    /// The configuration [default: $SLUICE_CONFIG, ./sluice.toml, then the user's configuration
    /// folder]: its apps and labels say which permissions count.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum PermissionsAction {
    /// List them, oldest first, each with its id.
    #[command(after_help = "Example:\n  sluice permissions list --json")]
    List {
        /// Print one permission per line, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take permissions back: the next call is asked about again, in running sessions too.
    #[command(after_help = "Example:\n  sluice permissions revoke 1f0c9e…")]
    Revoke {
        /// Ids, as `list` shows them, or the beginning of one.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Write them to standard output as JSON.
    #[command(after_help = "Example:\n  sluice permissions export > permissions.json")]
    Export,
}

/// Lists, revokes or exports permissions.
pub(crate) fn permissions(args: &Permissions) -> Result<Exit> {
    let for_programs = matches!(
        args.action,
        PermissionsAction::List { json: true } | PermissionsAction::Export
    );
    let attended = !for_programs && Terminal::attended();
    let opened = || configuration::open(args.config.as_deref(), attended);
    match &args.action {
        PermissionsAction::Revoke { ids } => revoke(ids),
        PermissionsAction::List { json: false } => list(&opened()?),
        PermissionsAction::List { json: true } => list_json(&opened()?),
        PermissionsAction::Export => export(&opened()?),
    }
}

fn list(config: &Config) -> Result<Exit> {
    let all = open(config)?.list(&apps(config)?, now())?;
    if all.is_empty() {
        say(
            "nothing is allowed for good; \"always\" as the answer to a question allows a tool, or what one app asks of another, or keeps a choice of apps\n",
        );
    }
    for kept in &all {
        print(&line(kept))?;
    }
    Ok(Exit::Done)
}

/// The entries of the export, one a line.
fn list_json(config: &Config) -> Result<Exit> {
    for entry in exported(config)? {
        json_lines::print_json(&entry)?;
    }
    Ok(Exit::Done)
}

fn line(kept: &Kept) -> String {
    let since = written(kept.granted);
    format!(
        "{}  {}  since {since}{}{}",
        kept.id,
        what(&kept.action, &kept.taints),
        until(kept.expires),
        standing(&kept.standing)
    )
}

fn written(time: Time) -> String {
    let time = jiff::Timestamp::from_millisecond(time.millis());
    time.map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}

fn until(end: Option<Time>) -> String {
    end.map_or_else(String::new, |end| format!("  until {}", written(end)))
}

/// What is allowed, and with which taints; a choice among apps is about none.
fn what(action: &Action, taints: &[String]) -> String {
    match action {
        Action::Tool { app, tool } => {
            let (app, tool) = (escape(app.name.as_str()), escape(tool.name().as_str()));
            let under = match taints.is_empty() {
                true => String::new(),
                false => format!(" under {}", escape(&taints.join(", "))),
            };
            format!("calls of {app}.{tool}{under}")
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

fn standing(standing: &Standing) -> String {
    match standing {
        Standing::Valid => String::new(),
        Standing::Expired => "  EXPIRED".to_owned(),
        Standing::AppsChanged(apps) => {
            let apps = apps.iter().map(|app| escape(app.as_str()));
            let apps = apps.collect::<Vec<_>>().join(", ");
            format!("  COUNTS NO MORE: {apps} changed since, or is not configured")
        }
        Standing::TaintsChanged => {
            "  COUNTS NO MORE: the lattice has other taints than then".to_owned()
        }
        Standing::NotYet => "  COUNTS NOT: it was given later than now; see the clock".to_owned(),
    }
}

/// Revokes by ids alone, without the configuration: so a permission that cannot be read can be revoked, and any of them
/// while the configuration has mistakes or is not trusted. A session that is running would still use them.
fn revoke(ids: &[String]) -> Result<Exit> {
    // Ids are the same in every lattice.
    let permissions = open_in(Lattice::four_point())?;
    let all = permissions.ids()?;
    // All or none: a typing mistake should not leave the rest of the list revoked.
    let meant: Vec<PermissionId> = ids
        .iter()
        .map(|id| PERMISSIONS.find(&all, id))
        .collect::<Result<_>>()?;
    for id in meant {
        permissions.revoke(id)?;
        say(&format!("{id} is revoked\n"));
    }
    Ok(Exit::Done)
}

fn export(config: &Config) -> Result<Exit> {
    let exported = json!({"version": VERSION, "permissions": exported(config)?});
    json_lines::print_json(&exported)?;
    Ok(Exit::Done)
}

/// Raised when a reader of the JSON would have to change.
const VERSION: u32 = 2;

/// Every permission as JSON. Times are milliseconds since 1970-01-01 UTC, identities hexadecimal.
fn exported(config: &Config) -> Result<Vec<Value>> {
    let all = open(config)?.list(&apps(config)?, now())?;
    let each = all.iter().map(|kept| {
        json!({
            "id": kept.id.to_string(),
            "action": action(&kept.action),
            "taints": kept.taints,
            "granted": kept.granted.millis(),
            "expires": kept.expires.map(Time::millis),
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
    });
    Ok(each.collect())
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
        Action::Tool { app: own, tool } => {
            json!({"kind": "tool", "app": app(own), "tool": tool.name().as_str()})
        }
    }
}

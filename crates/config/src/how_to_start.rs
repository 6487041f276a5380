//! How an app is started: here, elsewhere or at a client of the guard proxy.

use crate::app::App;
use crate::grants::anchor;
use crate::manifest::{Manifest, command};
use crate::mcp_servers::Server;
use crate::remote;
use crate::toml_reader::{At, Table};

/// The keys of an app that are about its process.
const PROCESS_KEYS: [&str; 13] = [
    "command",
    "url",
    "env",
    "env_from",
    "mount",
    "egress",
    "domain",
    "other_domains",
    "fresh",
    "limits",
    "resources",
    "prompts",
    "meta_labels",
];

/// The command, from exactly one of `[app.NAME]`, its manifest and the `mcpServers` file; only the
/// user's own wins over the manifest's.
pub(crate) fn how_to_start(
    table: &Table<'_>,
    name: &At<&str>,
    server: Option<&Server>,
    manifest: Option<&Manifest>,
    app: &mut App,
) {
    app.client = table.boolean("client").unwrap_or(false);
    // Of its manifest an app at a client has the description, and nothing to start.
    if let (true, Some(manifest)) = (app.client, manifest) {
        app.description.clone_from(&manifest.description);
        app.described_by_user = manifest.description.is_none();
    }
    if app.client {
        at_a_client(table, name, server);
        return;
    }
    let mut own = command(table);
    anchor(&mut own, table.context.file);
    if server.is_some()
        && ["manifest", "command", "url"]
            .iter()
            .any(|key| table.has(key))
    {
        let message = format!("the app '{}' is also in the mcpServers file", name.value);
        let help = "leave out manifest, command and url here, or rename one of the two";
        table.context.error(&name.span, message, help);
    }
    if let Some(manifest) = manifest {
        app.description.clone_from(&manifest.description);
        app.described_by_user = manifest.description.is_none();
        app.command.clone_from(&manifest.command);
    }
    if !own.is_empty() {
        app.command = own;
    }
    if let Some(remote) = remote::remote(table) {
        app.remote = Some(remote);
    }
    // Also where the url is wrong: the command of a manifest must not start in place of the server.
    if app.remote.is_some() || table.has("url") {
        app.command.clear();
        elsewhere(table, name);
        return;
    }
    // A command that is wrong and a manifest that could not be read have been reported.
    let unknown = table.has("command") || (table.has("manifest") && manifest.is_none());
    if app.command.is_empty() && !unknown {
        table.missing(
            "command",
            "command = [\"PROGRAM\"], url = \"https://…\", or a manifest that has a command",
        );
    }
}

/// An app that is a remote server has nothing of this machine.
fn elsewhere(table: &Table<'_>, name: &At<&str>) {
    for key in ["command", "env", "env_from", "mount", "egress"] {
        if table.value(key).is_some() {
            let message = format!(
                "the app '{}' is a server elsewhere, and '{key}' is about a program here",
                name.value
            );
            let help = "leave it out, or leave out 'url'";
            table.context.error(&name.span, message, help);
        }
    }
}

/// An app whose tools run at a client of the guard proxy has no process here.
fn at_a_client(table: &Table<'_>, name: &At<&str>, server: Option<&Server>) {
    for key in PROCESS_KEYS {
        if table.value(key).is_some() {
            let message = format!(
                "the app '{}' runs at a client, and '{key}' is about a process of ours",
                name.value
            );
            table
                .context
                .error(&name.span, message, "leave it out, or leave out 'client'");
        }
    }
    if server.is_some() {
        let message = format!("the app '{}' is also in the mcpServers file", name.value);
        let help = "an app at a client is not started here; rename one of the two";
        table.context.error(&name.span, message, help);
    }
}

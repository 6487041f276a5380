//! How an app is started: on this machine, as a remote server, or at a client of the guard proxy.

use crate::app::App;
use crate::grants::anchor;
use crate::manifest::{Manifest, command};
use crate::mcp_servers::Server;
use crate::remote;
use crate::toml_reader::{At, Table};

/// The keys that an app without a process of ours cannot have.
const PROCESS_KEYS: [&str; 21] = [
    "command",
    "url",
    "env",
    "env_from",
    "mount",
    "egress",
    "connect",
    "domain",
    "other_domains",
    "fresh",
    "limits",
    "resources",
    "prompts",
    "only_tools",
    "hidden_tools",
    "meta_labels",
    "provider",
    "offers",
    "asks",
    "serves",
    "receives",
];
/// The keys that a remote server cannot have.
const LOCAL_KEYS: [&str; 6] = ["command", "env", "env_from", "mount", "egress", "connect"];

/// The command, from exactly one of `[app.NAME]`, its manifest and the `mcpServers` file. The user's own command wins over
/// the manifest's.
pub(crate) fn how_to_start(
    table: &Table<'_>,
    name: &At<&str>,
    server: Option<&Server>,
    manifest: Option<&Manifest>,
    app: &mut App,
) {
    app.client = table.boolean("client").unwrap_or(false);
    if let Some(manifest) = manifest {
        app.description.clone_from(&manifest.description);
        app.described_by_user = manifest.description.is_none();
    }
    if app.client {
        let what = format!("the app '{}' runs at a client", name.value);
        refuse(table, &PROCESS_KEYS, &what, "client");
        if server.is_some() {
            let message = format!("{what} and is also in the mcpServers file");
            table.error(&name.span, message, "rename one of the two");
        }
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
        table.error(&name.span, message, help);
    }
    if let Some(manifest) = manifest {
        app.command.clone_from(&manifest.command);
    }
    if !own.is_empty() {
        app.command = own;
    }
    if let Some(remote) = remote::remote(table) {
        app.remote = Some(remote);
    }
    // Also with a wrong url: the command of a manifest must not start in place of the server.
    if app.remote.is_some() || table.has("url") {
        app.command.clear();
        let what = format!("the app '{}' is a remote server", name.value);
        refuse(table, &LOCAL_KEYS, &what, "url");
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

/// Reports the keys that have no effect beside the key `other`.
fn refuse(table: &Table<'_>, keys: &[&'static str], what: &str, other: &str) {
    for key in keys {
        let message = format!("{what}, so '{key}' has no effect");
        table.refuse(
            key,
            message,
            &format!("leave it out, or leave out '{other}'"),
        );
    }
}

//! The user's grants to an app: variables, mounts, connections.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Component, Path};

use ifc::Label;

use crate::app::{App, Domain, Egress, LOOPBACK, Mount};
use crate::diagnostics::File;
use crate::template::{Piece, from_environment, pieces};
use crate::toml_reader::{At, Table};

/// Largest size of a folder: a petabyte.
const MAX_SIZE_MB: u64 = 1 << 30;

/// `env` and `env_from`.
pub(crate) fn environment(table: &Table<'_>, app: &mut App) {
    // In the environment of a process the first `=` ends the name, and NUL the variable.
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    let check = |name: &At<&str>| {
        if !is_name(name.value) {
            let message = format!("'{}' is no name of a variable", name.value);
            table.error(&name.span, message, "leave out '=' and NUL");
        }
    };
    for (name, value) in table.named_strings("env") {
        check(&name);
        app.env
            .insert(name.value.to_owned(), value.value.to_owned());
    }
    for entry in table.strings("env_from").unwrap_or_default() {
        let (name, text) = from_environment(entry.value);
        check(&At {
            value: name,
            span: entry.span.clone(),
        });
        let known = |piece: &Piece| matches!(piece, Piece::Text(_) | Piece::Variable(..));
        let is_literal = |piece: &Piece| matches!(piece, Piece::Text(_));
        let pieces = pieces(&text).unwrap_or_default();
        if entry.value.contains('=') && (pieces.iter().all(is_literal) || !pieces.iter().all(known))
        {
            let message = format!("the value of '{name}' names no variable of yours");
            let help = "write NAME, or NAME=${VARIABLE}; a literal value belongs into 'env'";
            table.error(&entry.span, message, help);
        }
        if app.env.contains_key(name) {
            let message = format!("'{name}' is in 'env' as well");
            table.error(&entry.span, message, "leave one of the two out");
        }
        app.env_from.push(entry.value.to_owned());
    }
}

/// `[[app.NAME.mount]]`, of an app that may connect to these domains, and perhaps to others.
pub(crate) fn mounts(table: &Table<'_>, domains: &[Domain], ask_domains: bool) -> Vec<Mount> {
    let is_asked = ask_domains || !domains.iter().all(Domain::takes_everything);
    let mut mounts: Vec<Mount> = Vec::new();
    let mut targets = BTreeSet::new();
    for table in table.tables("mount") {
        let (source, target) = (table.string("source"), table.string("target"));
        table.needs("source", "source = \"PATH\"");
        table.needs("target", "target = \"/PATH\"");
        let write = table.boolean("write").unwrap_or(false);
        let execute = table.boolean("execute").unwrap_or(false);
        let size = table
            .integer("size_mb", 1..=MAX_SIZE_MB)
            // From MiB to bytes: at most 2^50, so nothing is shifted out.
            .map(|size| size << 20);
        if size.is_some() && !write {
            let message = "'size_mb' is about a folder that the app may write";
            let help = "add write = true, or leave it out";
            table.wrong(message, help);
        }
        let label = table.label("label");
        table.finish();
        let (Some(source), Some(target)) = (source, target) else {
            continue;
        };
        if label.is_none() && is_asked {
            let message = format!(
                "the app connects by name, and the files in '{}' have no label: they count as untrusted and secret",
                source.value
            );
            let help = "write their label, like label = [\"secret\"]; [] is trusted and public";
            let file = table.context.file;
            table.context.sink.warning(file, &table.span, message, help);
        }
        // The app can send all of it with every connection.
        let label = label.unwrap_or_else(Label::top);
        let at = Path::new(target.value);
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        // `absolute` keeps `..`: where it leads depends on the links before it.
        let from = table.context.file.absolute(source.value);
        if source.value.is_empty() || !from.components().all(plain) {
            let message = format!("'{}' cannot be mounted", source.value);
            let help = "write a path without '..'; symbolic links could lead it elsewhere";
            table.error(&source.span, message, help);
        }
        if !at.is_absolute() || at.parent().is_none() || !at.components().all(plain) {
            let message = format!("'{}' is no place for a mount", target.value);
            let help = "write an absolute path without '..', other than '/'";
            table.error(&target.span, message, help);
        }
        // By a set: the number of mounts is checked only when those of all apps are known.
        if !targets.insert(at) {
            let message = format!("two mounts on '{}'", target.value);
            table.error(&target.span, message, "give each its own target");
        }
        mounts.push(Mount {
            source: from,
            target: at.to_owned(),
            write,
            size,
            execute,
            label,
            place: table.context.file.place(source.span.start),
        });
    }
    mounts
}

/// `connect`: services on this machine's loopback, each at the same port of the spoke's own 127.0.0.1. The `ports` are taken.
fn services(table: &Table<'_>, ports: &mut BTreeSet<u16>, connections: &mut Vec<Egress>) {
    for entry in table.strings("connect").unwrap_or_default() {
        let service = destination(entry.value);
        let Some((host, port)) = service.filter(|(host, _)| LOOPBACK.contains(&&**host)) else {
            let message = format!("'{}' is no service on this machine", entry.value);
            let help = "write 127.0.0.1:PORT, [::1]:PORT or localhost:PORT; for another host write [[app.NAME.domain]]";
            table.error(&entry.span, message, help);
            continue;
        };
        if !ports.insert(port) {
            let message = format!("two connections listen on port {port}");
            table.error(&entry.span, message, "leave one of the two out");
        }
        // A name resolves to either address, and a service may have only one of them.
        let is_name = host == "localhost";
        let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        connections.push(Egress {
            listen: port,
            host,
            port,
            addresses: addresses.into_iter().filter(|_| is_name).collect(),
        });
    }
}

/// `[[app.NAME.egress]]`, and `connect`.
pub(crate) fn egress(table: &Table<'_>) -> Vec<Egress> {
    let mut connections: Vec<Egress> = Vec::new();
    let mut ports = BTreeSet::new();
    for table in table.tables("egress") {
        let listen = table.integer("listen", 1..=u64::from(u16::MAX));
        let to = table.string("to");
        let addresses = table.addresses();
        table.needs("listen", "listen = 2525");
        table.needs("to", "to = \"HOST:PORT\"");
        table.finish();
        let listen = listen.and_then(|port| u16::try_from(port).ok());
        if listen.is_some_and(|port| !ports.insert(port)) {
            let message = "two connections listen on the same port";
            let help = "give each its own";
            table.wrong(message, help);
        }
        let Some(to) = to else { continue };
        let destination = destination(to.value);
        if destination.is_none() {
            let message = format!("'{}' is no destination", to.value);
            let help = "write HOST:PORT, like \"smtp.example.com:587\"; there are no wildcards";
            table.error(&to.span, message, help);
        }
        if let (Some(listen), Some((host, port))) = (listen, destination) {
            connections.push(Egress {
                listen,
                host,
                port,
                addresses,
            });
        }
    }
    services(table, &mut ports, &mut connections);
    connections
}

/// Host and port; an IPv6 address stands in brackets.
fn destination(text: &str) -> Option<(String, u16)> {
    // The last one: an IPv6 address has colons itself.
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let inside = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let fits = match inside {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
            !host.is_empty() && host.chars().all(allowed)
        }
    };
    fits.then(|| (host.to_owned(), port))
}

/// A program with a `/` is a path from the folder of the file that names it.
pub(crate) fn anchor(command: &mut [String], file: &File) {
    let program = command.first_mut();
    if let Some(program) = program.filter(|program| program.contains('/')) {
        let path = file.absolute(program);
        *program = path.to_string_lossy().into_owned();
    }
}

//! Files in which other programs list MCP servers. `sluice app import` and `[mcp_servers] file` read them here.

mod choices;
mod entry;

pub use entry::{ForeignServer, anchored, with_home};

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use hub::trace::escape;
use policy::Place;
use policy::formats::{Document, Format};
use serde_json::Value;

use crate::diagnostics::{File, Sink};
use crate::remote::{Remote, read_headers};
use crate::toml_reader::endless_key;

/// Where files keep their servers. The first place that has one counts, together with Claude Code's `projects`.
const PLACES: [&str; 9] = [
    "mcpServers",      // Claude, Cursor, Gemini and most others; in Continue it is a list
    "servers",         // VS Code
    "mcp_servers",     // Codex
    "context_servers", // Zed
    "mcp/servers",     // VS Code's settings, OpenCode 2
    "mcp/mcpServers",  // settings that hold such a file
    "mcp",             // OpenCode 1, Crush
    "amp.mcpServers",  // Amp
    "extensions",      // Goose
];
/// Places where other settings stand beside the servers.
const MIXED: [&str; 2] = ["mcp", "extensions"];

/// Why a file cannot be read. No word of the file is quoted: it may be a secret.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Unreadable {
    line: usize,
    message: String,
}

/// Reads another program's file, which is TOML or YAML by its name and otherwise JSON with comments. `variable` looks up the
/// user's environment. The second list is what was overlooked.
///
/// # Errors
/// It is none of these, or it has no place for servers. A mistake in a server leaves that server out.
pub fn foreign_servers(
    path: &Path,
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(Vec<ForeignServer>, Vec<String>), Unreadable> {
    let mut notes = Vec::new();
    let root = value(path, text, &mut notes)?;
    Ok((
        foreign_servers_in(path, &root, &mut notes, variable)?,
        notes,
    ))
}

/// The same of a file that was read before, or of a part of one.
///
/// # Errors
/// It has no place for servers. A mistake in a server leaves that server out.
pub fn foreign_servers_in(
    path: &Path,
    root: &Value,
    notes: &mut Vec<String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<ForeignServer>, Unreadable> {
    let at = |place: &&'static str| {
        let found = (place.split('/')).try_fold(root, |value, key| value.get(key))?;
        (found.is_object() || found.is_array()).then_some((*place, found))
    };
    let mut own = PLACES.iter().filter_map(at);
    let own = own.find(|(place, servers)| !named(place, servers).is_empty());
    let projects = root.get("projects").and_then(Value::as_object);
    let projects = projects.into_iter().flat_map(|projects| projects.values());
    let projects = projects.filter_map(|it| Some(("projects", it.get("mcpServers")?, it)));
    let own = own.map(|(place, servers)| (place, servers, root));
    let places: Vec<_> = own.into_iter().chain(projects).collect();
    if places.is_empty() && !PLACES.iter().any(|place| at(place).is_some()) {
        let places = PLACES.join(", ").replace('/', ".");
        let message = format!("the file lists no servers; looked for {places}");
        return Err(Unreadable { line: 1, message });
    }
    let mut beside = Vec::new();
    for file in choices::of_claude(path, variable("HOME")) {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        match value(&file, &text, &mut Vec::new()) {
            Ok(settings) => beside.push(choices::of_project(settings, path)),
            Err(error) => {
                let file = file.display();
                notes.push(format!("what {file} switches off is not known: {error}"));
            }
        }
    }
    let (mut servers, mut names) = (Vec::new(), BTreeMap::new());
    for (place, found, settings) in places {
        let settings: Vec<_> = beside.iter().chain([settings]).collect();
        let reader = entry::Reader::new(path, place, found, variable);
        for (written, value) in named(place, found) {
            let mut server = reader.server(written, value);
            choices::apply(path, &settings, written, &mut server);
            let name = server.name.clone();
            // Two projects can have the same server.
            if names.get(&name) == Some(&value) {
                continue;
            }
            // Other programs allow any character in names, so two names can become the same.
            if server.left_out.is_none() && names.insert(name, value).is_some() {
                let name = &server.name;
                let reason = format!("another server is called '{name}' here; rename one");
                server.left_out = Some(reason);
            }
            servers.push(server);
        }
    }
    Ok(servers)
}

/// The settings in another program's file, in the forms of [`foreign_servers`].
///
/// # Errors
/// It is none of these.
pub fn foreign_value(path: &Path, text: &str) -> Result<Value, Unreadable> {
    value(path, text, &mut Vec::new())
}

/// Whether a configuration is nothing but a file of another program, by its name.
#[must_use]
pub fn is_of_another_program(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str());
    matches!(kind, Some("json" | "jsonc" | "yaml" | "yml"))
}

/// The servers of an object by their keys, or of a list by their `name`.
fn named<'v>(place: &str, servers: &'v Value) -> Vec<(&'v str, &'v Value)> {
    let keyed = servers.as_object().into_iter().flatten();
    let keyed = keyed.filter(|(_, value)| !MIXED.contains(&place) || value.is_object());
    let listed = servers.as_array().into_iter().flatten();
    let name = |server: &'v Value| server.get("name").and_then(Value::as_str);
    let listed = listed.map(|server| (name(server).unwrap_or_default(), server));
    keyed
        .map(|(name, it)| (name.as_str(), it))
        .chain(listed)
        .collect()
}

fn value(path: &Path, text: &str, notes: &mut Vec<String>) -> Result<Value, Unreadable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
    let wrong = |line, kind, message: &str| {
        let message = format!("it is not {kind}: {message}");
        Unreadable { line, message }
    };
    match path.extension().and_then(|kind| kind.to_str()) {
        Some("toml") => {
            if let Some(key) = endless_key(text) {
                return Err(wrong(line(key.start), "TOML", "a key has too many dots"));
            }
            toml::from_str(text).map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                wrong(line(at), "TOML", error.message())
            })
        }
        Some("yaml" | "yml") => serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            wrong(line as usize, "YAML", "a key or a value is wrong here")
        }),
        _ => {
            let mut plain = text.to_owned();
            // Puts spaces in the place of comments and of commas before a closing bracket.
            _ = json_strip_comments::strip(&mut plain);
            let error = match Document::parse(&plain, Format::Json) {
                Ok(document) => return Ok(document.value().clone()),
                Err(error) => error,
            };
            let line = line(error.offset);
            // What the other program reads all the same, as a key that stands twice, is no reason to refuse the file.
            let value = serde_json::from_str(&plain);
            notes.extend(
                (value.is_ok()).then(|| format!("line {line}: {error}; the last one counts")),
            );
            value.map_err(|_| wrong(line, "JSON", error.message))
        }
    }
}

/// How to start one server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) read: ForeignServer,
    /// The server that it is, if it is a remote one.
    pub(crate) remote: Option<Remote>,
    pub(crate) place: Place,
}

/// The servers of a file, and remarks.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub(crate) servers: BTreeMap<String, Server>,
    /// Those that cannot be used.
    pub(crate) left_out: BTreeSet<String>,
    pub(crate) notes: Vec<String>,
}

/// Reads the file that a configuration names. Its lines are not shown: they may hold secrets in variables and headers, and
/// some programs write all on one line. What has no meaning here is noted, not refused: the file belongs to other programs,
/// and no key makes a rule less restrictive.
pub(crate) fn servers(file: &File, sink: &Sink) -> Servers {
    let mut all = Servers::default();
    let at = |line| Place {
        file: file.path.clone(),
        line,
    };
    let look = |name: &str| std::env::var(name).ok();
    let (servers, notes) = match foreign_servers(&file.path, &file.text, &look) {
        Ok(read) => read,
        Err(Unreadable { line, message }) => {
            let help = "this must be {\"mcpServers\": {\"NAME\": {\"command\": \"…\", \"args\": []}}}, or a file of another program";
            sink.line(&at(line), &message, help);
            return all;
        }
    };
    // Names in the file may have characters that write to a terminal.
    let note = |text: String| format!("mcpServers: {}", escape(&text));
    all.notes.extend(notes.into_iter().map(note));
    for mut read in servers {
        let name = read.name.clone();
        let notes = std::mem::take(&mut read.notes).into_iter();
        (all.notes).extend(notes.map(|text| note(format!("{name}: {text}"))));
        let remote = match read.left_out.take() {
            Some(reason) => Err(reason),
            None => read
                .url
                .as_deref()
                .map(|url| remote(url, &read))
                .transpose(),
        };
        match remote {
            Ok(remote) => {
                let key = file.text.find(&format!("\"{name}\"")).unwrap_or(0);
                let place = file.place(key);
                _ = all.servers.insert(
                    name,
                    Server {
                        read,
                        remote,
                        place,
                    },
                );
            }
            Err(reason) => {
                all.notes
                    .push(note(format!("{name} is left out: {reason}")));
                all.left_out.insert(name);
            }
        }
    }
    all
}

fn remote(url: &str, read: &ForeignServer) -> Result<Remote, String> {
    let why = |why| format!("its url is not the address of a server that can be asked: {why}");
    let at = Remote::at(url).map_err(why)?;
    let wrong = RefCell::new(None);
    let refuse = |message, help: &str| _ = wrong.replace(Some(format!("{message}; {help}")));
    let headers = read.headers.iter().map(|(name, value)| (&**name, &**value));
    // Files of other programs may hold secrets literally.
    let headers = read_headers(headers, true, refuse);
    wrong.take().map_or(Ok(Remote { headers, ..at }), Err)
}

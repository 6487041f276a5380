//! `mcpServers` files, as other programs write them.

use std::collections::BTreeMap;
use std::ops::Range;

use policy::Place;
use policy::formats::{Document, Format, ParseError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::app_name;
use crate::diagnostics::{File, Sink};
use crate::grants::anchor;
use crate::remote::{Remote, read_headers};

/// How to start one server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) command: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// The server that it is, if it is a remote one.
    pub(crate) remote: Option<Remote>,
    pub(crate) place: Place,
}

/// The servers of a file, and remarks.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub(crate) servers: BTreeMap<String, Server>,
    pub(crate) notes: Vec<String>,
}

/// Reads a file. Its lines are not shown: they may hold secrets in variables and headers, and some programs write all on
/// one line. An unknown key is noted, not refused: the file belongs to other programs, and no key makes a rule less
/// restrictive.
pub(crate) fn servers(file: &File, sink: &Sink) -> Servers {
    let mut servers = Servers::default();
    let example = "{\"mcpServers\": {\"NAME\": {\"command\": \"…\", \"args\": []}}}";
    let refuse = |error: ParseError| {
        let span = error.offset..error.offset + 1;
        sink.unquoted(
            file,
            &span,
            error.message,
            format!("this must be {example}"),
        );
    };
    let Ok(document) = Document::parse(&file.text, Format::Json).map_err(refuse) else {
        return servers;
    };
    let Ok(values) = document.values().map_err(refuse) else {
        return servers;
    };
    // The first node is the document itself.
    let root = members(&document, &values, 0);
    let all = root.into_iter().find(|member| member.name == "mcpServers");
    let Some(all) = all.filter(|all| all.value.is_object()) else {
        let message = "there is no object 'mcpServers' in this file";
        sink.unquoted(file, &(0..1), message, format!("add {example}"));
        return servers;
    };
    for server in members(&document, &values, all.at) {
        Reader { file, sink, server }.read(&mut servers);
    }
    servers
}

/// An entry of an object.
struct Member<'a> {
    name: String,
    /// The number of the value's node.
    at: usize,
    key: Range<usize>,
    value: &'a Value,
}

/// The entries of a node, in order.
fn members<'a>(document: &Document<'_>, values: &[&'a Value], at: usize) -> Vec<Member<'a>> {
    let nodes = document.nodes();
    let end = nodes.get(at).map_or(at, |node| node.end);
    let mut members = Vec::new();
    let mut next = at + 1;
    while next < end {
        let (Some(node), Some(value)) = (nodes.get(next), values.get(next)) else {
            break;
        };
        if let Some(key) = &node.key {
            members.push(Member {
                name: document.name(key).to_owned(),
                at: next,
                key: key.span.clone(),
                value,
            });
        }
        // Skips everything inside of this entry.
        next = node.end;
    }
    members
}

struct Reader<'a> {
    file: &'a File,
    sink: &'a Sink,
    server: Member<'a>,
}

impl Reader<'_> {
    fn read(&self, servers: &mut Servers) {
        let name = &self.server.name;
        let Some(entry) = self.server.value.as_object() else {
            let help = "write an object with a command";
            self.wrong(format!("'{name}' is not an object with a command"), help);
            return;
        };
        if self.get(entry, "disabled", "true or false") {
            let note = format!("mcpServers: '{name}' is disabled and left out");
            servers.notes.push(note);
            return;
        }
        // Most programs write `url`, Gemini `httpUrl` for streamable HTTP, Windsurf `serverUrl`.
        let addresses = ["url", "httpUrl", "serverUrl"];
        let address = addresses.iter().find(|key| entry.contains_key(**key));
        let known: &[&str] = match address {
            Some(_) => &["url", "httpUrl", "serverUrl", "headers", "disabled", "type"],
            None => &["command", "args", "env", "disabled", "type"],
        };
        for other in entry.keys().filter(|key| !known.contains(&key.as_str())) {
            let note = format!("mcpServers: '{other}' of '{name}' has no meaning here");
            servers.notes.push(note);
        }
        let (mut command, mut env, mut remote) = (Vec::new(), BTreeMap::new(), None);
        if let Some(key) = address {
            remote = self.remote(entry, key);
            if remote.is_none() {
                return;
            }
        } else if entry.contains_key("command") {
            command.push(self.get(entry, "command", "a string"));
            anchor(&mut command, self.file);
            command.extend(self.get::<Vec<String>>(entry, "args", "an array of strings"));
            env = self.get(entry, "env", "an object of strings");
        } else {
            let help = "give it one, remove it, or set \"disabled\": true";
            self.wrong(
                format!("the server '{name}' has no command and no url"),
                help,
            );
            return;
        }
        let server = Server {
            command,
            env,
            remote,
            place: self.file.place(self.server.key.start),
        };
        self.insert(server, servers);
    }

    fn insert(&self, server: Server, servers: &mut Servers) {
        // Other programs allow any character in names. Two names that become the same are refused below.
        let keep = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let written = &self.server.name;
        let name: String = written
            .chars()
            .map(|c| if keep(c) { c } else { '-' })
            .collect();
        if name != *written {
            let note = format!("mcpServers: '{written}' is called '{name}' here");
            servers.notes.push(note);
        }
        if let Some(remedy) = app_name::remedy(&name) {
            self.wrong(format!("'{name}' is no name for an app"), remedy);
        } else if servers.servers.insert(name.clone(), server).is_some() {
            let help = "give each a name of letters, digits, '-' and '_'";
            self.wrong(format!("two servers are called '{name}' here"), help);
        }
    }

    fn remote(&self, entry: &Map<String, Value>, key: &str) -> Option<Remote> {
        let refuse = |message: String, help: &str| {
            self.wrong(message, &format!("{help}; or set \"disabled\": true"));
        };
        let address: String = self.get(entry, key, "a string");
        match Remote::at(&address) {
            Ok(mut remote) => {
                let headers: BTreeMap<String, String> =
                    self.get(entry, "headers", "an object of strings");
                let headers = headers.iter().map(|(name, value)| (&**name, &**value));
                // Files of other programs may hold secrets literally.
                remote.headers = read_headers(headers, true, refuse);
                Some(remote)
            }
            Err(why) => {
                let message = format!("'{key}' is not the address of a server that can be asked");
                refuse(message, &why);
                None
            }
        }
    }

    /// The value of a key, or the default if it is missing or of another type; the latter is reported.
    fn get<T: DeserializeOwned + Default>(
        &self,
        entry: &Map<String, Value>,
        key: &str,
        right: &str,
    ) -> T {
        let Some(value) = entry.get(key) else {
            return T::default();
        };
        serde_json::from_value(value.clone()).unwrap_or_else(|_| {
            let message = format!("'{key}' of '{}' is not {right}", self.server.name);
            self.wrong(message, &format!("write {right}"));
            T::default()
        })
    }

    fn wrong(&self, message: String, help: &str) {
        self.sink
            .unquoted(self.file, &self.server.key, message, help);
    }
}

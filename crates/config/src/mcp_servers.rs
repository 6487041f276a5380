//! `mcpServers` files, as other programs write them.

use std::collections::BTreeMap;
use std::ops::Range;

use policy::Place;
use policy::formats::{Document, Format, Node, ParseError};
use serde_json::Value;

use crate::app_name;
use crate::diagnostics::{File, Sink};
use crate::grants::anchor;
use crate::remote::{Header, Remote, header_name};

/// How to start one server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) command: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// The server that it is, if it is not started here.
    pub(crate) remote: Option<Remote>,
    pub(crate) place: Place,
}

/// The servers of a file, and remarks.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub(crate) servers: BTreeMap<String, Server>,
    pub(crate) notes: Vec<String>,
}

/// Reads a file. Its lines are not shown: they hold the variables and headers of servers, and some programs write all on one
/// line. What has no meaning here is noted, not refused: the file belongs to other programs,
/// and nothing in it can make anything less restrictive.
pub(crate) fn servers(file: &File, sink: &Sink) -> Servers {
    let mut servers = Servers::default();
    let refuse = |error: ParseError| {
        let help = "this must be {\"mcpServers\": {\"NAME\": {\"command\": \"…\", \"args\": []}}}";
        sink.unquoted(file, &(error.offset..error.offset + 1), error.message, help);
    };
    let Ok(document) = Document::parse(&file.text, Format::Json).map_err(refuse) else {
        return servers;
    };
    let Ok(values) = document.values().map_err(refuse) else {
        return servers;
    };
    let reader = Reader {
        file,
        sink,
        document: &document,
        values,
    };
    let found = reader
        // The first node is the document as a whole.
        .members(0)
        .into_iter()
        .find(|m| m.name == "mcpServers");
    match found {
        Some(found) if reader.is_object(found.at) => reader.read(found.at, &mut servers),
        Some(found) => reader.wrong(&found, "an object of servers"),
        None => sink.unquoted(
            file,
            &(0..1),
            "there is no 'mcpServers' here",
            "add {\"mcpServers\": {…}}",
        ),
    }
    servers
}

struct Reader<'a> {
    file: &'a File,
    sink: &'a Sink,
    document: &'a Document<'a>,
    values: Vec<&'a Value>,
}

struct Member<'a> {
    name: String,
    /// The number of the value's node.
    at: usize,
    node: &'a Node,
    key: Range<usize>,
    value: &'a Value,
}

impl Reader<'_> {
    fn read(&self, at: usize, servers: &mut Servers) {
        for server in self.members(at) {
            if !self.is_object(server.at) {
                self.wrong(&server, "an object with a command");
                continue;
            }
            let fields = self.members(server.at);
            let field = |name: &str| fields.iter().find(|field| field.name == name);
            let disabled = field("disabled");
            if let Some(disabled) = disabled.filter(|field| !field.value.is_boolean()) {
                // "true" in quotes is meant as a yes: the server must not start because it is no boolean.
                self.wrong(disabled, "true or false");
                continue;
            }
            if disabled.is_some_and(|field| field.value == &Value::Bool(true)) {
                let note = format!("mcpServers: '{}' is disabled and left out", server.name);
                servers.notes.push(note);
                continue;
            }
            // Where programs write the address: most of them, Gemini's for streamable HTTP, Windsurf.
            let address = ["url", "httpUrl", "serverUrl"]
                .iter()
                .find_map(|key| field(key));
            let known: &[&str] = match address {
                Some(_) => &["url", "httpUrl", "serverUrl", "headers", "disabled", "type"],
                None => &["command", "args", "env", "disabled", "type"],
            };
            for other in &fields {
                if !known.contains(&other.name.as_str()) {
                    let note = format!(
                        "mcpServers: '{}' of '{}' has no meaning here",
                        other.name, server.name
                    );
                    servers.notes.push(note);
                }
            }
            if let Some(address) = address {
                if let Some(remote) = self.remote(address, field("headers")) {
                    self.insert(&server, Vec::new(), BTreeMap::new(), Some(remote), servers);
                }
                continue;
            }
            let Some(program) = field("command") else {
                let message = format!("the server '{}' has no command and no url", server.name);
                let help = "give it one, remove it, or set \"disabled\": true";
                self.sink.unquoted(self.file, &server.key, message, help);
                continue;
            };
            let mut command: Vec<String> = self.string(program).into_iter().collect();
            anchor(&mut command, self.file);
            command.extend(
                field("args")
                    .map(|args| self.strings(args))
                    .unwrap_or_default(),
            );
            let env = field("env")
                .map(|env| self.environment(env))
                .unwrap_or_default();
            self.insert(&server, command, env, None, servers);
        }
    }

    fn insert(
        &self,
        server: &Member<'_>,
        command: Vec<String>,
        env: BTreeMap<String, String>,
        remote: Option<Remote>,
        servers: &mut Servers,
    ) {
        // Other programs take names of any characters. Two that become the same name are refused below.
        let keep = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name: String = server
            .name
            .chars()
            .map(|c| if keep(c) { c } else { '-' })
            .collect();
        if name != server.name {
            let note = format!("mcpServers: '{}' is called '{name}' here", server.name);
            servers.notes.push(note);
        }
        let place = self.file.place(server.key.start);
        let entry = Server {
            command,
            env,
            remote,
            place,
        };
        if let Some(remedy) = app_name::remedy(&name) {
            let message = format!("'{name}' is no name for an app");
            self.sink.unquoted(self.file, &server.key, message, remedy);
        } else if servers.servers.insert(name.clone(), entry).is_some() {
            let message = format!("two servers are called '{name}' here");
            let help = "give each a name of letters, digits, '-' and '_'";
            self.sink.unquoted(self.file, &server.key, message, help);
        }
    }

    /// A server that is not started here.
    fn remote(&self, address: &Member<'_>, headers: Option<&Member<'_>>) -> Option<Remote> {
        let refuse = |member: &Member<'_>, message: String, help: &str| {
            let help = format!("{help}; or set \"disabled\": true");
            self.sink
                .unquoted(self.file, &member.node.span, message, help);
        };
        let text = self.string(address)?;
        let remote = Remote::at(&text).map_err(|why| {
            let message = format!(
                "'{}' is no address of a server that can be asked",
                address.name
            );
            refuse(address, message, &why);
        });
        let mut remote = remote.ok()?;
        for (name, value) in headers.map(|all| self.environment(all)).unwrap_or_default() {
            match (header_name(&name), Header::read(&value)) {
                (Ok(known), Ok(header)) => {
                    // Two names that differ in case are one header, and one of the two would be lost.
                    if remote.headers.insert(known, header).is_some() {
                        let message = format!("the header '{name}' stands there twice");
                        refuse(address, message, "leave one out");
                    }
                }
                (Err(why), _) => refuse(address, format!("the header '{name}' {why}"), "remove it"),
                (_, Err(why)) => {
                    refuse(address, format!("the header '{name}' cannot be sent"), why)
                }
            }
        }
        Some(remote)
    }

    fn is_object(&self, at: usize) -> bool {
        self.values.get(at).is_some_and(|value| value.is_object())
    }

    /// The values directly inside a container, with their keys; items of an array have empty names.
    fn members(&self, at: usize) -> Vec<Member<'_>> {
        let nodes = self.document.nodes();
        let end = nodes.get(at).map_or(at, |node| node.end);
        let mut members = Vec::new();
        let mut next = at + 1;
        while next < end {
            let (Some(node), Some(value)) = (nodes.get(next), self.values.get(next)) else {
                break;
            };
            let key = node.key.as_ref();
            let name = key.map(|key| self.document.name(key));
            members.push(Member {
                name: name.unwrap_or_default().to_owned(),
                at: next,
                node,
                key: key.map_or(node.span.clone(), |key| key.span.clone()),
                value,
            });
            // Skips all that is inside of this member.
            next = node.end;
        }
        members
    }

    fn string(&self, member: &Member<'_>) -> Option<String> {
        if member.value.is_string() {
            return member.value.as_str().map(str::to_owned);
        }
        self.wrong(member, "a string");
        None
    }

    fn strings(&self, member: &Member<'_>) -> Vec<String> {
        if !member.value.is_array() {
            self.wrong(member, "an array of strings");
            return Vec::new();
        }
        let items = self.members(member.at);
        items.iter().filter_map(|item| self.string(item)).collect()
    }

    fn environment(&self, member: &Member<'_>) -> BTreeMap<String, String> {
        if !member.value.is_object() {
            self.wrong(member, "an object of strings");
            return BTreeMap::new();
        }
        let variables = self.members(member.at);
        variables
            .into_iter()
            .filter_map(|variable| Some((variable.name.clone(), self.string(&variable)?)))
            .collect()
    }

    fn wrong(&self, member: &Member<'_>, right: &str) {
        let message = format!("'{}' is not {right}", member.name);
        let help = format!("write {right}");
        self.sink
            .unquoted(self.file, &member.node.span, message, help);
    }
}

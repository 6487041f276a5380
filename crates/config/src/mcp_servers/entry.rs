//! One server of another program's file: what each of its members means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use wire::ToolFilter;

use crate::app_name;
use crate::template::{Piece, filled_in, from_environment, is_name, pieces};

// The names that programs have for the same thing. Where one has two, the first one wins.
const PROGRAM: &str = "command cmd"; // OpenCode: a list with the arguments; Zed once: an object; Goose: cmd
const ARGUMENTS: &str = "args arguments";
const FOLDER: &str = "cwd working_directory workingDirectory";
const VARIABLES: &str = "env environment envs"; // OpenCode: environment; Goose: envs
const VARIABLE_NAMES: &str = "env_vars env_keys"; // Codex; Goose, which keeps the values in its keyring
const ADDRESS: &str = "httpUrl url serverUrl uri"; // Gemini for streamable HTTP; Windsurf; Goose
const HEADERS: &str = "headers http_headers"; // Codex: http_headers
const HEADER_VARIABLES: &str = "env_http_headers"; // Codex
const ENV_FILE: &str = "envFile env_file"; // VS Code, Cursor
const BEARER: &str = "bearer_token_env_var"; // Codex
const TRANSPORT: &str = "type transport transportType";
const START: &str = "startup_timeout_sec startup_timeout_ms"; // Codex
const CALL: &str = "tool_timeout_sec timeout";
const ONLY_TOOLS: &str = "enabled_tools includeTools available_tools tools"; // Codex; Gemini, Amp; Goose; Copilot
const HIDDEN_TOOLS: &str = "disabled_tools excludeTools disabledTools"; // Codex, Crush; Gemini; Cline, Windsurf
/// Members that lose nothing when they are dropped.
const WORDS: &str =
    "name display_name description source bundled gallery version dev required alwaysLoad";

/// Members that are not carried over, and what takes their place.
const LOST: [(&str, &str); 2] = [
    (
        "trust autoApprove alwaysAllow default_tools_approval_mode",
        "the rules in sluice.toml decide about calls",
    ),
    (
        "oauth scopes authProviderType",
        "log in with `sluice app login NAME --url URL`",
    ),
];
/// Longest file of variables.
const MAX_ENV_FILE_BYTES: u64 = 64 << 10;

/// The types of servers that are elsewhere.
const REMOTE: &str = "http sse remote streamable-http streamable_http streamableHttp";

/// A server of another program's file.
#[derive(Debug, Clone, Default)]
pub struct ForeignServer {
    /// Its name, in letters that the name of an app can have.
    pub name: String,
    /// Program and arguments, with the values of variables and with absolute paths; empty for a remote server.
    pub command: Vec<String>,
    /// The address of a remote server.
    pub url: Option<String>,
    /// The headers of every request to it, with variables as `${NAME}`.
    pub headers: BTreeMap<String, String>,
    /// Variables with their values, which may be secrets.
    pub env: BTreeMap<String, String>,
    /// The variables of its entry as they are written there.
    pub written: BTreeMap<String, String>,
    /// Variables with values of the user's environment, as in [`App::env_from`](crate::App::env_from).
    pub env_from: Vec<String>,
    /// The user's variables whose values are in the command or the address.
    pub filled_in: BTreeSet<String>,
    /// Services on this machine that it may connect to, as in `connect`. No such file has them: the user gives them.
    pub connect: Vec<String>,
    /// Variables that are set where Sluice is started, and not before: another program keeps their values.
    pub given: BTreeSet<String>,
    /// Which of its tools are used.
    pub filter: ToolFilter,
    /// Seconds for its start; 0 if the file does not say.
    pub start_timeout_s: u64,
    /// Seconds for a call; 0 if the file does not say.
    pub call_timeout_s: u64,
    /// What is not carried over, and what has changed.
    pub notes: Vec<String>,
    /// Why it cannot be used.
    pub left_out: Option<String>,
    /// Whether the other program does not start it as a program either.
    pub is_disabled: bool,
}

impl ForeignServer {
    /// The names of its variables.
    fn variable_names(&self) -> impl Iterator<Item = &str> {
        let own = self.env_from.iter().map(|entry| from_environment(entry).0);
        self.env.keys().map(String::as_str).chain(own)
    }

    /// The user's variables whose values it gets, those of `env_from` as they are written there.
    pub fn variables(&self) -> BTreeSet<String> {
        let headers = self
            .headers
            .values()
            .flat_map(|value| pieces(value).unwrap_or_default());
        let headers = headers.filter_map(|piece| match piece {
            Piece::Variable(name, _) => Some(name),
            _ => None,
        });
        let own = self.env_from.iter().chain(&self.filled_in).cloned();
        own.chain(headers).collect()
    }
}

/// Reads the servers of one place of a file.
pub(super) struct Reader<'a> {
    /// The folder that the file is about.
    folder: PathBuf,
    place: &'static str,
    /// Whether the program fills in `$NAME` as well as `${NAME}`.
    is_shell_like: bool,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        path: &Path,
        place: &'static str,
        servers: &Value,
        variable: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = std::path::absolute(folder).unwrap_or(folder.to_owned());
        let is_in = |name| folder.ends_with(name);
        // Gemini alone. Its servers have members that no others have.
        let of_gemini = ["httpUrl", "includeTools", "excludeTools", "trust"];
        let mut entries = servers.as_object().into_iter().flat_map(Map::values);
        let has_its = |entry: &Value| of_gemini.iter().any(|name| entry.get(name).is_some());
        let is_shell_like = is_in(".gemini") || entries.any(has_its);
        // A file in `.vscode` or `.cursor` is about the folder around it.
        let is_hidden = folder
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let around = folder.parent().filter(|_| is_hidden).map(Path::to_owned);
        Self {
            folder: around.unwrap_or(folder),
            place,
            is_shell_like,
            variable,
        }
    }

    pub(super) fn server(&self, written: &str, value: &Value) -> ForeignServer {
        let keep = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name = written.chars().map(|c| if keep(c) { c } else { '-' });
        let mut server = ForeignServer {
            name: name.collect(),
            ..ForeignServer::default()
        };
        if server.name != written {
            let note = format!("'{written}' is called '{}' here", server.name);
            server.notes.push(note);
        }
        let mut entry = value.as_object().cloned().unwrap_or_default();
        entry.retain(|_, value| !value.is_null());
        server.left_out = self.read(&mut entry, &mut server).err();
        let of_use = entry.iter().filter(|_| server.left_out.is_none());
        for (member, value) in of_use {
            let lost = LOST.iter().find(|(names, _)| has(names, member));
            let all = |list: &Vec<Value>| list.iter().all(|it| it == "*");
            let is_empty = *value == false || value.as_array().is_some_and(all);
            server.notes.extend(match lost {
                _ if has(WORDS, member) => None,
                Some(_) if is_empty => None,
                Some((_, instead)) => Some(format!("'{member}' is not carried over; {instead}")),
                None => Some(format!("'{member}' has no meaning here")),
            });
        }
        server
    }

    /// Takes what it understands out of an entry. The error says why the server cannot be used.
    fn read(
        &self,
        entry: &mut Map<String, Value>,
        server: &mut ForeignServer,
    ) -> Result<(), String> {
        // Anything but true or false may be meant to switch the server off.
        let is_disabled = entry.remove("disabled").unwrap_or(Value::Bool(false));
        let is_enabled = entry.remove("enabled").unwrap_or(Value::Bool(true));
        match (is_disabled.as_bool(), is_enabled.as_bool()) {
            (Some(false), Some(true)) => {}
            (None, _) => return Err("'disabled' is neither true nor false".to_owned()),
            (_, None) => return Err("'enabled' is neither true nor false".to_owned()),
            _ => {
                server.is_disabled = true;
                return Err("it is disabled".to_owned());
            }
        }
        if let Some(remedy) = app_name::remedy(&server.name) {
            return Err(format!("no app can be called '{}'; {remedy}", server.name));
        }
        // Zed once wrote the whole command as an object, and Continue the transport.
        for outer in ["command", "transport"] {
            if let Some(Value::Object(mut inner)) = entry.get(outer).cloned() {
                entry.remove(outer);
                let path = inner
                    .remove("path")
                    .map(|path| ("command".to_owned(), path));
                entry.extend(inner.into_iter().chain(path));
            }
        }
        let transport = text(entry, TRANSPORT)?.unwrap_or_default();
        let url = text(entry, ADDRESS)?;
        let is_remote = url.is_some() && has(REMOTE, &transport);
        let seconds = |member: Option<(&str, Value)>| {
            let number = member.and_then(|(_, it)| it.as_f64()).unwrap_or(0.0);
            // Goose means seconds, most others milliseconds: a start or a call of less than a second is not meant.
            let is_seconds = self.place == "extensions" || number < 1_000.0;
            let seconds = number / if is_seconds { 1.0 } else { 1_000.0 };
            let time = Duration::try_from_secs_f64(seconds.ceil()).unwrap_or_default();
            // The most that a configuration allows is an hour.
            time.as_secs().min(3_600)
        };
        self.tools(entry, server)?;
        server.start_timeout_s = seconds(take(entry, START));
        server.call_timeout_s = seconds(take(entry, CALL));
        match take(entry, PROGRAM).filter(|_| !is_remote) {
            Some((_, program)) => self.local(&program, entry, server),
            None => {
                let builtin = ["builtin", "platform", "frontend", "inline_python"];
                if self.place == "extensions" && builtin.contains(&&*transport) {
                    server.is_disabled = true;
                    return Err(format!("its type '{transport}' is a part of Goose"));
                }
                let url = url.ok_or("it has no command and no url")?;
                self.remote(&url, entry, server)
            }
        }
    }

    /// Which of its tools are used. A server whose list cannot be read is left out, since that list may hide any tool.
    fn tools(
        &self,
        entry: &mut Map<String, Value>,
        server: &mut ForeignServer,
    ) -> Result<(), String> {
        while let Some((member, names)) = take_one(entry, HIDDEN_TOOLS) {
            let hidden = tool_names(member, names, server)?;
            server.filter.hidden.extend(hidden);
        }
        while let Some((member, names)) = take_one(entry, ONLY_TOOLS) {
            // Some programs write which tools are on and off.
            if let Value::Object(all) = names {
                let off = all.iter().filter(|(_, is_on)| **is_on == false);
                let off = off.map(|(name, _)| Value::from(name.as_str())).collect();
                let hidden = tool_names(member, off, server)?;
                server.filter.hidden.extend(hidden);
                if !all.values().all(Value::is_boolean) {
                    server.notes.push(format!(
                        "'{member}' says more than which tools are used, which is not carried over; the rules in sluice.toml \
                         decide about calls"
                    ));
                }
                continue;
            }
            let only = tool_names(member, names, server)?;
            // In Goose an empty list is no list.
            let is_all = only.iter().any(|name| name == "*");
            if is_all || self.place == "extensions" && only.is_empty() {
                continue;
            }
            let before = server.filter.only.take();
            server.filter.only = Some(match before {
                None => only,
                Some(before) => only.into_iter().filter(|it| before.contains(it)).collect(),
            });
        }
        Ok(())
    }

    fn remote(
        &self,
        url: &str,
        entry: &mut Map<String, Value>,
        server: &mut ForeignServer,
    ) -> Result<(), String> {
        server.url = Some(self.filled("url", url, server)?);
        for (name, value) in words(entry, HEADERS, "header", server)? {
            server.headers.insert(name, self.plain(&value));
        }
        for (name, variable) in words(entry, HEADER_VARIABLES, "header", server)? {
            server.headers.insert(name, format!("${{{variable}}}"));
        }
        if let Some(variable) = text(entry, BEARER)? {
            let value = format!("Bearer ${{{variable}}}");
            server.headers.insert("Authorization".to_owned(), value);
        }
        Ok(())
    }

    fn local(
        &self,
        program: &Value,
        entry: &mut Map<String, Value>,
        server: &mut ForeignServer,
    ) -> Result<(), String> {
        for (name, value) in words(entry, VARIABLES, "variable", server)? {
            server.written.insert(name.clone(), value.clone());
            self.variable_of(name, &value, server);
        }
        if let Some(path) = text(entry, ENV_FILE)? {
            let path = self.folder.join(self.filled("envFile", &path, server)?);
            let read = self.env_file(&path).unwrap_or_else(|why| {
                let path = path.display();
                let note = format!("the file of variables {path} is not read, because {why}");
                server
                    .notes
                    .push(note + "; export each variable and name it in 'env_from'");
                Vec::new()
            });
            let before: BTreeSet<String> = server.variable_names().map(str::to_owned).collect();
            for (name, value) in read.into_iter().filter(|(it, _)| !before.contains(it)) {
                self.variable_of(name, &value, server);
            }
        }
        let names = take(entry, VARIABLE_NAMES);
        let names = names
            .iter()
            .filter_map(|(_, names)| names.as_array())
            .flatten();
        // Codex: a name, or an object with one.
        let names = names.filter_map(|name| name.get("name").unwrap_or(name).as_str());
        server
            .env_from
            .extend(names.filter(|name| is_name(name)).map(str::to_owned));
        let mut folder = self.folder.clone();
        let own_folder = text(entry, FOLDER)?;
        if let Some(own) = &own_folder {
            folder.push(self.filled("cwd", own, server)?);
            let gone = (!folder.is_dir()).then_some(", which is not there");
            server.notes.push(format!(
                "it starts in a scratch folder; relative paths of its command start from {}{}",
                folder.display(),
                gone.unwrap_or_default()
            ));
        }
        let mut words = match program {
            Value::Array(words) => words.clone(),
            // Some programs take a line for the command.
            Value::String(line) if !entry.contains_key("args") && is_line(line) => {
                line.split_whitespace().map(Value::from).collect()
            }
            one => vec![one.clone()],
        };
        match take(entry, ARGUMENTS) {
            None => {}
            Some((_, Value::Array(more))) => words.extend(more),
            Some((name, _)) => return Err(format!("'{name}' is not a list of words")),
        }
        let words: Option<Vec<String>> = words.iter().map(word).collect();
        let no_word = "its command or a word of 'args' is neither text nor a number";
        for word in words.ok_or(no_word)? {
            let word = self.filled("command", &word, server)?;
            let is_program = server.command.is_empty();
            server.command.push(match is_program {
                true if word.contains('/') => folder.join(&word).to_string_lossy().into_owned(),
                true => word.clone(),
                false if leads_over_link(&word, &folder) => {
                    let what = "leads over a link, which an app may have made, and is not followed; write where it leads";
                    server.notes.push(format!("{word} {what}"));
                    word.clone()
                }
                false => anchored(&word, &folder),
            });
            let mut paths = ["./", "../", "/"].iter();
            let is_path = paths.any(|start| word.starts_with(start)) && !is_program;
            let path = folder.join(&word);
            if is_path && !path.exists() {
                (server.notes).push(format!("there is no file or folder {}", path.display()));
            }
        }
        let program = server
            .command
            .first()
            .ok_or("it has no command and no url")?;
        match program.rsplit('/').next() {
            Some("docker") => Err("this server needs Docker's socket, which would undo the sandbox; run the image's command instead".to_owned()),
            Some("sh" | "bash" | "zsh") if server.command.iter().any(|word| word == "-c") => {
                let note = "files that its shell command names are not found; mount them, or name its program as 'command'";
                server.notes.push(note.to_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The variables of a file. One outside of the folder may hold the secrets of another program.
    fn env_file(&self, path: &Path) -> Result<Vec<(String, String)>, String> {
        let end = path.canonicalize().map_err(|error| error.to_string())?;
        let folder = self.folder.canonicalize();
        if !folder.is_ok_and(|folder| end.starts_with(folder)) {
            return Err(format!("it is outside of {}", self.folder.display()));
        }
        let size = end.metadata().map_err(|error| error.to_string())?;
        if !size.is_file() || size.len() > MAX_ENV_FILE_BYTES {
            return Err(format!(
                "it is no file of at most {MAX_ENV_FILE_BYTES} bytes"
            ));
        }
        let text = std::fs::read_to_string(end).map_err(|error| error.to_string())?;
        let variable = |line: &str| {
            let line = line.trim().strip_prefix("export ").unwrap_or(line.trim());
            let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
            let value = value.trim();
            let quoted = |quote| value.strip_prefix(quote)?.split_once(quote);
            let value = match quoted('"').or_else(|| quoted('\'')) {
                Some((inside, _)) => inside,
                None => value.split(" #").next()?.trim_end(),
            };
            Some((name.trim().to_owned(), value.to_owned()))
        };
        Ok(text.lines().filter_map(variable).collect())
    }

    /// A variable of the server. One with references is filled in at each start.
    fn variable_of(&self, name: String, value: &str, server: &mut ForeignServer) {
        let value = self.plain(value);
        let pieces = pieces(&value).unwrap_or_default();
        if !is_name(&name) {
            server.notes.push(format!(
                "the variable '{name}' is left out, because its name is not one of letters, digits and _"
            ));
        } else if let Some(other) = pieces.iter().find(|it| matches!(it, Piece::Foreign(_))) {
            server.notes.push(format!(
                "the variable {name} {other}; export {name} before you start Sluice"
            ));
            server.env_from.push(name);
        } else if value == format!("${{{name}}}") {
            server.env_from.push(name);
        } else if pieces.iter().any(|it| matches!(it, Piece::Variable(..))) {
            server.env_from.push(format!("{name}={value}"));
        } else {
            server.env.insert(name, value);
        }
    }

    /// A text with the values of its variables.
    fn filled(&self, part: &str, text: &str, server: &mut ForeignServer) -> Result<String, String> {
        let text = self.plain(text);
        let names = pieces(&text).unwrap_or_default().into_iter();
        server
            .filled_in
            .extend(names.filter_map(|piece| match piece {
                Piece::Variable(name, _) => (self.variable)(&name).map(|_| name),
                _ => None,
            }));
        filled_in(&text, self.variable).map_err(|missing| format!("its {part} {missing}"))
    }

    /// A text in which each reference to a variable has the form `${NAME}`, and folders of the user have their paths.
    fn plain(&self, text: &str) -> String {
        let home = (self.variable)("HOME").unwrap_or("~".to_owned());
        let mut text = with_home(text, &home);
        let folder = self.folder.to_string_lossy();
        for (written, meant) in [
            ("${workspaceFolder}", &*folder),
            ("${workspaceRoot}", &*folder),
            ("${userHome}", &*home),
            ("${pathSeparator}", "/"),
            ("${/}", "/"),
            ("${env:", "${"),
            // OpenCode.
            ("{env:", "${"),
        ] {
            text = text.replace(written, meant);
        }
        if !self.is_shell_like {
            return text;
        }
        let mut parts = text.split('$');
        let mut plain = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let rest = part.trim_start_matches(is_part);
            plain += &match part.strip_suffix(rest).unwrap_or_default() {
                "" => format!("${part}"),
                name => format!("${{{name}}}{rest}"),
            };
        }
        plain
    }
}

/// Whether a command is a line of several words. Quotes would need a shell.
fn is_line(command: &str) -> bool {
    command.contains(' ')
        && !command.contains(['"', '\'', '\\', '$'])
        && !Path::new(command).exists()
}

fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|one| one == name)
}

/// Removes these members, and returns the first of them.
fn take<'n>(entry: &mut Map<String, Value>, names: &'n str) -> Option<(&'n str, Value)> {
    let found = names
        .split(' ')
        .map(|name| Some((name, entry.remove(name)?)));
    found.fold(None, Option::or)
}

/// Removes the first of these members that is there.
fn take_one<'n>(entry: &mut Map<String, Value>, names: &'n str) -> Option<(&'n str, Value)> {
    let mut names = names.split(' ');
    names.find_map(|name| Some((name, entry.remove(name)?)))
}

/// The names of tools in a list.
fn tool_names(
    member: &str,
    names: Value,
    server: &mut ForeignServer,
) -> Result<Vec<String>, String> {
    let mut read = Vec::new();
    for name in names.as_array().into_iter().flatten() {
        // Gemini allows `NAME(ARGUMENTS)`.
        let name = name.as_str().and_then(|name| name.split('(').next());
        match name.map(str::trim) {
            Some(name) if ToolFilter::is_pattern(name) => read.push(name.to_owned()),
            name => server.notes.push(format!(
                "'{member}' has '{}', which can be the name of no tool",
                name.unwrap_or("a value that is no text")
            )),
        }
    }
    match names.is_array() {
        true => Ok(read),
        false => Err(format!("'{member}' is not a list of names of tools")),
    }
}

fn text(entry: &mut Map<String, Value>, names: &str) -> Result<Option<String>, String> {
    match take(entry, names) {
        None => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text)),
        Some((name, _)) => Err(format!("'{name}' is not a string")),
    }
}

/// The members of an object that are words. What is none is noted.
fn words(
    entry: &mut Map<String, Value>,
    names: &str,
    kind: &str,
    server: &mut ForeignServer,
) -> Result<Vec<(String, String)>, String> {
    let all = match take(entry, names) {
        None => return Ok(Vec::new()),
        Some((_, Value::Object(all))) => all,
        Some((name, _)) => return Err(format!("'{name}' is not an object of strings")),
    };
    let mut words = Vec::new();
    for (name, value) in all {
        let why = "is neither text nor a number, and is left out";
        match word(&value) {
            Some(word) => words.push((name, word)),
            None => server.notes.push(format!("the {kind} {name} {why}")),
        }
    }
    Ok(words)
}

/// A word as it reaches a program: some files have numbers and truth values without quotes.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// An option with the `=` after it, and its value; a word that is no option is a value.
fn option_and_value(word: &str) -> (&str, &str) {
    let option = word.split_once('=').filter(|_| word.starts_with('-'));
    let value = option.map_or(word, |(_, value)| value);
    (word.strip_suffix(value).unwrap_or_default(), value)
}

/// A word with the user's home in the place of `~`.
#[must_use]
pub fn with_home(word: &str, home: &str) -> String {
    let (option, value) = option_and_value(word);
    match value.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{option}{home}{rest}"),
        _ => word.to_owned(),
    }
}

/// Whether a link below this folder decides where a relative word leads.
fn leads_over_link(word: &str, folder: &Path) -> bool {
    let (value, mut at) = (Path::new(option_and_value(word).1), folder.to_owned());
    let is_link = |part| {
        at.push(part);
        at.is_symlink()
    };
    value.is_relative() && value.components().any(is_link)
}

/// A word of a command, as an absolute path if it, or the value of an option, names a file or folder from this folder on.
#[must_use]
pub fn anchored(word: &str, folder: &Path) -> String {
    let (option, value) = option_and_value(word);
    // Names of files have a dot or a slash, and `@scope/name` is a package.
    let may_be = value.contains(['.', '/']) && !value.starts_with(['-', '@', '/']);
    let path = folder.join(value);
    // A word that names nothing here may mean something else to the program, and stays.
    let path = may_be.then(|| path.canonicalize().ok()).flatten();
    path.map_or(word.to_owned(), |path| {
        format!("{option}{}", path.to_string_lossy())
    })
}

//! Files of other programs that list MCP servers, read for `sluice app import`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};

use super::secrets;
use crate::shell;

/// A server of another program's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) name: String,
    pub(super) command: Vec<String>,
    /// The server that it is, if the program does not start it.
    pub(super) url: Option<String>,
    /// Headers; what looks like a secret is named and not copied.
    pub(super) headers: BTreeMap<String, String>,
    /// Variables that are no secret, as far as their names tell.
    pub(super) env: BTreeMap<String, String>,
    /// Variables that are to come from the user's environment.
    pub(super) env_from: Vec<String>,
    /// What the user should know.
    pub(super) notes: Vec<String>,
}

/// Where files keep their servers: Claude Desktop, Claude Code, Cursor, Gemini; VS Code; Codex.
const PLACES: [&str; 3] = ["mcpServers", "servers", "mcp_servers"];

/// The servers of a file, which is JSON or, by its name, TOML.
///
/// # Errors
/// It is neither, or has no servers.
pub(super) fn read(text: &str, is_toml: bool) -> Result<Vec<Foreign>> {
    let file: Value = match is_toml {
        true => toml::from_str(text).map_err(|error| no_toml(text, &error))?,
        false => serde_json::from_str(&without_comments(text)).context("it is no JSON")?,
    };
    let own = PLACES.iter().find_map(|place| file.get(place));
    // VS Code's settings have them one level below.
    let own = own.or_else(|| file.get("mcp").and_then(|mcp| mcp.get("servers")));
    // Claude Code keeps those of a project with the project.
    let projects = file
        .get("projects")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let projects = projects.filter_map(|(_, project)| project.get("mcpServers"));
    let mut servers = Vec::new();
    for (name, server) in own
        .into_iter()
        .chain(projects)
        .filter_map(Value::as_object)
        .flatten()
    {
        servers.push(self::server(
            name,
            // An entry that is no object becomes a server without command and URL, which is refused by its name later
            // and not passed over in silence.
            server.as_object().unwrap_or(&Map::new()),
        ));
    }
    if servers.is_empty() {
        bail!("it lists no servers; looked for {}", PLACES.join(", "));
    }
    Ok(servers)
}

/// What is wrong, and where. The error itself would show the line, which may hold a secret.
fn no_toml(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.unwrap_or_default().matches('\n').count() + 1;
    anyhow!("it is no TOML: line {line}: {}", error.message())
}

fn server(name: &str, server: &Map<String, Value>) -> Foreign {
    let mut foreign = Foreign {
        name: plain(name),
        command: Vec::new(),
        url: None,
        headers: BTreeMap::new(),
        env: BTreeMap::new(),
        env_from: Vec::new(),
        notes: Vec::new(),
    };
    let program = server.get("command").filter(|program| !program.is_null());
    foreign.command = match program.map_or(Some(Vec::new()), |program| command(program, server)) {
        Some(command) => command,
        None => {
            let note = "its command or a word of 'args' is no text and no number, so the command is not taken";
            foreign.notes.push(note.to_owned());
            Vec::new()
        }
    };
    // Most programs, Gemini for streamable HTTP, Windsurf.
    let addresses = ["url", "httpUrl", "serverUrl"].iter();
    let url = addresses
        .filter_map(|key| server.get(*key)?.as_str())
        .next();
    // With a command the server runs here, whatever address stands beside it.
    if let Some(url) = url.filter(|_| program.is_none()) {
        foreign.url = Some(url.to_owned());
        headers(server, url, &mut foreign);
    }
    for (variable, value) in server
        .get("env")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let Some(value) = word(value) else {
            let note = format!("the variable {variable} is no text and no number, and is left out");
            foreign.notes.push(note);
            continue;
        };
        // `$NAME` and `${NAME}` are expanded by the other program. The app would get the reference itself as the value.
        let refers = value.starts_with('$');
        if refers || secrets::is_named(variable) || secrets::looks_like_one(&value) {
            let why = if refers {
                "names a value from elsewhere"
            } else {
                "looks like a secret and stays where it is"
            };
            foreign.notes.push(format!(
                "the variable {variable} {why}; export {} before you start Sluice",
                shell::word(variable)
            ));
            foreign.env_from.push(variable.clone());
        } else {
            foreign.env.insert(variable.clone(), value);
        }
    }
    foreign
}

/// Program and arguments; `None` if a word of them is none.
fn command(program: &Value, server: &Map<String, Value>) -> Option<Vec<String>> {
    let arguments = match server.get("args") {
        None | Some(Value::Null) => &[],
        Some(arguments) => arguments.as_array()?.as_slice(),
    };
    std::iter::once(program)
        .chain(arguments)
        .map(word)
        .collect()
}

/// A word as it reaches a program: some files have numbers and truth values without quotes.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The headers for a server elsewhere. A value that looks like a secret, or comes from the other program, becomes a secret
/// that the user sets.
fn headers(server: &Map<String, Value>, url: &str, foreign: &mut Foreign) {
    let headers = server.get("headers").and_then(Value::as_object);
    for (name, value) in headers.into_iter().flatten() {
        let Some(value) = word(value) else {
            let note = format!("the header {name} is no text and no number, and is left out");
            foreign.notes.push(note);
            continue;
        };
        if !value.contains("${") && !secrets::is_named(name) && !secrets::looks_like_one(&value) {
            foreign.headers.insert(name.clone(), value);
            continue;
        }
        // The scheme, like `Bearer`, is no secret and stays; everything after it is replaced by the secret's name.
        let scheme = match value.split_once(' ') {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphabetic()) => {
                format!("{scheme} ")
            }
            _ => String::new(),
        };
        let secret = format!("{}-{}", foreign.name, plain(&name.to_ascii_lowercase()));
        foreign.notes.push(format!(
            "the header {name} stays where it is; give it to this server with `sluice secret set {secret} --for {}`",
            shell::word(url)
        ));
        foreign
            .headers
            .insert(name.clone(), format!("{scheme}secret:{secret}"));
    }
}

/// A name of letters, digits, '-' and '_' alone.
fn plain(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.chars()
        .map(|c| if keep(c) { c } else { '-' })
        .collect()
}

/// JSON as VS Code writes it, without comments and commas before a closing bracket.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match (quoted, c, rest.peek()) {
            // What is escaped in a string is taken along unseen, so that `\"` does not end the string.
            (true, '\\', Some(_)) => {
                plain.push(c);
                plain.extend(rest.next());
            }
            (_, '"', _) => {
                quoted = !quoted;
                plain.push(c);
            }
            // The line break stays for the next round: a comment separates two tokens as a space does.
            (false, '/', Some('/')) => while rest.next_if(|c| *c != '\n').is_some() {},
            (false, '/', Some('*')) => {
                let mut last = ' ';
                rest.next();
                for c in rest.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            // The comma before the bracket was copied already, so it is taken back together with the space after it.
            (false, ']' | '}', _) => {
                let end = plain.trim_end().len();
                if plain.get(..end).is_some_and(|before| before.ends_with(',')) {
                    plain.truncate(end - 1);
                }
                plain.push(c);
            }
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, is_toml: bool) -> Vec<(String, String)> {
        let servers = read(text, is_toml).unwrap();
        servers
            .into_iter()
            .map(|server| (server.name, server.command.join(" ")))
            .collect()
    }

    fn pair(name: &str, command: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), command.to_owned())]
    }

    #[test]
    fn files_of_the_usual_programs_are_read() {
        let own = r#"{"mcpServers": {"a b": {"command": "npx", "args": ["-y", "x"]}}, "other": 1}"#;
        assert_eq!(check(own, false), pair("a-b", "npx -y x"));
        let code = "{\n// servers\n\"servers\": {\"a\": {\"type\": \"stdio\", \"command\": \"uvx\", \"args\": [\"x // y\", ],},}, /* \" */\n\"inputs\": []}";
        assert_eq!(check(code, false), pair("a", "uvx x // y"));
        assert_eq!(
            check(r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#, false),
            pair("a", "x")
        );
        assert_eq!(
            check("[mcp_servers.a]\ncommand = \"npx\"\nargs = [\"x\"]\n", true),
            pair("a", "npx x")
        );
        let project = r#"{"projects": {"/home/me/work": {"mcpServers": {"a": {"command": "x"}}}}}"#;
        assert_eq!(check(project, false), pair("a", "x"));
        assert_eq!(
            check(
                r#"{"mcpServers": {"remote": {"url": "https://host.test"}}}"#,
                false
            ),
            pair("remote", "")
        );
        for wrong in ["", "{}", "{\"mcpServers\": 1}", "[]"] {
            assert!(read(wrong, false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_is_a_word_and_what_is_none_is_named() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "args": ["--port", 8080, true], "env": {"PORT": 8080, "DEBUG": false, "LIST": [1]}},
            "b": {"command": "x", "args": ["--only", null]},
            "c": {"command": "x", "args": "--only"},
            "d": {"url": "https://host.test/mcp", "headers": {"X-Version": 2, "X-List": []}}
        }}"#;
        let [a, b, c, d] = read(text, false).unwrap().try_into().unwrap();
        assert_eq!(a.command, ["x", "--port", "8080", "true"]);
        let env: Vec<_> = a
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(env, [("DEBUG", "false"), ("PORT", "8080")]);
        assert_eq!(
            a.notes,
            ["the variable LIST is no text and no number, and is left out"]
        );
        // Half a command is another command.
        for server in [b, c] {
            assert!(
                server.command.is_empty() && server.notes.len() == 1,
                "{server:?}"
            );
        }
        assert_eq!(d.headers.get("X-Version").map(String::as_str), Some("2"));
        assert_eq!(
            d.notes,
            ["the header X-List is no text and no number, and is left out"]
        );
    }

    #[test]
    fn headers_of_a_server_elsewhere_name_secrets() {
        let text = r#"{"servers": {"far": {"type": "http", "url": "https://host.test/mcp", "headers": {"Authorization": "Bearer abc", "X-Api-Key": "abc", "X-Mode": "fast", "X-In": "${input:x}"}}}}"#;
        let server = read(text, false).unwrap().remove(0);
        assert_eq!(server.url.as_deref(), Some("https://host.test/mcp"));
        let headers: Vec<_> = server.headers.values().map(String::as_str).collect();
        assert_eq!(
            headers,
            [
                "Bearer secret:far-authorization",
                "secret:far-x-api-key",
                "secret:far-x-in",
                "fast"
            ]
        );
        assert!(server.notes.len() == 3 && server.notes.iter().all(|note| !note.contains("abc")));
    }

    #[test]
    fn secrets_stay_where_they_are() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "abc", "MODE": "fast", "HOME_URL": "${input:url}",
            "DATABASE_URL": "postgresql://me:abc@host/db", "GITHUB_PAT": "ghp_abcdefghijklmnop1234"}}}}"#;
        let server = read(text, false).unwrap().remove(0);
        assert_eq!(
            server.env,
            BTreeMap::from([("MODE".to_owned(), "fast".to_owned())])
        );
        let others = ["API_KEY", "HOME_URL", "DATABASE_URL", "GITHUB_PAT"];
        assert_eq!(server.env_from, others);
        assert!(server.notes.len() == 4 && server.notes.iter().all(|note| !note.contains("abc")));
        // Nor is a line quoted in which something is wrong.
        let spoilt = "[mcp_servers.a]\nenv = { K = \"hush-4711\" x }\n";
        let error = format!("{:#}", read(spoilt, true).unwrap_err());
        assert!(
            error.contains("line 2") && !error.contains("4711"),
            "{error}"
        );
        let text = r#"{"servers": {"far": {"url": "https://host.test/mcp", "headers": {"X-Pat": "ghp_abcdefghijklmnop1234"}}}}"#;
        let server = read(text, false).unwrap().remove(0);
        assert_eq!(
            server.headers.get("X-Pat").map(String::as_str),
            Some("secret:far-x-pat")
        );
    }

    /// The file may lie in a stranger's folder, and what a note tells the user to type is copied.
    #[test]
    fn a_command_that_a_note_tells_has_no_more_words_than_ours() {
        let text = r#"{"servers": {"far": {"url": "https://host.test/a;x|y", "headers": {"Key;x": "a"}}, "a": {"command": "x", "env": {"KEY;x": "a"}}}}"#;
        let notes: Vec<String> = read(text, false)
            .unwrap()
            .into_iter()
            .flat_map(|it| it.notes)
            .collect();
        let told = |part: &str| notes.iter().any(|note| note.contains(part));
        assert!(
            told("`sluice secret set far-key-x --for 'https://host.test/a;x|y'`"),
            "{notes:?}"
        );
        assert!(told("export 'KEY;x' before"), "{notes:?}");
    }
}

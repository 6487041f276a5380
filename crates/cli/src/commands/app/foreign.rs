//! Files of other programs that list MCP servers, read for `sluice app import`.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::block::Wish;
use super::secrets;
use crate::shell;

/// A server of another program's file. Values that look like secrets are named and not copied.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    pub(super) wish: Wish,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// Why its command cannot be copied.
    pub(super) missing: Option<String>,
}

/// Where files keep their servers: Claude Desktop, Claude Code, Cursor, Gemini; VS Code; Codex.
const PLACES: [&str; 3] = ["mcpServers", "servers", "mcp_servers"];

/// The servers of a file, which is JSON or, by its name, TOML.
pub(super) fn read(text: &str, is_toml: bool) -> Result<Vec<Foreign>> {
    let file: Value = match is_toml {
        true => toml::from_str(text).map_err(|error| no_toml(text, &error))?,
        false => serde_json::from_str(&without_comments(text)).context("it is not JSON")?,
    };
    let own = PLACES.iter().find_map(|place| file.get(place));
    // VS Code's settings have them one level below.
    let own = own.or_else(|| file.get("mcp").and_then(|mcp| mcp.get("servers")));
    // Claude Code keeps those of a project with the project.
    let projects = members(file.get("projects"));
    let projects = projects.filter_map(|(_, project)| project.get("mcpServers"));
    let servers = own.into_iter().chain(projects);
    let servers = servers.flat_map(|servers| members(Some(servers)));
    let servers: Vec<Foreign> = servers.map(|(name, it)| server(name, it)).collect();
    if servers.is_empty() {
        bail!("it lists no servers; looked for {}", PLACES.join(", "));
    }
    Ok(servers)
}

/// The mistake and its line number. The error itself would show the line, which may have a secret.
fn no_toml(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.unwrap_or_default().matches('\n').count() + 1;
    anyhow!("it is not TOML: line {line}: {}", error.message())
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// An entry that is no object has neither command nor URL, and is refused by its name later.
fn server(name: &str, server: &Value) -> Foreign {
    let mut foreign = Foreign::default();
    foreign.wish.name = plain(name);
    let program = server.get("command").filter(|program| !program.is_null());
    match program.map_or(Some(Vec::new()), |program| command(program, server)) {
        Some(command) => match command.iter().map(|word| filled_in(word)).collect() {
            Ok(command) => foreign.wish.command = command,
            Err(missing) => foreign.missing = Some(missing),
        },
        None => {
            let note = "its command or a word of 'args' is neither text nor a number, so the command is left out";
            foreign.notes.push(note.to_owned());
        }
    }
    // Most programs, Gemini for streamable HTTP, Windsurf.
    let mut addresses = ["url", "httpUrl", "serverUrl"].iter();
    let url = addresses.find_map(|key| server.get(*key)?.as_str());
    // With a command the server runs here, and an address is ignored.
    if let Some(url) = url.filter(|_| program.is_none()) {
        foreign.wish.url = Some(url.to_owned());
        headers(server, url, &mut foreign);
    }
    for (variable, value) in members(server.get("env")) {
        let Some(value) = word(value) else {
            let note =
                format!("the variable {variable} is neither text nor a number, and is left out");
            foreign.notes.push(note);
            continue;
        };
        // The other program expands `$NAME` and `${NAME}`. The app would get the reference itself.
        let refers = value.starts_with('$');
        if refers || secrets::is_named(variable) || secrets::looks_like_one(&value) {
            let why = match refers {
                true => "refers to a value of the other program",
                false => "looks like a secret and is not copied",
            };
            foreign.notes.push(format!(
                "the variable {variable} {why}; export {} before you start Sluice",
                shell::word(variable)
            ));
            foreign.wish.env_from.push(variable.clone());
        } else {
            foreign.wish.env.insert(variable.clone(), value);
        }
    }
    foreign
}

/// Program and arguments; `None` if a word of them is none.
fn command(program: &Value, server: &Value) -> Option<Vec<String>> {
    let arguments = match server.get("args") {
        None | Some(Value::Null) => &[],
        Some(arguments) => arguments.as_array()?.as_slice(),
    };
    std::iter::once(program)
        .chain(arguments)
        .map(word)
        .collect()
}

/// A word of a command with the values of the variables that the other program fills in, as `${NAME}` or `${env:NAME}`.
fn filled_in(word: &str) -> Result<String, String> {
    let found = word.split_once("${");
    let Some((before, (name, rest))) = found.and_then(|(b, it)| Some((b, it.split_once('}')?)))
    else {
        return Ok(word.to_owned());
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    match std::env::var(name) {
        Err(_) => Err(format!(
            "its command needs the variable {name}, which is not set; export it and try again"
        )),
        Ok(value) if secrets::is_named(name) || secrets::looks_like_one(&value) => Err(format!(
            "the variable {name} in its command looks like a secret and is not copied; if the server also reads a variable, add \
             it with `sluice app add` and --env-from {name}"
        )),
        Ok(value) => Ok(format!("{before}{value}{}", filled_in(rest)?)),
    }
}

/// A word as it reaches a program: some files have numbers and truth values without quotes.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The headers for a remote server. A value that looks like a secret, or that the other program fills in, becomes a
/// secret that the user sets.
fn headers(server: &Value, url: &str, foreign: &mut Foreign) {
    for (name, value) in members(server.get("headers")) {
        let Some(value) = word(value) else {
            let note = format!("the header {name} is neither text nor a number, and is left out");
            foreign.notes.push(note);
            continue;
        };
        if !value.contains("${") && !secrets::is_named(name) && !secrets::looks_like_one(&value) {
            foreign.wish.headers.insert(name.clone(), value);
            continue;
        }
        // The scheme, like `Bearer`, is no secret and stays; everything after it is replaced by the secret's name.
        let scheme = match value.split_once(' ') {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphabetic()) => {
                format!("{scheme} ")
            }
            _ => String::new(),
        };
        let secret = format!(
            "{}-{}",
            foreign.wish.name,
            plain(&name.to_ascii_lowercase())
        );
        foreign.notes.push(format!(
            "the header {name} is not copied; save its value with `sluice secret set {secret} --for {}`",
            shell::word(url)
        ));
        let value = format!("{scheme}secret:{secret}");
        foreign.wish.headers.insert(name.clone(), value);
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
            // An escaped character is copied, so that `\"` does not end the string.
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

    #[test]
    fn files_of_the_usual_programs_are_read() {
        for (text, is_toml, name, command) in [
            (
                r#"{"mcpServers": {"a b": {"command": "npx", "args": ["-y", "x"]}}, "other": 1}"#,
                false,
                "a-b",
                "npx -y x",
            ),
            (
                "{\n// servers\n\"servers\": {\"a\": {\"type\": \"stdio\", \"command\": \"uvx\", \"args\": [\"x // y\", ],},}, /* \" */\n\"inputs\": []}",
                false,
                "a",
                "uvx x // y",
            ),
            (
                r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#,
                false,
                "a",
                "x",
            ),
            (
                "[mcp_servers.a]\ncommand = \"npx\"\nargs = [\"x\"]\n",
                true,
                "a",
                "npx x",
            ),
            (
                r#"{"projects": {"/home/me/work": {"mcpServers": {"a": {"command": "x"}}}}}"#,
                false,
                "a",
                "x",
            ),
            (
                r#"{"mcpServers": {"remote": {"url": "https://host.test"}}}"#,
                false,
                "remote",
                "",
            ),
        ] {
            let [server] = read(text, is_toml).unwrap().try_into().unwrap();
            assert_eq!(
                (&*server.wish.name, &*server.wish.command.join(" ")),
                (name, command)
            );
        }
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
        assert_eq!(a.wish.command, ["x", "--port", "8080", "true"]);
        let env: Vec<_> = a
            .wish
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(env, [("DEBUG", "false"), ("PORT", "8080")]);
        assert_eq!(
            a.notes,
            ["the variable LIST is neither text nor a number, and is left out"]
        );
        // Half a command is another command.
        for server in [b, c] {
            assert!(
                server.wish.command.is_empty() && server.notes.len() == 1,
                "{server:?}"
            );
        }
        assert_eq!(d.wish.headers["X-Version"], "2");
        assert_eq!(
            d.notes,
            ["the header X-List is neither text nor a number, and is left out"]
        );
    }

    #[test]
    fn headers_of_a_server_elsewhere_name_secrets() {
        let text = r#"{"servers": {"far": {"type": "http", "url": "https://host.test/mcp", "headers": {"Authorization": "Bearer abc", "X-Api-Key": "abc", "X-Mode": "fast", "X-In": "${input:x}"}}}}"#;
        let server = read(text, false).unwrap().remove(0);
        assert_eq!(server.wish.url.as_deref(), Some("https://host.test/mcp"));
        let headers: Vec<_> = server.wish.headers.values().cloned().collect();
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
        let copied: Vec<_> = server.wish.env.keys().collect();
        assert_eq!(copied, ["MODE"]);
        let others = ["API_KEY", "HOME_URL", "DATABASE_URL", "GITHUB_PAT"];
        assert_eq!(server.wish.env_from, others);
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
        assert_eq!(server.wish.headers["X-Pat"], "secret:far-x-pat");
    }

    /// The file may be a stranger's, and users copy the commands of notes.
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

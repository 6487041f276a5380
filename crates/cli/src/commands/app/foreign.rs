//! Files of other programs that list MCP servers, read for `sluice app import`. Values that look like secrets are named and
//! not copied.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use config::{ForeignServer, Piece, foreign_servers, foreign_servers_in, pieces};
use serde_json::Value;

use super::secrets;
use crate::shell;

/// The servers of a file, and what was overlooked in it.
pub(crate) fn read(file: &Path) -> Result<(Vec<ForeignServer>, Vec<String>)> {
    let text = fs::read_to_string(file).context("it cannot be read")?;
    let path = file.canonicalize().unwrap_or(file.to_owned());
    of_text(&path, &text, &|name| std::env::var(name).ok())
}

fn of_text(
    path: &Path,
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(Vec<ForeignServer>, Vec<String>)> {
    let (mut servers, notes) = foreign_servers(path, text, variable)?;
    if servers.is_empty() {
        bail!("it lists no servers");
    }
    for server in &mut servers {
        for name in variables(server) {
            server.notes.push(format!(
                "the variable {name} looks like a secret and is not copied; export {} before you start Sluice",
                shell::word(&name)
            ));
        }
        finish(server, variable);
    }
    Ok((servers, notes))
}

/// A server that a client goes on starting through Sluice, from settings with this server alone. What looks like a secret in
/// its variables, and what the client itself fills in, is the second value, as it is written there.
pub(crate) fn through_client(
    path: &Path,
    settings: &Value,
) -> Result<(ForeignServer, Vec<(String, String)>)> {
    let variable = |name: &str| std::env::var(name).ok();
    let servers = foreign_servers_in(path, settings, &mut Vec::new(), &variable)?;
    let server = servers.into_iter().next();
    let mut server = server.context("it lists no servers")?;
    let is_foreign = |text: &str| {
        let mut pieces = pieces(text).unwrap_or_default().into_iter();
        pieces.any(|piece| matches!(piece, Piece::Foreign(_)))
    };
    let names = variables(&mut server);
    let written = server.written.clone().into_iter();
    let own = written.filter(|(name, text)| names.contains(name) || is_foreign(text));
    let own: Vec<_> = own.collect();
    finish(&mut server, &variable);
    Ok((server, own))
}

/// A server as it can stand in a file: without what looks like a secret. `None` if its command has one.
pub(crate) fn without_secrets(server: &ForeignServer) -> Option<ForeignServer> {
    let mut server = server.clone();
    variables(&mut server);
    finish(&mut server, &|name| std::env::var(name).ok());
    let is_clean = server.left_out.is_none() && secrets::first(&server.command).is_none();
    is_clean.then_some(server)
}

/// Has the client set these variables of a server for Sluice. Returns them by the names that they have there, which no other
/// server's have.
pub(crate) fn hand_over(
    server: &mut ForeignServer,
    own: &[(String, String)],
) -> BTreeMap<String, String> {
    let mut given = BTreeMap::new();
    for (name, value) in own {
        let keep = |c: char| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_uppercase(),
            false => '_',
        };
        let there = format!("SLUICE_{}_{name}", server.name);
        let there: String = there.chars().map(keep).collect();
        server.env_from.retain(|entry| entry != name);
        server.env_from.push(format!("{name}=${{{there}}}"));
        let is_other = |note: &String| !note.contains(&format!("export {name} before"));
        server.notes.retain(is_other);
        server.notes.push(format!(
            "the variable {name} stays in the client's file, as {there}"
        ));
        server.given.insert(there.clone());
        given.insert(there, value.clone());
    }
    given
}

/// Leaves out a server whose command has a secret, and takes secrets out of its headers.
fn finish(server: &mut ForeignServer, variable: &dyn Fn(&str) -> Option<String>) {
    headers(server);
    let mut filled = server.filled_in.iter();
    let is_secret = |name: &&String| {
        secrets::is_named(name) || variable(name).is_some_and(|it| secrets::looks_like_one(&it))
    };
    if let Some(name) = filled.find(is_secret) {
        server.left_out.get_or_insert(format!(
                "the variable {name} in its command looks like a secret and is not copied; if the server also reads a variable, \
                 add it with `sluice app add` and --env-from {name}"
            ));
    }
}

/// Whether a text has a secret beside its references to variables.
fn has_secret(text: &str) -> bool {
    let pieces = pieces(text).unwrap_or(vec![Piece::Text(text.to_owned())]);
    let literal = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.as_str(),
        Piece::Variable(_, default) => default.as_deref().unwrap_or_default(),
        Piece::Secret(_) | Piece::Foreign(_) => "",
    });
    literal
        .collect::<String>()
        .split(' ')
        .any(secrets::looks_like_one)
}

/// Whether a value looks like a secret, by its name or by its form.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    secrets::is_named(name) || has_secret(value)
}

/// Takes what looks like a secret out of the variables, and returns their names.
fn variables(server: &mut ForeignServer) -> Vec<String> {
    let env = std::mem::take(&mut server.env).into_iter();
    let (secret, plain) = env.partition(|(name, value)| is_secret(name, value));
    server.env = plain;
    let mut names: Vec<String> = secret.into_keys().collect();
    for entry in &mut server.env_from {
        if let Some((name, _)) = entry.split_once('=').filter(|(_, text)| has_secret(text)) {
            names.push(name.to_owned());
            entry.clear();
        }
    }
    server.env_from.retain(|entry| !entry.is_empty());
    server.env_from.extend(names.clone());
    names
}

/// Puts a secret that the user sets in the place of each header that looks like one, or that the other program fills in.
fn headers(server: &mut ForeignServer) {
    let Some(url) = &server.url else {
        return;
    };
    for (name, value) in &mut server.headers {
        let pieces = pieces(value).unwrap_or_default();
        let is_foreign = pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Foreign(_)));
        let is_filled = pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Variable(..)));
        if !is_foreign && !has_secret(value) && (is_filled || !secrets::is_named(name)) {
            continue;
        }
        // The scheme, like `Bearer`, is no secret and stays; everything after it is replaced by the secret's name.
        let scheme = match value.split_once(' ') {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphabetic()) => {
                format!("{scheme} ")
            }
            _ => String::new(),
        };
        let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let header: String = name.to_ascii_lowercase().chars().map(keep).collect();
        let secret = format!("{}-{header}", server.name);
        server.notes.push(format!(
            "the header {name} is not copied; save its value with `sluice secret set {secret} --for {}`",
            shell::word(url)
        ));
        *value = format!("{scheme}secret:{secret}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Vec<ForeignServer> {
        of_text(Path::new("/w/mcp.json"), text, variable).unwrap().0
    }

    fn unset(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn headers_of_a_server_elsewhere_name_secrets() {
        let text = r#"{"servers": {"far": {"type": "http", "url": "https://host.test/mcp", "headers": {"Authorization": "Bearer abc", "X-Api-Key": "abc", "X-Mode": "fast", "X-In": "${input:x}"}}}}"#;
        let server = read(text, &unset).remove(0);
        assert_eq!(server.url.as_deref(), Some("https://host.test/mcp"));
        let headers: Vec<_> = server.headers.values().cloned().collect();
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
        let server = read(text, &unset).remove(0);
        let copied: Vec<_> = server.env.keys().collect();
        assert_eq!(copied, ["MODE"]);
        let others = ["HOME_URL", "API_KEY", "DATABASE_URL", "GITHUB_PAT"];
        assert_eq!(server.env_from, others);
        assert!(server.notes.len() == 4 && server.notes.iter().all(|note| !note.contains("abc")));
        let text = r#"{"servers": {"far": {"url": "https://host.test/mcp", "headers": {"X-Pat": "ghp_abcdefghijklmnop1234"}}}}"#;
        let server = read(text, &unset).remove(0);
        assert_eq!(server.headers["X-Pat"], "secret:far-x-pat");
    }

    /// The file may be a stranger's, and users copy the commands of notes.
    #[test]
    fn a_command_that_a_note_tells_has_no_more_words_than_ours() {
        let text = r#"{"servers": {"far": {"url": "https://host.test/a;x|y", "headers": {"Key;x": "a"}}, "a": {"command": "x", "env": {"KEY;x": "a"}}}}"#;
        let notes: Vec<String> = read(text, &unset)
            .into_iter()
            .flat_map(|it| it.notes)
            .collect();
        let told = |part: &str| notes.iter().any(|note| note.contains(part));
        assert!(
            told("`sluice secret set far-key-x --for 'https://host.test/a;x|y'`"),
            "{notes:?}"
        );
        assert!(told("'KEY;x' is left out") && !told("export"), "{notes:?}");
    }

    #[test]
    fn a_reference_to_a_variable_is_kept_and_a_secret_beside_it_is_not() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "${MY_KEY}", "AUTH": "Bearer ${MY_KEY}", "DB": "postgres://me:${MY_KEY}@host/db",
            "A": "ghp_abcdefghijklmnop1234 ${MODE}", "B": "${MY_KEY:-ghp_abcdefghijklmnop1234}"}},
            "far": {"url": "https://host.test/mcp", "headers": {"Authorization": "Bearer ${MY_KEY}"}}}}"#;
        let servers = read(text, &unset);
        assert_eq!(
            servers[0].env_from,
            [
                "API_KEY=${MY_KEY}",
                "AUTH=Bearer ${MY_KEY}",
                "DB=postgres://me:${MY_KEY}@host/db",
                "A",
                "B"
            ]
        );
        assert_eq!(servers[1].headers["Authorization"], "Bearer ${MY_KEY}");
        // In a command or an address its value would be written down.
        let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["${MY_KEY}"]}, "b": {"command": "x", "args": ["${MODE}"]}, "c": {"url": "https://host.test/${MODE}"}}}"#;
        let set = |name: &str| match name {
            "MY_KEY" => Some("hush".to_owned()),
            "MODE" => Some("ghp_abcdefghijklmnop1234".to_owned()),
            _ => None,
        };
        for server in read(text, &set) {
            let reason = server.left_out.unwrap();
            assert!(reason.contains("looks like a secret"), "{reason}");
        }
    }
}

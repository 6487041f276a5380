//! Files of other programs that list MCP servers, read for `sluice app import`. Values that look like secrets are named and
//! not copied.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use config::{ForeignServer, Piece, foreign_servers, pieces};

use super::secrets;
use crate::shell;

/// The servers of a file, and what was overlooked in it.
pub(super) fn read(file: &Path) -> Result<(Vec<ForeignServer>, Vec<String>)> {
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
        variables(server);
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
    Ok((servers, notes))
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

/// Takes what looks like a secret out of the variables.
fn variables(server: &mut ForeignServer) {
    let is_secret = |name: &str, value: &str| secrets::is_named(name) || has_secret(value);
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
    for name in &names {
        server.notes.push(format!(
            "the variable {name} looks like a secret and is not copied; export {} before you start Sluice",
            shell::word(name)
        ));
    }
    server.env_from.extend(names);
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

//! Words of a command and values that look like secrets: a file of configuration is no place for them, and neither is a list
//! of processes, where every program of the machine reads the arguments of all others.

/// Parts of names of what holds secrets.
const NAMES: &str = "KEY TOKEN SECRET PASS AUTH CREDENTIAL COOKIE SESSION DSN";
/// Beginnings of keys as services give them out.
const BEGINNINGS: &str = "\
    sk- pk- ghp_ gho_ ghs_ ghu_ github_pat_ glpat- xoxb- xoxp- AKIA AIza ntn_ eyJ";
/// A beginning with less after it is a word.
const SHORTEST: usize = 12;

/// The place of the first word that looks like a secret, counted as the words are written.
pub(super) fn first(command: &[String]) -> Option<usize> {
    let mut words = command.iter().enumerate().skip(1);
    words.find_map(|(at, word)| {
        let before = command.get(at.wrapping_sub(1)).map_or("", String::as_str);
        is_secret(before, word).then_some(at)
    })
}

/// Whether a word looks like a secret: by its form, or by the option whose value it is.
fn is_secret(before: &str, word: &str) -> bool {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, value),
        // A flag is no value.
        None if word.starts_with('-') => ("", ""),
        None => (if before.contains('=') { "" } else { before }, word),
    };
    // A path (`--token-file PATH`) or a reference to a variable is not a secret itself.
    let elsewhere = value.starts_with('/') || value.starts_with('~') || value.starts_with('$');
    let named = (name.starts_with('-') || word.contains('=')) && is_named(name);
    looks_like_one(value) || (named && !value.is_empty() && !elsewhere)
}

/// Whether the name of a variable, a header or an option is one of a secret.
pub(super) fn is_named(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    NAMES.split(' ').any(|part| upper.contains(part))
}

/// Whether the form of a value is one of a secret.
pub(super) fn looks_like_one(value: &str) -> bool {
    // Keys have digits. Without one, the rest is more likely to be words, as in `pk-something-descriptive`.
    let given = BEGINNINGS.split(' ').any(|begin| {
        value
            .strip_prefix(begin)
            .is_some_and(|rest| rest.len() >= SHORTEST && rest.chars().any(|c| c.is_ascii_digit()))
    });
    given || with_password(value)
}

/// Whether it is an address with a password: `scheme://user:password@host`.
fn with_password(value: &str) -> bool {
    let authority = value
        .split_once("://")
        .and_then(|(_, rest)| rest.split('/').next());
    // The last `@` ends the user's part, since a password may hold others.
    let user = authority
        .and_then(|authority| authority.rsplit_once('@'))
        .map(|(user, _)| user);
    user.and_then(|user| user.split_once(':'))
        .is_some_and(|(_, password)| !password.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str) -> Option<usize> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        first(&words)
    }

    #[test]
    fn words_that_look_like_secrets_are_found() {
        for (command, at) in [
            ("npx -y server --api-key abc123", 4),
            ("npx -y server --token=abc123", 3),
            ("server API_TOKEN=abc123", 1),
            ("npx server postgresql://me:word@host/db", 2),
            ("npx server sk-abcdefghijklmnop1234", 2),
            ("npx server --header x=ghp_abcdefghijklmnop1234", 3),
        ] {
            assert_eq!(check(command), Some(at), "{command}");
        }
    }

    #[test]
    fn ordinary_words_are_none() {
        for command in [
            "npx -y @modelcontextprotocol/server-filesystem /home/me/papers",
            "uvx mcp-server-time --local-timezone Europe/Oslo",
            "server --token-file /home/me/token",
            "server --token ${TOKEN}",
            "server --no-auth --port 80",
            "npx server postgresql://me@host/db https://example.org/a",
            "server sk-learn key",
        ] {
            assert_eq!(check(command), None, "{command}");
        }
    }
}

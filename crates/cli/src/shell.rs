//! Commands that a message tells the user to run.

use std::path::Path;

use hub::trace::escape;

/// Text quoted as one word of a shell. It may be foreign: the name of a folder, an address in another program's file.
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        // Control characters are escaped, since a terminal acts on them when they are pasted.
        false => format!("'{}'", escape(text).replace('\'', r"'\''")),
    }
}

/// A command of these words.
pub(crate) fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|it| word(it)).collect();
    words.join(" ")
}

/// `command` with the configuration in this file, if there is one: another one, or none, means another store.
pub(crate) fn configured(command: &str, file: Option<&Path>) -> String {
    match file.filter(|file| file.is_file()) {
        Some(file) => format!("{command} --config {}", word(&file.to_string_lossy())),
        None => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_word_is_one_word_to_a_shell() {
        for text in [
            "/home/me/papers",
            "https://example.org/a?b=c&d=e",
            "a b",
            "",
            "~",
            "-x",
            "$(echo x)",
            "`echo x`",
            "a;echo x|cat&",
            "it's 'quoted'",
            "!!",
            "grüße",
        ] {
            let script = format!("printf %s {}", word(text));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
        assert_eq!(word("a\n\u{1b}b"), r"'a\n\u{1b}b'");
    }
}

//! The lines of `sluice.toml` for an app that is added.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::proposal::{self, Tool};

/// An app that is to be in the configuration.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) name: String,
    /// What starts it; empty for a server elsewhere.
    pub(super) command: Vec<String>,
    /// The server that it is, if it is one elsewhere.
    pub(super) url: Option<String>,
    /// What that server is told with every request.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) env_from: Vec<String>,
}

/// The lines, with proposed rules for its tools once these are known.
pub(super) fn of(wish: &Wish, data: &[(String, bool)], tools: &[Tool]) -> String {
    let what = match &wish.url {
        Some(url) => format!("url = {}", quote(url)),
        None => format!("command = {}", list(&wish.command)),
    };
    let mut text = format!(
        "\n# Added by `sluice app add`.\n[app.{}]\n{what}\n",
        wish.name
    );
    for (key, pairs) in [("env", &wish.env), ("headers", &wish.headers)] {
        if !pairs.is_empty() {
            let pairs = pairs
                .iter()
                .map(|(name, value)| format!("{} = {}", quote(name), quote(value)));
            text += &format!("{key} = {{ {} }}\n", pairs.collect::<Vec<_>>().join(", "));
        }
    }
    if !wish.env_from.is_empty() {
        text += &format!("env_from = {}\n", list(&wish.env_from));
    }
    for (path, write) in data {
        let path = quote(path);
        let write = if *write { "write = true\n" } else { "" };
        // Without a label what lies there would be trusted and public, and nobody has said so.
        text += &format!(
            "[[app.{}.mount]]\nsource = {path}\ntarget = {path}\n{write}label = \"any\" # untrusted and secret, until you say less\n",
            wish.name
        );
    }
    if !tools.is_empty() {
        text += "# Proposed by the names of tools and arguments, and by what the app says of them where that is stricter: read every\n\
                 # line, and write effect = \"irreversible\" and limit = [] where you doubt one. As long as you do not label what comes\n\
                 # back, it is untrusted and every secret that you have.\n";
        for tool in tools {
            text += &proposal::rule(&wish.name, tool);
        }
    }
    text
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("[{}]", words.join(", "))
}

/// Quotes a string as JSON does, which TOML reads as the same basic string.
fn quote(text: &str) -> String {
    // JSON leaves DEL as it is, and TOML does not allow it in a string.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A path of the user's, from the folder where it was typed.
pub(super) fn anchored(word: &str, folder: &Path) -> String {
    let is_path = matches!(word, "." | "..") || word.starts_with("./") || word.starts_with("../");
    let path = folder.join(word);
    // A word that names nothing here may mean something else to the program, and stays.
    match is_path && path.exists() {
        true => path
            .canonicalize()
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned(),
        false => word.to_owned(),
    }
}

//! The lines of `sluice.toml` for an app that is added.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

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

/// The lines, without rules for tools: `tools` are the names of those that it has, once that is known.
pub(super) fn of(wish: &Wish, data: &[(String, bool)], tools: &[&str]) -> String {
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
        text += &format!(
            "[[app.{}.mount]]\nsource = {path}\ntarget = {path}\n{write}",
            wish.name
        );
    }
    if !tools.is_empty() {
        text += "# As long as you say nothing else, each call asks you, and what comes back is untrusted and every secret that you\n\
                 # have. Where you know better, write effect = \"read\" or \"write\" for a tool, and label what it returns.\n";
        for tool in tools {
            text += &format!(
                "[app.{}.tools.{}]\neffect = \"irreversible\"\n",
                wish.name,
                quote(tool)
            );
        }
    }
    text
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A string of JSON is one of TOML.
fn quote(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A path of the user's, from the folder where it was typed.
pub(super) fn anchored(word: &str, folder: &Path) -> String {
    let is_path = word == "."
        || word == ".."
        || ["./", "../", "~/"]
            .iter()
            .any(|start| word.starts_with(start));
    let path = folder.join(word);
    match is_path && path.exists() {
        true => path
            .canonicalize()
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned(),
        false => word.to_owned(),
    }
}

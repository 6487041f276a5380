//! Settings outside of the list of servers that switch servers or their tools off.

use std::path::{Path, PathBuf};

use serde_json::Value;
use wire::ToolFilter;

use super::entry::ForeignServer;

/// Lists of servers that are off: Claude Code's of a project's file and of all, Gemini's of today and of before.
const OFF: &str = "disabledMcpjsonServers disabledMcpServers mcp/excluded excludeMCPServers";
/// Lists of the servers that are not off.
const ON: &str = "enabledMcpjsonServers mcp/allowed allowMCPServers";

/// The files of Claude Code's settings for the servers of this file.
pub(super) fn of_claude(path: &Path, home: Option<String>) -> Vec<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let of_user = home
        .map(|home| [".claude/settings.json", ".claude.json"].map(|it| Path::new(&home).join(it)));
    let of_user = of_user.into_iter().flatten();
    let own = [".claude/settings.json", ".claude/settings.local.json"].map(|it| folder.join(it));
    match is_shared(path) {
        true => of_user.chain(own).collect(),
        false => of_user
            .take(usize::from(path.ends_with(".claude.json")))
            .collect(),
    }
}

/// The part of such settings that is about the project of a file.
pub(super) fn of_project(mut settings: Value, path: &Path) -> Value {
    let folder = path.parent().and_then(Path::to_str).unwrap_or_default();
    match settings.get_mut("projects") {
        Some(projects) => projects.get_mut(folder).map_or(Value::Null, Value::take),
        None => settings,
    }
}

/// Whether a file is one that a project shares, whose servers Claude Code asks about.
fn is_shared(path: &Path) -> bool {
    path.ends_with(".mcp.json")
}

/// Leaves out a server of this file, or tools of it, that these settings switch off.
pub(super) fn apply(path: &Path, settings: &[&Value], written: &str, server: &mut ForeignServer) {
    let listed = |key: &str| {
        let lists = settings.iter().filter_map(|it| at(it, key)?.as_array());
        let lists: Vec<_> = lists.collect();
        (!lists.is_empty()).then(|| lists.into_iter().flatten().collect::<Vec<_>>())
    };
    let is_in = |names: &[&Value]| names.iter().any(|name| *name == written);
    let all = |it: &&Value| it.get("enableAllProjectMcpServers") == Some(&Value::Bool(true));
    let all = settings.iter().any(all);
    // Claude Code writes an empty list for each project.
    let is_open = |key: &str, names: &[&Value]| {
        key == "enabledMcpjsonServers" && (all || names.is_empty() || !is_shared(path))
    };
    let off = OFF
        .split(' ')
        .find(|key| listed(key).is_some_and(|it| is_in(&it)));
    let not_on = ON
        .split(' ')
        .find(|key| listed(key).is_some_and(|names| !is_in(&names) && !is_open(key, &names)));
    let (only, hidden) = tools(settings, written);
    let is_bare = only.as_ref().is_some_and(Vec::is_empty);
    let why = match (off, not_on) {
        (Some(key), _) => format!("it is in '{}'", key.replace('/', ".")),
        (_, Some(key)) => format!("it is not in '{}'", key.replace('/', ".")),
        _ if is_bare => "all of its tools are switched off".to_owned(),
        _ => {
            server.filter.hidden.extend(hidden);
            server.filter.only = server.filter.only.take().or(only);
            return;
        }
    };
    server.is_disabled = true;
    server.left_out.get_or_insert(why);
}

/// The tools of a server that are used, and those that are not, by OpenCode's `tools` and `permission` and by Claude Code's
/// `permissions`.
fn tools(settings: &[&Value], written: &str) -> (Option<Vec<String>>, Vec<String>) {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = written
        .chars()
        .map(|c| if keep(c) { c } else { '_' })
        .collect();
    let mut rules = Vec::new();
    for settings in settings {
        let maps = ["tools", "permission"].map(|key| settings.get(key).and_then(Value::as_object));
        for (pattern, value) in maps.into_iter().flatten().flatten() {
            let is_on = match value {
                Value::Bool(is_on) => *is_on,
                Value::String(word) => word != "deny",
                _ => continue,
            };
            rules.push((pattern.as_str(), is_on, format!("{name}_")));
        }
        let denied = at(settings, "permissions/deny").and_then(Value::as_array);
        let denied = denied.into_iter().flatten().filter_map(Value::as_str);
        rules.extend(denied.map(|rule| (rule, false, format!("mcp__{name}__"))));
    }
    // The narrower rule wins.
    rules.sort_by_key(|(pattern, ..)| pattern.len());
    let (mut only, mut hidden) = (None, Vec::new());
    for (pattern, is_on, start) in rules {
        let tool = match (pattern.strip_prefix(&*start), pattern.strip_suffix('*')) {
            (Some(tool), _) => tool,
            (None, Some(begin)) if start.starts_with(begin) => "*",
            _ if start.strip_suffix("__") == Some(pattern) => "*",
            _ => continue,
        };
        match (tool == "*", is_on) {
            (true, true) => (only, hidden) = (None, Vec::new()),
            (true, false) => (only, hidden) = (Some(Vec::new()), Vec::new()),
            _ if !ToolFilter::is_pattern(tool) => {}
            (false, true) => {
                hidden.retain(|it| it != tool);
                only.iter_mut()
                    .for_each(|only: &mut Vec<_>| only.push(tool.to_owned()));
            }
            (false, false) => hidden.push(tool.to_owned()),
        }
    }
    (only, hidden)
}

fn at<'v>(settings: &'v Value, key: &str) -> Option<&'v Value> {
    key.split('/')
        .try_fold(settings, |value, key| value.get(key))
}

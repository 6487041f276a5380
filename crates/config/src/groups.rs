//! `[group.NAME]`: apps that may share a conversation.

use std::collections::{BTreeMap, BTreeSet};

use ifc::Call;

use crate::app::App;
use crate::toml_reader::Table;

/// The groups, each of several apps that exist and run here.
pub(crate) fn groups(
    root: &Table<'_>,
    apps: &BTreeMap<String, App>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut groups = BTreeMap::new();
    for (name, table) in root.named_tables("group") {
        table.needs("apps", "apps = [\"mail\", \"calendar\"]");
        let mut members = BTreeSet::new();
        let named = table.strings("apps").unwrap_or_default();
        for app in &named {
            match apps.get(app.value) {
                Some(known) if known.client => {
                    let message = format!("the tools of '{}' run at a client", app.value);
                    let help = "a group has apps that are started here";
                    table.error(&app.span, message, help);
                }
                Some(_) => {
                    members.insert(app.value.to_owned());
                }
                None => {
                    let message = format!("there is no app '{}'", app.value);
                    let known = apps.keys().map(String::as_str);
                    let help = table.did_you_mean(app.value, known);
                    table.error(&app.span, message, help);
                }
            }
        }
        // By the written names: an unknown one is reported above.
        let distinct: BTreeSet<&str> = named.iter().map(|app| app.value).collect();
        if table.has("apps") && distinct.len() < 2 {
            let message = format!("the group '{}' has fewer than two apps", name.value);
            let help = "name two apps or more";
            table.wrong(message, help);
        }
        if let Some((one, other)) = Call::confusable(&members) {
            let message = format!("the tools of '{one}' and '{other}' could be confused");
            let help = "a tool is called APP__TOOL in a group; rename one of these apps";
            table.wrong(message, help);
        }
        table.finish();
        groups.insert(name.value.to_owned(), members);
    }
    groups
}

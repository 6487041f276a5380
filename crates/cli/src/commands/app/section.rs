//! The lines of one app in a `sluice.toml`.

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

/// The comment above the lines that `sluice app add` writes.
pub(crate) const ADDED: &str = "# Added by `sluice app add`.\n";

/// A configuration in two parts, each with its lines as they were.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// The tables of the app; empty if there are none.
    pub(crate) own: String,
    /// All other lines.
    pub(crate) others: String,
}

/// The names of the apps in a configuration.
pub(crate) fn names(text: &str) -> Vec<String> {
    let file: Table = toml::from_str(text).unwrap_or_default();
    let apps = file.get("app").and_then(Value::as_table);
    apps.map(|apps| apps.keys().cloned().collect())
        .unwrap_or_default()
}

/// Takes the tables of an app out of a configuration. Comments between two tables of the app go with it; any other comment
/// stays.
///
/// # Errors
/// It is not TOML, or the app is not written in tables of its own.
pub(crate) fn split(text: &str, app: &str) -> Result<Split> {
    let (mut own, mut others) = (String::new(), String::new());
    // Blank lines and comments belong to what follows them.
    let (mut waiting, mut is_own) = (Vec::new(), false);
    for line in text.split_inclusive('\n') {
        if let Some(is_next) = is_header_of(app, line) {
            if is_next && !is_own && waiting.last() == Some(&ADDED) {
                let blank = waiting.iter().rev().nth(1) == Some(&"\n");
                let ours = waiting.split_off(waiting.len() - 1 - usize::from(blank));
                own.extend(ours);
            }
            if is_own != is_next {
                others.extend(waiting.drain(..));
            }
            is_own = is_next;
        }
        waiting.push(line);
        let words = line.trim_start();
        if !words.is_empty() && !words.starts_with('#') {
            let part = if is_own { &mut own } else { &mut others };
            part.extend(waiting.drain(..));
        }
    }
    others.extend(waiting);
    check(text, app, &own, &others)?;
    Ok(Split { own, others })
}

/// Whether a line that is the header of a table is one of this app's.
fn is_header_of(app: &str, line: &str) -> Option<bool> {
    let line = line.trim();
    let table: Table = toml::from_str(line.starts_with('[').then_some(line)?).ok()?;
    Some(table.get("app").is_some_and(|apps| apps.get(app).is_some()))
}

/// Compares the values: a line in a longer text may look like a header, and an app can be written without one.
fn check(text: &str, app: &str, own: &str, others: &str) -> Result<()> {
    let read = |text: &str| toml::from_str::<Table>(text).ok();
    let mut all = read(text).context("the configuration is not TOML")?;
    let apps = all.get_mut("app").and_then(Value::as_table_mut);
    let removed = apps.and_then(|apps| apps.remove(app));
    let mut left = read(others);
    for table in [Some(&mut all), left.as_mut()].into_iter().flatten() {
        // The table of all apps may have no header of its own.
        if table
            .get("app")
            .and_then(Value::as_table)
            .is_some_and(Table::is_empty)
        {
            table.remove("app");
        }
    }
    if left != Some(all) || removed.is_some() == own.is_empty() {
        bail!("the lines of the app '{app}' cannot be told from others; remove them by hand");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: [&str; 3] = [
        "# mine\nfile = '''\n[app.x]\n'''\n\n# of y\n[app.y]\ncommand = [\"y\"]\n",
        "# at the end of y\n\n[app.xx]\ncommand = [\"x\"] # [app.x]\n",
        "\n  # and the last\n",
    ];

    #[test]
    fn only_the_lines_of_the_app_are_taken_out() {
        let [a, b, c] = OTHERS;
        let first = "[app.x]\ncommand = [\"x\"]\n# about look\n[app.x.tools.look] # look\neffect = \"read\"\n";
        let second = "[[ app . \"x\".mount]]\nsource = \"/a\"";
        let found = split(&format!("{a}\n{ADDED}{first}{b}{second}\n{c}"), "x");
        let (own, others) = (format!("\n{ADDED}{first}{second}\n"), OTHERS.concat());
        // The header in a text makes this one ambiguous.
        assert!(found.is_err());
        let plain = a.replace("[app.x]", "app.x");
        let found = split(&format!("{plain}\n{ADDED}{first}{b}{second}\n{c}"), "x").unwrap();
        let others = others.replace("'''\n[app.x]", "'''\napp.x");
        assert_eq!(found, Split { own, others });
    }

    #[test]
    fn an_app_without_tables_of_its_own_is_left_alone() {
        for text in [
            "app.x.command = [\"x\"]\n",
            "[app]\nx = { command = [\"x\"] }\n",
            "[app]\nx.command = [\"x\"]\n",
        ] {
            let error = split(text, "x").unwrap_err().to_string();
            assert!(error.contains("by hand"), "{error}");
            assert_eq!(split(text, "y").unwrap().others, text);
        }
        assert!(split("[app.x", "x").is_err());
    }
}

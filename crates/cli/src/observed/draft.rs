//! A draft policy of what was observed. It trusts nothing because it looks harmless: tools get the rules of Sluice's policy for
//! their server, or proposed ones, and what only the user can know stands in comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use config::Config;
use hub::trace::{Call, Flow};
use policy::names::{CONTENT, is_in, words};
use serde_json::Value;
use wire::Hints;

use super::{Name, Observed};
use crate::commands::app::block::{self, Data, Wish};
use crate::commands::app::foreign;
use crate::commands::app::section::ADDED;
use crate::commands::policy::{verdict, without_secrets};
use crate::configuration;
use crate::known::Known;
use crate::proposal::{self, Tool, key, quote};

/// Drafts in one folder.
const FILES: usize = 100;
/// Examples of one tool, and letters of a value in one: a longer one is text, which can hold anything.
const EXAMPLES: usize = 2;
const LETTERS: usize = 64;
/// Own folders that a comment names.
const FOLDERS: usize = 3;

const HEADER: &str = "\
# A draft for review, from what was seen with --observe. Read every line; docs/policy.md says what to look for. A proposed rule
# is made from names and annotations, which the author of the tool wrote. What a tool returns is untrusted and secret where no
# `rest` or `results` says otherwise. A comment that begins with `labels` or `arguments` counts once you remove its `#`.
";
const OWN: &str = "\n# ---- Your configuration as it was ----\n\n";
const DRAFTED: &str = "\n# ---- Drafted ----\n";

/// What a draft is made of beside what was observed.
#[derive(Default)]
pub(crate) struct Draft {
    /// Where it is written, and never over a file.
    file: Option<PathBuf>,
    folder: PathBuf,
    /// The user's own configuration.
    base: String,
    /// Servers that another program lists, with the files that they see.
    pub(crate) servers: Vec<(Wish, Data)>,
    /// The app whose rules the front has: the profile of an agent.
    pub(crate) profile: Option<&'static str>,
    /// The categories of that profile's labels, for a configuration without a lattice.
    pub(crate) lattice: &'static str,
}

impl Draft {
    /// A draft that will be written to this file, or else to one in `folder`, beside the configuration or in the working folder.
    ///
    /// # Errors
    /// The file is there already.
    pub(crate) fn new(
        file: Option<&Path>,
        named: Option<&Path>,
        folder: Option<&Path>,
    ) -> Result<Self> {
        let is_there = file.is_some_and(|file| file.symlink_metadata().is_ok());
        ensure!(
            !is_there,
            "the file of --draft is there already, and a draft never replaces one; name another"
        );
        let (beside, base) = own(named)?;
        let folder = folder.map(Path::to_owned).or(beside);
        Ok(Self {
            file: file.map(std::path::absolute).transpose()?,
            folder: folder.map_or_else(std::env::current_dir, Ok)?,
            base,
            ..Self::default()
        })
    }

    /// Checks that the configuration is still the one that was opened meanwhile, and trusted.
    pub(crate) fn check(&self, named: Option<&Path>) -> Result<()> {
        let is_same = own(named)?.1 == self.base;
        ensure!(is_same, "the configuration has changed; start again");
        Ok(())
    }

    /// Where it is written if nothing is there yet.
    pub(crate) fn place(&self) -> PathBuf {
        let file = self.file.clone();
        file.unwrap_or_else(|| self.folder.join("sluice.observed.toml"))
    }

    /// Writes it to a new file.
    pub(crate) fn write(&self, observed: &Observed) -> Result<PathBuf> {
        let mut files = vec![self.place()];
        if self.file.is_none() {
            let numbered = |number| self.folder.join(format!("sluice.observed-{number}.toml"));
            files.extend((2..FILES).map(numbered));
        }
        let text = self.text(&self.place(), observed)?;
        let mut new = OpenOptions::new();
        // The user's own configuration is in it.
        new.write(true).create_new(true).mode(0o600);
        for path in files {
            match new.open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                opened => {
                    let failed = || format!("{} cannot be written", path.display());
                    opened
                        .and_then(|mut it| it.write_all(text.as_bytes()))
                        .with_context(failed)?;
                    return Ok(path);
                }
            }
        }
        bail!("a draft never replaces a file; name another with --draft")
    }

    /// The text, which is a configuration without mistakes.
    fn text(&self, place: &Path, observed: &Observed) -> Result<String> {
        let before = match self.base.trim() {
            "" => HEADER.to_owned(),
            base => format!("{HEADER}{OWN}{base}\n{DRAFTED}"),
        };
        let read = |lines: &str| block::with(place, &before, lines);
        let beside = "name a file beside your configuration with --draft";
        let own = read("").context(beside)?;
        let mut lines = String::new();
        if !own.names_lattice {
            lines += self.lattice;
        }
        let mut drafted = BTreeSet::new();
        for (app, tools) in self.apps(observed, &own) {
            lines += &self.app(&app, &tools, &own, observed);
            drafted.extend(tools.into_iter().map(|tool| (app.clone(), tool.name)));
        }
        let config = read(&lines)?;
        let used = observed.used.iter();
        let used = used.filter(|(name, _)| drafted.contains(name));
        let listed = used.filter_map(|(name, used)| Some((name, observed.tool(name)?, used)));
        let examples = listed.map(|(name, tool, used)| examples(&config, name, tool, &used.calls));
        let more = lines.clone() + &examples.collect::<String>();
        // An example is no reason to have no draft.
        let lines = if read(&more).is_ok() { more } else { lines };
        Ok(before + &lines)
    }

    /// The tools without a rule of the user's, by app.
    fn apps(&self, observed: &Observed, own: &Config) -> BTreeMap<String, Vec<Tool>> {
        let mut all = observed.offered.clone();
        let used = observed.used.keys();
        for (app, tool) in used.filter(|name| observed.tool(name).is_none()) {
            let tool = Tool::new(tool, &Value::Null, Hints::default());
            all.entry(app.clone()).or_default().push(tool);
        }
        all.retain(|app, tools| {
            let rules = own.apps.get(app).map(|app| &app.rules.tools);
            let is_ruled = |tool: &Tool| rules.is_some_and(|it| it.contains_key(&tool.name));
            // Tools of the gateway behind an agent have the rules of their apps.
            let ours = ["mcp__sluice__", "sluice_"];
            let is_ours = |tool: &Tool| ours.iter().any(|it| tool.name.starts_with(it));
            tools.retain(|tool| !is_ruled(tool) && !is_ours(tool));
            !tools.is_empty() && self.profile != Some(app)
        });
        all
    }

    /// The tables of an app.
    fn app(&self, app: &str, tools: &[Tool], own: &Config, observed: &Observed) -> String {
        let configured = own.apps.get(app);
        let mut servers = self.servers.iter().filter(|_| configured.is_none());
        let server = servers.find(|(wish, _)| wish.name == app);
        let known = configured.and_then(Known::of_app);
        let known = known.as_ref();
        let is_known = |tool: &Tool| known.is_some_and(|it| it.rule(app, tool).is_some());
        let name = key(app);
        let mut text = match (server, configured) {
            (Some((wish, data)), _) => server_of(wish, data, tools),
            (None, Some(_)) => known.map_or_else(String::new, |it| it.rules(app, tools)),
            (None, None) => format!("\n[app.{name}]\nclient = true\ndraft = true\n"),
        };
        for tool in tools {
            if server.is_none() && !is_known(tool) {
                text += &format!("\n{}format = \"text\"\n", proposal::rule(&name, tool));
            }
            let of = (app.to_owned(), tool.name.clone());
            let calls = observed.used.get(&of).map_or(&[][..], |used| &used.calls);
            let mut lists = observed.sources(&of, tools);
            if lists.is_empty() {
                lists = proposal::lists(tool, tools);
            }
            let advice = proposal::advice(tool, &folders(calls), &lists);
            text = with_advice(
                &text,
                &format!("[app.{name}.tools.{}]\n", key(&tool.name)),
                &advice,
            );
        }
        text
    }
}

/// Puts lines at the end of a table, where they count without their `#`.
fn with_advice(text: &str, header: &str, advice: &str) -> String {
    let Some((before, after)) = text.split_once(header) else {
        return text.to_owned();
    };
    let end = after.find("\n[").map_or(after.len(), |at| at + 1);
    let (own, rest) = after.split_at(end);
    format!("{before}{header}{own}{advice}{rest}")
}

/// The folder and the text of the user's configuration, if there is one.
fn own(named: Option<&Path>) -> Result<(Option<PathBuf>, String)> {
    match configuration::find(named)?.filter(|found| !found.is_of_another_program()) {
        Some(found) => Ok((found.path().parent().map(Path::to_owned), found.text()?)),
        None => Ok((None, String::new())),
    }
}

/// The tables of a server that another program lists. One with a secret in its command is left out.
fn server_of(wish: &Wish, data: &Data, tools: &[Tool]) -> String {
    let Some(wish) = foreign::without_secrets(wish) else {
        let name = quote(&wish.name);
        return format!("# {name} is left out: its command has a secret; see `sluice app add`.\n");
    };
    let mut text = block::of(&wish, data, tools).replace(ADDED, "");
    // What reaches nothing outside of its sandbox keeps what it is given: no argument of a read can leak.
    if !text.contains(".domain]]\n") && wish.connect.is_empty() && wish.url.is_none() {
        for effect in ["read", "read-once"] {
            let rule = |limit: &str| format!("effect = \"{effect}\"\nlimit = {limit}\n");
            text = text.replace(&rule("[\"untrusted\"]"), &rule("\"any\""));
        }
    }
    text
}

/// The outermost folders of this machine that calls name: what is there is a folder, and no other word.
fn folders(calls: &[Call]) -> Vec<String> {
    let mut all: BTreeSet<PathBuf> = BTreeSet::new();
    for call in calls {
        let arguments: BTreeMap<String, Value> =
            serde_json::from_str(&call.arguments).unwrap_or_default();
        let paths = arguments.values().filter_map(Value::as_str).map(Path::new);
        let own = paths.filter(|path| path.is_absolute());
        let own = own.filter_map(|path| path.ancestors().take(2).find(|it| it.is_dir()));
        // That of all files says nothing.
        all.extend(own.filter(|it| it.parent().is_some()).map(Path::to_owned));
    }
    let is_below = |it: &PathBuf| all.iter().any(|other| other != it && it.starts_with(other));
    let outer = all.iter().filter(|it| !is_below(it)).take(FOLDERS);
    outer
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

/// Calls of a tool, without what may be secret, with what the draft decides on them.
fn examples(config: &Config, (app, tool): &Name, listed: &Tool, calls: &[Call]) -> String {
    let policy = config.policy();
    let example = |call: &Call| {
        let arguments = masked(config, listed, call)?;
        let call = Call {
            arguments: arguments.as_str().into(),
            ..call.clone()
        };
        let data = call.data.iter();
        let data = data.map(|(path, label)| format!("{} = {}", key(path), list(label)));
        let (label, data) = (list(&call.label), data.collect::<Vec<_>>().join(", "));
        let expect = verdict(config, &policy, &Flow::Call(call))?.name();
        let is_plain = |c: char| c == ' ' || c.is_ascii_graphic() && c != '\'';
        let arguments = match arguments.chars().all(is_plain) {
            true => format!("'{arguments}'"),
            false => quote(&arguments),
        };
        let table = format!("\n[[app.{}.tools.{}.examples]]", key(app), key(tool));
        Some(format!(
            "{table}\narguments = {arguments}\nlabel = {label}\nlabels = {{ {data} }}\nexpect = \"{expect}\"\n"
        ))
    };
    let all: BTreeSet<String> = calls.iter().filter_map(example).collect();
    all.into_iter().take(EXAMPLES).collect()
}

/// The arguments of a call without those that may be secret: by their labels, their names or their forms. A name that the tool
/// does not list is the model's word, and can be a secret too.
fn masked(config: &Config, listed: &Tool, call: &Call) -> Option<String> {
    let mut arguments: Value = serde_json::from_str(&without_secrets(config, call)).ok()?;
    for (name, value) in arguments.as_object_mut()? {
        listed.arguments.iter().find(|(own, _)| own == name)?;
        let is_content = words(name).last().is_some_and(|last| is_in(CONTENT, last));
        mask(is_content || foreign::is_secret(name, ""), value);
    }
    Some(arguments.to_string())
}

fn mask(is_all: bool, value: &mut Value) {
    let is_secret = |text: &str| {
        let is_long = text.chars().count() > LETTERS;
        is_all || is_long || foreign::is_secret("", text)
    };
    match value {
        Value::String(text) if is_secret(text) => "[secret]".clone_into(text),
        Value::Number(number) if is_all => *number = 0.into(),
        Value::Array(values) => values.iter_mut().for_each(|value| mask(is_all, value)),
        // With the names of its members.
        Value::Object(_) => *value = "[secret]".into(),
        _ => {}
    }
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| quote(name)).collect();
    format!("[{}]", names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// The draft after calls of one tool, each with its arguments and the label of its control part.
    fn draft(tool: &str, calls: &[(Value, &[&str])]) -> String {
        let mut observed = Observed::default();
        let names = calls
            .iter()
            .flat_map(|call| call.0.as_object().unwrap().keys());
        let named: serde_json::Map<String, Value> =
            names.map(|it| (it.clone(), json!({}))).collect();
        let listed = Tool::new(tool, &json!({ "properties": named }), Hints::default());
        observed.offered.insert("agent".to_owned(), vec![listed]);
        for (arguments, label) in calls {
            observed.called(&Call {
                app: "agent".to_owned(),
                tool: tool.into(),
                arguments: arguments.to_string().into(),
                label: label.iter().map(|name| (*name).to_owned()).collect(),
                data: BTreeMap::new(),
            });
        }
        let folder = tempfile::tempdir().unwrap();
        let draft = Draft {
            folder: folder.path().to_owned(),
            ..Draft::default()
        };
        fs::read_to_string(draft.write(&observed).unwrap()).unwrap()
    }

    #[test]
    fn an_example_has_no_secret() {
        let key = "sk-0123456789abcdef0123";
        let long = "word ".repeat(20);
        let calls: [(Value, &[&str]); 3] = [
            (
                json!({ "to": "ann@example.org", "body": "hush1", "password": "hush2", "x": key }),
                &[],
            ),
            (
                json!({ "to": "ann@example.org", "x": { "hush3": 1, "y": [long] }, "z": [{ "hush5": 2 }] }),
                &[],
            ),
            (
                json!({ "to": "hush4", "pin": 4711 }),
                &["untrusted", "secret"],
            ),
        ];
        for call in &calls {
            let text = draft("send", std::slice::from_ref(call));
            assert!(text.contains("[[app.agent.tools.send.examples]]"), "{text}");
            for secret in ["hush", key, "word word", "4711"] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
            assert_eq!(
                text.contains("ann@example.org"),
                call.1.is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_comment_is_in_the_table_of_its_tool() {
        let text = "[a]\nx = 1\n\n[b]\ny = 2\n";
        let put = |header: &str| with_advice(text, header, "# z\n");
        assert_eq!(put("[a]\n"), "[a]\nx = 1\n\n# z\n[b]\ny = 2\n");
        assert_eq!(put("[b]\n"), format!("{text}# z\n"));
        assert_eq!(put("[c]\n"), text);
    }

    /// Names and values are the words of strangers.
    #[test]
    fn no_word_of_a_stranger_becomes_a_rule() {
        let odd = "x\"]\n[proxy]\nany_model = true\n#'''\u{202e}\u{1b}[2J";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a]\n[proxy]");
        fs::create_dir(&path).unwrap();
        for tool in [odd, "read_file", "send.examples"] {
            let text = draft(
                tool,
                &[(
                    json!({ odd: odd, "path": path, "n": null, "big": u64::MAX }),
                    &[],
                )],
            );
            assert!(text.is_ascii(), "{text}");
            assert!(
                !text
                    .lines()
                    .any(|line| line.starts_with("[proxy") || line.starts_with("any_model"))
            );
        }
    }
}

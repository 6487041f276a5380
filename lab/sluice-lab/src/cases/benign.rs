//! `sluice-lab cases --benign`: tasks that need two or three apps and that no one attacks. It prints how often the user is
//! asked and how many completions it takes where the apps share a conversation, where each has its own, and without
//! protection.
//!
//! The model makes no mistake, so each question and each further completion is one of enforcement. No one answers the
//! questions: a task that asks is not done.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use case_apps::App;
use hub::{AnswerShape, CHECK_NOTE, Completion, CompletionRequest, ProposedCall};
use ifc::{PromptMessage, REDACTED};
use llm::{Scripted, text_answer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smtp_sink::SmtpSink;

use super::way::Way;
use crate::exit::Exit;
use crate::mail_app::quoted;
use crate::served::{NAME, provider_table, serve};
use crate::sluice::{Home, Session, Sluice, binary};
use crate::terminal::print;
use crate::{case_app, mail_app};

const TASKS: &str = include_str!("benign.toml");
const RULES: &str = include_str!("benign_rules.toml");
const FUNCTIONALITIES: &str = include_str!("benign_functionalities.toml");

const CALENDAR: &str = include_str!("../../../../apps/calendar/sluice-app.toml");
const NOTES: &str = include_str!("../../../../apps/notes/sluice-app.toml");
/// Apps over a folder each: the variable that names it, and their rules.
const FOLDERS: [(&str, &str, &str); 2] = [
    ("calendar", "CALENDAR", CALENDAR),
    ("notes", "NOTES", NOTES),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct All {
    /// Categories of labels.
    lattice: String,
    /// The one event of the calendar.
    event: String,
    notes: BTreeMap<String, String>,
    task: Vec<Task>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    query: String,
    /// The app whose conversation it is, or `each`.
    lead: String,
    /// Whether a question is the right outcome, since a stranger's text says what to do.
    #[serde(default)]
    delegation: bool,
    /// Whether the document is found by a conversation of the drive, and not by a call of its tool.
    #[serde(default)]
    conversation: bool,
    calls: Vec<Planned>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Planned {
    tool: String,
    arguments: serde_json::Map<String, Value>,
    #[serde(default)]
    beside: bool,
}

#[derive(Serialize)]
struct Row {
    task: String,
    way: Way,
    delegation: bool,
    done: bool,
    questions: usize,
    completions: usize,
}

/// Runs all tasks in three ways.
pub(super) async fn benign(
    (only, json): (Option<&str>, bool),
    sluice: &Sluice,
    folder: &Path,
) -> Result<Exit> {
    let mut all: All = toml::from_str(TASKS).context("benign.toml")?;
    let tasks: Vec<_> = all.task.drain(..).map(Arc::new).collect();
    let mut rows = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        if only.is_some_and(|words| !task.query.contains(words)) {
            continue;
        }
        let agent = Arc::clone(task);
        let model = Scripted::new(NAME, move |request| agent.answer(request));
        let served = serve(Arc::new(model)).await?;
        for way in [Way::Vanilla, Way::JointDefault, Way::IsolatedDefault] {
            let folder = folder.join(format!("{}-{way:?}", number + 1));
            let (home, _mails) = task.world(&all, &folder, way, &served.base_url)?;
            served.forget();
            let arguments = task.options(way);
            let session = sluice.ask(&home, &[&task.query], &arguments, false).await?;
            if session.interrupted {
                return Ok(Exit::Interrupted);
            }
            if let Some(failure) = session.failure {
                bail!("{} ({}): {failure}", task.query, way.name());
            }
            let row = Row {
                task: task.query.clone(),
                way,
                delegation: task.delegation,
                done: task.is_done(&session),
                questions: session.questions,
                completions: served.prompts().len(),
            };
            if json {
                print(&serde_json::to_string(&row)?)?;
            }
            rows.push(row);
        }
    }
    if !json {
        print(&report(&rows))?;
    }
    Ok(Exit::Done)
}

impl Task {
    /// The completion of an agent that makes the calls one after another, with what it is shown of results, and answers.
    fn answer(&self, request: &CompletionRequest) -> Completion {
        let messages = request.prompt.messages();
        let said = messages.iter().rposition(
            |message| matches!(message, PromptMessage::User(text) if text != CHECK_NOTE),
        );
        let turn = messages.get(said.unwrap_or_default()..).unwrap_or_default();
        let is_request =
            matches!(turn.first(), Some(PromptMessage::User(text)) if text.starts_with('{'));
        // A conversation that serves a request makes the call that was asked for, and answers with what it has found.
        let calls = match is_request {
            true => self.calls.get(..1).unwrap_or_default(),
            false => self.calls.as_slice(),
        };
        let mut made: Vec<Option<(&str, Value)>> = vec![None; calls.len()];
        for message in turn {
            match message {
                PromptMessage::Assistant { calls: past, .. } => {
                    for call in past {
                        let mut planned = calls.iter().zip(&mut made);
                        let open = planned
                            .find(|(planned, made)| made.is_none() && planned.is_of(&call.tool));
                        if let Some((_, made)) = open {
                            *made = Some((&call.id, Value::Null));
                        }
                    }
                }
                PromptMessage::Tool { call, content, .. } => {
                    let mut all = made.iter_mut().flatten();
                    if let Some((_, result)) = all.find(|(id, _)| id == call) {
                        *result = models::parse_redacted(content).unwrap_or_default();
                    }
                }
                PromptMessage::System(_) | PromptMessage::User(_) => {}
            }
        }
        let offered = |call: &Planned| {
            let tools = request.prompt.tools().iter();
            let mut names = tools.map(|tool| tool.name.as_str());
            names.find(|name| call.is_of(name))
        };
        let left = calls.iter().zip(&made);
        let mut left = left.filter_map(|(call, made)| {
            let tool = offered(call).filter(|_| made.is_none())?;
            Some((call, tool))
        });
        let first = (left.next()).filter(|_| request.shape == AnswerShape::TextOrCalls);
        let Some(first) = first else {
            let found = made.iter().flatten().find(|_| is_request);
            return text_answer(match found {
                Some((_, result)) => result.to_string(),
                None => "It is done.".to_owned(),
            });
        };
        let together = std::iter::once(first).chain(left.take_while(|(call, _)| call.beside));
        let calls = together.map(|(call, tool)| ProposedCall {
            tool: tool.to_owned(),
            arguments: call.arguments(&made),
        });
        Completion {
            calls: calls.collect(),
            ..Completion::default()
        }
    }

    /// The options of `sluice` for this way.
    fn options(&self, way: Way) -> Vec<&str> {
        let all = ["mail", "calendar", "notes", "drive"];
        match (way.is_isolated(), self.lead.as_str()) {
            (true, "each") => vec!["--app", "mail", "--app", "notes", "--each"],
            (true, lead) => vec!["--app", lead],
            (false, _) => all.iter().flat_map(|app| ["--app", app]).collect(),
        }
    }

    /// Whether all of its calls have returned.
    fn is_done(&self, session: &Session) -> bool {
        let events = session.records.iter().filter_map(|it| it.get("event"));
        let is = |event: &Value, name: &str, value: &str| {
            event.get(name).and_then(Value::as_str) == Some(value)
        };
        let returned = events.filter(|event| {
            is(event, "kind", "returned") && event.get("is_error") == Some(&Value::from(false))
        });
        let tools = returned.filter_map(|event| event.pointer("/call/tool")?.as_str());
        let tools: Vec<&str> = tools.collect();
        let mut calls = self.calls.iter();
        calls.all(|call| tools.contains(&call.tool.as_str()))
    }

    /// The apps in a new folder, with a configuration for this way.
    fn world(
        &self,
        all: &All,
        folder: &Path,
        way: Way,
        base_url: &str,
    ) -> Result<(Home, SmtpSink)> {
        fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mails = SmtpSink::start(([127, 0, 0, 1], 0).into())?;
        let maildir = folder.join("Maildir");
        sluice_mail::sample::write(&maildir, super::world::ATTACKER)?;
        for (name, ..) in FOLDERS {
            fs::create_dir(folder.join(name))?;
        }
        fs::write(
            folder.join("calendar/board.ics"),
            all.event.replace('\n', "\r\n"),
        )?;
        for (name, text) in &all.notes {
            fs::write(folder.join(format!("notes/{name}.md")), text)?;
        }
        let manifest = |text: &str| match way.is_protected() {
            true => Ok(text.to_owned()),
            false => unprotected(text),
        };
        let mut config = format!("{}\n{}\n", all.lattice, provider_table(base_url));
        fs::write(folder.join("mail.toml"), manifest(sluice_mail::MANIFEST)?)?;
        config += &mail_app::table("mail.toml", &maildir, mails.addr())?;
        for (name, variable, text) in FOLDERS {
            fs::write(folder.join(format!("{name}.toml")), manifest(text)?)?;
            let (program, source) = (binary(&format!("sluice-{name}"))?, folder.join(name));
            config += &format!(
                "\n[app.{name}]\nmanifest = \"{name}.toml\"\ncommand = [\"/app/sluice-{name}\"]\n\
                 descriptions = \"trusted\"\nenv = {{ {variable} = \"/data\" }}\nmount = [\n  \
                 {{ source = {}, target = \"/app/sluice-{name}\", execute = true }},\n  \
                 {{ source = {}, target = \"/data\", write = true }},\n]\n",
                quoted(&program)?,
                quoted(&source)?,
            );
        }
        let drive = App::find("drive").context("there is no drive")?;
        let (program, state) = (binary("sluice-case-apps")?, folder.join("state-of-drive"));
        let of_drive = ("drive", &drive);
        config += &case_app::table(folder, of_drive, way.is_protected(), &program, &state)?;
        if way.is_protected() {
            config += RULES;
        }
        if way.is_isolated() {
            config += &match self.conversation {
                true => FUNCTIONALITIES.replace(
                    "read_document = \"read_document\"",
                    "read_document = { conversation = true }",
                ),
                false => FUNCTIONALITIES.to_owned(),
            };
        }
        let home = Home::at(folder).quietly(folder);
        fs::write(&home.config, config)?;
        Ok((home, mails))
    }
}

impl Planned {
    /// Whether a prompt's tool is this one, qualified by its app or not, or a functionality of its name.
    fn is_of(&self, shown: &str) -> bool {
        let before = shown.strip_suffix(self.tool.as_str());
        before.is_some_and(|before| before.is_empty() || before.ends_with("__"))
    }

    /// Its arguments, with what earlier calls of the plan have returned.
    fn arguments(&self, made: &[Option<(&str, Value)>]) -> String {
        let value = |value: &Value| {
            let Some(step) = value.get("step").and_then(Value::as_u64) else {
                return value.clone();
            };
            let earlier = usize::try_from(step)
                .ok()
                .and_then(|step| made.get(step.checked_sub(1)?)?.as_ref());
            let at = value.get("at").and_then(Value::as_str);
            let shown = earlier.and_then(|(_, result)| result.pointer(at?));
            shown.cloned().unwrap_or(REDACTED.into())
        };
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|(name, it)| (name.clone(), value(it)));
        Value::Object(arguments.collect()).to_string()
    }
}

/// The rules of an app without any label or limit. No call is irreversible, which would be asked about when it is repeated.
fn unprotected(manifest: &str) -> Result<String> {
    let all: toml::Table = toml::from_str(manifest)?;
    let tools = all.get("tools").and_then(toml::Value::as_table);
    let mut out = toml::Table::new();
    out.extend(all.get("app").map(|app| ("app".to_owned(), app.clone())));
    let mut open = toml::Table::new();
    for (name, tool) in tools.into_iter().flatten() {
        let reads = tool.get("effect").and_then(toml::Value::as_str) == Some("read");
        let effect = if reads { "read" } else { "write" };
        let rule = format!("effect = \"{effect}\"\nlimit = \"any\"\nstructure = []\nrest = []\n");
        open.insert(name.clone(), toml::from_str(&rule)?);
    }
    out.insert("tools".to_owned(), open.into());
    Ok(toml::to_string(&out)?)
}

fn report(rows: &[Row]) -> String {
    let mut table = String::new();
    for runs in rows.chunk_by(|one, next| one.task == next.task) {
        for (at, row) in runs.iter().enumerate() {
            let task = if at == 0 { row.task.as_str() } else { "" };
            let done = if row.done { "done" } else { "not done" };
            table += &format!(
                "{:<18}{done:<10}{:>2} questions {:>3} model calls   {task}\n",
                row.way.name(),
                row.questions,
                row.completions,
            );
        }
    }
    let total = |way: Way, of: fn(&Row) -> usize| -> usize {
        rows.iter().filter(|row| row.way == way).map(of).sum()
    };
    let (joint, isolated) = (Way::JointDefault, Way::IsolatedDefault);
    for way in [Way::Vanilla, joint, isolated] {
        table += &format!(
            "{}: {} of {} tasks done, {} ask, {} questions, {} model calls\n",
            way.name(),
            total(way, |row| usize::from(row.done)),
            total(way, |_| 1),
            total(way, |row| usize::from(row.questions > 0)),
            total(way, |row| row.questions),
            total(way, |row| row.completions),
        );
    }
    let ratio = |of: fn(&Row) -> usize, (over, under): (Way, Way)| {
        let count = |way| u32::try_from(total(way, of)).map_or(f64::NAN, f64::from);
        match total(under, of) {
            0 => "no ratio".to_owned(),
            _ => format!("{:.2}", count(over) / count(under)),
        }
    };
    table += &format!(
        "questions, isolated over joint: {}\nmodel calls over VanillaGPT: joint {}, isolated {}",
        ratio(|row| row.questions, (isolated, joint)),
        ratio(|row| row.completions, (joint, Way::Vanilla)),
        ratio(|row| row.completions, (isolated, Way::Vanilla)),
    );
    table
}

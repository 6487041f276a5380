//! `sluice approve`: the questions of every Sluice program of this user, listed and answered from a terminal or a script.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hub::question::Shown;
use hub::trace::escape;
use serde_json::json;
use server::desk;
use store::{Answerer, Desk, DeskError, KeptQuestion, KeptToken};

use super::token::{has_person, open};
use crate::exit::Exit;
use crate::json_lines::{print_json, show};
use crate::os_user;
use crate::permissions::now;
use crate::question::{full, shortened};
use crate::terminal::{columns, message, print_escaped, say};

/// The variable with the token of a program that answers.
const TOKEN: &str = "SLUICE_TOKEN";
/// Digits of an id in a list. Beginnings that several questions have can be written longer.
const DIGITS: usize = 8;
/// How often `--wait` looks.
const LOOK: Duration = Duration::from_millis(200);
/// Columns of the call in a list.
const CALL: usize = 60;

#[derive(Debug, Args)]
pub(crate) struct Approve {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Args)]
struct Given {
    /// The id that `list` shows, or its beginning.
    id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the questions that wait, the oldest first.
    #[command(
        after_help = "Example:\n  sluice approve list\n  sluice approve list --wait --json | head -n 1"
    )]
    List {
        /// Print JSON, one question per line.
        #[arg(long)]
        json: bool,
        /// Wait until there is one.
        #[arg(long)]
        wait: bool,
        /// Only those of this session.
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
    },
    /// Show a question in full, and what each answer would allow.
    #[command(after_help = "Example:\n  sluice approve show 1f0c9e52")]
    Show(Given),
    /// Allow the call once.
    #[command(after_help = "Example:\n  sluice approve yes 1f0c9e52")]
    Yes(Given),
    /// Deny it.
    #[command(after_help = "Example:\n  sluice approve no 1f0c9e52")]
    No(Given),
    /// Give one of the answers that `show` lists, such as `session` or `trust`.
    #[command(after_help = "Example:\n  sluice approve answer 1f0c9e52 session")]
    Answer {
        #[command(flatten)]
        given: Given,
        /// The answer.
        answer: String,
    },
}

/// Lists, shows or answers questions.
pub(crate) async fn approve(args: &Approve) -> Result<Exit> {
    let approver = Approver::new()?;
    match &args.action {
        Action::List {
            json,
            wait,
            session,
        } => approver.list(*json, *wait, session.as_deref()).await,
        Action::Show(given) => approver.show(given),
        Action::Yes(given) => approver.answer(given, "once"),
        Action::No(given) => approver.answer(given, "no"),
        Action::Answer { given, answer } => approver.answer(given, answer),
    }
}

/// The one who answers: a token, or the user of this process.
struct Approver {
    desk: Desk,
    token: Option<KeptToken>,
}

impl Approver {
    fn new() -> Result<Self> {
        let desk = open()?;
        let token = match env::var(TOKEN) {
            Ok(secret) => {
                let found = desk.admit(secret.trim(), now())?;
                // Not the user's own rights: they may be wider than those that the token was to have.
                Some(found.with_context(|| {
                    format!(
                        "the token in ${TOKEN} does not count; it was revoked, or it has expired"
                    )
                })?)
            }
            Err(env::VarError::NotPresent) => None,
            Err(error) => bail!("${TOKEN}: {error}"),
        };
        Ok(Self { desk, token })
    }

    fn may_see(&self, question: &KeptQuestion) -> bool {
        let token = self.token.as_ref();
        token.is_none_or(|token| token.may_see(&question.question))
    }

    async fn list(&self, as_json: bool, wait: bool, session: Option<&str>) -> Result<Exit> {
        let is_of = |it: &KeptQuestion| session.is_none_or(|own| it.question.session == own);
        let (all, unreadable) = loop {
            let version = self.desk.version()?;
            let found = self.desk.waiting(now())?;
            let mut all = found.all;
            all.retain(|question| self.may_see(question) && is_of(question));
            if !wait || !all.is_empty() {
                break (all, found.unreadable);
            }
            // Not the questions themselves, which may be large.
            while self.desk.version()? == version {
                tokio::time::sleep(LOOK).await;
            }
        };
        if all.is_empty() && !as_json {
            say("no question waits\n");
        }
        for question in &all {
            let shown = shown(question);
            show(
                as_json,
                &desk::shown(question, now()),
                &line(question, shown.as_ref().ok()),
            )?;
        }
        // A token with limits cannot count what it may not see.
        if self.token.is_none() && !unreadable.is_empty() {
            bail!(
                "{} cannot be read, and will be denied",
                unreadable.join(", ")
            );
        }
        Ok(Exit::Done)
    }

    fn show(&self, given: &Given) -> Result<Exit> {
        let question = self.find(&given.id)?;
        let shown = shown(&question)?;
        if given.json {
            print_json(&desk::shown(&question, now()))?;
            return Ok(Exit::Done);
        }
        print_escaped(full(&shown, columns()).finish().trim_end())?;
        let names: Vec<&str> = question
            .question
            .choices
            .iter()
            .map(String::as_str)
            .collect();
        let state = match &question.answer {
            Some(given) => format!("It was answered: {}.\n", escape(&given.to_string())),
            None if !question.waits(now()) => "It waits no longer.\n".to_owned(),
            None => {
                let id = beginning(&question);
                format!(
                    "Answer it with `sluice approve answer {id} ANSWER`: {}.\n",
                    names.join(", ")
                )
            }
        };
        say(&state);
        Ok(Exit::Done)
    }

    /// The question with this id. What this approver may not see does not exist.
    fn find(&self, id: &str) -> Result<KeptQuestion> {
        let found = self
            .desk
            .find(id)?
            .filter(|question| self.may_see(question));
        found.with_context(|| {
            format!(
                "there is no question {}; list them with `sluice approve list`",
                escape(id)
            )
        })
    }

    fn answer(&self, given: &Given, answer: &str) -> Result<Exit> {
        let question = self.find(&given.id)?;
        let mut allows = String::new();
        if answer != "no" {
            if self.token.is_none() && !has_person() {
                bail!(
                    "without a terminal only a token allows something: set ${TOKEN} to one of `sluice token new`"
                );
            }
            // What cannot be shown was not seen.
            let choices = shown(&question)?.choices.into_iter();
            allows = choices
                .filter(|choice| choice.answer == answer)
                .map(|choice| choice.meaning)
                .collect();
        }
        let by = Answerer {
            name: Some(match &self.token {
                Some(token) => token.name.clone(),
                None => os_user::name(),
            }),
            from: "approve".to_owned(),
        };
        let error = match self.desk.answer(question.id, answer, &by, now()) {
            Ok(()) => None,
            Err(error @ (DeskError::Answered(_) | DeskError::NotAllowed(_))) => Some(error),
            Err(error) => return Err(error.into()),
        };
        if given.json {
            print_json(&json!({
                "id": question.id.to_string(),
                "answer": answer,
                "counted": error.is_none(),
                "error": error.as_ref().map(ToString::to_string),
            }))?;
        }
        match error {
            None if given.json => {}
            None if allows.is_empty() => say(&format!("answered: {answer}\n")),
            None => say(&format!("answered: {answer}. {allows}\n")),
            Some(error) => {
                message(&format!("sluice: {error}"));
                return Ok(Exit::Refused);
            }
        }
        Ok(Exit::Done)
    }
}

/// What a question shows. It was written by another version of this program if it cannot be read.
fn shown(question: &KeptQuestion) -> Result<Shown> {
    serde_json::from_str(&question.question.shown).with_context(|| {
        format!(
            "the question {} cannot be shown; answer it where it is asked, or deny it",
            beginning(question)
        )
    })
}

fn beginning(question: &KeptQuestion) -> String {
    question.id.to_string().chars().take(DIGITS).collect()
}

/// The call, its most important arguments, and how long it waits.
fn line(kept: &KeptQuestion, shown: Option<&Shown>) -> String {
    let question = &kept.question;
    let what = match question.tool.is_empty() {
        true => question.app.clone(),
        false => format!("{}.{}", question.app, question.tool),
    };
    let call = match shown {
        None => "(cannot be shown)".to_owned(),
        Some(shown) => {
            let arguments = shown.arguments.iter();
            let arguments = arguments.map(|it| format!("{}: {}", it.name, it.value));
            let text: Vec<String> = arguments.chain(shown.text.clone()).collect();
            text.join(", ")
        }
    };
    let now = now().millis();
    let seconds = |from: i64, to: i64| to.saturating_sub(from).max(0) / 1000;
    let approvers = match question.approvers.as_slice() {
        [] => String::new(),
        names => format!("  for {}", names.join(", ")),
    };
    format!(
        "{}  {} ({})  {}  {}, {} s, {} s left{approvers}",
        beginning(kept),
        shortened(&escape(&what), CALL),
        question.effect,
        shortened(&escape(&call), CALL),
        question.front,
        seconds(kept.asked.millis(), now),
        seconds(now, question.expires.millis()),
    )
}

//! `sluice approve`: the questions of every Sluice program of this user, listed and answered from a terminal or a script.

use std::env;
use std::io::{IsTerminal, stdout};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hub::question::Shown;
use hub::trace::escape;
use serde_json::json;
use server::desk;
use store::{Answerer, Desk, DeskError, KeptQuestion, KeptToken, QuestionHead, Role};

use super::token::{DeskOf, has_person};
use crate::exit::Exit;
use crate::json_lines::{print_json, show};
use crate::os_user;
use crate::permissions::now;
use crate::question::{self, full, shortened, word};
use crate::terminal::{Terminal, columns, is_agreed, message, print_escaped, say};

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
    #[command(flatten)]
    desk: DeskOf,
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
    #[command(
        visible_alias = "once",
        after_help = "Example:\n  sluice approve yes 1f0c9e52"
    )]
    Yes(Given),
    /// Deny it.
    #[command(
        visible_alias = "deny",
        after_help = "Example:\n  sluice approve no 1f0c9e52"
    )]
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
    let approver = Approver::new(&args.desk).await?;
    match &args.action {
        Action::List {
            json,
            wait,
            session,
        } => approver.list(*json, *wait, session.as_deref()).await,
        Action::Show(given) => approver.show(given).await,
        Action::Yes(given) => approver.answer(given, "once").await,
        Action::No(given) => approver.answer(given, "no").await,
        Action::Answer { given, answer } => {
            // The words of the other commands, and the letters of a terminal.
            let answer = match answer.as_str() {
                "yes" | "o" => "once",
                "deny" | "d" => "no",
                answer => answer,
            };
            approver.answer(given, answer).await
        }
    }
}

/// The one who answers: a token, or the user of this process.
struct Approver<'a> {
    of: &'a DeskOf,
    desk: Arc<Desk>,
    token: Option<KeptToken>,
}

impl<'a> Approver<'a> {
    async fn new(of: &'a DeskOf) -> Result<Self> {
        let desk = of.open().await?;
        let token = match env::var(TOKEN) {
            Ok(secret) => {
                let found = desk.admit(secret.trim(), now()).await?;
                // Not the user's own rights: they may be wider than those that the token was to have.
                Some(found.with_context(|| {
                    format!(
                        "the token in ${TOKEN} does not count: it is no token, was revoked, or has expired"
                    )
                })?)
            }
            Err(env::VarError::NotPresent) => None,
            Err(error) => bail!("${TOKEN}: {error}"),
        };
        if token
            .as_ref()
            .is_some_and(|token: &KeptToken| token.role == Role::Agent)
        {
            bail!("the token in ${TOKEN} is one of an agent, which sees no questions");
        }
        Ok(Self { of, desk, token })
    }

    fn may_see(&self, question: &QuestionHead) -> bool {
        let token = self.token.as_ref();
        token.is_none_or(|token| token.may_see(question))
    }

    async fn list(&self, as_json: bool, wait: bool, session: Option<&str>) -> Result<Exit> {
        let is_of = |it: &KeptQuestion| session.is_none_or(|own| it.question.session == own);
        let mut is_said = false;
        let (all, unreadable) = loop {
            let version = self.desk.version().await?;
            let found = self.desk.waiting_for(now(), |head| self.may_see(head));
            let found = found.await?;
            let mut all = found.all;
            all.retain(is_of);
            if !wait || !all.is_empty() {
                break (all, found.unreadable);
            }
            if !as_json && !is_said {
                say("no question waits; waiting for one, until Ctrl-C\n");
                is_said = true;
            }
            // Not the questions themselves, which may be large.
            while self.desk.version().await? == version {
                tokio::time::sleep(LOOK).await;
            }
        };
        if all.is_empty() && !as_json {
            say("no question waits\n");
        }
        // A row that the terminal breaks would go on with foreign text.
        let width = match stdout().is_terminal() {
            true => columns(),
            false => usize::MAX,
        };
        for question in &all {
            let shown = shown(question);
            show(
                as_json,
                &desk::shown(question, now()),
                &line(question, shown.as_ref().ok(), width),
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

    async fn show(&self, given: &Given) -> Result<Exit> {
        let question = self.find(&given.id).await?;
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
                let answer = format!("sluice approve answer {} ANSWER", beginning(&question));
                let answer = self.of.command(&answer);
                format!(
                    "{} asks{}, {}.\nAnswer it with `{answer}`: {}.\n",
                    question.question.front,
                    for_whom(&question),
                    times(&question),
                    names.join(", ")
                )
            }
        };
        say(&state);
        Ok(Exit::Done)
    }

    /// The question with this id. What this approver may not see does not exist.
    async fn find(&self, id: &str) -> Result<KeptQuestion> {
        let found = self.desk.find(id).await?;
        let found = found.filter(|kept| self.may_see(&kept.question.head(kept.id)));
        found.with_context(|| {
            format!(
                "there is no question {}; list them with `{}`",
                escape(id),
                self.of.command("sluice approve list")
            )
        })
    }

    async fn answer(&self, given: &Given, answer: &str) -> Result<Exit> {
        let question = self.find(&given.id).await?;
        let mut allows = String::new();
        if answer != "no" {
            if self.token.is_none() && !has_person() {
                let new = self.of.command("sluice token new NAME");
                bail!(
                    "without a terminal only a token allows something: set ${TOKEN} to one of `{new}`"
                );
            }
            // What cannot be shown was not seen.
            let shown = shown(&question)?;
            let is_offered = shown.choices.iter().any(|it| it.answer == answer);
            // Such an answer covers more than the call that `list` shows.
            if answer != "once" && is_offered && (self.token.is_none() || Terminal::attended()) {
                say(&full(&shown, columns()).finish());
                let prompt = format!("Type {answer} to allow this [no]: ");
                if !is_agreed(&prompt, answer) {
                    say("nothing was answered\n");
                    return Ok(Exit::Refused);
                }
            }
            let choices = shown.choices.into_iter();
            allows = choices
                .filter(|choice| choice.answer == answer)
                .map(|choice| choice.meaning)
                .collect();
        }
        let (id, from) = (question.id, "approve");
        let by = || Answerer {
            name: Some(os_user::name()),
            from: from.to_owned(),
        };
        let answered = match &self.token {
            Some(token) => self.desk.answer_by(id, answer, token, from, now()).await,
            None => self.desk.answer(id, answer, &by(), now()).await,
        };
        let error = match answered {
            Ok(()) => None,
            Err(
                error @ (DeskError::Answered(_)
                | DeskError::NotAllowed(_)
                | DeskError::AskerUnknown),
            ) => Some(error),
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
            None => say(&format!("answered: {answer}\n{answer}: {allows}\n")),
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
fn line(kept: &KeptQuestion, shown: Option<&Shown>, width: usize) -> String {
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
    let approvers = match question.approvers.as_slice() {
        [] => String::new(),
        names => format!("  for {}", escape(&names.join(", "))),
    };
    let what = shortened(&escape(&what), CALL);
    let head = format!("{}  {what} ({})  ", beginning(kept), question.effect);
    let tail = format!(
        "  {}{}, {}{approvers}",
        question.front,
        for_whom(kept),
        times(kept)
    );
    let used = question::columns(&head) + question::columns(&tail);
    let call = shortened(&escape(&call), CALL.min(width.saturating_sub(used)));
    shortened(&format!("{head}{call}{tail}"), width)
}

/// ` for ada of team-a`: the user or the agent's token, and the tenant.
fn for_whom(kept: &KeptQuestion) -> String {
    let (asker, tenant) = (kept.question.asker.iter(), kept.question.tenant.iter());
    let asker = asker.map(|name| format!(" for {}", word(name)));
    asker
        .chain(tenant.map(|name| format!(" of {}", word(name))))
        .collect()
}

/// How long a question has waited, and how much longer it does.
fn times(kept: &KeptQuestion) -> String {
    let now = now().millis();
    let span = |from: i64, to: i64| match to.saturating_sub(from).max(0) / 1000 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    };
    let (asked, expires) = (kept.asked.millis(), kept.question.expires.millis());
    format!("since {}, {} left", span(asked, now), span(now, expires))
}

#[cfg(test)]
mod tests {
    use store::{NewQuestion, Time};

    use super::*;

    #[tokio::test]
    async fn a_row_of_the_list_is_not_broken() {
        let new = NewQuestion {
            front: "proxy".to_owned(),
            session: String::new(),
            conversation: String::new(),
            tenant: None,
            asker: None,
            app: "bank".repeat(30),
            tool: "pay".to_owned(),
            effect: "write".to_owned(),
            choices: vec!["no".to_owned()],
            approvers: Vec::new(),
            shown: String::new(),
            expires: Time::from_millis(now().millis() + 90_000_000),
            key: None,
        };
        let desk = Desk::in_memory().unwrap();
        let id = desk.ask(&new, now()).await.unwrap().id;
        let kept = desk.find(&id.to_string()).await.unwrap().unwrap();
        let shown = Shown {
            text: Some("x ".repeat(300)),
            ..Shown::default()
        };
        for width in [24, 80, 120, 170] {
            let row = line(&kept, Some(&shown), width);
            assert!(question::columns(&row) <= width, "{row}");
            assert!(
                width < 120 || row.ends_with("proxy, since 0 s, 24 h left"),
                "{row}"
            );
        }
    }
}

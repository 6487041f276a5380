//! `sluice token`: tokens by which other people answer questions.

use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand, builder::PossibleValuesParser};
use config::{Config, Diagnostic, Severity};
use hub::trace::escape;
use ifc::Effect;
use policy::Place;
use serde_json::{Value, json};

use store::{Desk, KeptToken, NewToken, Role, Time};

use crate::exit::Exit;
use crate::json_lines::{print_json, show};
use crate::paths;
use crate::permissions::now;
use crate::terminal::{print, say};
use crate::words::minute;

#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a token for a person. It is printed once; only its digest is stored.
    #[command(
        after_help = "Example:\n  sluice token new ada\n  sluice token new ada --apps mail,calendar --effects read,write --for 30d\n\n\
                      The holder of the token answers questions in this name: on the page of `sluice desk`, over HTTP, and with\n\
                      `sluice approve` in $SLUICE_TOKEN. Programs without a terminal cannot make one."
    )]
    New {
        /// The person: the name in `approvers`, and under which answers are recorded.
        name: String,
        /// Show only questions about these apps, with commas between them [default: all].
        #[arg(long, value_delimiter = ',', value_name = "APPS")]
        apps: Vec<String>,
        /// Show only questions about calls with these effects, with commas between them [default: all].
        #[arg(long, value_delimiter = ',', value_name = "EFFECTS",
            value_parser = PossibleValuesParser::new(Effect::ALL.map(Effect::name)))]
        effects: Vec<String>,
        /// How long it counts: a number with m, h, d or w (minutes, hours, days, weeks) [default: until it is revoked].
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        lasts: Option<i64>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the tokens by name: what they are for, until when, and when they were last used (local time).
    #[command(after_help = "Example:\n  sluice token list --json")]
    List {
        /// Print JSON, one token per line.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token. Programs that are running refuse it from now on.
    #[command(after_help = "Example:\n  sluice token revoke ada")]
    Revoke {
        /// The name of the token.
        name: String,
    },
}

/// Makes, lists or revokes tokens.
pub(crate) fn token(args: &Token) -> Result<Exit> {
    let desk = open()?;
    match &args.action {
        Action::New {
            name,
            apps,
            effects,
            lasts,
            json,
        } => {
            let expires =
                lasts.map(|lasts| Time::from_millis(now().millis().saturating_add(lasts)));
            let new = NewToken {
                name: name.clone(),
                role: Role::Approver,
                apps: apps.clone(),
                effects: effects.clone(),
                expires,
            };
            make(&desk, &new, *json)
        }
        Action::List { json } => list(&desk, *json),
        Action::Revoke { name } => match desk.revoke(name)? {
            true => {
                say("revoked\n");
                Ok(Exit::Done)
            }
            false => bail!(
                "there is no token '{}'; list them with `sluice token list`",
                escape(name)
            ),
        },
    }
}

/// The questions and tokens of this user.
pub(crate) fn open() -> Result<Desk> {
    Desk::open(&paths::desk()?).context("the questions and tokens cannot be read")
}

/// A warning for each tool whose approvers cannot answer: a token alone is an approver.
pub(crate) fn without_token(config: &Config) -> Result<Vec<Diagnostic>> {
    let tools = config.apps.values().flat_map(|app| {
        let others = app.rules.other_tools.iter();
        app.rules.tools.values().chain(others)
    });
    let named = tools.filter_map(|rule| Some((rule.approvers.as_ref()?, rule.place.as_ref()?)));
    let named: Vec<(&Arc<[String]>, &Place)> = named.collect();
    if named.is_empty() {
        // To look for tokens would make their file.
        return Ok(Vec::new());
    }
    let tokens = open()?.tokens()?;
    let cannot_answer = |name: &&String| {
        let counts = |it: &KeptToken| it.name == **name && it.expires.is_none_or(|end| now() < end);
        !tokens.iter().any(counts)
    };
    let warning = |(names, place): (&Arc<[String]>, &Place)| {
        let missing: Vec<&str> = names
            .iter()
            .filter(cannot_answer)
            .map(String::as_str)
            .collect();
        (!missing.is_empty()).then(|| Diagnostic {
            severity: Severity::Warning,
            file: place.file.clone(),
            line: place.line,
            column: 1,
            message: format!(
                "of the approvers {} cannot answer: there is no token",
                missing.join(", ")
            ),
            help: Some("make one with `sluice token new NAME`".to_owned()),
            excerpt: String::new(),
            width: 1,
        })
    };
    Ok(named.into_iter().filter_map(warning).collect())
}

/// Whether a person is there: a program that runs as the user, such as an agent with a shell, has no terminal as a rule. It
/// is no wall: what keeps an agent from answering its own questions is the sandbox of `sluice guard`.
pub(crate) fn has_person() -> bool {
    std::io::stdin().is_terminal()
}

fn make(desk: &Desk, new: &NewToken, as_json: bool) -> Result<Exit> {
    if !config::is_approver_name(&new.name) {
        bail!("the name of a token has at most 64 letters, digits, '-', '_', '.' and '@'");
    }
    // An empty name would look like a limit that is not there.
    if new.apps.iter().any(String::is_empty) {
        bail!("--apps has an empty name; write the names of apps with commas between them");
    }
    if !has_person() {
        bail!("a token lets others answer in your place, so it is made at a terminal only");
    }
    let secret = desk.new_token(new, now())?;
    if as_json {
        print_json(&json!({"name": new.name, "token": secret}))?;
        return Ok(Exit::Done);
    }
    say(&format!(
        "The token of {}; it is not shown again:\n",
        new.name
    ));
    print(&secret)?;
    Ok(Exit::Done)
}

fn list(desk: &Desk, as_json: bool) -> Result<Exit> {
    let tokens = desk.tokens()?;
    if tokens.is_empty() && !as_json {
        say("there are no tokens; make one with `sluice token new NAME`\n");
    }
    for token in &tokens {
        show(as_json, &value(token), &line(token))?;
    }
    Ok(Exit::Done)
}

fn line(token: &KeptToken) -> String {
    let only = |what: &str, names: &[String]| match names.is_empty() {
        true => format!("all {what}"),
        false => format!("{what} {}", names.join(", ")),
    };
    let expires = match token.expires {
        Some(end) if end <= now() => "  EXPIRED".to_owned(),
        Some(end) => format!("  until {}", minute(end)),
        None => String::new(),
    };
    let used = token.last_used.map_or("never used".to_owned(), |at| {
        format!("last used {}", minute(at))
    });
    format!(
        "{:<20} {}, {}  since {}{expires}  {used}",
        token.name,
        only("apps", &token.apps),
        only("effects", &token.effects),
        minute(token.created),
    )
}

/// A token as JSON. Times are milliseconds since 1970-01-01 UTC.
fn value(token: &KeptToken) -> Value {
    json!({
        "name": token.name,
        "role": token.role.name(),
        "apps": token.apps,
        "effects": token.effects,
        "created": token.created.millis(),
        "expires": token.expires.map(Time::millis),
        "last_used": token.last_used.map(Time::millis),
    })
}

/// Milliseconds of `30d`.
fn duration(text: &str) -> Result<i64> {
    let wrong = || anyhow!("write a number of at least 1 with m, h, d or w, like 30d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let minutes = match unit {
        'm' => 1,
        'h' => 60,
        'd' => 24 * 60,
        'w' => 7 * 24 * 60,
        _ => return Err(wrong()),
    };
    let number = text
        .strip_suffix(unit)
        .and_then(|number| number.parse::<u32>().ok());
    let number = number.filter(|number| *number > 0).ok_or_else(wrong)?;
    i64::from(number)
        .checked_mul(minutes * 60_000)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, minutes) in [("90m", 90), ("1h", 60), ("30d", 43_200), ("2w", 20_160)] {
            assert_eq!(duration(text).unwrap(), minutes * 60_000, "{text}");
        }
        for text in [
            "",
            "d",
            "0d",
            "-1d",
            "30",
            "30 d",
            "1.5h",
            "30D",
            "1y",
            "99999999999w",
            "é",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}

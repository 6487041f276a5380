//! `sluice token`: tokens of agents, of people who answer questions, and of admins.

use std::env;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use config::{Config, Diagnostic, Severity, did_you_mean};
use hub::trace::escape;
use ifc::Effect;
use policy::Place;
use serde_json::{Value, json};
use server::audit::Note;
use tokio::runtime::Handle;

use store::{Desk, KeptToken, NewToken, Role, Time};

use crate::exit::Exit;
use crate::json_lines::{print_json, show};
use crate::paths;
use crate::permissions::now;
use crate::terminal::{print, say};
use crate::words::minute;
use crate::{configuration, deployment, shell};

/// How the names of tokens begin that a service makes for the agents of its own user.
pub(crate) const LOCAL: &str = "local-";

#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    desk: DeskOf,
}

/// Whose questions and tokens a command is about.
#[derive(Debug, Args)]
pub(crate) struct DeskOf {
    /// Use the database of this service's configuration [default: that of $SLUICE_CONFIG, else your own questions and tokens on
    /// this machine].
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a token for a person or an agent. It is printed once; only its digest is stored.
    #[command(
        after_help = "Example:\n  sluice token new ada\n  sluice token new ada --apps mail,calendar --effects read,write --expires 30d\n  \
                      sluice token new builder --role agent --tenant team-a --expires 90d\n\n\
                      The holder of an approver's token answers questions in this name: on the page of `sluice desk`, over HTTP, and with\n\
                      `sluice approve` in $SLUICE_TOKEN. Programs without a terminal can make tokens of agents alone."
    )]
    New(New),
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

#[derive(Debug, Args)]
struct New {
    /// The person or agent: the name in `approvers`, and under which answers are recorded.
    name: String,
    /// agent: sends requests to the proxy and gateway of `sluice serve`, and sees no question. approver: answers questions.
    /// admin: answers all questions, and reads the metrics of a service.
    #[arg(long, default_value = "approver", value_parser = PossibleValuesParser::new(Role::ALL.map(Role::name)).map(role))]
    role: Role,
    /// The tenant of the agent, or the one whose questions the approver sees [default: no tenant, and all questions].
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Show only questions about these apps, with commas between them [default: all].
    #[arg(long, value_delimiter = ',', value_name = "APPS")]
    apps: Vec<String>,
    /// Show only questions about calls with these effects, with commas between them [default: all].
    #[arg(long, value_delimiter = ',', value_name = "EFFECTS",
        value_parser = PossibleValuesParser::new(Effect::ALL.map(Effect::name)))]
    effects: Vec<String>,
    /// How long it counts: a number with m, h, d or w (minutes, hours, days, weeks) [default: until it is revoked].
    #[arg(long = "expires", visible_alias = "for", value_name = "TIME", value_parser = duration)]
    lasts: Option<i64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Makes, lists or revokes tokens.
pub(crate) async fn token(args: &Token) -> Result<Exit> {
    let desk = args.desk.open().await?;
    match &args.action {
        Action::New(new) => make(&args.desk, &desk, new).await,
        Action::List { json } => list(&args.desk, &desk, *json).await,
        // Before the audit log is written: a wrong name is no event.
        Action::Revoke { name } => match desk.tokens().await?.iter().any(|it| it.name == *name) {
            true => {
                args.desk.note("revoke", name, None).await?;
                desk.revoke(name).await?;
                say("revoked\n");
                Ok(Exit::Done)
            }
            false => bail!(
                "there is no token '{}'; list them with `{}`",
                escape(name),
                args.desk.command("sluice token list")
            ),
        },
    }
}

fn role(name: String) -> Role {
    let mut all = Role::ALL.into_iter();
    // The parser takes no other name.
    all.find(|role| role.name() == name)
        .unwrap_or(Role::Approver)
}

impl DeskOf {
    /// Opens them.
    pub(crate) async fn open(&self) -> Result<Arc<Desk>> {
        open(self.config.as_deref()).await
    }

    /// A command about the same questions and tokens.
    pub(crate) fn command(&self, command: &str) -> String {
        shell::configured(command, self.config.as_deref())
    }

    /// Notes a change of a token in the audit log, before it is made.
    async fn note(&self, outcome: &str, name: &str, role: Option<Role>) -> Result<()> {
        let note = Note::new("token", outcome).with("name", name);
        let note = note.with("role", role.map(Role::name));
        deployment::note(named(self.config.as_deref())?.as_ref(), note).await
    }
}

/// The configuration of a service that is named. A file of the working folder does not count: it may name a database of its
/// author's.
fn named(file: Option<&Path>) -> Result<Option<Config>> {
    let is_named = file.is_some() || env::var_os("SLUICE_CONFIG").is_some_and(|it| !it.is_empty());
    is_named
        .then(|| configuration::open(file, false))
        .transpose()
}

/// The questions and tokens of the service with this configuration, or of this user.
pub(crate) async fn open(file: Option<&Path>) -> Result<Arc<Desk>> {
    if let Some(config) = named(file)?
        && deployment::database(&config.state)?.is_some()
    {
        return Ok(deployment::store(&config).await?.desk());
    }
    let desk = Desk::open(&paths::desk()?).context("the questions and tokens cannot be read")?;
    Ok(Arc::new(desk))
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
    let tokens = async { anyhow::Ok(open(None).await?.tokens().await?) };
    let tokens = tokio::task::block_in_place(|| Handle::current().block_on(tokens))?;
    let cannot_answer = |name: &&String| {
        let counts = |it: &KeptToken| it.name == **name && it.expires.is_none_or(|end| now() < end);
        let mut approvers = tokens.iter().filter(|it| it.role != Role::Agent);
        !approvers.any(counts)
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

async fn make(of: &DeskOf, desk: &Desk, args: &New) -> Result<Exit> {
    let new = NewToken {
        name: args.name.clone(),
        role: args.role,
        tenant: args.tenant.clone(),
        apps: args.apps.clone(),
        effects: args.effects.clone(),
        expires: (args.lasts).map(|lasts| Time::from_millis(now().millis().saturating_add(lasts))),
    };
    if !config::is_approver_name(&new.name) {
        bail!("the name of a token has at most 64 letters, digits, '-', '_', '.' and '@'");
    }
    let tenant = new.tenant.as_deref();
    if tenant.is_some_and(|name| !config::is_tenant_name(name)) {
        bail!("the name of a tenant has at most 64 letters, digits, '-', '_' and '.'");
    }
    // An empty name would look like a limit that is not there.
    if new.apps.iter().any(String::is_empty) {
        bail!("--apps has an empty name; write the names of apps with commas between them");
    }
    let has_limits = !new.apps.is_empty() || !new.effects.is_empty();
    match new.role {
        Role::Agent if has_limits => bail!("--apps and --effects are limits of an approver"),
        Role::Admin if has_limits || new.tenant.is_some() => {
            bail!("an admin sees all questions; leave out --apps, --effects and --tenant")
        }
        _ => {}
    }
    if new.role != Role::Agent && !has_person() {
        bail!("a token lets others answer in your place, so it is made at a terminal only");
    }
    // A service with tenants refuses an agent of another one.
    if let Some(name) = tenant
        && let Some(Config { tenants, .. }) = named(of.config.as_deref())?
        && !tenants.is_empty()
        && !tenants.contains_key(name)
    {
        let meant = did_you_mean(name, tenants.keys().map(String::as_str));
        bail!("the configuration has no tenant {name}; {meant}add [tenant.{name}] with its budget");
    }
    of.note("new", &new.name, Some(new.role)).await?;
    let secret = desk.new_token(&new, now()).await?;
    if args.json {
        print_json(
            &json!({"name": new.name, "role": new.role.name(), "tenant": new.tenant, "token": secret}),
        )?;
        return Ok(Exit::Done);
    }
    say(&format!(
        "The token of {}, which is stored in {}; it is not shown again:\n",
        new.name,
        desk.place()
    ));
    print(&secret)?;
    Ok(Exit::Done)
}

async fn list(of: &DeskOf, desk: &Desk, as_json: bool) -> Result<Exit> {
    let tokens = desk.tokens().await?;
    if tokens.is_empty() && !as_json {
        let new = of.command("sluice token new NAME");
        say(&format!("there are no tokens; make one with `{new}`\n"));
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
    let tenant = token.tenant.iter();
    let tenant: String = tenant.map(|name| format!(" of {name}")).collect();
    let limits = match token.role {
        Role::Approver => format!(
            ", {}, {}",
            only("apps", &token.apps),
            only("effects", &token.effects)
        ),
        Role::Agent | Role::Admin => String::new(),
    };
    let made = match token.name.starts_with(LOCAL) && token.role == Role::Agent {
        true => "  made by `sluice serve` for the commands of its user",
        false => "",
    };
    format!(
        "{:<20} {}{tenant}{limits}  since {}{expires}  {used}{made}",
        token.name,
        token.role.name(),
        minute(token.created),
    )
}

/// A token as JSON. Times are milliseconds since 1970-01-01 UTC.
fn value(token: &KeptToken) -> Value {
    json!({
        "name": token.name,
        "role": token.role.name(),
        "tenant": token.tenant,
        "apps": token.apps,
        "effects": token.effects,
        "created": token.created.millis(),
        "expires": token.expires.map(Time::millis),
        "last_used": token.last_used.map(Time::millis),
    })
}

/// Milliseconds of `30d`.
pub(crate) fn duration(text: &str) -> Result<i64> {
    let units = [('m', 1), ('h', 60), ('d', 24 * 60), ('w', 7 * 24 * 60)];
    let mut found = units.into_iter().filter_map(|(unit, minutes)| {
        let number = text.strip_suffix(unit)?.parse::<u32>().ok()?;
        Some(i64::from(number) * minutes * 60_000)
    });
    let found = found.next().filter(|time| *time > 0);
    found.context("write a number of at least 1 with m, h, d or w, like 30d")
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

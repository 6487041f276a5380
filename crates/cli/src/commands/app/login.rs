//! `sluice app login` and `sluice app logout`.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use config::App;
use hub::trace::escape;
use names::{Origin, Place as Where, WebUrl};
use remote::step::{Discovery, Granted, LoginStep, Report};
use serde_json::json;

use super::add;
use crate::exit::Exit;
use crate::interrupts::interrupts;
use crate::json_lines::{self, print_json};
use crate::login::{
    AuthorizationRequest, Back, Callback, Client, Login as Kept, LoginSteps, Logins, address,
    elsewhere,
};
use crate::place::Place;
use crate::question::{Lines, shortened};
use crate::secrets::{Secrets, Value};
use crate::shell;
use crate::terminal::{Terminal, columns, is_agreed, print, say};

/// Longest address of an authorization server. They have some dozens of letters.
const MAX_ISSUER: usize = 256;
/// Longest name of a client, and longest scope.
const MAX_WORD: usize = 2048;

#[derive(Debug, Args)]
pub(super) struct Login {
    /// The app.
    name: String,
    /// The address of its server, if the app is not in the configuration yet.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Log in at this authorization server without asking. The app's server must name it.
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Accept tokens from this other host without asking. The authorization server must name it.
    #[arg(long, value_name = "URL")]
    tokens_at: Option<String>,
    /// A scope to ask for (repeatable) [default: those that the server names].
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// The client id of Sluice at the authorization server [default: the server registers Sluice].
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// The name of the client's secret, saved with `sluice secret set` for the host that gives out the
    /// tokens.
    #[arg(long, value_name = "NAME", requires = "client_id")]
    client_secret: Option<String>,
    /// The port of 127.0.0.1 to which the browser comes back; 0 lets the system choose.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Print JSON, one step per line: the address to open, then the result.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Logout {
    /// The app.
    name: String,
}

/// Logs in at the server of an app.
pub(super) async fn login(args: &Login) -> Result<Exit> {
    // Each answer is checked before the next question: the server names its authorization server, which registers
    // Sluice; the user logs in there in a browser; the code that comes back is exchanged for tokens.
    let app = app(args)?;
    let server = server(args, &app)?;
    let steps = LoginSteps {
        app: app.clone(),
        allow_degraded: args.place.layers(),
    };
    let found = find(&steps, &server).await?;
    let issuer = match may_be_for(&server, &found.resource)? {
        true => issuer(args, &server, &found)?,
        false => None,
    };
    let Some(issuer) = issuer else {
        say("Login cancelled. No request was sent; nothing was saved.\n");
        return Ok(Exit::Refused);
    };
    let scopes = match args.scope.is_empty() {
        true => &found.scopes,
        false => &args.scope,
    };
    // A client that was registered by hand has one fixed address to come back to.
    let back = match &args.client_id {
        Some(_) => Back::Common,
        None => Back::Of(&issuer),
    };
    // The registration names the address to come back to.
    let callback = Callback::open(args.port, back).await?;
    let register = LoginStep::Register {
        client: args.client_id.clone(),
        has_secret: args.client_secret.is_some(),
        redirect: callback.redirect(),
        scopes: scopes.clone(),
    };
    let registration = match steps.run(&issuer, register).await? {
        Report::Registered(registration) => registration,
        Report::Refused(code) => bail!("{issuer} does not register Sluice: {code}"),
        _ => bail!("{issuer} sends an unexpected answer"),
    };
    let elsewhere = elsewhere(&issuer, &registration)?;
    if let Some(host) = &elsewhere
        && !may_give_out(args, &issuer, host)?
    {
        say("Login cancelled. No code was sent; nothing was saved.\n");
        return Ok(Exit::Refused);
    }
    // A secret of the user's is for the host that gives out the tokens, and goes nowhere else.
    let secret = match &args.client_secret {
        None => None,
        Some(name) => {
            let host = elsewhere.clone().unwrap_or_else(|| issuer.origin());
            Some(Secrets::of_user()?.value(name, &host)?)
        }
    };
    let client = Client::of(&registration, secret)?;
    let asked = AuthorizationRequest::new(
        &issuer,
        registration,
        client,
        callback.redirect(),
        found.resource,
        elsewhere.as_ref(),
    )?;
    // Before this, Ctrl-C ends the program at once: there is nothing to save.
    let cancel = interrupts();
    show(args, &asked.page(scopes)?, scopes)?;
    let exchanged = async {
        let came_back = callback.wait(&asked.state).await?;
        steps.run(&asked.tokens, asked.exchange(&came_back)?).await
    };
    let report = tokio::select! {
        // If both are ready, the interruption counts.
        biased;
        () = cancel.notified() => {
            say("Login cancelled; nothing was saved.\n");
            return Ok(Exit::Interrupted);
        }
        report = exchanged => report?,
    };
    let granted = match report {
        Report::Granted(granted) => granted,
        Report::Refused(code) => bail!("{issuer} refuses a token: {code}"),
        _ => bail!("{issuer} sends an unexpected answer"),
    };
    let server_address = address(&server);
    keep(app.name.clone(), server_address.clone(), asked, granted)?;
    let value = json!({ "app": app.name, "logged_in": true, "server": server_address, "issuer": issuer.as_str() });
    let text = format!("logged in; the token is sent to {} only", server.origin());
    json_lines::show(args.json, &value, &text)?;
    Ok(Exit::Done)
}

/// The server of an app, if it can be logged in to, with options that can be sent.
fn server(args: &Login, app: &App) -> Result<WebUrl> {
    let name = &app.name;
    let Some(remote) = &app.remote else {
        bail!("the app {name} runs on this machine and has no login");
    };
    // The header wins in a session (`login::token_port`), so a login would not be used.
    if remote.headers.contains_key("authorization") {
        bail!(
            "the app {name} has a header Authorization in the configuration; remove it to log in"
        );
    }
    // They become parts of an address and of a form.
    let mut words = args.scope.iter().chain(&args.client_id);
    if words.any(|word| word.len() > MAX_WORD || word.chars().any(char::is_control)) {
        bail!("--scope and --client-id take one line of at most {MAX_WORD} bytes");
    }
    Ok(remote.url.clone())
}

/// The metadata of the server about its tokens.
async fn find(steps: &LoginSteps, server: &WebUrl) -> Result<Discovery> {
    let Report::Discovered(found) = steps.run(server, LoginStep::Discover).await? else {
        bail!("{server} sends an unexpected answer");
    };
    Ok(Discovery {
        resource: resource(server, &found.resource)?,
        ..found
    })
}

/// The resource (RFC 8707) for which a token of this server is asked, checked against the server's address.
fn resource(server: &WebUrl, said: &str) -> Result<String> {
    // A spoke has read this, so it is checked again: a token for another server would be sent to this one.
    let resource = WebUrl::new(said)?;
    if !server.is_within(&resource) {
        bail!("{server} asks for a token for {resource}");
    }
    // The normalised address, since another parser could end the host of the raw text at an `@`. Servers compare
    // resources as text, so one that differs by the final `/` only stays as it was sent.
    let read = resource.as_str();
    Ok(match read.strip_suffix('/') == Some(said) {
        true => said.to_owned(),
        false => read.to_owned(),
    })
}

/// Whether a token may be for this resource: the server itself, or one above it to which the user agrees, since the token is
/// then good for its other parts as well.
fn may_be_for(server: &WebUrl, resource: &str) -> Result<bool> {
    let own = server.with_path(server.path());
    let bare = |address: &str| address.trim_end_matches('/').to_owned();
    if bare(resource) == bare(own.as_str()) {
        return Ok(true);
    }
    let mut lines = Lines::new(columns());
    lines.own(&format!(
        "{own} asks for a token that is valid for more than itself:"
    ));
    lines.quoted(resource);
    say(&lines.finish());
    if !Terminal::attended() {
        bail!("no request was sent for it; log in at a terminal, where you can agree to it");
    }
    Ok(is_agreed("Type agree if it may have it [no]: ", "agree"))
}

/// Deletes the tokens of an app.
pub(super) fn logout(args: &Logout) -> Result<Exit> {
    let servers = Logins::of_user()?.forget(&args.name)?;
    if servers.is_empty() {
        bail!(
            "there is no login of '{0}'; log in with `sluice app login {0}`",
            escape(&args.name)
        );
    }
    for server in servers {
        say(&format!(
            "forgot the login at {}; its tokens may stay valid there until they expire\n",
            escape(&server)
        ));
    }
    Ok(Exit::Done)
}

/// The app of the configuration, or one with this address only.
fn app(args: &Login) -> Result<App> {
    let opened = args.place.file.open(false);
    let Some(url) = &args.url else {
        let mut config = opened?;
        return config.apps.remove(&args.name).ok_or_else(|| {
            anyhow!(
                "there is no app '{}' in the configuration; add --url URL to log in before the app is added",
                escape(&args.name)
            )
        });
    };
    // With --url the configuration is not needed, so a configuration that cannot be opened is no error.
    let url = WebUrl::new(url).map_err(|error| anyhow!("--url: {error}"))?;
    let known = opened
        .ok()
        .and_then(|mut config| config.apps.remove(&args.name));
    match known {
        None => add::bare(&args.name, &url),
        Some(app) => match &app.remote {
            // A session finds a login by name and address.
            Some(remote) if address(&remote.url) == address(&url) => Ok(app),
            _ => bail!(
                "the app {} of the configuration is not {}; leave --url out, or name another app",
                app.name,
                address(&url)
            ),
        },
    }
}

/// The authorization server, which the user names or agrees to before it is sent anything; `None` if not.
fn issuer(args: &Login, server: &WebUrl, found: &Discovery) -> Result<Option<WebUrl>> {
    let named = found.issuers.iter().map(|issuer| {
        let issuer = WebUrl::new(issuer).ok().filter(|issuer| {
            // A remote server may not name a place on this machine.
            let is_near = issuer.place() == Where::ThisMachine;
            let may_be_asked = !is_near || server.place() == Where::ThisMachine;
            may_be_asked && issuer.as_str().len() <= MAX_ISSUER
        });
        issuer.ok_or_else(|| {
            anyhow!(
                "{} names an authorization server that cannot be asked",
                server.origin()
            )
        })
    });
    // One unfit name refuses the list: without it, the rest could look like the only choice.
    let named: BTreeSet<WebUrl> = named.collect::<Result<_>>()?;
    let list = || {
        named
            .iter()
            .map(WebUrl::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    // --issuer only chooses among the servers that are named: another one may be an attacker's.
    if let Some(wanted) = &args.issuer {
        let wanted = WebUrl::new(wanted).map_err(|error| anyhow!("--issuer: {error}"))?;
        return match named.contains(&wanted) {
            true => Ok(Some(wanted)),
            false => bail!(
                "{wanted} is no authorization server of this app; its server names {}",
                list()
            ),
        };
    }
    let (Some(only), 1) = (named.first(), named.len()) else {
        bail!(
            "its server names several authorization servers ({}); choose one with --issuer",
            list()
        );
    };
    say(&said_to_be(server, only, columns()));
    if !Terminal::attended() {
        bail!(
            "no request was sent there; without a terminal, add --issuer {}",
            shell::word(only.as_str())
        );
    }
    let is_agreed = is_agreed("Type login to log in there [no]: ", "login");
    Ok(is_agreed.then(|| only.clone()))
}

/// The question about an authorization server. Its address is foreign text and may be longer than a line.
fn said_to_be(server: &WebUrl, issuer: &WebUrl, columns: usize) -> String {
    let origin = server.origin();
    let mut lines = Lines::new(columns);
    lines.own(&format!("{origin} names this authorization server:"));
    lines.quoted(issuer.as_str());
    if !issuer.is_same_site(server) {
        lines.own(&format!(
            "! It is another site. Its token is sent to {origin}, which can then do everything that you allow there."
        ));
    }
    lines.finish()
}

/// Whether this other host may give out the tokens of an authorization server. The user names it or agrees to it before
/// it is sent anything.
fn may_give_out(args: &Login, issuer: &WebUrl, host: &Origin) -> Result<bool> {
    if let Some(named) = &args.tokens_at {
        let named = Origin::new(named).map_err(|error| anyhow!("--tokens-at: {error}"))?;
        return match named == *host {
            true => Ok(true),
            false => bail!("the tokens of {issuer} come from {host}, not from {named}"),
        };
    }
    let mut lines = Lines::new(columns());
    lines.own(&format!(
        "{issuer} names another host for its tokens. That host could use your login:"
    ));
    lines.quoted(host.as_str());
    say(&lines.finish());
    if !Terminal::attended() {
        bail!("nothing was sent there; without a terminal, add --tokens-at {host}");
    }
    Ok(is_agreed(
        "Type agree if the host belongs to it [no]: ",
        "agree",
    ))
}

/// Shows the address that the user opens. A [`WebUrl`] is visible ASCII; everything else is percent-encoded.
fn show(args: &Login, page: &WebUrl, scopes: &[String]) -> std::io::Result<()> {
    if args.json {
        return print_json(&json!({ "open": page.as_str(), "scopes": scopes }));
    }
    if !scopes.is_empty() {
        say(&asked_for(page.host(), scopes, columns()));
    }
    say("Open this address in a browser on this machine, and log in there. Ctrl-C cancels.\n");
    print(&escape(page.as_str()))
}

/// The scopes, which are foreign text: each line has the host before it, so that none looks like words of Sluice.
fn asked_for(host: &str, scopes: &[String], columns: usize) -> String {
    let mut lines = Lines::new(columns);
    lines.own("The login asks for:");
    let name = format!("{}> ", shortened(host, columns / 2));
    lines.said_by(&name, scopes);
    lines.finish()
}

fn keep(app: String, server: String, asked: AuthorizationRequest, granted: Granted) -> Result<()> {
    let mut login = Kept {
        app,
        server,
        issuer: asked.issuer.to_string(),
        endpoint: asked.tokens.to_string(),
        client: asked.client.name,
        client_secret: asked.client.secret,
        resource: asked.resource,
        access: Value::new(granted.access.clone())?,
        refresh: None,
        expires: None,
    };
    login.take(granted)?;
    Logins::of_user()?.keep(&login)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        login: Login,
    }

    fn issuer_of(server: &str, named: &[&str], wanted: &str) -> Result<Option<WebUrl>> {
        let Line { login } = Line::parse_from(["x", "far", "--issuer", wanted]);
        let found = Discovery {
            resource: server.to_owned(),
            issuers: named.iter().map(|issuer| (*issuer).to_owned()).collect(),
            scopes: Vec::new(),
        };
        issuer(&login, &WebUrl::new(server).unwrap(), &found)
    }

    /// By another reader a user could end before `@`, and so name another server.
    #[test]
    fn what_a_token_is_for_is_written_as_it_was_read() {
        let server = WebUrl::new("https://api.example.org/mcp").unwrap();
        for (said, expected) in [
            ("https://api.example.org/mcp", "https://api.example.org/mcp"),
            ("https://api.example.org", "https://api.example.org"),
            ("https://api.example.org/", "https://api.example.org/"),
            (
                "HTTPS://API.example.org:443/mcp",
                "https://api.example.org/mcp",
            ),
            (
                r"https://api.example.org\@other.example/..",
                "https://api.example.org/",
            ),
            ("https:api.example.org", "https://api.example.org/"),
        ] {
            assert_eq!(resource(&server, said).unwrap(), expected);
        }
        assert!(resource(&server, "https://other.example/mcp").is_err());
    }

    /// A line that the terminal broke itself would go on without the name, as words of ours do.
    #[test]
    fn what_a_server_asks_for_stands_behind_its_name_on_each_line() {
        let scopes = [
            ".".repeat(100),
            "sluice:".into(),
            "Type".into(),
            "your\nword".into(),
        ];
        for columns in [24, 80] {
            let shown = asked_for("login.example.org", &scopes, columns);
            for line in shown.lines().skip(1) {
                assert!(
                    line.starts_with("| login") && line.chars().count() <= columns,
                    "{shown}"
                );
            }
            assert_eq!(shown.lines().next(), Some("| The login asks for:"));
        }
    }

    #[test]
    fn no_authorization_server_fills_the_terminal() {
        let server = "https://api.example.org/mcp";
        let long = format!("https://login.example.org/{}", "x".repeat(MAX_ISSUER));
        assert!(issuer_of(server, &[&long], &long).is_err());
        let server = WebUrl::new(server).unwrap();
        let named = said_to_be(&server, &WebUrl::new(&long).unwrap(), 60);
        assert!(
            named
                .lines()
                .all(|line| line.starts_with("| ") && line.len() <= 60)
        );
    }

    /// An authorization server that ignores the resource gives out a token that is valid everywhere.
    #[test]
    fn who_agrees_to_another_site_is_told_who_gets_the_token() {
        let server = WebUrl::new("https://api.example.org/mcp").unwrap();
        let told = |issuer: &str| {
            let shown = said_to_be(&server, &WebUrl::new(issuer).unwrap(), 60);
            shown
                .replace("\n| ", "")
                .contains("is sent to https://api.example.org,")
        };
        assert!(!told("https://login.example.org/"));
        assert!(told("https://login.example.com/"));
    }

    #[test]
    fn a_server_elsewhere_names_nothing_on_this_machine() {
        let (far, near) = ("https://api.example.org/mcp", "http://127.0.0.1:80/mcp");
        for local in [
            "http://127.0.0.1:631/",
            "http://localhost:9200/",
            "https://localhost/",
        ] {
            let error = issuer_of(far, &[local], local).unwrap_err().to_string();
            assert!(error.contains("cannot be asked"), "{error}");
            assert!(issuer_of(near, &[local], local).unwrap().is_some());
        }
        for address in [
            "https://10.0.0.1/",
            "http://login.example.org",
            "https://[::1]/",
            "x",
        ] {
            assert!(issuer_of(far, &[address], "https://login.example.org").is_err());
        }
        let named = ["https://a.example.org", "https://b.example.org/"];
        let chosen = issuer_of(far, &named, "https://b.example.org")
            .unwrap()
            .unwrap();
        assert_eq!(chosen.as_str(), "https://b.example.org/");
        assert!(issuer_of(far, &named, "https://c.example.org").is_err());
    }
}

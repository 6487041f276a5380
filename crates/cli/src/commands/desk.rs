//! `sluice desk`: the page on which questions are answered.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use server::desk::page::{Page, PageSetup};
use tempfile::NamedTempFile;

use crate::commands::token;
use crate::exit::Exit;
use crate::interrupts::interrupts;
use crate::json_lines::print_json;
use crate::place::ConfigFile;
use crate::terminal::{aside, message, say, say_whole};
use crate::{os_user, paths};

mod overview;

pub(crate) use overview::overview;

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sluice desk --open
  sluice desk --host desk.example.org

The page has the questions of every Sluice program of this user. For a phone, a proxy with TLS or a VPN has to serve it: it
passes requests for NAME on to 127.0.0.1:7797 and keeps their `Host` header; --host NAME lets them in. NAME must serve nothing
else, at any port: browsers would send the login there too.")]
pub(crate) struct Desk {
    /// Serve the page at this address; port 0 lets the system choose.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7797")]
    listen: SocketAddr,
    /// A name by which a proxy with TLS serves the page to other machines (repeatable) [default: this machine only].
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    host: Vec<String>,
    /// Open the page in the browser, logged in.
    #[arg(long)]
    open: bool,
    /// Print a line of JSON: the addresses of the page and of a login (`null` without a terminal).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFile,
}

fn host_name(text: &str) -> Result<String, String> {
    match url::Host::parse(text) {
        Ok(url::Host::Domain(name)) if name.eq_ignore_ascii_case(text) => Ok(name),
        _ => Err("write a name such as desk.example.org, without https:// and port".to_owned()),
    }
}

pub(crate) async fn desk(args: Desk) -> Result<Exit> {
    let setup = PageSetup {
        store: token::open(args.file.config.as_deref()).await?,
        address: args.listen,
        hosts: args.host,
        user: os_user::name(),
        overview: Some(overview(args.file)),
        audit: None,
        report: message,
    };
    let page = Page::bind(setup).await?;
    let (url, login) = (page.routes.url(), page.routes.logins());
    // A program that runs as the user must not log itself in by one line; a person has a terminal.
    let address = token::has_person().then(&login).transpose()?;
    // Before the first line: a signal after it ends the page as any other.
    let cancel = interrupts();
    match &address {
        _ if args.json => print_json(&json!({"url": url, "login": address}))?,
        Some(address) => {
            say_whole(&format!("questions: {address}\n"));
            say(
                "The address logs in one browser, within ten minutes. Enter prints another one; Ctrl-C ends the page.\n",
            );
        }
        None => {
            say_whole(&format!("questions: {url}\n"));
            say(
                "There is no terminal, so a token is needed to log in; see `sluice token new --help`.\n",
            );
        }
    }
    // Held until the end, which removes the file.
    let _opened = match args.open {
        true => Some(open(address.as_ref().unwrap_or(&url))?),
        false => None,
    };
    if address.is_some() && !args.json {
        std::thread::spawn(move || {
            for _ in std::io::stdin().lines().map_while(Result::ok) {
                match login() {
                    Ok(address) => say_whole(&format!("questions: {address}\n")),
                    Err(error) => message(&error.to_string()),
                }
            }
        });
    }
    page.serve(cancel.notified()).await;
    Ok(Exit::Done)
}

/// Opens the browser by a file that only this user can read. Arguments of programs can be read by all users of the machine.
fn open(address: &str) -> Result<NamedTempFile> {
    let folder = paths::state()?;
    fs::create_dir_all(&folder)?;
    let mut file = tempfile::Builder::new()
        .suffix(".html")
        .tempfile_in(&folder)?;
    // The address has no character that HTML would read in another way.
    write!(
        file,
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={address}\"><a href=\"{address}\">Sluice</a>"
    )?;
    let mut program = Command::new("xdg-open");
    program
        .arg(file.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let by_hand = |why: &str| aside(&format!("note: {why}, so open the address yourself"));
    match program.spawn() {
        Ok(mut program) => {
            // It ends at once, or with the browser.
            std::thread::spawn(move || match program.wait() {
                Ok(status) if status.success() => {}
                _ => by_hand("xdg-open found no browser"),
            });
        }
        Err(_) => by_hand("there is no xdg-open"),
    }
    Ok(file)
}

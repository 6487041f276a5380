//! `sluice-lab escapes`: the escape suite as a table.

use std::path::Path;

use anyhow::{Result, anyhow};
use clap::Args;
use escapes::{Hub, Job, Observed, Outcome, Who};
use serde_json::json;

use crate::exit::Exit;
use crate::sluice::binary;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(crate) struct Escapes {
    /// Print one line of JSON for each attempt.
    #[arg(long)]
    json: bool,
}

/// Makes every attempt, by each attacker, under each user that this one may be.
pub(crate) fn escapes(args: &Escapes) -> Result<Exit> {
    let (hostile, spoke) = (binary("hostile")?, binary("sluice-spoke")?);
    // Its path is derived from that of `hostile`, so here it only has to be there.
    binary("escapes-hub")?;
    let mut hubs = vec![Hub::OrdinaryUser];
    if rustix::process::geteuid().is_root() {
        hubs.insert(0, Hub::Root);
    } else if !args.json {
        print("under a hub that runs as root: not tried, since this is none\n")?;
    }
    let (mut made, mut out) = (0, 0);
    for hub in hubs {
        for who in [Who::Spoke, Who::App, Who::NamedApp, Who::Frames] {
            let outcome = run(&hostile, &spoke, hub, who)?;
            for row in &outcome.rows {
                made += usize::from(!matches!(row.observed, Observed::Absent(_)));
                out += usize::from(!matches!(
                    row.observed,
                    Observed::Absent(_) | Observed::Held(_)
                ));
                if args.json {
                    print(&json!({"hub": hub, "who": who, "row": row}).to_string())?;
                }
            }
            if !args.json {
                print(&format!(
                    "{}, under {}; {}",
                    of(who),
                    under(hub),
                    outcome.whole_spoke
                ))?;
                print(&escapes::table(&outcome.rows))?;
            }
        }
    }
    if !args.json {
        print(&format!("{made} attempts, {out} got out"))?;
    }
    Ok(if out == 0 { Exit::Done } else { Exit::Failed })
}

fn run(hostile: &Path, spoke: &Path, hub: Hub, who: Who) -> Result<Outcome> {
    let job = Job {
        who,
        weaker: None,
        spoke: spoke.to_owned(),
        only: Vec::new(),
    };
    let outcome = match hub {
        Hub::Root => escapes::run(hostile, &job),
        Hub::OrdinaryUser => escapes::run_as_ordinary_user(hostile, &job),
    };
    outcome.map_err(|error| anyhow!("{error}"))
}

const fn of(who: Who) -> &'static str {
    match who {
        Who::Spoke => "by a spoke process that was taken over",
        Who::App => "by a hostile app",
        Who::NamedApp => "by a hostile app that may reach a name, against the product's hub",
        Who::Frames => {
            "by a spoke process that was taken over, by frames, against the product's hub"
        }
    }
}

const fn under(hub: Hub) -> &'static str {
    match hub {
        Hub::Root => "a hub that runs as root",
        Hub::OrdinaryUser => "a hub of an ordinary user",
    }
}

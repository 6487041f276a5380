//! `sluice-lab escapes`: the escape suite as a table.

use std::path::Path;

use anyhow::{Result, anyhow};
use clap::Args;
use escapes::{Hub, Job, Kind, Observed, Outcome, Row, Who};
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
    let mut count = Count::default();
    for hub in hubs {
        for who in [Who::Spoke, Who::App, Who::NamedApp, Who::Frames] {
            let outcome = run(&hostile, &spoke, hub, who)?;
            for row in &outcome.rows {
                count.add(row);
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
        print(&count.words())?;
    }
    Ok(match count.is_sound() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// What all rows came to.
#[derive(Debug, Default)]
struct Count {
    /// Attempts that were made, and those that got something.
    made: usize,
    out: usize,
    /// Controls and looks that were made, and looks that found something.
    others: usize,
    found: usize,
    /// Of whatever kind: what could not be tried, so that it shows nothing.
    failed: usize,
}

impl Count {
    fn add(&mut self, row: &Row) {
        let (all, gained) = match row.kind {
            Kind::Attempt => (&mut self.made, &mut self.out),
            Kind::Control | Kind::Look => (&mut self.others, &mut self.found),
        };
        match row.observed {
            Observed::Absent(_) => {}
            Observed::Held(_) => *all += 1,
            Observed::Escaped(_) => {
                *all += 1;
                *gained += 1;
            }
            Observed::Failed(_) => self.failed += 1,
        }
    }

    fn is_sound(&self) -> bool {
        self.out + self.found + self.failed == 0
    }

    fn words(&self) -> String {
        let Self {
            made,
            out,
            others,
            found,
            failed,
        } = self;
        format!(
            "{made} attempts, {out} got out; {others} controls and looks from outside, {found} found something; {failed} failed"
        )
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_counts_as_an_attempt() {
        let text = String::new;
        let rows = [
            (Kind::Attempt, Observed::Held(text())),
            (Kind::Attempt, Observed::Escaped(text())),
            (Kind::Attempt, Observed::Absent(text())),
            (Kind::Attempt, Observed::Failed(text())),
            (Kind::Control, Observed::Held(text())),
            (Kind::Look, Observed::Held(text())),
            (Kind::Look, Observed::Escaped(text())),
        ];
        let mut count = Count::default();
        for (kind, observed) in rows {
            count.add(&Row {
                kind,
                group: text(),
                attempt: text(),
                expected: text(),
                observed,
            });
        }
        assert_eq!(
            count.words(),
            "2 attempts, 1 got out; 3 controls and looks from outside, 1 found something; 1 failed"
        );
        assert!(!count.is_sound());
    }
}

//! Lines about a session: its user and its apps.

use super::words::{list, safe, set};
use crate::trace::Event;

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::SessionStarted {
            session,
            mode,
            screener,
            private,
        } => {
            let (session, mode, screener) = (safe(session), safe(mode), safe(screener));
            let private = if *private { ", private" } else { "" };
            format!("session    {session}, {mode}, screener {screener}{private}")
        }
        Event::User { text, label } => format!("user       {} {}", safe(text), set(label)),
        Event::Planned {
            needed,
            apps,
            each,
            by,
        } => {
            let taken = match apps.is_empty() {
                true => "no app (vanilla)".to_owned(),
                false => list(apps),
            };
            let others = match needed.iter().any(|app| !apps.contains(app)) {
                true => format!(", of {}", list(needed)),
                false => String::new(),
            };
            let each = if *each { ", each by itself" } else { "" };
            format!("plan       {taken}{others}{each}, chosen by {}", safe(by))
        }
        Event::PlanUnclear { app, reason } => {
            let (app, reason) = (safe(app), safe(reason));
            format!("plan       not {app}: it is unclear whether it is needed: {reason}")
        }
        Event::Missing {
            functionality,
            apps,
        } => {
            let (functionality, apps) = (safe(functionality), list(apps));
            format!("missing    {functionality}; in the catalogue: {apps}")
        }
        Event::LeftOut { apps } => format!("left out   {}, which did not start", list(apps)),
        Event::Gathered { answered, missing } => {
            let missing = match missing.as_slice() {
                [] => String::new(),
                missing => format!("; no answer of {}", list(missing)),
            };
            format!("gathered   {} answers{missing}", answered.len())
        }
        Event::SpokeStarted {
            app,
            pid,
            layers,
            given_up,
            tools,
            start_ms,
        } => {
            let given_up = match given_up.as_slice() {
                [] => String::new(),
                given_up => format!(", GIVEN UP: {}", list(given_up)),
            };
            format!(
                "spoke      {} runs as process {pid} after {start_ms} ms with {} tools; layers {}{given_up}",
                safe(app),
                tools.len(),
                list(layers),
            )
        }
        Event::SpokeEnded { app, reason } => {
            format!("spoke      {} ended: {}", safe(app), safe(reason))
        }
        _ => String::new(),
    }
}

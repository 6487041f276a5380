//! What an app tried to reach or to write and may not, and what of it is left out.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use hub::trace::{Event, escape};
use tokio::sync::mpsc;
use wire::Wish;

use crate::terminal::say;
use crate::{app_setup, installed};

/// The refused places among a spoke's events, with the reasons. What of the app is left out, as a tool that nothing can
/// describe, is said at once.
pub(crate) fn refused(mut events: mpsc::Receiver<Event>) -> BTreeMap<String, String> {
    let mut tried = BTreeMap::new();
    while let Ok(event) = events.try_recv() {
        match event {
            Event::NameDenied { name, reason, .. } => {
                tried.insert(name.to_string(), reason.to_string());
            }
            Event::Egress { to, outcome, .. } => {
                let outcome = outcome.to_string();
                if let Some(reason) = outcome.strip_prefix("refused: ") {
                    tried.insert(to, reason.to_owned());
                }
            }
            // Of lines that are no message, the first says enough.
            Event::Unheard {
                app,
                request,
                reason,
                times,
            } if times == 1 || request != Wish::Line.name() => {
                let (app, reason) = (escape(&app), escape(&reason));
                say(&format!("note: {app}, {times} {request}: {reason}\n"));
            }
            _ => {}
        }
    }
    tried
}

/// Places and reasons in one line, escaped.
pub(crate) fn words(tried: &BTreeMap<String, String>) -> String {
    let each = tried
        .iter()
        .map(|(place, reason)| format!("{} ({})", escape(place), escape(reason)));
    each.collect::<Vec<_>>().join("; ")
}

/// A note on a file that an app says it could not write, with what would let it. Nothing is proposed where no app should
/// write.
pub(crate) fn unwritten(app: &str, path: &str) -> Option<String> {
    let folder = Path::new(path).parent().filter(|it| it.is_dir())?;
    let store = installed::store().ok()?;
    let (app, file) = (escape(app), escape(path));
    let note = format!("note: {app} says that it could not write {file}");
    if folder.starts_with(store.folder()) {
        return Some(format!(
            "{note}: what is installed stays read-only. If it has a variable for the place, as the memory server has\n\
             MEMORY_FILE_PATH, add it again: `sluice app add {app} --replace --write FOLDER --env MEMORY_FILE_PATH=FOLDER/FILE -- …`\n"
        ));
    }
    // Elsewhere it would be a folder of the system's, and a home holds too much.
    let home = env::var("HOME").ok()?;
    let folder = folder
        .to_str()
        .filter(|it| !app_setup::is_of_programs(it))?;
    folder.strip_prefix(&home)?.strip_prefix('/')?;
    Some(format!(
        "{note}. To allow it, have these lines in `sluice.toml`, in the place of others for that folder:\n\
         [[app.{app}.mount]]\nsource = {folder:?}\ntarget = {folder:?}\nwrite = true\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_places_are_kept_and_shown_on_one_line() {
        let (sender, events) = mpsc::channel(8);
        let egress = |to: &str, outcome: &str| Event::Egress {
            app: "app".to_owned(),
            to: to.to_owned(),
            outcome: outcome.to_owned().into(),
        };
        let denied = Event::NameDenied {
            app: "app".to_owned(),
            name: "a.example.org\n".to_owned().into(),
            reason: "no rule".to_owned().into(),
        };
        for event in [
            denied,
            egress("b.example.org:443", "refused: denied"),
            egress("c.example.org:443", "1 bytes sent, 2 received"),
        ] {
            sender.try_send(event).unwrap();
        }
        let tried = refused(events);
        assert_eq!(
            words(&tried),
            "a.example.org\\n (no rule); b.example.org:443 (denied)"
        );
    }
}

//! What an app tried to reach or to write and may not, and what of it is left out.

use std::collections::BTreeMap;

use hub::trace::{Event, escape};
use tokio::sync::mpsc;
use wire::Wish;

use crate::question::word;
use crate::terminal::{say, unheard};

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
                // A service of this machine may not run.
                let unmade = outcome.starts_with("no connection").then_some(&*outcome);
                if let Some(reason) = outcome.strip_prefix("refused: ").or(unmade) {
                    tried.insert(to, reason.to_owned());
                }
            }
            // They are looked at in any case.
            Event::Unheard { request, .. } if request == Wish::Tools.name() => {}
            // Of lines that are no message, the first says enough.
            Event::Unheard {
                app,
                request,
                reason,
                times,
            } if times == 1 || request != Wish::Line.name() => {
                say(&unheard(&app, &request, &reason, times));
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
        .map(|(place, reason)| format!("{} ({})", word(place), escape(reason)));
    each.collect::<Vec<_>>().join("; ")
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

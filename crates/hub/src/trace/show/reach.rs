//! Lines about what apps reach.

use super::words::{safe, set};
use crate::trace::Event;

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::Egress { app, to, outcome } => {
            let (app, to) = (safe(app), safe(to));
            format!("egress     {app} to {to}: {}", safe(outcome))
        }
        Event::NameDenied { app, name, reason } => {
            let (app, name) = (safe(app), safe(name));
            format!("egress     {app} to {name}: NOT RESOLVED: {}", safe(reason))
        }
        Event::ConnectionAsked {
            app,
            to,
            domain,
            label,
            rule,
            answer,
        } => {
            let (app, to, domain) = (safe(app), safe(to), safe(domain));
            let (label, rule, answer) = (set(label), safe(rule), safe(answer));
            format!(
                "egress     {app} to {to} with {label}: the rule {rule} asks about {domain}: {answer}"
            )
        }
        _ => String::new(),
    }
}

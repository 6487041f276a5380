//! Where an app may connect to.

use ifc::{Connection, Effect, Exceeded, Label, Sink};
use names::{DomainName, Pattern};

use super::judge::{Judgement, LimitPart, decide};

/// Where one app may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Hosts and ports that the configuration relays for it.
    pub relays: Vec<(String, u16)>,
    /// Domains that it may name itself.
    pub domains: Vec<DomainRule>,
    /// What becomes of other names; without it they are denied.
    pub others: Option<OtherDomains>,
}

/// A domain that an app may connect to, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRule {
    /// The domain.
    pub pattern: Pattern,
    /// The ports.
    pub ports: Vec<u16>,
    /// What the app may have been given when it connects there unasked.
    pub limit: Label,
}

/// The user is asked about names that no rule covers, by their registrable domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherDomains {
    /// The ports.
    pub ports: Vec<u16>,
    /// What the app may have been given when the user need not be told of it.
    pub limit: Label,
}

impl Destinations {
    /// What becomes of a connection.
    pub(crate) fn judge(&self, connection: &Connection) -> Judgement {
        match connection.domain {
            // Without a domain, the configuration relays the destination. With one, the app named it itself.
            None => self.judge_relay(connection),
            Some(_) => self.judge_domain(connection),
        }
    }

    /// The configuration names the destination, or there is none. Whatever the app was given may flow
    /// there: the limits of its tools are the place to say what it is given.
    fn judge_relay(&self, connection: &Connection) -> Judgement {
        let Connection {
            app: name,
            host,
            port,
            ..
        } = connection;
        let mut known = self.relays.iter();
        if !known.any(|(named, at)| named.eq_ignore_ascii_case(host) && at == port) {
            let reason = format!(
                "app '{name}' may not connect to {host}:{port}; add [[app.{name}.egress]] \
                 with to = \"{host}:{port}\" and a port to listen on to sluice.toml"
            );
            return Judgement::denied(format!("{name}.egress"), None, reason);
        }
        let rule = format!("{name}.egress");
        limited(connection, rule, Label::top(), None, Exceeded::Deny)
    }

    /// The rule of the nearest domain above the name counts; what it does not cover is asked about, if anything is.
    fn judge_domain(&self, connection: &Connection) -> Judgement {
        let Connection {
            app,
            host,
            port,
            domain,
            ..
        } = connection;
        let domain = domain.as_deref().unwrap_or_default();
        let name = DomainName::new(host).ok();
        // A question shows the registrable domain, and a permission covers it, so it must be this name's own.
        let Some(name) = name.filter(|name| name.registrable() == domain) else {
            let reason = format!("{host} is no domain name");
            return Judgement::denied(format!("{app}.domain"), None, reason);
        };
        let rules = self.domains.iter();
        let rules = rules.filter(|rule| rule.pattern.covers(&name) && rule.ports.contains(port));
        // All patterns that cover a name end as the name does, so the longest is the nearest.
        if let Some(rule) = rules.max_by_key(|rule| rule.pattern.name().as_str().len()) {
            let name = format!("{app}.domain.{}.limit", rule.pattern);
            return limited(connection, name, rule.limit.clone(), None, Exceeded::Ask);
        }
        match &self.others {
            Some(others) if others.ports.contains(port) => {
                let ask = Some(format!("{app}.other_domains"));
                let rule = format!("{app}.other_domains");
                limited(connection, rule, others.limit.clone(), ask, Exceeded::Ask)
            }
            _ => {
                // The ports of the web are those of an entry without any.
                let ports = match port {
                    443 | 80 => String::new(),
                    port => format!(" and ports = [{port}]"),
                };
                let reason = format!(
                    "app '{app}' may not connect to {name}; add [[app.{app}.domain]] with name = \"{domain}\"{ports} \
                     to sluice.toml"
                );
                Judgement::denied(format!("{app}.domain"), None, reason)
            }
        }
    }
}

fn limited(
    connection: &Connection,
    rule: String,
    limit: Label,
    ask: Option<String>,
    exceeded: Exceeded,
) -> Judgement {
    let limit = LimitPart::of(&Sink::Connection(connection), rule, limit);
    decide(Effect::Write, limit, Vec::new(), ask, exceeded)
}

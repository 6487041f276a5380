//! The destinations of an app.

use ifc::{Connection, Effect, Exceeded, Label, Sink};
use names::{DomainName, Pattern};

use super::judge::{Judgement, judge_sink};

/// The destinations of one app.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Hosts and ports of the configuration.
    pub relays: Vec<(String, u16)>,
    /// Domains that the app may name itself.
    pub domains: Vec<DomainRule>,
    /// The rule for other names; `None` denies them.
    pub others: Option<OtherDomains>,
}

/// A domain that an app may connect to, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRule {
    /// The domain.
    pub pattern: Pattern,
    /// The ports.
    pub ports: Vec<u16>,
    /// The limit of everything that the app was given, for a connection without a question.
    pub limit: Label,
}

/// The user is asked about names that no rule covers, by their registrable domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherDomains {
    /// The ports.
    pub ports: Vec<u16>,
    /// The limit of everything that the app was given; the question names the taints beyond it.
    pub limit: Label,
}

impl Destinations {
    /// The judgement of a connection.
    pub(crate) fn judge(&self, connection: &Connection) -> Judgement {
        match connection.domain {
            // A destination without a domain is from the configuration. With a domain, the app named it itself.
            None => self.judge_relay(connection),
            Some(_) => self.judge_domain(connection),
        }
    }

    /// A destination of the configuration. Everything that the app was given may flow there. The limits of its tools say
    /// what it is given.
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

    /// The rule of the nearest domain above the name counts. Without one, the rule for other names does.
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
        // A question shows the registrable domain and a permission covers it, so it must be that of the name.
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
                // An entry without ports has those of the web.
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
    let sink = Sink::Connection(connection);
    judge_sink(&sink, Effect::Write, rule, limit, ask, exceeded)
}

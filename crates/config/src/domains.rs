//! `[[app.NAME.domain]]` and `other_domains`: what an app may reach by name.

use std::collections::BTreeSet;

use names::Pattern;

use crate::app::{Domain, Egress};
use crate::toml_reader::Table;

/// Most ports on which names of one app lead to the hub; each costs it a descriptor for every spoke.
const MAX_PORTS: usize = 32;
/// Where a spoke's resolver listens.
const RESOLVER: u16 = 53;

/// The domains of an app, and whether the user is asked about others. `relays` has the ports of its relays, which are
/// taken.
pub(crate) fn domains(table: &Table<'_>, relays: &[Egress]) -> (Vec<Domain>, bool) {
    let mut domains: Vec<Domain> = Vec::new();
    let mut taken = BTreeSet::new();
    for table in table.tables("domain") {
        let name = table.string("name");
        let ports = ports(&table, relays);
        let limit = table.label("limit");
        let addresses = table.addresses();
        table.needs("name", "name = \"example.org\"");
        table.finish();
        let Some(name) = name else { continue };
        let pattern = match Pattern::new(name.value) {
            Ok(pattern) => pattern,
            Err(reason) => {
                let message = format!("'{}' is no domain for an app: {reason}", name.value);
                let help = "write a name like \"example.org\", which covers what is below it as well; \
                            an address or a host of your own network is reached by [[app.NAME.egress]]";
                table.context.error(&name.span, message, help);
                continue;
            }
        };
        let name_of = pattern.to_string();
        let before = taken.len();
        taken.extend(ports.iter().map(|port| (name_of.clone(), *port)));
        if taken.len() < before + ports.len() {
            let message = format!("two entries for '{pattern}' and the same port");
            let help = "\"example.org\" and \"*.example.org\" are the same; leave one out";
            table.context.error(&name.span, message, help);
        }
        domains.push(Domain {
            pattern,
            ports,
            limit,
            addresses,
        });
    }
    let words = [("ask", true), ("deny", false)];
    let ask = table.choice("other_domains", &words).unwrap_or(false);
    let taken = |egress: &&Egress| Domain::PORTS.contains(&egress.listen);
    if let Some(relay) = relays.iter().find(taken).filter(|_| ask) {
        let message = format!(
            "a relay listens on port {}, as other domains do",
            relay.listen
        );
        table
            .context
            .error(&table.span, message, "give the relay another port");
    }
    let all: BTreeSet<u16> = domains
        .iter()
        .flat_map(|domain| &domain.ports)
        .copied()
        .collect();
    // Of all entries together: each port is one listener, whatever names lead to it.
    if all.len() > MAX_PORTS {
        let message = format!(
            "{} ports for domains; at most {MAX_PORTS} are possible",
            all.len()
        );
        table.context.error(&table.span, message, "leave some out");
    }
    (domains, ask)
}

fn ports(table: &Table<'_>, relays: &[Egress]) -> Vec<u16> {
    if !table.has("ports") {
        // Names and relays are reached by listeners of the same spoke, and a port has one.
        let taken = |egress: &&Egress| Domain::PORTS.contains(&egress.listen);
        if let Some(relay) = relays.iter().find(taken) {
            let message = format!(
                "a relay listens on port {}, as a domain without ports does",
                relay.listen
            );
            let help = "give the relay another port, or name the ports of the domain";
            table.context.error(&table.span, message, help);
        }
        return Domain::PORTS.to_vec();
    }
    let mut ports = Vec::new();
    for (port, span) in table.integers("ports", 1..=u64::from(u16::MAX)) {
        let Ok(port) = u16::try_from(port) else {
            continue;
        };
        let why = match () {
            () if port == RESOLVER => "is where the app asks for names",
            () if relays.iter().any(|egress| egress.listen == port) => "is where a relay listens",
            () if ports.contains(&port) => "stands there twice",
            () => {
                ports.push(port);
                continue;
            }
        };
        table
            .context
            .error(&span, format!("port {port} {why}"), "name another port");
    }
    ports
}

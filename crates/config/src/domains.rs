//! `[[app.NAME.domain]]` and `other_domains`: the names that an app may reach.

use std::collections::BTreeSet;

use names::Pattern;

use crate::app::{Domain, Egress};
use crate::toml_reader::Table;

/// Most ports for the names of one app; each costs the hub a descriptor in every spoke.
const MAX_PORTS: usize = 32;
/// The port of a spoke's resolver.
const RESOLVER: u16 = 53;

/// The domains of an app, and whether the user is asked about others. The ports of its `relays` are taken.
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
                let help = "write a name like \"example.org\", which covers all names below it; \
                            for an address or a host of your own network write [[app.NAME.egress]]";
                table.error(&name.span, message, help);
                continue;
            }
        };
        let mut pairs = ports.iter().map(|port| (pattern.to_string(), *port));
        if !pairs.all(|pair| taken.insert(pair)) {
            let message = format!("two entries for '{pattern}' and the same port");
            let help = "\"example.org\" and \"*.example.org\" are the same; leave one out";
            table.error(&name.span, message, help);
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
    if ask {
        check_default_ports(table, relays);
    }
    let all = domains.iter().flat_map(|domain| &domain.ports);
    let count = all.collect::<BTreeSet<_>>().len();
    // Of all entries together: each port is one listener, whatever names lead to it.
    if count > MAX_PORTS {
        let message = format!("{count} ports for domains; at most {MAX_PORTS} are possible");
        table.wrong(message, "leave some out");
    }
    (domains, ask)
}

/// A relay and the names share the spoke's ports, and a port has one listener.
fn check_default_ports(table: &Table<'_>, relays: &[Egress]) {
    let taken = |egress: &&Egress| Domain::PORTS.contains(&egress.listen);
    if let Some(relay) = relays.iter().find(taken) {
        let port = relay.listen;
        let message = format!("a relay listens on port {port}, which is a default port of domains");
        let help = "give the relay another port, or name the ports of each domain";
        table.wrong(message, help);
    }
}

fn ports(table: &Table<'_>, relays: &[Egress]) -> Vec<u16> {
    if !table.has("ports") {
        check_default_ports(table, relays);
        return Domain::PORTS.to_vec();
    }
    let mut ports = Vec::new();
    for (port, span) in table.integers("ports", 1..=u64::from(u16::MAX)) {
        let Ok(port) = u16::try_from(port) else {
            continue;
        };
        let why = if port == RESOLVER {
            "is where the app asks for names"
        } else if relays.iter().any(|egress| egress.listen == port) {
            "is where a relay listens"
        } else if ports.contains(&port) {
            "is written twice"
        } else {
            ports.push(port);
            continue;
        };
        table.error(&span, format!("port {port} {why}"), "name another port");
    }
    ports
}

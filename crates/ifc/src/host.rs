//! The host of a URL about which no two readers of URLs disagree.

use crate::json::leading_string;
use crate::{ArgumentPath, Arguments, Rule};

/// The host of an `https` address without a user, port or escape before the end of the host, and without a blank or control
/// character anywhere.
#[must_use]
pub fn url_host(address: &str) -> Option<&str> {
    authority(address, "https://").filter(|host| !host.contains(':'))
}

/// The host of an `http` address, with its port if it has one. It is written as for [`url_host`], and a port in one way: without
/// zeros before it, and never 80.
#[must_use]
pub fn http_host(address: &str) -> Option<&str> {
    authority(address, "http://").filter(|authority| {
        let port = authority.split_once(':').map(|(host, port)| {
            let is_number = port.parse().is_ok_and(|it: u16| it.to_string() == port);
            is_number && port != "80" && !host.is_empty() && !host.ends_with('.')
        });
        port.unwrap_or(true)
    })
}

fn authority<'a>(address: &'a str, scheme: &str) -> Option<&'a str> {
    let rest = address.strip_prefix(scheme)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest.get(..end)?;
    // A browser reads `\` as a slash and RFC 3986 does not, and the text before an `@` is a user name. Such an address has
    // no host here.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    // In all of the address, since browsers drop tabs and line breaks before they parse a URL.
    (host.chars().all(plain) && rest.chars().all(|c| c.is_ascii_graphic())).then_some(host)
}

/// The control arguments of a call, in canonical form, with the host in the place of each URL, and the hosts. `None` if
/// none of them is a URL.
pub(crate) fn by_hosts(arguments: &Arguments, rule: &Rule) -> Option<(String, Vec<String>)> {
    let is_data = |name: &str| rule.arguments.contains_key(&ArgumentPath::of(name));
    let mut hosts = Vec::new();
    let mut control = String::new();
    for (name, value) in arguments.iter().filter(|(name, _)| !is_data(name)) {
        let value = value.reveal_tcb();
        let text = leading_string(value).map(|(text, _)| text);
        let host = text.as_deref().and_then(url_host);
        let host = host.map(|host| host.trim_end_matches('.').to_ascii_lowercase());
        // A line break is in no canonical text, so that nothing else looks like a host.
        control += &match &host {
            Some(host) => format!("{name:?}\nhost {host}\n"),
            None => format!("{name:?}{value}\n"),
        };
        hosts.extend(host);
    }
    (!hosts.is_empty()).then_some((control, hosts))
}

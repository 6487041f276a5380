//! The host of a URL about which no two readers of URLs disagree.

/// The host of an `https` address without a user, port or escape before the end of the host, and without a blank or control
/// character anywhere.
pub(crate) fn host(address: &str) -> Option<&str> {
    authority(address, "https://").filter(|host| !host.contains(':'))
}

/// The host of an `http` address, with its port if it has one. It is written as for [`host`], and a port in one way: without
/// zeros before it, and never 80.
pub(crate) fn http_host(address: &str) -> Option<&str> {
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

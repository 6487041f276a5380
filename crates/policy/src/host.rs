//! The host of a URL about which no two readers of URLs disagree.

/// The host of an `https` address without a user, port or escape before the end of the host, and without a blank or control
/// character anywhere.
pub(crate) fn host(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("https://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest.get(..end)?;
    // A browser reads `\` as a slash and RFC 3986 does not, and the text before an `@` is a user name. Such an address has
    // no host here.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    // In all of the address, since browsers drop tabs and line breaks before they parse a URL.
    (host.chars().all(plain) && rest.chars().all(|c| c.is_ascii_graphic())).then_some(host)
}

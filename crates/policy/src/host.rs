//! The host of a URL, where no two readers of URLs disagree about it.

/// The host of an `https` address that is written without any doubt about it: no user, port or escape
/// before its end, and no blank or control character anywhere.
pub(crate) fn host(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("https://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest.get(..end)?;
    // A browser takes `\` for a slash where RFC 3986 does not, and what stands before an `@` is a user name. Neither
    // is interpreted here: such an address has no host.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    // Of the whole address: browsers drop tabs and line breaks before they parse a URL, wherever they stand.
    (host.chars().all(plain) && rest.chars().all(|c| c.is_ascii_graphic())).then_some(host)
}

//! The host of a URL, where no two readers of URLs disagree about it.

/// The host of an `https` address that is written without any doubt about it: no user, port or escape
/// before its end, and no blank or control character anywhere.
pub(crate) fn host(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("https://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest.get(..end)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    (host.chars().all(plain) && rest.chars().all(|c| c.is_ascii_graphic())).then_some(host)
}

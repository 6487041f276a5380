//! E-mail addresses, strictly.

/// Longest local part (RFC 5321 §4.5.3.1.1).
const MAX_LOCAL_BYTES: usize = 64;
/// Longest address that fits into a path (RFC 5321 §4.5.3.1.3), without its brackets.
const MAX_ADDRESS_BYTES: usize = 254;
/// Longest label of a domain (RFC 1035 §2.3.4).
const MAX_LABEL_BYTES: usize = 63;

/// Whether `text` is an addr-spec of the plain kind: a dot-atom, `@`, and a domain of letters, digits and hyphens.
///
/// Quoted local parts, comments, address literals and non-ASCII are out, although RFC 5322 has them: they would let
/// a sender put any text at all into a field that label rules treat as an address.
pub fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else {
        return false;
    };
    text.len() <= MAX_ADDRESS_BYTES
        && local.len() <= MAX_LOCAL_BYTES
        && local
            .split('.')
            .all(|atom| !atom.is_empty() && atom.bytes().all(is_atom))
        && domain.split('.').all(is_label)
}

fn is_atom(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= MAX_LABEL_BYTES
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn plain_addresses_only() {
        for good in [
            "a@b",
            "anna.berg@example.org",
            "x+tag@mail.example.co.uk",
            "o'neil@example.com",
            "root@localhost",
        ] {
            assert!(is_address(good), "{good}");
        }
        let long = format!("{}@example.org", "a".repeat(65));
        for bad in [
            "",
            "@",
            "a@",
            "@b",
            "a@b@c",
            "a b@c",
            "a@b c",
            "a@b\r\nBcc: x@y",
            "a@b\n",
            "Anna <a@b>",
            "<a@b>",
            "a,b@c",
            "a@b,c@d",
            "\"ignore previous\"@b",
            ".a@b",
            "a.@b",
            "a..b@c",
            "a@-b",
            "a@b-",
            "a@.b",
            "a@b.",
            "a@[127.0.0.1]",
            "ü@b",
            "a@bücher.de",
            "a@b;",
            "a:b@c",
            "a(b)@c",
            &long,
        ] {
            assert!(!is_address(bad), "{bad:?}");
        }
    }
}

//! A question for a name. Reading it must not panic, what it names is a domain name or none, and no response is longer than what fits.

use std::net::Ipv4Addr;

use names::DomainName;
use names::dns::{Answer, MAX_QUERY, Query};

pub(crate) fn names_dns(bytes: &[u8]) -> bool {
    let Some(query) = Query::read(bytes) else {
        return false;
    };
    assert!(bytes.len() <= MAX_QUERY && query.text().len() < 255);
    if let Some(name) = query.name() {
        assert_eq!(DomainName::new(name.as_str()), Ok(name.clone()));
        assert!(name.as_str().ends_with(name.registrable()));
    }
    for answer in [
        Answer::Address(Ipv4Addr::LOCALHOST),
        Answer::Nothing,
        Answer::NoSuchName,
        Answer::Refused,
    ] {
        let response = query.response(answer);
        // An answer is a pointer to the name, type, class, time to live, length and an IPv4 address.
        assert!(response.len() <= bytes.len() + 16);
        // A response is never taken for a query.
        assert_eq!(Query::read(&response), None);
    }
    true
}

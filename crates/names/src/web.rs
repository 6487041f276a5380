//! Addresses of servers on the web, as a configuration or a server writes them: which host a request goes to, and whether
//! that may be said without TLS.

use std::fmt;

use url::{Host, Url, form_urlencoded};

use crate::name::{BadName, DomainName};

/// Longest address. Servers refuse longer ones.
const MAX_URL: usize = 2048;

/// The address of something that is asked by HTTP: over TLS at a host with a name, or at this machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebUrl(Url);

/// Scheme, host and port: whom a secret is for. The default port is not written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

/// Where an address leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// To a host with a name.
    Named(DomainName),
    /// To this machine.
    ThisMachine,
}

/// A text that is no address of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// It cannot be read.
    #[error("write an address like \"https://api.example.org/mcp\"")]
    Form,
    /// It is not encrypted, and does not stay on this machine.
    #[error("write https://; http:// is possible for 127.0.0.1 and localhost alone")]
    Scheme,
    /// It has a user or a password.
    #[error("leave out the user name and password before '@'; secrets belong in a header")]
    User,
    /// It has a fragment, which no server sees.
    #[error("leave out '#' and the text after it")]
    Fragment,
    /// The host is no registrable name.
    #[error("the host: {0}; of this machine, 127.0.0.1 and localhost can be named")]
    Host(BadName),
}

impl WebUrl {
    /// Reads an address.
    ///
    /// # Errors
    /// It is none, or one that nothing may be sent to.
    pub fn new(text: &str) -> Result<Self, BadUrl> {
        if text.len() > MAX_URL || text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(BadUrl::Form);
        }
        Self::checked(Url::parse(text).map_err(|_| BadUrl::Form)?)
    }

    fn checked(mut url: Url) -> Result<Self, BadUrl> {
        if url.fragment().is_some() {
            return Err(BadUrl::Fragment);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadUrl::User);
        }
        let place = place(&url)?;
        if let Place::Named(name) = &place
            && url.host_str() != Some(name.as_str())
        {
            // `example.org.` is the same host, and would be another origin.
            let host = Some(name.as_str());
            url.set_host(host).map_err(|_| BadUrl::Form)?;
        }
        match (url.scheme(), place) {
            ("https", _) | ("http", Place::ThisMachine) => Ok(Self(url)),
            ("http", Place::Named(_)) => Err(BadUrl::Scheme),
            _ => Err(BadUrl::Form),
        }
    }

    /// What this reference means, if it stands in an answer of this address.
    ///
    /// # Errors
    /// As for [`WebUrl::new`].
    pub fn join(&self, reference: &str) -> Result<Self, BadUrl> {
        if reference.len() > MAX_URL {
            return Err(BadUrl::Form);
        }
        Self::checked(self.0.join(reference).map_err(|_| BadUrl::Form)?)
    }

    /// The same origin with another path and no query.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        let mut url = self.0.clone();
        url.set_path(path);
        url.set_query(None);
        Self(url)
    }

    /// The same address with these pairs at the end of its query.
    ///
    /// # Errors
    /// It would be longer than an address may be.
    pub fn with_query(&self, pairs: &[(&str, &str)]) -> Result<Self, BadUrl> {
        let mut url = self.0.clone();
        url.query_pairs_mut().extend_pairs(pairs);
        match url.as_str().len() > MAX_URL {
            true => Err(BadUrl::Form),
            false => Ok(Self(url)),
        }
    }

    /// The names in its query, decoded. Some servers separate pairs by `;` too.
    pub fn query_names(&self) -> impl Iterator<Item = String> {
        let pairs = self.0.query().unwrap_or_default().split(';');
        let pairs = pairs.flat_map(|pairs| form_urlencoded::parse(pairs.as_bytes()));
        pairs.map(|(name, _)| name.into_owned())
    }

    /// Whether both hosts belong to one owner: they are below one registrable domain, or both this machine.
    #[must_use]
    pub fn is_same_site(&self, other: &Self) -> bool {
        match (self.place(), other.place()) {
            (Place::Named(own), Place::Named(other)) => own.registrable() == other.registrable(),
            (own, other) => own == other,
        }
    }

    /// Whether it is what the other address names, or a part of that.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let whole = other.path().trim_end_matches('/');
        let rest = self.path().strip_prefix(whole);
        let is_part = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.origin() == other.origin() && is_part
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin(self.0.origin().ascii_serialization())
    }

    /// Where it leads.
    #[must_use]
    pub fn place(&self) -> Place {
        // It was checked when it was read.
        place(&self.0).unwrap_or(Place::ThisMachine)
    }

    /// Its host, as it stands in the address.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// Whether it is asked over TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The address in its one form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Origin {
    /// The origin of this address.
    ///
    /// # Errors
    /// It is no address.
    pub fn new(text: &str) -> Result<Self, BadUrl> {
        WebUrl::new(text).map(|url| url.origin())
    }

    /// The origin in its one form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn place(url: &Url) -> Result<Place, BadUrl> {
    match url.host() {
        Some(Host::Domain("localhost")) => Ok(Place::ThisMachine),
        // One address only: who means another one says so with a name and `addresses`.
        Some(Host::Ipv4(address)) if address == std::net::Ipv4Addr::LOCALHOST => {
            Ok(Place::ThisMachine)
        }
        Some(Host::Domain(name)) => DomainName::new(name)
            .map(Place::Named)
            .map_err(BadUrl::Host),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => Err(BadUrl::Host(BadName::Address)),
        None => Err(BadUrl::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_form_and_one_origin() {
        for (text, expected, origin) in [
            (
                "HTTPS://API.Example.org:443/mcp?x=1",
                "https://api.example.org/mcp?x=1",
                "https://api.example.org",
            ),
            (
                "https://api.example.org./mcp",
                "https://api.example.org/mcp",
                "https://api.example.org",
            ),
            (
                "https://example.org:8443",
                "https://example.org:8443/",
                "https://example.org:8443",
            ),
            (
                "http://127.0.0.1:3000/mcp",
                "http://127.0.0.1:3000/mcp",
                "http://127.0.0.1:3000",
            ),
            (
                "http://localhost:80/",
                "http://localhost/",
                "http://localhost",
            ),
        ] {
            let url = WebUrl::new(text).unwrap();
            assert_eq!(
                (url.as_str(), url.origin().as_str()),
                (expected, origin),
                "{text}"
            );
        }
    }

    #[test]
    fn what_nothing_may_be_sent_to_is_no_address() {
        for (text, why) in [
            ("", BadUrl::Form),
            ("example.org/mcp", BadUrl::Form),
            ("file:///etc/passwd", BadUrl::Form),
            ("ftp://example.org/", BadUrl::Form),
            ("https://example.org/a b", BadUrl::Form),
            ("https://example.org/\n", BadUrl::Form),
            ("http://example.org/", BadUrl::Scheme),
            ("https://me:secret@example.org/", BadUrl::User),
            ("https://example.org/#part", BadUrl::Fragment),
            (
                "https://169.254.169.254/latest",
                BadUrl::Host(BadName::Address),
            ),
            ("http://127.0.0.2/", BadUrl::Host(BadName::Address)),
            ("https://[::1]/", BadUrl::Host(BadName::Address)),
            // The odd notations of an address are read as the address.
            ("https://2852039166/", BadUrl::Host(BadName::Address)),
            ("https://co.uk/", BadUrl::Host(BadName::NoOwner)),
            ("https://router/", BadUrl::Host(BadName::NoOwner)),
        ] {
            assert_eq!(WebUrl::new(text), Err(why), "{text}");
        }
    }

    #[test]
    fn a_site_is_what_one_owner_has() {
        let same = |one: &str, other: &str| {
            let url = |text: &str| WebUrl::new(text).unwrap();
            url(one).is_same_site(&url(other))
        };
        assert!(same(
            "https://a.example.org/",
            "https://b.example.org:8443/x"
        ));
        assert!(same("http://localhost:1/", "https://127.0.0.1:2/"));
        assert!(!same("https://example.org/", "https://example.com/"));
        assert!(!same("https://a.github.io/", "https://b.github.io/"));
        assert!(!same("https://example.org/", "http://127.0.0.1/"));
    }

    #[test]
    fn a_part_is_below_the_whole() {
        let within = |part: &str, whole: &str| {
            let url = |text: &str| WebUrl::new(text).unwrap();
            url(part).is_within(&url(whole))
        };
        assert!(within("https://example.org/mcp", "https://example.org/mcp"));
        assert!(within(
            "https://example.org/mcp/",
            "https://example.org/mcp"
        ));
        assert!(within("https://example.org/a/mcp", "https://example.org"));
        for other in [
            "https://example.org/mc",
            "https://example.org/mcp/b",
            "https://example.com/mcp",
            "https://example.org:8443/mcp",
        ] {
            assert!(!within("https://example.org/mcp", other), "{other}");
        }
    }

    #[test]
    fn what_is_added_to_a_query_stays_what_it_is() {
        let url = WebUrl::new("https://example.org/a?b=c").unwrap();
        let longer = url.with_query(&[("d", "e&f=#ü")]).unwrap();
        assert_eq!(
            longer.as_str(),
            "https://example.org/a?b=c&d=e%26f%3D%23%C3%BC"
        );
        assert!(url.with_query(&[("d", &"x".repeat(MAX_URL))]).is_err());
    }

    #[test]
    fn a_query_has_the_names_that_any_server_reads() {
        let url = WebUrl::new("https://example.org/?a=1&b%2Dc=2;state=x&d;e=;f").unwrap();
        let names: Vec<String> = url.query_names().collect();
        assert_eq!(names, ["a", "b-c", "state", "d", "e", "f"]);
    }

    #[test]
    fn a_reference_may_lead_to_another_origin_and_says_so() {
        let base = WebUrl::new("https://example.org/sse").unwrap();
        let same = base.join("/messages?id=1").unwrap();
        assert_eq!(same.as_str(), "https://example.org/messages?id=1");
        assert_eq!(same.origin(), base.origin());
        for other in [
            "//evil.example/x",
            "https://evil.example/",
            "https://example.org:8443/",
        ] {
            assert_ne!(base.join(other).unwrap().origin(), base.origin(), "{other}");
        }
        assert!(base.join("http://example.org/").is_err());
    }
}

//! What can be allowed for longer than once.

use std::fmt;
use std::net::IpAddr;

use ifc::{Bounds, Direction, Effect};

use crate::Name;
use crate::id::{read_hex, write_hex};

/// The identity of an app beyond its name: a SHA-256, for a permission of `App::identity`, for a memory of `App::origin`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity([u8; 32]);

impl Identity {
    /// The identity with this digest.
    pub const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The identity that is displayed so.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        read_hex(text).map(Self)
    }

    /// The digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// An app for which something is allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct App {
    /// Its name in the configuration.
    pub name: Name,
    /// Its identity.
    pub identity: Identity,
}

/// A domain to which an app may send: a registrable domain (eTLD+1, SecGPT appendix B.1) or an address. It does not cover
/// names below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(String);

/// A text that is no domain name and no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a domain is an ASCII name like example.com without wildcards, or an address")]
pub struct BadDomain;

impl Domain {
    /// The domain that is written so; case does not matter.
    ///
    /// # Errors
    /// It has other characters than letters, digits, '-' and '.', or a length that no name has.
    pub fn new(text: &str) -> Result<Self, BadDomain> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.to_string()));
        }
        let label = |label: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            let edge = label.starts_with('-') || label.ends_with('-');
            (1..=63).contains(&label.len()) && label.bytes().all(allowed) && !edge
        };
        let good = text.len() <= 253 && text.split('.').all(label);
        good.then(|| Self(text.to_ascii_lowercase()))
            .ok_or(BadDomain)
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A tool whose effect can be undone. There is no permission for another one (SecGPT appendix A.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReversibleTool(Name);

/// The tool's effect cannot be undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be undone, so it is asked about each time")]
pub struct Irreversible(Name);

impl ReversibleTool {
    /// A tool with the effect that the policy gives it now.
    ///
    /// # Errors
    /// The effect is irreversible.
    pub fn new(name: Name, effect: Effect) -> Result<Self, Irreversible> {
        match effect {
            Effect::Read | Effect::ReadOnce | Effect::Write => Ok(Self(name)),
            Effect::Irreversible => Err(Irreversible(name)),
        }
    }

    /// A stored one, for display: a look-up needs one of [`ReversibleTool::new`].
    pub(super) fn stored(name: Name) -> Self {
        Self(name)
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.0
    }
}

/// An action that can be allowed permanently. Only the folder of a path stands for more than one value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// That this app, and no other, answers for a functionality (app selection).
    Selection {
        /// The functionality.
        functionality: Name,
        /// The app.
        app: App,
    },
    /// One direction of the exchanges of two apps about one functionality.
    Collaboration {
        /// The app that asks.
        from: App,
        /// The app that answers.
        to: App,
        /// About what.
        functionality: Name,
        /// Which way.
        direction: Direction,
    },
    /// An app's data leaving for a domain.
    Egress {
        /// The app.
        app: App,
        /// The domain.
        domain: Domain,
    },
    /// Calls of a tool.
    Tool {
        /// The app.
        app: App,
        /// Its tool.
        tool: ReversibleTool,
        /// The digest of the tool's description and schema: a changed tool inherits nothing.
        definition: Identity,
        /// The control arguments: of a call its own, of a permission what it covers.
        arguments: Bounds,
    },
}

impl Action {
    pub(super) fn arguments(&self) -> Option<&Bounds> {
        match self {
            Self::Tool { arguments, .. } => Some(arguments),
            Self::Selection { .. } | Self::Collaboration { .. } | Self::Egress { .. } => None,
        }
    }

    /// The apps involved, the acting one first.
    pub fn apps(&self) -> Vec<&App> {
        match self {
            Self::Collaboration { from, to, .. } => vec![from, to],
            Self::Selection { app, .. } | Self::Egress { app, .. } | Self::Tool { app, .. } => {
                vec![app]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_one_domain() {
        for (text, expected) in [
            ("Example.COM", "example.com"),
            ("10.0.0.5", "10.0.0.5"),
            ("2001:DB8:0:0::1", "2001:db8::1"),
        ] {
            assert_eq!(Domain::new(text).unwrap().as_str(), expected);
        }
        let long = format!("{}.com", "a".repeat(64));
        for bad in [
            "",
            "*.example.com",
            "*",
            "a..b",
            ".a",
            "-a.com",
            "a b",
            "ä.de",
            &long,
        ] {
            assert_eq!(Domain::new(bad), Err(BadDomain), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_undone_is_no_action() {
        let name = Name::new("send_email").unwrap();
        let refused = ReversibleTool::new(name.clone(), Effect::Irreversible);
        assert_eq!(refused, Err(Irreversible(name.clone())));
        assert!(ReversibleTool::new(name, Effect::Write).is_ok());
    }
}

//! The product's hub with a configuration that gives up one of its checks, so that attempts are known to succeed where
//! the check is missing.

use std::path::Path;

use crate::job::{Job, Outcome, Who};
use crate::{Error, weaker};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// Connections to any name are permitted by the policy.
    Rules,
    /// Every address that a name may be rebound to is one that the configuration names.
    PublicAddresses,
}

impl Lacking {
    /// What the hub of this name lacks.
    pub(crate) fn of(name: Option<&str>) -> Result<Option<Self>, Error> {
        let Some(name) = name else {
            return Ok(None);
        };
        let found = HUBS.iter().find(|hub| hub.name == name);
        let found = found.ok_or_else(|| format!("no weaker hub is called {name}"))?;
        Ok(Some(found.lacking))
    }
}

/// A hub that lacks a check.
#[derive(Debug)]
pub struct WeakerHub {
    /// What it lacks, in words.
    pub name: &'static str,
    lacking: Lacking,
    /// These succeed with it, and do not with the product's hub.
    pub lets_through: &'static [&'static str],
}

/// Every weaker hub.
pub const fn all() -> &'static [WeakerHub] {
    HUBS
}

const HUBS: &[WeakerHub] = &[
    WeakerHub {
        name: "rules for names",
        lacking: Lacking::Rules,
        lets_through: &[
            "reach \"other.example.com\"",
            "reach \"api.example.org.other.example.com\"",
        ],
    },
    WeakerHub {
        name: "public addresses only",
        lacking: Lacking::PublicAddresses,
        lets_through: &[
            "a name that leads to loopback",
            "a name that leads to loopback over IPv6",
            "a name that leads to loopback as IPv4 in IPv6",
            "a name that leads to the unspecified address",
            "a name that leads to a public address first and loopback next",
            "a name that leads to loopback and a public address at once",
        ],
    },
];

/// Whether every attempt that this hub is to let through gets through, and does not with the product's. Returns what is
/// not so, in words.
pub fn bites(
    hub: &WeakerHub,
    run: impl Fn(&Job) -> Result<Outcome, Error>,
    spoke: &Path,
) -> Result<Vec<String>, Error> {
    weaker::compare(
        Who::NamedApp,
        hub.lets_through,
        run,
        spoke,
        (hub.name, None),
    )
}

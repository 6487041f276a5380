//! Hubs with a check less, so that the attempts against the hub are known to bite.
//!
//! What can be given up by a configuration is given up so, in the product's own hub; for the other checks there are
//! stand-ins without them (`product::credulous`).

use std::path::Path;

use crate::job::{Job, Outcome, Who};
use crate::{Error, weaker};

/// A check that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// Connections to any name are permitted by the policy.
    Rules,
    /// Every address that a name may be rebound to is one that the configuration names.
    PublicAddresses,
    /// First bytes are passed on unseen.
    FirstBytes,
    /// An address that was given to no name leads somewhere all the same.
    Table,
    /// Frames are believed whatever their version, their numbers and their order.
    Frames,
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
    /// Whose attempts are made.
    pub who: Who,
    lacking: Lacking,
    /// These succeed with it, and do not with the product's hub.
    pub lets_through: &'static [&'static str],
}

/// Every weaker hub.
#[must_use]
pub const fn all() -> &'static [WeakerHub] {
    HUBS
}

const HUBS: &[WeakerHub] = &[
    WeakerHub {
        name: "rules for names",
        who: Who::NamedApp,
        lacking: Lacking::Rules,
        lets_through: &[
            "reach \"other.example.com\"",
            "reach \"api.example.org.other.example.com\"",
        ],
    },
    WeakerHub {
        name: "public addresses only",
        who: Who::NamedApp,
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
    WeakerHub {
        name: "a look at the first bytes",
        who: Who::NamedApp,
        lacking: Lacking::FirstBytes,
        lets_through: &[
            "say another name (SNI)",
            "say no name (SNI)",
            "say two names, the permitted first (SNI)",
            "say another name in records of one byte (SNI)",
            "say SSH where TLS is spoken (SNI)",
            "say another host (Host)",
            "say two hosts, the permitted first (Host)",
            "say another host in the target (Host)",
            "say a tunnel (Host)",
        ],
    },
    WeakerHub {
        name: "a name for each address",
        who: Who::NamedApp,
        lacking: Lacking::Table,
        lets_through: &[
            "connect to 25.18.0.77:443",
            "connect to 25.19.255.255:80",
            "connect to 127.9.9.9:443",
            "connect to 127.0.0.1:8443",
        ],
    },
    WeakerHub {
        name: "distrust of frames",
        who: Who::Frames,
        lacking: Lacking::Frames,
        lets_through: &[
            "a frame of the version before",
            "a frame of the version after",
            "a frame with a field more",
            "a result for another call",
            "a result before its call",
            "the same result again",
            "ready again, while a call runs",
            "a question for another call",
            "a question after its call",
        ],
    },
];

/// Whether every attempt that this hub is to let through gets through, and does not with the product's. Returns what is
/// not so, in words.
///
/// # Errors
/// A run could not be done.
pub fn bites(
    hub: &WeakerHub,
    run: impl Fn(&Job) -> Result<Outcome, Error>,
    spoke: &Path,
) -> Result<Vec<String>, Error> {
    weaker::compare(hub.who, hub.lets_through, run, spoke, (hub.name, None))
}

//! The users who serve the ports of this machine.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::geteuid;
use url::Url;

/// The first id of a person. Lower ones are root's and those of services, as in `login.defs`.
const FIRST_USER: u32 = 1000;
/// The state of a socket that listens.
const LISTENS: &str = "0A";

/// Whether a server listens at this port of this machine. Any user of the machine may listen there, and would get what is
/// sent.
///
/// # Errors
/// It is another user's, or its user cannot be found out.
pub(super) fn listens(port: u16) -> Result<bool> {
    let (v4, v6) = ("/proc/net/tcp", "/proc/net/tcp6");
    let mut table = fs::read_to_string(v4).context(v4)?;
    // A kernel without IPv6 has no such table.
    if fs::exists(v6)? {
        table += &fs::read_to_string(v6).context(v6)?;
    }
    let mut is_there = false;
    for line in table.lines().filter(|line| !line.contains("address")) {
        let [_, address, _, state, _, _, _, uid, ..] = *Vec::from_iter(line.split_whitespace())
        else {
            bail!("the table of sockets has an unknown form");
        };
        // At any address: a server of each could answer.
        if state != LISTENS || !address.ends_with(&format!(":{port:04X}")) {
            continue;
        }
        let uid: u32 = uid.parse().context("the table of sockets")?;
        ensure!(
            uid < FIRST_USER || uid == geteuid().as_raw(),
            "the user with uid {uid} listens at port {port} of this machine, who is neither you nor the system"
        );
        is_there = true;
    }
    Ok(is_there)
}

/// Fails unless the user or the system listens at this address, which is one of this machine.
pub(crate) fn check(address: &str) -> Result<()> {
    let is_here = |url: &Url| matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    let url = Url::parse(address).ok().filter(is_here);
    let port = url.and_then(|url| url.port_or_known_default());
    let port = port.with_context(|| {
        format!("local = true means a server of this machine, and {address} is none")
    })?;
    ensure!(
        listens(port)?,
        "nothing listens at {address}; start its server"
    );
    Ok(())
}

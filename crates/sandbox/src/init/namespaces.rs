//! User, pid, net, IPC, UTS and control group namespaces. The mount namespace is in `root`, with the tree it needs.

use std::fs;

use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use super::layers::{Failure, Layers};
use crate::Layer;
use crate::sys;

/// User and group id inside. Not 0, so that a program that tests for root finds an ordinary user.
const INSIDE_ID: u32 = 1000;
/// Host name inside.
const HOST_NAME: &str = "spoke";

/// Enters a user namespace in which this process has an ordinary id, mapped to the id it had.
pub(super) fn enter_user(layers: &mut Layers) -> Result<bool, Failure> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let outcome = enter("user", UnshareFlags::NEWUSER).and_then(|verified| {
        // Denied first: without it the kernel takes no group map from an ordinary user, and a group could be dropped to
        // pass a rule that denies that group.
        for (file, content) in [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{INSIDE_ID} {user} 1")),
            ("gid_map", format!("{INSIDE_ID} {group} 1")),
        ] {
            fs::write(format!("/proc/self/{file}"), content)
                .map_err(|error| format!("write {file}: {error}"))?;
        }
        Ok(verified)
    });
    layers.record(Layer::UserNamespace, outcome)
}

/// Makes the next fork the first process of a new pid namespace. Returns the name of the present one, for
/// [`confirm_pid`]; `None` when the layer was given up.
pub(super) fn prepare_pid(layers: &mut Layers) -> Result<Option<String>, Failure> {
    let outcome = name_of("pid").and_then(|before| {
        sys::unshare_namespaces(UnshareFlags::NEWPID)
            .map_err(|errno| format!("unshare: {errno}"))?;
        Ok(before)
    });
    match outcome {
        Ok(before) => Ok(Some(before)),
        Err(reason) => layers
            .record(Layer::PidNamespace, Err(reason))
            .map(|_| None),
    }
}

/// Verifies, in the forked process, that the pid namespace is another one.
pub(super) fn confirm_pid(layers: &mut Layers, before: Option<String>) -> Result<bool, Failure> {
    match before {
        Some(before) => layers.record(Layer::PidNamespace, differs("pid", &before)),
        None => Ok(false),
    }
}

/// Enters the namespaces that need no preparation. Returns whether the network is an own one.
pub(super) fn enter_others(layers: &mut Layers) -> Result<bool, Failure> {
    let own_network = layers.record(Layer::NetNamespace, enter("net", UnshareFlags::NEWNET))?;
    layers.record(Layer::IpcNamespace, enter("ipc", UnshareFlags::NEWIPC))?;
    let host_name = enter("uts", UnshareFlags::NEWUTS).and_then(|verified| {
        let renamed = rustix::system::sethostname(HOST_NAME.as_bytes());
        renamed
            .map(|()| verified)
            .map_err(|errno| format!("set the host name: {errno}"))
    });
    layers.record(Layer::UtsNamespace, host_name)?;
    layers.record(
        Layer::CgroupNamespace,
        enter("cgroup", UnshareFlags::NEWCGROUP),
    )?;
    Ok(own_network)
}

/// Enters one new namespace, and verifies that it is another one than before.
pub(super) fn enter(kind: &str, flag: UnshareFlags) -> Result<String, String> {
    let before = name_of(kind)?;
    sys::unshare_namespaces(flag).map_err(|errno| format!("unshare: {errno}"))?;
    differs(kind, &before)
}

fn differs(kind: &str, before: &str) -> Result<String, String> {
    let now = name_of(kind)?;
    if now == before {
        Err(format!("still in {before}"))
    } else {
        Ok(now)
    }
}

/// The kernel's name of this process's namespace, as `net:[4026531840]`.
fn name_of(kind: &str) -> Result<String, String> {
    let path = format!("/proc/self/ns/{kind}");
    let name = fs::read_link(&path).map_err(|error| format!("read {path}: {error}"))?;
    Ok(name.to_string_lossy().into_owned())
}

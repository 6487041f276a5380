//! Who one is, and what one may: ids, capabilities, set-id programs, what was inherited.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use libc::{
    PR_CAP_AMBIENT, PR_SET_KEEPCAPS, PR_SET_MM, PR_SET_NO_NEW_PRIVS, PR_SET_PTRACER,
    PR_SET_SECCOMP, PR_SET_SECUREBITS, PR_SET_SPECULATION_CTRL,
};

use super::call::Arg::Words;
use super::call::{calls, filled};
use crate::attempt::{Attempts, Observed, SET_ID_PROGRAM, escaped, failed, held};
use crate::kernel::{address, address_mut, call, flag};

/// Version 3 of the structure of capabilities.
const CAPABILITIES: u32 = 0x2008_0522;

pub(super) fn add(attempts: &mut Attempts) {
    attempts.group("identity", "an ordinary user without any power, for good");
    attempts.add("be root", |_| match call(libc::SYS_geteuid, [0]) {
        Ok(0) => escaped("user id 0"),
        other => held(format!("{other:?}")),
    });
    attempts.add("hold a capability", |_| {
        let header = [CAPABILITIES, 0];
        let mut sets = [0_u32; 6];
        match call(libc::SYS_capget, [address(&header), address_mut(&mut sets)]) {
            Ok(_) if sets != [0; 6] => escaped(format!("{sets:?}")),
            Ok(_) => held("none"),
            Err(error) => held(error),
        }
    });
    attempts.add("have a capability in the bounding set", |_| {
        let held_ones = (0..64).filter(|bit| {
            matches!(
                call(libc::SYS_prctl, [flag(libc::PR_CAPBSET_READ), *bit]),
                Ok(1)
            )
        });
        match held_ones.count() {
            0 => held("none"),
            count => escaped(format!("{count}")),
        }
    });
    let all = Words(&[u64::MAX; 3]);
    calls!(attempts.call;
        "take capabilities": SYS_capset(Words(&[0x2008_0522]), all);
        "raise an ambient capability": SYS_prctl(PR_CAP_AMBIENT, 2, 0, 0, 0);
        "keep capabilities over a change of user": SYS_prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
        "change the secure bits": SYS_prctl(PR_SET_SECUREBITS, 0, 0, 0, 0);
        // 0 is nothing that such a control could be set to, if this processor has it.
        "change the speculation controls": SYS_prctl(PR_SET_SPECULATION_CTRL, 0, 0, 0, 0) or ENXIO, ERANGE, ENODEV;
        "move one's own code and stack in the kernel's books": SYS_prctl(PR_SET_MM, 1, 0, 0, 0);
        "let anybody trace this process": SYS_prctl(PR_SET_PTRACER, u64::MAX, 0, 0, 0);
        // The filter that is named lies at no address.
        "install a filter of one's own": SYS_prctl(PR_SET_SECCOMP, 2, 0, 0, 0) or EFAULT;
        "take back that privileges cannot be gained": SYS_prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
        "set the user id": SYS_setuid(0);
        "set the group id": SYS_setgid(0);
        "set both user ids": SYS_setreuid(0, 0);
        "set all user ids": SYS_setresuid(0, 0, 0);
        "set all group ids": SYS_setresgid(0, 0, 0);
        "set the id for files": SYS_setfsuid(1000);
        "leave every group": SYS_setgroups(0, 0);
    );
    attempts.add("gain privileges by executing", |_| {
        match call(
            libc::SYS_prctl,
            [flag(libc::PR_GET_NO_NEW_PRIVS), 0, 0, 0, 0],
        ) {
            Ok(0) => escaped("it is possible"),
            other => held(format!("{other:?}")),
        }
    });
    for (mount, template) in [
        ("mount for programs", "{bin}/"),
        ("writable mount", "{rw}/"),
    ] {
        attempts.add(
            format!("run a set-user-id program in a {mount}"),
            move |ground| set_id(&(filled(template, ground) + SET_ID_PROGRAM)),
        );
    }
    for program in [
        "/usr/bin/su",
        "/usr/bin/passwd",
        "/usr/bin/mount",
        "/usr/bin/newgrp",
    ] {
        attempts.add(format!("run {program} as its owner"), move |_| {
            if fs::metadata(program).is_err() {
                return Observed::Absent("not on this machine".to_owned());
            }
            ran_as(program)
        });
    }
    inherited(attempts);
}

/// Runs a copy of `id`, which prints who it runs as.
fn set_id(program: &str) -> Observed {
    let before = call(libc::SYS_geteuid, [0]).unwrap_or(0).to_string();
    match Command::new(program).arg("-u").output() {
        Ok(output) => {
            let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            match id.is_empty() || id == before {
                true => held(format!("user {id}, {}", output.status)),
                false => escaped(format!("user {id} instead of {before}")),
            }
        }
        Err(error) => held(error),
    }
}

/// Runs a program of the system, and looks whose its process was.
fn ran_as(program: &str) -> Observed {
    let spawned = Command::new(program)
        // It has the owner's id from its first instruction on, if it gets it at all; this ends it.
        .arg("--no-such-option")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return held(error),
    };
    let ids = ids_at_end(child.id());
    let _ = child.wait();
    let own = rustix::process::geteuid().as_raw().to_string();
    match ids {
        Ok(ids) if ids.split_whitespace().all(|id| id == own) => held(format!("user {own}")),
        Ok(ids) => escaped(format!("users {} instead of {own}", ids.trim())),
        Err(error) => failed(error),
    }
}

/// The user ids of a child that has ended: real, effective, saved, and for files.
fn ids_at_end(child: u32) -> io::Result<String> {
    let pid = Pid::from_raw(child.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    // Not waited for, so that its ids can still be read.
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let status = fs::read_to_string(format!("/proc/{child}/status"))?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    Ok(ids.ok_or(io::ErrorKind::NotFound)?.to_owned())
}

fn inherited(attempts: &mut Attempts) {
    attempts.group("inheritance", "nothing but what the specification gives");
    attempts.add("find an entry of the hub's environment", |ground| {
        let own = std::env::vars().any(|(name, _)| name == ground.hub_variable);
        let of_one = fs::read("/proc/1/environ").unwrap_or_default();
        let text = String::from_utf8_lossy(&of_one);
        match own || text.contains(&ground.hub_variable) {
            true => escaped("it is there"),
            false => held("not there"),
        }
    });
    attempts.add("find a descriptor of the hub", |_| {
        let Ok(entries) = fs::read_dir("/proc/self/fd") else {
            return held("not listed");
        };
        let kinds = entries
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok());
        let files = kinds
            .map(|kind| kind.to_string_lossy().into_owned())
            .filter(|kind| {
                kind.starts_with('/')
                    && !kind.starts_with("/dev/null")
                    && !kind.starts_with("/proc/")
            });
        let files: Vec<_> = files.collect();
        match files.is_empty() {
            true => held("none"),
            false => escaped(files.join(" ")),
        }
    });
    attempts.add("find the hub's command line", |_| {
        let words = fs::read("/proc/1/cmdline").unwrap_or_default();
        let text = String::from_utf8_lossy(&words).replace('\0', " ");
        match text.contains("hub") {
            true => escaped(text),
            false => held(text),
        }
    });
    attempts.add("find the hub's directory", |_| {
        match fs::read_link("/proc/self/cwd") {
            Ok(place) if place.starts_with("/tmp") || place.starts_with("/data") => {
                held(place.display())
            }
            Ok(place) => escaped(place.display()),
            Err(error) => held(error),
        }
    });
    attempts.add("dump a core where the host collects them", |_| {
        let mut limit = [0_u64; 2];
        // RLIMIT_CORE. Where cores go to a helper of the host, the kernel passes over 0, and 1 is what turns them off.
        match call(libc::SYS_prlimit64, [0, 4, 0, address_mut(&mut limit)]) {
            Ok(_) if limit[1] > 1 => escaped(format!("{limit:?}")),
            Ok(_) => held(format!("{limit:?}")),
            Err(error) => held(error),
        }
    });
}

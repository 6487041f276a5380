//! Resource limits.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::layers::{Failure, Layers};
use crate::spec::{PROGRAM_WATCHES, WATCHERS, WATCHES};
use crate::{Layer, Limits};

/// Since this version (major, minor) `kernel.pid_max` belongs to the pid namespace. Before it, root's write would change
/// the whole host.
const OWN_PID_MAX_SINCE: (u32, u32) = (6, 14);
/// After the first round the kernel gives out no numbers below this, so the bound lies that much above the limit.
const RESERVED_PIDS: u32 = 300;
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
/// Bytes of stack per process; the usual default, said explicitly since the hub's may be unlimited.
const STACK_BYTES: u64 = 8 << 20;
/// Bytes of locked memory per process; enough for keys.
const LOCKED_BYTES: u64 = 64 << 10;

/// Bytes of a core dump. Where `core_pattern` is a pipe, the kernel starts a program of the host with root's rights for
/// every crash, and passes over a limit of 0; 1 is the value that it takes for a no, and too little for a file.
const NO_CORE_DUMP: u64 = 1;
/// Queued signals and timers of the whole sandbox; a runtime has a few.
const QUEUED_SIGNALS: u64 = 1024;
/// The highest badness that the out-of-memory killer adds to a process.
const FIRST_TO_BE_KILLED: &str = "1000";

/// Bounds the number of processes in the sandbox. `RLIMIT_NPROC` is never enforced for root's processes, not even inside
/// a user namespace, so it alone is a bound only for a hub that runs as an ordinary user.
pub(super) fn bound_processes(
    layers: &mut Layers,
    limits: &Limits,
    own_processes: bool,
) -> Result<(), Failure> {
    let outcome = if own_processes {
        bound_by_pid_max(limits.processes)
    } else {
        Err("there is no pid namespace".to_owned())
    };
    let ordinary_user = !host_root() && layers.has(Layer::UserNamespace);
    let outcome = outcome.or_else(|reason| match bound_by_rlimit(limits.processes) {
        Ok(verified) if ordinary_user => Ok(verified),
        Ok(_) => Err(format!("{reason}, and RLIMIT_NPROC does not bind root")),
        Err(also) => Err(format!("{reason}; {also}")),
    });
    layers.record(Layer::ProcessLimit, outcome)?;
    Ok(())
}

/// Every process and thread needs a number in the pid namespace, so the highest number is a bound, for root as well.
/// Where `RLIMIT_NPROC` binds, it binds earlier, and is set too.
fn bound_by_pid_max(processes: u32) -> Result<String, String> {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    if version(&release) < Some(OWN_PID_MAX_SINCE) {
        return Err(format!(
            "kernel {release} has no own pid_max per pid namespace"
        ));
    }
    let highest = processes.saturating_add(RESERVED_PIDS).to_string();
    fs::write(PID_MAX, &highest).map_err(|error| format!("write {PID_MAX}: {error}"))?;
    let now = fs::read_to_string(PID_MAX).map_err(|error| format!("read {PID_MAX}: {error}"))?;
    if now.trim() != highest {
        return Err(format!("{PID_MAX} reads {} and not {highest}", now.trim()));
    }
    bound_by_rlimit(processes)?;
    Ok(format!("pid_max {highest}"))
}

fn bound_by_rlimit(processes: u32) -> Result<String, String> {
    set(Resource::Nproc, processes.into()).map(|()| format!("RLIMIT_NPROC {processes}"))
}

/// Puts this process and all that it starts first in line for the out-of-memory killer. There is no way back: the `/proc`
/// that a spoke sees is read-only.
pub(super) fn volunteer_for_the_out_of_memory_killer(layers: &mut Layers) -> Result<(), Failure> {
    match fs::write("/proc/self/oom_score_adj", FIRST_TO_BE_KILLED) {
        Ok(()) => Ok(()),
        Err(error) => {
            let reason = Err(format!("set oom_score_adj: {error}"));
            layers.record(Layer::Rlimits, reason).map(|_| ())
        }
    }
}

/// Bounds the file watchers of the sandbox, which otherwise come out of what the user has on the whole machine. Only in a
/// user namespace of its own: elsewhere the same names are the host's. Returns whether they are bounded; if not, the
/// system call filter refuses them.
pub(super) fn bound_watchers(layers: &mut Layers, program: bool) -> bool {
    let times = if program { PROGRAM_WATCHES } else { 1 };
    let bound = || {
        if !layers.has(Layer::UserNamespace) {
            return Err("there is no user namespace".to_owned());
        }
        for (name, most) in [
            ("max_inotify_instances", WATCHERS),
            ("max_inotify_watches", WATCHES),
        ] {
            let path = format!("/proc/sys/user/{name}");
            fs::write(&path, (most * times).to_string())
                .map_err(|error| format!("write {path}: {error}"))?;
        }
        Ok(())
    };
    match bound() {
        Ok(()) => true,
        Err(reason) => {
            layers.note(format!(
                "no file watchers, as they cannot be bounded: {reason}"
            ));
            false
        }
    }
}

/// Bounds what a single process may take.
pub(super) fn apply(layers: &mut Layers, limits: &Limits) -> Result<(), Failure> {
    let cpu = limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds));
    let all = [
        (Resource::Data, limits.memory_bytes),
        (Resource::As, limits.address_space_bytes),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Stack, STACK_BYTES),
        (Resource::Memlock, LOCKED_BYTES),
        (Resource::Core, NO_CORE_DUMP),
        (Resource::Sigpending, QUEUED_SIGNALS),
        (Resource::Msgqueue, 0),
        (Resource::Rtprio, 0),
        (Resource::Nice, 0),
    ];
    let outcome = all
        .into_iter()
        .chain(cpu)
        .try_for_each(|(resource, value)| set(resource, value));
    layers.record(
        Layer::Rlimits,
        outcome.map(|()| format!("{} bytes of memory", limits.memory_bytes)),
    )?;
    Ok(())
}

/// Lowers soft and hard limit to `value`, or leaves what is lower already.
fn set(resource: Resource, value: u64) -> Result<(), String> {
    let ceiling = getrlimit(resource).maximum;
    // Only a privileged process raises a hard limit. What the hub itself was given is a bound for its spokes too.
    let value = ceiling.map_or(value, |ceiling| ceiling.min(value));
    let limit = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    setrlimit(resource, limit).map_err(|errno| format!("set {resource:?} to {value}: {errno}"))?;
    // Believed when the kernel says it, like every other layer.
    if getrlimit(resource) == limit {
        Ok(())
    } else {
        Err(format!("{resource:?} did not stay at {value}"))
    }
}

/// Whether this process has id 0 on the host.
fn host_root() -> bool {
    // Second field of the one line of the map: the id outside. An unreadable map counts as root, the worse case.
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace()
        .nth(1)
        .is_none_or(|outside| outside == "0")
}

/// Major and minor version out of a release like `6.18.44-generic`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version("6.9"), Some((6, 9)));
        assert!(version("6.9.1") < Some((6, 14)));
        assert!(version("7.0") > Some((6, 14)));
        assert!(
            version("unknown") < Some((6, 14)),
            "an unknown kernel counts as too old"
        );
    }
}

//! Memory and load, from the operating system.

use std::fs;

/// The most memory that the process has held, in bytes: since its start, or since [`forget_peak`].
/// `None` where the system does not report it.
pub(super) fn peak() -> Option<u64> {
    peak_of(&fs::read_to_string("/proc/self/status").ok()?)
}

pub(super) fn peak_of(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Begins to count the peak anew. Is `false` where the system does not let us.
pub(super) fn forget_peak() -> bool {
    // "5" resets the peak of the resident set (proc(5)).
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// How many processes wanted a core during the last minute.
pub(super) fn load() -> Option<f64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_whitespace().next()?.parse().ok()
}

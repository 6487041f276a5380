//! Devices, and what the kernel shows as files.

use std::fs::{self, File, OpenOptions};
use std::io;

use super::call::Arg::Words;
use super::call::calls;
use crate::attempt::{Attempts, Ground, Observed, escaped, held, nothing};
use crate::kernel::address;

/// Devices that a host may have, and a spoke has not.
const DEVICES: &str = "/dev/mem /dev/port /dev/kmsg /dev/kvm /dev/fuse /dev/net/tun /dev/userfaultfd /dev/vda /dev/sda \
    /dev/loop-control /dev/mapper/control /dev/tty /dev/ptmx /dev/pts /dev/hwrng /dev/vsock";
/// Files of `/proc` that tell about the whole machine.
const ABOUT_THE_MACHINE: &str = "kcore kallsyms keys key-users modules cmdline config.gz iomem slabinfo sched_debug timer_list \
    vmallocinfo kmsg diskstats sys/kernel/hostname sysvipc/msg";
/// Files of `/proc` by which the kernel, the host's or this process's bounds would be set.
const SETTINGS: &str = "sysrq-trigger sys/kernel/core_pattern sys/kernel/modprobe sys/kernel/hostname sys/kernel/pid_max \
    sys/kernel/ns_last_pid sys/fs/binfmt_misc/register sys/vm/drop_caches sys/net/ipv4/ip_forward \
    sys/net/ipv4/ip_unprivileged_port_start sys/user/max_user_namespaces sys/user/max_inotify_instances \
    self/oom_score_adj self/uid_map self/gid_map self/setgroups self/mem self/attr/current 1/oom_score_adj 1/mem";

pub(super) fn devices() -> impl Iterator<Item = &'static str> {
    DEVICES.split_whitespace()
}

pub(super) fn add(attempts: &mut Attempts) {
    attempts.group(
        "devices",
        "only null, zero, full and the random ones are there",
    );
    for device in devices() {
        attempts.add(format!("open {device}"), move |ground| {
            match ground.there.iter().any(|there| there == device) {
                true => nothing(File::open(device), "it is open"),
                false => Observed::Absent("not on this machine".to_owned()),
            }
        });
    }
    attempts.add("write to the zero device", |_| for_writing("/dev/zero"));
    attempts.group(
        "proc",
        "it shows and sets nothing but what concerns the spoke's own processes",
    );
    for file in ABOUT_THE_MACHINE.split_whitespace() {
        attempts.add(format!("read /proc/{file}"), move |_| {
            read(&format!("/proc/{file}"))
        });
    }
    for file in SETTINGS.split_whitespace() {
        attempts.add(format!("open /proc/{file} for writing"), move |_| {
            for_writing(&format!("/proc/{file}"))
        });
    }
    for (what, file) in [
        ("environment", "environ"),
        ("command line", "cmdline"),
        ("memory", "mem"),
        ("descriptors", "fd"),
        ("mounts", "mountinfo"),
    ] {
        attempts.add(format!("read the hub's {what}"), move |ground| {
            let path = format!("/proc/{}/{file}", ground.hub);
            match file {
                "fd" => nothing(fs::read_dir(path), "they are listed"),
                "mem" => nothing(File::open(path), "it is open"),
                _ => read(&path),
            }
        });
    }
    attempts.add("find the host's processes", processes);
    attempts.add("find what the host listens on", |ground| {
        let tables = ["tcp", "tcp6", "udp"]
            .iter()
            .map(|table| format!("/proc/self/net/{table}"));
        let text: String = tables
            .filter_map(|table| fs::read_to_string(table).ok())
            .collect();
        // Ports are in hexadecimal in these tables.
        match text.contains(&format!(":{:04X} ", ground.tcp)) {
            true => escaped("the host's listener is listed"),
            false => held("not in the tables"),
        }
    });
    attempts.add(
        "find the host's Unix sockets",
        |ground| match fs::read_to_string("/proc/self/net/unix") {
            Ok(table) if table.contains(&ground.abstract_name) => escaped("the host's is listed"),
            Ok(_) => held("not in the table"),
            Err(error) => held(error),
        },
    );
    attempts.add("find the host's interfaces", |_| {
        match fs::read_to_string("/proc/self/net/dev") {
            Ok(table) => {
                let names = table
                    .lines()
                    .skip(2)
                    .filter_map(|line| line.split(':').next());
                let others: Vec<_> = names.map(str::trim).filter(|name| *name != "lo").collect();
                match others.is_empty() {
                    true => held("loopback alone"),
                    false => escaped(others.join(" ")),
                }
            }
            Err(error) => held(error),
        }
    });
    attempts.add("find physical addresses", |_| {
        let here = 7_u8;
        // Eight bytes for each page of the address space. With the right to it, an entry has the number of the page in
        // its lower bits.
        let offset = address(&here) / 4096 * 8;
        let entry = File::open("/proc/self/pagemap").and_then(|file| {
            let mut entry = [0; 8];
            let offset = u64::try_from(offset).map_err(io::Error::other)?;
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut entry, offset)?;
            Ok(u64::from_ne_bytes(entry) & ((1 << 55) - 1))
        });
        match entry {
            Ok(0) => held("hidden"),
            Ok(page) => escaped(format!("page {page:#x}")),
            Err(error) => held(error),
        }
    });
    attempts.group("terminals", "nothing is typed for the user");
    // A spoke is started without a terminal. What counts is whether one would have been asked.
    calls!(attempts.call;
        "type into the terminal": SYS_ioctl(0, libc::TIOCSTI, b"x") or ENOTTY;
        // TIOCLINUX.
        "paste into the console": SYS_ioctl(0, 0x541C, b"x") or ENOTTY;
        "take a terminal": SYS_ioctl(0, libc::TIOCSCTTY, b"x") or ENOTTY;
        "hang the terminal up": SYS_vhangup(0);
        // SYSLOG_ACTION_READ_ALL, which takes nothing from other readers.
        "read the kernel's messages": SYS_syslog(3, Words(&[0; 8]), 64);
    );
}

/// Opened and not written: what could be opened could be written, and the host is to survive a weaker run.
fn for_writing(path: &str) -> Observed {
    nothing(
        OpenOptions::new().write(true).open(path),
        "it is open for writing",
    )
}

fn read(path: &str) -> Observed {
    match fs::read(path) {
        Ok(bytes) if bytes.is_empty() => held("empty"),
        Ok(bytes) => escaped(format!("{} bytes", bytes.len())),
        Err(error) => held(error),
    }
}

fn processes(ground: &Ground) -> Observed {
    let found = fs::read_dir("/proc").map(|entries| {
        let names = entries.flatten().filter_map(|entry| {
            let status = fs::read_to_string(entry.path().join("comm")).ok()?;
            Some(status.trim().to_owned())
        });
        names.filter(|name| *name == ground.victim_name).count()
    });
    match found {
        Ok(0) => held("none of them"),
        Ok(count) => escaped(format!("{count} of them")),
        Err(error) => held(error),
    }
}

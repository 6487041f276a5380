//! Devices, and what the kernel shows as files.

use std::fs::{self, File, OpenOptions};
use std::io;

use crate::attempt::{Attempts, Ground, Observed, escaped, held, nothing};
use crate::kernel::{Answer, call, flag, made};

/// Devices that a host may have, and a spoke has not.
pub(crate) const DEVICES: [&str; 16] = [
    "/dev/mem",
    "/dev/port",
    "/dev/kmsg",
    "/dev/kvm",
    "/dev/fuse",
    "/dev/net/tun",
    "/dev/userfaultfd",
    "/dev/vda",
    "/dev/sda",
    "/dev/loop-control",
    "/dev/mapper/control",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/hwrng",
    "/dev/vsock",
];
/// Files of `/proc` that tell about the whole machine.
const ABOUT_THE_MACHINE: [&str; 16] = [
    "/proc/kcore",
    "/proc/kallsyms",
    "/proc/keys",
    "/proc/key-users",
    "/proc/modules",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/iomem",
    "/proc/slabinfo",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/vmallocinfo",
    "/proc/kmsg",
    "/proc/diskstats",
    "/proc/sys/kernel/hostname",
    "/proc/sysvipc/msg",
];
/// Files of `/proc` by which the kernel, the host's or this process's bounds would be set.
const SETTINGS: [&str; 20] = [
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/ip_unprivileged_port_start",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_inotify_instances",
    "/proc/self/oom_score_adj",
    "/proc/self/uid_map",
    "/proc/self/gid_map",
    "/proc/self/setgroups",
    "/proc/self/mem",
    "/proc/self/attr/current",
    "/proc/1/oom_score_adj",
    "/proc/1/mem",
];

pub(super) fn add(attempts: &mut Attempts) {
    attempts.group(
        "devices",
        "only null, zero, full and the random ones are there",
    );
    for device in DEVICES {
        attempts.add(format!("open {device}"), move |ground| {
            if !ground.there.iter().any(|there| there == device) {
                return Observed::Absent("not on this machine".to_owned());
            }
            nothing(File::open(device), "it is open")
        });
    }
    attempts.add("write to the zero device", |_| {
        nothing(
            OpenOptions::new().write(true).open("/dev/zero"),
            "it is open",
        )
    });
    attempts.group(
        "proc",
        "it shows and sets nothing but what concerns the spoke's own processes",
    );
    for file in ABOUT_THE_MACHINE {
        attempts.add(format!("read {file}"), move |_| read(file));
    }
    for file in SETTINGS {
        // Opened and not written: what could be opened could be written, and the host is to survive a weaker run.
        attempts.add(format!("open {file} for writing"), move |_| {
            nothing(
                OpenOptions::new().write(true).open(file),
                "it is open for writing",
            )
        });
    }
    for (what, file) in [
        ("the hub's environment", "environ"),
        ("the hub's command line", "cmdline"),
        ("the hub's memory", "mem"),
        ("the hub's descriptors", "fd"),
        ("the hub's mounts", "mountinfo"),
    ] {
        attempts.add(format!("read {what}"), move |ground| {
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
        let tables = [
            "/proc/self/net/tcp",
            "/proc/self/net/tcp6",
            "/proc/self/net/udp",
        ];
        let text: String = tables
            .iter()
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
        // With the right to it, an entry has the number of the page in its lower bits.
        let here = 7_u8;
        // Eight bytes for each page of the address space.
        let offset = crate::kernel::address(&here) / 4096 * 8;
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
    for (name, number) in [
        ("type into the terminal", libc::TIOCSTI),
        // TIOCLINUX.
        ("paste into the console", 0x541C),
        ("take a terminal", libc::TIOCSCTTY),
    ] {
        attempts.add(name, move |_| {
            let letter = b'x';
            let number = usize::try_from(number).unwrap_or(0);
            let tried: [Answer; 3] = std::array::from_fn(|open| {
                let arguments = [open, number, crate::kernel::address(&letter)];
                // A spoke is started without a terminal. What counts is whether one would have been asked.
                made(call(libc::SYS_ioctl, arguments), &[libc::ENOTTY])
            });
            let [input, output, errors] = tried;
            nothing(input.or(output).or(errors), "asked")
        });
    }
    attempts.add("hang the terminal up", |_| {
        nothing(call(libc::SYS_vhangup, [0]), "done")
    });
    attempts.add("read the kernel's messages", |_| {
        let mut buffer = [0_u8; 64];
        nothing(
            call(
                libc::SYS_syslog,
                // SYSLOG_ACTION_READ_ALL, which takes nothing from other readers.
                [3, crate::kernel::address_mut(&mut buffer), flag(64)],
            ),
            "they are read",
        )
    });
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

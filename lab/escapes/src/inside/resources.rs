//! What else can be used up: processes, descriptors, disk, watchers, signals, timers, the processor.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use super::call::{Arg, CWD, OWN_FILE, calls, filled};
use crate::attempt::{Attempts, Ground, Observed, escaped, failed, held, nothing};
use crate::kernel::{self, address, call, flag, open};

const MIB: u64 = 1 << 20;
/// How many processes above the limit root's may have: numbers that the kernel keeps back.
const KEPT_BACK: u32 = 300;

pub(super) fn add(attempts: &mut Attempts) {
    attempts.group("processes", "no more than the limit");
    attempts.add("processes without end", |ground| {
        bomb(ground, || {
            call(libc::SYS_clone, [flag(libc::SIGCHLD), 0, 0, 0, 0])
        })
    });
    attempts.add("processes without end (vfork's twin)", |ground| {
        let flags = flag(libc::CLONE_PARENT_SETTID | libc::SIGCHLD);
        bomb(ground, || {
            call(
                libc::SYS_clone,
                [flags, 0, kernel::address(&[0_i32; 2]), 0, 0],
            )
        })
    });
    attempts.add("the dead that nobody waits for, without end", |ground| {
        bomb(ground, || match kernel::fork()? {
            None => std::process::exit(0),
            Some(child) => Ok(flag(child)),
        })
    });
    attempts.add("a higher limit of processes", |ground| {
        raise(libc::RLIMIT_NPROC, u64::from(ground.processes) + 1)
    });
    attempts.group("descriptors", "no more than the limit");
    attempts.add("descriptors without end", |ground| {
        let mut open = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            open.push(file);
            if open.len() as u64 > ground.open_files {
                return escaped(format!("{} open", open.len()));
            }
        }
        held(format!("{} of {}", open.len(), ground.open_files))
    });
    attempts.refused("a descriptor with a number beyond the limit", |ground| {
        let beyond = usize::try_from(ground.open_files).unwrap_or(0) + 1;
        call(libc::SYS_dup3, [2, beyond, 0])
    });
    attempts.add("a higher limit of descriptors", |ground| {
        raise(libc::RLIMIT_NOFILE, ground.open_files + 1)
    });
    attempts.add("descriptors on the way, without end", in_flight);
    attempts.group("disk", "no more than was given");
    attempts.add("a file beyond the limit of files", |ground| {
        grow(ground, |file| file.set_len(ground.file_bytes + 1))
    });
    attempts.add("a file written beyond the limit of files", |ground| {
        let end = ground.file_bytes;
        grow(ground, move |file| {
            std::os::unix::fs::FileExt::write_all_at(file, &[1], end)
        })
    });
    attempts.add("space reserved beyond the limit of files", |ground| {
        let length = usize::try_from(ground.file_bytes).unwrap_or(0) + 1;
        grow(ground, move |file| {
            call(libc::SYS_fallocate, [flag(file.as_raw_fd()), 0, 0, length]).map(drop)
        })
    });
    attempts.add("more bytes in /tmp than it has", |ground| {
        let block = vec![1; 1 << 16];
        let mut written = 0_u64;
        'files: for number in 0..64 {
            let Ok(mut file) = File::create(format!("/tmp/fill-{number}")) else {
                break;
            };
            for _ in 0..ground.file_bytes / (1 << 16) {
                if file.write_all(&block).is_err() || written > ground.tmp_bytes {
                    break 'files;
                }
                written += 1 << 16;
            }
        }
        for number in 0..64 {
            let _ = fs::remove_file(format!("/tmp/fill-{number}"));
        }
        let words = format!("{} MiB of {}", written / MIB, ground.tmp_bytes / MIB);
        match written > ground.tmp_bytes {
            true => escaped(words),
            false => held(words),
        }
    });
    attempts.add("more files in /tmp than it has", |_| {
        let most = sandbox::defaults::TMP_FILES;
        let made =
            (0..=most).take_while(|number| File::create(format!("/tmp/empty-{number}")).is_ok());
        let made = made.count() as u64;
        for number in 0..made {
            let _ = fs::remove_file(format!("/tmp/empty-{number}"));
        }
        match made > most {
            true => escaped(format!("{made} files of {most}")),
            false => held(format!("{made} files of {most}")),
        }
    });
    attempts.add("a higher limit of files", |ground| {
        raise(libc::RLIMIT_FSIZE, ground.file_bytes + 1)
    });
    calls!(attempts.call;
        "bytes in the root": SYS_openat(CWD, "/sluice-bytes", libc::O_CREAT | libc::O_WRONLY, 0o600);
        // Q_SYNC for a kind of quota that there is not, which is refused whatever the file system.
        "a quota for oneself": SYS_quotactl_fd(Arg::File("{rw}"), 0x8000_0103_u64, 0, 0) or EINVAL;
    );
    more(attempts);
}

fn more(attempts: &mut Attempts) {
    attempts.group("watchers", "a few, counted in the spoke");
    attempts.add("watchers without end", |_| {
        let most = sandbox::defaults::WATCHERS;
        let mut held_ones = Vec::new();
        while let Ok(watcher) = open(libc::SYS_inotify_init1, [0]) {
            held_ones.push(watcher);
            if held_ones.len() as u64 > most {
                return escaped(format!("{} of {most}", held_ones.len()));
            }
        }
        held(format!("{} of {most}", held_ones.len()))
    });
    calls!(attempts.call;
        "watch a folder in the old way (dnotify)": SYS_fcntl(Arg::File("{ro}"), libc::F_NOTIFY, 2);
        "watch what was not given": SYS_inotify_add_watch(Arg::Watcher, "{secret}", 2);
    );
    attempts.group("time", "the spoke takes no more of it than it has");
    for (name, resource, value) in [
        ("a higher limit of priorities", libc::RLIMIT_RTPRIO, 1),
        ("a higher limit of niceness", libc::RLIMIT_NICE, 40),
        (
            "a higher limit of locked memory",
            libc::RLIMIT_MEMLOCK,
            1 << 30,
        ),
        (
            "a higher limit of queued signals",
            libc::RLIMIT_SIGPENDING,
            1 << 20,
        ),
        (
            "a higher limit of message queues",
            libc::RLIMIT_MSGQUEUE,
            1 << 20,
        ),
        ("a higher limit of core dumps", libc::RLIMIT_CORE, 1 << 20),
        ("a higher limit of the stack", libc::RLIMIT_STACK, 1 << 30),
        ("a higher limit of address space", libc::RLIMIT_AS, u64::MAX),
    ] {
        attempts.add(name, move |_| raise(resource, value));
    }
    attempts.add("queued signals without end", |_| {
        let mut info = [0_u8; 128];
        let signal = libc::SIGRTMIN() + 1;
        info[..4].copy_from_slice(&signal.to_ne_bytes());
        info[8..12].copy_from_slice(&(-1_i32).to_ne_bytes());
        // Blocked, so that they wait.
        let all = u64::MAX;
        let _ = call(libc::SYS_rt_sigprocmask, [0, address(&all), 0, 8]);
        let own = flag(std::process::id().cast_signed());
        without_end(|| {
            call(
                libc::SYS_rt_sigqueueinfo,
                [own, flag(signal), address(&info)],
            )
        })
    });
    attempts.add("timers without end", |_| {
        let mut timer = 0_i32;
        // No event at all when it rings.
        let event = [0_u64, 1 << 32, 0, 0, 0, 0, 0, 0];
        let timer = kernel::address_mut(&mut timer);
        without_end(|| call(libc::SYS_timer_create, [1, address(&event), timer]))
    });
}

/// Starts processes that wait until refused, at most so many that a bound would have shown.
fn bomb(ground: &Ground, start: impl Fn() -> io::Result<usize>) -> Observed {
    // `RLIMIT_NPROC` does not bind root's processes, and the kernel keeps numbers back.
    let bound = ground.processes + if ground.hub_is_root { KEPT_BACK } else { 0 };
    let mut started = 0;
    let refused = loop {
        match start() {
            Ok(0) => loop {
                std::thread::park();
            },
            Ok(_) => started += 1,
            Err(error) => break error,
        }
        if started > bound {
            return escaped(format!("{started} of {bound}"));
        }
    };
    held(format!("{started} of {bound}: {refused}"))
}

/// Whether something can be had so often that no bound is in sight.
fn without_end(one: impl Fn() -> io::Result<usize>) -> Observed {
    match (0..4096).take_while(|_| one().is_ok()).count() {
        4096.. => escaped("4096 of them"),
        count => held(format!("{count} of them")),
    }
}

fn raise(resource: u32, value: u64) -> Observed {
    let limit = [value, value];
    let arguments = [0, flag(resource.cast_signed()), address(&limit), 0];
    nothing(call(libc::SYS_prlimit64, arguments), "raised")
}

/// Makes a file grow, and says how long it became.
fn grow(ground: &Ground, how: impl FnOnce(&File) -> io::Result<()>) -> Observed {
    let name = &filled(OWN_FILE, ground);
    // The signal of the limit would end the attempt before it could tell.
    let ignore = [1_usize, 0, 0, 0];
    let _ = call(
        libc::SYS_rt_sigaction,
        [flag(libc::SIGXFSZ), address(&ignore), 0, 8],
    );
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(name);
    let done = match file {
        Ok(file) => how(&file),
        Err(error) => return failed(error),
    };
    let length = fs::metadata(name).map_or(0, |it| it.len());
    let _ = fs::remove_file(name);
    match done {
        Ok(()) => escaped(format!("{length} bytes")),
        Err(error) => held(error),
    }
}

/// Descriptors that are sent and not received are open in no process.
fn in_flight(ground: &Ground) -> Observed {
    let Ok((ours, theirs)) = std::os::unix::net::UnixStream::pair() else {
        return failed("no pair");
    };
    let Ok(null) = File::open("/dev/null") else {
        return failed("no descriptor");
    };
    let most = ground.open_files * 2;
    let mut sent = 0_u64;
    while sent < most {
        match send(&ours, &null) {
            Ok(_) => sent += 100,
            Err(error) => {
                drop(theirs);
                return held(format!("{sent}: {error}"));
            }
        }
    }
    drop(theirs);
    escaped(format!("{sent} beside those that may be open"))
}

/// One message with a hundred times the same descriptor.
fn send(socket: &impl AsRawFd, file: &File) -> io::Result<usize> {
    let (length, level, kind) = (16 + 4 * 100_usize, libc::SOL_SOCKET, libc::SCM_RIGHTS);
    // `struct cmsghdr`, and behind it the descriptors.
    let mut control = Vec::with_capacity(length);
    control.extend(length.to_ne_bytes());
    control.extend(level.to_ne_bytes());
    control.extend(kind.to_ne_bytes());
    for _ in 0..100 {
        control.extend(file.as_raw_fd().to_ne_bytes());
    }
    let byte = [7_u8];
    let part = [address(&byte), 1];
    // `struct msghdr`: no address, one part, the control message, no flags.
    let message = [
        0,
        0,
        address(&part),
        1,
        address(control.as_slice()),
        length,
        0,
    ];
    call(
        libc::SYS_sendmsg,
        [
            flag(socket.as_raw_fd()),
            address(&message),
            flag(libc::MSG_DONTWAIT),
        ],
    )
}

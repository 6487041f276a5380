//! Memory, by every kind of page: how much of it one process gets, and by which ways past the limit of a process.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;

use crate::attempt::{Attempts, Ground, Observed, escaped, failed, held, nothing};
use crate::kernel::{self, address_mut, call, flag, minus, of, open, path};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// How much above the limit is tried.
const BEYOND: usize = 32 * MIB;
const READ_WRITE: usize = (libc::PROT_READ | libc::PROT_WRITE).cast_unsigned() as usize;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

/// What a process may have.
fn limit(ground: &Ground) -> usize {
    usize::try_from(ground.memory_bytes).unwrap_or(usize::MAX)
}

/// Whether so many bytes, had beside the program's own, are more than a process may have.
fn verdict(bytes: usize, ground: &Ground) -> Observed {
    match bytes > limit(ground) {
        true => escaped(format!("{} MiB of {}", bytes / MIB, limit(ground) / MIB)),
        false => held(format!("{} MiB of {}", bytes / MIB, limit(ground) / MIB)),
    }
}

/// Maps memory piece by piece and touches each page, up to what is tried.
fn take(ground: &Ground, kind: i32, piece: usize) -> Observed {
    let mut bytes = 0;
    while bytes < limit(ground) + BEYOND {
        match call(
            libc::SYS_mmap,
            [0, piece, READ_WRITE, flag(kind), minus(-1), 0],
        ) {
            // Only a page that was written is memory.
            Ok(place) => touch(place, piece),
            Err(_) => break,
        }
        bytes += piece;
    }
    verdict(bytes, ground)
}

fn touch(place: usize, length: usize) {
    for offset in (0..length).step_by(PAGE) {
        kernel::poke(place + offset, 1);
    }
}

pub(super) fn add(attempts: &mut Attempts) {
    attempts.group(
        "memory",
        "no process has more than its limit, whatever its pages are called",
    );
    attempts.add("private pages", |it| take(it, PRIVATE, MIB));
    attempts.add("one large private mapping", |it| {
        take(it, PRIVATE, limit(it) + BEYOND)
    });
    attempts.add("private pages that are not reserved", |it| {
        take(it, PRIVATE | libc::MAP_NORESERVE, MIB)
    });
    attempts.add("private pages that are there at once", |it| {
        take(it, PRIVATE | libc::MAP_POPULATE, MIB)
    });
    attempts.add("shared pages of nothing", |it| take(it, SHARED, MIB));
    attempts.add("pages that grow downwards", |it| {
        take(it, PRIVATE | libc::MAP_GROWSDOWN, MIB)
    });
    attempts.add("pages called a stack", |it| {
        take(it, PRIVATE | libc::MAP_STACK, MIB)
    });
    attempts.add("huge pages", |it| {
        take(it, PRIVATE | libc::MAP_HUGETLB, 2 * MIB)
    });
    attempts.add("pages that are locked", |_| {
        // 64 KiB may be locked, for keys.
        let locked = call(
            libc::SYS_mmap,
            [0, MIB, READ_WRITE, flag(PRIVATE), minus(-1), 0],
        )
        .and_then(|place| call(libc::SYS_mlock, [place, MIB]));
        nothing(locked, "1 MiB is locked")
    });
    attempts.add("all pages locked, and those to come", |_| {
        // MCL_CURRENT and MCL_FUTURE.
        nothing(call(libc::SYS_mlockall, [3]), "locked")
    });
    attempts.add("pages of the heap", |ground| {
        let Ok(begin) = call(libc::SYS_brk, [0]) else {
            return failed("no heap");
        };
        let mut end = begin;
        while end - begin < limit(ground) + BEYOND {
            match call(libc::SYS_brk, [end + MIB]) {
                Ok(new) if new >= end + MIB => touch(end, MIB),
                _ => break,
            }
            end += MIB;
        }
        verdict(end - begin, ground)
    });
    attempts.add("a mapping that is made longer", |ground| {
        let Ok(place) = call(
            libc::SYS_mmap,
            [0, MIB, READ_WRITE, flag(PRIVATE), minus(-1), 0],
        ) else {
            return failed("no memory");
        };
        let length = limit(ground) + BEYOND;
        // MREMAP_MAYMOVE.
        match call(libc::SYS_mremap, [place, MIB, length, 1]) {
            Ok(place) => {
                touch(place, length);
                verdict(length, ground)
            }
            Err(error) => held(error),
        }
    });
    attempts.add("pages that are made writable afterwards", |ground| {
        let length = limit(ground) + BEYOND;
        let made = call(
            libc::SYS_mmap,
            [
                0,
                length,
                flag(libc::PROT_READ),
                flag(PRIVATE),
                minus(-1),
                0,
            ],
        )
        .and_then(|place| call(libc::SYS_mprotect, [place, length, READ_WRITE]).map(|_| place));
        match made {
            Ok(place) => {
                touch(place, length);
                verdict(length, ground)
            }
            Err(error) => held(error),
        }
    });
    attempts.add("private pages of a file", |ground| {
        of_a_file(ground, libc::MAP_PRIVATE, "/proc/self/exe")
    });
    attempts.add("private pages of the zero device", |ground| {
        of_a_file(ground, libc::MAP_PRIVATE, "/dev/zero")
    });
    attempts.add("shared pages of the zero device", |_| {
        let mapped = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/zero")
            .and_then(|file| {
                call(
                    libc::SYS_mmap,
                    [
                        0,
                        MIB,
                        READ_WRITE,
                        flag(libc::MAP_SHARED),
                        flag(file.as_raw_fd()),
                        0,
                    ],
                )
            });
        match mapped {
            Ok(place) => {
                touch(place, MIB);
                escaped("memory that no limit counts")
            }
            Err(error) => held(error),
        }
    });
    attempts.add("a file without a name", |_| {
        let name = path("pages");
        let made = open(libc::SYS_memfd_create, [of(&name), 0])
            .and_then(|file| call(libc::SYS_ftruncate, [flag(file.as_raw_fd()), MIB]));
        nothing(made, "memory that no limit counts")
    });
    attempts.add("shared memory of System V", |_| {
        nothing(
            // A private segment (IPC_PRIVATE), made now (IPC_CREAT).
            call(libc::SYS_shmget, [0, MIB, 0o1600]),
            "memory that no limit counts",
        )
    });
    attempts.add("shared memory by name", |ground| {
        // It is the bounded /tmp, or not there.
        let tmp = usize::try_from(ground.tmp_bytes).unwrap_or(0);
        let written = std::fs::File::create("/dev/shm/pages").map(|mut file| {
            (0..=tmp / MIB)
                .take_while(|_| io::Write::write_all(&mut file, &[1; MIB]).is_ok())
                .count()
        });
        let _ = std::fs::remove_file("/dev/shm/pages");
        match written {
            Ok(count) if count * MIB > tmp => escaped(format!("{count} MiB")),
            Ok(count) => held(format!("{count} MiB, of those of /tmp")),
            Err(error) => held(error),
        }
    });
    attempts.add("a higher limit of memory", |ground| {
        let more = [ground.memory_bytes * 2, ground.memory_bytes * 2];
        nothing(
            call(
                libc::SYS_prlimit64,
                [
                    0,
                    flag(libc::RLIMIT_DATA.cast_signed()),
                    kernel::address(&more),
                    0,
                ],
            ),
            "set",
        )
    });
    attempts.add("buffers of pipes", |_| {
        let Ok((_ours, theirs)) = io::pipe() else {
            return failed("no pipe");
        };
        match call(
            libc::SYS_fcntl,
            [flag(theirs.as_raw_fd()), flag(libc::F_SETPIPE_SZ), MIB],
        ) {
            // 64 KiB are what a pipe has without asking.
            Ok(bytes) if bytes > 1 << 16 => {
                escaped(format!("{bytes} bytes of the kernel's in one pipe"))
            }
            Ok(bytes) => held(format!("{bytes} bytes")),
            Err(error) => held(error),
        }
    });
    attempts.add("all memory of a spoke, by several processes", |ground| {
        if !ground.control_group {
            return Observed::Absent("no control group bounds a whole spoke here".to_owned());
        }
        together(ground)
    });
}

fn of_a_file(ground: &Ground, kind: i32, name: &str) -> Observed {
    let file = match std::fs::File::open(name) {
        Ok(file) => file,
        Err(error) => return failed(error),
    };
    let mut bytes = 0;
    let piece = 16 * PAGE;
    while bytes < limit(ground) + BEYOND {
        let arguments = [0, piece, READ_WRITE, flag(kind), flag(file.as_raw_fd()), 0];
        match call(libc::SYS_mmap, arguments) {
            Ok(place) => touch(place, piece),
            Err(_) => break,
        }
        bytes += piece;
    }
    verdict(bytes, ground)
}

/// Each child keeps within the limit of a process, and all of them would have four times that of a spoke.
fn together(ground: &Ground) -> Observed {
    let share = limit(ground) / 2;
    let spoke = limit(ground) + usize::try_from(ground.tmp_bytes).unwrap_or(0);
    let children = spoke * 4 / share;
    let mut alive = Vec::new();
    for _ in 0..children {
        let Ok((ours, theirs)) = io::pipe() else {
            break;
        };
        match kernel::fork() {
            Ok(None) => {
                if let Ok(place) = call(
                    libc::SYS_mmap,
                    [0, share, READ_WRITE, flag(PRIVATE), minus(-1), 0],
                ) {
                    touch(place, share);
                }
                let _ = io::Write::write_all(&mut &theirs, b"!");
                loop {
                    std::thread::park();
                }
            }
            Ok(Some(_)) => alive.push(ours),
            Err(_) => break,
        }
        drop(theirs);
    }
    let mut said = [0_u8];
    let touched = alive.iter().filter(|pipe| {
        matches!(
            call(
                libc::SYS_read,
                [flag(pipe.as_raw_fd()), address_mut(&mut said), 1]
            ),
            Ok(1)
        )
    });
    let bytes = touched.count() * share;
    match bytes > spoke {
        true => escaped(format!("{} MiB of {}", bytes / MIB, spoke / MIB)),
        false => held(format!("{} MiB of {}", bytes / MIB, spoke / MIB)),
    }
}

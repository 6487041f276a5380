//! Memory, by every kind of page: how much of it one process gets, and by which ways past the limit of a process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use super::call::calls;
use crate::attempt::{Attempts, Ground, Observed, escaped, failed, held};
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

/// Maps readable and writable memory without a file.
fn map(length: usize, kind: i32) -> io::Result<usize> {
    call(
        libc::SYS_mmap,
        [0, length, READ_WRITE, flag(kind), minus(-1), 0],
    )
}

/// Maps memory piece by piece and touches each page, up to what is tried.
fn take(ground: &Ground, piece: usize, map: impl Fn(usize) -> io::Result<usize>) -> Observed {
    let mut bytes = 0;
    while bytes < limit(ground) + BEYOND {
        match map(piece) {
            // Only a page that was written is memory.
            Ok(place) => touch(place, piece),
            Err(_) => break,
        }
        bytes += piece;
    }
    verdict(bytes, ground)
}

/// Touches all of a mapping that is longer than the limit.
fn take_at_once(ground: &Ground, mapped: io::Result<usize>) -> Observed {
    match mapped {
        Ok(place) => {
            touch(place, limit(ground) + BEYOND);
            verdict(limit(ground) + BEYOND, ground)
        }
        Err(error) => held(error),
    }
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
    for (name, kind, piece) in [
        ("private pages", PRIVATE, MIB),
        (
            "private pages that are not reserved",
            PRIVATE | libc::MAP_NORESERVE,
            MIB,
        ),
        (
            "private pages that are there at once",
            PRIVATE | libc::MAP_POPULATE,
            MIB,
        ),
        ("shared pages of nothing", SHARED, MIB),
        (
            "pages that grow downwards",
            PRIVATE | libc::MAP_GROWSDOWN,
            MIB,
        ),
        ("pages called a stack", PRIVATE | libc::MAP_STACK, MIB),
        ("huge pages", PRIVATE | libc::MAP_HUGETLB, 2 * MIB),
    ] {
        attempts.add(name, move |it| take(it, piece, |length| map(length, kind)));
    }
    attempts.add("one large private mapping", |it| {
        take(it, limit(it) + BEYOND, |length| map(length, PRIVATE))
    });
    attempts.refused("pages that are locked", |_| {
        // 64 KiB may be locked, for keys.
        map(MIB, PRIVATE).and_then(|place| call(libc::SYS_mlock, [place, MIB]))
    });
    calls!(attempts.call;
        // MCL_CURRENT and MCL_FUTURE.
        "all pages locked, and those to come": SYS_mlockall(3);
        // A private segment (IPC_PRIVATE), made now (IPC_CREAT).
        "shared memory of System V": SYS_shmget(0, MIB, 0o1600);
    );
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
        let length = limit(ground) + BEYOND;
        // MREMAP_MAYMOVE.
        let longer = |place| call(libc::SYS_mremap, [place, MIB, length, 1]);
        take_at_once(ground, map(MIB, PRIVATE).and_then(longer))
    });
    attempts.add("pages that are made writable afterwards", |ground| {
        let length = limit(ground) + BEYOND;
        let read = flag(libc::PROT_READ);
        let mapped = call(
            libc::SYS_mmap,
            [0, length, read, flag(PRIVATE), minus(-1), 0],
        );
        let writable = |place| call(libc::SYS_mprotect, [place, length, READ_WRITE]).map(|_| place);
        take_at_once(ground, mapped.and_then(writable))
    });
    for (name, file) in [
        ("private pages of a file", "/proc/self/exe"),
        ("private pages of the zero device", "/dev/zero"),
    ] {
        attempts.add(name, move |ground| match File::open(file) {
            Ok(file) => take(ground, 16 * PAGE, |length| {
                of_a_file(&file, length, libc::MAP_PRIVATE)
            }),
            Err(error) => failed(error),
        });
    }
    attempts.refused("shared pages of the zero device", |_| {
        let zero = OpenOptions::new().read(true).write(true).open("/dev/zero");
        let mapped = zero.and_then(|file| of_a_file(&file, MIB, libc::MAP_SHARED));
        mapped.map(|place| touch(place, MIB))
    });
    attempts.refused("a file without a name", |_| {
        let name = path("pages");
        open(libc::SYS_memfd_create, [of(&name), 0])
            .and_then(|file| call(libc::SYS_ftruncate, [flag(file.as_raw_fd()), MIB]))
    });
    attempts.add("shared memory by name", |ground| {
        // It is the bounded /tmp, or not there.
        let tmp = usize::try_from(ground.tmp_bytes).unwrap_or(0);
        let written = File::create("/dev/shm/pages").map(|mut file| {
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
    attempts.refused("a higher limit of memory", |ground| {
        let more = [ground.memory_bytes * 2, ground.memory_bytes * 2];
        let data = flag(libc::RLIMIT_DATA.cast_signed());
        call(libc::SYS_prlimit64, [0, data, kernel::address(&more), 0])
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

fn of_a_file(file: &File, length: usize, kind: i32) -> io::Result<usize> {
    let number = flag(file.as_raw_fd());
    call(
        libc::SYS_mmap,
        [0, length, READ_WRITE, flag(kind), number, 0],
    )
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
                if let Ok(place) = map(share, PRIVATE) {
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

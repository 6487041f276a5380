//! Files of the host: reading what was not given, writing what may only be read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};

use libc::{
    F_RDLCK, F_SETLEASE, MAP_PRIVATE, MAP_SHARED, O_APPEND, O_CREAT, O_DIRECT, O_RDONLY, O_RDWR,
    O_TMPFILE, O_TRUNC, O_WRONLY, PROT_EXEC, PROT_READ, PROT_WRITE, S_IFBLK, S_IFCHR, S_IFSOCK,
};

use super::call::Arg::Words;
use super::call::{Arg, CWD, OWN_FILE, THE_FILE, calls, filled, secret, unchanged};
use crate::attempt::{Attempts, Ground, Observed, escaped, failed, held, nothing};
use crate::kernel::{address, address_mut, call, flag, minus, of, open, path};

/// Places of a host that a spoke has not been given, each with what is known of every user.
const PLACES: &str = "/etc/shadow /etc/machine-id /etc/fstab /etc/ssh /etc/ssl/private /etc/cron.d /etc/apt /root /home \
    /var /boot /srv /mnt /media /opt /run /run/systemd /var/run/docker.sock /sys /sys/fs/cgroup /sys/kernel /lost+found";

pub(super) fn places() -> impl Iterator<Item = &'static str> {
    PLACES.split_whitespace()
}

pub(super) fn add(attempts: &mut Attempts) {
    reading(attempts);
    writing(attempts);
    links(attempts);
}

fn reading(attempts: &mut Attempts) {
    attempts.group("files", "nothing of the host is seen but what was mounted");
    for place in places() {
        attempts.add(format!("look into {place}"), move |ground| {
            if !ground.there.iter().any(|there| there == place) {
                return Observed::Absent("not on this machine".to_owned());
            }
            match fs::symlink_metadata(place) {
                Ok(metadata) if metadata.is_dir() => {
                    nothing(fs::read_dir(place), "its names can be listed")
                }
                Ok(_) => escaped("it is seen"),
                Err(error) => held(error),
            }
        });
    }
    for (by, template) in [
        ("its path", "{secret}"),
        ("one's own root", "/proc/self/root{secret}"),
        ("the root of process 1", "/proc/1/root{secret}"),
        ("the directory of process 1", "/proc/1/cwd/..{secret}"),
        ("the hub's root", "/proc/{hub}/root{secret}"),
    ] {
        attempts.add(format!("read the hub's secret by {by}"), move |it| {
            secret(it, template)
        });
    }
    attempts.secret(
        "read the hub's secret above a mount",
        "/data/ro/../../../../../../..{secret}",
    );
    attempts.secret(
        "read the hub's secret above /tmp",
        "/tmp/../../../../..{secret}",
    );
    attempts.refused("see that the hub's secret is there", |ground| {
        fs::metadata(&ground.secret_path)
    });
    attempts.refused("list the folder of the hub's secret", |ground| {
        fs::read_dir(format!("{}/..", ground.secret_path))
    });
    attempts.add("read the hub's secret by a handle", by_handle);
    calls!(attempts.call;
        "leave the root by an old directory": SYS_openat(Arg::Folder("/"), "..{secret}", O_RDONLY);
        "open with resolution in another root (openat2)": SYS_openat2(CWD, "{secret}", Words(&[0, 0, 0]), 24);
    );
}

/// A handle names a file past every path, mount and rule on paths.
fn by_handle(ground: &Ground) -> Observed {
    // `struct file_handle`: the length of its last part, its kind, and that part.
    let mut handle = [0_u64; 17];
    handle[0] = 128;
    let mut mount = 0_i32;
    let target = path(&filled(THE_FILE, ground));
    let arguments = [
        minus(CWD),
        of(&target),
        address_mut(&mut handle),
        address_mut(&mut mount),
        0,
    ];
    let _ = call(libc::SYS_name_to_handle_at, arguments);
    let Ok(folder) = File::open(filled("{ro}", ground)) else {
        return failed("the mount cannot be opened");
    };
    let arguments = [flag(folder.as_raw_fd()), address(&handle), 0];
    nothing(
        open(libc::SYS_open_by_handle_at, arguments),
        "a file by its handle",
    )
}

fn writing(attempts: &mut Attempts) {
    attempts.group("read-only mounts", "the file is as the host left it");
    let file = Arg::File(THE_FILE);
    // Opened and not written where the host is to survive a weaker run: what could be opened could be written.
    calls!(attempts.unchanged;
        "write": SYS_openat(CWD, THE_FILE, O_WRONLY);
        "write and read": SYS_openat(CWD, THE_FILE, O_RDWR);
        "append": SYS_openat(CWD, THE_FILE, O_WRONLY | O_APPEND);
        "write past the cache": SYS_openat(CWD, THE_FILE, O_WRONLY | O_DIRECT);
        "truncate on opening": SYS_openat(CWD, THE_FILE, O_WRONLY | O_TRUNC);
        "truncate by path": SYS_truncate(THE_FILE, 1);
        "truncate what is open for reading": SYS_ftruncate(file, 1);
        // FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE.
        "punch a hole into what is open for reading": SYS_fallocate(file, 3, 0, 4);
        "copy into it by descriptor": SYS_copy_file_range(Arg::File("/proc/self/status"), 0, file, 0, 4, 0);
        "send into it": SYS_sendfile(file, file, 0, 4);
        // FS_IOC_SETFLAGS with "no dump", the one flag that any owner may set.
        "set its attributes": SYS_ioctl(file, 0x4008_6602, Words(&[0x40]));
        "change its mode": SYS_fchmodat(CWD, THE_FILE, 0o666, 0);
        "change its mode (newer call)": SYS_fchmodat2(CWD, THE_FILE, 0o666, 0);
        "change its owner": SYS_fchownat(CWD, THE_FILE, 1000, 1000, 0);
        "change its times": SYS_utimensat(CWD, THE_FILE, 0, 0);
        "unlink it": SYS_unlinkat(CWD, THE_FILE, 0);
        "give it an extended attribute": SYS_setxattr(THE_FILE, "user.mark", b"x", 1, 0);
        "rename it": SYS_renameat2(CWD, THE_FILE, CWD, "{ro}/other", 0);
        "rename it into a writable mount": SYS_renameat2(CWD, THE_FILE, CWD, "{rw}/moved", 0);
        "make a file beside it": SYS_openat(CWD, "{ro}/new", O_CREAT | O_WRONLY, 0o644);
        "make a folder beside it": SYS_mkdirat(CWD, "{ro}/folder", 0o755);
        "make a link beside it": SYS_symlinkat("/", CWD, "{ro}/to-root");
        "write a program of the system": SYS_openat(CWD, "/usr/bin/env", O_WRONLY);
        "write the loader's cache": SYS_openat(CWD, "/etc/ld.so.cache", O_WRONLY);
        "write the users' table": SYS_openat(CWD, "/etc/passwd", O_WRONLY);
        "write the spoke binary": SYS_openat(CWD, "/sluice-spoke", O_WRONLY);
        "write the running program": SYS_openat(CWD, "/proc/self/exe", O_WRONLY);
        "make a file in the root": SYS_openat(CWD, "/sluice-was-here", O_CREAT | O_WRONLY, 0o644);
        "make a folder in /dev": SYS_mkdirat(CWD, "/dev/sluice-was-here", 0o755);
        "make a nameless file beside it, and name it": SYS_openat(CWD, "{ro}", O_TMPFILE | O_WRONLY, 0o600);
        // A read lease: a program that opens the file for writing waits for it, for 45 seconds.
        "hold the host's writers back by a lease": SYS_fcntl(file, F_SETLEASE, F_RDLCK);
    );
    attempts.add("write through one's own descriptor's name", |ground| {
        let reopened = File::open(filled(THE_FILE, ground)).and_then(|file| {
            let name = format!("/proc/self/fd/{}", file.as_raw_fd());
            OpenOptions::new().write(true).open(name)
        });
        unchanged(ground, reopened.map(drop))
    });
    attempts.add("rename another file over it", |ground| {
        let over = filled(OWN_FILE, ground);
        let renamed =
            fs::write(&over, "!").and_then(|()| fs::rename(&over, filled(THE_FILE, ground)));
        let _ = fs::remove_file(over);
        unchanged(ground, renamed)
    });
    type Change = fn(usize) -> io::Result<usize>;
    let changes: [(&str, Change); 3] = [
        ("map it shared and write", |it| {
            map_and_poke(it, PROT_READ | PROT_WRITE)
        }),
        ("map it shared and make that writable", |it| {
            map_and_poke(it, PROT_READ)
        }),
        (
            "splice a page of it into a pipe and write there",
            through_a_pipe,
        ),
    ];
    for (name, change) in changes {
        attempts.add(name, move |ground| {
            let file = File::open(filled(THE_FILE, ground));
            unchanged(
                ground,
                file.and_then(|file| change(flag(file.as_raw_fd())).map(drop)),
            )
        });
    }
}

fn map_and_poke(number: usize, protection: i32) -> io::Result<usize> {
    let arguments = [0, 4096, flag(protection), flag(MAP_SHARED), number, 0];
    let place = call(libc::SYS_mmap, arguments)?;
    call(
        libc::SYS_mprotect,
        [place, 4096, flag(PROT_READ | PROT_WRITE)],
    )?;
    crate::kernel::poke(place, b'!');
    Ok(place)
}

/// Where a pipe holds a page of a file, a write into the pipe must not go on in that page.
fn through_a_pipe(number: usize) -> io::Result<usize> {
    let (ours, mut theirs) = io::pipe()?;
    let writing = flag(theirs.as_raw_fd());
    // Filled and emptied first, which once left the pipe's pages ready to be written on (CVE-2022-0847).
    theirs.write_all(&[0; 4096])?;
    let mut emptied = [0_u8; 4096];
    io::Read::read_exact(&mut &ours, &mut emptied)?;
    let mut offset = 1_i64;
    call(
        libc::SYS_splice,
        [number, address_mut(&mut offset), writing, 0, 1, 0],
    )?;
    theirs.write_all(b"!!!!")?;
    // What went into the pipe is no gain: whether the file has it too is seen by `unchanged`.
    Err(io::Error::other("it went into the pipe alone"))
}

fn links(attempts: &mut Attempts) {
    attempts.group(
        "links and modes",
        "no link leads out, and no file gains a bit or an owner",
    );
    attempts.secret("follow a link of the host that leads out", "{ro}/link");
    for (name, link) in [
        ("follow a link of one's own that leads out", "{rw}/out"),
        ("follow a link of one's own in /tmp", "/tmp/out"),
    ] {
        attempts.add(name, move |ground| {
            let _ = symlink(&ground.secret_path, filled(link, ground));
            let seen = secret(ground, link);
            let _ = fs::remove_file(filled(link, ground));
            seen
        });
    }
    calls!(attempts.call;
        "make a hard link to the hub's secret": SYS_linkat(CWD, "{secret}", CWD, "{rw}/hard", 0);
        "make a hard link to a program of the system": SYS_linkat(CWD, "/usr/bin/env", CWD, "{rw}/hard-env", 0);
        // The device number of /dev/null.
        "make a character device in a writable mount": SYS_mknodat(CWD, "{rw}/character", S_IFCHR | 0o666, 0x103);
        "make a block device in a writable mount": SYS_mknodat(CWD, "{rw}/block", S_IFBLK | 0o666, 0x103);
        "make a socket in a writable mount": SYS_mknodat(CWD, "{rw}/node", S_IFSOCK | 0o666, 0x103);
    );
    calls!(attempts.unchanged;
        "make a hard link to what may only be read": SYS_linkat(CWD, THE_FILE, CWD, "{rw}/hard-file", 0);
    );
    attempts.refused("swap a folder for another mount's", |ground| {
        let (one, two) = (path(&filled("{rw}", ground)), path(&filled("{ro}", ground)));
        // RENAME_EXCHANGE.
        let swap = || {
            call(
                libc::SYS_renameat2,
                [minus(CWD), of(&one), minus(CWD), of(&two), 2],
            )
        };
        let swapped = swap();
        if swapped.is_ok() {
            // Back, for what is tried next.
            let _ = swap();
        }
        swapped
    });
    calls!(attempts.set_id;
        "leave a set-user-id file by chmod": SYS_fchmodat(CWD, OWN_FILE, 0o4755);
        "leave a set-user-id file by the newer chmod": SYS_fchmodat2(CWD, OWN_FILE, 0o4755, 0);
        "leave a set-user-id file by chmod for the group": SYS_fchmodat(CWD, OWN_FILE, 0o2755);
        "leave a set-user-id file by chmod by descriptor": SYS_fchmod(Arg::File(OWN_FILE), 0o4755);
    );
    calls!(attempts.set_id_anew;
        "leave a set-user-id file by mknod": SYS_mknodat(CWD, OWN_FILE, 0o104_755, 0);
        "leave a set-user-id file by open": SYS_openat(CWD, OWN_FILE, O_CREAT | O_WRONLY, 0o4755);
        // O_CREAT and O_WRONLY.
        "leave a set-user-id file by openat2": SYS_openat2(CWD, OWN_FILE, Words(&[0o101, 0o4755, 0]), 24);
        "leave a set-user-id file by a folder's group": SYS_mkdirat(CWD, OWN_FILE, 0o2755);
    );
    attempts.refused("give a file to another user", |ground| {
        let name = filled(OWN_FILE, ground);
        let _ = fs::write(&name, "");
        let given = std::os::unix::fs::chown(&name, Some(ground.another_user), None);
        let _ = fs::remove_file(&name);
        given
    });
    attempts.refused("execute in a mount that is not for programs", |ground| {
        let name = filled("{rw}/script", ground);
        let made = fs::write(&name, "#!/bin/sh\nexit 0\n")
            .and_then(|()| fs::set_permissions(&name, fs::Permissions::from_mode(0o755)));
        let ran = made.and_then(|()| std::process::Command::new(&name).status());
        let _ = fs::remove_file(&name);
        ran
    });
    attempts.refused("execute in /tmp", |_| {
        let made = fs::copy("/usr/bin/true", "/tmp/true");
        let ran = made.and_then(|_| std::process::Command::new("/tmp/true").status());
        let _ = fs::remove_file("/tmp/true");
        ran
    });
    attempts.refused("map a file of /tmp to be executed", |_| {
        let made = fs::copy("/usr/bin/true", "/tmp/code").and_then(|_| File::open("/tmp/code"));
        let mapped = made.and_then(|file| {
            let number = flag(file.as_raw_fd());
            let protection = flag(PROT_READ | PROT_EXEC);
            call(
                libc::SYS_mmap,
                [0, 4096, protection, flag(MAP_PRIVATE), number, 0],
            )
        });
        let _ = fs::remove_file("/tmp/code");
        mapped
    });
}

//! Files of the host: reading what was not given, writing what may only be read.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};

use crate::attempt::{
    Attempts, CONTENT, FILE, Ground, LINK, Observed, escaped, failed, held, nothing, read_only,
    writable,
};
use crate::kernel::{address, address_mut, call, flag, minus, of, open, path};

/// Places of a host that a spoke has not been given, each with what is known of every user.
pub(crate) const PLACES: [&str; 22] = [
    "/etc/shadow",
    "/etc/machine-id",
    "/etc/fstab",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/cron.d",
    "/etc/apt",
    "/root",
    "/home",
    "/var",
    "/boot",
    "/srv",
    "/mnt",
    "/media",
    "/opt",
    "/run",
    "/run/systemd",
    "/var/run/docker.sock",
    "/sys",
    "/sys/fs/cgroup",
    "/sys/kernel",
    "/lost+found",
];

pub(super) fn add(attempts: &mut Attempts) {
    reading(attempts);
    writing(attempts);
    links(attempts);
}

fn reading(attempts: &mut Attempts) {
    attempts.group("files", "nothing of the host is seen but what was mounted");
    for place in PLACES {
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
    for (name, before) in [
        ("read the hub's secret by its path", ""),
        ("read the hub's secret by one's own root", "/proc/self/root"),
        (
            "read the hub's secret by the root of process 1",
            "/proc/1/root",
        ),
        (
            "read the hub's secret by the directory of process 1",
            "/proc/1/cwd/..",
        ),
        (
            "read the hub's secret above a mount",
            "/data/ro/../../../../../../..",
        ),
        ("read the hub's secret above /tmp", "/tmp/../../../../.."),
    ] {
        attempts.add(name, move |ground| {
            secret(ground, &format!("{before}{}", ground.secret_path))
        });
    }
    attempts.add("see that the hub's secret is there", |ground| {
        nothing(fs::metadata(&ground.secret_path), "its metadata are read")
    });
    attempts.add("read the hub's secret by the hub's root", |ground| {
        secret(
            ground,
            &format!("/proc/{}/root{}", ground.hub, ground.secret_path),
        )
    });
    attempts.add("list the folder of the hub's secret", |ground| {
        let folder = ground
            .secret_path
            .rsplit_once('/')
            .map_or("/", |(it, _)| it);
        nothing(fs::read_dir(folder), "its names can be listed")
    });
    attempts.add("read the hub's secret by a handle", |_| by_handle());
    attempts.add("leave the root by an old directory", |ground| {
        // Nothing of it is read: that may be refused.
        let root = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open("/");
        let root = match root {
            Ok(root) => root,
            Err(error) => return failed(error),
        };
        let up = path(&format!("..{}", ground.secret_path));
        let opened = open(
            libc::SYS_openat,
            [flag(root.as_raw_fd()), of(&up), flag(libc::O_RDONLY)],
        );
        nothing(opened, "it is opened above the root")
    });
    attempts.add("open with resolution in another root (openat2)", |ground| {
        let how: [u64; 3] = [0, 0, 0];
        let target = path(&ground.secret_path);
        let opened = open(
            libc::SYS_openat2,
            [minus(libc::AT_FDCWD), of(&target), address(&how), 24],
        );
        nothing(opened, "it is opened")
    });
}

fn secret(ground: &Ground, path: &str) -> Observed {
    match fs::read_to_string(path) {
        Ok(read) if read.contains(&ground.secret) => escaped("the secret"),
        Ok(read) => held(format!("another file of {} bytes", read.len())),
        Err(error) => held(error),
    }
}

/// A handle names a file past every path, mount and rule on paths.
fn by_handle() -> Observed {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        handle: [u8; 128],
    }
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        handle: [0; 128],
    };
    let mut mount = 0_i32;
    let target = path(&file());
    let named = call(
        libc::SYS_name_to_handle_at,
        [
            minus(libc::AT_FDCWD),
            of(&target),
            address_mut(&mut handle),
            address_mut(&mut mount),
            0,
        ],
    );
    let Ok(folder) = File::open(read_only()) else {
        return failed("the mount cannot be opened");
    };
    let opened = open(
        libc::SYS_open_by_handle_at,
        [flag(folder.as_raw_fd()), address(&handle), 0],
    );
    match (named, opened) {
        (_, Ok(_)) => escaped("a file by its handle"),
        (_, Err(error)) => held(error),
    }
}

/// Something that is done to a path.
type OnPath = fn(&CString) -> io::Result<usize>;

/// The file that may only be read.
fn file() -> String {
    format!("{}/{}", read_only(), FILE)
}

/// After something was done to it: whether the file is as it was.
fn unchanged(done: io::Result<()>) -> Observed {
    match (fs::read_to_string(file()), done) {
        (Ok(content), _) if content != CONTENT => escaped("the file was changed"),
        (Err(error), _) => escaped(format!("the file is gone: {error}")),
        (Ok(_), Ok(())) => escaped("it was done, whatever the content says"),
        (Ok(_), Err(error)) => held(error),
    }
}

fn writing(attempts: &mut Attempts) {
    attempts.group("read-only mounts", "the file is as the host left it");
    let opened = |how: fn(&mut OpenOptions) -> &mut OpenOptions| {
        move |_: &Ground| {
            let opened = how(&mut OpenOptions::new()).open(file());
            unchanged(opened.and_then(|mut file| file.write_all(b"!")))
        }
    };
    attempts.add("write", opened(|open| open.write(true)));
    attempts.add("write and read", opened(|open| open.write(true).read(true)));
    attempts.add("append", opened(|open| open.append(true)));
    attempts.add(
        "write past the cache",
        opened(|open| open.write(true).custom_flags(libc::O_DIRECT)),
    );
    attempts.add("truncate on opening", |_| {
        unchanged(
            OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(file())
                .map(drop),
        )
    });
    attempts.add("truncate by path", |_| {
        let target = path(&file());
        unchanged(call(libc::SYS_truncate, [of(&target), 1]).map(drop))
    });
    attempts.add("truncate what is open for reading", |_| {
        unchanged(File::open(file()).and_then(|file| file.set_len(1)))
    });
    attempts.add("punch a hole into what is open for reading", |_| {
        // FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE.
        with_open(|number| call(libc::SYS_fallocate, [number, 3, 0, 4]))
    });
    attempts.add("write through one's own descriptor's name", |_| {
        let reopened = File::open(file()).and_then(|file| {
            let name = format!("/proc/self/fd/{}", file.as_raw_fd());
            OpenOptions::new().write(true).open(name)
        });
        unchanged(reopened.and_then(|mut file| file.write_all(b"!")))
    });
    attempts.add("map it shared and write", |_| {
        with_open(|number| map_and_poke(number, libc::PROT_READ | libc::PROT_WRITE))
    });
    attempts.add("map it shared and make that writable", |_| {
        with_open(|number| map_and_poke(number, libc::PROT_READ))
    });
    attempts.add("splice a page of it into a pipe and write there", |_| {
        with_open(through_a_pipe)
    });
    attempts.add("copy into it by descriptor", |_| {
        let from = File::open("/proc/self/status");
        with_open(|number| {
            let from = from?;
            call(
                libc::SYS_copy_file_range,
                [flag(from.as_raw_fd()), 0, number, 0, 4, 0],
            )
        })
    });
    attempts.add("send into it", |_| {
        let from = File::open(file());
        with_open(|number| call(libc::SYS_sendfile, [number, flag(from?.as_raw_fd()), 0, 4]))
    });
    attempts.add("set its attributes", |_| {
        // FS_IOC_SETFLAGS with "no dump", the one flag that any owner may set.
        let flags = 0x40_i32;
        with_open(|number| call(libc::SYS_ioctl, [number, 0x4008_6602, address(&flags)]))
    });
    let by_path = |name: &'static str, number, more: [usize; 3]| {
        (name, move |_: &Ground| {
            let target = path(&file());
            let arguments = [
                minus(libc::AT_FDCWD),
                of(&target),
                more[0],
                more[1],
                more[2],
            ];
            unchanged(call(number, arguments).map(drop))
        })
    };
    for (name, code) in [
        by_path("change its mode", libc::SYS_fchmodat, [0o666, 0, 0]),
        by_path(
            "change its mode (newer call)",
            libc::SYS_fchmodat2,
            [0o666, 0, 0],
        ),
        by_path("change its owner", libc::SYS_fchownat, [1000, 1000, 0]),
        by_path("change its times", libc::SYS_utimensat, [0, 0, 0]),
        by_path("unlink it", libc::SYS_unlinkat, [0, 0, 0]),
    ] {
        attempts.add(name, code);
    }
    attempts.add("give it an extended attribute", |_| {
        let (target, name) = (path(&file()), path("user.mark"));
        let value = *b"x";
        unchanged(
            call(
                libc::SYS_setxattr,
                [of(&target), of(&name), address(&value), 1, 0],
            )
            .map(drop),
        )
    });
    for (name, code) in [
        (
            "rename it",
            (|| fs::rename(file(), format!("{}/other", read_only()))) as fn() -> io::Result<()>,
        ),
        ("rename it into a writable mount", || {
            fs::rename(file(), format!("{}/moved", writable()))
        }),
        ("rename another file over it", || {
            fs::write(format!("{}/over", writable()), "!")?;
            fs::rename(format!("{}/over", writable()), file())
        }),
        ("make a file beside it", || {
            fs::write(format!("{}/new", read_only()), "!")
        }),
        ("make a folder beside it", || {
            fs::create_dir(format!("{}/folder", read_only()))
        }),
        ("make a link beside it", || {
            symlink("/", format!("{}/to-root", read_only()))
        }),
        // Opened and not written, since the host is to survive a weaker run.
        ("write a program of the system", || {
            open_to_write("/usr/bin/env")
        }),
        ("write the loader's cache", || {
            open_to_write("/etc/ld.so.cache")
        }),
        ("write the users' table", || open_to_write("/etc/passwd")),
        ("write the spoke binary", || open_to_write("/sluice-spoke")),
        ("write the running program", || {
            open_to_write("/proc/self/exe")
        }),
        ("make a file in the root", || {
            fs::write("/sluice-was-here", "!")?;
            fs::remove_file("/sluice-was-here")
        }),
        ("make a folder in /dev", || {
            fs::create_dir("/dev/sluice-was-here")?;
            fs::remove_dir("/dev/sluice-was-here")
        }),
    ] {
        attempts.add(name, move |_| unchanged(code()));
    }
    attempts.add("make a nameless file beside it, and name it", |_| {
        let options = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .open(read_only());
        unchanged(options.map(drop))
    });
    attempts.add("hold the host's writers back by a lease", |_| {
        // A read lease: whoever opens the file for writing waits for it, for 45 seconds.
        with_open(|number| {
            call(
                libc::SYS_fcntl,
                [number, flag(libc::F_SETLEASE), flag(libc::F_RDLCK)],
            )
        })
    });
}

fn open_to_write(path: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

fn with_open(done: impl FnOnce(usize) -> io::Result<usize>) -> Observed {
    unchanged(File::open(file()).and_then(|file| done(flag(file.as_raw_fd())).map(drop)))
}

fn map_and_poke(number: usize, protection: i32) -> io::Result<usize> {
    let place = call(
        libc::SYS_mmap,
        [0, 4096, flag(protection), flag(libc::MAP_SHARED), number, 0],
    )?;
    let both = flag(libc::PROT_READ | libc::PROT_WRITE);
    call(libc::SYS_mprotect, [place, 4096, both])?;
    crate::kernel::poke(place, b'!');
    Ok(place)
}

/// Where a pipe holds a page of a file, a write into the pipe must not go on in that page.
fn through_a_pipe(number: usize) -> io::Result<usize> {
    let (ours, mut theirs) = io::pipe()?;
    let writing = flag(theirs.as_raw_fd());
    // Filled and emptied first, which once left the pipe's pages ready to be written on
    // (CVE-2022-0847).
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
    attempts.add("follow a link of the host that leads out", |ground| {
        secret(ground, &format!("{}/{}", read_only(), LINK))
    });
    attempts.add("follow a link of one's own that leads out", |ground| {
        let link = format!("{}/out", writable());
        let _ = symlink(&ground.secret_path, &link);
        let seen = secret(ground, &link);
        let _ = fs::remove_file(link);
        seen
    });
    attempts.add("follow a link of one's own in /tmp", |ground| {
        let _ = symlink(&ground.secret_path, "/tmp/out");
        secret(ground, "/tmp/out")
    });
    attempts.add("make a hard link to the hub's secret", |ground| {
        nothing(
            fs::hard_link(&ground.secret_path, format!("{}/hard", writable())),
            "it has a name in the mount",
        )
    });
    attempts.add("make a hard link to what may only be read", |_| {
        let link = format!("{}/hard-file", writable());
        let written = fs::hard_link(file(), &link).and_then(|()| fs::write(&link, "!"));
        unchanged(written)
    });
    attempts.add("make a hard link to a program of the system", |_| {
        nothing(
            fs::hard_link("/usr/bin/env", format!("{}/hard-env", writable())),
            "it has a name in the mount",
        )
    });
    attempts.add("swap a folder for another mount's", |_| {
        let (one, two) = (path(writable()), path(read_only()));
        let here = minus(libc::AT_FDCWD);
        // RENAME_EXCHANGE.
        let swap = || call(libc::SYS_renameat2, [here, of(&one), here, of(&two), 2]);
        let swapped = swap();
        if swapped.is_ok() {
            // Back, for what is tried next.
            let _ = swap();
        }
        nothing(swapped, "swapped")
    });
    // Each leaves a file that runs as its owner, if it works.
    let set_id: [(&str, OnPath); 8] = [
        ("chmod", |it| {
            call(libc::SYS_fchmodat, [minus(libc::AT_FDCWD), of(it), 0o4755])
        }),
        ("the newer chmod", |it| {
            call(
                libc::SYS_fchmodat2,
                [minus(libc::AT_FDCWD), of(it), 0o4755, 0],
            )
        }),
        ("chmod for the group", |it| {
            call(libc::SYS_fchmodat, [minus(libc::AT_FDCWD), of(it), 0o2755])
        }),
        ("chmod by descriptor", |it| {
            let open = open(
                libc::SYS_openat,
                [minus(libc::AT_FDCWD), of(it), flag(libc::O_RDONLY)],
            )?;
            call(libc::SYS_fchmod, [flag(open.as_raw_fd()), 0o4755])
        }),
        ("mknod", |it| {
            call(libc::SYS_unlinkat, [minus(libc::AT_FDCWD), of(it), 0])?;
            call(
                libc::SYS_mknodat,
                [minus(libc::AT_FDCWD), of(it), 0o104_755, 0],
            )
        }),
        ("open", |it| {
            call(libc::SYS_unlinkat, [minus(libc::AT_FDCWD), of(it), 0])?;
            let create = flag(libc::O_CREAT | libc::O_WRONLY);
            call(
                libc::SYS_openat,
                [minus(libc::AT_FDCWD), of(it), create, 0o4755],
            )
        }),
        ("openat2", |it| {
            call(libc::SYS_unlinkat, [minus(libc::AT_FDCWD), of(it), 0])?;
            let how = [
                u64::from((libc::O_CREAT | libc::O_WRONLY).cast_unsigned()),
                0o4755,
                0,
            ];
            call(
                libc::SYS_openat2,
                [minus(libc::AT_FDCWD), of(it), address(&how), 24],
            )
        }),
        ("a folder's group", |it| {
            call(libc::SYS_unlinkat, [minus(libc::AT_FDCWD), of(it), 0])?;
            call(libc::SYS_mkdirat, [minus(libc::AT_FDCWD), of(it), 0o2755])
        }),
    ];
    for (how, code) in set_id {
        attempts.add(format!("leave a set-user-id file by {how}"), move |_| {
            let name = format!("{}/{}", writable(), how.replace(' ', "-"));
            let _ = fs::write(&name, "#!/bin/sh\n");
            let done = code(&path(&name));
            // What counts is the file that is left, not what the call returned.
            let mode = fs::metadata(&name).map_or(0, |it| it.permissions().mode());
            let _ = fs::remove_file(&name);
            let _ = fs::remove_dir(&name);
            match (mode & 0o6000, done) {
                (0, Err(error)) => held(error),
                (0, Ok(_)) => held("a file without the bit"),
                (bits, _) => escaped(format!("a file with {bits:o}")),
            }
        });
    }
    attempts.add("give a file to another user", |ground| {
        let name = format!("{}/given", writable());
        let _ = fs::write(&name, "");
        let given = std::os::unix::fs::chown(&name, Some(ground.another_user), None);
        let _ = fs::remove_file(&name);
        nothing(given, "it is another user's")
    });
    for (kind, mode) in [
        ("a character device", libc::S_IFCHR),
        ("a block device", libc::S_IFBLK),
        ("a socket", libc::S_IFSOCK),
    ] {
        attempts.add(format!("make {kind} in a writable mount"), move |_| {
            let name = format!("{}/{}", writable(), kind.replace(' ', "-"));
            let target = path(&name);
            let mode = usize::try_from(mode | 0o666).unwrap_or(0);
            // The device number of /dev/null.
            let made = call(
                libc::SYS_mknodat,
                [minus(libc::AT_FDCWD), of(&target), mode, 0x103],
            );
            let _ = fs::remove_file(&name);
            nothing(made, "it is there")
        });
    }
    attempts.add("execute in a mount that is not for programs", |_| {
        let name = format!("{}/script", writable());
        let made = fs::write(&name, "#!/bin/sh\nexit 0\n")
            .and_then(|()| fs::set_permissions(&name, fs::Permissions::from_mode(0o755)));
        let ran = made.and_then(|()| std::process::Command::new(&name).status());
        let _ = fs::remove_file(&name);
        nothing(ran, "the script ran")
    });
    attempts.add("execute in /tmp", |_| {
        let made = fs::copy("/usr/bin/true", "/tmp/true");
        let ran = made.and_then(|_| std::process::Command::new("/tmp/true").status());
        let _ = fs::remove_file("/tmp/true");
        nothing(ran, "the copy ran")
    });
    attempts.add("map a file of /tmp to be executed", |_| {
        let made = fs::copy("/usr/bin/true", "/tmp/code").and_then(|_| File::open("/tmp/code"));
        let mapped = made.and_then(|file| {
            let execute = flag(libc::PROT_READ | libc::PROT_EXEC);
            call(
                libc::SYS_mmap,
                [
                    0,
                    4096,
                    execute,
                    flag(libc::MAP_PRIVATE),
                    flag(file.as_raw_fd()),
                    0,
                ],
            )
        });
        let _ = fs::remove_file("/tmp/code");
        nothing(mapped, "its code is mapped")
    });
}

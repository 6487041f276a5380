//! Parts of the kernel that are large or often exploited, each asked for something that it gives to whoever may ask.

use std::os::fd::AsRawFd;

use super::child::by_a_child;
use crate::attempt::{Attempts, escaped, held, nothing};
use crate::kernel::{Answer, address, address_mut, call, flag, made, minus, of, open, path};

/// Asks a part of the kernel for something.
type Asked = fn() -> Answer;

pub(super) fn add(attempts: &mut Attempts) {
    attempts.group("parts of the kernel", "the call gives nothing");
    let calls: Vec<(&str, Asked)> = vec![
        ("a ring of calls (io_uring)", || {
            let mut parameters = [0_u32; 30];
            open(libc::SYS_io_uring_setup, [1, address_mut(&mut parameters)]).map(|_| 0)
        }),
        ("register with a ring", || {
            // Without a ring: this descriptor is beyond the limit of a spoke, so it is not open.
            let asked = call(libc::SYS_io_uring_register, [1 << 20, 8, 0, 0]);
            made(asked, &[libc::EBADF])
        }),
        ("a map of the kernel's programs (bpf)", || {
            // BPF_MAP_CREATE (0) of an array: its type, the bytes of a key and of a value, and one entry.
            let map = [2_u32, 4, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            open(libc::SYS_bpf, [0, address(&map), 72]).map(|_| 0)
        }),
        ("a program in the kernel (bpf)", || {
            // r0 = 0; exit
            let program = [0xb7_u64, 0x95];
            let licence = path("GPL");
            let mut attributes = [0_u64; 16];
            // BPF_PROG_LOAD (5) of a filter for sockets (1) with two instructions.
            attributes[0] = 1 | (2 << 32);
            attributes[1] = u64::try_from(address(&program)).unwrap_or(0);
            attributes[2] = u64::try_from(of(&licence)).unwrap_or(0);
            open(libc::SYS_bpf, [5, address(&attributes), 128]).map(|_| 0)
        }),
        ("a key in a ring of keys", || {
            let (kind, name, value) = (path("user"), path("mine"), *b"value");
            call(
                libc::SYS_add_key,
                [of(&kind), of(&name), address(&value), 5, minus(-3)],
            )
        }),
        ("the user's ring of keys", || {
            // KEYCTL_GET_KEYRING_ID of the user's ring, which is made if it is not there.
            call(libc::SYS_keyctl, [0, minus(-4), 1])
        }),
        ("a key by asking the host's helper", || {
            let (kind, name) = (path("user"), path("mine"));
            let asked = call(libc::SYS_request_key, [of(&kind), of(&name), 0, minus(-3)]);
            // The kernel has looked for it.
            made(asked, &[libc::ENOKEY])
        }),
        ("counters of the processor (perf)", || {
            let mut attributes = [0_u64; 16];
            // A software event, and the size of the structure.
            attributes[0] = 1 | (128 << 32);
            attributes[5] = 0x60; // not of the kernel, not of a hypervisor
            open(
                libc::SYS_perf_event_open,
                [address(&attributes), 0, minus(-1), minus(-1), 0],
            )
            .map(|_| 0)
        }),
        ("page faults for oneself (userfaultfd)", || {
            // UFFD_USER_MODE_ONLY, which needs no privilege.
            open(libc::SYS_userfaultfd, [1]).map(|_| 0)
        }),
        ("a file without a name (memfd)", || {
            let name = path("mine");
            open(libc::SYS_memfd_create, [of(&name), 0]).map(|_| 0)
        }),
        ("memory that nobody else sees (memfd_secret)", || {
            open(libc::SYS_memfd_secret, [0]).map(|_| 0)
        }),
        ("events of a whole file system (fanotify)", || {
            // FAN_REPORT_FID, with which it needs no privilege.
            open(libc::SYS_fanotify_init, [0x200, 0]).map(|_| 0)
        }),
        ("a filter of one's own (seccomp)", || {
            // SECCOMP_GET_ACTION_AVAIL (2) of SECCOMP_RET_ALLOW: it asks and changes nothing.
            let action = 0x7fff_0000_u32;
            call(libc::SYS_seccomp, [2, 0, address(&action)])
        }),
        ("a ruleset of one's own (landlock)", || {
            // LANDLOCK_CREATE_RULESET_VERSION: it asks and makes nothing.
            call(libc::SYS_landlock_create_ruleset, [0, 0, 1])
        }),
        ("another personality", || {
            // ADDR_NO_RANDOMIZE.
            call(libc::SYS_personality, [0x0004_0000])
        }),
        ("pages moved between nodes", || {
            call(libc::SYS_move_pages, [0, 0, 0, 0, 0, 0])
        }),
        ("pages bound to a node", || {
            call(libc::SYS_set_mempolicy, [0, 0, 0])
        }),
        ("pages given to a pipe (vmsplice)", || {
            let (_ours, theirs) = std::io::pipe()?;
            let bytes = *b"page";
            let part = [address(&bytes), 4];
            call(
                libc::SYS_vmsplice,
                [flag(theirs.as_raw_fd()), address(&part), 1, 0],
            )
        }),
        ("asynchronous reading (aio)", || {
            let mut context = 0_usize;
            call(libc::SYS_io_setup, [1, address_mut(&mut context)])
        }),
        ("a module", || call(libc::SYS_finit_module, [0, 0, 0])),
        ("a module from memory", || {
            call(libc::SYS_init_module, [0, 0, 0])
        }),
        ("another kernel", || {
            call(libc::SYS_kexec_load, [0, 0, 0, 0])
        }),
        ("the end of the machine", || {
            // The numbers that the call asks for, with the command that only turns off Ctrl-Alt-Del: the host is to
            // survive it.
            call(libc::SYS_reboot, [0xfee1_dead, 672_274_793, 0, 0])
        }),
        ("swapping", || {
            let nothing_there = path("/no/such/file");
            call(libc::SYS_swapoff, [of(&nothing_there)])
        }),
        ("accounting of processes", || call(libc::SYS_acct, [0])),
        ("quotas", || {
            // Q_SYNC of the users' quotas of every file system, which needs no privilege.
            call(
                libc::SYS_quotactl,
                [flag(0x8000_0100_u32.cast_signed()), 0, 0, 0],
            )
        }),
        ("the clock", || {
            // Set to what it is, in case it works.
            let mut now = [0_i64; 2];
            call(libc::SYS_clock_gettime, [0, address_mut(&mut now)])?;
            call(libc::SYS_clock_settime, [0, address(&now)])
        }),
        ("the clock's speed", || {
            let mut how = [0_u64; 26];
            how[0] = 0x4000;
            call(libc::SYS_adjtimex, [address_mut(&mut how)]).map(|_| 0)
        }),
        ("a time of day", || {
            let zone = [0_i32, 0];
            call(libc::SYS_settimeofday, [0, address(&zone)])
        }),
        ("a message queue by name", || {
            let name = path("mine");
            open(
                libc::SYS_mq_open,
                [of(&name), flag(libc::O_CREAT | libc::O_RDWR), 0o600, 0],
            )
            .map(|_| 0)
        }),
        ("a message queue of System V", || {
            call(libc::SYS_msgget, [0, 0o1600])
        }),
        ("semaphores of System V", || {
            call(libc::SYS_semget, [0, 1, 0o1600])
        }),
        ("the books of modules of security", || {
            let (mut ids, mut size) = ([0_u64; 16], 128_u32);
            // lsm_list_modules.
            call(461, [address_mut(&mut ids), address_mut(&mut size), 0])
        }),
        ("a call that is not one", || call(1023, [0])),
    ];
    for (name, code) in calls {
        attempts.add(name, move |_| nothing(code(), "the kernel did it"));
    }
    #[cfg(target_arch = "x86_64")]
    old_interfaces(attempts);
}

/// Interfaces of the processor's older modes, whose calls have other numbers than the filter's table.
#[cfg(target_arch = "x86_64")]
fn old_interfaces(attempts: &mut Attempts) {
    attempts.add("ports of the machine (iopl)", |_| {
        nothing(call(libc::SYS_iopl, [3]), "given")
    });
    attempts.add("ports of the machine (ioperm)", |_| {
        nothing(call(libc::SYS_ioperm, [0x80, 1, 1]), "given")
    });
    attempts.add("segments of one's own (modify_ldt)", |_| {
        let mut table = [0_u8; 16];
        nothing(
            call(libc::SYS_modify_ldt, [0, address_mut(&mut table), 16]),
            "read",
        )
    });
    attempts.add("a call by a number of the x32 interface", |_| {
        const X32: i64 = 0x4000_0000;
        nothing(call(X32 + libc::SYS_getpid, [0]), "it was made")
    });
    attempts.add("a call of the 32-bit interface", |_| {
        by_a_child("it was made", || crate::kernel::call_in_32_bits() > 0)
    });
    attempts.add("the pages of the old interface", |_| {
        // In the kernel's part of the address space since it was emulated; reading it is nobody's harm, writing is.
        by_a_child("written", || {
            crate::kernel::poke(0xffff_ffff_ff60_0000, 0);
            true
        })
    });
    attempts.add("memory at the address zero", |_| {
        let private = flag(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
        match call(libc::SYS_mmap, [0, 4096, 3, private, minus(-1), 0]) {
            Ok(0) => escaped("it is mapped"),
            Ok(_) => held("elsewhere"),
            Err(error) => held(error),
        }
    });
}

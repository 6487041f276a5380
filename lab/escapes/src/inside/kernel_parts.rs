//! Parts of the kernel that are large or often exploited, each asked for something that it gives to any process that may ask.

use libc::{O_CREAT, O_RDWR};

use super::call::Arg::{Buffer, Pipe, Words};
use super::call::calls;
use super::child::by_a_child;
use crate::attempt::{Attempts, escaped, held};
use crate::kernel::{address, address_mut, call, flag, minus, of, path};

/// BPF_MAP_CREATE of an array: its type (2) and the bytes of a key (4), the bytes of a value (8) and one entry.
const BPF_MAP: [u64; 9] = [2 | 4 << 32, 8 | 1 << 32, 0, 0, 0, 0, 0, 0, 0];
/// A software event with the size of the structure; not of the kernel, not of a hypervisor.
const PERF_EVENT: [u64; 16] = [
    1 | 128 << 32,
    0,
    0,
    0,
    0,
    0x60,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
];
/// `struct timex`: ADJ_TICK.
const TIME: [u64; 26] = {
    let mut time = [0; 26];
    time[0] = 0x4000;
    time
};

pub(super) fn add(attempts: &mut Attempts) {
    attempts.group("parts of the kernel", "the call gives nothing");
    calls!(attempts.call;
        "a ring of calls (io_uring)": SYS_io_uring_setup(1, Words(&[0; 15]));
        // Without a ring: this descriptor is beyond the limit of a spoke, so it is not open.
        "register with a ring": SYS_io_uring_register(1 << 20, 8, 0, 0) or EBADF;
        "a map of the kernel's programs (bpf)": SYS_bpf(0, &BPF_MAP, 72);
        "a key in a ring of keys": SYS_add_key("user", "mine", b"value", 5, -3);
        // KEYCTL_GET_KEYRING_ID of the user's ring, which is made if it is not there.
        "the user's ring of keys": SYS_keyctl(0, -4, 1);
        // The kernel has looked for it.
        "a key by asking the host's helper": SYS_request_key("user", "mine", 0, -3) or ENOKEY;
        "counters of the processor (perf)": SYS_perf_event_open(&PERF_EVENT, 0, -1, -1, 0);
        // UFFD_USER_MODE_ONLY, which needs no privilege.
        "page faults for oneself (userfaultfd)": SYS_userfaultfd(1);
        "a file without a name (memfd)": SYS_memfd_create("mine", 0);
        "memory that nobody else sees (memfd_secret)": SYS_memfd_secret(0);
        // FAN_REPORT_FID, with which it needs no privilege.
        "events of a whole file system (fanotify)": SYS_fanotify_init(0x200, 0);
        // SECCOMP_GET_ACTION_AVAIL (2) of SECCOMP_RET_ALLOW: it asks and changes nothing.
        "a filter of one's own (seccomp)": SYS_seccomp(2, 0, Words(&[0x7fff_0000]));
        // LANDLOCK_CREATE_RULESET_VERSION: it asks and makes nothing.
        "a ruleset of one's own (landlock)": SYS_landlock_create_ruleset(0, 0, 1);
        // ADDR_NO_RANDOMIZE.
        "another personality": SYS_personality(0x0004_0000);
        "pages moved between nodes": SYS_move_pages(0, 0, 0, 0, 0, 0);
        "pages bound to a node": SYS_set_mempolicy(0, 0, 0);
        "pages given to a pipe (vmsplice)": SYS_vmsplice(Pipe, Buffer, 1, 0);
        "asynchronous reading (aio)": SYS_io_setup(1, Words(&[0]));
        "a module": SYS_finit_module(0, 0, 0);
        "a module from memory": SYS_init_module(0, 0, 0);
        "another kernel": SYS_kexec_load(0, 0, 0, 0);
        // The numbers that the call asks for, with the command that only turns off Ctrl-Alt-Del: the host is to survive it.
        "the end of the machine": SYS_reboot(0xfee1_dead_u64, 672_274_793, 0, 0);
        "swapping": SYS_swapoff("/no/such/file");
        "accounting of processes": SYS_acct(0);
        // Q_SYNC of the users' quotas of every file system, which needs no privilege.
        "quotas": SYS_quotactl(0x8000_0100_u64, 0, 0, 0);
        "the clock's speed": SYS_adjtimex(&TIME);
        "a time of day": SYS_settimeofday(0, Words(&[0]));
        "a message queue by name": SYS_mq_open("mine", O_CREAT | O_RDWR, 0o600, 0);
        "a message queue of System V": SYS_msgget(0, 0o1600);
        "semaphores of System V": SYS_semget(0, 1, 0o1600);
    );
    attempts.refused("a program in the kernel (bpf)", |_| {
        // r0 = 0; exit
        let program = [0xb7_u64, 0x95];
        let licence = path("GPL");
        // BPF_PROG_LOAD (5) of a filter for sockets (1) with two instructions.
        let mut attributes = [0_u64; 16];
        attributes[..3].copy_from_slice(&[
            1 | (2 << 32),
            address(&program) as u64,
            of(&licence) as u64,
        ]);
        call(libc::SYS_bpf, [5, address(&attributes), 128])
    });
    attempts.refused("the clock", |_| {
        // Set to what it is, in case it works.
        let mut now = [0_i64; 2];
        call(libc::SYS_clock_gettime, [0, address_mut(&mut now)])
            .and_then(|_| call(libc::SYS_clock_settime, [0, address(&now)]))
    });
    attempts.refused("the books of modules of security", |_| {
        let (mut ids, mut size) = ([0_u64; 16], 128_u32);
        // lsm_list_modules, for which `libc` has no number.
        call(461, [address_mut(&mut ids), address_mut(&mut size), 0])
    });
    attempts.refused("a call that is not one", |_| call(1023, [0]));
    #[cfg(target_arch = "x86_64")]
    old_interfaces(attempts);
}

/// Interfaces of the processor's older modes, whose calls have other numbers than the filter's table.
#[cfg(target_arch = "x86_64")]
fn old_interfaces(attempts: &mut Attempts) {
    calls!(attempts.call;
        "ports of the machine (iopl)": SYS_iopl(3);
        "ports of the machine (ioperm)": SYS_ioperm(0x80, 1, 1);
        "segments of one's own (modify_ldt)": SYS_modify_ldt(0, Words(&[0, 0]), 16);
    );
    attempts.refused("a call by a number of the x32 interface", |_| {
        call(0x4000_0000 + libc::SYS_getpid, [0])
    });
    attempts.add("a call of the 32-bit interface", |_| {
        by_a_child("it was made", || crate::kernel::call_in_32_bits() > 0)
    });
    attempts.add("the pages of the old interface", |_| {
        // In the kernel's part of the address space since it was emulated; reading it does no harm, writing does.
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

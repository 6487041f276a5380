//! Processes of the host: signals, their memory, how they run.

use std::os::fd::AsRawFd;

use libc::{PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, PTRACE_SEIZE, SIGURG};

use super::call::Arg::{Buffer, Pid, PidFd, Words};
use super::call::Process::{Child, First, Hub, Victim};
use super::call::calls;
use super::child::by_a_child;
use crate::attempt::{Attempts, escaped, failed, held, nothing};
use crate::kernel::{address_mut, call, flag, minus};

/// Where a spoke finds its channel to the hub.
const CHANNEL: usize = 3;
/// The kernel's number of the option that gives the process on the other side of a Unix socket.
const SO_PEERPIDFD: i32 = 77;
/// `siginfo_t` of a signal from a queue: SIGURG (23), and below it the code -1.
const FROM_A_QUEUE: [u64; 16] = [23, 0xffff_ffff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(super) fn add(attempts: &mut Attempts) {
    signals(attempts);
    attempts.group("scheduling", "processes of the host run as before");
    calls!(attempts.call;
        "slow a process of the host down": SYS_setpriority(0, Pid(Victim), 19);
        "pin a process of the host to a processor": SYS_sched_setaffinity(Pid(Victim), 8, Words(&[1]));
        "learn where a process of the host runs": SYS_sched_getaffinity(Pid(Victim), 128, Words(&[0; 16]));
        "learn the session of a process of the host": SYS_getsid(Pid(Victim));
        // RLIMIT_CORE (4) and RLIMIT_NOFILE (7).
        "set the limits of a process of the host": SYS_prlimit64(Pid(Victim), 4, Words(&[1024, 1024]), 0);
        "read the limits of a process of the host": SYS_prlimit64(Pid(Victim), 7, 0, Words(&[0, 0]));
        // SCHED_FIFO.
        "run before everything else": SYS_sched_setscheduler(0, 1, Words(&[1]));
        "be nice to nobody": SYS_setpriority(0, 0, -20);
        // IOPRIO_CLASS_RT for this process.
        "read and write first": SYS_ioprio_set(1, 0, 1 << 13);
    );
    attempts.add_for_everybody("slow every process of the user down", |ground| {
        // PRIO_USER, to the usual niceness, which slows nobody down if it works. What counts is whether the host's
        // processes are seen.
        let _ = call(libc::SYS_setpriority, [2, 0, 0]);
        let priority = call(libc::SYS_getpriority, [0, flag(ground.victim)]);
        nothing(priority, "the host's are among them")
    });
    attempts.group(
        "ptrace",
        "no memory or descriptor of another process is reached",
    );
    calls!(attempts.call;
        "trace a process of the host": SYS_ptrace(PTRACE_SEIZE, Pid(Victim), 0, 0);
        "trace process 1": SYS_ptrace(PTRACE_SEIZE, 1, 0, 0);
        "trace a child": SYS_ptrace(PTRACE_SEIZE, Pid(Child), 0, 0);
        "read a child's memory": SYS_process_vm_readv(Pid(Child), Buffer, 1, Buffer, 1, 0);
        "write a child's memory": SYS_process_vm_writev(Pid(Child), Buffer, 1, Buffer, 1, 0);
        "read memory of a process of the host": SYS_process_vm_readv(Pid(Victim), Buffer, 1, Buffer, 1, 0);
        "take a descriptor of a child": SYS_pidfd_getfd(PidFd(Child), 0, 0);
        "take the channel of process 1": SYS_pidfd_getfd(PidFd(First), CHANNEL, 0);
        "compare kernel objects with a child's": SYS_kcmp(std::process::id(), Pid(Child), 0, 0, 0);
        // MADV_COLD of no bytes.
        "advise on a child's memory": SYS_process_madvise(PidFd(Child), Words(&[0, 0]), 1, 20, 0);
        // It is not dying.
        "release memory of a dying child": SYS_process_mrelease(PidFd(Child), 0) or EINVAL;
    );
    attempts.add("be traced, and so change what a call asks for", |_| {
        by_a_child("a child is traced", || {
            call(libc::SYS_ptrace, [0, 0, 0, 0]).is_ok()
        })
    });
}

fn signals(attempts: &mut Attempts) {
    attempts.group("signals", "no process outside hears one");
    calls!(attempts.call;
        "signal a process of the host by kill": SYS_kill(Pid(Victim), SIGURG);
        "signal a process of the host by tkill": SYS_tkill(Pid(Victim), SIGURG);
        "signal a process of the host by tgkill": SYS_tgkill(Pid(Victim), Pid(Victim), SIGURG);
        "signal a process of the host by sigqueue": SYS_rt_sigqueueinfo(Pid(Victim), SIGURG, &FROM_A_QUEUE);
        "signal a process of the host by a process descriptor": SYS_pidfd_send_signal(PidFd(Victim), SIGURG, 0, 0);
        "signal a process of the host by kill, at the hub": SYS_kill(Pid(Hub), 0);
        "disarm the signal of the hub's end": SYS_prctl(PR_SET_PDEATHSIG, 0);
        "become nobody's child, and outlive the hub": SYS_prctl(PR_SET_CHILD_SUBREAPER, 1);
    );
    attempts.add(
        "see whether a process of the host is there",
        |ground| match call(libc::SYS_kill, [flag(ground.victim), 0]) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => held(error),
            other => escaped(format!("it is: {other:?}")),
        },
    );
    attempts.add("get the hub's process by the channel", |_| {
        let mut number = [0_i32];
        match option_of_the_channel(SO_PEERPIDFD, &mut number) {
            // The descriptor alone is no power: what it is good for is what counts.
            Ok(_) => nothing(
                call(libc::SYS_pidfd_send_signal, [flag(number[0]), 0, 0, 0]),
                "the hub can be signalled",
            ),
            Err(error) => held(error),
        }
    });
    attempts.add("get the hub's number by the channel", |_| {
        let mut who = [0_i32; 3];
        match (option_of_the_channel(libc::SO_PEERCRED, &mut who), who[0]) {
            (Ok(_), 1..) => escaped(format!("process {}", who[0])),
            (Ok(_), _) => held("none"),
            (Err(error), _) => held(error),
        }
    });
    attempts.add("have the kernel signal a process of the host", |ground| {
        // By the owner of a pipe that becomes readable.
        let Ok((ours, _theirs)) = std::io::pipe() else {
            return failed("no pipe");
        };
        let arguments = [
            flag(ours.as_raw_fd()),
            flag(libc::F_SETOWN),
            flag(ground.victim),
        ];
        nothing(
            call(libc::SYS_fcntl, arguments),
            "it owns a descriptor of ours",
        )
    });
    attempts.add_for_everybody("signal everybody", |ground| {
        // A signal that is ignored by default: the host is to survive it.
        let sent = call(libc::SYS_kill, [minus(-1), flag(SIGURG)]);
        match call(libc::SYS_kill, [flag(ground.victim), 0]) {
            Ok(_) => escaped(format!("{sent:?}, and the host's are among them")),
            Err(error) => held(error),
        }
    });
}

fn option_of_the_channel<const N: usize>(
    option: i32,
    value: &mut [i32; N],
) -> std::io::Result<usize> {
    let mut length = u32::try_from(N * 4).unwrap_or(0);
    let (value, length) = (address_mut(value), address_mut(&mut length));
    call(
        libc::SYS_getsockopt,
        [CHANNEL, flag(libc::SOL_SOCKET), flag(option), value, length],
    )
}

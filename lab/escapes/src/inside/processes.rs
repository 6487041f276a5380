//! Processes of the host: signals, their memory, how they run.

use std::os::fd::AsRawFd;

use rustix::process::{Pid, Signal, kill_process};

use super::child::by_a_child;
use crate::attempt::{Attempts, Ground, Observed, escaped, failed, held, nothing};
use crate::kernel::{self, Answer, address, address_mut, call, flag, made, open};

/// Where a spoke finds its channel to the hub.
const CHANNEL: usize = 3;
/// The kernel's number of the option that gives the process on the other side of a Unix socket.
const SO_PEERPIDFD: i32 = 77;

/// One call, by what the attacker knows.
type Step = fn(&Ground) -> Answer;

pub(super) fn add(attempts: &mut Attempts) {
    signals(attempts);
    scheduling(attempts);
    memory(attempts);
}

fn victim(ground: &Ground) -> usize {
    flag(ground.victim)
}

fn signals(attempts: &mut Attempts) {
    attempts.group("signals", "no process outside hears one");
    let to_victim: [(&str, Step); 6] = [
        ("kill", |it| {
            call(libc::SYS_kill, [victim(it), flag(libc::SIGURG)])
        }),
        ("tkill", |it| {
            call(libc::SYS_tkill, [victim(it), flag(libc::SIGURG)])
        }),
        ("tgkill", |it| {
            call(
                libc::SYS_tgkill,
                [victim(it), victim(it), flag(libc::SIGURG)],
            )
        }),
        ("sigqueue", |it| {
            let mut info = [0_u8; 128];
            info[0] = 23; // SIGURG
            info[8..12].copy_from_slice(&(-1_i32).to_ne_bytes()); // from a queue
            call(libc::SYS_rt_sigqueueinfo, [victim(it), 23, address(&info)])
        }),
        ("a process descriptor", |it| {
            let process = open(libc::SYS_pidfd_open, [victim(it), 0])?;
            call(
                libc::SYS_pidfd_send_signal,
                [flag(process.as_raw_fd()), flag(libc::SIGURG), 0, 0],
            )
        }),
        ("kill, at the hub", |it| {
            call(libc::SYS_kill, [flag(it.hub), 0])
        }),
    ];
    for (how, code) in to_victim {
        attempts.add(
            format!("signal a process of the host by {how}"),
            move |ground| nothing(code(ground), "it was sent"),
        );
    }
    attempts.add(
        "see whether a process of the host is there",
        |ground| match call(libc::SYS_kill, [victim(ground), 0]) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => held(error),
            other => escaped(format!("it is: {other:?}")),
        },
    );
    attempts.add("get the hub's process by the channel", |_| {
        let mut number = 0_i32;
        let mut length = 4_u32;
        let arguments = [
            CHANNEL,
            flag(libc::SOL_SOCKET),
            flag(SO_PEERPIDFD),
            address_mut(&mut number),
            address_mut(&mut length),
        ];
        match call(libc::SYS_getsockopt, arguments) {
            // The descriptor alone is no power: what it is good for is what counts.
            Ok(_) => nothing(
                call(libc::SYS_pidfd_send_signal, [flag(number), 0, 0, 0]),
                "the hub can be signalled",
            ),
            Err(error) => held(error),
        }
    });
    attempts.add("get the hub's number by the channel", |_| {
        let mut who = [0_u32; 3];
        let mut length = 12_u32;
        let arguments = [
            CHANNEL,
            flag(libc::SOL_SOCKET),
            flag(libc::SO_PEERCRED),
            address_mut(&mut who),
            address_mut(&mut length),
        ];
        match (call(libc::SYS_getsockopt, arguments), who[0]) {
            (Ok(_), 1..) => escaped(format!("process {}", who[0])),
            (Ok(_), 0) => held("none"),
            (Err(error), _) => held(error),
        }
    });
    attempts.add("have the kernel signal a process of the host", |ground| {
        // By the owner of a pipe that becomes readable.
        let Ok((ours, _theirs)) = std::io::pipe() else {
            return failed("no pipe");
        };
        let owner = call(
            libc::SYS_fcntl,
            [flag(ours.as_raw_fd()), flag(libc::F_SETOWN), victim(ground)],
        );
        nothing(owner, "it owns a descriptor of ours")
    });
    attempts.add("disarm the signal of the hub's end", |_| {
        nothing(
            call(libc::SYS_prctl, [flag(libc::PR_SET_PDEATHSIG), 0]),
            "disarmed",
        )
    });
    attempts.add("become nobody's child, and outlive the hub", |_| {
        nothing(
            call(libc::SYS_prctl, [flag(libc::PR_SET_CHILD_SUBREAPER), 1]),
            "done",
        )
    });
    attempts.add_for_everybody("signal everybody", |ground| {
        // A signal that is ignored by default: the host is to survive it.
        let sent = call(libc::SYS_kill, [kernel::minus(-1), flag(libc::SIGURG)]);
        match call(libc::SYS_kill, [victim(ground), 0]) {
            Ok(_) => escaped(format!("{sent:?}, and the host's are among them")),
            Err(error) => held(error),
        }
    });
}

fn scheduling(attempts: &mut Attempts) {
    attempts.group("scheduling", "processes of the host run as before");
    let calls: [(&str, Step); 9] = [
        ("slow a process of the host down", |it| {
            call(libc::SYS_setpriority, [0, victim(it), 19])
        }),
        ("pin a process of the host to a processor", |it| {
            let mut processors = [0_u8; 128];
            let length = call(
                libc::SYS_sched_getaffinity,
                [victim(it), 128, address_mut(&mut processors)],
            )?;
            call(
                libc::SYS_sched_setaffinity,
                [victim(it), length, address(&processors)],
            )
        }),
        ("learn where a process of the host runs", |it| {
            let mut processors = [0_u8; 128];
            call(
                libc::SYS_sched_getaffinity,
                [victim(it), 128, address_mut(&mut processors)],
            )
        }),
        ("learn the session of a process of the host", |it| {
            call(libc::SYS_getsid, [victim(it)])
        }),
        ("set the limits of a process of the host", |it| {
            let limit = [1024_u64, 1024];
            // RLIMIT_CORE.
            call(libc::SYS_prlimit64, [victim(it), 4, address(&limit), 0])
        }),
        ("read the limits of a process of the host", |it| {
            let mut limit = [0_u64; 2];
            call(
                libc::SYS_prlimit64,
                // RLIMIT_NOFILE.
                [victim(it), 7, 0, address_mut(&mut limit)],
            )
        }),
        ("run before everything else", |_| {
            let priority = 1_i32;
            // SCHED_FIFO.
            call(libc::SYS_sched_setscheduler, [0, 1, address(&priority)])
        }),
        ("be nice to nobody", |_| {
            call(libc::SYS_setpriority, [0, 0, kernel::minus(-20)])
        }),
        ("read and write first", |_| {
            // IOPRIO_CLASS_RT for this process.
            call(libc::SYS_ioprio_set, [1, 0, 1 << 13])
        }),
    ];
    for (name, code) in calls {
        attempts.add(name, move |ground| nothing(code(ground), "done"));
    }
    attempts.add_for_everybody("slow every process of the user down", |ground| {
        // PRIO_USER, to the usual niceness, which slows nobody down if it works. What counts is
        // whether the host's processes are seen.
        let _ = call(libc::SYS_setpriority, [2, 0, 0]);
        let priority = call(libc::SYS_getpriority, [0, victim(ground)]);
        nothing(priority, "the host's are among them")
    });
}

fn memory(attempts: &mut Attempts) {
    attempts.group(
        "ptrace",
        "no memory or descriptor of another process is reached",
    );
    attempts.add("trace a process of the host", |ground| {
        nothing(
            call(
                libc::SYS_ptrace,
                [flag(libc::PTRACE_SEIZE.cast_signed()), victim(ground), 0, 0],
            ),
            "traced",
        )
    });
    attempts.add("trace process 1", |_| {
        nothing(
            call(
                libc::SYS_ptrace,
                [flag(libc::PTRACE_SEIZE.cast_signed()), 1, 0, 0],
            ),
            "traced",
        )
    });
    attempts.add("be traced, and so change what a call asks for", |_| {
        by_a_child("a child is traced", || {
            call(libc::SYS_ptrace, [0, 0, 0, 0]).is_ok()
        })
    });
    attempts.add("trace a child", |_| {
        of_a_child(|child| {
            call(
                libc::SYS_ptrace,
                [flag(libc::PTRACE_SEIZE.cast_signed()), child, 0, 0],
            )
        })
    });
    let here = 7_u64;
    let address_here = move || [address(&here), 8_usize];
    attempts.add("read a child's memory", move |_| {
        of_a_child(|child| {
            let mut there = [0_u64];
            let (local, remote) = ([address_mut(&mut there), 8], address_here());
            call(
                libc::SYS_process_vm_readv,
                [child, address(&local), 1, address(&remote), 1, 0],
            )
        })
    });
    attempts.add("write a child's memory", move |_| {
        of_a_child(|child| {
            let (local, remote) = (address_here(), address_here());
            call(
                libc::SYS_process_vm_writev,
                [child, address(&local), 1, address(&remote), 1, 0],
            )
        })
    });
    attempts.add("read memory of a process of the host", move |ground| {
        let mut there = [0_u64];
        let (local, remote) = ([address_mut(&mut there), 8], address_here());
        let read = call(
            libc::SYS_process_vm_readv,
            [victim(ground), address(&local), 1, address(&remote), 1, 0],
        );
        nothing(read, "read")
    });
    attempts.add("take a descriptor of a child", |_| {
        of_a_child(|child| {
            let process = open(libc::SYS_pidfd_open, [child, 0])?;
            call(libc::SYS_pidfd_getfd, [flag(process.as_raw_fd()), 0, 0])
        })
    });
    attempts.add("compare kernel objects with a child's", |_| {
        of_a_child(|child| {
            call(
                libc::SYS_kcmp,
                [flag(std::process::id().cast_signed()), child, 0, 0, 0],
            )
        })
    });
    attempts.add("advise on a child's memory", |_| {
        of_a_child(|child| {
            let process = open(libc::SYS_pidfd_open, [child, 0])?;
            let range = [0_usize, 0];
            call(
                libc::SYS_process_madvise,
                // MADV_COLD of no bytes.
                [flag(process.as_raw_fd()), address(&range), 1, 20, 0],
            )
        })
    });
    attempts.add("release memory of a dying child", |_| {
        of_a_child(|child| {
            let process = open(libc::SYS_pidfd_open, [child, 0])?;
            // It is not dying.
            made(
                call(libc::SYS_process_mrelease, [flag(process.as_raw_fd()), 0]),
                &[libc::EINVAL],
            )
        })
    });
}

/// Does something to a child that waits.
fn of_a_child(done: impl FnOnce(usize) -> Answer) -> Observed {
    match kernel::fork() {
        Ok(None) => loop {
            std::thread::park();
        },
        Ok(Some(child)) => {
            let result = done(flag(child));
            if let Some(child) = Pid::from_raw(child) {
                let _ = kill_process(child, Signal::KILL);
            }
            nothing(result, "done")
        }
        Err(error) => failed(error),
    }
}

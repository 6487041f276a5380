//! The child's side: from a fresh process to a sandboxed one that executes the spoke.
//!
//! Two processes: `outer` waits outside the pid namespace and forwards the exit status, `inner` is process 1 inside and
//! becomes the spoke. Both die with the hub: `outer` by its parent-death signal, `inner` by its own, tied to `outer`;
//! the seccomp filter keeps the spoke from disarming it.

mod landlock;
mod layers;
mod limits;
mod namespaces;
mod network;
mod privileges;
mod root;
mod seccomp;
mod sources;
mod syscalls;

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal, waitpid,
};

pub use self::root::{ETC, SYSTEM};

use self::layers::{Failure, Layers};
use self::network::Sockets;
use crate::control::{self, Report, Request};
use crate::streams::terminal_of;
use crate::sys::{self, Fork};
use crate::{Enforced, Spec};

/// First argument of the spoke binary for [`init_main`].
pub const INIT_ARGUMENT: &str = "sandbox-init";
/// First argument of the spoke binary when it is executed in the finished sandbox.
pub const SPOKE_ARGUMENT: &str = "spoke";

/// Number of the descriptor on which the spoke finds its channel to the hub.
const CHANNEL: RawFd = 3;
/// Where the control socket waits, away from the numbers that the spoke gets.
const CONTROL_MINIMUM: RawFd = 64;
/// Exit code of an init process that could not build the sandbox.
const FAILED: i32 = 125;
/// Added to a signal's number in an exit code, as shells do.
const SIGNAL_OFFSET: i32 = 128;

/// The whole life of the process that [`crate::spawn`] starts. The spoke binary calls this first of all, while it has one
/// thread, when its first argument is [`INIT_ARGUMENT`]; it does not return.
///
/// The spoke binary then runs again as `spoke`, as process 1 of its pid namespace: it must reap its orphans, and when it
/// ends, the kernel kills everything else in the sandbox. Descriptor 3 is the channel; 0 and 1 are `/dev/null`, 2 is the
/// stderr pipe, or all three are the streams of a program; nothing else is open.
pub fn init_main() -> ! {
    let code = match begin() {
        Ok(begun) => {
            let Err(Failure { layer, reason }) = outer(&begun);
            // Fails only if the hub is gone as well.
            let _ = control::send(&begun.control, &Report::Refused { layer, reason }, &[]);
            FAILED
        }
        Err(reason) => {
            let _ = writeln!(
                std::io::stderr(),
                "sandbox-init is started by the hub only: {reason}"
            );
            FAILED
        }
    };
    std::process::exit(code)
}

/// What the hub gave.
struct Begun {
    control: OwnedFd,
    /// None for a probe.
    channel: Option<OwnedFd>,
    /// The standard streams of a program; none for a server.
    streams: Vec<OwnedFd>,
    /// Where the spoke is to start.
    group: Option<OwnedFd>,
    request: Request,
}

/// Closes what leaked in, and takes the request with the channel, which so lands on the lowest free number.
fn begin() -> Result<Begun, String> {
    sys::close_from(CHANNEL.unsigned_abs()).map_err(|errno| errno.to_string())?;
    let stdin = std::io::stdin();
    let received = control::receive::<Request>(&stdin)?;
    let (request, descriptors) = received.ok_or("the hub closed the control socket")?;
    let mut descriptors = descriptors.into_iter();
    let channel = (!request.probe).then(|| descriptors.next()).flatten();
    let count = if request.program { 3 } else { 0 };
    let streams: Vec<_> = descriptors.by_ref().take(count).collect();
    let group = request.group.then(|| descriptors.next()).flatten();
    let number = channel.as_ref().map(AsRawFd::as_raw_fd);
    if number != (!request.probe).then_some(CHANNEL)
        || streams.len() != count
        || group.is_some() != request.group
        || descriptors.next().is_some()
    {
        return Err(format!(
            "the channel came as descriptor {number:?} and not {CHANNEL}"
        ));
    }
    let take_over = || -> rustix::io::Result<OwnedFd> {
        let control = rustix::io::fcntl_dupfd_cloexec(&stdin, CONTROL_MINIMUM)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(null)?;
        Ok(control)
    };
    let control = take_over().map_err(|errno| errno.to_string())?;
    Ok(Begun {
        control,
        channel,
        streams,
        group,
        request,
    })
}

/// Enters the user and pid namespaces, forks, and waits. Returns only when that fails.
fn outer(begun: &Begun) -> Result<Infallible, Failure> {
    let Begun {
        control,
        request,
        group,
        ..
    } = begun;
    let plain = |what: &'static str| {
        move |errno: rustix::io::Errno| Failure::plain(format!("{what}: {errno}"))
    };
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(plain("death signal"))?;
    // Where the hub had ended before the signal was armed, it never comes.
    if getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs()) != Some(request.hub) {
        return Err(Failure::plain("the hub is gone"));
    }
    // Away from the hub's terminal and its process group, so that Ctrl-C reaches the hub alone. It fails only for a
    // process that leads a group already, which is as good.
    let _ = rustix::process::setsid();

    let mut layers = Layers::new(request.spec.allow_degraded.clone());
    limits::volunteer_for_the_out_of_memory_killer(&mut layers)?;
    namespaces::enter_user(&mut layers)?;
    let pid_namespace = namespaces::prepare_pid(&mut layers)?;
    // A change of credentials may have cleared it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(plain("death signal"))?;
    // For the child, which has no number for this process in its own pid namespace.
    let own = pidfd_open(getpid(), PidfdFlags::empty()).map_err(plain("own pid descriptor"))?;

    let (forked, outside) = match group
        .as_ref()
        .map(|group| sys::fork_into_group(group.as_fd()))
    {
        Some(Ok(forked)) => (forked, None),
        Some(Err(errno)) => {
            let reason = format!("start a process in it: {errno}");
            (
                sys::fork_single_threaded().map_err(plain("fork"))?,
                Some(reason),
            )
        }
        None => (sys::fork_single_threaded().map_err(plain("fork"))?, None),
    };
    match forked {
        Fork::Child => {
            let failure = match inner(begun, layers, pid_namespace, &own) {
                Ok(()) => std::process::exit(0),
                Err(failure) => failure,
            };
            let Failure { layer, reason } = failure;
            let _ = control::send(control, &Report::Refused { layer, reason }, &[]);
            std::process::exit(FAILED)
        }
        Fork::Parent(child) => {
            let pidfd = pidfd_open(child, PidfdFlags::empty()).map_err(plain("pid descriptor"))?;
            control::send(control, &Report::Forked { outside }, &[pidfd.as_fd()])
                .map_err(Failure::plain)?;
            wait_and_forward(child)
        }
    }
}

/// Holds no descriptor while it waits, so that the hub sees the ends of stderr, channel and control socket when the spoke
/// ends. Process 1 is reaped only after everything in its pid namespace, so the return means that all is gone.
fn wait_and_forward(child: Pid) -> ! {
    let _ = sys::close_from(0);
    let status = loop {
        match rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty())) {
            Ok(Some((_, status))) => break status,
            Ok(None) => {}
            Err(_) => std::process::exit(FAILED),
        }
    };
    std::process::exit(exit_code(status))
}

fn exit_code(status: WaitStatus) -> i32 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) if signal == Signal::KILL.as_raw() => {
            // Ends here, with the signal that ended the spoke.
            let _ = kill_process(getpid(), Signal::KILL);
            SIGNAL_OFFSET + signal
        }
        (None, Some(signal)) => SIGNAL_OFFSET + signal,
        (None, None) => FAILED,
    }
}

/// Builds the rest around this process, reports, and becomes the spoke. Returns only from a probe.
fn inner(
    begun: &Begun,
    mut layers: Layers,
    pid_namespace: Option<String>,
    outer: &OwnedFd,
) -> Result<(), Failure> {
    let Begun {
        control,
        channel,
        streams,
        request,
        ..
    } = begun;
    let spec = &request.spec;
    die_with(outer)?;
    let terminal = terminal_of(streams);
    if let Some(terminal) = terminal {
        take_terminal(terminal)?;
    }
    let own_processes = namespaces::confirm_pid(&mut layers, pid_namespace)?;
    let own_network = namespaces::enter_others(&mut layers)?;
    // By files of `/proc/sys`, which the spoke's own tree does not have.
    limits::bound_processes(&mut layers, &spec.limits, own_processes)?;
    let watchers = limits::bound_watchers(&mut layers, request.program);
    // Routes take `CAP_NET_ADMIN`, and netlink a socket that the filter refuses: too late further down.
    let sockets = network::open(&mut layers, spec, own_network)?;
    let program = root::Program::find()?;
    let view = root::enter(&mut layers, request, &program, terminal, own_processes)?;
    limits::apply(&mut layers, &spec.bounded_limits())?;
    // Landlock and seccomp ask for this of a process without `CAP_SYS_ADMIN`.
    privileges::forbid_new(&mut layers)?;
    landlock::restrict(&mut layers, &view, spec, own_network)?;
    privileges::drop_all(&mut layers)?;
    // The last change of credentials is behind us.
    die_with(outer)?;
    hand_over(channel.as_ref(), streams)?;
    let given = seccomp::Given {
        watchers,
        names: !spec.names.is_empty(),
        own_network,
        own_sockets: view.own_sockets,
        program: request.program,
    };
    // Last: it refuses what the steps above are made of.
    seccomp::install(&mut layers, given)?;

    // Not the last word: should the execution fail, a refusal follows. The hub listens until the socket is closed.
    report(control, layers.into_report(), &sockets)?;
    drop(sockets);
    if request.probe {
        return Ok(());
    }
    Err(execute(&view.program, spec))
}

/// Arms the death signal, and makes sure that the process it is tied to is still there.
fn die_with(outer: &OwnedFd) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| Failure::plain(format!("death signal: {errno}")))?;
    match sys::readable_within(outer, Duration::ZERO) {
        Ok(false) => Ok(()),
        _ => Err(Failure::plain("the waiting process is gone")),
    }
}

/// Makes this process the leader of a session with this terminal, so that its keys reach what runs in the sandbox.
fn take_terminal(terminal: BorrowedFd<'_>) -> Result<(), Failure> {
    let failed = |errno| Failure::plain(format!("take the terminal: {errno}"));
    rustix::process::setsid().map_err(failed)?;
    rustix::process::ioctl_tiocsctty(terminal).map_err(failed)
}

/// From here on only 0, 1, 2 and the channel survive the execution.
fn hand_over(channel: Option<&OwnedFd>, streams: &[OwnedFd]) -> Result<(), Failure> {
    let failed = |errno| Failure::plain(format!("hand the descriptors over: {errno}"));
    if let [input, output, error] = streams {
        let replaced = rustix::stdio::dup2_stdin(input)
            .and_then(|()| rustix::stdio::dup2_stdout(output))
            .and_then(|()| rustix::stdio::dup2_stderr(error));
        replaced.map_err(failed)?;
    }
    sys::close_on_exec_from(CHANNEL.unsigned_abs()).map_err(failed)?;
    channel
        .map_or(Ok(()), |channel| {
            rustix::io::fcntl_setfd(channel, FdFlags::empty())
        })
        .map_err(failed)
}

fn report(control: &OwnedFd, enforced: Enforced, sockets: &Sockets) -> Result<(), Failure> {
    let ports = |listeners: &[(u16, _)]| listeners.iter().map(|(port, _)| *port).collect();
    let ready = Report::Ready {
        enforced,
        ports: ports(&sockets.listeners),
        names: ports(&sockets.names),
    };
    control::send(control, &ready, &sockets.descriptors()).map_err(Failure::plain)
}

/// Becomes the spoke; returns only when that fails.
fn execute(program: &PathBuf, spec: &Spec) -> Failure {
    let error = Command::new(program)
        .arg(SPOKE_ARGUMENT)
        .env_clear()
        .envs(
            spec.env
                .iter()
                .map(|(key, value)| (OsStr::new(key), OsStr::new(value))),
        )
        .current_dir(&spec.workdir)
        .exec();
    let (program, workdir) = (program.display(), spec.workdir.display());
    Failure::plain(format!(
        "execute {program} in {workdir}: {error}; does the working directory exist in the sandbox?"
    ))
}

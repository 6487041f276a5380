//! The hub's side: start the init process, hand it the specification, believe it only when its report is complete.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::control::{self, Report, Request};
use crate::control_group::ControlGroup;
use crate::handle::{NameSockets, Process};
use crate::init::INIT_ARGUMENT;
use crate::quota;
use crate::remedy::with_remedy;
use crate::spec::START_TIMEOUT;
use crate::{
    Enforced, Layer, LayerStatus, Limits, Overrun, SandboxError, Sandboxed, Spec, Streams,
    WholeSpoke, sys,
};

/// A port for the names of a probe. No connection is made to it.
const HTTPS: u16 = 443;
/// How much of a dead init process's stderr goes into the error message.
const STDERR_EXCERPT_BYTES: usize = 1024;
const NO_PID: &str = "no pid descriptor of the spoke";
/// How long an init process that has closed its socket may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts `program` (the spoke binary, which calls [`crate::init_main`] when its first argument is
/// [`crate::INIT_ARGUMENT`]) in a sandbox built after `spec`. The spoke gets `channel` as descriptor 3.
///
/// Blocks for the milliseconds that building the sandbox takes (at most [`crate::defaults::START_TIMEOUT`]), so an
/// asynchronous caller uses a blocking thread; that thread may end before the spoke does.
///
/// # Errors
/// One of [`SandboxError`]; nothing is left running then.
pub fn spawn(spec: &Spec, program: &Path, channel: OwnedFd) -> Result<Sandboxed, SandboxError> {
    build(spec, program, channel, None)
}

/// As [`spawn`], for a program that the user works with: `streams` are the spoke's standard streams, a terminal among them
/// is its controlling terminal, and the walls that hold a server back from terminals are not there ([`Streams`]).
///
/// # Errors
/// As for [`spawn`], and where a stream is of a kind that is not passed on.
pub fn spawn_program(
    spec: &Spec,
    program: &Path,
    channel: OwnedFd,
    streams: Streams,
) -> Result<Sandboxed, SandboxError> {
    streams.check()?;
    build(spec, program, channel, Some(streams))
}

fn build(
    spec: &Spec,
    program: &Path,
    channel: OwnedFd,
    streams: Option<Streams>,
) -> Result<Sandboxed, SandboxError> {
    spec.check()?;
    spec.check_program(program)?;
    // Before anything is started: what lies in a folder now cannot be the work of this spoke.
    let folders = quota::open(spec)?;
    let group = ControlGroup::make(&spec.limits);
    let request = Request {
        hub: std::process::id(),
        probe: false,
        group: group.is_ok(),
        program: streams.is_some(),
        spec: spec.clone(),
    };
    let streams = streams.map(Streams::into_array);
    let given = [channel].into_iter().chain(streams.into_iter().flatten());
    let mut spoke = start(&request, program, given.collect(), group)?;
    if let Some(layer) = spoke.enforced.shortfall(&spec.allow_degraded) {
        return Err(SandboxError::Unenforced(layer));
    }
    let has_names = match &spoke.names {
        Some(names) => ports(&names.listeners).eq(&spec.names),
        None => spec.names.is_empty(),
    };
    if !ports(&spoke.listeners).eq(&spec.listen) || !has_names {
        return Err(SandboxError::Control(
            "not the listeners that were asked for".to_owned(),
        ));
    }
    let Process { outer, inner, .. } = &spoke.process;
    let watched = inner.as_ref().map_or_else(
        || Err(io::Error::other(NO_PID)),
        |inner| quota::watch(folders, outer.try_clone()?, inner.try_clone()?),
    );
    spoke.overrun = watched.map_err(|source| SandboxError::System {
        what: "watch the sizes of folders",
        source,
    })?;
    Ok(spoke)
}

fn ports(listeners: &[(u16, OwnedFd)]) -> impl Iterator<Item = &u16> {
    listeners.iter().map(|(port, _)| port)
}

/// Tries how all of a spoke together can be bounded for this process's spokes. As a start does, this may move a process
/// that is alone in its control group into one below.
#[must_use]
pub fn whole_spoke() -> WholeSpoke {
    match ControlGroup::make(&Limits::default()) {
        // The group goes with this, and is removed again.
        Ok(group) => WholeSpoke::ControlGroup {
            path: group.path().to_owned(),
        },
        Err(reason) => WholeSpoke::PerProcess { reason },
    }
}

/// Tries every layer in a throw-away process made from `program`, in the same way as [`spawn`] does, and tells for each
/// whether this machine has it. The caller itself is left untouched, and nothing is executed in the sandbox.
///
/// # Errors
/// One of [`SandboxError`], when not even the attempt could be made.
pub fn probe(program: &Path) -> Result<Vec<LayerStatus>, SandboxError> {
    let spec = Spec {
        allow_degraded: BTreeSet::from(Layer::ALL),
        // A spoke with names needs a route more, which is tried too.
        names: vec![HTTPS],
        ..Spec::default()
    };
    let request = Request {
        hub: std::process::id(),
        probe: true,
        group: false,
        program: false,
        spec,
    };
    let no_group = Err("nothing is started".to_owned());
    let mut enforced = start(&request, program, Vec::new(), no_group)?.enforced;
    Ok(Layer::ALL
        .into_iter()
        .map(|layer| match enforced.layers.remove(&layer) {
            Some(detail) => LayerStatus {
                layer,
                available: Ok(()),
                detail,
            },
            None => {
                let reason = enforced
                    .degraded
                    .remove(&layer)
                    .unwrap_or_else(|| "not reported".to_owned());
                LayerStatus {
                    layer,
                    available: Err(with_remedy(layer, reason)),
                    detail: layer.without_it().to_owned(),
                }
            }
        })
        .collect())
}

/// The listeners of a spoke, and its sockets of names.
type Sockets = (Vec<(u16, OwnedFd)>, Option<NameSockets>);

fn start(
    request: &Request,
    program: &Path,
    given: Vec<OwnedFd>,
    group: Result<ControlGroup, String>,
) -> Result<Sandboxed, SandboxError> {
    // Packets, so that a message and the descriptors beside it stay together.
    let (control, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(SandboxError::system("make the control socket"))?;
    let (stderr, their_stderr) =
        pipe_with(PipeFlags::CLOEXEC).map_err(SandboxError::system("make the stderr pipe"))?;
    // By value: as long as a copy of the other ends stood open here, the end of the child would not show on ours.
    let mut process = execute(program, theirs, their_stderr)?;
    let descriptors = given.iter().map(AsFd::as_fd);
    let descriptors: Vec<_> = descriptors.chain(group.iter().map(AsFd::as_fd)).collect();
    let sent = control::send(&control, request, &descriptors);
    // They are the spoke's alone now, so that its end closes them.
    drop(given);
    if let Err(reason) = sent {
        // Most likely the init process has ended, and how it ended tells more than this error.
        return Err(match process.ended_within(END_TIMEOUT) {
            true => SandboxError::Died(epitaph(&mut process, stderr)),
            false => SandboxError::Control(reason),
        });
    }

    let heard = hear(&control, &mut process)?;
    let Some((enforced, (listeners, names))) = heard.ready else {
        return Err(SandboxError::Died(epitaph(&mut process, stderr)));
    };
    if process.inner.is_none() {
        return Err(SandboxError::Control(NO_PID.to_owned()));
    }
    let whole_spoke = enclose(&mut process, group, heard.no_group);
    Ok(Sandboxed {
        process,
        stderr: Some(stderr),
        listeners,
        names,
        enforced,
        whole_spoke,
        overrun: Overrun::default(),
    })
}

/// What an init process said until it closed its socket, which the kernel does when the spoke is executed.
#[derive(Default)]
struct Heard {
    /// Why the spoke is in no control group of its own.
    no_group: Option<String>,
    /// What is in force, and the sockets. Without it the sandbox is not complete.
    ready: Option<(Enforced, Sockets)>,
}

/// The spoke's process is known to `process` as soon as there is one, so that an error from then on ends it.
fn hear(control: &OwnedFd, process: &mut Process) -> Result<Heard, SandboxError> {
    let deadline = Instant::now() + START_TIMEOUT;
    let mut heard = Heard::default();
    loop {
        wait_readable(control, deadline)?;
        let report = control::receive(control).map_err(SandboxError::Control)?;
        let Some((report, mut descriptors)) = report else {
            return Ok(heard);
        };
        match report {
            Report::Forked { outside } => {
                process.inner = descriptors.pop();
                heard.no_group = outside;
            }
            Report::Ready {
                enforced,
                ports,
                names,
            } => {
                let sockets = sockets(ports, names, descriptors).ok_or_else(|| {
                    SandboxError::Control("listeners without descriptors".to_owned())
                })?;
                heard.ready = Some((enforced, sockets));
            }
            Report::Refused {
                layer: Some(layer),
                reason,
            } => {
                let reason = with_remedy(layer, reason);
                return Err(SandboxError::LayerMissing { layer, reason });
            }
            Report::Refused {
                layer: None,
                reason,
            } => return Err(SandboxError::Init(reason)),
        }
    }
}

/// Which descriptor is which; `None` unless there is one for each.
fn sockets(ports: Vec<u16>, names: Vec<u16>, descriptors: Vec<OwnedFd>) -> Option<Sockets> {
    let expected = ports.len() + names.len() + usize::from(!names.is_empty());
    if descriptors.len() != expected {
        return None;
    }
    let mut descriptors = descriptors.into_iter();
    let listeners = ports.into_iter().zip(descriptors.by_ref()).collect();
    if names.is_empty() {
        return Some((listeners, None));
    }
    let names = names.into_iter();
    let named = names.map_while(|port| Some((port, descriptors.next()?)));
    let named = named.collect();
    let names = NameSockets {
        listeners: named,
        queries: descriptors.next()?,
    };
    Some((listeners, Some(names)))
}

/// Has the group end with the process, if the process is in it: init's word for it is not enough.
fn enclose(
    process: &mut Process,
    group: Result<ControlGroup, String>,
    outside: Option<String>,
) -> WholeSpoke {
    let group = group.and_then(|group| match outside {
        Some(reason) => Err(reason),
        None if group.is_in_use() => Ok(group),
        None => Err("the spoke is not in its group".to_owned()),
    });
    match group {
        Ok(group) => {
            let path = group.path().to_owned();
            process.group = Some(group);
            WholeSpoke::ControlGroup { path }
        }
        Err(reason) => WholeSpoke::PerProcess { reason },
    }
}

/// Executes the init process: empty environment, its root as working directory, three descriptors.
fn execute(program: &Path, control: OwnedFd, stderr: OwnedFd) -> Result<Process, SandboxError> {
    let failed = |source| SandboxError::Execute {
        program: program.to_owned(),
        source,
    };
    let path = std::path::absolute(program).map_err(failed)?;
    let mut command = Command::new(path);
    // The hub's variables may hold the keys of providers.
    command.arg(INIT_ARGUMENT).env_clear().current_dir("/");
    command.stdin(control).stdout(Stdio::null()).stderr(stderr);
    let mut child = spawn_from_lasting_thread(command).map_err(failed)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // The child has not been reaped, so its id is its own and the descriptor is for the right process.
    match pid
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
    {
        Ok(outer) => Ok(Process {
            child,
            outer,
            inner: None,
            group: None,
        }),
        Err(errno) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(SandboxError::System {
                what: "open a pid descriptor",
                source: errno.into(),
            })
        }
    }
}

struct Job {
    command: Command,
    reply: mpsc::SyncSender<io::Result<Child>>,
}

/// The parent-death signal is sent when the *thread* that made the child ends. So one thread, which never ends before
/// the process does, makes all of them; a worker thread of a runtime may come and go.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);

    let sender = {
        let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        match &*spawner {
            Some(sender) => sender.clone(),
            None => {
                let (sender, jobs) = mpsc::channel::<Job>();
                std::thread::Builder::new()
                    .name("sandbox-spawner".to_owned())
                    .spawn(move || {
                        for mut job in jobs {
                            // A caller that went away drops the child unreaped only if it panicked between two lines.
                            let _ = job.reply.send(job.command.spawn());
                        }
                    })?;
                spawner.insert(sender).clone()
            }
        }
    };
    let (reply, answer) = mpsc::sync_channel(1);
    let gone = || io::Error::other("the spawning thread is gone");
    sender.send(Job { command, reply }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn wait_readable(control: &OwnedFd, deadline: Instant) -> Result<(), SandboxError> {
    let left = deadline.saturating_duration_since(Instant::now());
    match sys::readable_within(control, left) {
        Ok(true) => Ok(()),
        Ok(false) => Err(SandboxError::Timeout(START_TIMEOUT.as_secs())),
        Err(errno) => Err(SandboxError::system("wait for the sandbox")(errno)),
    }
}

/// How a dead init process ended, and the first of what it said.
fn epitaph(process: &mut Process, stderr: OwnedFd) -> String {
    if !process.ended_within(END_TIMEOUT) {
        return "it closed its control socket and hangs".to_owned();
    }
    let status = process
        .child
        .wait()
        .map_or_else(|error| error.to_string(), |status| status.to_string());
    let mut said = vec![0; STDERR_EXCERPT_BYTES];
    // Everything in it is dead, so this finds what was written or the end, and does not block.
    let length = rustix::io::read(&stderr, &mut said).unwrap_or(0);
    said.truncate(length);
    match String::from_utf8_lossy(&said).trim() {
        "" => status,
        said => format!("{status}: {said}"),
    }
}

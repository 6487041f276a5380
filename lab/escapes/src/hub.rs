//! The stand-in hub: starts a spoke among things of the host, has it try, and looks at what became of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{getpid, set_child_subreaper};
use sandbox::{Access, Layer, Mount, Sandboxed, Spec, WholeSpoke};
use wire::{AppCommand, AppLimits, Decoder, HubFrame, Offer, SpokeFrame, encode};

use crate::attempt::{Ground, Seen, Setting, escaped, failed, held};
use crate::job::{Job, Outcome, PRODUCT_HUB, Who};
use crate::weaker::{self, Weaker};
use crate::world::{LIMITS, VARIABLE, World, parent};
use crate::{Error, Row, neighbour};

/// How long all attempts may take, together.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
/// Where the app lies in the spoke.
pub(crate) const APP: &str = "/app/hostile";
/// User and group id of nobody in particular.
const ORDINARY_USER: u32 = 65534;

/// Runs a job in a process of its own, under the present user. `hostile` is the path of that program.
pub fn run(hostile: &Path, job: &Job) -> Result<Outcome, Error> {
    let mut command = Command::new(job.who.program(hostile));
    outcome(command.arg("hub").arg(serde_json::to_string(job)?))
}

/// As [`run`], under an ordinary user: the present one, or, for root, another. The programs are copied to where that user
/// may execute them.
pub fn run_as_ordinary_user(hostile: &Path, job: &Job) -> Result<Outcome, Error> {
    if !rustix::process::geteuid().is_root() {
        return run(hostile, job);
    }
    let folder = tempfile::tempdir()?;
    // A temporary folder is its owner's alone; this one is for another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let copy = |from: &Path, name: &str| -> Result<PathBuf, Error> {
        let to = folder.path().join(name);
        fs::copy(from, &to)?;
        Ok(to)
    };
    let mut program = copy(hostile, "hostile")?;
    let hub = job.who.program(hostile);
    if hub != hostile {
        program = copy(&hub, PRODUCT_HUB)?;
    }
    let job = Job {
        spoke: copy(&job.spoke, "sluice-spoke")?,
        ..job.clone()
    };
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={ORDINARY_USER}"))
        .arg(format!("--regid={ORDINARY_USER}"))
        .args(["--clear-groups", "--"])
        .arg(program)
        .arg("hub")
        .arg(serde_json::to_string(&job)?);
    outcome(&mut command)
}

fn outcome(command: &mut Command) -> Result<Outcome, Error> {
    // The variable is what an attempt looks for in the environment that the spoke inherits.
    command.env(VARIABLE, "x").stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("the hub ended with {}: {said}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The process of a run.
pub(crate) fn main(job: &str) -> Result<(), Error> {
    let job: Job = serde_json::from_str(job)?;
    // Whatever outlives its parent comes to this process, and is seen.
    set_child_subreaper(Some(getpid()))?;
    // Before anything is taken away: the filter binds this thread and what it starts from then on, and the world must
    // be whole.
    let mut world = World::new()?;
    let weaker = match &job.weaker {
        None => None,
        Some(name) => {
            let found = weaker::all().iter().find(|weaker| weaker.name == name);
            Some(found.ok_or_else(|| format!("no weaker sandbox is called {name}"))?)
        }
    };
    if let Some(weaker) = weaker {
        weaker::take_away(weaker)?;
    }
    let outcome = try_out(&job, weaker, &mut world)?;
    Ok(writeln!(
        std::io::stdout(),
        "{}",
        serde_json::to_string(&outcome)?
    )?)
}

fn try_out(job: &Job, weaker: Option<&Weaker>, world: &mut World) -> Result<Outcome, Error> {
    let given_up = weaker.map_or(&[][..], |weaker| weaker.layers);
    let in_place = given_up.contains(&Layer::MountNamespace);
    let mut mounts = world.mounts(in_place);
    let hostile = std::env::current_exe()?;
    let program = match job.who {
        Who::Spoke => hostile.clone(),
        Who::Programs => {
            mounts.retain(|mount| mount.executable);
            hostile.clone()
        }
        Who::NamedApp | Who::Frames => {
            return Err(format!("these attempts are made by {PRODUCT_HUB}").into());
        }
        Who::App => {
            mounts.push(Mount {
                source: hostile.canonicalize()?,
                target: APP.into(),
                access: Access::ReadOnly,
                executable: true,
            });
            job.spoke.clone()
        }
    };
    let spec = Spec {
        mounts,
        listen: vec![world.relayed],
        limits: LIMITS,
        allow_degraded: given_up.iter().copied().collect(),
        ..Spec::default()
    };
    let neighbour = match job.who {
        Who::Programs => Some(neighbour::start(&spec, &hostile, PATIENCE)?),
        _ => None,
    };
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PATIENCE))?;
    let sandboxed = sandbox::spawn(&spec, &program, OwnedFd::from(theirs))?;
    let degraded = &sandboxed.enforced().degraded;
    // Without this, a layer that is still in force would be compared with itself.
    let named = weaker.and_then(|weaker| weaker.name.parse::<Layer>().ok());
    if let Some(layer) = named.filter(|layer| !degraded.contains_key(layer)) {
        return Err(format!("{layer} is in force, though it was taken away").into());
    }
    world.make_late_sockets()?;
    let mut ground = world.ground(in_place);
    if job.who == Who::Programs {
        ground.setting = Setting::Programs;
    }
    ground.control_group = matches!(sandboxed.whole_spoke(), WholeSpoke::ControlGroup { .. });
    ground.own_pids = !given_up.contains(&Layer::PidNamespace);
    ground.only.clone_from(&job.only);
    let given_up = degraded.keys().map(ToString::to_string).collect();
    let whole_spoke = sandboxed.whole_spoke().to_string();
    let mut seen = match job.who {
        Who::Spoke | Who::Programs => of_a_spoke(&ours, &ground)?,
        _ => of_an_app(&ours, &ground)?,
    };
    drop(neighbour);
    seen.push(end(sandboxed, ground.victim.cast_unsigned())?);
    seen.extend(world.look());
    Ok(Outcome {
        rows: Row::of(seen),
        given_up,
        whole_spoke,
    })
}

/// Over the bare channel.
fn of_a_spoke(mut channel: &UnixStream, ground: &Ground) -> Result<Vec<Seen>, Error> {
    let mut line = serde_json::to_vec(ground)?;
    line.push(b'\n');
    channel.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(channel).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err("the spoke ended without an answer".into());
    }
    Ok(serde_json::from_str(&answer)?)
}

/// By frames with the spoke of the product, which talks to the app.
pub(crate) fn of_an_app(mut channel: &UnixStream, ground: &Ground) -> Result<Vec<Seen>, Error> {
    let app = AppCommand {
        argv: vec![APP.to_owned(), "app".to_owned()],
        env: BTreeMap::new(),
        cwd: "/tmp".to_owned(),
    };
    let (limits, offer) = (AppLimits::default(), Offer::default());
    channel.write_all(&encode(&HubFrame::Start { app, limits, offer })?)?;
    let mut decoder = Decoder::new();
    match next(channel, &mut decoder)? {
        SpokeFrame::Ready { .. } => {}
        other => return Err(format!("the app is not ready: {other:?}").into()),
    }
    let arguments = serde_json::json!({ "ground": serde_json::to_string(ground)? });
    let timeout_ms = u64::try_from(PATIENCE.as_millis())?;
    channel.write_all(&encode(&HubFrame::Call {
        id: 1,
        tool: "attempt".to_owned(),
        arguments: arguments.to_string(),
        timeout_ms,
        traceparent: None,
    })?)?;
    match next(channel, &mut decoder)? {
        SpokeFrame::Result { content, .. } => Ok(serde_json::from_str(&content)?),
        other => Err(format!("no result: {other:?}").into()),
    }
}

fn next(mut channel: &UnixStream, decoder: &mut Decoder<SpokeFrame>) -> Result<SpokeFrame, Error> {
    // Each frame here answers one of the hub's, so nothing stands behind it that would be lost with `portion`.
    let mut portion = vec![0; 1 << 16];
    loop {
        let length = channel.read(&mut portion)?;
        let mut input = portion.get(..length).unwrap_or_default();
        if let Some(frame) = decoder.decode(&mut input)? {
            return Ok(frame);
        }
        if length == 0 {
            return Err("the spoke ended".into());
        }
    }
}

/// Ends the spoke, and looks for what outlived it. The victim is a child of this process as well.
fn end(mut sandboxed: Sandboxed, victim: u32) -> Result<Seen, Error> {
    sandboxed.kill()?;
    sandboxed.wait()?;
    drop(sandboxed);
    // Orphans of the spoke are among them, since this process is their subreaper.
    let all = children()?;
    let name = |child: &u32| fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
    let left = all.iter().filter(|child| **child != victim).map(name);
    let left: Vec<_> = left.map(|name| name.trim().to_owned()).collect();
    let observed = match (left.is_empty(), all.contains(&victim)) {
        (false, _) => escaped(left.join(" ")),
        (true, true) => held("none"),
        // Whoever does not see the one that is there sees none that is left either.
        (true, false) => failed("not even the victim is found among the children"),
    };
    Ok(Seen {
        name: "outside: processes that outlive the spoke".to_owned(),
        observed,
    })
}

/// The processes whose parent is this one. By what each says of itself: the kernel's own lists of children are an option
/// that it may lack.
fn children() -> Result<Vec<u32>, Error> {
    let own = i64::from(std::process::id());
    let entries = fs::read_dir("/proc")?.flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(processes.filter(|it| parent(*it) == Some(own)).collect())
}

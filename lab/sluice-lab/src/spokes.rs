//! Many spokes: how much memory each takes when all run at once, that none hears of another, and that
//! starting and stopping them leaves nothing behind.
//!
//! Each is a spoke of the product with a real app in it, the notes, over a folder of its own whose only
//! note says which spoke it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{getpid, set_child_subreaper};
use serde_json::json;
use server::{Gate, Spoke};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::progress::Progress;
use crate::quantile::at;
use crate::terminal::print;
use crate::unlimited::{call, gate, read_only, setup};

/// Spokes that are started at the same time: more would only wait for each other.
const STARTING: usize = 4;

/// How long the last of a spoke may take to be gone.
const GONE: Duration = Duration::from_secs(10);

/// After it nothing is left of one spoke that was ended.
const SETTLED: Duration = Duration::from_secs(1);

/// Where control groups are, if this machine has any.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Where an app finds its notes.
const NOTES: &str = "/notes";

#[derive(Debug, Args)]
pub(crate) struct SpokesArgs {
    /// Spokes that run at once.
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Starts and stops, one after the other.
    #[arg(long, default_value_t = 1_000)]
    starts: usize,
}

#[derive(Debug, Default)]
struct Found {
    /// Time of each start, sorted.
    starts: Vec<Duration>,
    /// Memory of each spoke that runs beside all others, in KiB: what is its own, and all that is
    /// resident, shared pages counted in each.
    own_kib: Vec<u64>,
    resident_kib: Vec<u64>,
    /// All of them at once: until every one had answered, and until every one was gone.
    up: Duration,
    down: Duration,
}

/// Runs them, and fails if anything is left or anybody hears of another.
pub(crate) async fn spokes(args: SpokesArgs) -> Result<Exit> {
    // Whatever loses its parent comes to us, and is counted.
    set_child_subreaper(Some(getpid())).context("orphans cannot be adopted")?;
    let world = Arc::new(World::new()?);
    // What is made once (threads, the first control group) is no leak.
    world.visit(0).await?;
    tokio::time::sleep(SETTLED).await;
    let before = Held::now()?;
    // Whatever is held from here on must be given back.
    let mut found = Found::default();
    let progress = Progress::new();
    for number in 0..args.starts {
        progress.moved("starts and stops", number, args.starts);
        found.starts.push(world.visit(number).await?);
    }
    before.no_more("after the starts and stops").await?;
    progress.say(&format!("{} spokes at once", args.count));
    world.all_at_once(args.count, &mut found).await?;
    before.no_more("after all at once").await?;
    progress.clear();
    found.starts.sort_unstable();
    report(&args, &found)?;
    Ok(Exit::Done)
}

/// What every spoke is made of.
struct World {
    folder: tempfile::TempDir,
    gate: Gate,
}

impl World {
    fn new() -> Result<Self> {
        Ok(Self {
            folder: tempfile::tempdir()?,
            gate: gate(),
        })
    }

    /// Starts a spoke, lets it answer, and ends it. The time of the start.
    async fn visit(&self, number: usize) -> Result<Duration> {
        let begun = Instant::now();
        let spoke = self.start(number).await?;
        let took = begun.elapsed();
        self.is_itself(&spoke, number).await?;
        spoke.kill();
        spoke.ended().await;
        Ok(took)
    }

    async fn start(&self, number: usize) -> Result<Spoke> {
        let notes = self.folder.path().join(number.to_string());
        fs::create_dir_all(&notes)?;
        fs::write(notes.join("who.md"), text(number))?;
        let mut setup = setup("notes", "sluice-notes")?;
        setup.env = BTreeMap::from([("NOTES".to_owned(), NOTES.to_owned())]);
        let mounts = &mut setup.sandbox.mounts;
        mounts.push(read_only(&notes, NOTES, false));
        // Nobody listens: these spokes have no connections to report.
        let (events, _) = mpsc::channel(1);
        Ok(Spoke::open(setup, &self.gate, events).await?)
    }

    /// The app sees its own note, and no other.
    async fn is_itself(&self, spoke: &Spoke, number: usize) -> Result<()> {
        let arguments = json!({"name": "who"});
        let said = call(spoke, &self.gate, "read_note", &arguments).await;
        let said = said.with_context(|| format!("spoke {number}"))?;
        let note: serde_json::Value = serde_json::from_str(&said)?;
        if note.get("text").and_then(serde_json::Value::as_str) != Some(&text(number)) {
            bail!("spoke {number} is not itself: {said}");
        }
        Ok(())
    }

    async fn all_at_once(self: &Arc<Self>, count: usize, found: &mut Found) -> Result<()> {
        let begun = Instant::now();
        let (mut starting, mut spokes) = (JoinSet::new(), BTreeMap::new());
        for number in 0..count {
            if starting.len() >= STARTING {
                keep(&mut starting, &mut spokes).await?;
            }
            let world = Arc::clone(self);
            starting.spawn(async move { (number, world.start(number).await) });
        }
        while !starting.is_empty() {
            keep(&mut starting, &mut spokes).await?;
        }
        // All of them, while all of them run; the last ones first.
        for (number, spoke) in spokes.iter().rev() {
            self.is_itself(spoke, *number).await?;
        }
        found.up = begun.elapsed();
        let processes = Processes::now()?;
        for (number, spoke) in &spokes {
            let below = processes.below(spoke.pid());
            if below.is_empty() {
                bail!("no process is found below spoke {number}, so none that is left would be");
            }
            let memory = Memory::of_tree(spoke.pid(), &below)?;
            found.own_kib.push(memory.own);
            found.resident_kib.push(memory.resident);
        }
        let begun = Instant::now();
        spokes.values().for_each(Spoke::kill);
        for spoke in spokes.values() {
            spoke.ended().await;
        }
        drop(spokes);
        found.down = begun.elapsed();
        Ok(())
    }
}

/// Waits for one that is starting.
async fn keep(
    starting: &mut JoinSet<(usize, Result<Spoke>)>,
    spokes: &mut BTreeMap<usize, Spoke>,
) -> Result<()> {
    if let Some(started) = starting.join_next().await {
        let (number, spoke) = started?;
        spokes.insert(number, spoke?);
    }
    Ok(())
}

fn text(number: usize) -> String {
    format!("This is spoke {number} and no other.")
}

/// What this process holds that a spoke could leave behind.
#[derive(Debug)]
struct Held {
    /// Processes below this one, orphans and the dead that nobody has waited for included.
    processes: usize,
    descriptors: usize,
    mounts: usize,
    control_groups: usize,
}

impl Held {
    fn now() -> Result<Self> {
        let count = |folder: &str| -> Result<usize> { Ok(fs::read_dir(folder)?.count()) };
        Ok(Self {
            processes: Processes::now()?.below(std::process::id()).len(),
            descriptors: count("/proc/self/fd")?,
            mounts: fs::read_to_string("/proc/self/mountinfo")?.lines().count(),
            control_groups: control_groups(Path::new(CONTROL_GROUPS)),
        })
    }

    /// Waits until no more is held than here.
    async fn no_more(&self, when: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let now = Self::now()?;
            // No more, and not the same: something that was there before may be gone by now.
            if now.processes <= self.processes
                && now.descriptors <= self.descriptors
                && now.mounts <= self.mounts
                && now.control_groups <= self.control_groups
            {
                return Ok(());
            }
            if begun.elapsed() > GONE {
                bail!("something is left {when}: {self:?} before, {now:?} now");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Groups that this process has made for spokes, by their names.
fn control_groups(folder: &Path) -> usize {
    // Names of groups have the hub's process id, so groups of other hubs on this machine do not count.
    let ours = format!("sluice-spoke-{}-", std::process::id());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let count = folders.map(|entry| {
        let is_ours = entry.file_name().to_string_lossy().starts_with(&ours);
        usize::from(is_ours) + control_groups(&entry.path())
    });
    count.sum()
}

/// The processes of this machine, by their parents. By what each says of itself: the kernel's own lists of children are an
/// option that it may lack.
struct Processes(BTreeMap<u32, Vec<u32>>);

impl Processes {
    fn now() -> Result<Self> {
        let mut children = BTreeMap::<u32, Vec<u32>>::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            // One that has ended meanwhile has no parent any more.
            if let Some((pid, parent)) = pid.and_then(|pid| Some((pid, parent(pid)?))) {
                children.entry(parent).or_default().push(pid);
            }
        }
        Ok(Self(children))
    }

    /// The children of a process, and theirs.
    fn below(&self, pid: u32) -> Vec<u32> {
        let children = |pid| self.0.get(&pid).into_iter().flatten().copied();
        let mut all: Vec<u32> = children(pid).collect();
        let mut looked_at = 0;
        while let Some(child) = all.get(looked_at).copied() {
            all.extend(children(child));
            looked_at += 1;
        }
        all
    }
}

fn parent(pid: u32) -> Option<u32> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which has parentheses and whatever in it: the state, and the parent (proc(5)).
    let (_, rest) = line.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Memory in KiB.
#[derive(Debug, Default)]
struct Memory {
    own: u64,
    resident: u64,
}

impl Memory {
    /// Of a process and everything below it. `RssAnon` is what no other process shares; the code of
    /// the programs is shared by all spokes.
    fn of_tree(pid: u32, below: &[u32]) -> Result<Self> {
        let mut memory = Self::default();
        for pid in below.iter().chain([&pid]) {
            // A process may end between the list and this look.
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
                continue;
            };
            let kib = |key: &str| -> u64 {
                let line = status.lines().find_map(|line| line.strip_prefix(key));
                let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
                number.unwrap_or(0)
            };
            memory.own += kib("RssAnon:");
            memory.resident += kib("VmRSS:");
        }
        match memory.resident {
            0 => bail!("process {pid} has no memory that can be read"),
            _ => Ok(memory),
        }
    }
}

fn report(args: &SpokesArgs, found: &Found) -> Result<()> {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let [p50, p99] = [50, 99].map(|percent| ms(at(&found.starts, percent)));
    let mean = |all: &[u64]| all.iter().sum::<u64>() / (all.len().max(1) as u64);
    let most = |all: &[u64]| all.iter().copied().max().unwrap_or(0);
    let (own, resident) = (&found.own_kib, &found.resident_kib);
    print(&format!(
        "{} starts and stops: p50 {p50} ms, p99 {p99} ms; no process, descriptor, mount or control group is left",
        args.starts,
    ))?;
    print(&format!(
        "{} spokes at once: {} KiB of its own each ({} at most), {} KiB resident with shared pages; each saw its own note only",
        args.count,
        mean(own),
        most(own),
        mean(resident)
    ))?;
    print(&format!(
        "all up and answered after {} ms, all gone after {} ms",
        ms(found.up),
        ms(found.down)
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_and_theirs_are_found_below_a_process() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stdout = shell.stdout.take().unwrap();
        while !said.ends_with('\n') {
            let mut byte = [0];
            stdout.read_exact(&mut byte).unwrap();
            said.push(byte[0].into());
        }
        let sleeping: u32 = said.trim().parse().unwrap();
        let below = Processes::now().unwrap().below(std::process::id());
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(
            Command::new("kill")
                .arg(said.trim())
                .status()
                .unwrap()
                .success()
        );
        assert!(
            below.contains(&shell.id()) && below.contains(&sleeping),
            "{below:?}"
        );
    }
}

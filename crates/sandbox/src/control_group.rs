//! A control group (version 2) for each spoke: a bound on what all of its processes take together.
//!
//! A process can be started in a group, or moved there, only by a process that may write both the group and the one above.
//! That is root, or a user to whom a part of the tree was delegated, as systemd does for a user's own session. Where it
//! is not so, a spoke is bounded process by process only, and `sluice doctor` says so.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access, CWD, Mode, OFlags, access, openat};

use crate::Limits;
use crate::mounted::{self, Mounted};
use crate::spec::{OPEN_FILES, UNCOUNTED_OPEN_FILES};

/// What a group must be able to bound to be worth having.
const NEEDED: [&str; 2] = ["memory", "pids"];
/// Share of the processor beside everything else in the same group, for which the default is 100. A spoke that spins does
/// not slow the hub down by more than a third.
const CPU_WEIGHT: u64 = 50;
/// Where a hub that is alone in its group goes, so that the group can have other groups.
const HUB: &str = "sluice-hub";
/// Begin of the names of spokes' groups; the hub's process id and a number follow.
const SPOKE: &str = "sluice-spoke";
/// What to do where there are no groups.
const REMEDY: &str = "start sluice with `systemd-run --user --scope -p Delegate=yes sluice …`";

/// How the use of memory, processes and processor time by a whole spoke is bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WholeSpoke {
    /// All of its processes together, by a control group.
    ControlGroup {
        /// The group, below the mount of the control groups.
        path: PathBuf,
    },
    /// Only each of its processes, and their number.
    PerProcess {
        /// Why there is no control group.
        reason: String,
    },
}

impl WholeSpoke {
    /// The usual limit of open descriptors per process.
    #[must_use]
    pub fn open_files(&self) -> u64 {
        match self {
            Self::ControlGroup { .. } => OPEN_FILES,
            Self::PerProcess { .. } => UNCOUNTED_OPEN_FILES,
        }
    }
}

impl fmt::Display for WholeSpoke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlGroup { path } => {
                let parent = path.parent().unwrap_or(path);
                write!(
                    f,
                    "memory and processes of all of a spoke are bounded, by a control group in {}",
                    parent.display()
                )
            }
            Self::PerProcess { reason } => write!(
                f,
                "memory is bounded process by process only, and the buffers of sockets are not counted; when the machine \
                 runs short, spokes are ended first; no control group: {reason}; {REMEDY}"
            ),
        }
    }
}

/// A group for one spoke. Dropping it ends what is in it, and removes it.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    path: PathBuf,
    directory: OwnedFd,
}

impl ControlGroup {
    /// Makes a group with these limits, where this process may.
    ///
    /// # Errors
    /// Why it may not, or what is missing.
    pub(crate) fn make(limits: &Limits) -> Result<Self, String> {
        Place::find()?.group(limits, &NEEDED)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a process is in it.
    pub(crate) fn is_in_use(&self) -> bool {
        let processes = fs::read_to_string(self.path.join("cgroup.procs"));
        processes.is_ok_and(|processes| !processes.trim().is_empty())
    }
}

impl AsFd for ControlGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The spoke is dead when this is reached; should anything be left, it has no business here. A group that cannot
        // be removed is empty, and the next hub removes it.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        let _ = fs::remove_dir(&self.path);
    }
}

/// Where this process is in the tree of groups.
#[derive(Debug)]
struct Place {
    /// Where the tree is mounted.
    top: PathBuf,
    /// The group of this process, at or below `top`.
    own: PathBuf,
}

impl Place {
    fn find() -> Result<Self, String> {
        let groups = fs::read_to_string("/proc/self/cgroup")
            .map_err(|error| format!("read the own control group: {error}"))?;
        Self::among(&groups, &mounted::read()?)
    }

    /// The first mount of the tree through which the group in `groups` (the text of `/proc/self/cgroup`) can be reached.
    fn among(groups: &str, mounts: &[Mounted]) -> Result<Self, String> {
        let own = groups
            .lines()
            .find_map(|line| line.strip_prefix("0::"))
            .ok_or("the kernel has none of version 2")?;
        let reached = mounts
            .iter()
            .filter(|mounted| mounted.kind == "cgroup2")
            .find_map(|mounted| {
                let below = Path::new(own).strip_prefix(&mounted.root).ok()?;
                // Outside of what this process's own namespace shows.
                if below.starts_with("..") {
                    return None;
                }
                let top = mounted.point.clone();
                let own = top.join(below).components().collect();
                Some(Self { top, own })
            });
        reached.ok_or_else(|| "version 2 of them is not mounted here".to_owned())
    }

    /// Makes a group: beside this process's, where the group above is ours and gives out what is needed; below this
    /// process's, where that is the root of all or this process is alone in it.
    fn group(&self, limits: &Limits, needed: &[&str]) -> Result<ControlGroup, String> {
        // Beside is tried first, since that moves nothing.
        let above = self.own.parent().filter(|_| self.own != self.top);
        let beside = above.ok_or("there is none above".to_owned());
        let beside = beside.and_then(|above| make_below(above, limits, needed));
        beside.or_else(|why| {
            self.make_room(needed)
                .and_then(|()| make_below(&self.own, limits, needed))
                .map_err(|also| format!("{why}; {also}"))
        })
    }

    /// Makes this process's group one that gives out what is needed to groups below. A group other than the root of all
    /// may not have processes of its own then, so this process moves down, if it is the only one.
    fn make_room(&self, needed: &[&str]) -> Result<(), String> {
        let own = &self.own;
        let has = read(own, "cgroup.controllers")?;
        if let Some(missing) = missing(&has, needed) {
            return Err(format!("{} has no {missing} to give", own.display()));
        }
        // Only the root of all has no type.
        if own.join("cgroup.type").exists() {
            let alone = std::process::id().to_string();
            if read(own, "cgroup.procs")?.trim() != alone {
                return Err(format!("{} has other processes", own.display()));
            }
            let hub = own.join(HUB);
            let created = fs::create_dir(&hub);
            created.map_err(|error| format!("make {}: {error}", hub.display()))?;
            write(&hub, "cgroup.procs", &alone)?;
        }
        let plus = |controller: &&str| format!("+{controller}");
        let wanted = needed
            .iter()
            .chain(["cpu"].iter().filter(|cpu| contains(&has, cpu)));
        let wanted: Vec<_> = wanted.map(plus).collect();
        write(own, "cgroup.subtree_control", &wanted.join(" "))
    }
}

/// Makes a group with these limits below `above`, if that gives out what is needed and may be written.
fn make_below(above: &Path, limits: &Limits, needed: &[&str]) -> Result<ControlGroup, String> {
    static MADE: AtomicU64 = AtomicU64::new(0);

    let given = read(above, "cgroup.subtree_control")?;
    if let Some(missing) = missing(&given, needed) {
        return Err(format!("{} gives out no {missing}", above.display()));
    }
    // A process needs this right to start another one in a group below.
    access(above.join("cgroup.procs"), Access::WRITE_OK)
        .map_err(|errno| format!("{} is not delegated: {errno}", above.display()))?;
    remove_remains(above);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let hub = std::process::id();
    let path = above.join(format!("{SPOKE}-{hub}-{number}"));
    fs::create_dir(&path).map_err(|error| format!("make {}: {error}", path.display()))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, &path, flags, Mode::empty()) {
        Ok(directory) => {
            let group = ControlGroup { path, directory };
            // Dropped, and so removed, if a limit cannot be set.
            set(&group.path, limits, &given).map(|()| group)
        }
        Err(errno) => {
            let _ = fs::remove_dir(&path);
            Err(format!("open {}: {errno}", path.display()))
        }
    }
}

fn set(group: &Path, limits: &Limits, given: &str) -> Result<(), String> {
    let memory = limits.memory_bytes.saturating_add(limits.tmp_bytes);
    if contains(given, "memory") {
        write(group, "memory.max", &memory.to_string())?;
        // The whole spoke is ended: half of it is of no use.
        write(group, "memory.oom.group", "1")?;
        // Not there in a kernel without swap.
        if group.join("memory.swap.max").exists() {
            // What is over the limit would else go to the disk, and take it from the rest of the machine.
            write(group, "memory.swap.max", "0")?;
        }
    }
    if contains(given, "pids") {
        write(group, "pids.max", &limits.processes.to_string())?;
    }
    if contains(given, "cpu") {
        write(group, "cpu.weight", &CPU_WEIGHT.to_string())?;
    }
    Ok(())
}

/// Removes the groups of hubs that were killed. The kernel removes only what is empty.
fn remove_remains(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(SPOKE));
        let parts: Vec<_> = rest.unwrap_or_default().split('-').collect();
        if let ["", hub, _] = *parts
            && !Path::new("/proc").join(hub).exists()
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn contains(controllers: &str, name: &str) -> bool {
    controllers.split_whitespace().any(|word| word == name)
}

fn missing<'n>(controllers: &str, needed: &[&'n str]) -> Option<&'n str> {
    let mut needed = needed.iter().copied();
    needed.find(|name| !contains(controllers, name))
}

fn read(group: &Path, file: &str) -> Result<String, String> {
    let path = group.join(file);
    fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))
}

fn write(group: &Path, file: &str, content: &str) -> Result<(), String> {
    let path = group.join(file);
    fs::write(&path, content).map_err(|error| format!("write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn without_a_group_fewer_files_may_be_open() {
        let path = "/sys/fs/cgroup/a".into();
        assert_eq!(WholeSpoke::ControlGroup { path }.open_files(), 8_192);
        let reason = "none".to_owned();
        let alone = WholeSpoke::PerProcess { reason };
        assert_eq!(alone.open_files(), 1_024);
        // Doctor shows this.
        assert!(alone.to_string().contains("buffers of sockets are not"));
    }

    fn mounted(root: &str, point: &str, kind: &str) -> Mounted {
        Mounted {
            id: 1,
            root: root.into(),
            point: point.into(),
            kind: kind.to_owned(),
        }
    }

    #[test]
    fn the_own_group_is_found_through_the_mount_that_shows_it() {
        let unified = [mounted("/", "/sys/fs/cgroup", "cgroup2")];
        let place = |groups: &str, mounts: &[Mounted]| {
            Place::among(groups, mounts).map(|place| (place.top, place.own))
        };
        let top = PathBuf::from("/sys/fs/cgroup");
        assert_eq!(
            place("0::/user.slice/a.scope\n", &unified),
            Ok((top.clone(), top.join("user.slice/a.scope")))
        );
        assert_eq!(place("0::/\n", &unified), Ok((top.clone(), top.clone())));
        // A container that sees only its own part, by the host's names.
        let part = [mounted("/docker/x", "/sys/fs/cgroup", "cgroup2")];
        assert_eq!(
            place("0::/docker/x/y\n", &part),
            Ok((top.clone(), top.join("y")))
        );
        // Version 1 beside it, none at all, none mounted, and one outside of what the namespace shows.
        let both = "9:memory:/a\n0::/b\n";
        assert_eq!(place(both, &unified), Ok((top.clone(), top.join("b"))));
        place("9:memory:/a\n", &unified).unwrap_err();
        place("0::/b\n", &[mounted("/", "/x", "cgroup")]).unwrap_err();
        place("0::/b\n", &part).unwrap_err();
        place("0::/../b\n", &unified).unwrap_err();
    }

    /// A folder that looks like a group.
    fn like_a_group(path: &Path, controllers: &str, given: &str, processes: &str) {
        fs::create_dir_all(path).unwrap();
        for (file, content) in [
            ("cgroup.type", "domain"),
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", given),
            ("cgroup.procs", processes),
        ] {
            fs::write(path.join(file), content).unwrap();
        }
    }

    fn limits() -> Limits {
        Limits {
            memory_bytes: 1000,
            tmp_bytes: 24,
            processes: 7,
            ..Limits::default()
        }
    }

    fn content(group: &Path, file: &str) -> String {
        fs::read_to_string(group.join(file)).unwrap_or_default()
    }

    #[test]
    fn a_group_is_made_beside_the_hubs_where_the_one_above_gives_out_what_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let (top, own) = (folder.path().to_owned(), folder.path().join("app.scope"));
        like_a_group(&top, "cpu memory pids", "cpu memory pids", "");
        like_a_group(&own, "cpu memory pids", "", "1\n2\n");
        let place = Place { top, own };
        let group = place.group(&limits(), &NEEDED).unwrap();
        assert_eq!(group.path().parent(), Some(folder.path()));
        for (file, expected) in [
            ("memory.max", "1024"),
            ("memory.oom.group", "1"),
            ("pids.max", "7"),
            ("cpu.weight", "50"),
        ] {
            assert_eq!(content(group.path(), file), expected, "{file}");
        }
        assert_eq!(
            content(&place.own, "cgroup.procs"),
            "1\n2\n",
            "the hub stays"
        );
    }

    #[test]
    fn a_hub_that_is_alone_makes_room_and_one_that_is_not_does_without() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        let alone = std::process::id().to_string();
        like_a_group(folder.path(), "memory pids", "", "");
        like_a_group(&own, "memory pids", "", &alone);
        let place = Place {
            top: folder.path().to_owned(),
            own: own.clone(),
        };
        // The kernel would now say the same of the group as was written; a file does not.
        let error = place.group(&limits(), &NEEDED).unwrap_err();
        assert_eq!(content(&own.join(HUB), "cgroup.procs"), alone);
        assert_eq!(content(&own, "cgroup.subtree_control"), "+memory +pids");
        assert!(error.contains("gives out no memory"), "{error}");

        fs::remove_file(own.join(HUB).join("cgroup.procs")).unwrap();
        fs::remove_dir(own.join(HUB)).unwrap();
        like_a_group(&own, "memory pids", "", &format!("{alone}\n1\n"));
        let error = place.group(&limits(), &NEEDED).unwrap_err();
        assert!(error.contains("other processes"), "{error}");
        assert!(!own.join(HUB).exists());

        like_a_group(&own, "hugetlb", "", &alone);
        let error = place.group(&limits(), &NEEDED).unwrap_err();
        assert!(error.contains("no memory to give"), "{error}");
    }

    #[test]
    fn empty_groups_of_dead_hubs_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        // Ids that no process can have: the kernel gives 2^22 at most.
        let dead = format!("{SPOKE}-4294967295-0");
        let own = format!("{SPOKE}-{}-99", std::process::id());
        let others = [&*own, "user.slice", "sluice-spoken"];
        for name in others.into_iter().chain([&*dead]) {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_remains(folder.path());
        assert!(!folder.path().join(dead).exists());
        for name in others {
            assert!(folder.path().join(name).exists(), "{name}");
        }
    }

    /// In the kernel's own tree, as far as this machine has it: a group without controllers.
    #[test]
    fn a_group_ends_what_is_in_it_and_goes() {
        let group = match Place::find().and_then(|place| place.group(&limits(), &[])) {
            Ok(group) => group,
            Err(reason) => {
                eprintln!("NOT TESTED: no control group can be made here: {reason}");
                return;
            }
        };
        let path = group.path().to_owned();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!group.is_in_use());
        write(&path, "cgroup.procs", &child.id().to_string()).unwrap();
        assert!(group.is_in_use());
        drop(group);
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
        // A zombie keeps a group; the next hub, or this one's next start, removes it then.
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&path).is_err() && path.exists() {
            assert!(Instant::now() < deadline, "{} stays", path.display());
        }
    }
}

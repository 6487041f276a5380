//! The size of a folder in which files move about while it is measured.
//!
//! A spoke cannot see where the measure is, so here it is told: the test, in the hub's process, looks at which folders the
//! hub has open, and has the spoke move its file at the worst moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::common::{check, equal, job, run, sized_folder, stand_in};
use crate::Outcome;
use crate::hub::Spoke;
use crate::spoke::Attempt;

/// MiB that the folder may hold.
const SIZE: u64 = 48;
/// Names in the folder that is read in between. All are of one file, so that they take time and little room: 12 MiB.
const NAMES: usize = 40_000;
/// Longer than a spoke is believed that nobody has held still.
const LONG: Duration = Duration::from_secs(25);
/// A measure costs a share of the time alone, so that on a busy machine the next one comes late.
const PATIENCE: Duration = Duration::from_secs(150);

/// A folder with three in it, and a spoke that may write it.
struct Stage {
    _directory: tempfile::TempDir,
    folder: PathBuf,
    /// The folders that are read first and last, and the one in between.
    first: String,
    between: PathBuf,
    last: String,
    spoke: Spoke,
}

impl Stage {
    fn new() -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let folder = directory.path().canonicalize()?;
        for name in ["a", "b", "c"] {
            fs::create_dir(folder.join(name))?;
        }
        let read = fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name()));
        let read: Vec<_> = read.collect::<std::io::Result<_>>()?;
        let [first, between, last] = read.as_slice() else {
            return Err(format!("{read:?}").into());
        };
        let name = |name: &std::ffi::OsString| name.to_string_lossy().into_owned();
        let (first, last) = (name(first), name(last));
        let between = folder.join(between);
        fs::write(between.join("0"), "")?;
        for number in 1..NAMES {
            fs::hard_link(between.join("0"), between.join(number.to_string()))?;
        }
        let spec = sized_folder(&folder, SIZE << 20);
        Ok(Self {
            spoke: Spoke::start(&spec)?,
            _directory: directory,
            folder,
            first,
            between,
            last,
        })
    }

    /// Where the spoke sees its file in the folder that is read first, or last.
    fn place(&self, first: bool) -> String {
        let name = if first { &self.first } else { &self.last };
        format!("/data/{name}/file")
    }

    /// Has the file moved whenever it is measured, from the folder that is read first or from the last one, until the spoke
    /// is ended, or [`LONG`] has passed and it was moved so many times at least. How often it was moved.
    fn move_when_measured(&mut self, from_first: bool, least: usize) -> Outcome<usize> {
        let begun = Instant::now();
        let (here, there) = (self.place(from_first), self.place(!from_first));
        let mut moved = 0;
        let go = |spoke: &mut Spoke, from: &str, to: &str| {
            let rename = Attempt::Rename(from.to_owned(), to.to_owned());
            spoke.attempt(&rename).is_ok_and(|answer| answer.is_ok())
        };
        while begun.elapsed() < if moved < least { PATIENCE } else { LONG } {
            if open_below(&self.between)? == 0 {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            if !go(&mut self.spoke, &here, &there) {
                break;
            }
            moved += 1;
            // Only the one that the hub keeps.
            while open_below(&self.folder)? > 1 {
                std::thread::sleep(Duration::from_micros(200));
            }
            if !go(&mut self.spoke, &there, &here) {
                break;
            }
        }
        Ok(moved)
    }
}

/// How many descriptors this process has that lead to a folder, or below it.
fn open_below(folder: &Path) -> Outcome<usize> {
    let links = fs::read_dir("/proc/self/fd")?.flatten();
    // One that was closed meanwhile leads nowhere.
    let links = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(links.filter(|link| link.starts_with(folder)).count())
}

/// Behind the measure at every moment.
pub(super) fn a_file_that_moves_is_not_hidden() -> Outcome {
    let mut stage = Stage::new()?;
    let overrun = stage.spoke.sandboxed.overrun();
    let fill = Attempt::Fill(stage.place(false), SIZE + 8);
    // It may be ended as soon as it has written too much.
    if stage.spoke.attempt(&fill).is_ok() {
        stage.move_when_measured(false, 0)?;
    }
    let reason = overrun.reason().unwrap_or_default();
    check(reason.contains("holds more than its size"), reason)
}

/// Before the measure, and again behind it. It would count twice.
pub(super) fn a_file_that_moves_counts_once() -> Outcome {
    let mut stage = Stage::new()?;
    let overrun = stage.spoke.sandboxed.overrun();
    stage
        .spoke
        .allowed(&Attempt::Fill(stage.place(true), SIZE * 5 / 8))?;
    let moved = stage.move_when_measured(true, 2)?;
    equal("ended for what fits", overrun.reason(), None)?;
    check(moved >= 2, format!("measured {moved} times"))?;
    stage.spoke.allowed(&Attempt::Identity)?;
    Ok(())
}

/// A spoke sees what the host has mounted in a folder of its, and can write it.
pub(super) fn what_is_mounted_in_a_folder_counts() -> Outcome {
    let directory = tempfile::tempdir()?;
    let folder = directory.path().canonicalize()?;
    let below = folder.join("below");
    fs::create_dir(&below)?;
    let fill = |most| Attempt::Fill("/data/below/file".to_owned(), most);
    let wait = run(&["/bin/sleep", "2"]);
    let private: &[&str] = if rustix::process::geteuid().is_root() {
        &["unshare", "--mount"]
    } else {
        &["unshare", "--user", "--map-root-user", "--mount"]
    };
    let script = "mount -t tmpfs tmpfs \"$0\" && exec \"$@\"";
    let below = below.to_str().ok_or("not UTF-8")?;
    let words = [private, &["sh", "-c", script, below]].concat();
    for (most, ends) in [(SIZE + 8, true), (SIZE / 2, false)] {
        let mut job = job(&[], &[], vec![fill(most), wait.clone()]);
        job.spec = sized_folder(&folder, SIZE << 20);
        let output = stand_in(&job, &words, &std::env::current_exe()?)?.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        equal("goes on", output.status.success(), !ends)?;
        check(!ends || said.contains("the spoke ended"), said)?;
    }
    Ok(())
}

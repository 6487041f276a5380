//! The build spoke: a sandbox in which a package manager writes into one folder and reaches only the user's registries, by a
//! proxy of this process (`relay`). Of the user's files it sees the package manager alone.

mod inside;
mod relay;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox::{Access, Limits, Mount, Quota, Sandboxed, Spec};
use serde::{Deserialize, Serialize};

use crate::find::{Found, Needs};

pub use self::inside::main;
pub(crate) use self::relay::Host;

/// The mount of the folder that is built.
pub(crate) const TREE: &str = "/build";
/// The mount of temporary files.
pub(crate) const SCRATCH: &str = "/scratch";
/// The mount of the package manager's settings, read-only.
pub(crate) const SETTINGS: &str = "/settings";
/// The port of the proxy inside of the spoke.
const PROXY_PORT: u16 = 8118;
/// How long one step may take. A large package on a slow line takes minutes.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How long a spoke that did not take its order may run on, to report why.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often the end of the step is polled.
const LOOK: Duration = Duration::from_millis(50);
/// Most bytes of the end of the package manager's output.
const WORDS: usize = 8 << 10;
/// Size of each folder that a step writes: twice the largest tree, since names and small files count for more than their
/// bytes.
const ROOM: u64 = 4 << 30;

/// The command for the program inside of the spoke.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    command: Vec<String>,
    env: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) program: &'a Path,
    /// The command and the places that it needs.
    pub(crate) needs: Needs,
    /// Its environment; the proxy's address is added.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) tree: &'a Path,
    pub(crate) scratch: &'a Path,
    pub(crate) settings: &'a Path,
    /// The hosts that may be reached; none means no network.
    pub(crate) hosts: Vec<Host>,
}

#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) done: bool,
    pub(crate) said: String,
    /// Hosts that it tried to reach without permission.
    pub(crate) refused: Vec<String>,
}

/// Runs one step to its end.
///
/// # Errors
/// It could not be started, or took too long: one line.
pub(crate) fn run(step: Step<'_>) -> Result<Built, String> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let spec = spec(&step);
    let mut sandboxed = sandbox::spawn(&spec, step.program, OwnedFd::from(theirs))
        .map_err(|error| error.to_string())?;
    // Before the order is handed over, so that the first connection works.
    let relay = relay::Relay::start(sandboxed.take_listeners(), step.hosts)?;
    let words = Arc::new(Mutex::new(Vec::new()));
    // On a thread: a full pipe would block the program.
    let listener = sandboxed.take_stderr().map(|stderr| {
        let words = Arc::clone(&words);
        std::thread::spawn(move || listen(stderr, &words))
    });
    let mut env = step.env;
    env.extend(step.needs.env);
    if !spec.listen.is_empty() {
        env.extend(proxy_env());
    }
    let order = Order {
        command: step.needs.command,
        env,
    };
    let overrun = sandboxed.overrun();
    // By value: closing the channel ends the order.
    let handed = hand_over(ours, &order);
    let time = if handed.is_ok() { TIMEOUT } else { LAST_WORDS };
    let done = wait(&mut sandboxed, time);
    // Ends the spoke: nothing may write into the tree while it is checked and hashed.
    drop(sandboxed);
    if let Some(listener) = listener {
        // All writers are gone. A panic of the thread only loses output.
        let _ = listener.join();
    }
    if let Some(reason) = overrun.reason() {
        // The rest of the message is about mounts of a configuration.
        let what = reason.split(';').next().unwrap_or_default();
        return Err(format!("it was ended for what it wrote: {what}"));
    }
    let said = words.lock().unwrap_or_else(PoisonError::into_inner);
    let said = String::from_utf8_lossy(&said).into_owned();
    handed.map_err(|error| {
        // No program of a package has run, so this is the build spoke's own output.
        let last = said.lines().last().unwrap_or("nothing");
        format!("{error}; it said: {}", last.escape_debug())
    })?;
    Ok(Built {
        done: done?,
        said,
        refused: relay.stop(),
    })
}

fn proxy_env() -> impl Iterator<Item = (String, String)> {
    // npm, pip and the programs that they start read different ones of these.
    let names =
        "HTTPS_PROXY HTTP_PROXY https_proxy http_proxy npm_config_https_proxy npm_config_proxy";
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let names = names.split(' ');
    names.map(move |name| (name.to_owned(), proxy.clone()))
}

fn spec(step: &Step<'_>) -> Spec {
    let mount = |source: &Path, target: &Path, access, executable| Mount {
        source: source.to_owned(),
        target: target.to_owned(),
        access,
        executable,
    };
    let shown = |found: &Found| mount(&found.source, &found.target, Access::ReadOnly, true);
    let room = |folder: &Path| Quota {
        folder: folder.to_owned(),
        bytes: ROOM,
    };
    let quotas = vec![room(step.tree), room(step.scratch)];
    let mut mounts = vec![
        mount(step.tree, Path::new(TREE), Access::ReadWrite, true),
        mount(step.scratch, Path::new(SCRATCH), Access::ReadWrite, true),
        mount(step.settings, Path::new(SETTINGS), Access::ReadOnly, false),
    ];
    mounts.extend(step.needs.found.iter().map(shown));
    Spec {
        mounts,
        listen: Vec::from_iter((!step.hosts.is_empty()).then_some(PROXY_PORT)),
        // A package manager holds whole packages in memory.
        limits: Limits {
            memory_bytes: 4 << 30,
            file_bytes: 1 << 30,
            open_files: 4096,
            ..Limits::default()
        },
        quotas,
        ..Spec::default()
    }
}

fn hand_over(mut channel: UnixStream, order: &Order) -> Result<(), String> {
    let bytes = serde_json::to_vec(order).map_err(|error| error.to_string())?;
    channel
        .write_all(&bytes)
        .map_err(|error| format!("the build spoke does not read: {error}"))
}

fn wait(sandboxed: &mut Sandboxed, time: Duration) -> Result<bool, String> {
    let begun = Instant::now();
    while begun.elapsed() < time {
        match sandboxed.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) => std::thread::sleep(LOOK),
            Err(error) => return Err(error.to_string()),
        }
    }
    // Fails only if it has just ended.
    let _ = sandboxed.kill();
    Err(format!(
        "it took longer than {} minutes and was ended",
        time.as_secs() / 60
    ))
}

/// Reads to the end, and keeps the last bytes.
fn listen(stderr: OwnedFd, words: &Mutex<Vec<u8>>) {
    let mut pipe = std::fs::File::from(stderr);
    let mut portion = vec![0; WORDS];
    while let Ok(count @ 1..) = pipe.read(&mut portion) {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(portion.get(..count).unwrap_or_default());
        let surplus = words.len().saturating_sub(WORDS);
        words.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_that_a_step_writes_has_a_size() {
        let step = Step {
            program: Path::new("/sluice-build"),
            needs: Needs::default(),
            env: Vec::new(),
            tree: Path::new("/store/tree"),
            scratch: Path::new("/store/scratch"),
            settings: Path::new("/store/settings"),
            hosts: Vec::new(),
        };
        let spec = spec(&step);
        let writable = spec.mounts.iter();
        let writable = writable.filter(|mount| mount.access == Access::ReadWrite);
        let sized = spec.quotas.iter().map(|quota| &quota.folder);
        assert!(writable.map(|mount| &mount.source).eq(sized));
    }
}

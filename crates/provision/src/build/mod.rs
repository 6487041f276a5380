//! The build spoke: a sandbox in which a package manager writes into one folder, and reaches the registry alone.
//!
//! It sees none of the user's files but the program of the package manager. Its only network are connections to the
//! hosts of the user's registries, which this process makes for it (`relay`).

mod inside;
mod relay;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox::{Access, Limits, Mount, Quota, Sandboxed, Spec};
use serde::{Deserialize, Serialize};

use crate::find::{Found, Needs};

pub use self::inside::main;
pub(crate) use self::relay::Host;

/// Where the folder that is built is seen.
pub(crate) const TREE: &str = "/build";
/// Where the package manager keeps what it needs meanwhile.
pub(crate) const SCRATCH: &str = "/scratch";
/// Where the package manager's settings are, which it can only read.
pub(crate) const SETTINGS: &str = "/settings";
/// The port inside at which the registries' hosts are reached.
const PROXY_PORT: u16 = 8118;
/// How long one step may take. A large package on a slow line takes minutes.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How long one that did not take its order may go on before it is ended: it has nothing left to do but to say why.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often it is looked whether the step has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of the end of what the package manager says.
const WORDS: usize = 8 << 10;
/// A package manager holds whole packages, and writes files of any size that a package has.
const LIMITS: (u64, u64, u64) = (4 << 30, 1 << 30, 4096);
/// Bytes that may lie in each folder that a step writes. The largest tree that is kept has half of it in its files, and its
/// names and small files count for more than their bytes.
const ROOM: u64 = 4 << 30;

/// What is executed inside.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    command: Vec<String>,
    env: Vec<(String, String)>,
}

/// One step of a build.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    /// The binary of the build spoke.
    pub(crate) program: &'a Path,
    /// What to run, and what that takes.
    pub(crate) needs: Needs,
    /// Its environment; where to find the proxy is added.
    pub(crate) env: Vec<(String, String)>,
    /// The folder that is built.
    pub(crate) tree: &'a Path,
    /// A folder that is thrown away.
    pub(crate) scratch: &'a Path,
    /// A folder with settings.
    pub(crate) settings: &'a Path,
    /// Hosts that may be reached; none is no network at all.
    pub(crate) hosts: Vec<Host>,
}

/// How a step ended.
#[derive(Debug)]
pub(crate) struct Built {
    /// Whether the program ended well.
    pub(crate) done: bool,
    /// The end of what it said.
    pub(crate) said: String,
    /// Hosts that it tried to reach and may not.
    pub(crate) refused: Vec<String>,
}

/// Runs one step to its end.
///
/// # Errors
/// It could not be started, or took too long; a line that says so.
pub(crate) fn run(step: Step<'_>) -> Result<Built, String> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
    let spec = spec(&step);
    let mut sandboxed = sandbox::spawn(&spec, step.program, OwnedFd::from(theirs))
        .map_err(|error| error.to_string())?;
    // Before the order is handed over, so that the program finds its way out from its first connection on.
    let relay = relay::Relay::start(sandboxed.take_listeners(), step.hosts)?;
    let words = Arc::new(Mutex::new(Vec::new()));
    // On a thread, since a pipe that nobody reads would stop the program as soon as it is full.
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
    // By value: the end of the channel is the end of the order.
    let handed = hand_over(ours, &order);
    let time = if handed.is_ok() { TIMEOUT } else { LAST_WORDS };
    let done = wait(&mut sandboxed, time);
    // Ends whatever is left inside: from here on nothing writes into the tree, which is judged and hashed next.
    drop(sandboxed);
    if let Some(listener) = listener {
        // Everything that could write is gone; a thread that panicked has nothing more to tell.
        let _ = listener.join();
    }
    if let Some(reason) = overrun.reason() {
        // What else it says is about mounts, which are none of the user's here.
        let what = reason.split(';').next().unwrap_or_default();
        return Err(format!("it was ended for what it wrote: {what}"));
    }
    let said = words.lock().unwrap_or_else(PoisonError::into_inner);
    let said = String::from_utf8_lossy(&said).into_owned();
    handed.map_err(|error| {
        // No program of a package has run, so these are words of the build spoke's own.
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
    // Each of npm, pip and what they start reads another one of these.
    let names = [
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "https_proxy",
        "http_proxy",
        "npm_config_https_proxy",
        "npm_config_proxy",
    ];
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    names
        .into_iter()
        .map(move |name| (name.to_owned(), proxy.clone()))
}

fn spec(step: &Step<'_>) -> Spec {
    let writable = |source: &Path, target: &str| Mount {
        source: source.to_owned(),
        target: PathBuf::from(target),
        access: Access::ReadWrite,
        executable: true,
    };
    let shown = |found: &Found| Mount {
        source: found.source.clone(),
        target: found.target.clone(),
        access: Access::ReadOnly,
        executable: true,
    };
    let settings = Mount {
        source: step.settings.to_owned(),
        target: PathBuf::from(SETTINGS),
        access: Access::ReadOnly,
        executable: false,
    };
    let room = |folder: &Path| Quota {
        folder: folder.to_owned(),
        bytes: ROOM,
    };
    let quotas = vec![room(step.tree), room(step.scratch)];
    let writable = [writable(step.tree, TREE), writable(step.scratch, SCRATCH)];
    let mut mounts: Vec<Mount> = writable.into_iter().chain([settings]).collect();
    mounts.extend(step.needs.found.iter().map(shown));
    let (memory_bytes, file_bytes, open_files) = LIMITS;
    Spec {
        mounts,
        listen: if step.hosts.is_empty() {
            Vec::new()
        } else {
            vec![PROXY_PORT]
        },
        limits: Limits {
            memory_bytes,
            file_bytes,
            open_files,
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
    // Refused only if it has just ended.
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

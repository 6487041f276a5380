//! What the cases share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Access, Layer, Mount, Quota, Spec};

use crate::Outcome;
use crate::hub::{Job, Report};
use crate::spoke::Attempt;

/// User and group id of nobody in particular.
pub(super) const ORDINARY_USER: u32 = 65534;

pub(super) fn check(holds: bool, what: impl Into<String>) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(what.into().into())
    }
}

pub(super) fn equal<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, expected: T) -> Outcome {
    check(
        seen == expected,
        format!("{what}: {seen:?} and not {expected:?}"),
    )
}

pub(super) fn read(path: impl AsRef<Path>) -> Attempt {
    Attempt::Read(path.as_ref().display().to_string())
}

pub(super) fn write(path: impl AsRef<Path>) -> Attempt {
    Attempt::Write(path.as_ref().display().to_string())
}

pub(super) fn run(words: &[&str]) -> Attempt {
    Attempt::Run(words.iter().map(ToString::to_string).collect())
}

pub(super) fn mount(source: &Path, target: &str, access: Access, executable: bool) -> Mount {
    Mount {
        source: source.to_owned(),
        target: target.into(),
        access,
        executable,
    }
}

/// A spoke with one folder, `/data`, that it may write to and that may hold so many bytes.
pub(super) fn sized_folder(folder: &Path, bytes: u64) -> Spec {
    Spec {
        mounts: vec![mount(folder, "/data", Access::ReadWrite, false)],
        quotas: vec![Quota {
            folder: folder.to_owned(),
            bytes,
        }],
        ..Spec::default()
    }
}

/// Runs this program as a stand-in hub, possibly by way of another program.
pub(super) fn stand_in(job: &Job, through: &[&str], program: &Path) -> Outcome<Command> {
    let mut words = through
        .iter()
        .map(ToString::to_string)
        .chain([program.display().to_string(), "hub".to_owned()]);
    let mut command = Command::new(words.next().ok_or("no program")?);
    command
        .args(words)
        .arg(serde_json::to_string(job)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    Ok(command)
}

pub(super) fn run_job(job: &Job) -> Outcome<Report> {
    let output = stand_in(job, &[], &std::env::current_exe()?)?.output()?;
    check(
        output.status.success(),
        String::from_utf8_lossy(&output.stderr),
    )?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

pub(super) fn job(without: &[(i64, i32)], allow_degraded: &[Layer], attempts: Vec<Attempt>) -> Job {
    let allow_degraded = allow_degraded.iter().copied().collect();
    Job {
        without: without
            .iter()
            .map(|(call, mask)| (*call, u64::from(mask.unsigned_abs())))
            .collect(),
        spec: Spec {
            allow_degraded,
            ..Spec::default()
        },
        attempts,
        linger: false,
        probe: false,
    }
}

/// Waits until something is so, for at most a second: the time in which the end of a spoke has to be noticed.
pub(super) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(1);
    while !holds() {
        if Instant::now() > deadline {
            return Err(format!("{what}: not within a second").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Runs a job as an ordinary user: as the present one, or, for root, as another. The program is linked or copied to where
/// that user may execute it.
pub(super) fn run_as_user(job: &Job) -> Outcome<Report> {
    if !rustix::process::geteuid().is_root() {
        return run_job(job);
    }
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let program = directory.path().join("spoke");
    let own = std::env::current_exe()?;
    // A child that another test starts meanwhile holds a copy open for writing for a moment, and it cannot be executed then.
    fs::hard_link(&own, &program).or_else(|_| fs::copy(&own, &program).map(drop))?;
    let user = format!("--reuid={ORDINARY_USER}");
    let group = format!("--regid={ORDINARY_USER}");
    let through = ["setpriv", &user, &group, "--clear-groups"];
    let output = stand_in(job, &through, &program)?
        .output()
        .map_err(|error| {
            format!("setpriv (package util-linux) is needed to test as another user: {error}")
        })?;
    check(
        output.status.success(),
        String::from_utf8_lossy(&output.stderr),
    )?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A folder that the ordinary user of [`run_as_user`] owns.
pub(super) fn users_folder() -> Outcome<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(directory.path(), Some(ORDINARY_USER), Some(ORDINARY_USER))?;
    }
    Ok(directory)
}

//! The spoke as a process: what it lets the app see, what it leaves behind, how it ends.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wire::*;

use crate::hub::*;

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "not within two minutes: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs. One that is dead and was not reaped does not: where its parent is gone too, that is
/// for process 1 to do, which in a container may be a program that never does it.
fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may have any characters but ends with the last bracket.
    let state = stat.rsplit_once(") ").map(|(_, state)| state);
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

#[test]
fn the_app_sees_its_own_environment_and_nothing_of_the_spoke() {
    let mut hub = Hub::ready("environment");
    hub.call(1, TEXT, 15_000);
    let seen: serde_json::Value = serde_json::from_str(&hub.result(1)).unwrap();
    assert_eq!(
        seen.get("env"),
        Some(&serde_json::json!([["ONLY", "this"]]))
    );
    assert_eq!(seen.get("cwd"), Some(&serde_json::json!("/")));
    // Without a sandbox, what this test has inherited reaches the app as well; the rest must be its three pipes and the
    // directory that it lists them with.
    let inherited: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    let descriptors = seen.get("fds").and_then(|fds| fds.as_array()).unwrap();
    let kinds: Vec<&str> = descriptors
        .iter()
        .map(|target| target.as_str().unwrap())
        .filter(|target| !inherited.iter().any(|it| it == target))
        .map(|target| {
            target
                .split(['[', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
                .next()
                .unwrap()
        })
        .collect();
    assert_eq!(
        kinds,
        ["pipe:", "pipe:", "pipe:", "/proc/"],
        "{descriptors:?}"
    );
}

/// The kernel gives the files in `/proc` of a process that is not dumpable to root. To see it, the user must be
/// another, so that a test run by root becomes nobody.
#[test]
fn the_app_cannot_look_into_the_spoke() {
    const NOBODY: u32 = 65_534;
    let owner = |pid: &str| {
        std::fs::metadata(format!("/proc/{pid}/environ"))
            .unwrap()
            .uid()
    };
    let root = owner("self") == 0;
    let user = if root { NOBODY } else { owner("self") };

    // Where the build's own directory may not be entered by others, copies can.
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &str, name: &str| {
        let to = directory.path().join(name);
        std::fs::copy(from, &to).unwrap();
        to
    };
    let program = copy(env!("CARGO_BIN_EXE_spoke-under-test"), "spoke");
    let app = copy(env!("CARGO_BIN_EXE_misbehaving-app"), "app");

    let mut hub = Hub::open_with(&program, |command| {
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
    });
    let argv = vec![app.display().to_string(), "echo".to_owned()];
    hub.send(&HubFrame::Start {
        app: AppCommand {
            argv,
            ..command("")
        },
        limits: AppLimits::default(),
        offer: Offer::default(),
    });
    assert!(matches!(hub.next(), Some(SpokeFrame::Ready { .. })));
    let app = hub.children().first().expect("the app").0;
    assert_eq!(owner(&hub.child.id().to_string()), 0);
    assert_eq!(owner(&app.to_string()), user);
}

#[test]
fn orphans_are_reaped_and_the_app_is_not_disturbed() {
    let mut hub = Hub::ready("grandchildren");
    for id in 1..4 {
        hub.call(id, TEXT, 15_000);
        assert_eq!(hub.result(id), "done");
    }
    wait_until(
        "only the app is left",
        || matches!(hub.children().as_slice(), [(_, state)] if *state != 'Z'),
    );
    hub.call(9, TEXT, 15_000);
    assert_eq!(hub.result(9), "done");
    hub.send(&HubFrame::Stop);
    assert_eq!(hub.exit_code(), i32::from(spoke::exit::STOPPED));
}

#[test]
fn nothing_is_left_when_the_hub_stops_or_is_gone() {
    for gone in [false, true] {
        let mut hub = Hub::ready("lasting-grandchild");
        hub.call(1, TEXT, 15_000);
        let grandchild: u32 = hub.result(1).parse().unwrap();
        let app = hub.children().first().expect("the app").0;
        assert!(alive(grandchild) && alive(app));
        if gone {
            hub.hang_up();
        } else {
            hub.send(&HubFrame::Stop);
        }
        assert_eq!(hub.exit_code(), i32::from(spoke::exit::STOPPED));
        wait_until("the app and its child are gone", || {
            !alive(app) && !alive(grandchild)
        });
    }
}

#[test]
fn a_hub_that_leaves_during_the_start_takes_the_app_with_it() {
    let mut hub = Hub::start("silent");
    wait_until("the app runs", || !hub.children().is_empty());
    let app = hub.children().first().expect("the app").0;
    hub.hang_up();
    assert_eq!(hub.exit_code(), i32::from(spoke::exit::STOPPED));
    wait_until("the app is gone", || !alive(app));
}

#[test]
fn calls_before_the_app_runs_are_refused() {
    let mut hub = Hub::open();
    hub.call(1, TEXT, 1_000);
    assert_eq!(hub.call_failure(1), FailureReason::NotReady);
    hub.send(&HubFrame::Start {
        app: command("silent"),
        limits: AppLimits::default(),
        offer: Offer::default(),
    });
    hub.call(2, TEXT, 1_000);
    assert_eq!(hub.call_failure(2), FailureReason::NotReady);
    hub.send(&HubFrame::Stop);
    assert_eq!(hub.exit_code(), i32::from(spoke::exit::STOPPED));
}

#[test]
fn a_hub_that_sends_no_frames_is_left() {
    let stop_and_more = [&[0, 0, 0, 6, WIRE_VERSION][..], b"\"stop\"\0\0\0\x01\xffx"];
    for bytes in [
        b"GET / HTTP/1.1\r\n".to_vec(),
        stop_and_more.concat(),
        vec![0xff, 0xff, 0xff, 0xff, WIRE_VERSION],
    ] {
        let mut hub = Hub::open();
        hub.send_raw(&bytes);
        let expected = if bytes.contains(&b's') {
            spoke::exit::STOPPED
        } else {
            spoke::exit::BAD_FRAME
        };
        assert_eq!(hub.exit_code(), i32::from(expected), "{bytes:?}");
    }
    let mut hub = Hub::ready("echo");
    let app = hub.children().first().expect("the app").0;
    hub.send(&HubFrame::Start {
        app: command("echo"),
        limits: AppLimits::default(),
        offer: Offer::default(),
    });
    assert_eq!(hub.exit_code(), i32::from(spoke::exit::BAD_FRAME));
    wait_until("the app is gone", || !alive(app));
}

#[test]
fn it_is_started_by_the_hub_only() {
    let spoke = env!("CARGO_BIN_EXE_spoke-under-test");
    for arguments in [
        &[][..],
        &["spoke"],
        &["spoke", "x"],
        &["--help"],
        &["sandbox-init", "x"],
    ] {
        let output = Command::new(spoke)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(i32::from(spoke::exit::USAGE)),
            "{arguments:?}"
        );
        assert!(
            output.stderr.starts_with(b"sluice-spoke: "),
            "{arguments:?}"
        );
    }
    // Something else than a socket in the channel's place.
    let mut child = Command::new("/bin/sh")
        .args(["-c", "exec \"$0\" spoke 3<&0 0</dev/null", spoke])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(b"x");
    assert_eq!(
        child.wait().unwrap().code(),
        Some(i32::from(spoke::exit::USAGE))
    );
}

//! `sluice doctor` and `sluice version` in what containers give: each restriction is made for the process, and the report
//! names the setting that lifts it.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use serde_json::Value;

use crate::home::{Home, said};

/// What Docker's profile refuses to a process without `CAP_SYS_ADMIN`.
const DOCKER: [i64; 13] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_sethostname,
    libc::SYS_pivot_root,
    libc::SYS_bpf,
];
/// What Podman's profile refuses of that.
const PODMAN: [i64; 1] = [libc::SYS_sethostname];

/// Runs the command under a filter that refuses these calls.
fn under(mut command: Command, calls: &[i64]) -> Output {
    let rules: BTreeMap<i64, Vec<_>> = calls.iter().map(|call| (*call, vec![])).collect();
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    // The filter is on that thread, and on what it starts.
    let run = move || {
        apply_filter(&filter).unwrap();
        command.output().unwrap()
    };
    thread::spawn(run).join().unwrap()
}

/// `(ok, detail)` of each finding.
fn findings(output: &Output) -> BTreeMap<String, (bool, String)> {
    let (_, stdout, stderr) = said(output);
    let findings = stdout.lines().map(|line| {
        let finding: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| finding[name].as_str().unwrap().to_owned();
        (
            text("subject"),
            (finding["ok"].as_bool().unwrap(), text("detail")),
        )
    });
    let findings: BTreeMap<_, _> = findings.collect();
    assert!(findings.len() > 10, "{stdout}{stderr}");
    findings
}

fn doctor(home: &Home) -> Command {
    let mut command = home.sluice(&["doctor", "--json"]);
    command.env_remove("KUBERNETES_SERVICE_HOST");
    command
}

/// In namespaces whose root this is, after this script.
fn doctor_after(home: &Home, script: &str) -> Command {
    let sluice = env!("CARGO_BIN_EXE_sluice");
    let mut command = doctor(home);
    let like = |command: &Command| -> Vec<_> {
        let set = command.get_envs();
        set.map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)))
            .collect()
    };
    let (envs, folder) = (like(&command), home.path("home"));
    command = Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
    ]);
    command.args(["sh", "-euc"]);
    command.arg(format!("{script}\nexec {sluice} doctor --json"));
    for (name, value) in envs {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(folder);
    command
}

#[test]
fn a_filter_of_a_container_is_named_with_its_setting() {
    let home = Home::new();
    for (calls, variable, lost, setting) in [
        (
            &DOCKER as &[i64],
            ("container", "oci"),
            &["user-namespace", "mount-namespace", "net-namespace"] as &[_],
            "docker run --security-opt seccomp=/usr/share/sluice/seccomp.json",
        ),
        (
            &DOCKER,
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            &["user-namespace"],
            "procMount: Unmasked, seccompProfile",
        ),
        (
            &PODMAN,
            ("container", "podman"),
            &["uts-namespace"],
            "podman run --security-opt seccomp=/usr/share/sluice/seccomp.json",
        ),
    ] {
        let mut command = doctor(&home);
        command.env(variable.0, variable.1);
        let found = findings(&under(command, calls));
        for layer in lost {
            let (ok, detail) = &found[*layer];
            assert!(!ok && detail.contains(setting), "{layer}: {detail}");
        }
        let (ok, detail) = &found["container"];
        assert!(!ok && detail.contains("refuses layers"), "{detail}");
        assert!(detail.contains(setting), "{detail}");
        // What the filter leaves is there.
        assert!(found["landlock"].0 && found["seccomp"].0, "{found:?}");
    }
}

#[test]
fn a_masked_proc_is_named_and_leaves_every_layer() {
    let home = Home::new();
    let mut command = doctor_after(&home, "mount -t tmpfs none /proc/fs");
    command.env("container", "oci");
    let output = command.output().unwrap();
    let found = findings(&output);
    let (ok, detail) = &found["container"];
    assert!(*ok && detail.contains("masks /proc"), "{detail}");
    assert!(detail.contains("systempaths=unconfined"), "{detail}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn user_namespaces_that_are_off_are_named() {
    let home = Home::new();
    let script = "echo 0 > /proc/sys/user/max_user_namespaces";
    let found = findings(&doctor_after(&home, script).output().unwrap());
    let (ok, detail) = &found["user-namespace"];
    assert!(!ok && detail.contains("sysctl -w user.max_user_namespaces"));
}

#[test]
fn without_a_container_nothing_is_said_of_one() {
    let home = Home::new();
    let found = findings(&doctor(&home).env_remove("container").output().unwrap());
    assert!(found["user-namespace"].0, "{found:?}");
    assert!(!found.contains_key("container") || std::path::Path::new("/.dockerenv").exists());
}

#[test]
fn the_version_says_what_a_report_needs() {
    let home = Home::new();
    let (_, long, _) = home.run(&["--version"]);
    let lines: Vec<&str> = long.lines().collect();
    let [version, commit, target, features, sandbox] = lines.as_slice() else {
        panic!("{long}");
    };
    assert_eq!(*version, concat!("sluice ", env!("CARGO_PKG_VERSION")));
    assert!(commit.starts_with("commit:   ") && features.starts_with("features: "));
    assert!(target.contains("linux") && sandbox.contains("Landlock"));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = home.run(&["completions", shell]);
        assert!(code == 0 && script.contains("gateway"), "{shell}");
    }
    let pages = home.path("home/made");
    assert_eq!(home.run(&["man", pages.to_str().unwrap()]).0, 0);
    for page in ["sluice.1", "sluice-policy-check.1", "sluice-doctor.1"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
    assert!(!pages.join("sluice-man.1").exists());
}

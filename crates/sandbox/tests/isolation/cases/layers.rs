//! Missing layers, given-up layers, other users.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

use sandbox::{Access, Layer};

use super::common::{check, equal, job, mount, read, run_as_user, run_job, stand_in};
use crate::Outcome;
use crate::hub::{Job, Report};
use crate::spoke::Attempt;

/// Ways to take single layers away, and the layer that then is named.
const WITHOUT: [(i64, i32, Layer); 8] = [
    (libc::SYS_unshare, libc::CLONE_NEWUSER, Layer::UserNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWNS, Layer::MountNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWPID, Layer::PidNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWNET, Layer::NetNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWIPC, Layer::IpcNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWUTS, Layer::UtsNamespace),
    (
        libc::SYS_unshare,
        libc::CLONE_NEWCGROUP,
        Layer::CgroupNamespace,
    ),
    (libc::SYS_landlock_create_ruleset, 0, Layer::Landlock),
];

pub(super) fn a_missing_layer_refuses_and_is_named() -> Outcome {
    for (call, mask, layer) in WITHOUT
        .into_iter()
        .chain([(libc::SYS_seccomp, 0, Layer::Seccomp)])
    {
        let mut command = stand_in(
            &job(&[(call, mask)], &[], vec![]),
            &[],
            &std::env::current_exe()?,
        )?;
        let output = command.output()?;
        let report: Report = serde_json::from_slice(&output.stdout)?;
        let error = report
            .error
            .ok_or_else(|| format!("started without {layer}"))?;
        check(
            error.contains(&format!("layer {layer} is not available")),
            format!("{layer} is not named in: {error}"),
        )?;
        check(
            error.contains(&format!("--allow-degraded {layer}")),
            format!("no way out in: {error}"),
        )?;
        // A filter is what takes it away here, unless a setting of the machine is in the way as well.
        let remedies = ["--security-opt seccomp=", "sudo sysctl -w"];
        let remedied = remedies.iter().any(|remedy| error.contains(remedy));
        check(
            call != libc::SYS_unshare || remedied,
            format!("no remedy in: {error}"),
        )?;
    }
    Ok(())
}

pub(super) fn a_layer_can_be_given_up_by_name() -> Outcome {
    let landlock = [
        Layer::Landlock,
        Layer::LandlockNetwork,
        Layer::LandlockScope,
    ];
    for (call, mask, layer) in WITHOUT {
        let given_up: &[Layer] = match layer {
            Layer::Landlock => &landlock,
            // The bound on root's processes needs the pid namespace.
            Layer::PidNamespace => &[Layer::PidNamespace, Layer::ProcessLimit],
            // Only root can make the others without this one.
            Layer::UserNamespace if !rustix::process::geteuid().is_root() => continue,
            Layer::UserNamespace => &[Layer::UserNamespace],
            ref layer => std::slice::from_ref(layer),
        };
        let report = run_job(&job(&[(call, mask)], given_up, vec![Attempt::Identity]))?;
        equal("error", report.error, None)?;
        check(
            report.degraded.contains(&layer),
            format!("{layer} is not reported as given up"),
        )?;
        let all: BTreeSet<Layer> = report.degraded.union(&report.enforced).copied().collect();
        equal("all layers accounted for", all, BTreeSet::from(Layer::ALL))?;
        check(
            report.degraded.iter().all(|layer| given_up.contains(layer)),
            format!("{:?}", report.degraded),
        )?;
        check(
            report.answers.iter().all(Result::is_ok),
            format!("{:?}", report.answers),
        )?;
    }
    // What the kernel has is not given up, even when it may be.
    let report = run_job(&job(&[], &Layer::ALL, vec![]))?;
    equal("degraded", report.degraded, BTreeSet::new())
}

pub(super) fn the_other_layers_hold_when_one_is_gone() -> Outcome {
    let directory = tempfile::tempdir()?;
    let secret = directory.path().join("secret");
    fs::write(&secret, "of the hub")?;
    let of_the_host = TcpListener::bind("127.0.0.1:0")?;
    let port = of_the_host.local_addr()?.port();
    // The network is its own, for which Landlock is not needed.
    let landlock = [Layer::Landlock, Layer::LandlockScope];
    for (call, flag, layers, attempt) in [
        (
            libc::SYS_unshare,
            libc::CLONE_NEWNS,
            &[Layer::MountNamespace][..],
            read(&secret),
        ),
        (
            libc::SYS_unshare,
            libc::CLONE_NEWNET,
            &[Layer::NetNamespace],
            Attempt::Connect(port),
        ),
        (
            libc::SYS_unshare,
            libc::CLONE_NEWNET,
            &[Layer::NetNamespace],
            Attempt::Serve(0),
        ),
        (
            libc::SYS_unshare,
            libc::CLONE_NEWNET,
            &[Layer::NetNamespace],
            Attempt::ServeUnix("/tmp/own".to_owned()),
        ),
        (
            libc::SYS_unshare,
            libc::CLONE_NEWNS,
            &[Layer::MountNamespace],
            Attempt::ServeUnix("/tmp/own".to_owned()),
        ),
        (
            libc::SYS_landlock_create_ruleset,
            0,
            &landlock,
            read(&secret),
        ),
        (
            libc::SYS_landlock_create_ruleset,
            0,
            &landlock,
            Attempt::Connect(port),
        ),
    ] {
        let report = run_job(&job(&[(call, flag)], layers, vec![attempt.clone()]))?;
        equal("error", report.error, None)?;
        equal(
            "given up",
            report.degraded,
            layers.iter().copied().collect(),
        )?;
        check(
            matches!(report.answers.as_slice(), [Err(_)]),
            format!("without {layers:?}: {attempt:?} {:?}", report.answers),
        )?;
    }
    Ok(())
}

pub(super) fn works_for_an_ordinary_user() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        // Every other case has just shown it.
        return Ok(());
    }
    let attempts = vec![
        Attempt::Identity,
        Attempt::Processes,
        Attempt::ForkBomb(2000),
        read("/etc/shadow"),
        read("/home"),
        Attempt::Syscall(libc::SYS_mount, [0; 6]),
    ];
    let mut job = job(&[], &[], attempts);
    job.spec.limits.processes = 40;
    job.spec.mounts = vec![mount(
        Path::new("/usr/share"),
        "/data",
        Access::ReadOnly,
        false,
    )];
    job.spec.listen = vec![80];
    let report = run_as_user(&job)?;
    equal("error", report.error, None)?;
    equal("layers", report.enforced, BTreeSet::from(Layer::ALL))?;
    let [identity, processes, bomb, refused @ ..] = report.answers.as_slice() else {
        return Err("too few answers".into());
    };
    equal(
        "identity",
        identity.clone(),
        Ok("1000:1000 spoke 1".to_owned()),
    )?;
    equal("processes", processes.clone(), Ok("1".to_owned()))?;
    let count: u32 = bomb.clone()?.parse()?;
    check(
        (10..=40).contains(&count),
        format!("{count} children of 40"),
    )?;
    equal(
        "refusals",
        refused.iter().filter(|answer| answer.is_err()).count(),
        3,
    )
}

pub(super) fn probe_tells_what_is_there() -> Outcome {
    let statuses = sandbox::probe(&std::env::current_exe()?)?;
    equal(
        "layers",
        statuses
            .iter()
            .map(|status| status.layer)
            .collect::<Vec<_>>(),
        Layer::ALL.to_vec(),
    )?;
    for status in statuses {
        check(
            status.available.is_ok(),
            format!("{}: {:?}", status.layer, status.available),
        )?;
    }
    let job = Job {
        probe: true,
        ..job(&[(libc::SYS_unshare, libc::CLONE_NEWNET)], &[], vec![])
    };
    equal(
        "not available",
        run_job(&job)?.degraded,
        BTreeSet::from([Layer::NetNamespace]),
    )
}

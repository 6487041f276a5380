//! How much a spoke can take, and that it is enough for the usual runtimes.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sandbox::{Access, Limits, Quota, Spec, WholeSpoke};

use super::common::{
    check, equal, job, mount, read, run, run_as_user, sized_folder, stand_in, users_folder, write,
};
use crate::Outcome;
use crate::hub::{Report, Spoke};
use crate::spoke::Attempt;

pub(super) fn processes_are_bounded() -> Outcome {
    let spec = Spec {
        limits: Limits {
            processes: 40,
            ..Limits::default()
        },
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let count: u32 = spoke.allowed(&Attempt::ForkBomb(2000))?.parse()?;
    // For root's processes the bound is up to 300 above: those numbers the kernel keeps back after the first round.
    let most = if rustix::process::geteuid().is_root() {
        340
    } else {
        40
    };
    check((10..=most).contains(&count), format!("{count} children"))?;
    spoke.allowed(&Attempt::Identity)?;
    Ok(())
}

pub(super) fn memory_is_bounded() -> Outcome {
    let spec = Spec {
        limits: Limits {
            memory_bytes: 128 << 20,
            ..Limits::default()
        },
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let count: u64 = spoke.allowed(&Attempt::Memory(1024))?.parse()?;
    check((32..128).contains(&count), format!("{count} MiB of 128"))
}

/// Memory that `RLIMIT_DATA` does not count: of a shared `/dev/zero`.
pub(super) fn a_shared_zero_device_gives_no_memory() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    let bytes = 64 << 20;
    spoke.refused(&Attempt::SharedMemory("/dev/zero".to_owned(), bytes))?;
    // Reading it, and shared memory of a file in the bounded /tmp, are as before.
    let script = "head -c 3 /dev/zero | wc -c";
    equal(
        "zeroes",
        spoke.allowed(&run(&["/bin/sh", "-c", script]))?.as_str(),
        "3",
    )?;
    spoke.allowed(&Attempt::Fill("/tmp/shared".to_owned(), 1))?;
    spoke.allowed(&Attempt::SharedMemory("/tmp/shared".to_owned(), 1 << 20))?;
    Ok(())
}

/// Watching files takes from what the user may have on the whole machine.
pub(super) fn watchers_are_bounded() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    let count: u64 = spoke.allowed(&Attempt::Watchers(128))?.parse()?;
    check(
        (1..=sandbox::defaults::WATCHERS).contains(&count),
        format!("{count} watchers"),
    )?;
    let mut job = job(&[], &[], vec![Attempt::Watchers(128)]);
    job.spec = Spec::default();
    let report = run_as_user(&job)?;
    equal("error", report.error, None)?;
    let [Ok(count)] = report.answers.as_slice() else {
        return Err(format!("{:?}", report.answers).into());
    };
    equal(
        "for an ordinary user",
        count.parse(),
        Ok(sandbox::defaults::WATCHERS),
    )
}

/// Many processes together, each within its own limit.
pub(super) fn memory_and_processes_of_a_whole_spoke_are_bounded() -> Outcome {
    let spec = Spec {
        limits: Limits {
            memory_bytes: 128 << 20,
            processes: 40,
            ..Limits::default()
        },
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let path = match spoke.sandboxed.whole_spoke() {
        WholeSpoke::ControlGroup { path } => path.clone(),
        WholeSpoke::PerProcess { reason } => {
            let _ = writeln!(
                std::io::stderr(),
                "NOT TESTED: no control group bounds a whole spoke here: {reason}"
            );
            // Then doctor says the same, and spokes run.
            equal("identity", spoke.attempt(&Attempt::Identity)?.is_ok(), true)?;
            let why = WholeSpoke::PerProcess {
                reason: reason_of(&sandbox::whole_spoke())?,
            };
            return equal("for doctor", &why, spoke.sandboxed.whole_spoke());
        }
    };
    let count: u32 = spoke.allowed(&Attempt::ForkBomb(2000))?.parse()?;
    check((10..40).contains(&count), format!("{count} children of 40"))?;
    let names = spoke.allowed(&read("/proc/self/cgroup"))?;
    equal(
        "the group as the spoke sees it",
        names.trim().ends_with("::/"),
        true,
    )?;
    // Four times 100 MiB, each in a process of its own.
    let script = "for i in 1 2 3 4; do head -c 104857600 /dev/zero | tail & done; wait";
    let outcome = spoke.attempt(&run(&["/bin/sh", "-c", script]));
    check(
        !matches!(outcome, Ok(Ok(_))),
        "400 MiB in a spoke that has 128",
    )?;
    drop(spoke);
    check(!path.exists(), format!("{} is left behind", path.display()))
}

fn reason_of(whole_spoke: &WholeSpoke) -> Outcome<String> {
    match whole_spoke {
        WholeSpoke::PerProcess { reason } => Ok(reason.clone()),
        WholeSpoke::ControlGroup { path } => {
            Err(format!("a control group in {}", path.display()).into())
        }
    }
}

/// A tree of control groups that has nothing to give, and none at all, as containers show them.
pub(super) fn without_control_groups_a_spoke_runs_and_says_so() -> Outcome {
    let program = std::env::current_exe()?;
    let private: &[&str] = if rustix::process::geteuid().is_root() {
        &["unshare", "--mount", "--cgroup"]
    } else {
        &[
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--cgroup",
        ]
    };
    for script in [
        // What the namespace shows, where the process is in its root.
        "exec \"$@\"",
        "umount -l -R /sys/fs/cgroup; exec \"$@\"",
        "umount -l -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec \"$@\"",
        "mount -t cgroup2 -o ro cgroup2 /mnt; umount -l -R /sys/fs/cgroup; exec \"$@\"",
    ] {
        let words = [private, &["sh", "-c", script, "sh"]].concat();
        let job = job(&[], &[], vec![Attempt::Identity]);
        let output = stand_in(&job, &words, &program)?.output()?;
        check(
            output.status.success(),
            format!("{script}: {}", String::from_utf8_lossy(&output.stderr)),
        )?;
        let report: Report = serde_json::from_slice(&output.stdout)?;
        equal(script, report.error, None)?;
        check(
            matches!(report.answers.as_slice(), [Ok(_)]),
            format!("{script}: {:?}", report.answers),
        )?;
        let whole = report
            .whole_spoke
            .ok_or("nothing is said of the whole spoke")?;
        check(
            whole.contains("control group"),
            format!("{script}: {whole}"),
        )?;
    }
    Ok(())
}

/// When memory is short, the kernel ends a spoke before anything of the host.
pub(super) fn the_out_of_memory_killer_takes_the_spoke_first() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    let path = "/proc/self/oom_score_adj";
    equal("score", spoke.allowed(&read(path))?.trim(), "1000")?;
    spoke.refused(&write(path))?;
    let of_children = spoke.allowed(&run(&["/bin/cat", path]))?;
    equal("score of a child", of_children.as_str(), "1000")?;
    let outer = fs::read_to_string(format!("/proc/{}/oom_score_adj", spoke.sandboxed.pid()))?;
    equal("score of the waiting process", outer.trim(), "1000")
}

/// A core dump goes to a program of the host where `core_pattern` is a pipe, with root's rights, whatever a limit of zero
/// says. Only a limit of one byte is a no to both, pipes and files.
pub(super) fn a_crash_leaves_no_core_dump() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    let limits = spoke.allowed(&read("/proc/self/limits"))?;
    let core = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"))
        .ok_or("no limit of core files")?;
    let words: Vec<_> = core.split_whitespace().collect();
    // A hub that may not even have that one byte cannot give it.
    let ceiling = rustix::process::getrlimit(rustix::process::Resource::Core).maximum;
    let most = if ceiling == Some(0) { "0" } else { "1" };
    equal("limit", words, vec![most, most, "bytes"])?;
    let crash = spoke.refused(&run(&["/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$"]))?;
    check(!crash.contains("core dumped"), crash)
}

pub(super) fn files_are_bounded() -> Outcome {
    let directory = tempfile::tempdir()?;
    let spec = Spec {
        mounts: vec![mount(directory.path(), "/data", Access::ReadWrite, false)],
        limits: Limits {
            tmp_bytes: 4 << 20,
            file_bytes: 8 << 20,
            ..Limits::default()
        },
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let fill = |path: &str| Attempt::Fill(path.to_owned(), 64);
    let in_tmp: u64 = spoke.allowed(&fill("/tmp/full"))?.parse()?;
    check(in_tmp <= 4, format!("{in_tmp} MiB in a /tmp of 4"))?;
    // Empty files take no bytes of it, but memory of the kernel.
    let script =
        "i=0; while [ $i -lt 20000 ] && true > /tmp/$i; do i=$((i + 1)); done 2>/dev/null; echo $i";
    let files: u64 = spoke.allowed(&run(&["/bin/sh", "-c", script]))?.parse()?;
    let most = sandbox::defaults::TMP_FILES;
    check(
        (most / 2..most).contains(&files),
        format!("{files} files of {most}"),
    )?;
    let in_file: u64 = spoke.allowed(&fill("/data/full"))?.parse()?;
    equal("MiB in a file of 8", in_file, 8)
}

/// Several ways to fill a disk, one after the other, each until the spoke is ended for it.
pub(super) fn a_folder_with_a_size_is_not_filled() -> Outcome {
    const SIZE: u64 = 16 << 20;
    // Slow enough that the disk of this machine does not fill up between two measurements.
    let many =
        "i=0; while true; do head -c 1048576 /dev/zero > /data/$i; i=$((i + 1)); sleep 0.01; done";
    let empty = "i=0; while true; do : > /data/$i; i=$((i + 1)); done";
    for script in [many, empty] {
        let directory = tempfile::tempdir()?;
        let folder = directory.path().canonicalize()?;
        let spec = sized_folder(&folder, SIZE);
        let mut other = Spoke::start(&Spec::default())?;
        let mut spoke = Spoke::start(&spec)?;
        let overrun = spoke.sandboxed.overrun();
        // What is smaller than the size is left alone, and measured at least once.
        spoke.allowed(&Attempt::Fill("/data/fits".to_owned(), 2))?;
        spoke.allowed(&run(&["/bin/sleep", "1.5"]))?;
        equal("ended for what fits", overrun.reason(), None)?;
        let ended = spoke.attempt(&run(&["/bin/sh", "-c", script]));
        check(ended.is_err(), format!("{script}: {ended:?}"))?;
        let reason = overrun.reason().unwrap_or_default();
        let says = format!(
            "the folder {} holds more than its size of 16 MiB",
            folder.display()
        );
        check(reason.starts_with(&says), format!("{script}: {reason}"))?;
        other.allowed(&Attempt::Identity)?;
        drop(spoke);
        // It does not start again before there is room.
        let refused = Spoke::start(&spec)
            .map(|_| ())
            .map_err(|error| error.to_string());
        check(
            refused.is_err_and(|why| why.starts_with(&says)),
            format!("{script}: started again"),
        )?;
    }
    Ok(())
}

/// As a file system is that is mounted below and lets only its own user in: the app does not start, and the user can see why.
pub(super) fn a_place_that_cannot_be_measured_is_named() -> Outcome {
    let directory = users_folder()?;
    let folder = directory.path().canonicalize()?;
    let below = folder.join("below\n");
    fs::create_dir(&below)?;
    fs::set_permissions(&below, Permissions::from_mode(0o0))?;
    let mut job = job(&[], &[], vec![Attempt::Identity]);
    job.spec = sized_folder(&folder, 8 << 20);
    let report = run_as_user(&job)?;
    fs::set_permissions(&below, Permissions::from_mode(0o700))?;
    let says = format!("{below:?} cannot be read (Permission denied");
    let why = report.error.unwrap_or_default();
    check(why.contains(&says), why)
}

pub(super) fn a_size_is_for_what_may_be_written() -> Outcome {
    let directory = tempfile::tempdir()?;
    let folder = directory.path().canonicalize()?;
    let quota = Quota {
        folder: folder.clone(),
        bytes: 1 << 20,
    };
    for (access, quotas, expected) in [
        (
            Access::ReadOnly,
            vec![quota.clone()],
            "no folder that the spoke may write",
        ),
        (
            Access::ReadWrite,
            vec![quota.clone(), quota.clone()],
            "two sizes",
        ),
    ] {
        let spec = Spec {
            mounts: vec![mount(&folder, "/data", access, false)],
            quotas,
            ..Spec::default()
        };
        let refused = Spoke::start(&spec)
            .map(|_| ())
            .map_err(|error| error.to_string());
        check(
            refused.as_ref().is_err_and(|why| why.contains(expected)),
            format!("{refused:?}"),
        )?;
    }
    Ok(())
}

/// With what servers use: threads, children by pipes and by socket pairs, connections by name.
pub(super) fn usual_runtimes_run() -> Outcome {
    let spec = Spec {
        listen: vec![8080],
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    for (_, listener) in spoke.sandboxed.take_listeners() {
        std::thread::spawn(move || {
            for stream in TcpListener::from(listener).incoming() {
                // Closed with something unread, a connection is reset, and the answer may be lost.
                let answer = |mut stream: TcpStream| {
                    stream.read_exact(&mut [0; 4])?;
                    stream.write_all(b"pong")
                };
                let _ = stream.and_then(answer);
            }
        });
    }
    equal(
        "sh",
        spoke
            .allowed(&run(&["/bin/sh", "-c", "echo $((6 * 7)) | cat"]))?
            .as_str(),
        "42",
    )?;
    let python = "import threading, subprocess, asyncio, json, ssl, tempfile, socket\n\
        t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
        async def main():\n    p = await asyncio.create_subprocess_exec('/bin/echo', '42', stdout=-1)\n    \
        return (await p.communicate())[0].decode().strip()\n\
        tempfile.TemporaryFile().write(b'x')\n\
        with socket.create_connection(('localhost', 8080)) as s:\n    s.sendall(b'ping'); assert s.recv(4) == b'pong'\n\
        import multiprocessing\n\
        assert multiprocessing.get_context('forkserver').Pool(1).map(abs, [-1]) == [1]\n\
        print(asyncio.run(main()))";
    let node = "const {Worker} = require('worker_threads'); const {execFile} = require('child_process');\n\
        require('fs').writeFileSync('/tmp/node', 'x');\n\
        require('fs').writeFileSync('/tmp/child.js', 'process.send(6 * 7); process.disconnect()');\n\
        const done = () => require('child_process').fork('/tmp/child.js').on('message', m => console.log(m));\n\
        new Worker('1', {eval: true}).on('exit', () => execFile('/bin/echo', ['42'], () =>\n\
        require('net').connect(8080, 'localhost').on('data', done).setNoDelay().end('ping')))";
    for (program, script) in [
        ("/usr/bin/python3", ["-c", python]),
        ("/usr/bin/node", ["-e", node]),
    ] {
        if Path::new(program).exists() {
            let [flag, script] = script;
            equal(
                program,
                spoke.allowed(&run(&[program, flag, script]))?.as_str(),
                "42",
            )?;
        } else {
            let _ = writeln!(
                std::io::stderr(),
                "NOT TESTED: {program} is not installed, so it was not run in the sandbox"
            );
        }
    }
    Ok(())
}

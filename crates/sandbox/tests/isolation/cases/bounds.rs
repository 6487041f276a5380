//! How much a spoke can take, and that it is enough for the usual runtimes.

use std::io::Write;
use std::path::Path;

use sandbox::{Access, Limits, Spec};

use super::common::{check, equal, mount, run};
use crate::Outcome;
use crate::hub::Spoke;
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

pub(super) fn usual_runtimes_run() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
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
        tempfile.TemporaryFile().write(b'x')\nprint(asyncio.run(main()))";
    let node = "const {Worker} = require('worker_threads'); const {execFile} = require('child_process');\n\
        require('fs').writeFileSync('/tmp/node', 'x');\n\
        new Worker('1', {eval: true}).on('exit', () => execFile('/bin/echo', ['42'], (e, out) => console.log(out.trim())))";
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

//! A program that the user works with, in a real sandbox: its streams, its terminal, its walls, its connections.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hub::trace::Event;
use ifc::{Answer, Label, Monitor};
use names::Pattern;
use policy::{AppPolicy, Destinations, DomainRule};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use sandbox::{Access, Limits, Mount, Spec};
use server::{
    AskedConnection, Change, Domains, Egress, Ended, Gate, Program, ProgramSetup, SpokeSetup,
    Streams,
};
use tokio::sync::mpsc;

use crate::stage::{NAME, Names, Rules, binary, needs, page_host, secret, untrusted};

/// Long enough for a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program, the other ends of its pipes, and what the hub hears of it.
struct Run {
    program: Program,
    input: Option<File>,
    output: Option<File>,
    error: Option<File>,
    questions: mpsc::Receiver<AskedConnection>,
    _events: mpsc::Receiver<Event>,
}

/// What the program has beside the system's files.
#[derive(Default)]
struct With<'a> {
    /// A folder that it may write, at its own path.
    folder: Option<&'a Path>,
    /// A port of the host's loopback.
    port: Option<u16>,
    /// Where [`NAME`] leads, for what is no secret.
    host: Option<std::net::SocketAddr>,
}

fn setup(command: &[&str], with: &With<'_>) -> (SpokeSetup, Gate) {
    let names = Arc::new(Names::default());
    let pattern = Pattern::new(NAME).unwrap();
    let ports: Vec<u16> = with.host.iter().map(|_| 80).collect();
    let loopback = "127.0.0.1".parse().unwrap();
    if let Some(host) = with.host {
        names.say(NAME, &[host]);
    }
    if let Some(port) = with.port {
        names.say("127.0.0.1", &[([127, 0, 0, 1], port).into()]);
    }
    let destinations = Destinations {
        domains: vec![DomainRule {
            pattern: pattern.clone(),
            ports: ports.clone(),
            limit: untrusted(),
        }],
        relays: (with.port.iter())
            .map(|port| ("127.0.0.1".to_owned(), *port))
            .collect(),
        ..Destinations::default()
    };
    let rules = AppPolicy::new(BTreeMap::new())
        .with_destinations(BTreeMap::from([("agent".to_owned(), destinations)]));
    let gate = Gate {
        monitor: Monitor::new(),
        policy: Arc::new(Rules(rules)),
        resolver: names,
    };
    let mount = |folder: &Path| Mount {
        source: folder.to_owned(),
        target: folder.to_owned(),
        access: Access::ReadWrite,
        executable: true,
    };
    let setup = SpokeSetup {
        app: "agent".to_owned(),
        program: binary("sluice-spoke"),
        command: command.iter().map(ToString::to_string).collect(),
        env: BTreeMap::from([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("HOME".to_owned(), "/tmp".to_owned()),
        ]),
        workdir: with
            .folder
            .map_or("/tmp".to_owned(), |it| it.display().to_string()),
        sandbox: Spec {
            mounts: with.folder.into_iter().map(mount).collect(),
            listen: with.port.into_iter().collect(),
            names: ports,
            limits: Limits::of_program(),
            ..Spec::default()
        },
        limits: wire::AppLimits::default(),
        egress: (with.port.into_iter())
            .map(|port| Egress {
                listen: port,
                host: "127.0.0.1".to_owned(),
                port,
                addresses: Vec::new(),
            })
            .collect(),
        domains: Domains {
            addresses: vec![(pattern, vec![loopback])],
            ..Domains::default()
        },
        tokens: None,
        call_timeout: PATIENCE,
        offer: wire::Offer::default(),
    };
    (setup, gate)
}

async fn start(
    command: &[&str],
    with: &With<'_>,
    streams: Streams,
) -> Result<Run, server::SpokeError> {
    let (spoke, gate) = setup(command, with);
    let (events, _events) = mpsc::channel(64);
    let (to_questions, questions) = mpsc::channel(4);
    let program = Program::start(ProgramSetup {
        spoke,
        streams,
        gate,
        events,
        questions: to_questions,
    });
    Ok(Run {
        program: program.await?,
        input: None,
        output: None,
        error: None,
        questions,
        _events,
    })
}

/// The program with pipes.
async fn piped(command: &[&str], with: &With<'_>) -> Run {
    let (input, to_input) = pipe().unwrap();
    let (from_output, output) = pipe().unwrap();
    let (from_error, error) = pipe().unwrap();
    let streams = Streams {
        input: input.into(),
        output: output.into(),
        error: error.into(),
        terminal: false,
    };
    let run = start(command, with, streams).await.unwrap();
    Run {
        input: Some(OwnedFd::from(to_input).into()),
        output: Some(OwnedFd::from(from_output).into()),
        error: Some(OwnedFd::from(from_error).into()),
        ..run
    }
}

/// The program with a terminal of 30 lines and 90 columns, and the other end of that.
async fn on_terminal(command: &[&str]) -> (Run, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize {
        ws_row: 30,
        ws_col: 90,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).unwrap();
    let slave = || ioctl_tiocgptpeer(&master, flags).unwrap();
    let streams = Streams {
        input: slave(),
        output: slave(),
        error: slave(),
        terminal: true,
    };
    let run = start(command, &With::default(), streams).await.unwrap();
    (run, master.into())
}

impl Run {
    async fn ended(&mut self) -> Ended {
        let ended = tokio::time::timeout(PATIENCE, self.program.ended());
        ended.await.unwrap()
    }

    /// All that the program writes, until it has ended.
    async fn said(&mut self) -> String {
        let mut output = self.output.take().unwrap();
        let reader = tokio::task::spawn_blocking(move || {
            let mut said = String::new();
            output.read_to_string(&mut said).unwrap();
            said
        });
        assert_eq!(self.ended().await, Ended::Code(0));
        reader.await.unwrap()
    }
}

/// Reads from a terminal until it has shown a text.
async fn wait_for(terminal: &File, text: &'static str) -> String {
    let mut terminal = terminal.try_clone().unwrap();
    let reader = tokio::task::spawn_blocking(move || {
        let mut seen = Vec::new();
        let mut piece = [0; 1024];
        while !String::from_utf8_lossy(&seen).contains(text) {
            // An error says that the program has ended.
            match terminal.read(&mut piece) {
                Ok(length @ 1..) => seen.extend(piece.get(..length).unwrap()),
                _ => break,
            }
        }
        String::from_utf8_lossy(&seen).into_owned()
    });
    let seen = tokio::time::timeout(PATIENCE, reader).await;
    let seen = seen.unwrap().unwrap();
    assert!(seen.contains(text), "{text:?} is not in {seen:?}");
    seen
}

#[tokio::test]
async fn a_program_has_the_users_pipes_and_its_own_exit_code() {
    let command = "read line; echo \"got $line\"; echo oh >&2; exit 7";
    let mut run = piped(&["sh", "-c", command], &With::default()).await;
    run.input.take().unwrap().write_all(b"a line\n").unwrap();
    assert_eq!(run.ended().await, Ended::Code(7));
    for (stream, expected) in [(&mut run.output, "got a line\n"), (&mut run.error, "oh\n")] {
        let mut said = String::new();
        stream.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, expected);
    }
}

#[tokio::test]
async fn a_program_that_dies_by_a_signal_says_which() {
    let mut run = piped(&["sh", "-c", "kill -TERM $$"], &With::default()).await;
    assert_eq!(run.ended().await, Ended::Signal(15));
}

#[tokio::test]
async fn a_signal_reaches_the_program() {
    let command = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut run = piped(&["sh", "-c", command], &With::default()).await;
    wait_for(run.output.as_ref().unwrap(), "ready").await;
    run.program.signal(15).await.unwrap();
    wait_for(run.output.as_ref().unwrap(), "caught").await;
    assert_eq!(run.ended().await, Ended::Code(5));
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let (input, _input) = pipe().unwrap();
    let (_output, output) = pipe().unwrap();
    let streams = Streams {
        input: input.into(),
        output: output.try_clone().unwrap().into(),
        error: output.into(),
        terminal: false,
    };
    let Err(error) = start(&["no-such-program"], &With::default(), streams).await else {
        panic!("it was started");
    };
    let error = error.to_string();
    assert!(error.contains("could not be started (error 2)"), "{error}");
}

#[tokio::test]
async fn a_folder_is_no_stream() {
    let folder: OwnedFd = File::open("/").unwrap().into();
    let null = || OwnedFd::from(File::open("/dev/null").unwrap());
    let streams = Streams {
        input: folder,
        output: null(),
        error: null(),
        terminal: false,
    };
    let Err(error) = start(&["true"], &With::default(), streams).await else {
        panic!("it was started");
    };
    let error = error.to_string();
    assert!(
        error.contains("standard input is neither a pipe"),
        "{error}"
    );
}

#[tokio::test]
async fn a_program_controls_its_terminal() {
    let command = "tty; stty size; stty -echo; stty echo; sleep 0.01 & wait $!; \
                   script -qec tty /dev/null; trap 'echo interrupted; exit 3' INT; echo ready; \
                   while :; do sleep 0.05; done";
    let (mut run, mut terminal) = on_terminal(&["bash", "-c", command]).await;
    let shown = wait_for(&terminal, "ready").await;
    for expected in ["/dev/console\r\n", "30 90\r\n", "/dev/pts/0\r\n"] {
        assert!(shown.contains(expected), "{expected:?} is not in {shown:?}");
    }
    terminal.write_all(b"\x03").unwrap();
    wait_for(&terminal, "interrupted").await;
    assert_eq!(run.ended().await, Ended::Code(3));
}

#[tokio::test]
async fn a_stopped_program_goes_on_when_it_is_told_to() {
    let command = "echo ready; read line; echo \"then $line\"";
    let (mut run, mut terminal) = on_terminal(&["sh", "-c", command]).await;
    wait_for(&terminal, "ready").await;
    // Ctrl-Z.
    terminal.write_all(b"\x1a").unwrap();
    let change = tokio::time::timeout(PATIENCE, run.program.changed()).await;
    assert_eq!(change.unwrap(), Change::Stopped(20));
    run.program.signal(18).await.unwrap();
    terminal.write_all(b"more\n").unwrap();
    wait_for(&terminal, "then more").await;
    assert_eq!(run.ended().await, Ended::Code(0));
}

#[tokio::test]
async fn a_program_cannot_type_for_the_user() {
    needs("/usr/bin/python3");
    let program = "
import fcntl, os, termios
for name, terminal in ('given', 0), ('own', os.openpty()[1]), ('/dev/tty', os.open('/dev/tty', os.O_RDWR)):
    try:
        fcntl.ioctl(terminal, termios.TIOCSTI, b'x')
        print(name, 'typed')
    except OSError as error:
        print(name, error.strerror)
print('done')
";
    let (mut run, terminal) = on_terminal(&["python3", "-c", program]).await;
    let shown = wait_for(&terminal, "done").await;
    for name in ["given", "own", "/dev/tty"] {
        let expected = format!("{name} Operation not permitted");
        assert!(
            shown.contains(&expected),
            "{expected:?} is not in {shown:?}"
        );
    }
    assert_eq!(run.ended().await, Ended::Code(0));
}

#[tokio::test]
async fn a_program_has_the_walls_of_an_app() {
    let (open, closed) = (page_host(), page_host());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (work, home) = (folder.join("work"), folder.join("home"));
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("key"), "a key of the user's").unwrap();
    let command = format!(
        "echo done > result; cat {}/key 2>&1; \
         curl -s http://127.0.0.1:{}; curl -s http://127.0.0.1:{} || echo refused; \
         ps -e 2>/dev/null | grep -c sluice-serve; \
         printf '#!/bin/sh\\necho executed\\n' > /tmp/tool; chmod +x /tmp/tool; /tmp/tool; exit 0",
        home.display(),
        open.port(),
        closed.port()
    );
    let with = With {
        folder: Some(&work),
        port: Some(open.port()),
        host: None,
    };
    let mut run = piped(&["sh", "-c", &command], &with).await;
    let said = run.said().await;
    let said: Vec<&str> = said.lines().collect();
    assert!(said[0].ends_with("No such file or directory"), "{said:?}");
    assert_eq!(said[1..], ["hello", "refused", "0", "executed"]);
    let result = std::fs::read_to_string(work.join("result")).unwrap();
    assert_eq!(result, "done\n");
}

#[tokio::test]
async fn nothing_of_a_program_outlives_it() {
    let mark = format!("{}.77", 100_000 + std::process::id());
    let command = format!("setsid sleep {mark} & echo ready; sleep {mark}");
    let run = piped(&["sh", "-c", &command], &With::default()).await;
    wait_for(run.output.as_ref().unwrap(), "ready").await;
    drop(run);
    let alive = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|process| {
            let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            arguments
                .split(|it| *it == 0)
                .any(|it| it == mark.as_bytes())
        });
    assert!(!alive);
}

#[tokio::test]
async fn what_a_program_is_told_decides_where_it_may_connect() {
    let with = With {
        host: Some(page_host()),
        ..With::default()
    };
    let command = format!("while read line; do curl -s http://{NAME}/ || echo failed; done");
    let mut run = piped(&["sh", "-c", &command], &with).await;
    let mut input = run.input.take().unwrap();
    let output = run.output.take().unwrap();
    input.write_all(b"\n").unwrap();
    wait_for(&output, "hello").await;
    run.program.told(&Label::bottom());
    run.program.told(&secret());
    input.write_all(b"\n").unwrap();
    // At any time, as no call runs.
    let asked = tokio::time::timeout(PATIENCE, run.questions.recv()).await;
    let asked = asked.unwrap().unwrap().still_asked().unwrap();
    assert_eq!(asked.question().flow().host, NAME);
    assert_eq!(asked.settle_tcb(Answer::Once), None);
    wait_for(&output, "hello").await;
    input.write_all(b"\n").unwrap();
    let asked = tokio::time::timeout(PATIENCE, run.questions.recv()).await;
    asked.unwrap().unwrap().refuse("no user can be asked");
    wait_for(&output, "Sluice: refused: no user can be asked").await;
    drop(input);
    assert_eq!(run.ended().await, Ended::Code(0));
}

#[tokio::test]
async fn a_program_has_what_tools_of_developers_need() {
    needs("/usr/bin/python3");
    // Not below `/tmp`, where a program has pipes of its own.
    let work = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let work = work.path().canonicalize().unwrap();
    let program = "
import mmap, os, socket, subprocess
os.setresuid(-1, os.getuid(), -1)
mmap.mmap(-1, 4096).write(b'shared')
os.mkfifo('/tmp/jobs')
try:
    os.mkfifo('jobs')
    print('a pipe is left on the host')
except PermissionError:
    pass
print(socket.if_nameindex())
open('file', 'w').write('text')
subprocess.run(['cp', '-a', 'file', '/tmp/copy'], check=True)
print(open('/tmp/copy').read(), open('/etc/os-release').read().count('\\nID='))
";
    let with = With {
        folder: Some(&work),
        ..With::default()
    };
    let mut run = piped(&["python3", "-c", program], &with).await;
    assert_eq!(run.said().await, "[(1, 'lo')]\ntext 1\n");
}

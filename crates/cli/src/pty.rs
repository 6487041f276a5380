//! The standard streams of a program in a sandbox, and the relay between its terminal and the user's.
//!
//! The program gets a pseudo-terminal of its own in the place of the user's, so it cannot type for the user, read what is
//! typed for another program, or keep the terminal in a mode. [`Terminal::pause`] gives the user's terminal back for a
//! question.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write, stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
    tcsetwinsize,
};
use server::Streams;
use tokio::signal::unix::{SignalKind, signal};

/// Bytes that are moved at once.
const PIECE: usize = 16 << 10;
/// What a terminal sends for the end of input (`VEOF`).
const END_OF_INPUT: u8 = 4;
/// How long another size is shown, so that a program sees it and draws anew.
const OTHER_SIZE: Duration = Duration::from_millis(50);
/// How long answers of the terminal to a program's questions are waited for, so that they are not typed for the user.
const ANSWERS: Duration = Duration::from_millis(50);
/// Ends a sequence or a text for the terminal that the program has not ended.
const CANCEL: &str = "\x18\x1b\\";
/// Takes back what hides text, moves it or makes it other letters: margins (the cursor stays where it is), what a soft reset
/// does, colours and letters, a light screen, output that waits, long lines that are cut, a hidden cursor, insertion, and a
/// palette of the program's.
const RESET: &str = "\x1b7\x1b[?69l\x1b[r\x1b8\x1b[!p\x1b[0m\x1b(B\x0f\x1b[?5;2026l\x1b[?7;25h\x1b[4l\
    \x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\";

/// An order to the relay.
#[derive(Clone, Copy)]
enum Order {
    Pause = 0,
    Resume = 1,
    Resize = 2,
    Finish = 3,
}

/// What stands between the user's streams and those of a program.
pub(crate) struct Terminal {
    orders: Option<PipeWriter>,
    done: Receiver<()>,
    /// The relay, and copies of outputs that are not passed on as they are.
    threads: Vec<JoinHandle<()>>,
}

/// Opens the streams of a program. Those of the user that are a terminal are a pseudo-terminal for the program; pipes and
/// files are its own; all others are copied through a pipe. `input` is in the place of the user's. Needs a runtime.
pub(crate) fn open(input: Option<OwnedFd>) -> io::Result<(Streams, Terminal)> {
    let keys = stdin();
    let keys = input.as_ref().map_or(keys.as_fd(), AsFd::as_fd);
    open_on(keys, stdout().as_fd(), stderr().as_fd())
}

/// A pipe with what comes from `own`. `seen` has each piece before the program.
pub(crate) fn piped(
    own: BorrowedFd<'_>,
    seen: impl FnMut(&[u8]) + Send + 'static,
) -> io::Result<OwnedFd> {
    let mut from = File::from(own.try_clone_to_owned()?);
    let (theirs, mut to) = io::pipe()?;
    // Left alone at the end, since it may wait for input that never comes.
    thread::spawn(move || copy(&mut from, &mut to, seen));
    Ok(theirs.into())
}

fn open_on(
    keys: BorrowedFd<'_>,
    screen: BorrowedFd<'_>,
    errors: BorrowedFd<'_>,
) -> io::Result<(Streams, Terminal)> {
    let are = [isatty(keys), isatty(screen), isatty(errors)];
    let (done, is_done) = channel();
    let mut terminal = Terminal {
        orders: None,
        done: is_done,
        threads: Vec::new(),
    };
    let mut slave = None;
    if are.contains(&true) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
        let peer = ioctl_tiocgptpeer(&master, flags)?;
        let [on_keys, on_screen, _] = are;
        let own = match (on_keys, on_screen) {
            (true, _) => keys,
            (_, true) => screen,
            _ => errors,
        };
        let user = User {
            modes: tcgetattr(own)?,
            own: own.try_clone_to_owned()?,
            input: on_keys.then(|| keys.try_clone_to_owned()).transpose()?,
            output: File::from(match on_screen {
                true => screen.try_clone_to_owned()?,
                false => errors.try_clone_to_owned()?,
            }),
            // With a pipe beside it other programs write to the same terminal, and need its modes.
            raw: on_keys && on_screen,
        };
        let mut modes = user.modes.clone();
        if !user.raw {
            // The user's terminal does both.
            modes.local_modes -= LocalModes::ECHO;
            modes.output_modes -= OutputModes::OPOST;
        }
        tcsetattr(&peer, OptionalActions::Now, &modes)?;
        let (orders, to_relay) = io::pipe()?;
        let mut resized = signal(SignalKind::window_change())?;
        let resize = to_relay.try_clone()?;
        tokio::spawn(async move {
            while resized.recv().await.is_some() {
                // The relay has ended.
                if (&resize).write_all(&[Order::Resize as u8]).is_err() {
                    return;
                }
            }
        });
        let relay = Relay {
            user,
            master,
            orders,
            modes: Modes::default(),
            clipboard: Clipboard::default(),
            unsent: Vec::new(),
            is_paused: false,
            is_closed: false,
            done,
        };
        relay.resize();
        relay.user.make_raw()?;
        terminal.orders = Some(to_relay);
        terminal.threads.push(thread::spawn(move || relay.run()));
        slave = Some(peer);
    }
    let streams = Streams {
        input: input(keys, slave.as_ref())?,
        output: terminal.output(screen, slave.as_ref())?,
        error: terminal.output(errors, slave.as_ref())?,
        terminal: slave.is_some(),
    };
    Ok((streams, terminal))
}

fn input(own: BorrowedFd<'_>, slave: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    match slave.filter(|_| isatty(own)) {
        Some(slave) => slave.try_clone(),
        None if Streams::is_plain(own) => own.try_clone_to_owned(),
        None => piped(own, |_| ()),
    }
}

/// Copies to the end of either side. Not by `io::copy`, which has the kernel do it (`splice`): that holds the pipe while it
/// waits for a socket, so that the program could not even close it.
fn copy(from: &mut impl Read, to: &mut impl Write, mut seen: impl FnMut(&[u8])) {
    let mut piece = [0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let piece = piece.get(..length).unwrap_or_default();
        seen(piece);
        if to.write_all(piece).is_err() {
            return;
        }
    }
}

impl Terminal {
    fn output(&mut self, own: BorrowedFd<'_>, slave: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        match slave.filter(|_| isatty(own)) {
            Some(slave) => slave.try_clone(),
            None if Streams::is_plain(own) => own.try_clone_to_owned(),
            None => {
                let mut to = File::from(own.try_clone_to_owned()?);
                let (mut from, theirs) = io::pipe()?;
                let copy = move || copy(&mut from, &mut to, |_| ());
                self.threads.push(thread::spawn(copy));
                Ok(theirs.into())
            }
        }
    }

    /// Gives the terminal to the caller, in the mode that it had, with nothing of the program on it. What was typed before
    /// is thrown away: it was not an answer.
    pub(crate) fn pause(&self) {
        self.order(Order::Pause);
    }

    /// Gives the terminal back to the program, which draws anew.
    pub(crate) fn resume(&self) {
        self.order(Order::Resume);
    }

    /// Stops this process, as the program that was stopped by Ctrl-Z; returns when the user continues it.
    pub(crate) fn suspend(&self) {
        self.pause();
        let _ = kill_process(getpid(), Signal::STOP);
        self.resume();
    }

    /// Shows the rest of what the program has written, and gives the terminal back as it was. To be called when nothing of
    /// the program runs any more.
    pub(crate) fn finish(mut self) {
        self.order(Order::Finish);
        for thread in self.threads.drain(..) {
            // It has panicked, and left the terminal by that.
            let _ = thread.join();
        }
    }

    /// Gives an order and waits until it is done.
    fn order(&self, order: Order) {
        let sent = self
            .orders
            .as_ref()
            .map(|mut orders| orders.write_all(&[order as u8]));
        if let Some(Ok(())) = sent {
            // An error says that the relay has ended, and so the terminal is free.
            let _ = self.done.recv();
        }
    }
}

/// For the ways out on which [`Terminal::finish`] is not called.
impl Drop for Terminal {
    fn drop(&mut self) {
        self.order(Order::Finish);
    }
}

/// The user's terminal.
struct User {
    /// Its modes before.
    modes: Termios,
    own: OwnedFd,
    input: Option<OwnedFd>,
    output: File,
    /// Whether keys go to the program one by one, and not in lines.
    raw: bool,
}

impl User {
    fn make_raw(&self) -> rustix::io::Result<()> {
        let mut modes = self.modes.clone();
        modes.make_raw();
        match self.raw {
            true => tcsetattr(&self.own, OptionalActions::Flush, &modes),
            false => Ok(()),
        }
    }

    fn restore(&self) {
        // Refused only where the terminal is gone.
        let _ = tcsetattr(&self.own, OptionalActions::Flush, &self.modes);
    }
}

struct Relay {
    user: User,
    master: OwnedFd,
    orders: PipeReader,
    modes: Modes,
    clipboard: Clipboard,
    /// What was typed and the program has no room for yet.
    unsent: Vec<u8>,
    is_paused: bool,
    /// Whether nothing of the program has its terminal any more.
    is_closed: bool,
    done: std::sync::mpsc::Sender<()>,
}

impl Relay {
    fn run(mut self) {
        // An error of the user's terminal says that it is gone, which ends this process by a signal as well.
        let _ = self.relay();
        // A program that was killed has taken none of them back.
        self.take_back(&"\x1b[<u".repeat(self.modes.keyboard.into()));
        let _ = self.done.send(());
    }

    /// Takes the terminal from the program; `keyboard` does so for the keyboard protocol.
    fn take_back(&mut self, keyboard: &str) {
        let leave = self.modes.leave(keyboard);
        if self.user.output.write_all(leave.as_bytes()).is_ok() && !leave.is_empty() {
            thread::sleep(ANSWERS);
        }
        self.user.restore();
    }

    fn relay(&mut self) -> io::Result<()> {
        loop {
            let mut waits_for = PollFlags::empty();
            waits_for.set(PollFlags::IN, !self.is_paused);
            waits_for.set(PollFlags::OUT, !self.unsent.is_empty());
            let orders = PollFd::new(&self.orders, PollFlags::IN);
            let mut places = vec![orders, PollFd::new(&self.master, waits_for)];
            if self.is_closed {
                places.truncate(1);
            }
            // Not more than the program takes: a paste is as long as it is.
            let reads = !self.is_paused && self.unsent.is_empty() && !self.is_closed;
            if let Some(input) = self.user.input.as_ref().filter(|_| reads) {
                places.push(PollFd::new(input, PollFlags::IN));
            }
            rustix::io::retry_on_intr(|| poll(&mut places, None))?;
            let mut ready = places.iter().map(|place| !place.revents().is_empty());
            let (ordered, written) = (ready.next(), !self.is_closed && ready.next() == Some(true));
            let typed = ready.next() == Some(true);
            drop(places);
            if written {
                self.write()?;
                if !self.is_paused {
                    self.show()?;
                }
            }
            if typed {
                self.read()?;
            }
            if ordered == Some(true) && self.obey()? {
                return Ok(());
            }
        }
    }

    /// Shows what the program has written so far.
    fn show(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE];
        match rustix::io::read(&self.master, &mut piece) {
            Ok(length @ 1..) => {
                let piece = self.clipboard.kept(piece.get(..length).unwrap_or_default());
                self.modes.watch(&piece);
                self.user.output.write_all(&piece)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            // So a pseudo-terminal says that no program has it open.
            Ok(_) | Err(_) => {
                self.is_closed = true;
                Ok(())
            }
        }
    }

    /// Reads what was typed.
    fn read(&mut self) -> io::Result<()> {
        let Some(input) = &self.user.input else {
            return Ok(());
        };
        let mut piece = [0; PIECE];
        match rustix::io::retry_on_intr(|| rustix::io::read(input, &mut piece))? {
            0 if self.user.raw => self.user.input = None,
            0 => self.unsent.push(END_OF_INPUT),
            length => self.unsent.extend(piece.get(..length).unwrap_or_default()),
        }
        self.write()
    }

    /// Passes on what was typed, as much as there is room for.
    fn write(&mut self) -> io::Result<()> {
        match rustix::io::write(&self.master, &self.unsent) {
            Ok(length) => drop(self.unsent.drain(..length)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.unsent.clear(),
        }
        Ok(())
    }

    /// Does what is ordered; whether it is to end.
    fn obey(&mut self) -> io::Result<bool> {
        let mut order = [Order::Finish as u8];
        self.orders.read_exact(&mut order)?;
        let [order] = order;
        if order == Order::Resize as u8 {
            self.resize();
            return Ok(false);
        }
        if order == Order::Finish as u8 {
            while !self.is_closed && self.has_more()? {
                self.show()?;
            }
            return Ok(true);
        }
        self.is_paused = order == Order::Pause as u8;
        if self.is_paused {
            self.take_back("\x1b[>0u");
            // The question does not stand behind words of the program's.
            self.user.output.write_all(b"\r\n")?;
            self.unsent.clear();
        } else {
            self.user.make_raw()?;
            self.user.output.write_all(self.modes.enter().as_bytes())?;
            self.redraw();
        }
        let _ = self.done.send(());
        Ok(false)
    }

    fn has_more(&self) -> io::Result<bool> {
        let mut places = [PollFd::new(&self.master, PollFlags::IN)];
        let now = rustix::event::Timespec::default();
        Ok(rustix::io::retry_on_intr(|| poll(&mut places, Some(&now)))? > 0)
    }

    /// Gives the program's terminal the size of the user's.
    fn resize(&self) {
        if let Ok(size) = tcgetwinsize(&self.user.own) {
            let _ = tcsetwinsize(&self.master, size);
        }
    }

    /// Has the program draw anew, as after a change of the size.
    fn redraw(&self) {
        if let Ok(mut size) = tcgetwinsize(&self.user.own) {
            size.ws_row = size.ws_row.saturating_sub(1).max(1);
            let _ = tcsetwinsize(&self.master, size);
            thread::sleep(OTHER_SIZE);
            self.resize();
        }
    }
}

/// The modes of a terminal that a program sets by what it writes (`ESC [ ? NUMBER h` and `l`): another screen, the mouse, a
/// hidden cursor, marked pastes, and the kitty keyboard protocol.
#[derive(Default)]
struct Modes {
    /// Those that are not as at the start.
    changed: BTreeSet<u16>,
    /// Whether the program has written anything but text.
    has_controls: bool,
    /// Levels of the keyboard protocol.
    keyboard: u16,
    /// A sequence that is not complete, without its `ESC`.
    sequence: Option<Vec<u8>>,
}

impl Modes {
    /// Those that are set at the start: long lines are wrapped, and the cursor is shown.
    const ON: [u16; 2] = [7, 25];
    /// Those that are taken back, and set again.
    const KNOWN: [u16; 16] = [
        1, 6, 7, 25, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004, 2026,
    ];
    /// Longest sequence that sets modes.
    const LONGEST: usize = 64;

    fn watch(&mut self, written: &[u8]) {
        for byte in written {
            // Also the one-byte forms of sequences, and of other letters.
            self.has_controls |= matches!(byte, 0x0e | 0x1b | 0x80..=0x9f);
            match (&mut self.sequence, byte) {
                (_, 0x1b) => self.sequence = Some(Vec::new()),
                (Some(sequence), b'[' | b'0'..=b'9' | b';' | b'?' | b'<' | b'>')
                    if sequence.len() < Self::LONGEST =>
                {
                    sequence.push(*byte);
                }
                (Some(_), end) => {
                    let sequence = self.sequence.take().unwrap_or_default();
                    self.apply(&sequence, *end);
                }
                (None, _) => {}
            }
        }
    }

    fn apply(&mut self, sequence: &[u8], end: u8) {
        let text = str::from_utf8(sequence).unwrap_or_default();
        let private = text.strip_prefix("[?").unwrap_or_default();
        for mode in private.split(';').filter_map(|mode| mode.parse().ok()) {
            let is_known = Self::KNOWN.contains(&mode) && [b'h', b'l'].contains(&end);
            match is_known.then_some((end == b'h') == Self::ON.contains(&mode)) {
                Some(true) => drop(self.changed.remove(&mode)),
                Some(false) => drop(self.changed.insert(mode)),
                None => {}
            }
        }
        match end {
            b'u' if text.starts_with("[>") => self.keyboard += 1,
            b'u' if text.starts_with("[<") => self.keyboard = self.keyboard.saturating_sub(1),
            _ => {}
        }
    }

    /// The sequences that set the terminal back; `keyboard` does so for the keyboard protocol.
    fn leave(&self, keyboard: &str) -> String {
        match self.has_controls {
            true => format!("{CANCEL}{}{RESET}", self.all(true, keyboard)),
            false => String::new(),
        }
    }

    /// The sequences that set the modes again.
    fn enter(&self) -> String {
        self.all(false, "\x1b[<u")
    }

    fn all(&self, as_at_start: bool, keyboard: &str) -> String {
        let modes = self.changed.iter().map(|number| {
            let is_on = Self::ON.contains(number) == as_at_start;
            format!("\x1b[?{number}{}", if is_on { 'h' } else { 'l' })
        });
        let keyboard = (self.keyboard > 0).then(|| keyboard.to_owned());
        modes.chain(keyboard).collect()
    }
}

/// Leaves out what a program writes for the user's clipboard (`ESC ] 52 ;`, to `BEL` or `ST`), which is pasted elsewhere.
#[derive(Default)]
struct Clipboard {
    /// The beginning of what may become such a sequence.
    held: Vec<u8>,
    is_inside: bool,
}

impl Clipboard {
    /// Longest number of a sequence with its zeros; a longer one is passed on.
    const LONGEST: usize = 64;

    fn kept(&mut self, written: &[u8]) -> Vec<u8> {
        let mut kept = Vec::new();
        for byte in written {
            let is_end = matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b | 0x9c);
            if self.is_inside && *byte != 0x1b {
                self.is_inside = !is_end;
                continue;
            }
            self.is_inside = false;
            match (self.held.as_slice(), byte) {
                (_, 0x1b) | ([], 0xc2) => {
                    kept.append(&mut self.held);
                    self.held.push(*byte);
                }
                // The form of `ESC ]` for terminals that decode it as one letter.
                ([0x1b], b']') | ([0xc2], 0x9d) => self.held = b"\x1b]".to_vec(),
                ([0x1b, b']', ..], b'0'..=b'9') if self.held.len() < Self::LONGEST => {
                    self.held.push(*byte);
                }
                // Ignored by a terminal.
                ([0x1b, b']', ..], 0..0x20) if !is_end => {}
                ([0x1b, b']', number @ ..], b';') if number.ends_with(b"52") => {
                    let zeros = number.strip_suffix(b"52").unwrap_or_default();
                    self.is_inside = zeros.iter().all(|digit| *digit == b'0');
                    if !self.is_inside {
                        kept.append(&mut self.held);
                        kept.push(*byte);
                    }
                    self.held.clear();
                }
                _ => {
                    kept.append(&mut self.held);
                    kept.push(*byte);
                }
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use rustix::termios::InputModes;

    use super::*;

    /// A terminal of a user in a test: its other end, and the terminal.
    fn users_terminal() -> (File, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        (master.into(), slave)
    }

    /// Reads until this was read.
    fn wait_for(file: &mut File, text: &str) -> String {
        let mut seen = Vec::new();
        let mut piece = [0; 256];
        while !String::from_utf8_lossy(&seen).contains(text) {
            let length = file.read(&mut piece).unwrap();
            assert_ne!(
                length,
                0,
                "{text:?} is not in {:?}",
                String::from_utf8_lossy(&seen)
            );
            seen.extend(&piece[..length]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    }

    fn is_raw(terminal: &OwnedFd) -> bool {
        let modes = tcgetattr(terminal).unwrap();
        !modes.input_modes.contains(InputModes::ICRNL)
            && !modes.local_modes.contains(LocalModes::ICANON)
    }

    #[tokio::test]
    async fn a_question_has_the_terminal_and_the_program_gets_it_back() {
        let (mut user, terminal) = users_terminal();
        let own = terminal.as_fd();
        let (streams, relay) = open_on(own, own, own).unwrap();
        assert!(streams.terminal && is_raw(&terminal));
        let (mut keys, mut screen) = (File::from(streams.input), File::from(streams.output));
        // Another screen, the mouse, no cursor; and marked pastes only for a while.
        let set = "\x1b[?1049h\x1b[?1000;1006h\x1b[?25l\x1b[?2004h\x1b[?2004l\x1b[>1u";
        writeln!(screen, "{set}drawn").unwrap();
        wait_for(&mut user, "drawn");
        relay.pause();
        assert!(!is_raw(&terminal));
        let left = wait_for(&mut user, "\x1b[0m");
        for mode in ["?1049l", "?1000l", "?1006l", "?25h", ">0u"] {
            assert!(left.contains(mode), "{mode} is not in {left:?}");
        }
        assert!(!left.contains("2004"), "{left:?}");
        // The answer is for the question alone, and what the program writes meanwhile waits.
        screen.write_all(b"later\n").unwrap();
        user.write_all(b"yes\n").unwrap();
        let mut answer = [0; 4];
        rustix::io::read(&terminal, &mut answer).unwrap();
        assert_eq!(&answer, b"yes\n");
        relay.resume();
        assert!(is_raw(&terminal));
        let entered = wait_for(&mut user, "later");
        for mode in ["?1049h", "?25l", "<u"] {
            assert!(entered.contains(mode), "{mode} is not in {entered:?}");
        }
        user.write_all(b"more\r").unwrap();
        assert_eq!(wait_for(&mut keys, "\n"), "more\n");
        // Both ends of the program are closed, so the rest can be shown.
        screen.write_all(b"bye\n").unwrap();
        drop((keys, screen, streams.error));
        relay.finish();
        assert!(!is_raw(&terminal));
        let rest = wait_for(&mut user, "bye");
        assert!(!rest.is_empty());
    }

    #[tokio::test]
    async fn what_a_program_leaves_hides_no_question_and_fills_no_clipboard() {
        let (mut user, terminal) = users_terminal();
        let own = terminal.as_fd();
        let (streams, relay) = open_on(own, own, own).unwrap();
        let mut screen = File::from(streams.output);
        // Two copies, the second in pieces; then hidden letters, lines for letters, no room, and a title without an end.
        screen
            .write_all(b"a\x1b]52;c;Zm9v\x07b\x1b]0;title\x07c\x1b]05")
            .unwrap();
        wait_for(&mut user, "c");
        screen
            .write_all(b"2;c;Zm9v\x1b\\d\x1b[8m\x1b(0\x1b[1;2r\x1b]0;")
            .unwrap();
        let shown = wait_for(&mut user, "\x1b]0;");
        assert!(
            shown.starts_with("\x1b\\d") && !shown.contains("Zm9v"),
            "{shown:?}"
        );
        relay.pause();
        let left = wait_for(&mut user, "\r\n");
        assert!(left.starts_with("\x18\x1b\\"), "{left:?}");
        for back in ["\x1b[0m", "\x1b(B", "\x1b[r", "\x1b]111\x1b\\"] {
            assert!(left.contains(back), "{back:?} is not in {left:?}");
        }
        relay.resume();
        screen.write_all(b"\x1b[8m").unwrap();
        drop((screen, streams.input, streams.error));
        relay.finish();
        let rest = wait_for(&mut user, "\x1b]112");
        assert!(
            rest.ends_with(RESET) || rest.contains("\x1b[0m"),
            "{rest:?}"
        );
    }

    #[tokio::test]
    async fn a_pipe_beside_a_terminal_leaves_its_modes_alone() {
        let (mut user, terminal) = users_terminal();
        let (mut from, output) = io::pipe().unwrap();
        let own = terminal.as_fd();
        let (streams, relay) = open_on(own, output.as_fd(), own).unwrap();
        drop(output);
        assert!(!is_raw(&terminal));
        let (mut keys, mut screen) = (File::from(streams.input), File::from(streams.output));
        user.write_all(b"typed\n").unwrap();
        assert_eq!(wait_for(&mut keys, "\n"), "typed\n");
        screen.write_all(b"plain").unwrap();
        drop((keys, screen, streams.error));
        relay.finish();
        let mut said = String::new();
        from.read_to_string(&mut said).unwrap();
        assert_eq!(said, "plain");
    }

    #[tokio::test]
    async fn a_socket_is_copied_through_a_pipe() {
        use std::os::unix::net::UnixStream;

        let (mut user, theirs) = UnixStream::pair().unwrap();
        let own = theirs.as_fd();
        let (streams, relay) = open_on(own, own, own).unwrap();
        drop(theirs);
        assert!(Streams::is_plain(&streams.input) && Streams::is_plain(&streams.output));
        user.write_all(b"question").unwrap();
        let mut heard = [0; 8];
        File::from(streams.input).read_exact(&mut heard).unwrap();
        File::from(streams.output).write_all(&heard).unwrap();
        drop(streams.error);
        relay.finish();
        user.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"question");
    }
}

//! Unix sockets, where a spoke may have its own: every way to those of the host and of another spoke.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType,
};

use super::call::filled;
use super::network::{MARK, connect};
use crate::attempt::{Attempts, Ground, LATE_SOCKET, Observed, SOCKET, escaped, failed, held};
use crate::kernel::{call, flag};
use crate::neighbour;

/// Where a spoke finds its channel to the hub.
const CHANNEL: i32 = 3;
/// A socket of the spoke's own.
const OWN: &str = "/tmp/own-socket";

pub(super) fn add(attempts: &mut Attempts) {
    meant(attempts);
    by_path(attempts);
    in_folders(attempts);
    others(attempts);
}

fn meant(attempts: &mut Attempts) {
    attempts.group("Unix sockets of one's own", "they work inside");
    attempts.add_control("have a Unix socket, as is meant", |_| {
        works(UnixListener::bind(OWN).and_then(|_| UnixStream::connect(OWN).map(drop)))
    });
    attempts.add_control("have a Unix socket of datagrams, as is meant", |_| {
        works(UnixDatagram::bind(OWN).and_then(|it| {
            send(OWN, true)?;
            it.recv(&mut [0; 16]).map(drop)
        }))
    });
}

/// What is meant to work, and whatever it left is removed.
fn works(done: io::Result<()>) -> Observed {
    let _ = fs::remove_file(OWN);
    match done {
        Ok(()) => held("it works, as is meant"),
        Err(error) => failed(error),
    }
}

/// Sends a datagram to a path by `sendmsg`, with a descriptor if wanted.
fn send(path: &str, with_descriptor: bool) -> io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    let descriptor = File::open("/dev/null")?;
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if with_descriptor {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let (to, said) = (SocketAddrUnix::new(path)?, [IoSlice::new(MARK)]);
    Ok(rustix::net::sendmsg_addr(
        &socket,
        &to,
        &said,
        &mut control,
        SendFlags::empty(),
    )?)
}

/// Connects with a socket of this kind. That the other one is of another kind is known only after it was found.
fn connect_as(kind: SocketType, path: &str) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::UNIX, kind, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::PROTOTYPE) => Ok(()),
        other => Ok(other?),
    }
}

fn by_path(attempts: &mut Attempts) {
    attempts.group(
        "Unix sockets of the host",
        "none is reached, by whatever path and however late it was made",
    );
    for (when, socket) in [
        ("the host's socket", SOCKET),
        ("a later socket", LATE_SOCKET),
    ] {
        let path = move |ground: &Ground| format!("{}/{socket}", filled("{bin}", ground));
        for (kind, by) in [
            (SocketType::STREAM, "a stream"),
            (SocketType::SEQPACKET, "packets"),
            (SocketType::DGRAM, "datagrams"),
        ] {
            attempts.refused(
                format!("connect to {when} in a folder of programs by {by}"),
                move |ground| connect_as(kind, &path(ground)),
            );
        }
        for (what, with_descriptor) in [("a message", false), ("a descriptor", true)] {
            attempts.refused(
                format!("send {what} to {when} in a folder of programs"),
                move |ground| send(&format!("{}-datagrams", path(ground)), with_descriptor),
            );
        }
    }
    attempts.refused("connect one of a pair there", |ground| {
        UnixDatagram::pair().and_then(|(it, _)| it.connect(host(ground) + "-datagrams"))
    });
    attempts.refused("send there from one of a pair", |ground| {
        UnixDatagram::pair().and_then(|(it, _)| it.send_to(MARK, host(ground) + "-datagrams"))
    });
    for root in ["/proc/self/root", "/proc/1/root", "/proc/self/cwd/.."] {
        attempts.refused(format!("connect there by {root}"), move |ground| {
            UnixStream::connect(format!("{root}{}", host(ground)))
        });
    }
    attempts.refused("connect there by a link", |ground| {
        let link = "/tmp/link-to-socket";
        let connected = symlink(host(ground), link).and_then(|()| UnixStream::connect(link));
        let _ = fs::remove_file(link);
        connected
    });
    for (what, below) in [("the socket", ""), ("its folder", SOCKET)] {
        attempts.refused(
            format!("connect there by a descriptor of {what}"),
            move |ground| {
                let place = match below {
                    "" => host(ground),
                    _ => filled("{bin}", ground),
                };
                let mut options = OpenOptions::new();
                let opened = options.read(true).custom_flags(libc::O_PATH).open(place)?;
                UnixStream::connect(
                    format!("/proc/self/fd/{}/{below}", opened.as_raw_fd()).trim_end_matches('/'),
                )
            },
        );
    }
    attempts.refused("give it another name", |ground| {
        fs::hard_link(host(ground), "/tmp/hard").and_then(|()| UnixStream::connect("/tmp/hard"))
    });
    attempts.refused(
        "connect to the host's socket where it is on the host",
        |ground| {
            let folder = ground
                .secret_path
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder);
            UnixStream::connect(format!("{folder}/bin/{SOCKET}"))
        },
    );
    for place in [
        "/run/dbus/system_bus_socket",
        "/var/run/docker.sock",
        "/run/systemd/notify",
    ] {
        attempts.refused(format!("connect to {place}"), move |_| {
            connect_as(SocketType::STREAM, place)
        });
    }
    attempts.refused("connect to an abstract name of the host", |ground| {
        let name = std::os::unix::net::SocketAddr::from_abstract_name(&ground.abstract_name);
        name.and_then(|it| UnixStream::connect_addr(&it))
    });
    attempts.refused(
        "send a datagram to an abstract name of the host",
        |ground| {
            let name = std::os::unix::net::SocketAddr::from_abstract_name(&ground.abstract_name);
            UnixDatagram::unbound()?.send_to_addr(MARK, &name?)
        },
    );
}

/// The path of a socket of the host, in the spoke.
fn host(ground: &Ground) -> String {
    format!("{}/{SOCKET}", filled("{bin}", ground))
}

fn in_folders(attempts: &mut Attempts) {
    attempts.group(
        "names of sockets",
        "none is made where the host would see it",
    );
    for place in [
        "{bin}/host-socket",
        "{bin}/own",
        "/usr/own",
        "/usr/local/etc/own",
        "/etc/own",
        "/dev/own",
        "/proc/self/own",
        "/own",
    ] {
        attempts.refused(format!("bind a socket to {place}"), move |ground| {
            UnixListener::bind(filled(place, ground))
        });
    }
    attempts.refused("move a socket into a folder of programs", |ground| {
        let socket = UnixListener::bind(OWN);
        let moved = fs::rename(OWN, filled("{bin}/own", ground));
        let _ = fs::remove_file(OWN);
        socket.and(moved)
    });
    attempts.refused("move a socket over one of the host", |ground| {
        let socket = UnixListener::bind(OWN);
        let moved = fs::rename(OWN, host(ground));
        let _ = fs::remove_file(OWN);
        socket.and(moved)
    });
    attempts.refused("remove a socket of the host", |ground| {
        fs::remove_file(host(ground))
    });
}

fn others(attempts: &mut Attempts) {
    attempts.group("another spoke", "it is not reached, and neither is the hub");
    attempts.add("connect to another spoke's port", |_| {
        connect(SocketAddr::from((Ipv4Addr::LOCALHOST, neighbour::PORT)))
    });
    attempts.refused("connect to another spoke's socket", |_| {
        UnixStream::connect(neighbour::PATH)
    });
    attempts.refused("connect to another spoke's abstract name", |_| {
        let name = std::os::unix::net::SocketAddr::from_abstract_name(neighbour::NAME);
        name.and_then(|it| UnixStream::connect_addr(&it))
    });
    attempts.refused("listen on the channel", |_| {
        call(libc::SYS_listen, [flag(CHANNEL), 1])
    });
    attempts.refused("open the channel once more", |_| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/1/fd/{CHANNEL}"))
    });
    attempts.add("find a name at the other end of the channel", |_| {
        let mut name = [0_u8; 110];
        let mut length = 110_u32;
        let arguments = [
            flag(CHANNEL),
            crate::kernel::address_mut(&mut name),
            crate::kernel::address_mut(&mut length),
        ];
        match call(libc::SYS_getpeername, arguments) {
            // The family alone.
            Ok(_) if length <= 2 => held("none"),
            Ok(_) => escaped(String::from_utf8_lossy(&name).into_owned()),
            Err(error) => held(error),
        }
    });
    attempts.add(
        "find sockets of the host in the table",
        |_| match fs::read_to_string("/proc/self/net/unix") {
            Ok(table) if table.contains(SOCKET) || table.contains(neighbour::PATH) => {
                escaped("they are listed")
            }
            Ok(_) => held("not listed"),
            Err(error) => held(error),
        },
    );
}

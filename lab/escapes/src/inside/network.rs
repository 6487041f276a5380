//! The network: every family of sockets, and every way to the host's own listeners, which tell what reached them.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::Duration;

use crate::attempt::{Attempts, Ground, Observed, escaped, failed, held, nothing, writable};
use crate::kernel::{address, call, flag, made, open};

/// How long a connection may take to be refused: on loopback, or without a route, it takes no time.
const SOON: Duration = Duration::from_millis(300);
/// What is sent to whoever listens.
pub(crate) const MARK: &[u8] = b"escaped";
/// Families of sockets, by the kernel's numbers, with the names of those that have one in a manual.
const FAMILIES: [(i32, &str); 42] = [
    (3, "AX25"),
    (4, "IPX"),
    (5, "APPLETALK"),
    (6, "NETROM"),
    (7, "BRIDGE"),
    (8, "ATMPVC"),
    (9, "X25"),
    (11, "ROSE"),
    (12, "DECnet"),
    (13, "NETBEUI"),
    (14, "SECURITY"),
    (15, "KEY"),
    (16, "NETLINK"),
    (17, "PACKET"),
    (18, "ASH"),
    (19, "ECONET"),
    (20, "ATMSVC"),
    (21, "RDS"),
    (22, "SNA"),
    (23, "IRDA"),
    (24, "PPPOX"),
    (25, "WANPIPE"),
    (26, "LLC"),
    (27, "IB"),
    (28, "MPLS"),
    (29, "CAN"),
    (30, "TIPC"),
    (31, "BLUETOOTH"),
    (32, "IUCV"),
    (33, "RXRPC"),
    (34, "ISDN"),
    (35, "PHONET"),
    (36, "IEEE802154"),
    (37, "CAIF"),
    (38, "ALG"),
    (39, "NFC"),
    (40, "VSOCK"),
    (41, "KCM"),
    (42, "QIPCRTR"),
    (43, "SMC"),
    (44, "XDP"),
    (45, "MCTP"),
];

pub(super) fn add(attempts: &mut Attempts) {
    families(attempts);
    ways_out(attempts);
    options(attempts);
    unix(attempts);
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    open(libc::SYS_socket, [flag(family), flag(kind), flag(protocol)])
}

fn families(attempts: &mut Attempts) {
    attempts.group("socket families", "no socket but of TCP, and pairs");
    for (family, name) in FAMILIES {
        attempts.add(format!("a socket of AF_{name}"), move |_| {
            let kinds = [
                libc::SOCK_STREAM,
                libc::SOCK_DGRAM,
                libc::SOCK_RAW,
                libc::SOCK_SEQPACKET,
            ];
            // 0 is the family's own choice. Where a family wants its protocol named, this attempt is weaker than it
            // could be; netlink's are tried below.
            let tried = kinds.map(|kind| socket(family, kind, 0));
            let refusal = tried
                .iter()
                .find_map(|it| it.as_ref().err().map(ToString::to_string));
            match tried.iter().any(Result::is_ok) {
                true => escaped("a socket"),
                false => held(refusal.unwrap_or_default()),
            }
        });
    }
    let (four, six) = (libc::AF_INET, libc::AF_INET6);
    for (name, family, kind, protocol) in [
        ("UDP", four, libc::SOCK_DGRAM, 0),
        ("UDP over IPv6", six, libc::SOCK_DGRAM, 0),
        ("UDP-Lite", four, libc::SOCK_DGRAM, 136),
        ("ICMP", four, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        (
            "ICMP over IPv6",
            six,
            libc::SOCK_DGRAM,
            libc::IPPROTO_ICMPV6,
        ),
        ("raw IP", four, libc::SOCK_RAW, libc::IPPROTO_RAW),
        ("raw IPv6", six, libc::SOCK_RAW, libc::IPPROTO_RAW),
        ("MPTCP", four, libc::SOCK_STREAM, 262),
        ("SCTP", four, libc::SOCK_STREAM, 132),
        ("DCCP", four, 6, 33),
        ("SMC", four, libc::SOCK_STREAM, 256),
        ("old packets", four, 10, 0),
    ] {
        attempts.add(format!("a socket of {name}"), move |_| {
            nothing(socket(family, kind, protocol), "a socket")
        });
    }
    for (name, protocol) in [
        ("routes", 0),
        ("connections", 4),
        ("audit", 9),
        ("kernel events", 15),
        ("generic", 16),
    ] {
        attempts.add(format!("netlink for {name}"), move |_| {
            nothing(
                socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol),
                "a socket",
            )
        });
    }
}

/// Connects, and says so to whoever listens.
fn connect(to: SocketAddr) -> Observed {
    let done = TcpStream::connect_timeout(&to, SOON).and_then(|mut stream| {
        stream.set_read_timeout(Some(SOON))?;
        stream.write_all(MARK)?;
        // The host's listeners answer; the hub's end of a relay does not answer like this.
        let mut answer = [0; MARK.len()];
        stream.read_exact(&mut answer)?;
        match answer == *MARK {
            true => Ok(()),
            false => Err(io::Error::other("another answered")),
        }
    });
    nothing(done, "the host's listener answered")
}

/// Whether packets leave for this address.
fn way(to: SocketAddr, ground: &Ground) -> Observed {
    if to.is_ipv4() && ground.host_address.is_none() {
        return Observed::Absent("this machine has no way out itself".to_owned());
    }
    match TcpStream::connect_timeout(&to, SOON) {
        Ok(_) => escaped("connected"),
        Err(error) => match error.kind() {
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::PermissionDenied => held(error),
            // Whoever is silent, or refuses from afar, is there to be reached.
            _ => escaped(format!("packets left: {error}")),
        },
    }
}

fn ways_out(attempts: &mut Attempts) {
    attempts.group("ways out", "nothing reaches a listener of the host");
    for (name, to) in [
        ("loopback", "127.0.0.1"),
        ("another loopback address", "127.0.0.2"),
        ("the unspecified address", "0.0.0.0"),
        ("IPv6 loopback", "::1"),
        ("IPv4 in IPv6", "::ffff:127.0.0.1"),
        ("IPv6 unspecified", "::"),
    ] {
        attempts.add(format!("connect to the host by {name}"), move |ground| {
            to.parse::<IpAddr>()
                .map_or_else(failed, |it| connect(SocketAddr::new(it, ground.tcp)))
        });
    }
    attempts.add(
        "connect to the host by its own address",
        |ground| match ground.host_address.as_ref().map(|it| it.parse::<IpAddr>()) {
            Some(Ok(it)) => connect(SocketAddr::new(it, ground.tcp)),
            _ => Observed::Absent("this machine has no other address".to_owned()),
        },
    );
    attempts.add(
        "connect to the host by a permitted port of another address",
        |ground| {
            connect(SocketAddr::new(
                Ipv4Addr::new(127, 0, 0, 2).into(),
                ground.relayed,
            ))
        },
    );
    for (name, to) in [
        ("the metadata of a cloud", "169.254.169.254:80"),
        ("a private network", "10.0.0.1:443"),
        ("a public address", "192.0.2.1:443"),
        ("a public address over IPv6", "[2001:db8::1]:443"),
        // By interface 2, which is the first beside loopback.
        ("an IPv6 link-local address", "[fe80::1%2]:443"),
        ("a 6to4 address of loopback", "[2002:7f00:1::1]:443"),
    ] {
        attempts.add(format!("have a way to {name}"), move |ground| {
            to.parse().map_or_else(failed, |to| way(to, ground))
        });
    }
    attempts.add("send a datagram to the host", |ground| {
        let sent = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.set_read_timeout(Some(SOON))?;
            socket.send_to(MARK, ("127.0.0.1", ground.udp))?;
            socket.recv(&mut [0; 16])
        });
        nothing(sent, "the host answered")
    });
    attempts.add("ask a resolver of the world", |_| {
        let asked =
            UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"?", "192.0.2.53:53"));
        nothing(asked, "the question left")
    });
    attempts.add("resolve a name", |_| {
        nothing(
            std::net::ToSocketAddrs::to_socket_addrs("example.org:443"),
            "an address",
        )
    });
    attempts.add("connect while sending", |ground| {
        let sent = socket(libc::AF_INET, libc::SOCK_STREAM, 0).and_then(|socket| {
            let to = address_of(ground.tcp);
            call(
                libc::SYS_sendto,
                [
                    flag(socket.as_raw_fd()),
                    address(MARK),
                    MARK.len(),
                    flag(libc::MSG_FASTOPEN),
                    address(&to),
                    16,
                ],
            )
        });
        nothing(sent, "it went")
    });
    attempts.add("connect while writing", |ground| {
        let on = 1_i32;
        let done = socket(libc::AF_INET, libc::SOCK_STREAM, 0).and_then(|socket| {
            let (number, to) = (flag(socket.as_raw_fd()), address_of(ground.tcp));
            // TCP_FASTOPEN_CONNECT: the connection is made by the first write.
            call(libc::SYS_setsockopt, [number, 6, 30, address(&on), 4])?;
            call(libc::SYS_connect, [number, address(&to), 16])
        });
        nothing(done, "it went")
    });
    attempts.add("listen", |_| {
        nothing(TcpListener::bind("127.0.0.1:0"), "a listener of one's own")
    });
    attempts.add("take a port", |_| {
        let to = address_of(0);
        let done = socket(libc::AF_INET, libc::SOCK_STREAM, 0)
            .and_then(|socket| call(libc::SYS_bind, [flag(socket.as_raw_fd()), address(&to), 16]));
        nothing(done, "a port of one's own")
    });
    attempts.add("listen without a port", |_| {
        let done = socket(libc::AF_INET, libc::SOCK_STREAM, 0)
            .and_then(|socket| call(libc::SYS_listen, [flag(socket.as_raw_fd()), 1]));
        nothing(done, "a listener of one's own")
    });
    attempts.add("bind a port of the system", |_| {
        nothing(TcpListener::bind("0.0.0.0:22"), "bound")
    });
    attempts.add("change how the interface is set", |_| {
        // SIOCSIFFLAGS, by a socket of TCP.
        let request = [0_u8; 40];
        let done = socket(libc::AF_INET, libc::SOCK_STREAM, 0).and_then(|socket| {
            call(
                libc::SYS_ioctl,
                [flag(socket.as_raw_fd()), 0x8914, address(&request)],
            )
        });
        nothing(done, "set")
    });
    attempts.add("list the interfaces by a control of a socket", |_| {
        // SIOCGIFCONF without a buffer, which asks how long the list is.
        let mut request = [0_usize; 2];
        let done = socket(libc::AF_INET, libc::SOCK_STREAM, 0).and_then(|socket| {
            call(
                libc::SYS_ioctl,
                [
                    flag(socket.as_raw_fd()),
                    0x8912,
                    crate::kernel::address_mut(&mut request),
                ],
            )
        });
        nothing(done, "listed")
    });
}

/// `sockaddr_in` of a port of 127.0.0.1.
fn address_of(port: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&2_u16.to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4] = 127;
    bytes[7] = 1;
    bytes
}

fn options(attempts: &mut Attempts) {
    attempts.group(
        "socket options",
        "none that takes memory, programs the kernel or leaves the interface",
    );
    for (name, level, option) in [
        (
            "larger buffers for sending",
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
        ),
        (
            "larger buffers for receiving",
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
        ),
        ("a mark for the router", libc::SOL_SOCKET, libc::SO_MARK),
        (
            "a priority over others",
            libc::SOL_SOCKET,
            libc::SO_PRIORITY,
        ),
        (
            "polling of the device",
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
        ),
        (
            "copying without a copy",
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
        ),
        (
            "addresses of others",
            libc::IPPROTO_IP,
            libc::IP_TRANSPARENT,
        ),
        (
            "addresses that are not there",
            libc::IPPROTO_IP,
            libc::IP_FREEBIND,
        ),
        ("another protocol on top", libc::IPPROTO_TCP, libc::TCP_ULP),
        (
            "another congestion control",
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
        ),
        ("repair of connections", libc::IPPROTO_TCP, libc::TCP_REPAIR),
        ("keys for connections", libc::IPPROTO_TCP, libc::TCP_MD5SIG),
    ] {
        attempts.add(format!("set {name}"), move |_| {
            let name = *b"reno";
            let one = 1_i32;
            let (value, answers) = match (level, option) {
                (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => (address(&name), &[][..]),
                // There is no protocol of this name, which the kernel says when it has looked for it.
                (libc::IPPROTO_TCP, libc::TCP_ULP) => (address(&name), &[libc::ENOENT][..]),
                // A key is longer than what is given, which the kernel says when it is asked for one.
                (libc::IPPROTO_TCP, libc::TCP_MD5SIG) => (address(&one), &[libc::EINVAL][..]),
                _ => (address(&one), &[][..]),
            };
            let done = socket(libc::AF_INET, libc::SOCK_STREAM, 0).and_then(|socket| {
                call(
                    libc::SYS_setsockopt,
                    [
                        flag(socket.as_raw_fd()),
                        flag(level),
                        flag(option),
                        value,
                        4,
                    ],
                )
            });
            nothing(made(done, answers), "set")
        });
    }
    attempts.add("run a program in the kernel for each packet", |_| {
        // One instruction of the old kind: let it pass.
        let program = [0x06_u16.to_ne_bytes(), [0, 0], [0xff, 0xff], [0, 0]].concat();
        let filter = [1_usize, address(program.as_slice())];
        let done = socket(libc::AF_INET, libc::SOCK_STREAM, 0).and_then(|socket| {
            call(
                libc::SYS_setsockopt,
                [
                    flag(socket.as_raw_fd()),
                    flag(libc::SOL_SOCKET),
                    flag(libc::SO_ATTACH_FILTER),
                    address(&filter),
                    16,
                ],
            )
        });
        nothing(done, "attached")
    });
}

fn unix(attempts: &mut Attempts) {
    attempts.group(
        "Unix sockets",
        "none of the host is reached, and none is left in a mount",
    );
    attempts.add("connect to the host's socket in a mount", |ground| {
        nothing(UnixStream::connect(&ground.unix), "connected")
    });
    attempts.add(
        "send a datagram to the host's socket in a mount",
        |ground| {
            let sent = UnixDatagram::unbound()
                .and_then(|it| it.send_to(MARK, format!("{}-datagrams", ground.unix)));
            nothing(sent, "sent")
        },
    );
    attempts.add("send a datagram there from one of a pair", |ground| {
        let sent = UnixDatagram::pair()
            .and_then(|(it, _)| it.send_to(MARK, format!("{}-datagrams", ground.unix)));
        nothing(sent, "sent")
    });
    attempts.add("connect one of a pair to the host's socket", |ground| {
        // Of datagrams: one of a pair of streams cannot be connected to another.
        let connected = UnixDatagram::pair()
            .and_then(|(it, _)| it.connect(format!("{}-datagrams", ground.unix)));
        nothing(connected, "connected")
    });
    attempts.add("connect to an abstract socket of the host", |ground| {
        let name = std::os::unix::net::SocketAddr::from_abstract_name(&ground.abstract_name);
        nothing(
            name.and_then(|it| UnixStream::connect_addr(&it)),
            "connected",
        )
    });
    attempts.add("leave a socket in a writable mount", |_| {
        let name = format!("{}/socket", writable());
        let made = UnixListener::bind(&name);
        let _ = std::fs::remove_file(name);
        nothing(made, "it is there")
    });
    attempts.add("bind one of a pair to a name in a writable mount", |_| {
        let name = format!("{}/pair", writable());
        let made = UnixStream::pair().and_then(|(it, _)| {
            let mut to = [0_u8; 110];
            to[0] = 1;
            for (place, byte) in to.iter_mut().skip(2).zip(name.bytes()) {
                *place = byte;
            }
            let number = flag(it.as_raw_fd());
            // Not to listen: a socket that is connected cannot. That it is left in the mount is what counts.
            call(libc::SYS_bind, [number, address(&to), 2 + name.len() + 1])
        });
        let _ = std::fs::remove_file(name);
        nothing(made, "a socket in the mount")
    });
    attempts.add("write into a named pipe of the host", |ground| {
        let pipe = format!("{}-pipe", ground.unix);
        let written = std::fs::OpenOptions::new()
            .write(true)
            .open(pipe)
            .and_then(|mut it| it.write_all(MARK));
        nothing(written, "written")
    });
}

//! The network: every family of sockets, and every way to the host's own listeners, which tell what reached them.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};

use libc::{
    AF_INET, AF_INET6, AF_NETLINK, IP_FREEBIND, IP_TRANSPARENT, IPPROTO_IP, IPPROTO_TCP,
    MSG_FASTOPEN, SO_BUSY_POLL, SO_MARK, SO_PRIORITY, SO_RCVBUF, SO_SNDBUF, SO_ZEROCOPY,
    SOCK_DGRAM, SOCK_RAW, SOCK_STREAM, SOL_SOCKET, TCP_CONGESTION, TCP_MD5SIG, TCP_REPAIR, TCP_ULP,
};

use super::call::Arg::{Address, Tcp, Words};
use super::call::{CWD, calls, filled, half_of_a_pair, loopback, socket};
use crate::attempt::{Attempts, Ground, Observed, SOCKET, escaped, failed, held, nothing};
use crate::kernel::{address, call, flag};

/// How long a connection may take to be refused: on loopback, or without a route, it takes no time.
pub(super) const SOON: Duration = Duration::from_millis(300);
/// What is sent to whoever listens.
pub(crate) const MARK: &[u8] = b"escaped";
/// Families of sockets by the kernel's numbers, from 3 on; `-` for those that are tried by their protocols.
const FAMILIES: &str = "AX25 IPX APPLETALK NETROM BRIDGE ATMPVC X25 - ROSE DECnet NETBEUI SECURITY KEY NETLINK PACKET ASH \
    ECONET ATMSVC RDS SNA IRDA PPPOX WANPIPE LLC IB MPLS CAN TIPC BLUETOOTH IUCV RXRPC ISDN PHONET IEEE802154 CAIF ALG NFC \
    VSOCK KCM QIPCRTR SMC XDP MCTP";

pub(super) fn add(attempts: &mut Attempts) {
    families(attempts);
    ways_out(attempts);
    listening(attempts);
    options(attempts);
    unix(attempts);
}

fn families(attempts: &mut Attempts) {
    attempts.group("socket families", "no socket but of TCP, and pairs");
    for (family, name) in (3..)
        .zip(FAMILIES.split_whitespace())
        .filter(|(_, name)| *name != "-")
    {
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
    calls!(attempts.call;
        "a socket of UDP": SYS_socket(AF_INET, SOCK_DGRAM, 0);
        "a socket of UDP over IPv6": SYS_socket(AF_INET6, SOCK_DGRAM, 0);
        "a socket of UDP-Lite": SYS_socket(AF_INET, SOCK_DGRAM, 136);
        "a socket of ICMP": SYS_socket(AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP);
        "a socket of ICMP over IPv6": SYS_socket(AF_INET6, SOCK_DGRAM, libc::IPPROTO_ICMPV6);
        "a socket of raw IP": SYS_socket(AF_INET, SOCK_RAW, libc::IPPROTO_RAW);
        "a socket of raw IPv6": SYS_socket(AF_INET6, SOCK_RAW, libc::IPPROTO_RAW);
        "a socket of MPTCP": SYS_socket(AF_INET, SOCK_STREAM, 262);
        "a socket of SCTP": SYS_socket(AF_INET, SOCK_STREAM, 132);
        "a socket of DCCP": SYS_socket(AF_INET, 6, 33);
        "a socket of SMC": SYS_socket(AF_INET, SOCK_STREAM, 256);
        "a socket of old packets": SYS_socket(AF_INET, 10, 0);
        "netlink for routes": SYS_socket(AF_NETLINK, SOCK_RAW, 0);
        "netlink for connections": SYS_socket(AF_NETLINK, SOCK_RAW, 4);
        "netlink for audit": SYS_socket(AF_NETLINK, SOCK_RAW, 9);
        "netlink for kernel events": SYS_socket(AF_NETLINK, SOCK_RAW, 15);
        "netlink for generic": SYS_socket(AF_NETLINK, SOCK_RAW, 16);
    );
}

/// Connects, and says so to whoever listens.
pub(super) fn connect(to: SocketAddr) -> Observed {
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
    attempts.refused("send a datagram to the host", |ground| {
        UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.set_read_timeout(Some(SOON))?;
            socket.send_to(MARK, ("127.0.0.1", ground.udp))?;
            socket.recv(&mut [0; 16])
        })
    });
    attempts.refused("ask a resolver of the world", |_| {
        UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"?", "192.0.2.53:53"))
    });
    attempts.refused("resolve a name", |_| {
        std::net::ToSocketAddrs::to_socket_addrs("example.org:443")
    });
    attempts.refused("connect while writing", |ground| {
        let on = 1_i32;
        socket(AF_INET, SOCK_STREAM, 0).and_then(|socket| {
            let (number, to) = (flag(socket.as_raw_fd()), loopback(ground.tcp));
            // TCP_FASTOPEN_CONNECT: the connection is made by the first write.
            call(libc::SYS_setsockopt, [number, 6, 30, address(&on), 4])?;
            call(libc::SYS_connect, [number, address(&to), 16])
        })
    });
    attempts.refused("bind a port of the system", |_| {
        TcpListener::bind("0.0.0.0:22")
    });
    calls!(attempts.call;
        "connect while sending": SYS_sendto(Tcp, b"escaped", 7, MSG_FASTOPEN, Address, 16);
        // SIOCSIFFLAGS, by a socket of TCP.
        "change how the interface is set": SYS_ioctl(Tcp, 0x8914, Words(&[0; 5]));
        // SIOCGIFCONF without a buffer, which asks how long the list is.
        "list the interfaces by a control of a socket": SYS_ioctl(Tcp, 0x8912, Words(&[0, 0]));
    );
}

fn listening(attempts: &mut Attempts) {
    attempts.group(
        "listening",
        "nothing on the host hears of it, and the hub's ports are the hub's",
    );
    attempts.add_control(
        "listen for oneself, as is meant",
        |_| match TcpListener::bind("127.0.0.1:0")
            .and_then(|it| TcpStream::connect(it.local_addr()?))
        {
            Ok(_) => held("connected, as is meant"),
            Err(error) => failed(error),
        },
    );
    attempts.add("take a port of the host", |ground| {
        // The host listens there on every address, so in its network the port is taken.
        match TcpListener::bind(("127.0.0.1", ground.tcp)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => escaped(error),
            Err(error) => held(error),
            Ok(_) => held("a port of one's own network"),
        }
    });
    attempts.add("listen on the host without a port", |ground| {
        let listening = socket(AF_INET, SOCK_STREAM, 0)
            .and_then(|it| call(libc::SYS_listen, [flag(it.as_raw_fd()), 1]));
        match (listening, of_the_host(ground)) {
            (Ok(_), true) => escaped("the host's network has a listener of ours"),
            (Ok(_), false) => held("in one's own network"),
            (Err(error), _) => held(error),
        }
    });
    for address in ["127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"] {
        attempts.refused(format!("listen on the hub's port by {address}"), |ground| {
            in_the_place_of_another(address, ground.relayed, SocketType::STREAM)
        });
    }
}

/// Whether the network is the host's: its listener is in the table then.
fn of_the_host(ground: &Ground) -> bool {
    // Ports are in hexadecimal there.
    let port = format!(":{:04X} ", ground.tcp);
    std::fs::read_to_string("/proc/self/net/tcp6").is_ok_and(|table| table.contains(&port))
}

/// Takes an address where another socket may be, with all that lets two have the same.
pub(super) fn in_the_place_of_another(
    address: &str,
    port: u16,
    kind: SocketType,
) -> io::Result<()> {
    let to = SocketAddr::new(address.parse().map_err(io::Error::other)?, port);
    let family = match to.is_ipv4() {
        true => AddressFamily::INET,
        false => AddressFamily::INET6,
    };
    let socket = rustix::net::socket(family, kind, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &to)?;
    match kind {
        SocketType::STREAM => Ok(rustix::net::listen(&socket, 1)?),
        _ => Ok(()),
    }
}

fn options(attempts: &mut Attempts) {
    attempts.group(
        "socket options",
        "none that takes memory, programs the kernel or leaves the interface",
    );
    calls!(attempts.call;
        "set larger buffers for sending": SYS_setsockopt(Tcp, SOL_SOCKET, SO_SNDBUF, Words(&[1]), 4);
        "set larger buffers for receiving": SYS_setsockopt(Tcp, SOL_SOCKET, SO_RCVBUF, Words(&[1]), 4);
        "set a mark for the router": SYS_setsockopt(Tcp, SOL_SOCKET, SO_MARK, Words(&[1]), 4);
        "set a priority over others": SYS_setsockopt(Tcp, SOL_SOCKET, SO_PRIORITY, Words(&[1]), 4);
        "set polling of the device": SYS_setsockopt(Tcp, SOL_SOCKET, SO_BUSY_POLL, Words(&[1]), 4);
        "set copying without a copy": SYS_setsockopt(Tcp, SOL_SOCKET, SO_ZEROCOPY, Words(&[1]), 4);
        "set addresses of others": SYS_setsockopt(Tcp, IPPROTO_IP, IP_TRANSPARENT, Words(&[1]), 4);
        "set addresses that are not there": SYS_setsockopt(Tcp, IPPROTO_IP, IP_FREEBIND, Words(&[1]), 4);
        // There is no protocol of this name, which the kernel says when it has looked for it.
        "set another protocol on top": SYS_setsockopt(Tcp, IPPROTO_TCP, TCP_ULP, b"reno", 4) or ENOENT;
        "set another congestion control": SYS_setsockopt(Tcp, IPPROTO_TCP, TCP_CONGESTION, b"reno", 4);
        "set repair of connections": SYS_setsockopt(Tcp, IPPROTO_TCP, TCP_REPAIR, Words(&[1]), 4);
        // A key is longer than what is given, which the kernel says when it is asked for one.
        "set keys for connections": SYS_setsockopt(Tcp, IPPROTO_TCP, TCP_MD5SIG, Words(&[1]), 4) or EINVAL;
    );
    attempts.refused("run a program in the kernel for each packet", |_| {
        // One instruction of the old kind: let it pass.
        let program = [0x06_u16.to_ne_bytes(), [0, 0], [0xff, 0xff], [0, 0]].concat();
        let filter = [1_usize, address(program.as_slice())];
        socket(AF_INET, SOCK_STREAM, 0).and_then(|socket| {
            let (level, option) = (flag(SOL_SOCKET), flag(libc::SO_ATTACH_FILTER));
            let arguments = [
                flag(socket.as_raw_fd()),
                level,
                option,
                address(&filter),
                16,
            ];
            call(libc::SYS_setsockopt, arguments)
        })
    });
}

fn unix(attempts: &mut Attempts) {
    attempts.group(
        "Unix sockets",
        "none of the host is reached, and none is left in a mount",
    );
    attempts.refused("connect to the host's socket in a mount", |ground| {
        UnixStream::connect(&ground.unix)
    });
    for (mount, folder) in [("writable mount", "{rw}"), ("mount for programs", "{bin}")] {
        let path = move |ground: &Ground| format!("{}/{SOCKET}", filled(folder, ground));
        attempts.refused(
            format!("connect to the host's socket in a {mount}"),
            move |ground| UnixStream::connect(path(ground)),
        );
        attempts.refused(
            format!("send a datagram to the host's socket in a {mount}"),
            move |ground| send_to(&format!("{}-datagrams", path(ground))),
        );
    }
    let datagrams = |ground: &Ground| format!("{}-datagrams", ground.unix);
    attempts.refused(
        "send a datagram to the host's socket in a mount",
        move |ground| send_to(&datagrams(ground)),
    );
    attempts.refused("send a datagram there from one of a pair", move |ground| {
        half_of_a_pair().and_then(|it| it.send_to(MARK, datagrams(ground)))
    });
    attempts.refused(
        "connect one of a pair to the host's socket",
        move |ground| {
            // Of datagrams: one of a pair of streams cannot be connected to another.
            half_of_a_pair().and_then(|it| it.connect(datagrams(ground)))
        },
    );
    attempts.refused("connect to an abstract socket of the host", |ground| {
        let name = std::os::unix::net::SocketAddr::from_abstract_name(&ground.abstract_name);
        name.and_then(|it| UnixStream::connect_addr(&it))
    });
    attempts.refused("leave a socket in a writable mount", |ground| {
        let name = filled("{rw}/socket", ground);
        let made = UnixListener::bind(&name);
        let _ = std::fs::remove_file(name);
        made
    });
    attempts.refused(
        "bind one of a pair to a name in a writable mount",
        |ground| {
            let name = filled("{rw}/pair", ground);
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
            made
        },
    );
    calls!(attempts.call;
        "write into a named pipe of the host": SYS_openat(CWD, "{unix}-pipe", libc::O_WRONLY);
    );
}

fn send_to(path: &str) -> io::Result<usize> {
    UnixDatagram::unbound().and_then(|it| it.send_to(MARK, path))
}

//! What a spoke's own network has: loopback, the listeners of the hub, and addresses that stand for names.
//!
//! Interfaces and routes are set by route-netlink requests. (The other way are ioctls, which need `unsafe`.)

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::layers::{Failure, Layers};
use crate::spec::{NAMES_NETWORK, RESOLVER_PORT};
use crate::{Layer, Spec};

/// The congestion control of a spoke's own network, which every kernel has. On loopback there is no congestion, and one
/// that paces what it sends, as BBR does where it is the machine's default, sets a timer for each packet: that took more
/// time than all else that the hub does for a large transfer.
const CONGESTION_CONTROL: &str = "reno";

/// The hub's sockets in the spoke's network.
pub(super) struct Sockets {
    /// On 127.0.0.1, with their ports.
    pub(super) listeners: Vec<(u16, TcpListener)>,
    /// Where every name leads, with their ports.
    pub(super) names: Vec<(u16, TcpListener)>,
    resolver: Option<UdpSocket>,
}

impl Sockets {
    /// All of them, in the order in which the hub expects them.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let listeners = self.listeners.iter().chain(&self.names);
        let listeners = listeners.map(|(_, listener)| listener.as_fd());
        let resolver = self.resolver.iter().map(AsFd::as_fd);
        listeners.chain(resolver).collect()
    }
}

/// Opens the hub's sockets in the spoke's own network.
pub(super) fn open(
    layers: &mut Layers,
    spec: &Spec,
    own_network: bool,
) -> Result<Sockets, Failure> {
    if own_network {
        bring_loopback_up().map_err(|reason| Failure::of(Layer::NetNamespace, reason))?;
    }
    let listen = |address, port| match TcpListener::bind(SocketAddrV4::new(address, port)) {
        Ok(listener) => {
            // An accepted socket has it from the one that listens. It must have it from the start, since a socket that has
            // been paced once stays so. Without it a transfer only takes longer.
            let _ = set_tcp_congestion(&listener, CONGESTION_CONTROL);
            Ok((port, listener))
        }
        Err(error) => Err(Failure::plain(format!(
            "listen on port {port} in the sandbox: {error}"
        ))),
    };
    let listeners = spec.listen.iter();
    let listeners = listeners.map(|port| listen(Ipv4Addr::LOCALHOST, *port));
    let mut sockets = Sockets {
        listeners: listeners.collect::<Result<_, _>>()?,
        names: Vec::new(),
        resolver: None,
    };
    if spec.names.is_empty() {
        return Ok(sockets);
    }
    if !own_network {
        // Only a probe gets here: a specification with names does not give the network up.
        layers.note("no names, as there is no network of its own");
        return Ok(sockets);
    }
    make_names_local().map_err(|reason| Failure::of(Layer::NetNamespace, reason))?;
    // Any address: each of the network is local, and the hub asks which one it was.
    let names = spec.names.iter();
    let names = names.map(|port| listen(Ipv4Addr::UNSPECIFIED, *port));
    sockets.names = names.collect::<Result<_, _>>()?;
    let resolver = SocketAddrV4::new(Ipv4Addr::LOCALHOST, RESOLVER_PORT);
    let queries = UdpSocket::bind(resolver)
        .map_err(|error| Failure::plain(format!("bind the resolver in the sandbox: {error}")))?;
    sockets.resolver = Some(queries);
    let (network, prefix) = NAMES_NETWORK;
    layers.detail(
        Layer::NetNamespace,
        &format!("names lead to the hub by {network}/{prefix}"),
    );
    Ok(sockets)
}

/// The first interface of every network namespace.
const LOOPBACK_INDEX: u32 = 1;

/// Brings the loopback interface of a new network namespace up.
fn bring_loopback_up() -> Result<(), String> {
    const RTM_NEWLINK: u16 = 16;
    const IFF_UP: u32 = 1;

    // The kernel makes it down, and until it is up not even 127.0.0.1 is there.
    let mut body = Vec::with_capacity(16);
    body.extend([0; 4]); // address family and device type: any
    body.extend(LOOPBACK_INDEX.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes()); // only this flag changes
    request(RTM_NEWLINK, 0, &body).map_err(|reason| format!("bring loopback up: {reason}"))
}

/// Makes every address of names one of this machine, as `ip route add local 25.18.0.0/15 dev lo` does. No other route is
/// there, so a connection to one of them stays here, and a connection to anything else goes nowhere.
fn make_names_local() -> Result<(), String> {
    const RTM_NEWROUTE: u16 = 24;
    const CREATE_ONLY: u16 = 0x400 | 0x200;
    const FAMILY_IPV4: u8 = 2;
    const TABLE_LOCAL: u8 = 255;
    const SET_AT_BOOT: u8 = 3; // by no routing daemon
    const SCOPE_HOST: u8 = 254;
    const TYPE_LOCAL: u8 = 2;
    const ATTRIBUTE_DESTINATION: u16 = 1;
    const ATTRIBUTE_INTERFACE: u16 = 4;
    const ATTRIBUTE_METRICS: u16 = 8;
    const METRIC_CONGESTION_CONTROL: u16 = 16;

    let (network, prefix) = NAMES_NETWORK;
    let mut body = Vec::with_capacity(44);
    body.extend([FAMILY_IPV4, prefix, 0, 0]);
    body.extend([TABLE_LOCAL, SET_AT_BOOT, SCOPE_HOST, TYPE_LOCAL]);
    body.extend([0; 4]); // flags
    body.extend(attribute(ATTRIBUTE_DESTINATION, &network.octets()));
    body.extend(attribute(
        ATTRIBUTE_INTERFACE,
        &LOOPBACK_INDEX.to_ne_bytes(),
    ));
    // For what the spoke sends, which has no listener to have it from.
    let control = attribute(METRIC_CONGESTION_CONTROL, CONGESTION_CONTROL.as_bytes());
    body.extend(attribute(ATTRIBUTE_METRICS, &control));
    request(RTM_NEWROUTE, CREATE_ONLY, &body)
        .map_err(|reason| format!("make the addresses of names local: {reason}"))
}

/// An attribute of a request, filled up to a multiple of four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    const HEADER: u16 = 4;

    // The longest value is a few bytes.
    let length = u16::try_from(value.len()).unwrap_or_default() + HEADER;
    let mut attribute = Vec::with_capacity(usize::from(length.next_multiple_of(4)));
    attribute.extend(length.to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// Makes one request, and waits until the kernel says that it is done.
fn request(kind: u16, flags: u16, body: &[u8]) -> Result<(), String> {
    const NLMSG_ERROR: u16 = 2;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const HEADER: usize = 16;

    let length = u32::try_from(HEADER + body.len()).map_err(|error| error.to_string())?;
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(length.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((REQUEST_AND_ACKNOWLEDGE | flags).to_ne_bytes());
    request.extend([0; 8]); // sequence number and port: one request, answered on this socket
    request.extend(body);

    let mut answer = [0; 256];
    let mut exchange = || -> rustix::io::Result<usize> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None, // protocol 0: routes and interfaces
        )?;
        rustix::net::send(&socket, &request, rustix::net::SendFlags::empty())?;
        rustix::net::recv(&socket, &mut answer, rustix::net::RecvFlags::empty())
            .map(|(length, _)| length)
    };
    exchange().map_err(|errno| errno.to_string())?;
    // An acknowledgement is an error message with the number 0.
    let kind = answer
        .get(4..6)
        .map(|bytes| bytes == NLMSG_ERROR.to_ne_bytes());
    match (kind, answer.get(16..20)) {
        (Some(true), Some([0, 0, 0, 0])) => Ok(()),
        (_, code) => Err(format!("the kernel answered {code:?}")),
    }
}

//! Which addresses belong to the public internet.
//!
//! A name in a configuration is resolved by its owner, who can say that it is a router, a
//! database next door, or the service that hands a cloud machine its keys. So a connection goes to a
//! public address, or to one that the configuration names.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Where Azure answers its virtual machines, credentials included: an address of the public range
/// that is not routed. The metadata services of others have link-local or private addresses.
const AZURE_HOST: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Networks that are no part of the public internet (IANA's registry of special-purpose addresses,
/// RFC 6890), each with the length of its prefix.
const SPECIAL_V4: [(Ipv4Addr, u32); 16] = [
    // "This host on this network"; Linux connects to itself.
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    // Private use (RFC 1918).
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Between a provider and its customers (RFC 6598); Alibaba's metadata service is here.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // Loopback.
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local; the metadata services of AWS, Google and most others are here.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // Protocol assignments; Oracle's metadata service is here.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // Documentation.
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // 6to4 relays, deprecated (RFC 7526).
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    // Benchmarks of network devices (RFC 2544).
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    // Multicast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    // Reserved, and broadcast.
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (AZURE_HOST, 32),
];

/// The same inside `2000::/3`, which is all that IPv6 has given out for public use.
const SPECIAL_V6: [(Ipv6Addr, u32); 3] = [
    // Protocol assignments, Teredo among them (RFC 2928).
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// The port of a socket that sends nothing.
const DISCARD: u16 = 9;
/// The shortest prefix of a network in one place: what a provider gives to a customer (RFC 6177).
const SHORTEST_PREFIX: u32 = 48;
/// The longest prefix of a network: an address that a server of the network gave out (DHCPv6) says 128, as if it were alone.
const LONGEST_PREFIX: u32 = 64;
/// Addresses that no machine has (RFC 5737, RFC 3849).
const DOCUMENTATION_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DOCUMENTATION_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// The error of a kernel without this kind of address.
const NO_SUCH_FAMILY: i32 = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
/// What IPv6 has given out for public use so far (RFC 4291 §2.4).
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Whether an address is one of the public internet: not private, link-local, loopback, multicast or
/// reserved, and not the metadata service of a cloud. An IPv6 address that stands for an IPv4 address
/// is what that one is. What is not known to be public is not.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inside) => is_public_v4(inside),
            None => {
                within_v6(address, GLOBAL_V6)
                    && !SPECIAL_V6.iter().any(|net| within_v6(address, *net))
            }
        },
    }
}

/// Whether a public address is of this machine, or of a network of IPv6 that it is in. From here it leads past what guards
/// these from the internet: the machine's own filter, which lets itself in, and the router of a home or of a private cloud,
/// in which every printer has an address of the public range.
///
/// # Errors
/// It cannot be told, for example because this process may open no further socket.
pub(crate) fn is_near(address: IpAddr) -> io::Result<bool> {
    // An IPv4 address that is written as one of IPv6 is reached as the IPv4 address.
    let address = address.to_canonical();
    let networks = match address {
        IpAddr::V4(_) => String::new(),
        IpAddr::V6(_) => match fs::read_to_string("/proc/net/if_inet6") {
            // Not there without IPv6.
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read?,
        },
    };
    Ok(is_own(address)? || is_in(&networks, address))
}

/// A packet to an own address comes from that address, or from the first one of the same network. None is sent for it.
fn is_own(address: IpAddr) -> io::Result<bool> {
    let (any, documentation): (IpAddr, IpAddr) = match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), DOCUMENTATION_V4.into()),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), DOCUMENTATION_V6.into()),
    };
    let socket = match UdpSocket::bind(SocketAddr::new(any, 0)) {
        // This machine has no addresses of this kind.
        Err(error) if error.raw_os_error() == Some(NO_SUCH_FAMILY) => return Ok(false),
        socket => socket?,
    };
    match socket.connect(SocketAddr::new(address, DISCARD)) {
        Ok(()) if socket.local_addr()?.ip() == address => return Ok(true),
        Ok(()) => {}
        // There is no way to it, so it is elsewhere.
        Err(error) => {
            return match error.kind() {
                ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Ok(false),
                _ => Err(error),
            };
        }
    }
    // The second address of a network comes from the first. Only an own one can be bound to, unless the machine is set up to
    // let every address be, and then one that no machine has is, too.
    Ok(can_bind(address)? && !can_bind(documentation)?)
}

fn can_bind(address: IpAddr) -> io::Result<bool> {
    match UdpSocket::bind(SocketAddr::new(address, 0)) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Ok(false),
        bound => bound.map(|_| true),
    }
}

/// Whether an address lies in one of these networks: the text of `/proc/net/if_inet6`, in which a line begins with an
/// address of this machine, the number of its interface, and the length of its prefix.
fn is_in(networks: &str, address: IpAddr) -> bool {
    let IpAddr::V6(address) = address else {
        return false;
    };
    let network = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let own = u128::from_str_radix(words.next()?, 16).ok()?;
        let length = u32::from_str_radix(words.nth(1)?, 16).ok()?;
        // A shorter one is a whole provider's, as at the end of some tunnels.
        (length >= SHORTEST_PREFIX)
            .then_some((Ipv6Addr::from_bits(own), length.min(LONGEST_PREFIX)))
    };
    let mut networks = networks.lines().filter_map(network);
    networks.any(|network| within_v6(address, network))
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let within = |(net, length): &(Ipv4Addr, u32)| {
        let differing = address.to_bits() ^ net.to_bits();
        differing.leading_zeros() >= *length
    };
    !SPECIAL_V4.iter().any(within)
}

fn within_v6(address: Ipv6Addr, (net, length): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ net.to_bits()).leading_zeros() >= length
}

/// The IPv4 address that packets to this address reach in the end: mapped (`::ffff:0:0/96`), through
/// a translator (`64:ff9b::/96`, RFC 6052), or through 6to4 (`2002::/16`, RFC 3056).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let (high, low) = match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => (g, h),
        [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits(
        (u32::from(high) << 16) | u32::from(low),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: bool, addresses: &str) {
        for text in addresses.split(' ') {
            let address = text.parse().unwrap();
            assert_eq!(is_public(address), expected, "{text}");
        }
    }

    #[test]
    fn the_internet_is_public() {
        check(
            true,
            "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.0.0.1 128.0.0.1 169.253.255.255 \
             169.255.0.0 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 \
             223.255.255.255 168.63.129.15 2606:4700:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888 \
             ::ffff:1.1.1.1 64:ff9b::1.1.1.1 2002:101:101::1",
        );
    }

    #[test]
    fn what_is_near_is_not_public() {
        check(
            false,
            "0.0.0.0 10.0.0.5 100.100.100.200 127.0.0.1 127.255.255.255 169.254.169.254 169.254.170.2 172.16.0.1 \
             172.31.255.255 192.0.0.192 192.168.1.1 168.63.129.16 198.19.0.1 224.0.0.1 239.255.255.250 \
             255.255.255.255 :: ::1 fe80::1 fec0::1 fc00::1 fd00:ec2::254 ff02::1 2001:db8::1 2001::1 3fff::1 \
             4000::1 100::1",
        );
    }

    #[test]
    fn an_address_inside_an_address_is_what_it_is() {
        check(
            false,
            "::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:10.0.0.1 64:ff9b::169.254.169.254 64:ff9b::7f00:1 \
             2002:7f00:1:: 2002:a9fe:a9fe::1 ::127.0.0.1 64:ff9b:1::7f00:1",
        );
    }

    #[test]
    fn a_machine_is_near_to_itself_and_to_its_networks() {
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        assert!(is_near(own).unwrap() && is_near(mapped).unwrap());
        let networks = "20010db8000100020000000000000005 02 40 00 80     eth0\n\
            20014860000000000000000000000001 03 20 00 80     tun0\n\
            26064700000000000000000000000007 04 80 00 80     wlan0\n\
            fe800000000000000000000000000005 02 40 20 80     eth0\n";
        for (address, expected) in [
            ("2001:db8:1:2::5", true),
            ("2001:db8:1:2:ffff::9", true),
            ("2001:db8:1:3::5", false),
            ("2001:4860::8", false),
            // As DHCPv6 gives them, alone.
            ("2606:4700::7", true),
            ("2606:4700::8", true),
            ("2606:4700:0:1::8", false),
            ("1.1.1.1", false),
        ] {
            let found = is_in(networks, address.parse().unwrap());
            assert_eq!(found, expected, "{address}");
        }
        for damaged in [
            "",
            "x 02 40",
            "20010db8",
            "20010db8000100020000000000000005 02",
        ] {
            assert!(!is_in(damaged, "2001:db8:1:2::5".parse().unwrap()));
        }
    }
}

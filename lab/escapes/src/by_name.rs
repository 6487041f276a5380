//! What both sides know of a spoke that may reach a name: the attempts inside, and the world that the hub shows it.

/// The name that the spoke may reach, with everything below it.
pub(crate) const PERMITTED: &str = "api.example.org";
/// A name that it may not; served by the same host, as by a large provider.
pub(crate) const OTHER: &str = "other.example.com";
/// Ports on which names lead to the hub: of TLS, of HTTP, and of whatever is spoken.
pub(crate) const HTTPS: u16 = 443;
pub(crate) const HTTP: u16 = 80;
pub(crate) const ANY: u16 = 8443;
/// What a host of the world answers to whatever reaches it, and a service of the host's own network.
pub(crate) const HOST: &str = "the world has heard you";
pub(crate) const INSIDE: &str = "the inside has heard you";
/// Where that host is: the one address that stands for a public one.
pub(crate) const PUBLIC: &str = "127.0.0.1";

/// Names below the permitted one whose owner is the attacker: the first label, where the name leads in words, and its
/// addresses at the first look and at the second; those of the last look stay.
pub(crate) const REBOUND: [Rebound; 26] = [
    ("a", "loopback", &[&["127.0.0.2"]]),
    ("b", "loopback over IPv6", &[&["::1"]]),
    ("c", "loopback as IPv4 in IPv6", &[&["::ffff:127.0.0.2"]]),
    ("d", "loopback as an old IPv4 in IPv6", &[&["::127.0.0.2"]]),
    ("e", "loopback behind NAT64", &[&["64:ff9b::7f00:2"]]),
    (
        "f",
        "loopback behind a NAT64 of one's own",
        &[&["64:ff9b:1::7f00:2"]],
    ),
    ("g", "loopback behind 6to4", &[&["2002:7f00:2::1"]]),
    ("h", "the unspecified address", &[&["0.0.0.0"]]),
    ("i", "the unspecified address over IPv6", &[&["::"]]),
    ("j", "the metadata of a cloud", &[&["169.254.169.254"]]),
    (
        "k",
        "the metadata of a cloud over IPv6",
        &[&["fd00:ec2::254"]],
    ),
    ("l", "the metadata of Azure", &[&["168.63.129.16"]]),
    ("m", "the metadata of Alibaba", &[&["100.100.100.200"]]),
    ("n", "the metadata of Oracle", &[&["192.0.0.192"]]),
    ("o", "a private network", &[&["10.0.0.1"]]),
    ("p", "another private network", &[&["172.16.0.1"]]),
    ("q", "the router at home", &[&["192.168.1.1"]]),
    ("r", "an IPv6 network of one's own", &[&["fc00::1"]]),
    ("s", "a link-local address", &[&["fe80::1"]]),
    ("t", "a network for benchmarks", &[&["198.18.0.1"]]),
    ("u", "everybody here", &[&["255.255.255.255"]]),
    ("v", "a group of receivers", &[&["224.0.0.1"]]),
    ("w", "Teredo", &[&["2001:0:7f00:2::1"]]),
    (
        "x",
        "a public address first and loopback next",
        &[&[PUBLIC], &["127.0.0.2"]],
    ),
    (
        "y",
        "loopback and a public address at once",
        &[&["127.0.0.2", PUBLIC]],
    ),
    (
        "z",
        "a public address and IPv6 loopback at once",
        &[&[PUBLIC, "::1"], &["::1"]],
    ),
];

/// See [`REBOUND`].
pub(crate) type Rebound = (
    &'static str,
    &'static str,
    &'static [&'static [&'static str]],
);

pub(crate) fn rebound_name(label: &str) -> String {
    format!("{label}.{PERMITTED}")
}

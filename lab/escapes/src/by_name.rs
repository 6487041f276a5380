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

/// A name below the permitted one whose owner is the attacker.
pub(crate) struct Rebound {
    /// Its first label.
    pub(crate) label: &'static str,
    /// Where it leads, in words.
    pub(crate) to: &'static str,
    /// Its addresses at the first look, at the second, and so on; the last stay.
    pub(crate) answers: &'static [&'static [&'static str]],
}

const fn at(
    label: &'static str,
    to: &'static str,
    answers: &'static [&'static [&'static str]],
) -> Rebound {
    Rebound { label, to, answers }
}

/// Names that lead where no name may lead.
pub(crate) const REBOUND: [Rebound; 26] = [
    at("a", "loopback", &[&["127.0.0.2"]]),
    at("b", "loopback over IPv6", &[&["::1"]]),
    at("c", "loopback as IPv4 in IPv6", &[&["::ffff:127.0.0.2"]]),
    at("d", "loopback as an old IPv4 in IPv6", &[&["::127.0.0.2"]]),
    at("e", "loopback behind NAT64", &[&["64:ff9b::7f00:2"]]),
    at(
        "f",
        "loopback behind a NAT64 of one's own",
        &[&["64:ff9b:1::7f00:2"]],
    ),
    at("g", "loopback behind 6to4", &[&["2002:7f00:2::1"]]),
    at("h", "the unspecified address", &[&["0.0.0.0"]]),
    at("i", "the unspecified address over IPv6", &[&["::"]]),
    at("j", "the metadata of a cloud", &[&["169.254.169.254"]]),
    at(
        "k",
        "the metadata of a cloud over IPv6",
        &[&["fd00:ec2::254"]],
    ),
    at("l", "the metadata of Azure", &[&["168.63.129.16"]]),
    at("m", "the metadata of Alibaba", &[&["100.100.100.200"]]),
    at("n", "the metadata of Oracle", &[&["192.0.0.192"]]),
    at("o", "a private network", &[&["10.0.0.1"]]),
    at("p", "another private network", &[&["172.16.0.1"]]),
    at("q", "the router at home", &[&["192.168.1.1"]]),
    at("r", "an IPv6 network of one's own", &[&["fc00::1"]]),
    at("s", "a link-local address", &[&["fe80::1"]]),
    at("t", "a network for benchmarks", &[&["198.18.0.1"]]),
    at("u", "everybody here", &[&["255.255.255.255"]]),
    at("v", "a group of receivers", &[&["224.0.0.1"]]),
    at("w", "Teredo", &[&["2001:0:7f00:2::1"]]),
    at(
        "x",
        "a public address first and loopback next",
        &[&[PUBLIC], &["127.0.0.2"]],
    ),
    at(
        "y",
        "loopback and a public address at once",
        &[&["127.0.0.2", PUBLIC]],
    ),
    at(
        "z",
        "a public address and IPv6 loopback at once",
        &[&[PUBLIC, "::1"], &["::1"]],
    ),
];

/// The attacker's name.
pub(crate) fn rebound_name(label: &str) -> String {
    format!("{label}.{PERMITTED}")
}

//! Who decides on connections, and where names are looked up.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ifc::{Monitor, Policy};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::public_address::{is_near, is_public};

/// How long a destination may take to accept, the look-up of its name included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Who decides on the connections of a session's spokes.
#[derive(Clone)]
pub struct Gate {
    /// The session's monitor.
    pub monitor: Monitor,
    /// Its policy.
    pub policy: Arc<dyn Policy>,
    /// Where the names of destinations are looked up.
    pub resolver: Arc<dyn Resolve>,
}

/// Looks up addresses. No answer of it is believed: what is no public address is refused unless the
/// configuration names it.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of a host, each with the port to connect to.
    ///
    /// # Errors
    /// There is none, or it cannot be told.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of the machine that the hub runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        // An address, and a name of one part such as `localhost`, go to the machine's resolver as they are.
        if !host.contains('.') || host.parse::<IpAddr>().is_ok() {
            return Ok(lookup_host((host, port)).await?.collect());
        }
        let known = in_hosts_file(host, &fs::read_to_string(HOSTS).unwrap_or_default());
        if !known.is_empty() {
            return Ok(known.iter().map(|ip| SocketAddr::new(*ip, port)).collect());
        }
        // Without its last dot the machine's resolver would also look for the name below its search domains, whose owners
        // could then answer for every name that does not exist.
        let absolute = format!("{}.", host.trim_end_matches('.'));
        Ok(lookup_host((absolute, port)).await?.collect())
    }
}

/// The names that the administrator of this machine has given addresses to.
const HOSTS: &str = "/etc/hosts";

/// The addresses of a name in the text of the hosts file, which the machine's resolver does not search for absolute names.
fn in_hosts_file(host: &str, text: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        let is_named = words.any(|name| name.eq_ignore_ascii_case(host));
        is_named.then_some(address)
    };
    text.lines().filter_map(address).collect()
}

impl Gate {
    /// The gate of a session, which looks names up where this machine does.
    pub fn new(monitor: Monitor, policy: Arc<dyn Policy>) -> Self {
        Self {
            monitor,
            policy,
            resolver: Arc::new(SystemResolver),
        }
    }

    /// Resolves the destination once and connects to what was resolved: a second look at the name could
    /// give another address than the one that was judged.
    pub(super) async fn connect(
        &self,
        host: &str,
        port: u16,
        named: &[IpAddr],
    ) -> Result<TcpStream, String> {
        match timeout(CONNECT_TIMEOUT, self.connect_patiently(host, port, named)).await {
            Ok(connected) => connected,
            Err(_) => Err(format!(
                "no connection within {} s",
                CONNECT_TIMEOUT.as_secs()
            )),
        }
    }

    async fn connect_patiently(
        &self,
        host: &str,
        port: u16,
        named: &[IpAddr],
    ) -> Result<TcpStream, String> {
        let no_connection = |error: io::Error| format!("no connection: {error}");
        let host = without_brackets(host);
        let resolved = self.resolver.resolve(host, port).await;
        let resolved = resolved.map_err(no_connection)?;
        // A name may have addresses of both kinds, and those that are refused must not be fallen back on.
        let (mut allowed, mut refusal) = (Vec::new(), None);
        for at in resolved {
            match judge(host, named, at.ip()) {
                Ok(()) => allowed.push(at),
                Err(what) => {
                    refusal.get_or_insert((at.ip(), what));
                }
            }
        }
        match (allowed.as_slice(), refusal) {
            ([], None) => Err("no connection: the name has no address".to_owned()),
            ([], Some((ip, what))) => Err(format!(
                "refused: {ip} {what}; if you mean it, write addresses = [\"{ip}\"]"
            )),
            (allowed, _) => TcpStream::connect(allowed).await.map_err(no_connection),
        }
    }
}

/// Lets public addresses of others through, and those that the configuration names. Of any other it says what it is.
fn judge(host: &str, named: &[IpAddr], address: IpAddr) -> Result<(), String> {
    let written: Option<IpAddr> = host.parse().ok();
    if written == Some(address) || named.contains(&address) {
        return Ok(());
    }
    if !is_public(address) {
        return Err("is not public".to_owned());
    }
    // A public address may be one of this machine's own, at which its services trust every client.
    match is_near(address) {
        Ok(false) => Ok(()),
        Ok(true) => Err("is of this machine or of its own network".to_owned()),
        Err(error) => Err(format!(
            "may be of this machine, which cannot be told ({error})"
        )),
    }
}

/// The configuration writes an IPv6 address in brackets.
fn without_brackets(host: &str) -> &str {
    let inside = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inside.unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use ifc::{Effect, Label, Rule};
    use names::dns::{Answer, MAX_QUERY, Query, Wanted};
    use tokio::net::TcpListener;

    use super::*;
    use crate::egress::tests::OnePort;

    fn gate() -> Gate {
        let rule = Rule::asking("none".to_owned(), Effect::Write, Label::top());
        Gate::new(Monitor::new(), Arc::new(OnePort(0, rule)))
    }

    /// A name that leads to this machine, as a rebound name of a stranger's would.
    #[tokio::test]
    async fn a_name_does_not_lead_to_this_machine_unless_its_address_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let named = |address: &str| vec![address.parse().unwrap()];
        let gate = gate();
        let refusal = gate.connect("localhost", port, &[]).await.unwrap_err();
        assert!(refusal.starts_with("refused: "), "{refusal}");
        assert!(refusal.contains("is not public"), "{refusal}");
        // Another address that is named does not help.
        let other = gate.connect("localhost", port, &named("10.0.0.1")).await;
        assert!(other.is_err());
        gate.connect("localhost", port, &named("127.0.0.1"))
            .await
            .unwrap();
        gate.connect("127.0.0.1", port, &[]).await.unwrap();
    }

    /// A machine can have addresses of the public range, at which its own filter lets it in everywhere. What is sent to the
    /// second of a network comes from the first.
    const PUBLIC: [&str; 2] = ["25.1.2.3", "25.1.2.4"];

    /// Answers every name with this address.
    struct Rebound(&'static str);

    #[async_trait]
    impl Resolve for Rebound {
        async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            let address: IpAddr = self.0.parse().map_err(io::Error::other)?;
            Ok(vec![SocketAddr::new(address, port)])
        }
    }

    /// Runs a test again where a shell script has made namespaces of its own, and says whether this is there.
    fn is_inside(test: &str, script: &str) -> bool {
        const INSIDE: &str = "SLUICE_TEST_INSIDE";
        if std::env::var_os(INSIDE).is_some() {
            return true;
        }
        let script = format!("ip link set lo up && {script} && exec \"$0\" \"$@\"");
        let namespaces = ["--user", "--map-root-user", "--net", "--mount"];
        let mut command = std::process::Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", &script]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("egress::gate::tests::{test}")]);
        let output = command.env(INSIDE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("1 passed"), "{said}{errors}");
        false
    }

    #[tokio::test]
    async fn a_name_does_not_lead_to_a_public_address_of_this_machine() {
        let test = "a_name_does_not_lead_to_a_public_address_of_this_machine";
        let addresses = PUBLIC.map(|address| format!("ip addr add {address}/24 dev lo"));
        if !is_inside(test, &addresses.join(" && ")) {
            return;
        }
        for address in PUBLIC {
            let listener = TcpListener::bind((address, 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let gate = Gate {
                resolver: Arc::new(Rebound(address)),
                ..gate()
            };
            let refusal = gate.connect("evil.example", port, &[]).await.unwrap_err();
            assert!(refusal.contains("of this machine"), "{refusal}");
            let named = [address.parse().unwrap()];
            gate.connect("own.example", port, &named).await.unwrap();
        }
        // An address of another machine is not refused, and there is no route to it.
        let gate = Gate {
            resolver: Arc::new(Rebound("25.1.3.3")),
            ..gate()
        };
        let elsewhere = gate.connect("far.example", 9, &[]).await.unwrap_err();
        assert!(elsewhere.starts_with("no connection"), "{elsewhere}");
    }

    #[tokio::test]
    async fn the_search_domains_of_the_machine_answer_for_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("resolv.conf", "nameserver 127.0.0.1\nsearch evil.test\n").unwrap();
        write("nsswitch.conf", "hosts: files dns\n").unwrap();
        let mount = |name: &str| {
            let path = folder.path().join(name);
            format!("mount --bind {} /etc/{name}", path.display())
        };
        let script = format!("{} && {}", mount("resolv.conf"), mount("nsswitch.conf"));
        let test = "the_search_domains_of_the_machine_answer_for_no_name";
        if !is_inside(test, &script) {
            return;
        }
        let server = std::net::UdpSocket::bind("127.0.0.1:53").unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; MAX_QUERY];
            while let Ok((length, from)) = server.recv_from(&mut buffer) {
                let query = Query::read(&buffer[..length]).unwrap();
                let answer = match (query.text(), query.wanted()) {
                    ("example.org", Wanted::Address) => Answer::Address([1, 1, 1, 1].into()),
                    (name, Wanted::Address) if name.ends_with(".evil.test") => {
                        Answer::Address([6, 6, 6, 6].into())
                    }
                    _ => Answer::NoSuchName,
                };
                server.send_to(&query.response(answer), from).unwrap();
            }
        });
        let relative = lookup_host(("api.example.org", 80)).await.unwrap().next();
        assert_eq!(relative, Some(([6, 6, 6, 6], 80).into()));
        let missing = SystemResolver.resolve("api.example.org", 80).await;
        assert!(missing.is_err(), "{missing:?}");
        let found = SystemResolver.resolve("example.org", 80).await.unwrap();
        assert_eq!(found, [([1, 1, 1, 1], 80).into()]);
    }

    #[test]
    fn names_of_the_hosts_file_keep_their_addresses() {
        let text = "127.0.0.1 localhost\n10.0.0.1\tdb.example.org db # a.example.org\nfd00::1 DB.example.org\nx y\n";
        let found = |host| in_hosts_file(host, text);
        let both: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(found("db.example.org"), both);
        assert!(found("a.example.org").is_empty() && found("example.org").is_empty());
    }

    #[test]
    fn an_address_in_the_destination_names_itself_alone() {
        let check = |expected: bool, host: &str, address: &str| {
            let found = judge(without_brackets(host), &[], address.parse().unwrap());
            assert_eq!(found.is_ok(), expected, "{host} at {address}");
        };
        check(true, "169.254.169.254", "169.254.169.254");
        check(false, "169.254.169.253", "169.254.169.254");
        check(false, "keys.example", "169.254.169.254");
        check(true, "[::1]", "::1");
        check(true, "mail.example", "1.1.1.1");
    }
}

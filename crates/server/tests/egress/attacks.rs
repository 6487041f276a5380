//! What a hostile app tries.

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use test_support::host;

use crate::stage::{NAME, Reach, Stage, page_host, tls_page_host};

/// Tries to connect by TCP and to hear something; says what came of it.
const TRY: &str = "\
import socket, errno
def tried(family, kind, address, send=b'GET / HTTP/1.1\\r\\nHost: api.example.org\\r\\n\\r\\n'):
    try:
        s = socket.socket(family, kind); s.settimeout(5)
        s.connect(address); s.sendall(send); heard = s.recv(100)
        return 'heard ' + repr(heard) if heard else 'closed'
    except socket.timeout: return 'TIMEOUT'
    except OSError as error: return errno.errorcode.get(error.errno, str(error))
def tcp(host, port, **more): return tried(socket.AF_INET, socket.SOCK_STREAM, (host, port), **more)
";

/// What the program prints, line by line.
async fn tries(stage: &mut Stage, program: &str) -> Vec<String> {
    let said = stage.python(&format!("{TRY}{program}")).await;
    said.lines().map(str::to_owned).collect()
}

async fn with_host() -> Stage {
    let stage = Stage::new(Reach::default()).await;
    stage.names.say(NAME, &[page_host()]);
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_stands_for_no_name_leads_nowhere() {
    let mut stage = with_host().await;
    let said = tries(
        &mut stage,
        // Before any name was asked for, after one was, its neighbours, and the ends of the network.
        "print(tcp('25.18.0.1', 80) in ('closed', 'ECONNRESET'))\n\
         at = socket.gethostbyname('api.example.org'); print(at, tcp(at, 80)[:14])\n\
         for other in ('25.18.0.0', '25.18.0.2', '25.18.7.7', '25.19.255.255', '127.0.0.1', '127.9.9.9'):\n    \
             print(tcp(other, 80) in ('closed', 'ECONNRESET'), tcp(other, 443) in ('closed', 'ECONNRESET'))\n",
    )
    .await;
    assert_eq!(said[..2], ["True", "25.18.0.1 heard b'HTTP/1"], "{said:?}");
    assert_eq!(said[2..], ["True True"; 6], "{said:?}");
    let told = stage.told(13).await;
    let nameless = told
        .iter()
        .filter(|(_, outcome)| outcome.contains("stands for no name"));
    assert_eq!(nameless.count(), 13, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_names_on_their_ports_gets_out() {
    let mut stage = with_host().await;
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = own.local_addr().unwrap().port();
    own.set_nonblocking(true).unwrap();
    let said = tries(
        &mut stage,
        &format!(
            "at = socket.gethostbyname('api.example.org')\n\
             print(tcp('1.1.1.1', 443), tcp('1.1.1.1', 22))\n\
             print(tcp('169.254.169.254', 80), tcp('10.0.0.1', 443))\n\
             print(tcp('127.0.0.1', {port}), tcp(at, {port}), tcp(at, 22))\n\
             v6 = lambda host, port: tried(socket.AF_INET6, socket.SOCK_STREAM, (host, port))\n\
             print(v6('2606:4700:4700::1111', 443), v6('::1', 443), v6('::ffff:1.1.1.1', 443))\n\
             print(v6('::ffff:25.18.0.77', 443) in ('closed', 'ECONNRESET'))\n\
             udp = lambda host, port: tried(socket.AF_INET, socket.SOCK_DGRAM, (host, port))\n\
             print(udp('8.8.8.8', 53), udp('1.1.1.1', 443), udp(at, 53), udp(at, 443), udp('127.0.0.1', {port}))\n\
             print(tcp('8.8.8.8', 53), tried(socket.AF_INET6, socket.SOCK_DGRAM, ('::1', 53)))\n\
             for family, kind, protocol in ((2, 3, 1), (2, 3, 255), (17, 3, 0), (16, 3, 0), (2, 1, 262), (2, 2, 136), (38, 5, 0), (1, 1, 0)):\n    \
                 try: socket.socket(family, kind, protocol); print('SOCKET', family, kind, protocol)\n    \
                 except OSError as error: print(errno.errorcode[error.errno])\n"
        ),
    )
    .await;
    let expected = [
        "ENETUNREACH ENETUNREACH",
        "ENETUNREACH ENETUNREACH",
        "ECONNREFUSED ECONNREFUSED ECONNREFUSED",
        "ENETUNREACH ECONNREFUSED ENETUNREACH",
        "True",
        "ENETUNREACH ENETUNREACH ECONNREFUSED ECONNREFUSED ECONNREFUSED",
        "ENETUNREACH EPERM",
    ];
    assert_eq!(said[..7], expected, "{said:?}");
    assert_eq!(said[7..], ["EPERM"; 8], "{said:?}");
    assert!(own.accept().is_err(), "a service of the host was reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_for_another_name_and_plain_http_for_another_host_are_refused() {
    let mut stage = Stage::new(Reach::default()).await;
    let (address, certificate) = tls_page_host(&[NAME, "other.example.com"]);
    stage.names.say(NAME, &[address]);
    stage.file("ca.pem", &certificate);
    let said = tries(
        &mut stage,
        "import ssl\n\
         def tls(name):\n    \
             context = ssl.create_default_context(cafile='/data/ca.pem'); context.check_hostname = name is not None\n    \
             try:\n        \
                 s = context.wrap_socket(socket.create_connection(('api.example.org', 443), 10), server_hostname=name)\n        \
                 s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); return s.recv(15)\n    \
             except Exception as error: return 'access denied' in str(error) or 'ACCESS_DENIED' in str(error) or error\n\
         print(tls('api.example.org'), tls('other.example.com'), tls(None))\n\
         print(tcp('api.example.org', 443))\n\
         for host in ('other.example.com', 'api.example.org:8080', 'api.example.org\\r\\nHost: other.example.com'):\n    \
             print(tcp('api.example.org', 80, send=f'GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())[:22])\n\
         print(tcp('api.example.org', 80, send=b'SSH-2.0-x\\r\\n')[:22])\n",
    )
    .await;
    assert_eq!(said[0], "b'HTTP/1.1 200 OK' True True", "{said:?}");
    // No TLS at all on its port: an alert, and the end.
    assert!(said[1].starts_with("heard b'\\x15\\x03\\x03"), "{said:?}");
    let refused = ["403 F", "403 F", "400 B", "403 F"];
    assert_eq!(
        said[2..],
        refused.map(|status| format!("heard b'HTTP/1.1 {status}")),
        "{said:?}"
    );
    assert_eq!(
        stage.names.asked.load(Ordering::SeqCst),
        1,
        "only the first was let out"
    );
    let told = stage.told(8).await;
    let refused = told
        .iter()
        .filter(|(_, outcome)| outcome.starts_with("refused: "));
    assert_eq!(refused.count(), 7, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_rebound_leads_nowhere() {
    let mut stage = with_host().await;
    let address = page_host();
    let elsewhere = |address: &str| format!("{address}:80").parse().unwrap();
    // Whoever owns a name below the domain says where it is: it alternates, or says both at once.
    for private in [
        "127.0.0.2",
        "169.254.169.254",
        "10.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "198.18.0.1",
    ] {
        stage
            .names
            .say("evil.api.example.org", &[elsewhere(private)]);
    }
    stage
        .names
        .say("evil.api.example.org", &[address, elsewhere("127.0.0.3")]);
    let said = tries(
        &mut stage,
        "for _ in range(7): print(tcp('evil.api.example.org', 80, send=b'GET / HTTP/1.1\\r\\nHost: evil.api.example.org\\r\\n\\r\\n')[:22])\n",
    )
    .await;
    assert_eq!(said[..6], ["heard b'HTTP/1.1 403 F"; 6], "{said:?}");
    assert_eq!(said[6], "heard b'HTTP/1.1 200 O", "{said:?}");
    // Looked up once for each connection: what was judged is what was connected to.
    assert_eq!(stage.names.asked.load(Ordering::SeqCst), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_names_fill_a_table_and_nothing_else() {
    let mut stage = with_host().await;
    let said = tries(
        &mut stage,
        "import struct\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(('127.0.0.1', 53))\n\
         def ask(name):\n    \
             q = b''.join(bytes([len(p)]) + p for p in name.encode().split(b'.')) + b'\\0'\n    \
             s.send(struct.pack('>HHHHHH', 7, 256, 1, 0, 0, 0) + q + struct.pack('>HH', 1, 1)); return s.recv(512)[3] & 15\n\
         codes = [ask(f'n{i}.api.example.org') for i in range(10000)]\n\
         print(codes.count(0), codes.count(5), ask('n0.api.example.org'))\n\
         codes = [ask(f'n{i}.example.com') for i in range(10000)]; print(codes.count(3))\n",
    )
    .await;
    assert_eq!(said, ["4096 5904 0", "10000"]);
    // Of the denied ones the first are told, each once.
    assert_eq!(stage.told(256).await.len(), 256);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_connections_takes_its_places_and_gives_them_back() {
    let mut stage = with_host().await;
    let said = tries(
        &mut stage,
        "import time\n\
         at = socket.gethostbyname('api.example.org'); open_ = []\n\
         for _ in range(200):\n    \
             s = socket.create_connection((at, 80), 5); s.sendall(b'G'); open_.append(s)\n\
         time.sleep(1); closed = 0\n\
         for s in open_:\n    \
             s.settimeout(0.001)\n    \
             try: closed += s.recv(1) == b''\n    \
             except socket.timeout: pass\n    \
             except OSError: closed += 1\n\
         print(closed, tcp(at, 80) in ('closed', 'ECONNRESET'))\n\
         begun = time.time()\n\
         # Slow, and never a whole request: each is closed when its time is over.\n\
         for _ in range(60):\n    \
             time.sleep(0.2); left = []\n    \
             for s in open_:\n        \
                 try: s.sendall(b'E'); left.append(s)\n        \
                 except OSError: pass\n    \
             open_ = left\n    \
             if not open_: break\n\
         print(len(open_), tcp(at, 80)[:14])\n",
    )
    .await;
    // Those beyond the places were closed at once, and so was one more.
    assert_eq!(said, ["136 True", "0 heard b'HTTP/1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_spoke_is_the_end_of_its_connections() {
    let (ended, heard) = std::sync::mpsc::channel();
    let ended = std::sync::Mutex::new(ended);
    let address = host(move |stream| {
        let mut byte = [0; 2];
        stream.read_exact(&mut byte)?;
        stream.write_all(b"x")?;
        let rest = stream.read(&mut byte);
        let _ = ended.lock().unwrap().send(matches!(rest, Ok(0) | Err(_)));
        Ok(())
    });
    let mut stage = Stage::new(Reach {
        ports: vec![7777],
        ..Reach::default()
    })
    .await;
    stage.names.say(NAME, &[address]);
    let keep = "(setsid python3 -c \"import socket, time; s = socket.create_connection(('api.example.org', 7777)); \
                s.sendall(b'x\\n'); s.recv(1); open('/tmp/open', 'w').close(); time.sleep(100)\" >/dev/null 2>&1 &); \
                while ! [ -e /tmp/open ]; do sleep 0.05; done";
    assert_eq!(stage.run(keep).await, "");
    assert!(heard.try_recv().is_err());
    drop(stage.spoke.take());
    assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_while_no_call_runs() {
    let mut stage = Stage::new(Reach {
        ask: true,
        ..Reach::default()
    })
    .await;
    let later = "(setsid sh -c 'sleep 0.5; curl -sS --max-time 5 http://example.com/ >/tmp/late 2>&1; touch /tmp/done' >/dev/null 2>&1 &)";
    assert_eq!(stage.run(later).await, "");
    // It is refused while no call runs.
    assert_eq!(stage.told(1).await.len(), 1);
    let late = stage
        .run("while ! [ -e /tmp/done ]; do sleep 0.05; done; cat /tmp/late")
        .await;
    assert!(
        late.contains("the user can be asked only while a call of the app runs"),
        "{late}"
    );
    assert_eq!(stage.person.asked, []);
}

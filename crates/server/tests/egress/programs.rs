//! Unmodified programs reach what they may by name, and are told at once where they may not.

use crate::stage::{NAME, Reach, Stage, needs, page_host, tls_page_host};

/// A stage on which the name leads to a host that speaks TLS.
async fn with_tls() -> Stage {
    let stage = Stage::new(Reach::default()).await;
    let (address, certificate) = tls_page_host(&[NAME]);
    stage.names.say(NAME, &[address]);
    stage.file("ca.pem", &certificate);
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn python_fetches_over_tls_by_name_and_another_name_fails_at_once() {
    let mut stage = with_tls().await;
    let fetch = |name: &str| {
        format!(
            "import ssl, urllib.request\n\
             context = ssl.create_default_context(cafile='/data/ca.pem')\n\
             try:\n    print(urllib.request.urlopen('https://{name}/x', context=context, timeout=20).read().decode())\n\
             except Exception as error:\n    print('failed:', error)\n"
        )
    };
    assert_eq!(stage.python(&fetch(NAME)).await, "hello\n\n");
    let told = stage.told(1).await;
    let [(to, outcome)] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(to, "api.example.org:443");
    assert!(outcome.contains(" bytes sent, "), "{outcome}");
    let failed = stage.python(&fetch("elsewhere.example.com")).await;
    // Not "temporary failure", which a resolver that does not answer would be.
    assert!(failed.contains("Name or service not known"), "{failed}");
    let told = stage.told(1).await;
    let [(name, reason)] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(name, "elsewhere.example.com");
    let remedy = "add [[app.web.domain]] with name = \"example.com\" to sluice.toml";
    assert!(reason.contains(remedy), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_programs_find_the_resolver_too() {
    needs("/usr/bin/curl");
    needs("/usr/bin/node");
    let mut stage = with_tls().await;
    let curl = "curl -sS --max-time 20 --cacert /data/ca.pem https://api.example.org/";
    assert_eq!(stage.run(curl).await, "hello\n");
    let node = "NODE_EXTRA_CA_CERTS=/data/ca.pem node -e \
                \"fetch('https://api.example.org/').then(r => r.text()).then(console.log, e => console.log(e.cause))\"";
    assert_eq!(stage.run(node).await, "hello\n\n");
    // Its own implementation of DNS, beside the C library's.
    let resolve = "node -e \"require('dns').resolve4('api.example.org', (e, a) => console.log(e ? e.code : a[0]))\"";
    assert_eq!(stage.run(resolve).await, "25.18.0.1\n");
    let denied = stage
        .run("curl -sS --max-time 20 https://example.net/")
        .await;
    assert!(denied.contains("Could not resolve host"), "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_and_a_refusal_that_a_program_can_show() {
    needs("/usr/bin/curl");
    let mut stage = Stage::new(Reach {
        addresses: Vec::new(),
        ..Reach::default()
    })
    .await;
    stage.names.say(NAME, &[page_host()]);
    // The name leads to this machine, and nobody has allowed that.
    let refused = stage
        .run("curl -sS --max-time 20 http://api.example.org/")
        .await;
    assert!(
        refused.starts_with("Sluice: refused: 127.0.0.1 is not public"),
        "{refused}"
    );
    let mut stage = Stage::new(Reach::default()).await;
    stage.names.say(NAME, &[page_host()]);
    let answered = stage
        .run("curl -sS --max-time 20 http://api.example.org/")
        .await;
    assert_eq!(answered, "hello\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_other_kinds_have_answers() {
    let mut stage = Stage::new(Reach::default()).await;
    let said = stage
        .python(
            "import socket, struct\n\
             def query(kind, name=b'\\x03api\\x07example\\x03org\\x00'):\n    \
                 return struct.pack('>HHHHHH', 7, 256, 1, 0, 0, 0) + name + struct.pack('>HH', kind, 1)\n\
             def udp(q):\n    \
                 s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)\n    \
                 s.sendto(q, ('127.0.0.1', 53)); return s.recv(512)\n\
             for kind in (1, 28, 65, 255): r = udp(query(kind)); print(kind, r[3] & 15, r[7])\n\
             r = udp(query(12, b'\\x011\\x010\\x010\\x03127\\x07in-addr\\x04arpa\\x00')); print('ptr', r[3] & 15)\n\
             print(socket.getaddrinfo('API.Example.org.', 443, type=socket.SOCK_STREAM)[0][4])\n",
        )
        .await;
    // An address; no IPv6 address; nothing else.
    let expected = "1 0 1\n28 0 0\n65 5 0\n255 5 0\nptr 5\n('25.18.0.1', 443)\n";
    assert_eq!(said, expected);
}

/// Whatever congestion control the machine has: BBR would pace what a program sends over loopback.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_sends_to_the_hub_is_not_paced() {
    let mut stage = Stage::new(Reach::default()).await;
    stage.names.say(NAME, &[page_host()]);
    let said = stage
        .python(
            "import socket\n\
             s = socket.create_connection(('api.example.org', 80), 20)\n\
             print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode())\n\
             s.sendall(b'GET / HTTP/1.1\\r\\nHost: api.example.org\\r\\n\\r\\n')\n\
             print(s.recv(12).decode())\n",
        )
        .await;
    assert_eq!(said, "reno\nHTTP/1.1 200\n");
}

//! Sending over TLS, through a relay that ends TLS in front of the SMTP server.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use smtp_sink::SmtpSink;

use crate::support::App;

/// The name in the certificate.
const NAME: &str = "mail.example.org";
/// How long one side is listened to before the other gets its turn.
const TURN: Duration = Duration::from_millis(5);

/// Writes a new certificate for [`NAME`] to `ca` and gives the server's side of it.
fn certificate(ca: &Path) -> Arc<ServerConfig> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([NAME.to_owned()]).unwrap();
    std::fs::write(ca, cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(
        config
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap(),
    )
}

/// Serves one connection in front of `sink`; the receiver gets the first bytes that the client sent in the clear.
fn relay(
    config: Arc<ServerConfig>,
    sink: SocketAddr,
    starttls: bool,
) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (report, clear) = channel();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let mut server = BufReader::new(TcpStream::connect(sink).unwrap());
        if starttls {
            report.send(upgrade(&client)).unwrap();
            // The client has had a greeting already.
            server.read_line(&mut String::new()).unwrap();
        }
        let server = server.into_inner();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(TURN)).unwrap();
        }
        pump(
            StreamOwned::new(ServerConnection::new(config).unwrap(), client),
            server,
        );
    });
    (addr, clear)
}

/// The part of the conversation before TLS; gives what the client said.
fn upgrade(client: &TcpStream) -> String {
    let mut reader = BufReader::new(client);
    let mut writer = client;
    let mut said = String::new();
    for answer in ["220 relay\r\n", "250-relay\r\n250 STARTTLS\r\n"] {
        writer.write_all(answer.as_bytes()).unwrap();
        reader.read_line(&mut said).unwrap();
    }
    writer.write_all(b"220 go on\r\n").unwrap();
    said
}

/// Carries bytes both ways until one side ends.
fn pump(mut client: StreamOwned<ServerConnection, TcpStream>, mut server: TcpStream) {
    fn step(from: &mut impl Read, to: &mut impl Write) -> bool {
        let mut buffer = [0; 4096];
        match from.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => to
                .write_all(&buffer[..count])
                .and_then(|()| to.flush())
                .is_ok(),
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
    while step(&mut client, &mut server) && step(&mut server, &mut client) {}
}

#[tokio::test]
async fn mail_is_sent_over_tls_and_starttls_to_the_right_name_only() {
    let home = tempfile::tempdir().unwrap();
    let (ca, other_ca) = (home.path().join("ca.pem"), home.path().join("other.pem"));
    let config = certificate(&ca);
    certificate(&other_ca);
    let (ca, other_ca) = (ca.to_str().unwrap(), other_ca.to_str().unwrap());
    let call = json!({ "to": "a@b.org", "subject": "s", "body": "over tls" });
    for (mode, name, ca, arrives) in [
        ("tls", NAME, ca, true),
        ("starttls", NAME, ca, true),
        ("tls", "other.example.org", ca, false),
        ("starttls", "other.example.org", ca, false),
        ("tls", NAME, other_ca, false),
        // Without SMTP_TLS_CA only the public authorities are trusted, and this certificate is signed by itself.
        ("tls", NAME, "", false),
    ] {
        let sink = SmtpSink::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let (addr, clear) = relay(Arc::clone(&config), sink.addr(), mode == "starttls");
        let vars = [
            ("SMTP_SERVER", &*addr.to_string()),
            ("SMTP_TLS", mode),
            ("SMTP_TLS_NAME", name),
            ("SMTP_TLS_CA", ca),
        ];
        let app = App::start(|_| {}, &vars).await;
        if arrives {
            app.ok("send_email", call.clone()).await;
            let messages = sink.messages();
            assert!(
                messages.len() == 1 && messages[0].data.contains("over tls"),
                "{mode}: {messages:?}"
            );
        } else {
            let error = app.refused("send_email", call.clone()).await;
            assert!(
                error.contains("the message was not sent"),
                "{mode} {name}: {error}"
            );
            assert!(sink.messages().is_empty(), "{mode} {name} {ca}");
        }
        if mode == "starttls" {
            let said = clear.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(
                said.starts_with("EHLO ") && said.ends_with("\r\nSTARTTLS\r\n"),
                "{said}"
            );
        }
        app.stop().await;
    }
}

#[tokio::test]
async fn a_mail_that_needs_a_login_is_not_sent_without_one() {
    let home = tempfile::tempdir().unwrap();
    let ca = home.path().join("ca.pem");
    let config = certificate(&ca);
    let sink = SmtpSink::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let (addr, _) = relay(config, sink.addr(), false);
    let vars = [
        ("SMTP_SERVER", &*addr.to_string()),
        ("SMTP_TLS", "tls"),
        ("SMTP_TLS_NAME", NAME),
        ("SMTP_TLS_CA", ca.to_str().unwrap()),
        ("SMTP_USER", "u"),
        ("SMTP_PASSWORD", "p"),
    ];
    let app = App::start(|_| {}, &vars).await;
    // This server offers no login, so a mail that needs one is not sent without it.
    let error = app
        .refused(
            "send_email",
            json!({ "to": "a@b.org", "subject": "s", "body": "b" }),
        )
        .await;
    assert!(error.contains("lacks what"), "{error}");
    assert!(sink.messages().is_empty());
    app.stop().await;
}

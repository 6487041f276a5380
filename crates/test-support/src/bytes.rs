//! Servers that read and write bytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;

/// How long a connection may be silent. No test takes so long.
const PATIENCE: Duration = Duration::from_secs(300);

/// A connection, with or without TLS.
pub trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// A port on which nothing listens.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Handles each connection by this function. A client that breaks off is no error.
pub fn host(
    handle: impl Fn(&mut dyn Stream) -> io::Result<()> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let handle = Arc::clone(&handle);
            thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let _ = stream.set_nodelay(true);
                let _ = handle(&mut stream);
            });
        }
    });
    address
}

/// The same over TLS for these names, and the certificate that clients have to trust.
pub fn tls_host(
    names: &[&str],
    handle: impl Fn(&mut dyn Stream) -> io::Result<()> + Send + Sync + 'static,
) -> (SocketAddr, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let address = host(move |mut stream| {
        let connection = rustls::ServerConnection::new(Arc::clone(&config));
        let mut connection = connection.map_err(io::Error::other)?;
        let mut tls = rustls::Stream::new(&mut connection, &mut stream);
        let handled = handle(&mut tls);
        tls.conn.send_close_notify();
        tls.conn.complete_io(tls.sock)?;
        handled
    });
    (address, certified.cert.pem())
}

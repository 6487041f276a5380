//! A host on loopback that speaks TLS, and stands for one in the world.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Its name.
pub(crate) const NAME: &str = "pages.example.test";

/// Serves two pages and two answers of an API, and writes down what it was asked for: the name of the TLS handshake and the path.
const SERVER: &str = r#"
import http.server, json, ssl, sys
folder = sys.argv[1]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        with open(folder + "/asked", "a") as log: log.write(f"{self.connection.asked_for} {self.path}\n")
        path = self.path.split("?")[0]
        kind, body = "application/json", {
            "/heron": "<html><head><title>Herons</title></head><body><article><h1>Herons</h1><p>This is a page about herons.</p></article></body></html>",
            "/api/v2/libs/search": json.dumps({"results": [{"id": "/birds/heron", "title": "Heron", "description": "Herons", "branch": "main",
                "lastUpdateDate": "2026-01-01", "state": "finalized", "totalTokens": 1, "totalSnippets": 1}]}),
            "/v1/users/me": json.dumps({"object": "user", "id": "1", "type": "bot", "name": "a bot of herons"}),
        }.get(path)
        if path == "/grown":
            body = "<html><body><p id=p></p><script>document.getElementById('p').textContent = ['written', 'by its', 'own script'].join(' ')</script></body></html>"
        if path in ("/heron", "/grown"): kind = "text/html"
        body = (body or "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *_): pass
def named(connection, name, _): connection.asked_for = name
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/host.pem", folder + "/host.key")
context.sni_callback = named
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

pub(crate) struct Host {
    child: Child,
    folder: PathBuf,
    pub(crate) port: u16,
}

impl Host {
    /// Leaves its certificate in `host.pem`, and a file of names in `hosts`.
    pub(crate) fn start(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap();
        let subject = format!("/CN={NAME}");
        let names = format!("subjectAltName=DNS:{NAME}");
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", &subject,
            "-addext", &names,
        ]);
        openssl
            .args(["-keyout", "host.key", "-out", "host.pem"])
            .current_dir(&folder)
            .stderr(Stdio::null());
        assert!(
            openssl.status().unwrap().success(),
            "openssl makes no certificate"
        );
        let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
        fs::write(folder.join("hosts"), format!("{hosts}\n127.0.0.1 {NAME}\n")).unwrap();
        let mut python = Command::new("python3");
        python
            .args(["-c", SERVER])
            .arg(&folder)
            .stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            child,
            folder,
            port: line.trim().parse().unwrap(),
        }
    }

    /// Whether it was asked for this path by its name, and for nothing else but what crawlers ask for first.
    pub(crate) fn was_asked(&self, path: &str) -> bool {
        let asked = fs::read_to_string(self.folder.join("asked")).unwrap_or_default();
        let mut wanted = false;
        let known = asked.lines().all(|line| {
            let (name, asked) = line.split_once(' ').unwrap();
            let asked = asked.split('?').next().unwrap();
            wanted |= asked == path;
            name == NAME && [path, "/robots.txt"].contains(&asked)
        });
        known && wanted
    }

    /// What it was asked for so far does not count.
    pub(crate) fn forget(&self) {
        let _ = fs::remove_file(self.folder.join("asked"));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

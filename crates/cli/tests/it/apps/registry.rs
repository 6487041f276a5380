//! A registry of npm on this machine, with packages made for the purpose.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// What is published, by name.
type Packages = BTreeMap<String, Vec<Package>>;

pub(crate) struct Package {
    pub(crate) version: String,
    pub(crate) description: Value,
    pub(crate) files: Vec<(&'static str, String)>,
    /// Where its archive is said to be, if not here.
    pub(crate) elsewhere: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Registry {
    pub(crate) address: String,
    packages: Arc<Mutex<Packages>>,
    /// Further files, by their paths.
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// The secrets that requests came with.
    secrets: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = Self {
            address: format!("127.0.0.1:{}", listener.local_addr().unwrap().port()),
            packages: Arc::default(),
            files: Arc::default(),
            secrets: Arc::default(),
        };
        let own = registry.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let own = own.clone();
                std::thread::spawn(move || own.serve(&stream.unwrap()));
            }
        });
        registry
    }

    pub(crate) fn publish(&self, name: &str, package: Package) {
        self.packages
            .lock()
            .unwrap()
            .entry(name.to_owned())
            .or_default()
            .push(package);
    }

    pub(crate) fn serve_file(&self, path: &str, content: Vec<u8>) {
        self.files.lock().unwrap().insert(path.to_owned(), content);
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        self.secrets.lock().unwrap().clone()
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line
            .split(' ')
            .nth(1)
            .unwrap()
            .replace("%2f", "/")
            .replace("%2F", "/");
        loop {
            let mut field = String::new();
            reader.read_line(&mut field).unwrap();
            if let Some(secret) = field.to_ascii_lowercase().strip_prefix("authorization: ") {
                self.secrets.lock().unwrap().push(secret.trim().to_owned());
            }
            if field.trim().is_empty() {
                break;
            }
        }
        let body = self.answer(path.trim_start_matches('/'));
        let status = if body.is_some() {
            "200 OK"
        } else {
            "404 Not Found"
        };
        let body = body.unwrap_or_else(|| b"{}".to_vec());
        // An index of Python's packages is a page.
        let kind = match path.ends_with('/') {
            true => "text/html",
            false => "application/octet-stream",
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let mut stream = stream;
        // A client may have gone.
        let _ = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(&body));
    }

    fn answer(&self, path: &str) -> Option<Vec<u8>> {
        if let Some(file) = self.files.lock().unwrap().get(path) {
            return Some(file.clone());
        }
        let packages = self.packages.lock().unwrap();
        if let Some((name, version)) = path
            .strip_suffix(".tgz")
            .and_then(|path| path.rsplit_once("/-/"))
        {
            return packages
                .get(name)?
                .iter()
                .find(|package| package.version == version)
                .map(archive);
        }
        let all = packages.get(path)?;
        let versions: BTreeMap<&str, Value> = all
            .iter()
            .map(|package| {
                let here = format!("http://{}/{path}/-/{}.tgz", self.address, package.version);
                let mut description = described(package);
                description["dist"] =
                    json!({ "tarball": package.elsewhere.clone().unwrap_or(here) });
                (package.version.as_str(), description)
            })
            .collect();
        let latest = &all.last()?.version;
        Some(
            json!({ "name": path, "dist-tags": { "latest": latest }, "versions": versions })
                .to_string()
                .into_bytes(),
        )
    }
}

fn described(package: &Package) -> Value {
    let mut description = package.description.clone();
    description["version"] = json!(package.version);
    description
}

fn archive(package: &Package) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut add = |name: &str, content: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        archive
            .append_data(&mut header, format!("package/{name}"), content.as_bytes())
            .unwrap();
    };
    add("package.json", &described(package).to_string());
    for (name, content) in &package.files {
        add(name, content);
    }
    archive.into_inner().unwrap().finish().unwrap()
}

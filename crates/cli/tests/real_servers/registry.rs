//! Both registries on this machine: what was fetched once is kept in a folder, and only what the lock names is served, with
//! the hash that it names. So a run is the same on every machine, and needs the world only where the folder is cold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Registry, package, and version or file name; with its hash.
type Lock = BTreeMap<(String, String, String), String>;

/// What pip looks for packages with where nobody names an index: its own word.
const PIP_DEFAULT: &str = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)";
const NPM_KIND: &str = "application/vnd.npm.install-v1+json";
const PYPI_KIND: &str = "application/vnd.pypi.simple.v1+json";

#[derive(Clone)]
pub(crate) struct Registry {
    address: String,
    npm: String,
    pypi: String,
    folder: PathBuf,
    mode: Mode,
    /// `None` while a new one is made.
    lock: Option<Arc<Lock>>,
    served: Arc<Mutex<Lock>>,
    /// What was asked for and is in no lock.
    missing: Arc<Mutex<BTreeSet<String>>>,
    /// Descriptions that were fetched in this run: without a lock no older one counts.
    new: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// What a run may fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing: everything that is needed is in the folder.
    Warm,
    /// What the lock names and is not in the folder.
    Fetch,
    /// Everything, as it is in the world now; the lock is made anew.
    Lock,
}

impl Mode {
    /// What `SLUICE_REAL_SERVERS` says, and without it what the folder has.
    ///
    /// # Errors
    /// Why nothing can be run, for whoever reads the output of the tests.
    pub(crate) fn of(lock: &str) -> Result<Self, String> {
        match std::env::var("SLUICE_REAL_SERVERS") {
            Ok(value) if value == "lock" => Ok(Self::Lock),
            Ok(_) => Ok(Self::Fetch),
            Err(_) if mark(lock).exists() => Ok(Self::Warm),
            Err(_) => Err(format!(
                "NOT RUN: {} lacks packages of the lock; SLUICE_REAL_SERVERS=1 fetches them from your registries",
                folder().display()
            )),
        }
    }
}

/// Says that the folder is whole. A lock may name more than is fetched: what a package manager of another machine wanted.
fn mark(lock: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    lock.hash(&mut hasher);
    folder().join(format!("whole-{:016x}", hasher.finish()))
}

/// Where packages are kept, for every build of this user: `SLUICE_REAL_SERVERS_CACHE`, or a place in the user's cache folder.
fn folder() -> PathBuf {
    let own = std::env::var_os("SLUICE_REAL_SERVERS_CACHE").map(PathBuf::from);
    let cache = || {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        cache
            .or_else(home)
            .map(|cache| cache.join("sluice/registry"))
    };
    own.or_else(cache).unwrap()
}

impl Registry {
    /// Serves what this lock names, in this mode.
    pub(crate) fn start(mode: Mode, lock: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = folder();
        fs::create_dir_all(&folder).unwrap();
        let pypi = std::env::var("PIP_INDEX_URL")
            .unwrap_or_else(|_| said("python3", &["-c", PIP_DEFAULT]));

        let registry = Self {
            address: listener.local_addr().unwrap().to_string(),
            npm: said("npm", &["config", "get", "registry"]),
            pypi: pypi.trim_end_matches('/').to_owned(),
            folder,
            lock: (mode != Mode::Lock).then(|| Arc::new(read(lock))),
            mode,
            served: Arc::default(),
            missing: Arc::default(),
            new: Arc::default(),
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

    /// The variables by which npm, pip and uv find it.
    pub(crate) fn variables(&self) -> [(&'static str, String); 3] {
        let at = |path: &str| format!("http://{}/{path}", self.address);
        [
            ("NPM_CONFIG_REGISTRY", at("npm/")),
            ("PIP_INDEX_URL", at("pypi")),
            ("UV_DEFAULT_INDEX", at("pypi")),
        ]
    }

    /// A whole run with this lock, of the file with that name, went well: from now on it needs nothing from the world. Whoever
    /// adds a package or takes newer versions makes the lock anew.
    pub(crate) fn done(&self, lock: &str, name: &str) {
        match self.mode {
            Mode::Warm => {}
            Mode::Fetch => fs::write(mark(lock), "").unwrap(),
            Mode::Lock => {
                let served = self.served.lock().unwrap();
                let lines = served.iter().map(|((registry, name, version), hash)| {
                    format!("{registry} {name} {version} {hash}\n")
                });
                let lock: String = lines.collect();
                let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_servers");
                fs::write(tests.join(name), &lock).unwrap();
                fs::write(mark(&lock), "").unwrap();
            }
        }
    }

    /// What no lock names although it was asked for.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.missing.lock().unwrap().iter().cloned().collect()
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut field = String::new();
        while reader.read_line(&mut field).is_ok_and(|read| read > 0) && !field.trim().is_empty() {
            field.clear();
        }
        let path = path.replace("%2f", "/").replace("%2F", "/");
        let (status, kind, body) = match self.answer(path.trim_start_matches('/')) {
            Some((kind, body)) => ("200 OK", kind, body),
            None => ("404 Not Found", "text/plain", Vec::new()),
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

    fn answer(&self, path: &str) -> Option<(&'static str, Vec<u8>)> {
        if let Some(path) = path.strip_prefix("npm/") {
            return match path
                .strip_suffix(".tgz")
                .and_then(|path| path.rsplit_once("/-/"))
            {
                Some((name, version)) => {
                    Some(("application/octet-stream", self.npm_archive(name, version)?))
                }
                None => Some((NPM_KIND, self.npm_package(path)?.to_string().into_bytes())),
            };
        }
        let path = path.strip_prefix("pypi/")?.trim_end_matches('/');
        match path.split_once('/') {
            Some((name, file)) => Some(("application/octet-stream", self.pypi_file(name, file)?)),
            None => Some((PYPI_KIND, self.pypi_project(path)?.to_string().into_bytes())),
        }
    }

    /// The package with the versions of the lock, whose archives are here.
    fn npm_package(&self, name: &str) -> Option<Value> {
        let mut package = self.description(
            "npm",
            name,
            &format!("{}{}", self.npm, name.replace('/', "%2f")),
            NPM_KIND,
        )?;
        let versions = package["versions"].as_object_mut()?;
        let locked = |version: &String| self.hash("npm", name, version);
        if self.lock.is_some() {
            versions.retain(|version, _| locked(version).is_some());
        }
        for (version, description) in &mut *versions {
            let here = format!("http://{}/npm/{name}/-/{version}.tgz", self.address);
            description["dist"]["tarball"] = json!(here);
            if let Some(hash) = locked(version) {
                description["dist"]["integrity"] = json!(hash);
            }
        }
        let newest = self.newest(name);
        if let Some(newest) = newest {
            package["dist-tags"] = json!({ "latest": newest });
        }
        Some(package)
    }

    /// The version that a command without one means: the first of the lock.
    fn newest(&self, name: &str) -> Option<String> {
        let lock = self.lock.as_ref()?;
        let mut versions: Vec<&String> = lock
            .keys()
            .filter(|(registry, package, _)| registry == "npm" && package == name)
            .map(|(_, _, version)| version)
            .collect();
        let number = |version: &&String| -> Vec<u64> {
            version
                .split(['.', '-'])
                .map(|part| part.parse().unwrap_or(0))
                .collect()
        };
        versions.sort_by_key(number);
        versions.last().map(|version| (*version).clone())
    }

    fn npm_archive(&self, name: &str, version: &str) -> Option<Vec<u8>> {
        let file = self
            .folder
            .join("npm")
            .join(name)
            .join(format!("{version}.tgz"));
        let url = format!("{}{}", self.npm, name.replace('/', "%2f"));
        let package = self.description("npm", name, &url, NPM_KIND)?;
        let distribution = &package["versions"][version]["dist"];
        self.note("npm", name, version, distribution["integrity"].as_str()?);
        self.fetched(&file, distribution["tarball"].as_str()?, "*/*")
    }

    /// The project with the files of the lock, which are here.
    fn pypi_project(&self, name: &str) -> Option<Value> {
        let mut project =
            self.description("pypi", name, &format!("{}/{name}/", self.pypi), PYPI_KIND)?;
        let files = project["files"].as_array_mut()?;
        if self.lock.is_some() {
            files.retain(|file| {
                self.hash("pypi", name, file["filename"].as_str().unwrap_or_default())
                    .is_some()
            });
        }
        for file in files {
            let filename = file["filename"].as_str()?.to_owned();
            let mut entry = json!({
                "filename": filename,
                "url": format!("http://{}/pypi/{name}/{filename}", self.address),
                "hashes": file["hashes"],
                "requires-python": file["requires-python"],
                "yanked": file["yanked"],
            });
            if let Some(hash) = self.hash("pypi", name, &filename) {
                entry["hashes"] = json!({ "sha256": hash });
            }
            *file = entry;
        }
        Some(project)
    }

    fn pypi_file(&self, name: &str, filename: &str) -> Option<Vec<u8>> {
        let file = self.folder.join("pypi").join(name).join(filename);
        let project =
            self.description("pypi", name, &format!("{}/{name}/", self.pypi), PYPI_KIND)?;
        let entry = project["files"]
            .as_array()?
            .iter()
            .find(|entry| entry["filename"] == filename)?;
        self.note("pypi", name, filename, entry["hashes"]["sha256"].as_str()?);
        self.fetched(&file, entry["url"].as_str()?, "*/*")
    }

    /// What a registry says of a package, once for all times, or anew where it knows nothing of what the lock names.
    fn description(&self, registry: &str, name: &str, url: &str, kind: &str) -> Option<Value> {
        if self.lock.is_some() && !self.is_locked(registry, name) {
            self.missing
                .lock()
                .unwrap()
                .insert(format!("{registry} {name}"));
            return None;
        }
        let file = self.folder.join(registry).join(name).join("index.json");
        // Without a lock it is about now.
        let is_new = self.lock.is_none() && self.new.lock().unwrap().insert(file.clone());
        let text = match is_new {
            true => Self::fetch(&file, url, kind)?,
            false => self.fetched(&file, url, kind)?,
        };
        let known = self.lock.iter().flat_map(|lock| lock.keys());
        let mut known = known.filter(|(of, package, _)| of == registry && package == name);
        let said = String::from_utf8_lossy(&text);
        let is_old = !known.all(|(_, _, version)| said.contains(&format!("\"{version}\"")));
        if is_old && self.mode == Mode::Fetch {
            return serde_json::from_slice(&Self::fetch(&file, url, kind)?).ok();
        }
        serde_json::from_slice(&text).ok()
    }

    /// A file of the folder, fetched if it is not there. npm and pip check its hash.
    fn fetched(&self, file: &Path, url: &str, kind: &str) -> Option<Vec<u8>> {
        if let Ok(bytes) = fs::read(file) {
            return Some(bytes);
        }
        match self.mode {
            Mode::Warm => None,
            Mode::Fetch | Mode::Lock => Self::fetch(file, url, kind),
        }
    }

    /// Fetches a file into the folder, in the place of an older one.
    fn fetch(file: &Path, url: &str, kind: &str) -> Option<Vec<u8>> {
        fs::create_dir_all(file.parent()?).unwrap();
        // Other builds may fetch the same into this folder.
        let own = (std::process::id(), std::thread::current().id());
        let part = file.with_extension(format!("{}.{:?}.part", own.0, own.1));
        let accept = format!("Accept: {kind}");
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--fail",
            "--location",
            "--retry",
            "3",
            "--header",
            &accept,
            "--output",
        ]);
        if !curl.arg(&part).arg(url).status().unwrap().success() {
            let _ = fs::remove_file(&part);
            return None;
        }
        fs::rename(&part, file).ok()?;
        fs::read(file).ok()
    }

    fn is_locked(&self, registry: &str, name: &str) -> bool {
        let lock = self.lock.iter().flat_map(|lock| lock.keys());
        lock.into_iter()
            .any(|(of, package, _)| of == registry && package == name)
    }

    fn hash(&self, registry: &str, name: &str, version: &str) -> Option<String> {
        let key = (registry.to_owned(), name.to_owned(), version.to_owned());
        self.lock.as_ref()?.get(&key).cloned()
    }

    fn note(&self, registry: &str, name: &str, version: &str, hash: &str) {
        let key = (registry.to_owned(), name.to_owned(), version.to_owned());
        self.served.lock().unwrap().insert(key, hash.to_owned());
    }
}

fn read(lock: &str) -> Lock {
    let lines = lock.lines().filter_map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        Some(((words.next()?, words.next()?, words.next()?), words.next()?))
    });
    lines.collect()
}

fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

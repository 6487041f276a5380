//! The user's settings of registries: their addresses and secrets.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::defaults;

use super::error::InstallError;
use crate::build::Host;
use crate::files::text;

/// Most bytes that are read of a settings file.
const MAX_SETTINGS: u64 = 256 << 10;
/// Prints pip's default index and the host of its files.
const PIP_DEFAULTS: &str = "from pip._internal.models.index import PyPI; print(PyPI.simple_url); print(PyPI.file_storage_domain)";

/// The settings of a package manager in a build spoke.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) hosts: Vec<Host>,
    pub(super) env: Vec<(String, String)>,
    pub(super) file: String,
    pub(super) secret: bool,
}

/// Runs the user's package manager to print its settings, in `/`, where there are no stranger's settings.
fn ask(program: &Path, arguments: &[&str]) -> Result<String, InstallError> {
    let failed = |reason: String| InstallError::Settings {
        program: program.to_owned(),
        reason,
    };
    let output = Command::new(program)
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it failed");
        if last.ends_with("No module named pip") {
            return Err(InstallError::NoManager("pip"));
        }
        return Err(failed(last.to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// npm's settings: the registry, those of scopes, and the secrets of exactly these.
pub(super) fn of_npm(npm: &Path) -> Result<Settings, InstallError> {
    let said = ask(npm, &["config", "get", "registry", "cafile", "userconfig"])?;
    let asked: BTreeMap<&str, &str> = pairs(&said).collect();
    let of = |key: &str| asked.get(key).copied().unwrap_or_default();
    let mut registries = vec![of("registry").to_owned()];
    let mut lines = vec![format!("registry={}", of("registry"))];
    // npm does not print the secrets in the file. A file that cannot be read has none.
    let own = text(Path::new(of("userconfig")), MAX_SETTINGS).unwrap_or_default();
    let own: Vec<(&str, &str)> = pairs(&own).collect();
    let is_scope = |key: &str| key.starts_with('@') && key.ends_with(":registry");
    for (key, value) in own.iter().filter(|(key, _)| is_scope(key)) {
        registries.push((*value).to_owned());
        lines.push(format!("{key}={value}"));
    }
    let hosts = registries.iter().filter_map(|url| Host::of_url(url));
    let hosts: Vec<Host> = hosts.collect();
    if hosts.is_empty() {
        return Err(InstallError::NoRegistry(npm.to_owned()));
    }
    // A secret's key is the address that it is for, without its scheme.
    let address = |url: &String| {
        let (_, address) = url.split_once("://")?;
        Some(format!("//{}", address.trim_end_matches('/')))
    };
    let addresses: Vec<String> = registries.iter().filter_map(address).collect();
    let mut secret = false;
    for (key, value) in own.iter().filter(|(key, _)| key.starts_with("//")) {
        let Some((address, what)) = key.rsplit_once(':') else {
            continue;
        };
        let address = address.trim_end_matches('/');
        let for_registry = addresses.iter().any(|registry| registry == address);
        if for_registry && matches!(what, "_authToken" | "_auth" | "username" | "_password") {
            secret = true;
            lines.push(format!("{key}={}", with_variables(value)));
        }
    }
    let mut settings = Settings {
        hosts,
        file: lines.join("\n") + "\n",
        secret,
        ..Settings::default()
    };
    settings.certificates(Some(of("cafile")));
    Ok(settings)
}

/// pip's settings: its indexes, or its default one.
pub(super) fn of_pip(python: &Path) -> Result<Settings, InstallError> {
    let said = ask(python, &["-m", "pip", "config", "list"])?;
    let of = |key: &str| {
        // A variable wins over the user's file, and that over the machine's.
        let places = [":env:.", "install.", "global."];
        let value = places.iter().find_map(|place| {
            let name = format!("{place}{key}=");
            said.lines().find_map(|line| line.strip_prefix(&name))
        });
        value.map(|value| value.trim_matches(['\'', '"']).to_owned())
    };
    let defaults = ask(python, &["-c", PIP_DEFAULTS])?;
    let mut defaults = defaults.lines();
    let default = defaults.next().unwrap_or_default().to_owned();
    let files = defaults.next().unwrap_or_default();
    let index = of("index-url").unwrap_or_else(|| default.clone());
    let more = of("extra-index-url").unwrap_or_default();
    let mut indexes = vec![index.as_str()];
    indexes.extend(more.split_whitespace());
    let mut hosts: Vec<Host> = indexes.iter().filter_map(|url| Host::of_url(url)).collect();
    if hosts.is_empty() {
        return Err(InstallError::NoRegistry(python.to_owned()));
    }
    // PyPI keeps its files on another host than its index.
    if indexes.contains(&default.as_str()) {
        hosts.extend(Host::parse(&format!("{files}:443")));
    }
    let env = [("PIP_INDEX_URL", &index), ("PIP_EXTRA_INDEX_URL", &more)];
    let env = env.into_iter().filter(|(_, value)| !value.is_empty());
    let mut settings = Settings {
        hosts,
        env: env
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect(),
        secret: indexes.iter().any(|url| url.contains('@')),
        ..Settings::default()
    };
    settings.certificates(of("cert").as_deref());
    Ok(settings)
}

impl Settings {
    /// The user's certificate files, as far as a spoke sees them.
    fn certificates(&mut self, file: Option<&str>) {
        // A missing file would make every connection fail.
        let shown = |file: &str| {
            let mut places = defaults::ETC.iter().chain(&defaults::SYSTEM);
            places.any(|place| Path::new(file).starts_with(place))
        };
        let variables =
            "NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE PIP_CERT";
        for name in variables.split(' ') {
            if let Some(value) = env::var(name).ok().filter(|value| shown(value)) {
                self.env.push((name.to_owned(), value));
            }
        }
        if let Some(file) = file.filter(|file| shown(file)) {
            for name in ["npm_config_cafile", "PIP_CERT"] {
                self.env.push((name.to_owned(), file.to_owned()));
            }
        }
    }
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.trim(), value.trim()))
}

/// Replaces `${NAME}` as npm does: the build spoke has none of the user's variables.
fn with_variables(value: &str) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        text.push_str(before);
        text.push_str(&env::var(name).unwrap_or_default());
        rest = after;
    }
    text + rest
}

/// The package manager as the user would start it.
pub(super) fn program(host: &crate::Host, name: &'static str) -> Result<PathBuf, InstallError> {
    let mut files = host.path.iter().map(|folder| folder.join(name));
    let found = files.find(|file| file.is_file());
    found.ok_or(InstallError::NoManager(name))
}

/// Python with pip, of the version that a launcher's option names: `3.12`, `3.12.1`, `python3.12`, `cpython-3.12`. It is one of
/// `PATH`, uv's or pyenv's; no program that the option itself names is started, since a stranger may have written it.
pub(super) fn python(host: &crate::Host, wanted: Option<&str>) -> Result<PathBuf, InstallError> {
    let version = wanted.unwrap_or_default().trim_start_matches("cpython");
    let version = version
        .trim_start_matches("python")
        .trim_start_matches(['-', '@']);
    if version.is_empty() {
        return program(host, "python3");
    }
    let missing = || InstallError::NoPython(wanted.unwrap_or_default().escape_debug().to_string());
    if version.contains(|c: char| c != '.' && !c.is_ascii_digit()) {
        return Err(missing());
    }
    let of_user = [".local/share/uv/python", ".pyenv/versions"].into_iter();
    let of_user = of_user.filter_map(|folder| fs::read_dir(host.home.as_ref()?.join(folder)).ok());
    let of_user = of_user.flatten().flatten().map(|it| it.path().join("bin"));
    let folders: Vec<PathBuf> = host.path.iter().cloned().chain(of_user).collect();
    let minor: Vec<&str> = version.split('.').take(2).collect();
    let names = [format!("python{}", minor.join(".")), "python3".to_owned()];
    let files = names
        .iter()
        .flat_map(|name| folders.iter().map(move |it| it.join(name)));
    let mut files = files.filter(|file| file.is_file());
    // Without pip it is of no use.
    let code = "import pip, platform; print(platform.python_version() + '.')";
    let is_it = |said: String| said.starts_with(&format!("{version}."));
    let found = files.find(|file| ask(file, &["-I", "-c", code]).is_ok_and(is_it));
    found.ok_or_else(missing)
}

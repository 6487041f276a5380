//! What the user is offered for an app that is added: folders that it may write, and domains and services of this machine that
//! it may reach. The default is no.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hub::trace::escape;
use names::DomainName;
use provision::Host;

use super::block::{self, Access, Data, Wish};
use super::services;
use crate::configuration::Found;
use crate::question::word;
use crate::terminal::{ask, is_agreed, say};
use crate::{app_setup, paths, unwritten, words};

/// Most questions for one app: a hostile one could try any number of domains.
const MOST: usize = 8;

/// A package that would write beside its program, and the variable that names another place.
const BESIDE: (&str, &str) = ("@modelcontextprotocol/server-memory", "MEMORY_FILE_PATH");

/// The offers for one app.
pub(super) struct Offers<'a> {
    pub(super) wish: &'a Wish,
    pub(super) file: &'a Found,
    /// The configuration without the app.
    pub(super) others: &'a str,
    /// Whether there is a user to ask. Otherwise the lines are printed.
    pub(super) is_asked: bool,
    /// Whether the user has typed its command and variables. An imported file is another's.
    pub(super) is_typed: bool,
    /// What was offered before.
    pub(super) seen: BTreeSet<String>,
    /// The domains that the user has allowed.
    pub(super) domains: Vec<String>,
    /// The services on loopback that the user has allowed.
    pub(super) services: Vec<String>,
}

impl Offers<'_> {
    /// Offers to let it run the programs that its command names, and to let it write the folders that its command names, and
    /// those of the files that its variables name.
    pub(super) fn folders(&mut self, data: &mut Data) {
        let (package, variable) = BESIDE;
        let is_it = self.wish.command.iter().any(|it| it.starts_with(package));
        if is_it && !self.wish.env.contains_key(variable) {
            say(&format!(
                "note: {} can store nothing, because what is installed stays read-only; add it with --env {variable}=FOLDER/FILE \
                 and --write FOLDER, or set {variable} in the file that you import\n",
                self.wish.name
            ));
        }
        self.programs(data);
        for (folder, by) in self.folders_named(data) {
            let shown = folder.to_string_lossy().into_owned();
            let has = |access| {
                let mut all = data.iter();
                all.any(|(path, own)| (*own == access) && folder.starts_with(path))
            };
            // What is in it is shown with it.
            let outside = data
                .iter()
                .filter(|(path, _)| !Path::new(path).starts_with(&folder));
            let with = |access| -> Data {
                let outside = outside.clone().cloned();
                outside.chain([(shown.clone(), access)]).collect()
            };
            if has(Access::Write) || !self.is_fit(&shown, &with(Access::Write)) {
                continue;
            }
            let (app, path, by) = (&self.wish.name, escape(&shown), word(&by));
            let project = paths::code_in(&folder);
            let code = project.map_or(String::new(), |what| {
                format!(", and has {what}: with write it can change code that you run")
            });
            // First to be read, where what it writes would be run outside of the sandbox.
            let (may, choices): (_, &[_]) = match project {
                Some(_) if !has(Access::Read) => ("does not see", &[Access::Read, Access::Write]),
                _ => ("may not write", &[Access::Write]),
            };
            let says = format!("{app} {may} {path}, which {by} names{code}");
            if let Some(access) = self.mount(&shown, &says, choices) {
                *data = with(access);
            }
        }
    }

    /// Offers to let it run the programs that its command names.
    fn programs(&mut self, data: &mut Data) {
        for at in 0..data.len() {
            let Some((path, _)) = data
                .get(at)
                .filter(|(path, own)| *own == Access::Read && is_program(Path::new(path)))
            else {
                continue;
            };
            let (path, mut with) = (path.clone(), data.clone());
            if let Some((_, access)) = with.get_mut(at) {
                *access = Access::Run;
            }
            let says = format!(
                "{} may not run {}, which its command or a variable names",
                self.wish.name,
                escape(&path)
            );
            if self.would_start(&with) && self.mount(&path, &says, &[Access::Run]).is_some() {
                *data = with;
            }
        }
    }

    /// The folders that the command and the variables name, and those of files that are written in them: what names it.
    fn folders_named(&self, data: &Data) -> BTreeMap<PathBuf, String> {
        const COMMAND: &str = "its command";
        let host = Host::of_user();
        let written = data.iter().filter(|(_, own)| *own == Access::Write);
        let written: Vec<PathBuf> = written.map(|(path, _)| path.into()).collect();
        let words = self.wish.command.iter().skip(1);
        let words = words.map(|word| (word.clone(), COMMAND.to_owned()));
        let variables = services::variables(self.wish).into_iter();
        let variables = variables.map(|(name, value)| (value, name));
        let mut folders = BTreeMap::new();
        for (text, by) in variables.chain(words) {
            let Some(path) = provision::named_path(&text) else {
                continue;
            };
            if provision::is_diverted(&host, &path, &written) {
                continue;
            }
            // A program may read the file that an argument names, but writes one that is not there yet, and files beside a
            // database.
            let is_written = by != COMMAND || !path.exists() || is_database(&path);
            let folder = match path.is_dir() {
                true => Some(&*path),
                false => path.parent().filter(|_| is_written),
            };
            if let Some(Ok(folder)) = folder.map(Path::canonicalize) {
                folders.entry(folder).or_insert(by);
            }
        }
        folders
    }

    /// Whether a folder holds no more than an app needs, and a session would start with these mounts.
    fn is_fit(&self, folder: &str, data: &Data) -> bool {
        let alone = Wish {
            command: vec![String::new(), folder.to_owned()],
            ..Wish::default()
        };
        // What every app sees is no folder of the user's.
        !paths::is_of_programs(folder)
            && block::data(&alone, &[]).is_ok_and(|found| !found.is_empty())
            && self.would_start(data)
    }

    /// Whether a session would start with these mounts.
    fn would_start(&self, data: &Data) -> bool {
        let planned = block::of(self.wish, data, &[]);
        let config = block::with(self.file.path(), self.others, &planned);
        config.is_ok_and(|config| app_setup::mounts(&config).is_ok())
    }

    /// The app with the services that it may connect to.
    pub(super) fn granted(&self) -> Wish {
        Wish {
            connect: self.services.clone(),
            ..self.wish.clone()
        }
    }

    /// Offers the services on loopback that its command and its variables name.
    pub(super) fn services(&mut self) {
        for (service, by) in services::named(self.wish) {
            let named = format!("which {} names", word(&by));
            self.service(&service, &named, self.is_typed);
        }
    }

    /// Offers a service on loopback. With `--yes` one that the user has typed is allowed, as the files in a command are read.
    fn service(&mut self, service: &str, why: &str, is_typed: bool) {
        let (name, mut with) = (&self.wish.name, self.granted());
        with.connect.push(service.to_owned());
        let planned = block::of(&with, &Data::new(), &[]);
        // The port may be open already, or a provider's.
        let is_fit = block::with(self.file.path(), self.others, &planned).is_ok();
        if is_fit && is_typed && !self.is_asked {
            say(&format!(
                "{name} may connect to {service} on this machine, {why}\n"
            ));
            self.services.push(service.to_owned());
            return;
        }
        let says = format!("{name} may not connect to {service} on this machine, {why}");
        if is_fit && self.offer(service, &says, "allow", &unwritten::connect(name, service)) {
            self.services.push(service.to_owned());
        }
    }

    /// Offers the domains and the services on loopback that it tried to reach. Whether one was allowed.
    pub(super) fn places(&mut self, tried: &BTreeMap<String, String>) -> bool {
        let before = self.domains.len() + self.services.len();
        for name in tried.keys() {
            if unwritten::port(name).is_some() {
                self.service(name, "which it says that it tried", false);
                continue;
            }
            let lines = block::domains(&self.wish.name, std::slice::from_ref(name));
            let planned = block::of(self.wish, &Data::new(), &[]) + &lines;
            // An address or a public suffix is none.
            let Ok(domain) = DomainName::new(name) else {
                continue;
            };
            let is_fit = block::with(self.file.path(), self.others, &planned).is_ok();
            // The part that has an owner comes first: the beginning of a long name can look like another's.
            let owner = domain.registrable();
            let asked = match owner == domain.as_str() {
                true => String::new(),
                false => format!(" (asked for: {domain})"),
            };
            let says = format!(
                "{} tried to connect to {owner}{asked}. Allowing it covers {domain} and all names below it",
                self.wish.name
            );
            if is_fit && self.offer(name, &says, "allow", &lines) {
                self.domains.push(name.clone());
            }
        }
        self.domains.len() + self.services.len() > before
    }

    /// Offers a mount with one of these accesses. Without a user to ask, the lines of the first are printed.
    fn mount(&mut self, path: &str, says: &str, choices: &[Access]) -> Option<Access> {
        let (first, others) = choices.split_first()?;
        let lines = block::mount(&self.wish.name, path, *first);
        let [second] = others else {
            let is_allowed = self.offer(path, says, first.word(), &lines);
            return is_allowed.then_some(*first);
        };
        if !self.is_asked {
            self.offer(path, says, first.word(), &lines);
            return None;
        }
        if !self.is_new(path) {
            return None;
        }
        let (one, two) = (first.word(), second.word());
        let prompt =
            format!("{says}. Type {one} to let it {one}, or {two} to let it {two} too [no]: ");
        let unclear = format!("Type {one}, {two} or no.");
        let chosen = ask(&prompt, &unclear, |line| match words::read(line, one) {
            Some(is_first) => Some(is_first.then_some(*first)),
            None => words::read(line, two).map(|_| Some(*second)),
        });
        chosen.flatten()
    }

    /// Whether something may be offered, and was not before.
    fn is_new(&mut self, what: &str) -> bool {
        self.seen.len() < MOST && self.seen.insert(what.to_owned())
    }

    /// Asks once, or prints the lines.
    fn offer(&mut self, what: &str, says: &str, word: &str, lines: &str) -> bool {
        if !self.is_new(what) {
            return false;
        }
        if self.is_asked {
            return is_agreed(&format!("{says}. Type {word} to allow it [no]: "), word);
        }
        let file = self.file.path().display();
        say(&format!(
            "{says}. To allow it, have these lines in {file}:\n{lines}\n"
        ));
        false
    }
}

/// Whether a file is a program by its mode and its beginning.
fn is_program(file: &Path) -> bool {
    let mode = file
        .metadata()
        .map(|it| (it.is_file(), it.permissions().mode()));
    let is_executable = mode.is_ok_and(|(is_file, mode)| is_file && mode & 0o111 != 0);
    let mut start = [0; 4];
    is_executable
        && File::open(file).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && (start.starts_with(b"#!") || start == *b"\x7fELF")
}

/// Whether a file is a database, by its name.
fn is_database(file: &Path) -> bool {
    let kind = file.extension().and_then(|kind| kind.to_str());
    matches!(kind, Some("db" | "sqlite" | "sqlite3" | "duckdb"))
}

//! What the user is offered for an app that is added: folders that it may write, and domains and services of this machine that
//! it may reach. The default is no.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hub::trace::escape;
use names::DomainName;

use super::block::{self, Data, Wish};
use super::services;
use crate::configuration::Found;
use crate::question::word;
use crate::terminal::{is_agreed, say};
use crate::{app_setup, paths, unwritten};

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
    /// Offers to let it write the folders that its command names, and those of the files that its variables name.
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
        let read = data
            .iter()
            .filter(|(path, write)| !write && Path::new(path).is_dir());
        let mut wanted: BTreeMap<PathBuf, &str> =
            read.map(|(path, _)| (path.into(), "its command")).collect();
        for (name, value) in &self.wish.env {
            let path = Path::new(value);
            // The file need not be there yet.
            let folder = Some(path).filter(|path| path.is_dir()).or(path.parent());
            let folder = folder
                .filter(|_| path.is_absolute())
                .map(Path::canonicalize);
            wanted.extend(folder.and_then(Result::ok).map(|folder| (folder, &**name)));
        }
        for (folder, named_by) in wanted {
            let shown = folder.to_string_lossy().into_owned();
            let is_writable = |(path, write): &(String, bool)| *write && folder.starts_with(path);
            // What is in it is shown with it.
            let outside = data
                .iter()
                .filter(|(path, _)| !Path::new(path).starts_with(&folder));
            let with: Data = outside.cloned().chain([(shown.clone(), true)]).collect();
            if data.iter().any(is_writable) || !self.is_fit(&shown, &with) {
                continue;
            }
            let (app, path) = (&self.wish.name, escape(&shown));
            let says = format!("{app} may not write {path}, which {} names", word(named_by));
            if self.offer(&shown, &says, "write", &block::mount(app, &shown, true)) {
                *data = with;
            }
        }
    }

    /// Whether a folder holds no more than an app needs, and a session would start with these mounts.
    fn is_fit(&self, folder: &str, data: &Data) -> bool {
        let alone = Wish {
            command: vec![String::new(), folder.to_owned()],
            ..Wish::default()
        };
        let planned = block::of(self.wish, data, &[]);
        let config = block::with(self.file.path(), self.others, &planned);
        if paths::is_of_programs(folder) {
            return false;
        }
        // What every app sees is no folder of the user's.
        block::data(&alone, &[]).is_ok_and(|found| !found.is_empty())
            && config.is_ok_and(|config| app_setup::mounts(&config).is_ok())
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

    /// Asks once, or prints the lines.
    fn offer(&mut self, what: &str, says: &str, word: &str, lines: &str) -> bool {
        if self.seen.len() >= MOST || !self.seen.insert(what.to_owned()) {
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

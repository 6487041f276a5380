//! What commands need of a machine, on small machines made for the purpose.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provision::{Host, Needs, Purpose, Wanted, find};

/// A home with folders of programs, and what to ask about it.
struct Machine {
    folder: tempfile::TempDir,
    env: BTreeMap<String, String>,
    given: Vec<PathBuf>,
    /// What apps may write.
    writable: Vec<PathBuf>,
    /// Trees of installed packages.
    installed: Vec<PathBuf>,
    /// What has installed them.
    installed_by: Option<PathBuf>,
    /// What parts of them start by name.
    programs: Vec<String>,
    path: Vec<PathBuf>,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        Self {
            folder,
            env: BTreeMap::new(),
            given: Vec::new(),
            writable: Vec::new(),
            installed: Vec::new(),
            installed_by: None,
            programs: Vec::new(),
            path: vec!["/usr/bin".into()],
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    /// A file with its folders.
    fn write(&self, name: &str, content: &str) -> &Self {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        self
    }

    fn program(&self, name: &str, content: &str) -> &Self {
        self.write(name, content);
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A binary that needs nothing but the system's libraries.
    fn binary(&self, name: &str) -> &Self {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy("/bin/true", &path).unwrap();
        self
    }

    fn cc(&self, arguments: &[&str]) {
        let output = Command::new("cc")
            .current_dir(self.at(""))
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn link(&self, target: &str, name: &str) -> &Self {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    fn find(&self, command: &[&str]) -> Result<Needs, String> {
        let host = Host {
            path: self.path.clone(),
            home: Some(self.at("home")),
            system: sandbox::defaults::SYSTEM
                .iter()
                .map(PathBuf::from)
                .collect(),
        };
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let wanted = Wanted {
            command: &command,
            env: &self.env,
            given: &self.given,
            writable: &self.writable,
            folders: &self.installed,
            interpreter: self.installed_by.as_deref(),
            programs: &self.programs,
            folder: &self.at("home"),
            data: true,
        };
        find(&host, &wanted).map_err(|error| error.to_string())
    }

    /// The places that are found, each as `TARGET`, or `TARGET < SOURCE` where it has another name.
    fn places(&self, needs: &Needs) -> Vec<String> {
        let short = |path: &Path| {
            path.strip_prefix(self.at(""))
                .unwrap_or(path)
                .display()
                .to_string()
        };
        let place = |found: &provision::Found| {
            let (target, source) = (short(&found.target), short(&found.source));
            let name = if target == source {
                target
            } else {
                format!("{target} < {source}")
            };
            match found.purpose {
                Purpose::Program => name,
                Purpose::Data => format!("data {name}"),
            }
        };
        needs.found.iter().map(place).collect()
    }

    fn needs(&self, command: &[&str]) -> (Needs, Vec<String>) {
        let needs = self.find(command).unwrap();
        let places = self.places(&needs);
        (needs, places)
    }
}

#[test]
fn a_program_of_the_system_needs_nothing() {
    let machine = Machine::new();
    let (needs, places) = machine.needs(&["true", "-x"]);
    assert!(places.is_empty(), "{places:?}");
    assert!(needs.command[0].ends_with("/true") && needs.command[1] == "-x");
}

#[test]
fn a_module_that_is_there_for_the_user_brings_its_package_and_nodes_folder() {
    let mut machine = Machine::new();
    let prefix = "home/.nvm/versions/node/v20.1.0";
    machine
        .binary(&format!("{prefix}/bin/node"))
        .program(
            &format!("{prefix}/lib/node_modules/@scope/server/dist/index.js"),
            "#!/usr/bin/env node\n",
        )
        .write(&format!("{prefix}/lib/node_modules/other/secret.js"), "")
        .link(
            "../lib/node_modules/@scope/server/dist/index.js",
            &format!("{prefix}/bin/server"),
        );
    machine.path.insert(0, machine.at(&format!("{prefix}/bin")));
    let (needs, places) = machine.needs(&["server"]);
    let expected = [
        format!("{prefix}/bin/node"),
        format!("{prefix}/lib/node_modules/@scope/server"),
    ];
    assert_eq!(places, expected);
    // `env` finds the same node as here.
    assert!(needs.env["PATH"].starts_with(&machine.text(&format!("{prefix}/bin:"))));
    assert!(needs.command[0].ends_with("@scope/server/dist/index.js"));
}

#[test]
fn a_module_of_a_project_brings_the_modules_beside_it() {
    let mut machine = Machine::new();
    machine
        .binary("bin/node")
        .write("home/box/node_modules/server/index.js", "")
        .write("home/box/node_modules/dependency/index.js", "")
        .write("home/box/private.txt", "");
    machine.path.insert(0, machine.at("bin"));
    let (_, places) = machine.needs(&[
        "node",
        "--no-warnings",
        &machine.text("home/box/node_modules/server/index.js"),
    ]);
    assert_eq!(places, ["bin/node", "home/box/node_modules"]);
    // A package of the user's own, with modules above it, by a path from the folder of the file.
    machine
        .write("home/box/mine/package.json", "{}")
        .write("home/box/mine/src/main.js", "");
    let (needs, places) = machine.needs(&["node", "-r", "x", "box/mine/src/main.js", "argument"]);
    assert_eq!(
        places,
        ["bin/node", "home/box/mine", "home/box/node_modules"]
    );
    assert_eq!(needs.command[3], machine.text("home/box/mine/src/main.js"));
}

#[test]
fn a_script_without_a_package_comes_alone() {
    let mut machine = Machine::new();
    machine
        .binary("bin/python3")
        .write("home/server.py", "")
        .write("home/diary.txt", "");
    machine.path.insert(0, machine.at("bin"));
    let (_, places) = machine.needs(&["python3", &machine.text("home/server.py")]);
    assert_eq!(places, ["bin/python3", "home/server.py"]);
    machine
        .write("home/tool/pyproject.toml", "")
        .write("home/tool/src/server.py", "");
    let (_, places) = machine.needs(&[
        "python3",
        "-X",
        "dev",
        &machine.text("home/tool/src/server.py"),
    ]);
    assert_eq!(places, ["bin/python3", "home/tool"]);
    // What follows `-m` is no file, and what follows `-c` no script.
    machine.write("home/json", "");
    let (needs, places) = machine.needs(&["python3", "-m", "json"]);
    assert_eq!((places.len(), needs.command[2].as_str()), (1, "json"));
}

#[test]
fn an_environment_brings_the_interpreter_that_it_stands_for_under_every_name() {
    let machine = Machine::new();
    machine
        .binary("home/pythons/cpython-3.11.7/bin/python3.11")
        .write("home/pythons/cpython-3.11.7/lib/python3.11/os.py", "")
        .link("python3.11", "home/pythons/cpython-3.11.7/bin/python3")
        .link("cpython-3.11.7", "home/pythons/cpython-3.11")
        .link(
            &machine.text("home/pythons/cpython-3.11/bin/python3"),
            "home/venv/bin/python",
        )
        .link("python", "home/venv/bin/python3")
        .write(
            "home/venv/pyvenv.cfg",
            &format!(
                "home = {}\nversion = 3.11.7\n",
                machine.text("home/pythons/cpython-3.11/bin")
            ),
        )
        .write("home/source/server.py", "")
        .write(
            "home/venv/lib/python3.11/site-packages/mine.pth",
            &format!("{}\nimport os\n", machine.text("home/source")),
        )
        .program(
            "home/venv/bin/server",
            &format!("#!{}\n", machine.text("home/venv/bin/python3")),
        )
        .link("../../venv/bin/server", "home/.local/bin/server");
    let expected = [
        "home/pythons/cpython-3.11 < home/pythons/cpython-3.11.7",
        "home/pythons/cpython-3.11.7",
        "home/source",
        "home/venv",
    ];
    for command in [
        vec![machine.text("home/.local/bin/server")],
        vec![
            machine.text("home/venv/bin/python"),
            "-m".to_owned(),
            "server".to_owned(),
        ],
    ] {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let (needs, places) = machine.needs(&words);
        assert_eq!(places, expected, "{command:?}");
        // An environment is known by the name of its interpreter.
        assert!(needs.command[0].starts_with(&machine.text("home/venv/bin")));
    }
}

#[test]
fn a_stand_in_of_pyenv_leads_to_the_version_that_is_set() {
    let machine = Machine::new();
    machine
        .program(
            "home/.pyenv/shims/python3",
            "#!/usr/bin/env bash\nexec pyenv\n",
        )
        .binary("home/.pyenv/versions/3.11.7/bin/python3")
        .write("home/.pyenv/version", "3.11.7\n");
    let (needs, places) = machine.needs(&[&machine.text("home/.pyenv/shims/python3")]);
    assert_eq!(places, ["home/.pyenv/versions/3.11.7/bin/python3"]);
    assert!(needs.command[0].contains("versions"));
    machine.write("home/.pyenv/version", "9.9\n");
    let error = machine
        .find(&[&machine.text("home/.pyenv/shims/python3")])
        .unwrap_err();
    assert!(
        error.contains("only chooses among installed versions"),
        "{error}"
    );
}

#[test]
fn a_users_packages_come_with_a_script_that_was_installed_with_them() {
    let mut machine = Machine::new();
    machine
        .binary("bin/python3")
        .program(
            "home/.local/bin/server",
            &format!("#!{}\n", machine.text("bin/python3")),
        )
        .write(
            "home/.local/lib/python3.11/site-packages/server/main.py",
            "",
        )
        .write("home/.local/share/other/secret", "");
    machine.path.insert(0, machine.at("home/.local/bin"));
    let (needs, places) = machine.needs(&["server"]);
    assert_eq!(
        places,
        [
            "bin/python3",
            "home/.local/bin/server",
            "home/.local/lib/python3.11/site-packages"
        ]
    );
    assert_eq!(needs.env["PYTHONUSERBASE"], machine.text("home/.local"));
}

#[test]
fn a_binary_brings_the_libraries_that_it_was_linked_with() {
    let machine = Machine::new();
    machine
        .write("src/inner.c", "int inner(void) { return 1; }\n")
        .write(
            "src/outer.c",
            "int inner(void); int outer(void) { return inner(); }\n",
        );
    machine.write(
        "src/main.c",
        "int outer(void); int main(void) { return outer(); }\n",
    );
    for folder in ["home/tool/lib", "home/tool/bin", "home/tool/more"] {
        fs::create_dir_all(machine.at(folder)).unwrap();
    }
    let cc = |arguments: &[&str]| machine.cc(arguments);
    cc(&[
        "-shared",
        "-fPIC",
        "-o",
        "home/tool/more/libinner.so.1.2",
        "-Wl,-soname,libinner.so.1",
        "src/inner.c",
    ]);
    machine.link("libinner.so.1.2", "home/tool/more/libinner.so.1");
    cc(&[
        "-shared",
        "-fPIC",
        "-o",
        "home/tool/lib/libouter.so",
        "-Wl,-soname,libouter.so",
        "-Wl,-rpath,$ORIGIN/../more",
        "src/outer.c",
        "home/tool/more/libinner.so.1",
    ]);
    cc(&[
        "-o",
        "home/tool/bin/tool",
        "src/main.c",
        "home/tool/lib/libouter.so",
        "-Wl,-rpath,$ORIGIN/../lib",
        "-Wl,--allow-shlib-undefined",
    ]);
    let (_, places) = machine.needs(&[&machine.text("home/tool/bin/tool")]);
    assert_eq!(
        places,
        [
            "home/tool/bin/tool",
            "home/tool/lib/libouter.so",
            "home/tool/more/libinner.so.1 < home/tool/more/libinner.so.1.2",
            "home/tool/more/libinner.so.1.2",
        ]
    );
}

/// A 64-bit ELF file with a table for the linker, and nothing to execute.
fn elf(needed: &[String], folders: &[String]) -> Vec<u8> {
    const NEEDED: u64 = 1;
    const RUNPATH: u64 = 29;
    let mut strings = vec![0];
    let mut table = Vec::new();
    let tags = needed.iter().map(|name| (NEEDED, name));
    for (tag, text) in tags.chain(folders.iter().map(|folder| (RUNPATH, folder))) {
        table.extend(tag.to_le_bytes());
        table.extend((strings.len() as u64).to_le_bytes());
        strings.extend(text.as_bytes());
        strings.push(0);
    }
    let sections_at = (64 + strings.len() + table.len()) as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // Shared object, x86-64, version 1; no entry and no segments.
    file.extend([3_u16, 62].map(u16::to_le_bytes).concat());
    file.extend(1_u32.to_le_bytes());
    file.extend([0, 0, sections_at].map(u64::to_le_bytes).concat());
    file.extend(0_u32.to_le_bytes());
    // Sizes of the headers, and three sections, of which the first with names is also that of the sections' own.
    file.extend([64_u16, 56, 0, 64, 3, 1].map(u16::to_le_bytes).concat());
    let (strings_size, table_size) = (strings.len() as u64, table.len() as u64);
    file.extend(strings);
    file.extend(table);
    let mut section = |kind: u32, at: u64, size: u64, link: u32, entry: u64| {
        file.extend([0, kind].map(u32::to_le_bytes).concat());
        file.extend([0, 0, at, size].map(u64::to_le_bytes).concat());
        file.extend([link, 0].map(u32::to_le_bytes).concat());
        file.extend([1, entry].map(u64::to_le_bytes).concat());
    };
    section(0, 0, 0, 0, 0);
    section(3, 64, strings_size, 0, 0);
    section(6, 64 + strings_size, table_size, 1, 16);
    file
}

/// A package may bring a binary that names libraries and folders without end.
#[test]
fn a_binary_names_as_many_libraries_as_one_needs() {
    let machine = Machine::new();
    machine
        .program("home/tool/tool", "")
        .binary("home/tool/lib/real.so");
    let absent = |count: usize| (0..count).map(|at| format!("absent{at}.so")).collect();
    let folders = |count: usize| (0..count).map(|at| format!("$ORIGIN/no{at}")).collect();
    let check = |needed: Vec<String>, folders: Vec<String>, expected: bool| {
        fs::write(machine.at("home/tool/tool"), elf(&needed, &folders)).unwrap();
        let (_, places) = machine.needs(&[&machine.text("home/tool/tool")]);
        let (names, at) = (needed.len(), folders.len());
        let found = places.contains(&"home/tool/lib/real.so".to_owned());
        assert_eq!(found, expected, "{names} names, {at} folders");
    };
    let (real, lib) = (["real.so".to_owned()], ["$ORIGIN/lib".to_owned()]);
    let all = |most: Vec<String>, last: &[String]| [most, last.to_vec()].concat();
    check(real.to_vec(), lib.to_vec(), true);
    check(all(absent(255), &real), all(folders(255), &lib), true);
    check(all(absent(256), &real), lib.to_vec(), false);
    check(real.to_vec(), all(folders(256), &lib), false);
    check(
        real.to_vec(),
        vec![all(folders(256), &lib).join(":")],
        false,
    );
    // A table that is longer than any linker's is not read.
    check(all(real.to_vec(), &absent(1 << 16)), lib.to_vec(), false);
}

/// A package may bring a binary that names the user's files as its libraries.
#[test]
fn a_file_that_is_no_library_is_not_given_as_one() {
    let machine = Machine::new();
    machine
        .write("home/notes/diary", "int diary(void) { return 1; }\n")
        .write(
            "src/main.c",
            "int diary(void); int main(void) { return diary(); }\n",
        );
    fs::create_dir_all(machine.at("home/tool")).unwrap();
    machine.cc(&[
        "-shared",
        "-o",
        "src/diary",
        "-Wl,-soname,diary",
        "-x",
        "c",
        "home/notes/diary",
    ]);
    let folder = format!("-Wl,-rpath,{}", machine.text("home/notes"));
    machine.cc(&["-o", "home/tool/tool", "src/main.c", "src/diary", &folder]);
    let (_, places) = machine.needs(&[&machine.text("home/tool/tool")]);
    assert_eq!(places, ["home/tool/tool"]);
}

/// A package of Python with a part in Node starts the user's, which need not be the one that the system has.
#[test]
fn what_a_part_of_a_package_starts_by_name_is_found_as_the_user_means_it() {
    let mut machine = Machine::new();
    machine.installed = vec![machine.at("store/tree")];
    machine
        .program("store/tree/site/bin/server", "#!/usr/bin/env sh\n")
        .binary("home/versions/node/bin/node");
    machine.path.insert(0, machine.at("home/versions/node/bin"));
    let server = machine.text("store/tree/site/bin/server");
    assert_eq!(machine.needs(&[&server]).1, ["store/tree"]);
    machine.programs = ["node", "nobody-has-this"].map(str::to_owned).to_vec();
    let (needs, places) = machine.needs(&[&server]);
    assert_eq!(places, ["home/versions/node/bin/node", "store/tree"]);
    let folder = machine.text("home/versions/node/bin");
    assert!(needs.env["PATH"].starts_with(&format!("{folder}:")));
}

/// What is installed is a stranger's, down to the last file: none of them has a say in what else is seen.
#[test]
fn an_installed_package_names_no_further_places() {
    let mut machine = Machine::new();
    machine.installed = vec![machine.at("store/tree")];
    machine
        .write("home/notes/diary", "")
        .binary("home/versions/mine/bin/run")
        .program("home/tools/backup/run", "#!/bin/sh\n")
        .write("home/tools/backup/package.json", "{}");
    // As an environment with packages that are worked on elsewhere.
    machine
        .program("store/tree/site/bin/server", "#!/usr/bin/env sh\n")
        .write("store/tree/site/pyvenv.cfg", "home = /usr/bin\n")
        .write(
            "store/tree/site/lib/python3.11/site-packages/mine.pth",
            &format!("{}\n", machine.text("home/notes")),
        );
    let server = machine.text("store/tree/site/bin/server");
    assert_eq!(machine.needs(&[&server]).1, ["store/tree"]);
    // As a stand-in that chooses a version.
    machine
        .program("store/tree/shims/run", "#!/bin/sh\n")
        .write("store/tree/version", &machine.text("home/versions/mine"));
    let (needs, places) = machine.needs(&[&machine.text("store/tree/shims/run")]);
    assert_eq!(places, ["store/tree"]);
    assert_eq!(needs.command, [machine.text("store/tree/shims/run")]);
    // As a script of a program of the user's.
    let interpreter = machine.text("home/tools/backup/run");
    machine.program("store/tree/bin/server", &format!("#!{interpreter}\n"));
    let refused = machine.find(&[&machine.text("store/tree/bin/server")]);
    assert!(
        refused
            .unwrap_err()
            .contains("no interpreter that is known")
    );
}

/// A path of an environment is easily guessed, and all of its packages would be seen.
#[test]
fn an_installed_script_names_no_interpreter_that_the_user_does_not() {
    let mut machine = Machine::new();
    machine.installed = vec![machine.at("store/tree")];
    machine
        .link("/usr/bin/env", "home/project/.venv/bin/python3")
        .write("home/project/.venv/pyvenv.cfg", "home = /usr/bin\n")
        .write(
            "home/project/.venv/lib/python3.11/site-packages/mine.py",
            "",
        );
    let guessed = machine.text("home/project/.venv/bin/python3");
    let server = machine.text("store/tree/bin/server");
    for line in [
        guessed.clone(),
        // What is written looks like a place of the system, or of its own.
        format!("/usr/bin/../..{guessed}"),
        machine.text("store/tree/../../home/project/.venv/bin/python3"),
        // `env` takes a path as well.
        format!("/usr/bin/env {guessed}"),
        format!("/usr/bin/env ../..{guessed}"),
        format!("/usr/bin/env -S {guessed} -u"),
    ] {
        machine.program("store/tree/bin/server", &format!("#!{line}\n"));
        let refused = machine.find(&[&server]).unwrap_err();
        assert!(
            refused.contains("outside of your PATH"),
            "{line}: {refused}"
        );
    }
    machine.program("store/tree/bin/server", &format!("#!{guessed}\n"));
    // As the user would write it, and by what it was installed with.
    machine.path.insert(0, machine.at("home/project/.venv/bin"));
    let seen = ["home/project/.venv", "store/tree"];
    assert_eq!(machine.needs(&[&server]).1, seen);
    machine.path.remove(0);
    machine.installed_by = Some(guessed.into());
    assert_eq!(machine.needs(&[&server]).1, seen);
}

/// An app that may write where a part of its program lies would else choose what it sees at its next start.
#[test]
fn what_an_app_may_write_names_no_further_places() {
    let mut machine = Machine::new();
    let data = |name: &str| format!("home/data/{name}");
    machine
        .write("home/notes/diary", "")
        .binary("home/python/bin/python3")
        .write("home/python/lib/python3/os.py", "")
        .write(&data("venv/pyvenv.cfg"), "home = /usr/bin\n")
        .link(
            &machine.text("home/python/bin/python3"),
            &data("venv/bin/python3"),
        )
        .write(
            &data("venv/lib/python3.11/site-packages/mine.pth"),
            &format!("{}\n", machine.text("home/notes")),
        )
        .program(
            "home/server",
            &format!("#!{}\n", machine.text("home/data/venv/bin/python3")),
        )
        .program(&data("venv/bin/tool"), "#!/bin/sh\n")
        .link("data/venv/bin/tool", "home/tool")
        .program(&data("shims/run"), "#!/bin/sh\n")
        .write(&data("version"), &machine.text("home/python"))
        .link("data/shims/run", "home/run");
    machine.writable = vec![machine.at("home/data")];
    // Under its own name, and under another.
    for given in [machine.at("home/data"), "/data".into()] {
        machine.given = vec![given];
        for program in ["home/server", "home/tool", "home/run"] {
            let refused = machine.find(&[&machine.text(program)]).unwrap_err();
            assert!(
                refused.contains("that an app may write"),
                "{program}: {refused}"
            );
        }
    }
    // What lies there is seen there, and a link in it leads nowhere else.
    machine
        .link(&machine.text("home/notes"), &data("planted"))
        .link("data/planted", "home/way");
    machine.given = vec![machine.at("home/data")];
    let (_, places) = machine.needs(&["true", &machine.text("home/way")]);
    assert!(places.is_empty(), "{places:?}");
    // The environment is the user's, and its packages are an app's to write.
    let site = "home/venv/lib/python3.11/site-packages";
    machine
        .write("home/venv/pyvenv.cfg", "home = /usr/bin\n")
        .link("/usr/bin/env", "home/venv/bin/python3")
        .write(
            &format!("{site}/mine.pth"),
            &format!("{}\n", machine.text("home/notes")),
        );
    machine.writable = vec![machine.at(site)];
    let (_, places) = machine.needs(&[&machine.text("home/venv/bin/python3")]);
    assert_eq!(places, ["home/venv"]);
    machine.writable.clear();
    let (_, places) = machine.needs(&[&machine.text("home/venv/bin/python3")]);
    assert_eq!(places, ["home/notes", "home/venv"]);
}

#[test]
fn a_script_of_the_users_may_give_env_a_whole_path() {
    let machine = Machine::new();
    let interpreter = machine.text("home/tools/python3");
    machine
        .binary("home/tools/python3")
        .program("home/server", &format!("#!/usr/bin/env {interpreter}\n"))
        .program(
            "home/astray",
            &format!("#!/usr/bin/env ../..{interpreter}\n"),
        );
    let (_, places) = machine.needs(&[&machine.text("home/server")]);
    assert_eq!(places, ["home/server", "home/tools/python3"]);
    let refused = machine.find(&[&machine.text("home/astray")]).unwrap_err();
    assert!(refused.contains("there is no program"), "{refused}");
}

#[test]
fn what_arguments_and_variables_name_is_seen_as_data() {
    let mut machine = Machine::new();
    machine
        .write("home/papers/a.txt", "")
        .write("home/key.json", "")
        .link("papers", "home/link");
    machine
        .env
        .insert("FILE".to_owned(), machine.text("home/key.json"));
    let arguments = [
        "true".to_owned(),
        machine.text("home/papers"),
        format!("--folder={}", machine.text("home/link")),
        machine.text("home/not-there-yet"),
        "papers".to_owned(),
    ];
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (needs, places) = machine.needs(&words);
    assert_eq!(
        places,
        [
            "data home/key.json",
            "data home/link < home/papers",
            "data home/papers"
        ]
    );
    assert_eq!(needs.command[1..], arguments[1..]);
    // What the user mounts is not looked for.
    machine.given = vec![machine.at("home/papers"), machine.at("home/link")];
    let (_, places) = machine.needs(&words);
    assert_eq!(places, ["data home/key.json"]);
}

#[test]
fn paths_are_named_in_many_ways() {
    for (text, path) in [
        ("/a/b", Some("/a/b")),
        ("/a/b:c", Some("/a/b:c")),
        ("--root=/a", Some("/a")),
        ("ROOT=/a", Some("/a")),
        ("file:///a/b%20c", Some("/a/b c")),
        ("file://localhost/a", Some("/a")),
        ("--root=file:/a", Some("/a")),
        ("sqlite:////a.db?mode=ro", Some("/a.db")),
        ("sqlite:///a.db", Some("/a.db")),
        ("file:///a%2", None),
        ("http://localhost/a", None),
        ("https://host/?a=/b", None),
        ("a/b", None),
    ] {
        assert_eq!(
            provision::named_path(text).as_deref(),
            path.map(Path::new),
            "{text}"
        );
    }
}

#[test]
fn a_worktree_brings_the_git_folder_that_names_it() {
    let mut machine = Machine::new();
    let git = "home/main/.git/worktrees/tree";
    let leads = format!("gitdir: {}\n", machine.text(git));
    let back = format!("{}\n", machine.text("home/tree/.git"));
    machine
        .write(&format!("{git}/gitdir"), &back)
        .write(&format!("{git}/commondir"), "../..\n")
        .write("home/main/.git/HEAD", "ref: refs/heads/main\n")
        .write("home/main/.git/objects/info/packs", "")
        .write("home/main/.git/refs/heads/main", "")
        .write("home/tree/.git", &leads)
        .write("home/stranger/.git", &leads)
        .write("home/secret/notes.txt", "");
    let tree = machine.text("home/tree");
    let (_, places) = machine.needs(&["true", &tree]);
    assert_eq!(places, ["data home/main/.git", "data home/tree"]);
    let (_, places) = machine.needs(&["true", &machine.text("home/stranger")]);
    assert_eq!(places, ["data home/stranger"]);
    machine.given = vec![machine.at("home/tree")];
    assert_eq!(machine.needs(&["true"]).1, ["data home/main/.git"]);
    // An app that may write the worktree decides what its file names.
    machine.writable = machine.given.clone();
    assert!(machine.needs(&["true"]).1.is_empty());
    machine.writable.clear();
    machine
        .write("home/tree/.git", "gitdir: git/worktrees/tree\n")
        .write("home/tree/git/worktrees/tree/gitdir", &back)
        .write("home/tree/git/worktrees/tree/commondir", "../..\n");
    assert!(machine.needs(&["true"]).1.is_empty());
    machine
        .write("home/tree/.git", &leads)
        .write(&format!("{git}/commondir"), "../../../../secret");
    assert!(machine.needs(&["true"]).1.is_empty());
}

#[test]
fn the_content_of_a_folder_does_not_widen_what_is_seen() {
    let machine = Machine::new();
    let git = "home/main/.git/worktrees/tree";
    machine
        .write(&format!("{git}/gitdir"), &machine.text("home/tree/.git"))
        .write(&format!("{git}/commondir"), "../..\n")
        .write("home/main/.git/HEAD", "ref: refs/heads/main\n")
        .write("home/main/.git/objects/info/packs", "")
        .write("home/main/.git/refs/heads/main", "")
        .write("home/tree/.git", &format!("gitdir: {}", machine.text(git)))
        .write("home/box/private/notes.txt", "")
        // A git folder inside, whose common folder is the one around.
        .write("home/box/forged/.git", "gitdir: g\n")
        .write("home/box/forged/g/gitdir", "../.git\n")
        .write("home/box/forged/g/commondir", "../..\n")
        // The file of another worktree.
        .link("../../tree/.git", "home/box/linked/.git")
        // A git folder of nothing.
        .write("home/box/bare/.git", "gitdir: ../worktrees/bare\n")
        .write("home/box/worktrees/bare/gitdir", "../../bare/.git\n")
        .write("home/box/worktrees/bare/commondir", "../..\n");
    for name in ["forged", "linked", "bare"] {
        let folder = format!("home/box/{name}");
        let (_, places) = machine.needs(&["true", &machine.text(&folder)]);
        assert_eq!(places, [format!("data {folder}")]);
    }
}

#[test]
fn a_link_that_an_app_may_have_made_names_nothing() {
    let machine = Machine::new();
    machine
        .write("home/private/notes.txt", "")
        .write("home/box/own/notes.txt", "")
        .link("../private", "home/box/db");
    let host = Host::of_user();
    let work = machine.at("home/box");
    for (path, writable, is_diverted, source) in [
        ("home/box/db", vec![work.clone()], true, None),
        ("home/box/own", vec![work], false, Some("home/box/own")),
        ("home/box/db", vec![], false, Some("home/private")),
    ] {
        let command = ["true".to_owned(), machine.text(path)];
        let found = provision::named(&host, &command, &machine.env, &writable).unwrap();
        let first = found.first().map(|found| found.source.clone());
        assert_eq!(first, source.map(|name| machine.at(name)), "{path}");
        assert_eq!(
            provision::is_diverted(&host, &machine.at(path), &writable),
            is_diverted
        );
    }
}

#[test]
fn a_program_in_a_mount_of_the_users_is_left_to_it() {
    let mut machine = Machine::new();
    machine.given = vec!["/app".into()];
    for command in [["/app/bin/server", "x"], ["server", "x"]] {
        let (needs, places) = machine.needs(&command);
        assert_eq!(
            (places.len(), &*needs.command),
            (0, &command.map(str::to_owned)[..])
        );
    }
}

#[test]
fn what_holds_more_than_a_program_is_refused() {
    let machine = Machine::new();
    machine
        .write("home/.ssh/id_ed25519", "key")
        .program("home/.ssh/tool", "#!/bin/sh\n")
        .write("home/kept/.git-credentials", "x")
        .write("home/kept/package.json", "{}")
        .link(".ssh/tool", "home/innocent")
        .link(".ssh", "home/papers");
    let home = machine.text("home");
    let refused = |command: &[&str], expected: &str| {
        let error = machine.find(command).unwrap_err();
        assert!(error.contains(expected), "{command:?}: {error}");
    };
    refused(&["true", &home], "a whole home");
    refused(&["true", &machine.text("")], "a whole home");
    refused(&["true", "/opt"], "a whole part of the system");
    refused(&["true", "/"], "a whole part of the system");
    refused(
        &["true", &machine.text("home/.ssh")],
        "keys are kept in '.ssh'",
    );
    refused(
        &["true", &machine.text("home/papers")],
        "keys are kept in '.ssh'",
    );
    refused(
        &["true", &machine.text("home/.ssh/id_ed25519")],
        "keys are kept in '.ssh'",
    );
    refused(&[&machine.text("home/innocent")], "keys are kept in '.ssh'");
    refused(
        &["true", &machine.text("home/kept")],
        "it holds '.git-credentials'",
    );
    // A script in such a folder comes alone, whatever would make the folder its package.
    machine.program("home/kept/run.sh", "#!/bin/sh\n");
    let (_, places) = machine.needs(&[&machine.text("home/kept/run.sh")]);
    assert_eq!(places, ["home/kept/run.sh"]);
}

/// Whoever opens a pipe waits until another one writes into it.
#[test]
fn a_pipe_is_not_opened() {
    let machine = Machine::new();
    let pipe = machine.at("home/python3");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    machine.program("home/server", &format!("#!{}\n", pipe.display()));
    let opened = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (opened, pipe) = (Arc::clone(&opened), pipe.clone());
        move || {
            // Goes on when somebody reads, who gets nothing before `opened` is set.
            let file = fs::OpenOptions::new().write(true).open(pipe).unwrap();
            opened.store(true, Ordering::SeqCst);
            drop(file);
        }
    });
    let refused = machine.find(&[&machine.text("home/server")]).unwrap_err();
    assert!(!opened.load(Ordering::SeqCst), "{refused}");
    assert!(refused.contains("no file"), "{refused}");
    fs::read(&pipe).unwrap();
    writer.join().unwrap();
}

#[test]
fn messages_name_what_is_missing() {
    let machine = Machine::new();
    machine
        .program("home/a", "#!/usr/bin/env no-such-interpreter\n")
        .program("home/b", "#!/opt/gone/bin/python3\n")
        .program("home/c", "no script\n")
        .write("home/d", "#!/bin/sh\n")
        .link("/nowhere/at/all", "home/e");
    let said = |command: &[&str]| machine.find(command).unwrap_err();
    assert!(
        said(&["no-such-program"])
            .starts_with("there is no program 'no-such-program' in PATH (/usr/bin)")
    );
    assert!(said(&[&machine.text("home/a")]).contains("no program 'no-such-interpreter'"));
    let error = said(&[&machine.text("home/b")]);
    assert!(
        error.contains("/opt/gone/bin/python3") && error.contains("home/b' names"),
        "{error}"
    );
    assert!(said(&[&machine.text("home/c")]).contains("neither a binary nor a script"));
    assert!(said(&[&machine.text("home/d")]).contains("chmod +x"));
    assert!(said(&[&machine.text("home/e")]).contains("/nowhere/at/all"));
    assert!(said(&[]).contains("no command"));
}

#[test]
fn links_in_a_circle_and_interpreters_without_end_end() {
    let machine = Machine::new();
    machine.link("b", "home/a").link("a", "home/b");
    assert!(machine.find(&[&machine.text("home/a")]).is_err());
    let own = machine.text("home/self");
    machine.program("home/self", &format!("#!{own}\n"));
    assert!(
        machine
            .find(&[&own])
            .unwrap_err()
            .contains("nested too deep")
    );
}

//! Packages of Python that bring a program of Node, by the real npm in the real sandbox. A stand-in of `python3` leaves
//! what a wheel, or a program in it, would leave.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{SERVER, Stage, words};
use crate::apps::registry::Package;

/// Where a wheel has its program of Node.
const READER: &str = "/build/site/reader/javascript";

struct Wheel {
    stage: Stage,
}

impl Wheel {
    /// A package `server` with a program of Node that needs these modules. `more` runs in the build spoke, as a program
    /// of the package would.
    fn new(dependencies: &Value, more: &str) -> Self {
        let stage = Stage::new();
        let other = Package {
            version: "1.0.0".to_owned(),
            description: json!({ "name": "other" }),
            files: vec![("index.js", String::new())],
            elsewhere: None,
        };
        stage.registry.publish("other", other);
        let description = json!({ "dependencies": dependencies });
        let address = &stage.registry.address;
        let stand_in = format!(
            "#!/bin/sh\nset -e\ncase \"$*\" in\n\"-m pip config list\") exit 0;;\n\
             -c*) echo http://{address}/simple; echo {address}; exit 0;;\nesac\n\
             mkdir -p /build/site/bin {READER}\n\
             cat > /build/site/bin/server <<'END'\n{SERVER}\nEND\n\
             chmod +x /build/site/bin/server\necho look > /build/site/bin/tools.txt\n\
             cd {READER}\necho > read.js\ncat > package.json <<'END'\n{description}\nEND\n{more}\n"
        );
        let python = stage.path("python/python3");
        fs::create_dir(stage.path("python")).unwrap();
        fs::write(&python, stand_in).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        Self { stage }
    }

    /// Adds it; whether it was added, and what was said.
    fn add(&self, more: &[&str]) -> (bool, String) {
        let mut arguments = vec!["app", "add", "server", "--yes"];
        arguments.extend(more);
        arguments.extend(["--", "uvx", "server"]);
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.stage.text("python"));
        let output = self.stage.command(&arguments).env("PATH", path).output();
        let output = output.unwrap();
        (output.status.success(), words(&output))
    }

    /// The folder with the program of Node, where it was installed.
    fn reader(&self) -> PathBuf {
        let shown = self.stage.done(&["app", "show", "server", "--json"]);
        let shown: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
        Path::new(shown["files"].as_str().unwrap()).join("site/reader/javascript")
    }
}

/// Makes a wheel and a source with the user's Python, which these tests need anyway: arguments are the address of the index,
/// the folder to write to, and the server.
const MAKE: &str = r#"
import io, sys, tarfile, zipfile
address, folder, server = sys.argv[1:]
def wheel(name, more, files):
    with zipfile.ZipFile(f"{folder}/{name}.whl", "w") as archive:
        facts = f"{name}-1.0.dist-info/"
        archive.writestr(facts + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{more}")
        archive.writestr(facts + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        for file, text in files.items():
            entry = zipfile.ZipInfo(f"{name}-1.0.data/scripts/{file}")
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
        archive.writestr(facts + "RECORD", "")
wheel("server", "", {"server": server, "tools.txt": "look"})
wheel("sly", f"Requires-Dist: source @ http://{address}/source-1.0.tar.gz\n", {"sly": server, "tools.txt": "look"})
with tarfile.open(f"{folder}/source.tar.gz", "w:gz") as archive:
    def add(file, text):
        entry = tarfile.TarInfo("source-1.0/" + file)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
    add("PKG-INFO", "Metadata-Version: 2.1\nName: source\nVersion: 1.0\n")
    add("pyproject.toml", '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n')
    add("own.py", "raise SystemExit('a program ran')\n")
"#;

/// By the real pip: a dependency may be an address, and what is there need not be a wheel.
#[test]
fn what_a_wheel_names_by_its_address_is_not_built_unless_the_user_says_so() {
    let stage = Stage::new();
    let address = stage.registry.address.clone();
    let folder = stage.text("home/papers");
    let made = Command::new("python3")
        .args(["-c", MAKE, &address, &folder, SERVER])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", words(&made));
    for name in ["server", "sly"] {
        let file = format!("{name}-1.0-py3-none-any.whl");
        let mut list = format!("<a href='/{file}'>{file}</a>");
        if name == "server" {
            list += "<a href='/server-2.0.tar.gz'>server-2.0.tar.gz</a>";
        }
        let index = format!("simple/{name}/");
        stage.registry.serve_file(&index, list.into_bytes());
        let wheel = fs::read(stage.path(&format!("home/papers/{name}.whl"))).unwrap();
        stage.registry.serve_file(&file, wheel);
    }
    let source = fs::read(stage.path("home/papers/source.tar.gz")).unwrap();
    stage.registry.serve_file("source-1.0.tar.gz", source);
    let add_with = |python: &str, package: &str, more: &[&str]| {
        let mut arguments = vec!["app", "add", package, "--yes"];
        arguments.extend(more);
        arguments.extend(["--", "uvx", "--python", python, package]);
        let index = format!("http://{address}/simple");
        let mut command = stage.command(&arguments);
        let output = command.env("PIP_INDEX_URL", index).output().unwrap();
        (output.status.success(), words(&output))
    };
    let add = |package: &str, more: &[&str]| add_with("3", package, more);
    let (added, said) = add("sly", &[]);
    assert!(!said.contains("a program ran"), "{said}");
    assert!(
        !added && said.contains("programs run with --scripts only"),
        "{said}"
    );
    let (added, said) = add("sly", &["--scripts"]);
    assert!(!added && said.contains("a program ran"), "{said}");
    let (added, said) = add_with("3.99", "server", &[]);
    assert!(
        !added && said.contains("there is no Python 3.99 with pip"),
        "{said}"
    );
    let (added, said) = add("server", &[]);
    assert!(added, "{said}");
    assert!(
        said.contains("note: 2.0 is newer, but comes as source only"),
        "{said}"
    );
    assert_eq!(stage.tools("server"), ["look"]);
}

#[test]
fn a_wheel_is_added_although_npm_fails_for_a_program_in_it() {
    let wheel = Wheel::new(&json!({ "missing": "^1.0.0" }), "");
    let (added, said) = wheel.add(&[]);
    assert!(
        added && said.contains("lacks its modules, because npm failed"),
        "{said}"
    );
}

/// An `.npmrc` names programs, and whom npm asks.
#[test]
fn settings_of_npm_that_a_package_brings_are_not_read() {
    let settings = format!(
        "cat > .npmrc <<'END'\ngit={READER}/program\nallow-git=all\nregistry=http://127.0.0.1:9/\nEND\n\
         printf '#!/bin/sh\\necho a program ran >&2\\nexit 1\\n' > program\nchmod +x program"
    );
    let repository = json!({ "other": "git+http://127.0.0.1:9/other.git" });
    let wheel = Wheel::new(&repository, &settings);
    let (added, said) = wheel.add(&[]);
    assert!(!said.contains("a program ran"), "{said}");
    assert!(
        added && said.contains("its dependency 'other' is not a registry package"),
        "{said}"
    );
    assert!(!wheel.reader().join("node_modules").exists());
    let wheel = Wheel::new(&json!({ "other": "^1.0.0" }), &settings);
    let (added, said) = wheel.add(&[]);
    assert!(added, "{said}");
    assert!(wheel.reader().join("node_modules/other/index.js").is_file());
}

/// What a program of a package leaves in the build spoke is there for Sluice and for npm, which come after it.
#[test]
fn what_a_build_leaves_behind_is_neither_written_to_nor_read() {
    let mut planted = String::new();
    for name in ["npmrc", "none", ".npmrc", "cache"] {
        planted.push_str(&format!("ln -s $DIARY /scratch/{name}; "));
    }
    let wheel = Wheel::new(&json!({ "other": "^1.0.0" }), &planted);
    let diary = wheel.stage.text("home/papers/diary");
    fs::write(&diary, "mine").unwrap();
    let python = wheel.stage.path("python/python3");
    let stand_in = fs::read_to_string(&python).unwrap();
    fs::write(&python, stand_in.replace("$DIARY", &diary)).unwrap();
    let (added, said) = wheel.add(&["--scripts"]);
    assert_eq!(fs::read_to_string(&diary).unwrap(), "mine");
    assert!(added, "{said}");
    assert!(wheel.reader().join("node_modules/other/index.js").is_file());
}

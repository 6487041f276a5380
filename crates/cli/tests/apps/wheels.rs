//! Packages of Python that bring a program of Node, by the real npm in the real sandbox. A stand-in of `python3` leaves
//! what a wheel, or a program in it, would leave.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::registry::Package;
use crate::{SERVER, Stage, words};

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
    assert!(added, "{said}");
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

//! Packages of Python, by the real pip in the real sandbox.

use std::fs;
use std::process::Command;

use super::{SERVER, Stage, words};

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
        let list = format!("<a href='/{file}'>{file}</a>");
        let index = format!("simple/{name}/");
        stage.registry.serve_file(&index, list.into_bytes());
        let wheel = fs::read(stage.path(&format!("home/papers/{name}.whl"))).unwrap();
        stage.registry.serve_file(&file, wheel);
    }
    let source = fs::read(stage.path("home/papers/source.tar.gz")).unwrap();
    stage.registry.serve_file("source-1.0.tar.gz", source);
    let add = |package: &str, more: &[&str]| {
        let mut arguments = vec!["app", "add", package, "--yes"];
        arguments.extend(more);
        arguments.extend(["--", "uvx", package]);
        let index = format!("http://{address}/simple");
        let mut command = stage.command(&arguments);
        let output = command.env("PIP_INDEX_URL", index).output().unwrap();
        (output.status.success(), words(&output))
    };
    let (added, said) = add("sly", &[]);
    assert!(!said.contains("a program ran"), "{said}");
    assert!(!added && said.contains("built by a program"), "{said}");
    let (added, said) = add("sly", &["--scripts"]);
    assert!(!added && said.contains("a program ran"), "{said}");
    let (added, said) = add("server", &[]);
    assert!(added, "{said}");
    assert_eq!(stage.tools("server"), ["look"]);
}

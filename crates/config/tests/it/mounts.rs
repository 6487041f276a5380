//! Mounts that give too much, on a real file system.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use config::Config;

/// A folder for one test, by its real path.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for name in ["config", "data/inner", "other"] {
            fs::create_dir_all(folder.path(name)).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// A configuration with these mounts of the apps `one` and `two`: app, source and whether it may be written.
    fn load(&self, mounts: &[(&str, &Path, bool)]) -> Result<Config, String> {
        let mut text = String::new();
        for app in ["one", "two"] {
            text += &format!("[app.{app}]\ncommand = [\"/bin/true\"]\n");
            let own = mounts.iter().filter(|mount| mount.0 == app).enumerate();
            for (number, (_, source, write)) in own {
                let source = source.display();
                text += &format!(
                    "[[app.{app}.mount]]\nsource = \"{source}\"\ntarget = \"/{number}\"\nwrite = {write}\n"
                );
            }
        }
        let file = self.path("config/sluice.toml");
        fs::write(&file, text).unwrap();
        Config::load(&file).map_err(|errors| errors.to_string())
    }

    fn refused(&self, mounts: &[(&str, &Path, bool)], words: &str) {
        let error = self.load(mounts).unwrap_err();
        assert!(error.contains(words), "no {words:?} in: {error}");
        assert!(error.contains("sluice.toml:"), "no place in: {error}");
    }
}

/// Each is compared with all others, on the disk.
#[test]
fn there_are_so_many_mounts_and_no_more() {
    let folder = Folder::new();
    let data = folder.path("data");
    let mounts = vec![("one", data.as_path(), false); 513];
    folder.load(&mounts[..512]).unwrap();
    folder.refused(&mounts, "there are more than 512 mounts");
}

#[test]
fn the_host_itself_is_no_mount() {
    let folder = Folder::new();
    for source in ["/", "/proc", "/proc/sys/kernel", "/sys/fs", "/dev/shm"] {
        for write in [false, true] {
            folder.refused(&[("one", Path::new(source), write)], "cannot be mounted");
        }
    }
    folder.load(&[("one", &folder.path("data"), true)]).unwrap();
}

#[test]
fn what_one_app_may_write_is_no_source_of_another() {
    let folder = Folder::new();
    let (data, inner) = (folder.path("data"), folder.path("data/inner"));
    for (other, write) in [("one", false), ("two", false), ("two", true)] {
        let mounts = [("one", &*data, true), (other, &*inner, write)];
        folder.refused(&mounts, "is inside of");
        let mounts = [(other, &*inner, write), ("one", &*data, true)];
        folder.refused(&mounts, "is inside of");
    }
    // Not the folder itself, which it cannot replace, and not if it only reads.
    folder
        .load(&[("one", &data, true), ("two", &data, true)])
        .unwrap();
    folder
        .load(&[("one", &data, false), ("two", &inner, true)])
        .unwrap();
    folder
        .load(&[("one", &data, true), ("two", &folder.path("other"), false)])
        .unwrap();
}

#[test]
fn a_source_below_a_writable_mount_is_known_over_links() {
    let folder = Folder::new();
    let (data, inner) = (folder.path("data"), folder.path("data/inner"));
    let way = folder.path("way");
    symlink(&inner, &way).unwrap();
    folder.refused(
        &[("one", &data, true), ("two", &way, false)],
        "is inside of",
    );
    // A link inside the writable folder to something outside of it is the app's to change.
    let planted = folder.path("data/planted");
    symlink(folder.path("other"), &planted).unwrap();
    folder.refused(
        &[("one", &data, true), ("two", &planted, false)],
        "is inside of",
    );
}

#[test]
fn no_app_may_write_the_configuration() {
    let folder = Folder::new();
    for name in ["config", ""] {
        let source = folder.path(name);
        folder.refused(&[("one", &source, true)], "where the configuration is");
        folder.load(&[("one", &source, false)]).unwrap();
    }
    let file = folder.path("config/sluice.toml");
    folder.refused(&[("one", &file, true)], "where the configuration is");
}

#[test]
fn no_app_may_write_a_manifest_or_a_policy_file() {
    let folder = Folder::new();
    fs::write(folder.path("data/app.toml"), "[app]\nname = \"x\"\ndescription = \"x\"\ncommand = [\"/bin/true\"]\n[tools.t]\neffect = \"read\"\n").unwrap();
    fs::write(
        folder.path("other/rules.cedar"),
        "@id(\"never\")\nforbid (principal, action, resource);\n",
    )
    .unwrap();
    // A link that leads to the manifest, in a folder of its own: whoever may write that, chooses the manifest.
    fs::create_dir(folder.path("links")).unwrap();
    symlink(folder.path("data/app.toml"), folder.path("links/app.toml")).unwrap();
    let file = folder.path("config/sluice.toml");
    let load = |source: &str| {
        let text = format!(
            "[app.one]\nmanifest = \"../links/app.toml\"\npolicy_file = \"../other/rules.cedar\"\n[[app.one.mount]]\nsource = \"{}\"\ntarget = \"/x\"\nwrite = true\n",
            folder.path(source).display()
        );
        fs::write(&file, text).unwrap();
        Config::load(&file).map_err(|errors| errors.to_string())
    };
    for source in ["data", "other", "links"] {
        let error = load(source).unwrap_err();
        assert!(
            error.contains("where the configuration is"),
            "{source}: {error}"
        );
    }
    load("data/inner").unwrap();
}

#[test]
fn no_app_may_write_what_is_to_be_kept() {
    let folder = Folder::new();
    let (data, inner) = (folder.path("data"), folder.path("data/inner"));
    let config = folder.load(&[("one", &inner, true)]).unwrap();
    let check = |kept: PathBuf| config.check_mounts(&[("the traces", kept)]);
    // What holds it, what is it, and what lies in it.
    for kept in [inner.join("traces"), inner.clone(), data] {
        let errors = check(kept).unwrap_err();
        assert!(errors[0].to_string().contains("the traces"), "{errors:?}");
    }
    check(folder.path("other")).unwrap();
    // The same folder by another name.
    let way = folder.path("way");
    symlink(&inner, &way).unwrap();
    check(way.join("traces")).unwrap_err();
}

#[test]
fn a_size_is_for_what_an_app_may_write() {
    let folder = Folder::new();
    let file = folder.path("config/sluice.toml");
    let load = |keys: &str| {
        let source = folder.path("data");
        let text = format!(
            "[app.one]\ncommand = [\"/bin/true\"]\n\
             [[app.one.mount]]\nsource = \"{}\"\ntarget = \"/data\"\n{keys}\n",
            source.display()
        );
        fs::write(&file, text).unwrap();
        let config = Config::load(&file).map_err(|errors| errors.to_string())?;
        Ok::<_, String>(config.apps["one"].mounts[0].size)
    };
    assert_eq!(load("write = true\nsize_mb = 100"), Ok(Some(100 << 20)));
    assert_eq!(load("write = true"), Ok(None));
    let error = load("size_mb = 100").unwrap_err();
    assert!(
        error.contains("'size_mb' is about a folder that the app may write"),
        "{error}"
    );
    load("write = true\nsize_mb = 0").unwrap_err();
}

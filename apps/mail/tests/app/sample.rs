//! The sample Maildir.
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use sluice_mail::sample;

/// Every file with its content and its time.
fn files(maildir: &Path) -> BTreeMap<String, (String, SystemTime)> {
    let mut files = BTreeMap::new();
    for part in ["cur", "new", "tmp"] {
        for file in fs::read_dir(maildir.join(part)).unwrap() {
            let file = file.unwrap();
            let name = format!("{part}/{}", file.file_name().into_string().unwrap());
            let content = fs::read_to_string(file.path()).unwrap();
            files.insert(
                name,
                (content, file.metadata().unwrap().modified().unwrap()),
            );
        }
    }
    files
}

#[test]
fn the_sample_is_the_same_at_every_run() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    sample::write(one.path(), "drop@evil.example").unwrap();
    sample::write(&two.path().join("made"), "drop@evil.example").unwrap();
    let files = files(one.path());
    assert_eq!(files, self::files(&two.path().join("made")));
    assert_eq!(files.len(), 12);
    let with = |text: &str| {
        files
            .iter()
            .filter(|(_, (content, _))| content.contains(text))
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(with("drop@evil.example").len(), 1);
    assert_eq!(with("drop@evil.example"), with(sample::NEWEST_SUBJECT));
    assert_eq!(with(sample::SECRET).len(), 1);
    assert_ne!(with(sample::SECRET), with("drop@evil.example"));
}

#[test]
fn nothing_is_overwritten_and_the_address_is_checked() {
    let home = tempfile::tempdir().unwrap();
    let error = sample::write(home.path(), "x@y\n\nmore").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    sample::write(home.path(), "x@evil.example").unwrap();
    let error = sample::write(home.path(), "x@evil.example").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

//! Opens files that may not be plain files.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a plain file. A stranger's `#!` line or binary may name a pipe, which would block, or a device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    // It may have been replaced since.
    let no_wait = OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options()
        .read(true)
        .custom_flags(no_wait.bits().cast_signed())
        .open(path)
}

/// The beginning of a file, at most so many bytes.
pub(crate) fn beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
pub(crate) fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(beginning(path, most)?).map_err(io::Error::other)
}

/// Longest bundle of certificates; the system's has a quarter of it.
const MAX_CERTIFICATES: u64 = 1 << 20;

/// Whether a file holds certificates in PEM and comments, and nothing else. What such a file says is no secret.
#[must_use]
pub fn holds_certificates(file: &Path) -> bool {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let Ok(text) = text(file, MAX_CERTIFICATES + 1) else {
        return false;
    };
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    let (mut inside, mut count) = (false, 0);
    let fits = text.lines().map(str::trim_end).all(|line| {
        if line == if inside { END } else { BEGIN } {
            inside = !inside;
            count += 1;
            return true;
        }
        match inside {
            true => line.chars().all(is_base64),
            false => line.is_empty() || line.starts_with('#'),
        }
    });
    let is_whole = text.len() as u64 <= MAX_CERTIFICATES && !inside;
    fits && is_whole && count > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let one = "-----BEGIN CERTIFICATE-----\nMIIB+/==\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n";
        for (text, expected) in [
            (format!("# a comment\n\n{one}{one}"), true),
            (one.replace('\n', "\r\n"), true),
            (format!("{one}{key}"), false),
            (format!("{one}password: hush"), false),
            (one.replace("MIIB", "my words"), false),
            (
                one.trim_end().trim_end_matches(|c| c != '=').to_owned(),
                false,
            ),
            ("# nothing\n".to_owned(), false),
        ] {
            std::fs::write(&file, &text).unwrap();
            assert_eq!(holds_certificates(&file), expected, "{text}");
        }
        assert!(!holds_certificates(folder.path()));
    }
}

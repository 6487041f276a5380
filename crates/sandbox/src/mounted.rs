//! What is mounted where, in this process's mount namespace.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount, as the kernel tells it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// The kernel's number of the mount.
    pub(crate) id: u64,
    /// Which part of its file system is mounted, as a path from that file system's root.
    pub(crate) root: PathBuf,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// Name of the file system's kind (`ext4`, `proc`, …).
    pub(crate) kind: String,
}

/// Every mount that this process sees.
///
/// # Errors
/// The table cannot be read, or a line of it is not understood; the text says which.
pub(crate) fn read() -> Result<Vec<Mounted>, String> {
    let table = fs::read("/proc/self/mountinfo")
        .map_err(|error| format!("read what is mounted: {error}"))?;
    let lines = table.split(|byte| *byte == b'\n');
    let parse = |line| {
        let not_understood = || format!("not a mount: {}", String::from_utf8_lossy(line));
        parse(line).ok_or_else(not_understood)
    };
    lines.filter(|line| !line.is_empty()).map(parse).collect()
}

/// A line of `mountinfo`: `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELD…] - KIND SOURCE OPTIONS`.
fn parse(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let root = path(fields.nth(2)?);
    let point = path(fields.next()?);
    // Before the dash stands any number of optional fields.
    fields.find(|field| field == b"-")?;
    let kind = String::from_utf8(fields.next()?.to_owned()).ok()?;
    Some(Mounted {
        id,
        root,
        point,
        kind,
    })
}

/// Blanks, tabs, newlines and backslashes are written as a backslash and three octal digits.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = match (first, after) {
            (b'\\', [a, b, c, after @ ..]) => std::str::from_utf8(&[*a, *b, *c])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 8).ok())
                .map(|byte| (byte, after)),
            _ => None,
        };
        let (byte, after) = octal.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_with_blanks_in_its_name_and_with_optional_fields() {
        let line =
            br"36 35 98:0 /part /mnt\0402\134 rw,noatime master:1 shared:2 - ext3 /dev/root rw";
        let mounted = Mounted {
            id: 36,
            root: PathBuf::from("/part"),
            point: PathBuf::from("/mnt 2\\"),
            kind: "ext3".to_owned(),
        };
        assert_eq!(parse(line), Some(mounted));
        let bare = b"36 35 0:5 / / rw - proc proc rw";
        assert_eq!(parse(bare).unwrap().kind, "proc");
        for broken in [
            &b"36"[..],
            b"x 35 0:5 / / rw - proc",
            b"36 35 0:5 / / rw shared:1",
        ] {
            assert_eq!(parse(broken), None);
        }
    }

    #[test]
    fn the_table_of_this_machine_is_understood() {
        assert!(read().unwrap().iter().any(|mounted| mounted.kind == "proc"));
    }
}

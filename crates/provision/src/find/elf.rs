//! Libraries of binaries.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};

use super::error::FindError;
use super::finder::Finder;
use super::places::resolved;
use super::wanted::Purpose;
use crate::files::{beginning, open};

/// Folders in which the linker always looks; distributions have folders of architectures below.
const STANDARD: [&str; 5] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];
/// Most libraries of one program, and most libraries or folders that one file names. A browser has about a hundred.
const MAX_LIBRARIES: usize = 256;
/// Most bytes that are read of one file: its headers and names, some ten thousand for a large program. A stranger's file may
/// claim tables of any size.
const MAX_READ: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Linked {
    interpreter: Option<PathBuf>,
    needed: Vec<String>,
    /// Its own folders of libraries, with `$ORIGIN` resolved.
    folders: Vec<PathBuf>,
}

impl Finder<'_> {
    /// The linker and the libraries of a binary, and their libraries, outside of the system's folders. A missing library is
    /// not an error: the linker reports it if it is needed.
    pub(super) fn libraries(&mut self, binary: &Path) -> Result<(), FindError> {
        let mut seen = BTreeSet::new();
        let mut open = vec![binary.to_owned()];
        while let Some(file) = open.pop() {
            if !seen.insert(file.clone()) || seen.len() > MAX_LIBRARIES {
                continue;
            }
            let linked = read(&file);
            if let Some(interpreter) = linked.interpreter {
                // Shown only if it is a binary: a stranger's binary could name any file of the user's.
                let end = resolved(&interpreter)?;
                if is_elf(&end) {
                    self.places.provide(&interpreter, &end, Purpose::Program)?;
                }
            }
            for name in &linked.needed {
                let own = linked.folders.iter().chain(&self.library_path);
                let Some(library) = own
                    .map(|folder| folder.join(name))
                    .find(|path| path.is_file())
                else {
                    continue;
                };
                // Spokes have these folders.
                if in_standard_folder(&library) {
                    continue;
                }
                // An app must not choose further libraries.
                if self.places.believe(&library).is_err() {
                    continue;
                }
                let end = resolved(&library)?;
                // Shown only if it is a binary, as above.
                if is_elf(&end) {
                    self.places.provide(&library, &end, Purpose::Program)?;
                    open.push(end);
                }
            }
        }
        Ok(())
    }
}

fn is_elf(file: &Path) -> bool {
    beginning(file, 4).is_ok_and(|magic| magic == *b"\x7fELF")
}

fn in_standard_folder(library: &Path) -> bool {
    let folder = library.parent();
    folder.is_some_and(|folder| STANDARD.iter().any(|known| folder == Path::new(known)))
}

/// A file of which only [`MAX_READ`] bytes are read.
#[derive(Clone, Copy)]
struct Bounded<'f> {
    file: &'f ReadCache<File>,
    /// Bytes that may still be read.
    left: &'f Cell<u64>,
}

impl Bounded<'_> {
    fn spend(&self, bytes: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(bytes).ok_or(())?;
        self.left.set(left);
        Ok(())
    }
}

impl<'f> ReadRef<'f> for Bounded<'f> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'f [u8], ()> {
        // First: the memory for it is allocated before it is read.
        self.spend(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'f [u8], ()> {
        // At most 4096 bytes, or an error.
        let bytes = self.file.read_bytes_at_until(range, delimiter)?;
        self.spend(bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// The names in a file. None for a file that is not 64-bit ELF, is static, or exceeds the limits.
fn read(file: &Path) -> Linked {
    let Ok(opened) = open(file) else {
        return Linked::default();
    };
    let data = Bounded {
        file: &ReadCache::new(opened),
        left: &Cell::new(MAX_READ),
    };
    parse(data, file).unwrap_or_default()
}

fn parse(data: Bounded<'_>, file: &Path) -> object::read::Result<Linked> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut linked = Linked::default();
    for segment in header.program_headers(endian, data)? {
        if let Some(interpreter) = segment.interpreter(endian, data)? {
            linked.interpreter = Some(PathBuf::from(text(interpreter)));
        }
    }
    let sections = header.sections(endian, data)?;
    let table = sections.dynamic_table(endian, data)?;
    for entry in &table {
        if entry.tag == DT_NEEDED && linked.needed.len() < MAX_LIBRARIES {
            linked.needed.push(text(table.string(entry)?));
        }
        if entry.tag == DT_RPATH || entry.tag == DT_RUNPATH {
            let folders = text(table.string(entry)?);
            let folders = folders.split(':').filter(|folder| !folder.is_empty());
            let room = MAX_LIBRARIES.saturating_sub(linked.folders.len());
            let folders = folders.take(room).map(|folder| origin(folder, file));
            linked.folders.extend(folders);
        }
    }
    Ok(linked)
}

fn origin(folder: &str, file: &Path) -> PathBuf {
    let own = file.parent().unwrap_or(file).to_string_lossy();
    PathBuf::from(folder.replace("${ORIGIN}", &own).replace("$ORIGIN", &own))
}

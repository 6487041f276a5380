//! Files: who may read them, which are refused, which errors damaged ones give.

use std::fs::{self, Permissions as Mode};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ifc::{Label, Lattice, Order};
use store::{
    Content, DatabaseError, DatabaseFault, Draft, EntryId, Limits, Memory, MemoryError, Namespace,
    Permissions, Query, SqliteMemory, Time,
};
use tempfile::TempDir;

fn lattice() -> Lattice {
    let mail = Order::Categories(vec!["mail".to_owned()]);
    Lattice::new(&mail, &Order::TwoPoint).unwrap()
}

fn open(path: &Path) -> Result<SqliteMemory, MemoryError> {
    SqliteMemory::open(path, lattice(), Limits::default())
}

/// A folder with a path in it where nothing is.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/store/memory.db");
    (folder, path)
}

/// What is said of a file that is refused.
fn refused(path: &Path) -> DatabaseError {
    match open(path).err() {
        Some(MemoryError::Database(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn entry(number: u8) -> Draft {
    Draft {
        id: EntryId::from_bytes([number; 16]),
        content: Content::Summary {
            text: format!("entry {number} ").repeat(1 + 40 * usize::from(number % 5)),
        },
        label: lattice().label("untrusted:mail").unwrap(),
        sources: Vec::new(),
        origin: "mail".to_owned(),
        time: Time::from_millis(i64::from(number)),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn only_its_owner_can_read_what_is_created() {
    let (_folder, path) = place();
    let memory = open(&path).unwrap();
    memory.append(&Namespace::Hub, &[entry(1)]).unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
    let files: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    // The log and its index, too.
    assert_eq!(files.len(), 3);
    for file in files {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[test]
fn files_that_others_can_reach_are_refused() {
    let (_folder, path) = place();
    open(&path)
        .unwrap()
        .append(&Namespace::Hub, &[entry(1)])
        .unwrap();
    let parent = path.parent().unwrap();
    for (place, mode, repaired) in [
        (path.as_path(), 0o640, 0o600),
        (&path, 0o606, 0o600),
        (parent, 0o750, 0o700),
        (parent, 0o701, 0o700),
    ] {
        fs::set_permissions(place, Mode::from_mode(mode)).unwrap();
        let error = refused(&path);
        assert!(matches!(error.fault, DatabaseFault::Unsafe(..)));
        let remedy = format!("chmod {repaired:o} {}", place.display());
        assert!(error.to_string().contains(&remedy), "{error}");
        fs::set_permissions(place, Mode::from_mode(repaired)).unwrap();
        open(&path).unwrap();
    }
}

#[test]
fn links_are_not_followed() {
    let (folder, path) = place();
    open(&path).unwrap();
    let parent = path.parent().unwrap();
    // The folder itself.
    let linked = folder.path().join("linked");
    symlink(parent, &linked).unwrap();
    assert!(matches!(
        refused(&linked.join("memory.db")).fault,
        DatabaseFault::Unsafe(..)
    ));
    // The file.
    let elsewhere = parent.join("link.db");
    symlink(&path, &elsewhere).unwrap();
    assert!(matches!(
        refused(&elsewhere).fault,
        DatabaseFault::Unsafe(..)
    ));
    // A link to nothing would let somebody choose what is made where.
    let dangling = parent.join("dangling.db");
    symlink(folder.path().join("victim"), &dangling).unwrap();
    assert!(matches!(
        refused(&dangling).fault,
        DatabaseFault::Unsafe(..)
    ));
    assert!(!folder.path().join("victim").exists());
    // What SQLite would write beside the file.
    let log = parent.join("memory.db-wal");
    symlink(folder.path().join("victim"), &log).unwrap();
    assert!(matches!(refused(&path).fault, DatabaseFault::Unsafe(..)));
    fs::remove_file(log).unwrap();
    // A second name of the file, and what is no file.
    let second = folder.path().join("second");
    fs::hard_link(&path, &second).unwrap();
    assert!(matches!(refused(&path).fault, DatabaseFault::Unsafe(..)));
    fs::remove_file(second).unwrap();
    open(&path).unwrap();
    assert!(matches!(refused(parent).fault, DatabaseFault::Unsafe(..)));
}

/// Only root can give a file away.
#[test]
fn another_users_file_is_refused() {
    let (_folder, path) = place();
    open(&path).unwrap();
    if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
        // Another user than root cannot give a file away: one of the system's stands in.
        let system = Path::new("/etc/hostname");
        assert!(matches!(refused(system).fault, DatabaseFault::Unsafe(..)));
        return;
    }
    let error = refused(&path);
    assert!(
        error.to_string().contains("belongs to another user"),
        "{error}"
    );
}

#[test]
fn other_versions_and_programs_are_refused() {
    let (_folder, path) = place();
    open(&path)
        .unwrap()
        .append(&Namespace::Hub, &[entry(1)])
        .unwrap();
    let raw = |sql: &str| {
        let sqlite = rusqlite::Connection::open(&path).unwrap();
        sqlite.execute_batch(sql).unwrap();
    };
    raw("PRAGMA user_version = 3");
    let error = refused(&path);
    assert!(matches!(
        error.fault,
        DatabaseFault::Newer { found: 3, known: 2 }
    ));
    assert!(error.to_string().contains("move the file away"), "{error}");
    raw("PRAGMA user_version = 2; PRAGMA application_id = 7");
    assert!(matches!(refused(&path).fault, DatabaseFault::Foreign));
    // A database without numbers is another program's, and stays as it is.
    raw("PRAGMA user_version = 0; PRAGMA application_id = 0");
    assert!(matches!(refused(&path).fault, DatabaseFault::Foreign));
    // Memories are no permissions.
    raw("PRAGMA user_version = 2; PRAGMA application_id = 1397509445");
    open(&path).unwrap();
    assert!(Permissions::open(&path, lattice()).is_err());
}

/// A file of version 1 keeps its entries. Those under names without identities are the hub's now, which no app
/// reads.
#[test]
fn a_file_of_version_1_is_upgraded() {
    let (_folder, path) = place();
    let hub = Namespace::Hub;
    open(&path).unwrap().append(&hub, &[entry(1)]).unwrap();
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    sqlite
        .execute_batch(
            "ALTER TABLE namespace ADD COLUMN entries INTEGER NOT NULL DEFAULT 0;
             ALTER TABLE namespace ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
             CREATE TABLE erasure (deletions INTEGER NOT NULL, erased INTEGER NOT NULL) STRICT;
             DROP INDEX memory_of_label; DROP INDEX memory_of_time;
             UPDATE namespace SET name = 'app:mail';
             PRAGMA user_version = 1;",
        )
        .unwrap();
    let memory = open(&path).unwrap();
    assert_eq!(memory.namespaces().unwrap(), std::slice::from_ref(&hub));
    assert_eq!(memory.ids(&hub).unwrap(), [entry(1).id]);
    memory.append(&hub, &[entry(2)]).unwrap();
    let schema = |table: &str| {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name LIKE ?1";
        sqlite
            .query_row(sql, [table], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!((schema("memory_of_%"), schema("erasure")), (3, 0));
}

#[test]
fn commits_are_durable_and_deletions_empty_the_log() {
    let (_folder, path) = place();
    let memory = open(&path).unwrap();
    memory.append(&Namespace::Hub, &[entry(1)]).unwrap();
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    let mode = sqlite.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    assert_eq!(mode.unwrap(), "wal");
    // The log grows by each commit at once.
    let log = path.with_extension("db-wal");
    let before = fs::metadata(&log).unwrap().len();
    memory.append(&Namespace::Hub, &[entry(2)]).unwrap();
    assert!(fs::metadata(&log).unwrap().len() > before);
    let forgotten = memory.forget(&[entry(1).id]).unwrap();
    assert!(forgotten.erased.is_ok());
    assert_eq!(fs::metadata(&log).unwrap().len(), 0);
}

/// While another connection reads an older state, the log has the text. Opening the file empties the log.
#[test]
fn a_reader_delays_erasure_and_is_named() {
    let (_folder, path) = place();
    let memory = open(&path).unwrap();
    memory
        .append(&Namespace::Hub, &[entry(1), entry(2)])
        .unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM memory")
        .unwrap();
    let forgotten = memory.forget(&[entry(1).id]).unwrap();
    assert_eq!(forgotten.family.entries.len(), 1);
    let why = forgotten.erased.unwrap_err();
    assert!(
        matches!(
            why,
            MemoryError::Database(DatabaseError {
                fault: DatabaseFault::Read,
                ..
            })
        ),
        "{why}"
    );
    let has_text = || {
        let files = [path.clone(), path.with_extension("db-wal")];
        let mut files = files.iter().map(|file| fs::read(file).unwrap());
        files.any(|bytes| bytes.windows(8).any(|window| window == b"entry 1 "))
    };
    assert!(has_text());
    drop(reader);
    open(&path).unwrap();
    assert!(!has_text());
}

/// Whichever byte is wrong: an error that names the file and a remedy, or entries that are not below their
/// label.
#[test]
fn a_damaged_file_fails_closed() {
    let (_folder, path) = place();
    let drafts: Vec<Draft> = (0..100).map(entry).collect();
    open(&path)
        .unwrap()
        .append(&Namespace::Hub, &drafts)
        .unwrap();
    let whole = fs::read(&path).unwrap();
    let label = lattice().label("untrusted:mail").unwrap();
    let mut errors = 0;
    let damages = (0..whole.len()).step_by(1531).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        bytes
    });
    let cuts = [0, 1, 100, 4096, whole.len() / 2].map(|length| whole[..length].to_vec());
    let zeroes = [whole.len(), 4096].map(|length| vec![0; length]);
    for bytes in damages.chain(cuts).chain(zeroes) {
        fs::write(&path, &bytes).unwrap();
        let read = open(&path).and_then(|memory| {
            let query = Query::new("entry 7");
            let found = memory.search(&Namespace::Hub, &query, &Label::top(), 1000)?;
            let mut all = memory.list(&Namespace::Hub, 1000, &Label::top())?;
            all.extend(found.into_iter().map(|found| found.entry));
            Ok(all)
        });
        match read {
            Ok(entries) => assert!(entries.iter().all(|entry| label.flows_to(&entry.label))),
            Err(MemoryError::Database(error)) => {
                errors += 1;
                let text = error.to_string();
                assert!(text.contains("memory.db: ") && text.contains(';'), "{text}");
            }
            Err(MemoryError::Unreadable { .. }) => errors += 1,
            Err(other) => panic!("{other}"),
        }
        for suffix in ["db-wal", "db-shm"] {
            let _ = fs::remove_file(path.with_extension(suffix));
        }
    }
    assert!(errors > 5, "{errors}");
    fs::write(
        &path,
        b"this is no database, but a text that somebody left here",
    )
    .unwrap();
    let error = refused(&path);
    assert!(matches!(error.fault, DatabaseFault::Corrupt(_)));
    assert!(error.to_string().contains(".recover"), "{error}");
}

//! Files: who may read them, which are refused, what is said of damaged ones.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs::{self, Permissions as Mode};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ifc::{Label, Lattice, Order};
use store::{
    Action, App, Content, DatabaseError, Draft, EntryId, Grant, Identity, Limits, Memory,
    MemoryError, Name, Namespace, Page, Permissions, Query, SqliteMemory, Time,
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
fn what_others_can_reach_is_refused_with_the_remedy() {
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
        assert!(matches!(error, DatabaseError::Unsafe { .. }));
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
        refused(&linked.join("memory.db")),
        DatabaseError::Unsafe { .. }
    ));
    // The file.
    let elsewhere = parent.join("link.db");
    symlink(&path, &elsewhere).unwrap();
    assert!(matches!(refused(&elsewhere), DatabaseError::Unsafe { .. }));
    // A link to nothing would let somebody choose what is made where.
    let dangling = parent.join("dangling.db");
    symlink(folder.path().join("victim"), &dangling).unwrap();
    assert!(matches!(refused(&dangling), DatabaseError::Unsafe { .. }));
    assert!(!folder.path().join("victim").exists());
    // What SQLite would write beside the file.
    let log = parent.join("memory.db-wal");
    symlink(folder.path().join("victim"), &log).unwrap();
    assert!(matches!(refused(&path), DatabaseError::Unsafe { .. }));
    fs::remove_file(log).unwrap();
    // A second name of the file, and what is no file.
    let second = folder.path().join("second");
    fs::hard_link(&path, &second).unwrap();
    assert!(matches!(refused(&path), DatabaseError::Unsafe { .. }));
    fs::remove_file(second).unwrap();
    open(&path).unwrap();
    assert!(matches!(refused(parent), DatabaseError::Unsafe { .. }));
}

/// Only root can give a file away.
#[test]
fn another_users_file_is_refused() {
    let (_folder, path) = place();
    open(&path).unwrap();
    if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
        // Whoever is not root owns everything that it can make: the system's own files stand in.
        let system = Path::new("/etc/hostname");
        assert!(matches!(refused(system), DatabaseError::Unsafe { .. }));
        return;
    }
    let error = refused(&path);
    assert!(
        error.to_string().contains("belongs to another user"),
        "{error}"
    );
}

#[test]
fn other_versions_and_other_programs_are_refused() {
    let (_folder, path) = place();
    open(&path)
        .unwrap()
        .append(&Namespace::Hub, &[entry(1)])
        .unwrap();
    let raw = |sql: &str| {
        let sqlite = rusqlite::Connection::open(&path).unwrap();
        sqlite.execute_batch(sql).unwrap();
    };
    raw("PRAGMA user_version = 2");
    let error = refused(&path);
    assert!(matches!(
        error,
        DatabaseError::Newer {
            found: 2,
            known: 1,
            ..
        }
    ));
    assert!(error.to_string().contains("move the file away"), "{error}");
    raw("PRAGMA user_version = 1; PRAGMA application_id = 7");
    assert!(matches!(refused(&path), DatabaseError::Foreign { .. }));
    // A database without numbers is somebody else's, and stays as it is.
    raw("PRAGMA user_version = 0; PRAGMA application_id = 0");
    assert!(matches!(refused(&path), DatabaseError::Foreign { .. }));
    // Memories are no permissions.
    raw("PRAGMA user_version = 1; PRAGMA application_id = 1397509445");
    open(&path).unwrap();
    assert!(Permissions::open(&path, lattice()).is_err());
}

#[test]
fn a_file_of_an_earlier_program_gets_what_it_lacks() {
    let (_folder, path) = place();
    let add = |number| {
        let memory = open(&path).unwrap();
        memory.append(&Namespace::Hub, &[entry(number)]).unwrap();
    };
    add(1);
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    sqlite
        .execute_batch("DROP INDEX memory_of_label; DROP INDEX memory_of_time")
        .unwrap();
    add(2);
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'memory_of_%'";
    let indexes: i64 = sqlite.query_row(indexes, [], |row| row.get(0)).unwrap();
    assert_eq!(indexes, 3);
}

#[test]
fn what_is_promised_of_commits_and_deletions_is_set() {
    let (_folder, path) = place();
    let memory = open(&path).unwrap();
    memory.append(&Namespace::Hub, &[entry(1)]).unwrap();
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    let mode: String = sqlite
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    // Each commit is written out: the log grows by it at once.
    let log = path.with_extension("db-wal");
    let before = fs::metadata(&log).unwrap().len();
    memory.append(&Namespace::Hub, &[entry(2)]).unwrap();
    assert!(fs::metadata(&log).unwrap().len() > before);
    assert!(
        memory
            .forget(&[EntryId::from_bytes([1; 16])])
            .unwrap()
            .erased
            .is_ok()
    );
    assert_eq!(fs::metadata(&log).unwrap().len(), 0);
}

/// What a file says of erasing: how often something was deleted, and how many of these deletions are done with.
fn erasure(sqlite: &rusqlite::Connection) -> (i64, i64) {
    let sql = "SELECT deletions, erased FROM erasure";
    let row = sqlite.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    row.unwrap()
}

/// A crash between a deletion and what removes it from the file, or an earlier program, which did not: whoever opens the file
/// next does.
#[test]
fn what_was_not_erased_goes_when_the_file_is_opened() {
    let (_folder, path) = place();
    open(&path)
        .unwrap()
        .append(&Namespace::Hub, &[entry(1)])
        .unwrap();
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    for unfinished in [
        "UPDATE erasure SET deletions = deletions + 1",
        "DROP TABLE erasure",
        // What was deleted is not known any more: that something was.
        "DELETE FROM erasure",
    ] {
        // A stale copy is what a free page has that was not overwritten.
        sqlite
            .execute_batch(
                "PRAGMA secure_delete = false; CREATE TABLE left (text); \
                 INSERT INTO left VALUES (replace(hex(zeroblob(9000)), '00', 'open ')); DROP TABLE left;",
            )
            .unwrap();
        sqlite.execute_batch(unfinished).unwrap();
        let has_text = || {
            let files = [path.clone(), path.with_extension("db-wal")];
            let mut files = files.iter().map(|file| fs::read(file).unwrap());
            files.any(|bytes| bytes.windows(10).any(|window| window == b"open open "))
        };
        assert!(has_text(), "{unfinished}");
        open(&path).unwrap();
        assert!(!has_text(), "{unfinished}");
        let (deletions, erased) = erasure(&sqlite);
        assert!(deletions > 0 && erased == deletions);
    }
}

/// Permissions that go leave nothing either: the one that is revoked, the double, and those that have expired.
#[test]
fn a_permission_that_goes_is_erased() {
    let (_folder, path) = place();
    let permissions = Permissions::open(&path, lattice()).unwrap();
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    let name = |name: &str| Name::new(name).unwrap();
    let grant = |expires: Option<i64>| Grant {
        action: Action::Selection {
            functionality: name("fares"),
            app: App {
                name: name("metro"),
                identity: Identity::from_digest([1; 32]),
            },
        },
        limit: Label::bottom(),
        expires: expires.map(Time::from_millis),
    };
    let add = |expires, now| {
        let now = Time::from_millis(now);
        permissions.grant(&grant(expires), now).unwrap()
    };
    add(None, 1);
    assert_eq!(erasure(&sqlite), (0, 0));
    add(Some(10), 2);
    assert_eq!(erasure(&sqlite), (1, 1));
    let last = add(None, 20);
    assert_eq!(erasure(&sqlite), (2, 2));
    assert!(permissions.revoke(last).unwrap());
    assert_eq!(erasure(&sqlite), (3, 3));
    assert!(!permissions.revoke(last).unwrap());
    assert_eq!(erasure(&sqlite), (3, 3));
}

/// Has a file of which nothing is noted as erased.
const NOT_NOTED: &str =
    "CREATE TRIGGER t BEFORE UPDATE OF erased ON erasure BEGIN SELECT RAISE(ABORT, 'test'); END";

/// The note that something is to be erased is made, whatever has become of the one before.
#[test]
fn a_deletion_is_noted_where_the_note_was_lost() {
    let (_folder, path) = place();
    let memory = open(&path).unwrap();
    memory.append(&Namespace::Hub, &[entry(1)]).unwrap();
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    sqlite.execute_batch("DELETE FROM erasure").unwrap();
    let forgotten = memory.forget(&[EntryId::from_bytes([1; 16])]).unwrap();
    forgotten.erased.unwrap();
    assert_eq!(erasure(&sqlite), (1, 1));
}

/// While somebody reads an older state, its text is still in the log, and that is said.
#[test]
fn what_cannot_be_erased_yet_is_said() {
    let (_folder, path) = place();
    let memory = open(&path).unwrap();
    memory
        .append(&Namespace::Hub, &[entry(1), entry(2)])
        .unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM memory")
        .unwrap();
    let forgotten = memory.forget(&[EntryId::from_bytes([1; 16])]).unwrap();
    assert_eq!(forgotten.family.entries.len(), 1);
    let why = forgotten.erased.unwrap_err();
    assert!(
        matches!(why, MemoryError::Database(DatabaseError::Read { .. })),
        "{why}"
    );
    drop(reader);
    memory.erase().unwrap();
    // Another reason is another message: here it cannot be noted that it is erased.
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    sqlite.execute_batch(NOT_NOTED).unwrap();
    let why = memory
        .forget(&[EntryId::from_bytes([2; 16])])
        .unwrap()
        .erased
        .unwrap_err();
    assert!(
        matches!(why, MemoryError::Database(DatabaseError::Sqlite { .. })),
        "{why}"
    );
}

/// Whatever byte is wrong: an error that names the file and a remedy, or entries that are not below
/// their label.
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
    let damages = (0..whole.len()).step_by(613).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        bytes
    });
    let cuts = [0, 1, 100, 4096, whole.len() / 2].map(|length| whole[..length].to_vec());
    let zeroes = [whole.len(), 4096].map(|length| vec![0; length]);
    for bytes in damages.chain(cuts).chain(zeroes) {
        fs::write(&path, &bytes).unwrap();
        let read = open(&path).and_then(|memory| {
            let query = Query::new("entry 7").unwrap();
            let found = memory.search(&Namespace::Hub, &query, &Label::top(), 1000)?;
            let mut all = memory.list(&Namespace::Hub, &Page::newest(1000), &Label::top())?;
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
    assert!(matches!(error, DatabaseError::Corrupt { .. }));
    assert!(error.to_string().contains(".recover"), "{error}");
}

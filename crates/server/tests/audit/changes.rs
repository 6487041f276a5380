//! Every change of a stored log is found.

use proptest::prelude::*;
use rusqlite::types::Value;
use server::audit::{AuditKeys, Note, verify};
use test_support::Postgres;

use crate::{Place, decision, keys};

/// Two chains, the second of which names the first one; and the statement that changes them.
async fn check(server: Option<&Postgres>, statement: &str, expected: &[&str]) {
    let place = match server {
        Some(server) => Place::postgres(server),
        None => Place::sqlite(),
    };
    place.chain(5).await;
    place.chain(2).await;
    assert_eq!(place.faults().await, [""; 0]);
    place.sql(server, statement);
    assert_eq!(place.faults().await, expected, "{statement}");
}

const FIRST: &str = "chain IN (SELECT chain FROM T.audit_chain WHERE number = 5)";

async fn each_kind(server: Option<&Postgres>) {
    for (statement, expected) in [
        (
            "UPDATE T.audit_entry SET entry = replace(entry, 'deny', 'allow') WHERE number = 3",
            &["changed 3"] as &[&str],
        ),
        ("DELETE FROM T.audit_entry WHERE number = 3", &["gap"]),
        ("DELETE FROM T.audit_entry WHERE number > 3", &["cut"]),
        (
            "DELETE FROM T.audit_entry WHERE number < 3 AND FIRST",
            &["gap"],
        ),
        (
            "UPDATE T.audit_entry SET number = 90 + number WHERE number IN (2, 3) AND FIRST;
             UPDATE T.audit_entry SET number = 95 - number WHERE number > 90",
            &["moved 3", "moved 2"],
        ),
        (
            "UPDATE T.audit_entry SET entry = replace(entry, 'stop', 'done') WHERE number = 5",
            &["fork 5", "changed 5"],
        ),
        (
            "INSERT INTO T.audit_entry SELECT chain, 6, at, entry FROM T.audit_entry WHERE number = 5",
            &["beyond 6"],
        ),
        (
            "INSERT INTO T.audit_entry SELECT chain, -1, at, entry FROM T.audit_entry WHERE number = 5",
            &["beyond 18446744073709551615"],
        ),
        (
            "DELETE FROM T.audit_chain WHERE number = 5",
            &["row", "head"],
        ),
        (
            "DELETE FROM T.audit_entry WHERE FIRST; DELETE FROM T.audit_chain WHERE number = 5",
            &["missing"],
        ),
        (
            "UPDATE T.audit_chain SET head = replace(head, 'true', 'false') WHERE number = 5",
            &["signature"],
        ),
        ("UPDATE T.audit_chain SET linked = 0", &["row"]),
    ] {
        let statement = statement.replace("FIRST", FIRST);
        check(server, &statement, expected).await;
    }
}

#[tokio::test]
async fn each_kind_of_change_is_found() {
    each_kind(None).await;
}

#[tokio::test]
async fn each_kind_of_change_is_found_in_postgresql() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    each_kind(Some(&server)).await;
}

/// Another program has the database as it was, with a head of that time: only a head outside of the store tells.
#[tokio::test]
async fn an_old_state_that_is_put_back_is_found_by_the_heads_outside() {
    let place = Place::sqlite();
    let audit = place.audit().await;
    for number in 0..3 {
        audit.note(decision(number));
        audit.written().await.unwrap();
    }
    let file = place.folder().join("audit.db");
    place.sql(None, "PRAGMA wal_checkpoint(TRUNCATE)");
    let old = std::fs::read(&file).unwrap();
    audit.close(Note::new("stop", "done")).await.unwrap();
    drop(audit);
    place.sql(None, "PRAGMA wal_checkpoint(TRUNCATE)");
    std::fs::write(&file, old).unwrap();
    assert_eq!(place.faults().await, ["cut"]);
    std::fs::remove_file(place.heads()).unwrap();
    let report = place.verify().await;
    assert_eq!((report.faults.len(), report.open.len()), (0, 1));
}

#[tokio::test]
async fn a_log_that_is_written_anew_with_another_key_is_found() {
    let place = Place::sqlite();
    let others = AuditKeys::new(b"a secret of someone else").unwrap();
    let audit = place.audit_with(others).await;
    audit.close(Note::new("stop", "done")).await.unwrap();
    assert_eq!(place.faults().await, ["witness", "key"]);
}

/// The cells of both tables, by row.
fn cells(file: &rusqlite::Connection) -> Vec<(&'static str, Vec<Value>)> {
    let mut all = Vec::new();
    for (table, columns) in [("audit_chain", 4), ("audit_entry", 4)] {
        let mut select = file.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let rows = select.query_map([], |row| (0..columns).map(|at| row.get(at)).collect());
        all.extend(rows.unwrap().map(|row| (table, row.unwrap())));
    }
    all
}

fn changed(value: &Value, at: prop::sample::Index, by: u8) -> Value {
    let flip = |mut bytes: Vec<u8>| {
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        bytes
    };
    match value {
        Value::Integer(number) => Value::Integer(number ^ i64::from(by)),
        // Texts stay texts: SQLite refuses others when they are read, which is found as well.
        Value::Text(text) => match String::from_utf8(flip(text.clone().into_bytes())) {
            Ok(text) => Value::Text(text),
            Err(_) => Value::Text(text.to_uppercase()),
        },
        Value::Blob(bytes) => Value::Blob(flip(bytes.clone())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_change_of_a_byte_or_a_row_is_found() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = Place::sqlite();
    runtime.block_on(async {
        place.chain(3).await;
        let audit = place.audit().await;
        audit.note(decision(1));
        audit.written().await.unwrap();
        let later = store::Time::from_millis(i64::MAX);
        let log = place.log().await;
        let first = log.chains(None).await.unwrap();
        assert_eq!(first.len(), 2);
        // One is removed, one is closed, one has no closing head.
        audit.remove_before(later).await.unwrap();
        place.chain(4).await;
        let audit = place.audit().await;
        audit.note(decision(2));
        audit.note(decision(3));
        audit.written().await.unwrap();
        assert_eq!(place.faults().await, [""; 0]);
    });
    place.sql(None, "PRAGMA wal_checkpoint(TRUNCATE)");
    let open = || rusqlite::Connection::open(place.folder().join("audit.db")).unwrap();
    let strategy = (
        any::<prop::sample::Index>(),
        0..6_usize,
        any::<prop::sample::Index>(),
        1..=255_u8,
    );
    proptest!(ProptestConfig::with_cases(400), |((row, column, at, by) in strategy)| {
        let file = open();
        let rows = cells(&file);
        let (table, before) = &rows[row.index(rows.len())];
        let names = match *table {
            "audit_chain" => ["chain", "number", "linked", "head"],
            _ => ["chain", "number", "at", "entry"],
        };
        let insert = |values: &[Value]| {
            let sql = format!("INSERT OR REPLACE INTO {table} VALUES (?1, ?2, ?3, ?4)");
            file.execute(&sql, rusqlite::params_from_iter(values)).unwrap();
        };
        let keys = if *table == "audit_chain" { 1 } else { 2 };
        let matches = |count: usize| {
            let parts = (0..count).map(|at| format!("{} = ?{}", names[at], at + 1));
            parts.collect::<Vec<_>>().join(" AND ")
        };
        let delete = |values: &[Value]| {
            let sql = format!("DELETE FROM {table} WHERE {}", matches(keys));
            file.execute(&sql, rusqlite::params_from_iter(&values[..keys])).unwrap();
        };
        let mut after = before.clone();
        match column {
            // A row is gone.
            4 => delete(before),
            // A row more.
            5 => {
                after[0] = changed(&after[0], at, by);
                insert(&after);
            }
            column => {
                after[column] = changed(&after[column], at, by);
                delete(before);
                insert(&after);
            }
        }
        let wrong = cells(&file) != rows;
        drop(file);
        let found = runtime.block_on(place.verify());
        let file = open();
        file.execute_batch("BEGIN; DELETE FROM audit_chain; DELETE FROM audit_entry").unwrap();
        for (table, row) in &rows {
            let sql = format!("INSERT INTO {table} VALUES (?1, ?2, ?3, ?4)");
            file.execute(&sql, rusqlite::params_from_iter(row)).unwrap();
        }
        file.execute_batch("COMMIT").unwrap();
        prop_assert_eq!(cells(&file), rows.clone());
        prop_assert_eq!(wrong, !found.faults.is_empty(), "{:?} {:?}", after, found);
    });
}

/// A head of a version that named no store in it.
const OLD: &str = r#"{"version":1,"end":{"chain":"0123456789abcdef0123456789abcdef","number":3,"hash":"abababababababababababababababababababababababababababababababab"},"opened":1700000000000,"at":1700000000000,"closed":true,"key":"20aa49b5dc459dc215e8cf06a7c699efad85f470ad3da713919f1629c7477df8","signature":"f7f1faa00aa52baa3fb086a93e3afec52c78c1f52ae73c7566daa2797c47b754aa85cbb08ad0ec282f1e2843a409b1b14c1095f4a3539fe7ce85efc603571300"}"#;

#[tokio::test]
async fn heads_of_another_store_are_no_alarm() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    let (own, other) = (Place::postgres(&server), Place::sqlite());
    own.chain(2).await;
    other.chain(3).await;
    let mut heads = [own.witnessed(), other.witnessed()].concat();
    let check = async |place: &Place, heads: &[String]| {
        let report = verify(&*place.log().await, &[keys().public()], heads).await;
        let report = report.unwrap();
        let faults = report.faults.iter().map(|fault| fault.kind);
        (report.witnessed, report.others, faults.collect::<Vec<_>>())
    };
    assert_eq!(check(&own, &heads).await, (2, 2, vec![]));
    // Nor does another folder of files hide that a chain is gone.
    assert_eq!(
        check(&Place::sqlite(), &heads).await,
        (2, 2, vec!["missing"])
    );
    heads.push(OLD.to_owned());
    assert_eq!(check(&own, &heads).await, (3, 2, vec!["missing"]));
}

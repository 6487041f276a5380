//! Export and import: from either kind of store to either, from one moment, whole or not at all.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::{
    ArchiveError, AuditBatch, AuditEntry, ChainId, Commit, LeftPermit, NewQuestion, NewToken, Role,
    SessionWrite, Store, Time, Usage,
};
use test_support::Postgres;

use crate::state::Place;

/// A writer whose bytes are looked at afterwards.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn export(store: &Store) -> String {
    let bytes = Bytes::default();
    store.export(Box::new(bytes.clone())).await.unwrap();
    String::from_utf8(bytes.0.lock().unwrap().clone()).unwrap()
}

async fn import(store: &Store, text: &str) -> Result<u64, ArchiveError> {
    store.import(Box::new(Cursor::new(text.to_owned()))).await
}

async fn rows(store: &Store) -> u64 {
    let counts = store.counts().await.unwrap();
    counts.iter().map(|(_, rows)| rows).sum()
}

/// Something in each table.
async fn fill(store: &Store) {
    for tenant in [[0xff; 32], [1; 32]] {
        let commit = Commit {
            records: (0..700)
                .map(|number| format!("{{\"ü\":\"{number}\\u0000\\n\u{1f600}\"}}"))
                .collect(),
            session: Some(SessionWrite {
                key: [9; 32],
                base: 0,
                body: format!("{{\"text\":\"{}\"}}", "\\\\x\u{7f}\u{2028}".repeat(40_000)),
            }),
            usage: ["Z", "a", "ä"]
                .map(|thing| Usage {
                    tenant: "team-\u{e9}".to_owned(),
                    thing: thing.to_owned(),
                    count: u64::from(tenant[0]),
                })
                .into(),
            permits: vec![LeftPermit {
                name: "call_1".to_owned(),
                key: [3; 32],
                body: "{}".to_owned(),
                until: Time::from_millis(i64::MAX),
            }],
            ..Commit::new(Time::from_millis(5))
        };
        store.state().commit(&tenant, commit).await.unwrap();
    }
    let entry = |number| AuditEntry {
        number,
        at: Time::from_millis(7),
        text: format!("{{\"number\":{number}}}"),
    };
    let batch = AuditBatch {
        chain: ChainId::from_bytes([5; 16]),
        base: 0,
        entries: vec![entry(1), entry(2)],
        head: "{\"signed\":true}".to_owned(),
        links: Vec::new(),
    };
    store.audit().append(&batch).await.unwrap();
    let (desk, now) = (store.desk(), Time::from_millis(8));
    for key in [None, Some([4; 32])] {
        let question = NewQuestion {
            key,
            ..crate::desk::question("mail")
        };
        desk.ask(&question, now).await.unwrap();
    }
    let token = NewToken {
        name: "ada".to_owned(),
        role: Role::Approver,
        tenant: None,
        apps: Vec::new(),
        effects: Vec::new(),
        expires: None,
    };
    desk.new_token(&token, now).await.unwrap();
}

/// The tables of a store and how many columns each has, by the database itself.
fn tables(place: &Place, server: Option<&Postgres>) -> BTreeMap<String, usize> {
    let mut tables = BTreeMap::new();
    match (place, server) {
        (Place::Postgres(url), Some(server)) => {
            let sql = "SELECT table_name || ' ' || count(*) FROM information_schema.columns
                WHERE table_schema = 'sluice' GROUP BY table_name";
            for line in server.sql(url, sql).lines() {
                let (name, count) = line.split_once(' ').unwrap();
                tables.insert(name.to_owned(), count.parse().unwrap());
            }
        }
        (Place::Sqlite(folder), _) => {
            for name in ["state", "desk", "audit"] {
                let path = folder.path().join(format!("state/{name}.db"));
                let file = rusqlite::Connection::open(path).unwrap();
                let sql = "SELECT t.name, count(*) FROM sqlite_schema t, pragma_table_info(t.name)
                    WHERE t.type = 'table' GROUP BY t.name";
                let mut select = file.prepare(sql).unwrap();
                let rows = select.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)));
                let rows = rows.unwrap().map(Result::unwrap);
                tables.extend(rows.map(|(name, count)| (name, count as usize)));
            }
        }
        _ => {}
    }
    for not_exported in ["change", "version", "sqlite_sequence"] {
        tables.remove(not_exported);
    }
    tables
}

/// The same by an export in which each table has a row.
fn exported(text: &str) -> BTreeMap<String, usize> {
    let rows = text.lines().filter(|line| line.starts_with('['));
    let rows = rows.map(|line| serde_json::from_str(line).unwrap());
    let table = |row: Vec<serde_json::Value>| (row[0].as_str().unwrap().to_owned(), row.len() - 1);
    rows.map(table).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_are_equal_in_either_store() {
    let first = Place::sqlite();
    let sqlite = first.store().await;
    fill(&sqlite).await;
    let text = export(&sqlite).await;
    let all = rows(&sqlite).await;
    assert_eq!(text.lines().count() as u64, all + 2);
    assert_eq!(tables(&first, None), exported(&text));
    let again = Place::sqlite().store().await;
    assert_eq!(import(&again, &text).await.unwrap(), all);
    assert!(export(&again).await == text);
    let full = import(&again, &text).await;
    assert!(
        matches!(full, Err(ArchiveError::NotEmpty("tenant"))),
        "{full:?}"
    );

    let Some(server) = Postgres::fast() else {
        return;
    };
    let second = Place::postgres(&server);
    let postgres = second.store().await;
    assert_eq!(tables(&second, Some(&server)), exported(&text));
    assert_eq!(import(&postgres, &text).await.unwrap(), all);
    assert!(export(&postgres).await == text);
    let full = import(&postgres, &text).await;
    assert!(
        matches!(full, Err(ArchiveError::NotEmpty("tenant"))),
        "{full:?}"
    );
    let back = Place::sqlite().store().await;
    import(&back, &export(&postgres).await).await.unwrap();
    assert!(export(&back).await == text);

    // All of them go on from there: permits by the counter of the table, records and versions by the tenant.
    for store in [again, postgres, back] {
        let state = store.state();
        let key = [9; 32];
        let loaded = state.load(&[1; 32], 699, Some(&key)).await.unwrap();
        let document = loaded.session.unwrap();
        assert_eq!((loaded.head, document.version), (700, 1));
        let commit = Commit {
            session: Some(SessionWrite {
                key,
                base: 1,
                body: "{}".to_owned(),
            }),
            permits: vec![LeftPermit {
                name: "call_2".to_owned(),
                key: [3; 32],
                body: "{}".to_owned(),
                until: Time::from_millis(i64::MAX),
            }],
            ..Commit::new(Time::from_millis(9))
        };
        state.commit(&[1; 32], commit).await.unwrap();
        for name in ["call_1", "call_2"] {
            let now = Time::from_millis(9);
            let taken = state.redeem(&[1; 32], &[3; 32], now).await.unwrap();
            assert_eq!(taken.unwrap().name, name);
        }
        let (desk, now) = (store.desk(), Time::from_millis(9));
        assert_eq!(desk.waiting(now).await.unwrap().all.len(), 2);
        desk.ask(&crate::desk::question("last"), now).await.unwrap();
        let waiting = desk.waiting(now).await.unwrap().all;
        assert_eq!(waiting[2].question.app, "last");
        assert_eq!(desk.tokens().await.unwrap()[0].name, "ada");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_or_changed_export_is_refused_whole() {
    let place = Place::sqlite();
    let source = place.store().await;
    fill(&source).await;
    let text = export(&source).await;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (last, two) = (lines.len() - 1, lines.concat().find(lines[2]).unwrap());
    let without = |at: usize| {
        let mut some = lines.clone();
        some.remove(at);
        some.concat()
    };
    let mut damaged = vec![
        String::new(),
        "another file\n".to_owned(),
        text.replacen("sluice_state\":1", "sluice_state\":2", 1),
        without(0),
        without(last),
        without(3),
        text[..text.len() - 1].to_owned(),
        text[..two + 9].to_owned(),
        text[..two].to_owned(),
        format!("{text}{}", lines[3]),
        text.replacen("\"record\"", "\"secrets\"", 1),
        text.replacen("\"record\"", "\"session\"", 1),
        text.replacen("team-", "tame-", 1),
        text.replacen("[\"tenant\",\"01", "[\"tenant\",\"0", 1),
    ];
    let mut swapped = lines.clone();
    swapped.swap(5, 6);
    damaged.push(swapped.concat());
    // A row of the right form that breaks the tables, with the digest that it should have.
    let mut twice = lines[..last].to_vec();
    twice.push(lines[1]);
    let sealed = |text: String, rows: usize| {
        let hex: String = Sha256::digest(&text)
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect();
        format!("{text}{{\"rows\":{rows},\"sha256\":\"{hex}\"}}\n")
    };
    damaged.push(sealed(twice.concat(), last));
    // Values that no store has.
    let tenant: Value = serde_json::from_str(lines[1].trim()).unwrap();
    for head in [json!(i64::MAX), json!(-1)] {
        let mut row = tenant.clone();
        row[2] = head;
        let rows = format!("{}{row}\n{}", lines[0], lines[2..last].concat());
        damaged.push(sealed(rows, last - 1));
    }
    let usage = r#"["usage","a\u001b[2J","calls",1,1]"#;
    let counters = format!("{}{usage}\n", lines[..last].concat());
    damaged.push(sealed(counters, last));
    let server = Postgres::fast();
    let mut targets = vec![Place::sqlite()];
    targets.extend(server.iter().map(Place::postgres));
    for target in targets {
        let store = target.store().await;
        for text in &damaged {
            assert!(import(&store, text).await.is_err(), "{text:.300}");
            assert_eq!(rows(&store).await, 0);
        }
        import(&store, &text).await.unwrap();
    }
}

/// Documents of two sessions and a record are written together, again and again, while the store is exported.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_a_busy_store_is_of_one_moment() {
    let server = Postgres::fast();
    let mut places = vec![Place::sqlite()];
    places.extend(server.iter().map(Place::postgres));
    for place in places {
        let (store, writer) = (place.store().await, place.store().await.state());
        let writing = tokio::spawn(async move {
            for number in 0.. {
                let commit = Commit {
                    records: vec![format!("\"{number}\"")],
                    usage: vec![Usage {
                        tenant: "a".to_owned(),
                        thing: "calls".to_owned(),
                        count: 1,
                    }],
                    ..Commit::new(Time::from_millis(0))
                };
                writer.commit(&[number as u8; 32], commit).await.unwrap();
            }
        });
        let mut last = 0;
        for _ in 0..15 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let text = export(&store).await;
            let count = |table: &str| {
                let begin = format!("[\"{table}\",");
                text.lines().filter(|line| line.starts_with(&begin)).count()
            };
            let records = count("record");
            let usage = text.lines().find(|line| line.starts_with("[\"usage\""));
            let usage = usage.map_or("0]", |it| it.rsplit(',').next().unwrap());
            assert_eq!(usage, format!("{records}]"));
            assert_eq!(count("tenant"), records.min(256));
            assert!(records >= last);
            last = records;
        }
        assert!(last > 10);
        writing.abort();
    }
}

//! The state of a service: one suite, for SQLite and for PostgreSQL, and what each of them alone has to do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{
    Commit, Committed, Digest, Document, LeftPermit, PAGE, PoolSettings, SessionState,
    SessionWrite, StateError, Store, Time, Usage,
};
use tempfile::TempDir;
use test_support::{PASSWORD, Postgres};

/// Where a store is; each `open` is another process.
pub(crate) enum Place {
    Sqlite(TempDir),
    Postgres(String),
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn postgres(server: &Postgres) -> Self {
        Self::Postgres(server.database())
    }

    pub(crate) async fn store(&self) -> Store {
        match self {
            Self::Sqlite(folder) => Store::sqlite(&folder.path().join("state")).unwrap(),
            Self::Postgres(url) => Store::postgres(url, &settings()).await.unwrap(),
        }
    }

    async fn open(&self) -> Arc<dyn SessionState> {
        self.store().await.state()
    }
}

fn settings() -> PoolSettings {
    PoolSettings::default()
}

/// Runs each check in a place of its own.
macro_rules! checks {
    ($($name:ident)*) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn sqlite_keeps_the_state() {
            $($name(Place::sqlite()).await;)*
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn postgres_keeps_the_state() {
            let Some(server) = Postgres::fast() else { return };
            $($name(Place::postgres(&server)).await;)*
        }
    };
}

checks! {
    records_come_back_in_pages
    a_long_page_has_one_record
    a_document_is_replaced_by_its_version
    versions_are_never_used_twice
    a_commit_behind_writes_nothing
    numbers_are_dense_and_in_order
    a_dropped_commit_is_whole_or_nothing
    a_permit_is_taken_once
    usage_is_summed_by_the_hour
    old_rows_are_pruned
    what_cannot_be_kept_is_refused
}

const TENANT: Digest = [7; 32];
const SESSION: Digest = [9; 32];
const HOUR: i64 = 3600 * 1000;

fn at(ms: i64) -> Time {
    Time::from_millis(ms)
}

fn records(texts: impl IntoIterator<Item = String>) -> Commit {
    Commit {
        records: texts.into_iter().collect(),
        ..Commit::new(at(HOUR))
    }
}

fn session(base: u64, body: &str) -> Commit {
    let (key, body) = (SESSION, body.to_owned());
    Commit {
        session: Some(SessionWrite { key, base, body }),
        ..Commit::new(at(HOUR))
    }
}

fn permit(name: &str, key: u8, until: i64) -> LeftPermit {
    LeftPermit {
        name: name.to_owned(),
        key: [key; 32],
        body: format!("{{\"of\":\"{name}\"}}"),
        until: at(until),
    }
}

fn version(committed: &Committed) -> u64 {
    match committed {
        Committed::At { version, .. } => *version,
        Committed::Behind(found) => panic!("behind {found:?}"),
    }
}

async fn document(state: &dyn SessionState) -> Option<Document> {
    let loaded = state.load(&TENANT, u64::MAX, Some(&SESSION)).await;
    loaded.unwrap().session
}

/// All records after `seen`.
async fn log(state: &dyn SessionState, mut seen: u64) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let loaded = state.load(&TENANT, seen, None).await.unwrap();
        all.extend(loaded.records);
        seen = loaded.head;
        if !loaded.more {
            return all;
        }
    }
}

async fn records_come_back_in_pages(place: Place) {
    let (one, two) = (place.open().await, place.open().await);
    let texts: Vec<String> = (0..2 * PAGE + 5)
        .map(|number| format!("{{\"é\":\"{number} \u{1f600}'\\\"\"}}"))
        .collect();
    let empty = two.load(&TENANT, 0, None).await.unwrap();
    assert_eq!((empty.head, empty.more), (0, false));
    one.commit(&TENANT, records(texts.clone())).await.unwrap();
    let first = two.load(&TENANT, 0, None).await.unwrap();
    assert_eq!((first.head, first.more), (PAGE as u64, true));
    assert_eq!(first.records, texts[..PAGE]);
    assert_eq!(log(&*two, 0).await, texts);
    assert_eq!(
        log(&*two, texts.len() as u64 - 1).await,
        texts[texts.len() - 1..]
    );
    // A tenant sees its own log, and an older backup is read from its beginning.
    assert_eq!(two.load(&[8; 32], 0, None).await.unwrap().records, [""; 0]);
    let older = two.load(&TENANT, 9_999_999, None).await.unwrap();
    assert_eq!(older.records, texts[..PAGE]);
}

async fn a_long_page_has_one_record(place: Place) {
    let state = place.open().await;
    let long: Vec<String> = ["a", "b", "c"].map(|it| it.repeat(9 << 20)).into();
    state.commit(&TENANT, records(long.clone())).await.unwrap();
    let loaded = state.load(&TENANT, 0, None).await.unwrap();
    assert_eq!(
        (loaded.records.len(), loaded.head, loaded.more),
        (1, 1, true)
    );
    assert!(log(&*state, 0).await == long);
}

async fn a_document_is_replaced_by_its_version(place: Place) {
    let (one, two) = (place.open().await, place.open().await);
    assert_eq!(document(&*one).await, None);
    let first = version(&one.commit(&TENANT, session(0, "{\"a\":1}")).await.unwrap());
    let found = document(&*two).await.unwrap();
    assert_eq!((found.version, found.body.as_str()), (first, "{\"a\":1}"));
    let second = version(&two.commit(&TENANT, session(first, "{}")).await.unwrap());
    assert!(second > first);
    for base in [0, first, second + 1] {
        let behind = one.commit(&TENANT, session(base, "[]")).await.unwrap();
        let (version, body) = (second, "{}".to_owned());
        assert_eq!(behind, Committed::Behind(Some(Document { version, body })));
    }
    let other = one.commit(&[8; 32], session(second, "[]")).await.unwrap();
    assert_eq!(other, Committed::Behind(None));
}

async fn versions_are_never_used_twice(place: Place) {
    let state = place.open().await;
    let first = version(&state.commit(&TENANT, session(0, "1")).await.unwrap());
    assert_eq!(state.prune(at(2 * HOUR)).await.unwrap(), 1);
    let behind = state.commit(&TENANT, session(first, "2")).await.unwrap();
    assert_eq!(behind, Committed::Behind(None));
    let second = version(&state.commit(&TENANT, session(0, "2")).await.unwrap());
    assert!(second > first);
}

async fn a_commit_behind_writes_nothing(place: Place) {
    let state = place.open().await;
    let mut commit = session(5, "{}");
    commit.records = vec!["1".to_owned()];
    commit.permits = vec![permit("call", 1, 9)];
    commit.usage = vec![usage("a", "calls", 3)];
    let behind = state.commit(&TENANT, commit.clone()).await.unwrap();
    assert_eq!(behind, Committed::Behind(None));
    assert_eq!(log(&*state, 0).await, [""; 0]);
    assert_eq!(state.redeem(&TENANT, &[1; 32], at(0)).await.unwrap(), None);
    assert_eq!(state.usage("a", at(0)).await.unwrap(), []);
    commit.session.as_mut().unwrap().base = 0;
    let made = state.commit(&TENANT, commit).await.unwrap();
    assert_eq!(
        made,
        Committed::At {
            head: 1,
            version: 1
        }
    );
    assert_eq!(log(&*state, 0).await, ["1"]);
}

/// Eight writers at two processes, while a reader follows the log.
async fn numbers_are_dense_and_in_order(place: Place) {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    let replicas = [place.open().await, place.open().await];
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let state = Arc::clone(&replicas[writer % 2]);
            tokio::spawn(async move {
                for number in 0..EACH {
                    let pair = ["a", "b"].map(|part| format!("{writer} {number} {part}"));
                    let done = state.commit(&TENANT, records(pair)).await.unwrap();
                    assert_eq!(version(&done), 0);
                }
            })
        })
        .collect();
    let (mut seen, mut all) = (0, Vec::new());
    while all.len() < 2 * WRITERS * EACH {
        let loaded = replicas[0].load(&TENANT, seen, None).await.unwrap();
        // No number is skipped, so no record becomes visible after a later one.
        assert_eq!(loaded.head, seen + loaded.records.len() as u64);
        assert_eq!(loaded.records.len() % 2, 0, "half of a commit");
        seen = loaded.head;
        all.extend(loaded.records);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(log(&*replicas[1], 0).await, all);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    for pair in all.chunks(2) {
        assert_eq!(pair[0].strip_suffix('a'), pair[1].strip_suffix('b'));
    }
}

/// Futures are dropped at some point of their work. PostgreSQL may finish a statement after that.
async fn a_dropped_commit_is_whole_or_nothing(place: Place) {
    let state = place.open().await;
    let (mut seen, mut made, mut acknowledged) = (0, BTreeSet::new(), BTreeSet::new());
    for round in 0..80_u64 {
        let loaded = state.load(&TENANT, seen, Some(&SESSION)).await.unwrap();
        seen = loaded.head;
        let rounds: Vec<u64> = loaded
            .records
            .iter()
            .map(|it| it.parse().unwrap())
            .collect();
        assert!(
            rounds.chunks(5).all(|five| five == [five[0]; 5]),
            "{rounds:?}"
        );
        let body = loaded.session.as_ref().map(|found| found.body.clone());
        let last = rounds.last().or(made.last()).map(u64::to_string);
        assert_eq!(body, last, "one moment");
        made.extend(rounds);
        if round >= 60 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        let mut commit = session(
            loaded.session.map_or(0, |it| it.version),
            &round.to_string(),
        );
        commit.records = vec![round.to_string(); 5];
        commit.usage = vec![usage("a", "calls", 1)];
        commit.permits = vec![permit(&round.to_string(), 3, i64::MAX)];
        let after = Duration::from_micros(round * 60);
        let done = tokio::time::timeout(after, state.commit(&TENANT, commit)).await;
        if matches!(done, Ok(Ok(Committed::At { .. }))) {
            acknowledged.insert(round);
        }
    }
    assert!(acknowledged.is_subset(&made) && !acknowledged.is_empty());
    assert_eq!(
        state.usage("a", at(0)).await.unwrap()[0].1,
        made.len() as u64
    );
    let mut permits = BTreeSet::new();
    while let Some(taken) = state.redeem(&TENANT, &[3; 32], at(0)).await.unwrap() {
        permits.insert(taken.name.parse().unwrap());
    }
    assert_eq!(permits, made);
}

async fn a_permit_is_taken_once(place: Place) {
    let replicas = [place.open().await, place.open().await];
    let mut left = Commit::new(at(0));
    left.permits = (0..10)
        .map(|number| permit(&format!("call{number}"), 4, 1000))
        .collect();
    left.permits.insert(0, permit("late", 4, 5));
    left.permits.push(permit("other", 5, 1000));
    replicas[0].commit(&TENANT, left).await.unwrap();
    let none = replicas[0].redeem(&[8; 32], &[4; 32], at(5)).await.unwrap();
    assert_eq!(none, None);
    let first = replicas[1].redeem(&TENANT, &[4; 32], at(5)).await.unwrap();
    assert_eq!(first, Some(permit("call0", 4, 1000)));
    replicas[1]
        .withdraw(&TENANT, &["call1".to_owned(), "none".to_owned()])
        .await
        .unwrap();
    let racers: Vec<_> = (0..16)
        .map(|racer| {
            let state = Arc::clone(&replicas[racer % 2]);
            tokio::spawn(async move { state.redeem(&TENANT, &[4; 32], at(5)).await.unwrap() })
        })
        .collect();
    let mut taken = Vec::new();
    for racer in racers {
        taken.extend(racer.await.unwrap().map(|it| it.name));
    }
    // A racer may meet a permit that another one is taking; the rest is still there.
    while let Some(rest) = replicas[0].redeem(&TENANT, &[4; 32], at(5)).await.unwrap() {
        taken.push(rest.name);
    }
    taken.sort();
    let expected: Vec<String> = (2..10).map(|number| format!("call{number}")).collect();
    assert_eq!(taken, expected);
    let other = replicas[0]
        .redeem(&TENANT, &[5; 32], at(999))
        .await
        .unwrap();
    assert_eq!(other.unwrap().name, "other");
}

fn usage(tenant: &str, thing: &str, count: u64) -> Usage {
    Usage {
        tenant: tenant.to_owned(),
        thing: thing.to_owned(),
        count,
    }
}

async fn usage_is_summed_by_the_hour(place: Place) {
    let replicas = [place.open().await, place.open().await];
    // Tenants share counters, in different orders.
    let adders: Vec<_> = (0..8_u8)
        .map(|adder| {
            let state = Arc::clone(&replicas[usize::from(adder % 2)]);
            tokio::spawn(async move {
                for number in 0..10 {
                    let mut commit = Commit::new(at(i64::from(number % 2) * HOUR + 5));
                    commit.usage = vec![usage("a", "tokens", 100), usage("a", "calls", 1)];
                    commit
                        .usage
                        .extend([usage("b", "calls", 7), usage("a", "calls", 1)]);
                    if adder % 2 == 0 {
                        commit.usage.reverse();
                    }
                    state.commit(&[adder; 32], commit).await.unwrap();
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.unwrap();
    }
    let sums = |calls, tokens| vec![("calls".to_owned(), calls), ("tokens".to_owned(), tokens)];
    let state = &replicas[0];
    assert_eq!(
        state.usage("a", at(HOUR - 1)).await.unwrap(),
        sums(160, 8000)
    );
    assert_eq!(
        state.usage("a", at(HOUR + 9)).await.unwrap(),
        sums(80, 4000)
    );
    assert_eq!(state.usage("a", at(2 * HOUR)).await.unwrap(), []);
    let other = vec![("calls".to_owned(), 560)];
    assert_eq!(state.usage("b", at(0)).await.unwrap(), other);
}

async fn old_rows_are_pruned(place: Place) {
    let state = place.open().await;
    let many = 2500;
    let mut old = session(0, "old");
    old.records = (0..many).map(|number| number.to_string()).collect();
    old.usage = vec![usage("a", "calls", 1)];
    old.permits = vec![permit("old", 1, HOUR), permit("new", 1, 3 * HOUR)];
    state.commit(&TENANT, old).await.unwrap();
    let new = Commit {
        at: at(2 * HOUR),
        ..records(["new".to_owned()])
    };
    state.commit(&TENANT, new.clone()).await.unwrap();
    assert_eq!(state.prune(at(2 * HOUR)).await.unwrap(), many + 3);
    assert_eq!(state.prune(at(2 * HOUR)).await.unwrap(), 0);
    assert_eq!(document(&*state).await, None);
    assert_eq!(state.usage("a", at(0)).await.unwrap(), []);
    let left = state.redeem(&TENANT, &[1; 32], at(0)).await.unwrap();
    assert_eq!(left.unwrap().name, "new");
    // A reader that is behind gets what is left, and numbers go on.
    for seen in [0, many - 1, many] {
        let loaded = state.load(&TENANT, seen, None).await.unwrap();
        assert_eq!(
            (loaded.records, loaded.head),
            (vec!["new".to_owned()], many + 1)
        );
    }
    state.prune(at(9 * HOUR)).await.unwrap();
    let empty = state.load(&TENANT, 3, None).await.unwrap();
    assert_eq!((empty.head, empty.more), (many + 1, false));
    let next = state.commit(&TENANT, new).await.unwrap();
    let head = many + 2;
    assert_eq!(next, Committed::At { head, version: 0 });
}

async fn what_cannot_be_kept_is_refused(place: Place) {
    let state = place.open().await;
    state.ping().await.unwrap();
    let texts = [vec!["a\0b".to_owned()], vec!["x".repeat((32 << 20) + 1)]];
    let long = vec!["x".repeat(30 << 20); 3];
    for bad in texts.into_iter().chain([long]) {
        let refused = state.commit(&TENANT, records(bad)).await;
        assert!(matches!(refused, Err(StateError::Limit(_))), "{refused:?}");
    }
    assert_eq!(log(&*state, 0).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_fails_and_ends() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let place = Place::postgres(&server);
    let state = place.open().await;
    let mut base = 0;
    for stop in [Postgres::stop, Postgres::crash] {
        let made = state.commit(&TENANT, session(base, "{}")).await.unwrap();
        base = version(&made);
        stop(&server);
        let begin = Instant::now();
        // As many as wait for each other at one replica.
        for _ in 0..30 {
            let lost = state.commit(&TENANT, session(base, "lost")).await;
            assert!(matches!(lost, Err(StateError::Unavailable(_))), "{lost:?}");
            assert!(!format!("{lost:?}").contains(PASSWORD), "{lost:?}");
        }
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert!(state.ping().await.is_err());
        server.start_again();
        let begin = Instant::now();
        while let Err(error) = state.ping().await {
            assert!(begin.elapsed() < Duration::from_secs(20), "{error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // All of the pool's connections were broken. What was acknowledged is there.
        for _ in 0..20 {
            assert_eq!(document(&*state).await.unwrap().version, base);
        }
    }
}

/// The network loses all connections without a word, as a firewall that restarts does. New ones work.
#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_are_replaced() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    let url = server.database();
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let between = listener.local_addr().unwrap().port().to_string();
    let (lose, lost) = tokio::sync::watch::channel(0_u32);
    let target = format!("127.0.0.1:{port}");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (mut lost, target) = (lost.clone(), target.clone());
            lost.mark_unchanged();
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(target).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    _ = lost.changed() => std::future::pending().await,
                }
            });
        }
    });
    let store = Store::postgres(&url.replace(port, &between), &settings()).await;
    let state = store.unwrap().state();
    let pings = (0..10).map(|_| {
        let state = Arc::clone(&state);
        tokio::spawn(async move { state.ping().await })
    });
    for ping in pings.collect::<Vec<_>>() {
        ping.await.unwrap().unwrap();
    }
    // The pool is older than an operation takes.
    tokio::time::sleep(Duration::from_secs(6)).await;
    lose.send(1).unwrap();
    let begin = Instant::now();
    while let Err(error) = state.ping().await {
        assert!(begin.elapsed() < Duration::from_secs(30), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..20 {
        state.ping().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_or_read_only_database_is_unavailable() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    let Place::Postgres(url) = Place::postgres(&server) else {
        unreachable!()
    };
    let state = Store::postgres(&url, &settings()).await.unwrap().state();
    state.commit(&TENANT, Commit::new(at(0))).await.unwrap();
    // Another program holds the row of the tenant.
    std::thread::scope(|scope| {
        let held = "BEGIN; SELECT 1 FROM sluice.tenant FOR UPDATE; SELECT pg_sleep(6)";
        scope.spawn(|| server.sql(&url, held));
        std::thread::sleep(Duration::from_millis(500));
        let runtime = tokio::runtime::Handle::current();
        let blocked = std::thread::spawn(move || {
            let commit = state.commit(&TENANT, Commit::new(at(0)));
            runtime.block_on(commit)
        });
        let blocked = blocked.join().unwrap();
        assert!(
            matches!(blocked, Err(StateError::Unavailable(_))),
            "{blocked:?}"
        );
    });
    server.sql(
        &url,
        "ALTER DATABASE test0 SET default_transaction_read_only = on",
    );
    let store = Store::postgres(&url, &settings()).await;
    assert!(
        matches!(store, Err(StateError::Unavailable(_))),
        "{store:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_once_and_newer_ones_refused() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    let url = server.database();
    let opening = || {
        let url = url.clone();
        tokio::spawn(async move { Store::postgres(&url, &settings()).await })
    };
    let all: Vec<_> = (0..6).map(|_| opening()).collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    server.sql(&url, "UPDATE sluice.version SET number = 99");
    let newer = Store::postgres(&url, &settings()).await;
    let is_refused = matches!(newer, Err(StateError::Newer { found: 99, .. }));
    assert!(is_refused, "{newer:?}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    drop(Store::sqlite(&path).unwrap());
    let file = rusqlite::Connection::open(path.join("state.db")).unwrap();
    file.execute_batch("PRAGMA user_version = 99").unwrap();
    assert!(
        Store::sqlite(&path)
            .unwrap_err()
            .to_string()
            .contains("version 99")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_has_the_password() {
    let server = Postgres::fast();
    let mut urls: Vec<String> = [
        "postgres://sluice:correct-horse-41@127.0.0.1:1/none",
        "postgres://sluice:correct-horse-41@nowhere.invalid/none",
        "postgres://sluice:correct-horse-41@127.0.0.1:port/none",
        "postgres://sluice:correct-horse-41@[::1/none",
        "postgres://sluice:correct-horse-41@127.0.0.1/none?sslmode=correct-horse-41",
        "mysql://sluice:correct-horse-41@127.0.0.1/none",
        "correct-horse-41",
    ]
    .map(str::to_owned)
    .into();
    if let Some(server) = &server {
        let url = server.database();
        let store = Store::postgres(&url, &settings()).await.unwrap();
        assert!(!format!("{store:?}").contains(PASSWORD), "{store:?}");
        urls.extend([
            url.replace("//sluice:", "//another:"),
            url.replace("/test", "/missing"),
            format!("{url}?sslmode=require"),
        ]);
    }
    for url in urls {
        let settings = PoolSettings {
            wait: Duration::from_millis(500),
            ..settings()
        };
        let error = Store::postgres(&url, &settings).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_reached_by_tls_that_the_url_demands() {
    let Some((server, certificate)) = Postgres::with_tls(&["127.0.0.1"]) else {
        return;
    };
    let (of_another_name, other) = Postgres::with_tls(&["db.example.org"]).unwrap();
    let (url, other_url) = (server.database(), of_another_name.database());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let (root, other_root) = (file("root.pem", &certificate), file("other.pem", &other));
    let missing = folder.path().join("missing.pem").display().to_string();
    for (url, is_encrypted) in [
        (format!("{url}?sslmode=disable"), false),
        (format!("{url}?sslmode=require"), true),
        (
            format!("{url}?sslmode=verify-full&sslrootcert={root}"),
            true,
        ),
        (
            format!("{other_url}?sslmode=verify-ca&sslrootcert={other_root}"),
            true,
        ),
    ] {
        let store = Store::postgres(&url, &settings()).await.unwrap();
        store.state().ping().await.unwrap();
        let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'sluice'";
        let server = if url.starts_with(&other_url) {
            &of_another_name
        } else {
            &server
        };
        let seen = server.sql(url.split('?').next().unwrap(), sql);
        assert_eq!(seen, if is_encrypted { "t" } else { "f" }, "{url}");
    }
    for (url, reason) in [
        (format!("{url}?sslmode=verify-full"), "certificate"),
        (
            format!("{url}?sslmode=verify-full&sslrootcert={other_root}"),
            "certificate",
        ),
        (
            format!("{other_url}?sslmode=verify-full&sslrootcert={other_root}"),
            "not valid for name",
        ),
        (
            format!("{url}?sslmode=verify-full&sslrootcert={missing}"),
            "sslrootcert",
        ),
    ] {
        let error = Store::postgres(&url, &settings()).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StateError::Unavailable(_)), "{error:?}");
        assert!(text.contains(reason) && !text.contains('\n'), "{text}");
        assert!(!format!("{text} {error:?}").contains(PASSWORD), "{text}");
    }
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_named_without_its_password() {
    let url = "postgres://ada:canary@127.0.0.1:9/sluice";
    let error = Store::reach(url, &PoolSettings::default()).await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains("127.0.0.1:9/sluice"), "{text}");
    assert_eq!(text.matches("cannot be used").count(), 1, "{text}");
    assert!(!text.contains("canary"), "{text}");
}

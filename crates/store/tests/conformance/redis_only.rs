//! What only a server can do wrong.

use std::sync::mpsc;
use std::time::Duration;

use store::{Limits, Memory, MemoryError, Name, Namespace, Page, RedisError, RedisMemory};

use crate::backs::{Back, Redis, space};
use crate::limits::in_common;
use crate::{derived, found, id, label, lattice, open, said};

#[test]
fn a_server_that_could_lose_or_keep_what_it_must_not_is_refused() {
    for (setting, value) in [
        ("appendonly", "no"),
        ("appendfsync", "everysec"),
        ("maxmemory-policy", "allkeys-lru"),
        ("save", "3600 1"),
    ] {
        let redis = Redis::new();
        redis.command(&["CONFIG", "SET", setting, value]);
        let refused = RedisMemory::open(&redis.address(), &space(), lattice(), Limits::default());
        let Err(MemoryError::Redis(error)) = refused.map(|_| ()) else {
            panic!("{setting} {value} was accepted");
        };
        assert!(matches!(error, RedisError::Setting { name, .. } if name == setting));
        assert!(error.to_string().contains(setting));
    }
}

#[test]
fn another_version_is_refused() {
    let redis = Redis::new();
    redis.command(&["SET", "sluice:memory:tests:version", "2"]);
    let refused = RedisMemory::open(&redis.address(), &space(), lattice(), Limits::default());
    let error = refused.map(|_| ()).unwrap_err();
    assert!(matches!(
        error,
        MemoryError::Redis(RedisError::Version { known: 1, .. })
    ));
}

/// Each configuration has a space of its own.
#[test]
fn memories_of_two_spaces_do_not_meet() {
    let redis = Redis::new();
    let open = |space: &str| {
        let space = Name::new(space).unwrap();
        RedisMemory::open(&redis.address(), &space, lattice(), Limits::default())
    };
    let (one, other) = (open("one").unwrap(), open("other").unwrap());
    one.append(&Namespace::Hub, &[said(1, "needle", &[])])
        .unwrap();
    assert_eq!(other.namespaces().unwrap(), []);
    assert_eq!(found(&other, "needle", &label(&["any"])), []);
    assert!(other.show(id(1), &label(&["any"])).unwrap().is_none());
    assert!(other.forget(&[id(1)]).unwrap().family.entries.is_empty());
    // The same id is another memory there.
    other
        .append(&Namespace::Hub, &[said(1, "thread", &[])])
        .unwrap();
    assert_eq!(one.expire(store::Time::from_millis(0)).unwrap().count, 0);
    assert_eq!(
        other
            .expire(store::Time::from_millis(i64::MAX))
            .unwrap()
            .count,
        1
    );
    assert_eq!(found(&one, "needle", &label(&[])), [id(1)]);
    // One whose name goes on where another's ends.
    let refused = open("one:entry").map(|_| ()).unwrap_err();
    assert!(matches!(
        refused,
        MemoryError::Redis(RedisError::BadSpace(_))
    ));
}

/// A damaged entry is nobody's to read, is named to the user, and can be forgotten.
#[test]
fn what_is_damaged_is_left_out() {
    for damage in [
        &["HSET", "KEY", "data", "{}"][..],
        &["HDEL", "KEY", "sources"],
        &["HDEL", "KEY", "namespace"],
        &["DEL", "KEY"],
    ] {
        let redis = Redis::new();
        let memory = open(&redis);
        let drafts = [
            said(1, "needle", &[]),
            derived(2, "needle", &[], &[1]),
            said(3, "needle", &[]),
        ];
        memory.append(&Namespace::Hub, &drafts).unwrap();
        let key = format!("sluice:memory:tests:entry:{}", id(2));
        let damage = damage.iter().map(|word| word.replace("KEY", &key));
        let damage: Vec<String> = damage.collect();
        redis.command(&damage.iter().map(String::as_str).collect::<Vec<_>>());
        let memory = open(&redis);
        let (named, top) = (
            lattice().labels(["untrusted", "secret"]).unwrap(),
            label(&["any"]),
        );
        let list = |at| memory.list(&Namespace::Hub, &Page::newest(9), at);
        for at in [&named, &top] {
            assert_eq!(list(at).unwrap().len(), 2, "{damage:?}");
            assert_eq!(found(&*memory, "needle", at), [id(3), id(1)]);
        }
        assert_eq!(memory.unreadable(&Namespace::Hub).unwrap(), [id(2)]);
        let forgotten = memory.forget(&[id(2)]).unwrap();
        assert_eq!(forgotten.family.unreadable, [id(2)]);
        assert_eq!(list(&top).unwrap().len(), 2);
        assert_eq!(found(&*memory, "needle", &top), [id(3), id(1)]);
    }
}

/// How often the server was asked for a whole entry.
fn entries_read(redis: &Redis) -> usize {
    calls(redis, "hgetall")
}

/// How often the server was asked what is derived from an entry.
fn followed(redis: &Redis) -> usize {
    calls(redis, "smembers")
}

/// How often a command was given since the statistics were reset.
fn calls(redis: &Redis, command: &str) -> usize {
    let statistics = redis.command(&["INFO", "commandstats"]);
    let mut lines = statistics.lines();
    let begin = format!("cmdstat_{command}:calls=");
    let calls = lines.find_map(|line| line.strip_prefix(&begin));
    let calls = calls.and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// However much of it the oldest entries have in common, it is not gone through once for each of them.
#[test]
fn making_room_follows_each_entry_once() {
    const OLDEST: u32 = 16;
    const DERIVED: u32 = 64;
    let redis = Redis::new();
    let limits = Limits {
        entries: 256,
        ..Limits::default()
    };
    let memory = redis.open(lattice(), limits);
    in_common(&*memory, 256, OLDEST, DERIVED);
    redis.command(&["CONFIG", "RESETSTAT"]);
    let gone = memory.append(&Namespace::Hub, &[said(5_000, "x", &[])]);
    let gone = gone.unwrap().count;
    assert_eq!(gone, (OLDEST + DERIVED) as usize);
    assert_eq!((entries_read(&redis), followed(&redis)), (gone + 1, gone));
}

#[test]
fn a_page_and_a_chain_are_read_once() {
    const CHAIN: u32 = 1_000;
    let redis = Redis::new();
    let memory = open(&redis);
    let chain = |number: u32| derived(number, "x", &[], number.checked_sub(1).as_slice());
    let chain: Vec<_> = (0..CHAIN).map(chain).collect();
    for batch in chain.chunks(250) {
        memory.append(&Namespace::Hub, batch).unwrap();
    }
    redis.command(&["CONFIG", "RESETSTAT"]);
    let page = memory.list(&Namespace::Hub, &Page::newest(50), &label(&[]));
    assert_eq!(page.unwrap().len(), 50);
    // As many as are asked for at once.
    assert_eq!(entries_read(&redis), 256);
    redis.command(&["CONFIG", "RESETSTAT"]);
    let all = memory.ids(&Namespace::Hub).unwrap();
    let forgotten = memory.forget(&all).unwrap();
    assert_eq!(forgotten.family.entries.len(), CHAIN as usize);
    assert_eq!(entries_read(&redis), CHAIN as usize);
}

/// What does not say its time is as old as what was added after it.
#[test]
fn what_is_damaged_gets_too_old() {
    let redis = Redis::new();
    let memory = open(&redis);
    let drafts = [1, 2, 3, 4].map(|number| said(number, "x", &[]));
    memory.append(&Namespace::Hub, &drafts).unwrap();
    for number in [1, 4] {
        let key = format!("sluice:memory:tests:entry:{}", id(number));
        redis.command(&["HSET", &key, "data", "{}"]);
    }
    let expire = |before| {
        let before = store::Time::from_millis(before);
        memory.expire(before).unwrap().count
    };
    assert_eq!(expire(1_002), 0);
    assert_eq!(expire(1_003), 2);
    assert_eq!(memory.ids(&Namespace::Hub).unwrap(), [3, 4].map(id));
}

/// A server that cannot write its file anew is no program that reads it.
#[test]
fn why_text_is_still_in_the_servers_file_is_said() {
    let redis = Redis::new();
    let memory = open(&redis);
    let drafts = [1, 2].map(|number| said(number, "sesame-open", &[]));
    memory.append(&Namespace::Hub, &drafts).unwrap();
    let file = redis.folder().join("appendonlydir");
    let has_text = || {
        let files = std::fs::read_dir(&file).unwrap();
        let mut files = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
        files.any(|bytes| bytes.windows(11).any(|window| window == b"sesame-open"))
    };
    let aside = redis.folder().join("aside");
    std::fs::rename(&file, &aside).unwrap();
    std::fs::write(&file, "no folder").unwrap();
    let forgotten = memory.forget(&[id(1), id(2)]).unwrap();
    assert_eq!(forgotten.family.entries.len(), 2);
    let why = forgotten.erased.unwrap_err().to_string();
    assert!(why.starts_with("the Redis server: "), "{why}");
    std::fs::remove_file(&file).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    assert!(has_text());
    // Whoever opens the memory next finishes it.
    drop(open(&redis));
    assert!(!has_text());
}

/// Kills the server while entries are added: none that was acknowledged is lost or half there.
#[test]
fn what_was_acknowledged_survives_the_end_of_the_server() {
    let mut redis = Redis::new();
    let mut next = 0;
    let mut acknowledged = Vec::new();
    for round in 0..5_u64 {
        let memory = open(&redis);
        let (sender, receiver) = mpsc::channel();
        let appender = std::thread::spawn(move || {
            loop {
                let pair = [
                    said(next, &format!("turn {next}"), &[]),
                    derived(next + 1, &format!("sum {next}"), &[], &[next]),
                ];
                if memory.append(&Namespace::Hub, &pair).is_err() {
                    return next + 2;
                }
                sender.send(next).unwrap();
                next += 2;
            }
        });
        acknowledged.extend(receiver.iter().take(5));
        std::thread::sleep(Duration::from_millis(3 + 7 * round));
        redis.kill();
        next = appender.join().unwrap();
        acknowledged.extend(receiver.iter());
        redis.start(&[]);
    }
    assert!(acknowledged.len() >= 5 * 5);
    let memory = open(&redis);
    for number in acknowledged {
        let turn = memory.show(id(number), &label(&[])).unwrap().unwrap();
        let sum = memory.show(id(number + 1), &label(&[])).unwrap().unwrap();
        assert_eq!(
            turn.content,
            said(number, &format!("turn {number}"), &[]).content
        );
        assert_eq!(sum.sources, [turn.id]);
    }
    let all = memory
        .list(&Namespace::Hub, &Page::newest(usize::MAX), &label(&[]))
        .unwrap();
    assert_eq!(all.len() % 2, 0);
    for pair in all.chunks(2) {
        assert_eq!(pair[0].sources, [pair[1].id]);
    }
}

/// Another user's server at the socket, where that user could have been first: `/tmp` is everybody's. Only root can start one.
#[test]
fn a_server_that_another_user_could_put_there_is_refused() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let open = |redis: &Redis| {
        let opened = RedisMemory::open(&redis.address(), &space(), lattice(), Limits::default());
        opened.map(|_| ())
    };
    let redis = Redis::of_user(NOBODY);
    let refused = open(&redis).unwrap_err();
    assert!(
        matches!(
            refused,
            MemoryError::Redis(RedisError::Stranger { uid: NOBODY, .. })
        ),
        "{refused}"
    );
    // One that was the user's own while the memory was opened, and is another's when it connects again.
    let mut redis = Redis::new();
    let memory = super::open(&redis);
    redis.kill();
    redis.start_as(Some(NOBODY), &[]);
    let failed = memory.namespaces();
    // The connection is gone; the next one is not made.
    let failed = failed.and_then(|_| memory.namespaces());
    assert!(failed.is_err());
    let refused = memory.namespaces().unwrap_err();
    assert!(refused.to_string().contains("65534 listens"), "{refused}");
}

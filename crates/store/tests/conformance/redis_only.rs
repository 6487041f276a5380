//! What only a server can do wrong.

use std::sync::mpsc;
use std::time::Duration;

use store::{Limits, Memory, MemoryError, Name, Namespace, Page, RedisError, RedisMemory};

use crate::backs::{Back, Redis, space};
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
    assert!(other.forget(id(1)).unwrap().entries.is_empty());
    // The same id is another memory there.
    other
        .append(&Namespace::Hub, &[said(1, "thread", &[])])
        .unwrap();
    assert_eq!(one.expire(store::Time::from_millis(0)).unwrap(), 0);
    assert_eq!(other.expire(store::Time::from_millis(i64::MAX)).unwrap(), 1);
    assert_eq!(found(&one, "needle", &label(&[])), [id(1)]);
    // One whose name goes on where another's ends.
    let refused = open("one:entry").map(|_| ()).unwrap_err();
    assert!(matches!(
        refused,
        MemoryError::Redis(RedisError::BadSpace(_))
    ));
}

/// A damaged entry is above every reader but ⊤, an error there, and can be forgotten.
#[test]
fn what_is_damaged_is_top_or_an_error() {
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
        if damage.last().unwrap() != "namespace" {
            assert_eq!(list(&named).unwrap().len(), 2, "{damage:?}");
            assert_eq!(found(&*memory, "needle", &named), [id(3), id(1)]);
        }
        assert!(
            matches!(list(&top), Err(MemoryError::Unreadable { .. })),
            "{damage:?}"
        );
        let forgotten = memory.forget(id(2)).unwrap();
        assert_eq!(forgotten.unreadable, [id(2)]);
        assert_eq!(list(&top).unwrap().len(), 2);
        assert_eq!(found(&*memory, "needle", &top), [id(3), id(1)]);
    }
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

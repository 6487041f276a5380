//! A memory whose writer is killed at any point has everything that it acknowledged.
//!
//! The writer is this test program, started again, and killed with SIGKILL: 12 times by default, or
//! `SLUICE_KILLS` times.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ifc::{Label, Lattice};
use store::{Content, Draft, EntryId, Limits, Memory, Namespace, Query, SqliteMemory, Time};

/// Names the file to the process that writes.
const FILE: &str = "SLUICE_CRASH_FILE";
/// And the number of its first entry.
const FIRST: &str = "SLUICE_CRASH_FIRST";
/// And how many entries there is room for.
const ROOM: &str = "SLUICE_CRASH_ROOM";

/// More than are written in all these rounds.
const ENOUGH: usize = 1_000_000;

/// So few that each addition makes others go.
const FEW: usize = 40;

const KILLS: u64 = 12;

/// Every so many entries, the one before is forgotten.
const FORGET_EVERY: u32 = 3;

fn open(path: &Path, entries: usize) -> SqliteMemory {
    let limits = Limits {
        entries,
        bytes: 1 << 30,
        ..Limits::default()
    };
    SqliteMemory::open(path, Lattice::four_point(), limits).unwrap()
}

fn id(number: u32, part: u8) -> EntryId {
    let mut bytes = [part; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    EntryId::from_bytes(bytes)
}

/// An entry and what is derived from it. Some are longer than a page of the file.
fn pair(number: u32) -> [Draft; 2] {
    let secret = Lattice::four_point().label("secret").unwrap();
    let turn = Draft {
        id: id(number, 0),
        content: Content::Summary {
            text: format!("entry{number} ").repeat(1 + number as usize % 900),
        },
        label: secret,
        sources: Vec::new(),
        origin: format!("origin of {number}"),
        time: Time::from_millis(i64::from(number)),
    };
    let fact = Draft {
        id: id(number, 1),
        content: Content::Fact {
            entity: format!("entry{number}"),
            attribute: "number".to_owned(),
            value: number.to_string(),
        },
        sources: vec![turn.id],
        ..turn.clone()
    };
    [turn, fact]
}

#[test]
#[ignore = "the process that is killed by the other test"]
fn writer() {
    let file = std::env::var_os(FILE).unwrap();
    let first: u32 = std::env::var(FIRST).unwrap().parse().unwrap();
    let room = std::env::var(ROOM).unwrap().parse().unwrap();
    let memory = open(Path::new(&file), room);
    // Not by `println`, which a test runner keeps for itself.
    let acknowledge = |what: &str, number| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{what} {number}").unwrap();
        out.flush().unwrap();
    };
    for number in first.. {
        memory.append(&Namespace::Hub, &pair(number)).unwrap();
        acknowledge("added", number);
        if number % FORGET_EVERY == 0 && number > first {
            acknowledge("forgetting", number - 1);
            memory.forget(&[id(number - 1, 0)]).unwrap();
            acknowledge("forgotten", number - 1);
        }
    }
}

#[test]
fn acknowledged_entries_survive_a_kill() {
    survives(ENOUGH);
}

/// Entries make room in the transaction of the new ones.
#[test]
fn acknowledged_entries_survive_a_kill_while_others_make_room() {
    survives(FEW);
}

fn survives(room: usize) {
    let kills = std::env::var("SLUICE_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store/memory.db");
    let (mut added, mut forgotten, mut unsure) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut first = 0;
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::writer", "--ignored", "--nocapture"])
            .env(FILE, &path)
            .env(FIRST, first.to_string())
            .env(ROOM, room.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let words = |line: &str| {
            let (word, number) = line.split_once(' ')?;
            Some((word.to_owned(), number.parse::<u32>().ok()?))
        };
        // The first word of the test runner is passed over.
        let begun = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| words(&line)?.0.eq("added").then_some(line));
        let begun = begun.unwrap();
        // Different points of an append: at once, up to some entries later.
        std::thread::sleep(Duration::from_micros(kill * 7919 % 50_000));
        child.kill().unwrap();
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        child.wait().unwrap();
        for (word, number) in std::iter::once(begun)
            .chain(rest)
            .filter_map(|line| words(&line))
        {
            match word.as_str() {
                "added" => drop(added.insert(number)),
                "forgetting" => drop(unsure.insert(number)),
                "forgotten" => drop(forgotten.insert(number)),
                other => panic!("the writer says {other}"),
            }
            first = number.max(first);
        }
        // One may have been added and not acknowledged.
        first += 10;
        check(&path, room, &added, &forgotten, &unsure);
    }
    assert!(added.len() as u64 > kills && !forgotten.is_empty());
}

fn check(
    path: &Path,
    room: usize,
    added: &BTreeSet<u32>,
    forgotten: &BTreeSet<u32>,
    unsure: &BTreeSet<u32>,
) {
    let memory = open(path, room);
    let everything = Label::top();
    let all = memory
        .list(&Namespace::Hub, usize::MAX, &everything)
        .unwrap();
    // Newest first, and whole pairs only.
    assert_eq!(all.len() % 2, 0);
    assert!(all.len() <= room);
    let mut there = BTreeSet::new();
    for entries in all.chunks(2) {
        let number = u32::try_from(entries[0].time.millis()).unwrap();
        for (entry, draft) in entries.iter().rev().zip(pair(number)) {
            assert_eq!(entry.id, draft.id);
            assert!(entry.content == draft.content && entry.label == draft.label);
            assert!(entry.origin == draft.origin && entry.sources == draft.sources);
        }
        there.insert(number);
    }
    // The oldest make way, and where all have room none does.
    let made_way = |number: &u32| room < ENOUGH && there.first() > Some(number);
    for number in added {
        let kept = there.contains(number);
        let may_be_gone = unsure.contains(number) || made_way(number);
        assert!(kept || may_be_gone, "entry {number} is lost");
        assert!(
            !(kept && forgotten.contains(number)),
            "entry {number} is there again"
        );
    }
    let last = there.last().unwrap();
    let query = Query::new(&format!("entry{last}"));
    let found = memory
        .search(&Namespace::Hub, &query, &everything, 9)
        .unwrap();
    assert_eq!(found.len(), 2);
    let sqlite = rusqlite::Connection::open(path).unwrap();
    let verdict: String = sqlite
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
    let dangling: i64 = sqlite
        .query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(dangling, 0);
}

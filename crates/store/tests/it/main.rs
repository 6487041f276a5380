//! What the store promises: one conformance suite for every back end of `Memory`, files, crashes, permissions.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod archive;
mod crash;
mod desk;
mod entries;
mod files;
mod forgetting;
mod limits;
mod permissions;
mod searching;
mod state;
mod worlds;

use std::path::Path;

use ifc::{Label, Lattice, Order};
use store::{
    Content, Draft, Entry, EntryId, Identity, Limits, Memory, Name, Namespace, Query, Speaker,
    SqliteMemory, Time,
};
use tempfile::TempDir;

/// A place for one memory, in a folder of its own.
trait Back: Sized {
    fn new() -> Self;

    /// Opens the memory, once more if it is open already.
    fn open_with(&self, lattice: Lattice, limits: Limits) -> Box<dyn Memory>;

    /// As [`Back::open_with`], with the lattice of these tests and the default limits.
    fn open(&self) -> Box<dyn Memory> {
        self.open_with(lattice(), Limits::default())
    }

    /// The folder that everything is written below.
    fn folder(&self) -> &Path;

    /// Damages an entry, as a fault of the disk or another program may.
    fn damage(&self, id: EntryId, damage: Damage);
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    /// Its kind does not exist.
    Kind,
    /// Its text is not UTF-8.
    Text,
}

struct Sqlite(TempDir);

impl Back for Sqlite {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open_with(&self, lattice: Lattice, limits: Limits) -> Box<dyn Memory> {
        let path = self.0.path().join("store/memory.db");
        Box::new(SqliteMemory::open(&path, lattice, limits).unwrap())
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn damage(&self, id: EntryId, damage: Damage) {
        let set = match damage {
            Damage::Kind => "kind = 'poem'",
            Damage::Text => "text = CAST(x'ff' AS TEXT)",
        };
        let file = rusqlite::Connection::open(self.0.path().join("store/memory.db")).unwrap();
        let update = format!(
            "PRAGMA ignore_check_constraints = true; UPDATE memory SET {set} WHERE id = x'{id}'"
        );
        file.execute_batch(&update).unwrap();
    }
}

/// Runs each test against each back end.
macro_rules! conformance {
    ($($module:ident: $($test:ident)*;)*) => {
        mod sqlite {
            $($(
                #[test]
                fn $test() {
                    crate::$module::$test(&<crate::Sqlite as crate::Back>::new());
                }
            )*)*
        }
    };
}

conformance! {
    entries:
        entries_come_back_as_added
        a_reader_gets_what_flows_to_it
        a_derived_entry_is_at_or_above_its_sources
        derived_entries_stay_above_in_later_lattices
        a_batch_is_added_as_a_whole
        an_unknown_taint_makes_an_entry_top
        damaged_entries_leave_the_others
        apps_of_one_name_have_separate_memories
        handles_share_one_memory
        concurrent_writers_lose_nothing;
    forgetting:
        derived_entries_are_forgotten_too
        forgotten_text_is_nowhere_on_disk
        moved_text_is_forgotten_too
        chains_are_forgotten_at_once
        old_entries_expire;
    limits:
        entries_and_batches_have_bounds
        the_oldest_of_a_label_makes_room
        bytes_are_room_too
        derived_entries_make_room_too
        a_flood_removes_nothing_of_other_labels
        refused_drafts_remove_nothing;
    searching:
        rare_words_count_more
        any_query_is_text
        facts_are_found_by_each_part
        later_facts_replace_less_trusted_ones
        labels_are_those_of_the_entries;
    worlds:
        entries_above_a_reader_change_nothing
        other_entries_above_a_reader_change_nothing
        removals_tell_nothing_of_entries_above;
}

/// The lattice of these tests: three taints of each dimension.
fn lattice() -> Lattice {
    let words = |all: [&str; 3]| Order::Categories(all.map(str::to_owned).to_vec());
    let (integrity, secrets) = (
        words(["mail", "web", "drive"]),
        words(["card", "health", "home"]),
    );
    Lattice::new(&integrity, &secrets).unwrap()
}

/// The join of these labels of [`lattice`].
fn label(names: &[&str]) -> Label {
    lattice().labels(names.iter().copied()).unwrap()
}

fn app(name: &str) -> Namespace {
    apps(&[(name, 1)])
}

/// The namespace of these apps, each with an identity.
fn apps(all: &[(&str, u8)]) -> Namespace {
    let each = all.iter().map(|(name, own)| {
        let identity = Identity::from_digest([*own; 32]);
        (Name::new(*name).unwrap(), identity)
    });
    Namespace::Apps(each.collect())
}

/// The entry that a number stands for in a test.
fn id(number: u32) -> EntryId {
    EntryId::from_bytes((0xabcd_0000_u128 + u128::from(number)).to_be_bytes())
}

fn ids(entries: &[Entry]) -> Vec<EntryId> {
    entries.iter().map(|entry| entry.id).collect()
}

/// Something that the user said.
fn said(number: u32, text: &str, names: &[&str]) -> Draft {
    Draft {
        id: id(number),
        content: Content::Interaction {
            speaker: Speaker::User,
            text: text.to_owned(),
        },
        label: label(names),
        sources: Vec::new(),
        origin: "chat".to_owned(),
        time: Time::from_millis(1_000 + i64::from(number)),
    }
}

/// A summary of others.
fn derived(number: u32, text: &str, names: &[&str], sources: &[u32]) -> Draft {
    Draft {
        content: Content::Summary {
            text: text.to_owned(),
        },
        sources: sources.iter().map(|number| id(*number)).collect(),
        ..said(number, "", names)
    }
}

/// The entries of the hub that answer a query, best first.
fn found(memory: &dyn Memory, query: &str, at: &Label) -> Vec<EntryId> {
    found_in(memory, &Namespace::Hub, query, at)
}

fn found_in(memory: &dyn Memory, namespace: &Namespace, query: &str, at: &Label) -> Vec<EntryId> {
    let found = memory
        .search(namespace, &Query::new(query), at, 100)
        .unwrap();
    found.into_iter().map(|found| found.entry.id).collect()
}

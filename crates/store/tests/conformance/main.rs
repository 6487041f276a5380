//! What every memory does, whatever its back end. Each test runs against a SQLite file and against a
//! real `redis-server`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod backs;
mod entries;
mod forgetting;
mod limits;
mod namespaces;
mod redis_only;
mod searching;
mod sharing;
mod worlds;

use ifc::{Label, Lattice, Order};
use store::{
    Content, Draft, EntryId, Identity, Limits, Memory, Name, Namespace, Query, Speaker, Time,
};

/// Runs each test against each back end.
macro_rules! conformance {
    ($($module:ident: $($test:ident)*;)*) => {
        mod sqlite {
            $($(
                #[test]
                fn $test() {
                    crate::$module::$test(&<crate::backs::Sqlite as crate::backs::Back>::new());
                }
            )*)*
        }

        mod redis {
            $($(
                #[test]
                fn $test() {
                    crate::$module::$test(&<crate::backs::Redis as crate::backs::Back>::new());
                }
            )*)*
        }
    };
}

conformance! {
    entries:
        what_is_added_is_there_again
        a_reader_gets_what_flows_to_it
        a_page_goes_on_where_another_ended
        a_derived_entry_is_at_or_above_its_sources
        a_derived_entry_is_above_its_sources_in_every_later_lattice
        all_of_a_batch_is_added_or_none
        an_id_is_used_once
        an_unknown_taint_makes_the_whole_entry_top
        one_that_cannot_be_read_leaves_the_others
        nothing_shows_its_text_in_debug;
    forgetting:
        what_was_derived_goes_along
        what_is_forgotten_is_nowhere_on_the_disk
        what_was_moved_before_it_was_forgotten_is_nowhere
        whatever_goes_in_whatever_order_is_nowhere
        a_whole_chain_is_forgotten_at_once
        what_is_not_there_is_nothing_to_forget
        what_is_too_old_goes_with_what_came_of_it;
    limits:
        an_entry_has_a_size
        the_oldest_of_a_label_makes_room
        bytes_are_room_too
        what_was_derived_makes_way_along
        a_flood_of_one_label_pushes_out_nothing_of_another
        nothing_is_forgotten_for_what_is_refused
        what_many_have_in_common_makes_way_once
        a_batch_and_sources_have_a_number;
    namespaces:
        an_app_of_the_same_name_has_another_memory
        many_apps_with_long_names_have_a_memory
        what_is_handed_over_is_told_to_the_other_alone
        to_hand_over_nothing_changes_nothing
        what_was_handed_over_makes_room_too
        nothing_is_lost_while_it_is_handed_over;
    searching:
        the_rarer_word_counts_more
        of_equal_entries_the_newer_comes_first
        hostile_queries_are_text
        facts_are_found_by_each_part
        a_later_fact_replaces_what_is_no_more_trusted
        labels_are_those_of_the_entries;
    sharing:
        one_handle_sees_what_another_does
        writers_do_not_get_into_each_others_way;
    worlds:
        what_is_above_a_reader_changes_nothing_for_it
        two_worlds_that_differ_above_a_reader_are_one_to_it
        what_makes_way_tells_nothing_of_what_is_above;
}

/// The lattice of these tests: three taints of each dimension.
pub(crate) fn lattice() -> Lattice {
    let words = |all: [&str; 3]| Order::Categories(all.map(str::to_owned).to_vec());
    let (integrity, secrets) = (
        words(["mail", "web", "drive"]),
        words(["card", "health", "home"]),
    );
    Lattice::new(&integrity, &secrets).unwrap()
}

/// The join of these labels of [`lattice`].
pub(crate) fn label(names: &[&str]) -> Label {
    lattice().labels(names.iter().copied()).unwrap()
}

pub(crate) fn app(name: &str) -> Namespace {
    apps(&[(name, 1)])
}

/// That of these apps, each with an identity.
pub(crate) fn apps(all: &[(&str, u8)]) -> Namespace {
    let identity = |own| Identity::from_digest([own; 32]);
    let each = all.iter();
    let each = each.map(|(name, own)| (Name::new(*name).unwrap(), identity(*own)));
    Namespace::Apps(each.collect())
}

/// The entry that a number stands for in a test.
pub(crate) fn id(number: u32) -> EntryId {
    EntryId::from_bytes((0xabcd_0000_u128 + u128::from(number)).to_be_bytes())
}

/// Something that the user said.
pub(crate) fn said(number: u32, text: &str, names: &[&str]) -> Draft {
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
pub(crate) fn derived(number: u32, text: &str, names: &[&str], sources: &[u32]) -> Draft {
    Draft {
        content: Content::Summary {
            text: text.to_owned(),
        },
        sources: sources.iter().map(|number| id(*number)).collect(),
        ..said(number, "", names)
    }
}

pub(crate) fn open(back: &impl backs::Back) -> Box<dyn Memory> {
    back.open(lattice(), Limits::default())
}

/// The numbers of the entries that answer a query.
pub(crate) fn found(memory: &dyn Memory, query: &str, at: &Label) -> Vec<EntryId> {
    let found = memory.search(&Namespace::Hub, &Query::new(query).unwrap(), at, 100);
    found
        .unwrap()
        .into_iter()
        .map(|found| found.entry.id)
        .collect()
}

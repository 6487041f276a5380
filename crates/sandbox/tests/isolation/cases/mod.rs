//! The cases. Where a machine lacks a layer they fail, with the error that names it: a sandbox that was not tested is not
//! one.

mod bounds;
mod common;
mod layers;
mod lifetime;
mod mounts;
mod moves;
mod reach;

use libtest_mimic::Trial;

use crate::Outcome;
use crate::hiding::Place;

/// A name and what it runs.
type Case = (&'static str, fn() -> Outcome);

/// Every case.
pub(crate) fn all() -> Vec<Trial> {
    let cases: Vec<Case> = vec![
        ("every_layer_is_in_force", reach::every_layer_is_in_force),
        ("nothing_is_inherited", reach::nothing_is_inherited),
        (
            "files_of_the_host_are_out_of_reach",
            reach::files_of_the_host_are_out_of_reach,
        ),
        (
            "mounts_have_the_rights_of_the_spec",
            reach::mounts_have_the_rights_of_the_spec,
        ),
        ("wrong_mounts_are_refused", reach::wrong_mounts_are_refused),
        (
            "a_planted_link_is_no_mount_source",
            mounts::a_planted_link_is_no_mount_source,
        ),
        (
            "a_planted_link_is_no_mount_source_for_an_ordinary_user",
            mounts::a_planted_link_is_no_mount_source_for_an_ordinary_user,
        ),
        (
            "a_planted_link_opens_nothing_without_a_mount_namespace",
            mounts::a_planted_link_opens_nothing_without_a_mount_namespace,
        ),
        (
            "a_source_below_a_writable_mount_is_refused",
            mounts::a_source_below_a_writable_mount_is_refused,
        ),
        (
            "the_spoke_binary_is_in_no_writable_mount",
            mounts::the_spoke_binary_is_in_no_writable_mount,
        ),
        (
            "kernel_interfaces_are_no_mount_sources",
            mounts::kernel_interfaces_are_no_mount_sources,
        ),
        (
            "kernel_file_systems_are_no_mount_sources_under_another_name",
            mounts::kernel_file_systems_are_no_mount_sources_under_another_name,
        ),
        (
            "files_move_between_folders_of_a_writable_mount_and_not_into_another",
            mounts::files_move_between_folders_of_a_writable_mount_and_not_into_another,
        ),
        (
            "no_set_user_id_file_is_left_in_a_writable_mount",
            mounts::no_set_user_id_file_is_left_in_a_writable_mount,
        ),
        (
            "an_ordinary_users_mount_gets_no_set_user_id_file",
            mounts::an_ordinary_users_mount_gets_no_set_user_id_file,
        ),
        (
            "sockets_of_the_host_in_a_mount_cannot_be_reached",
            mounts::sockets_of_the_host_in_a_mount_cannot_be_reached,
        ),
        (
            "named_pipes_in_a_read_only_mount_cannot_be_written",
            mounts::named_pipes_in_a_read_only_mount_cannot_be_written,
        ),
        ("names_lead_to_the_hub", reach::names_lead_to_the_hub),
        (
            "names_need_a_network_of_their_own",
            reach::names_need_a_network_of_their_own,
        ),
        (
            "only_listed_listeners_are_reachable",
            reach::only_listed_listeners_are_reachable,
        ),
        (
            "forbidden_calls_are_refused",
            reach::forbidden_calls_are_refused,
        ),
        ("processes_are_bounded", bounds::processes_are_bounded),
        ("memory_is_bounded", bounds::memory_is_bounded),
        (
            "memory_and_processes_of_a_whole_spoke_are_bounded",
            bounds::memory_and_processes_of_a_whole_spoke_are_bounded,
        ),
        (
            "without_control_groups_a_spoke_runs_and_says_so",
            bounds::without_control_groups_a_spoke_runs_and_says_so,
        ),
        (
            "a_shared_zero_device_gives_no_memory",
            bounds::a_shared_zero_device_gives_no_memory,
        ),
        ("watchers_are_bounded", bounds::watchers_are_bounded),
        (
            "the_out_of_memory_killer_takes_the_spoke_first",
            bounds::the_out_of_memory_killer_takes_the_spoke_first,
        ),
        (
            "a_crash_leaves_no_core_dump",
            bounds::a_crash_leaves_no_core_dump,
        ),
        ("files_are_bounded", bounds::files_are_bounded),
        (
            "a_folder_with_a_size_is_not_filled",
            bounds::a_folder_with_a_size_is_not_filled,
        ),
        (
            "a_spoke_that_continues_itself_is_ended",
            bounds::a_spoke_that_continues_itself_is_ended,
        ),
        (
            "names_of_any_bytes_end_no_spoke_and_hide_nothing",
            bounds::names_of_any_bytes_end_no_spoke_and_hide_nothing,
        ),
        (
            "a_spoke_does_not_see_what_is_measured",
            bounds::a_spoke_does_not_see_what_is_measured,
        ),
        ("a_file_in_a_message_has_a_size", || {
            bounds::a_file_without_a_name_is_not_hidden(Place::Message)
        }),
        ("a_file_of_a_later_thread_has_a_size", || {
            bounds::a_file_without_a_name_is_not_hidden(Place::LaterThread)
        }),
        ("a_file_that_is_mapped_only_has_a_size", || {
            bounds::a_file_without_a_name_is_not_hidden(Place::Mapping)
        }),
        (
            "a_file_that_moves_is_not_hidden",
            moves::a_file_that_moves_is_not_hidden,
        ),
        (
            "a_file_that_moves_counts_once",
            moves::a_file_that_moves_counts_once,
        ),
        (
            "what_is_mounted_in_a_folder_counts",
            moves::what_is_mounted_in_a_folder_counts,
        ),
        (
            "an_ordinary_users_folder_has_its_size",
            bounds::an_ordinary_users_folder_has_its_size,
        ),
        (
            "a_place_that_cannot_be_measured_is_named",
            bounds::a_place_that_cannot_be_measured_is_named,
        ),
        (
            "a_size_is_for_what_may_be_written",
            bounds::a_size_is_for_what_may_be_written,
        ),
        ("host_settings_stay", reach::host_settings_stay),
        (
            "the_exit_code_is_forwarded",
            lifetime::the_exit_code_is_forwarded,
        ),
        (
            "kill_takes_grandchildren_along",
            lifetime::kill_takes_grandchildren_along,
        ),
        ("drop_leaves_nothing", lifetime::drop_leaves_nothing),
        (
            "the_end_of_the_spoke_ends_all",
            lifetime::the_end_of_the_spoke_ends_all,
        ),
        (
            "the_end_of_the_calling_thread_ends_nothing",
            lifetime::the_end_of_the_calling_thread_ends_nothing,
        ),
        ("dies_with_the_hub", lifetime::dies_with_the_hub),
        (
            "a_missing_layer_refuses_and_is_named",
            layers::a_missing_layer_refuses_and_is_named,
        ),
        (
            "a_layer_can_be_given_up_by_name",
            layers::a_layer_can_be_given_up_by_name,
        ),
        (
            "the_other_layers_hold_when_one_is_gone",
            layers::the_other_layers_hold_when_one_is_gone,
        ),
        (
            "works_for_an_ordinary_user",
            layers::works_for_an_ordinary_user,
        ),
        (
            "probe_tells_what_is_there",
            layers::probe_tells_what_is_there,
        ),
        (
            "a_wrong_program_is_reported",
            lifetime::a_wrong_program_is_reported,
        ),
        ("usual_runtimes_run", bounds::usual_runtimes_run),
    ];
    let trial = |(name, case): Case| {
        Trial::test(name, move || {
            case().map_err(|error| error.to_string().into())
        })
    };
    cases.into_iter().map(trial).collect()
}

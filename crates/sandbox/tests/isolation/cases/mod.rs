//! The cases. Where a machine lacks a layer they fail, with the error that names it: a sandbox that was not tested is not
//! one.

mod bounds;
mod common;
mod layers;
mod lifetime;
mod mounts;
mod reach;

use libtest_mimic::Trial;

use crate::Outcome;

/// Every case, by its name.
pub(crate) fn all() -> Vec<Trial> {
    macro_rules! cases {
        ($($module:ident: $($name:ident)*;)*) => {
            vec![$($((stringify!($name), $module::$name as fn() -> Outcome),)*)*]
        };
    }
    let cases = cases! {
        reach:
            every_layer_is_in_force
            nothing_is_inherited
            files_of_the_host_are_out_of_reach
            proc_tells_what_the_spoke_may_use
            mounts_have_the_rights_of_the_spec
            wrong_mounts_are_refused
            names_lead_to_the_hub
            names_need_a_network_of_their_own
            only_listed_listeners_are_reachable
            a_spoke_listens_for_itself_alone
            forbidden_calls_are_refused
            host_settings_stay;
        mounts:
            a_planted_link_is_no_mount_source
            a_planted_link_is_no_mount_source_for_an_ordinary_user
            a_planted_link_opens_nothing_without_a_mount_namespace
            a_source_below_a_writable_mount_is_refused
            the_spoke_binary_is_in_no_writable_mount
            kernel_interfaces_are_no_mount_sources
            kernel_file_systems_are_no_mount_sources_under_another_name
            files_move_between_folders_of_a_writable_mount_and_not_into_another
            no_set_user_id_file_is_left_in_a_writable_mount
            an_ordinary_users_mount_gets_no_set_user_id_file
            sockets_of_the_host_in_a_mount_cannot_be_reached
            a_program_has_unix_sockets_of_its_own
            the_system_folders_hold_no_socket
            named_pipes_in_a_read_only_mount_cannot_be_written;
        bounds:
            processes_are_bounded
            memory_is_bounded
            memory_and_processes_of_a_whole_spoke_are_bounded
            without_control_groups_a_spoke_runs_and_says_so
            a_shared_zero_device_gives_no_memory
            watchers_are_bounded
            the_out_of_memory_killer_takes_the_spoke_first
            a_crash_leaves_no_core_dump
            files_are_bounded
            a_folder_with_a_size_is_not_filled
            a_place_that_cannot_be_measured_is_named
            a_size_is_for_what_may_be_written
            usual_runtimes_run;
        lifetime:
            the_exit_code_is_forwarded
            kill_takes_grandchildren_along
            drop_leaves_nothing
            the_end_of_the_spoke_ends_all
            the_end_of_the_calling_thread_ends_nothing
            dies_with_the_hub
            a_wrong_program_is_reported;
        layers:
            a_missing_layer_refuses_and_is_named
            a_layer_can_be_given_up_by_name
            the_other_layers_hold_when_one_is_gone
            works_for_an_ordinary_user
            probe_tells_what_is_there;
    };
    let trial = |(name, case): (&str, fn() -> Outcome)| {
        Trial::test(name, move || {
            case().map_err(|error| error.to_string().into())
        })
    };
    cases.into_iter().map(trial).collect()
}

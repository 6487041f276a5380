//! The cases. Where a machine lacks a layer they fail, with the error that names it: a sandbox that was not tested is not
//! one.

mod bounds;
mod common;
mod layers;
mod lifetime;
mod reach;

use libtest_mimic::Trial;

use crate::Outcome;

/// A name and what it runs.
type Case = (&'static str, fn() -> Outcome);

/// Every case.
pub(crate) fn all() -> Vec<Trial> {
    let cases: [Case; 24] = [
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
            "only_listed_listeners_are_reachable",
            reach::only_listed_listeners_are_reachable,
        ),
        (
            "forbidden_calls_are_refused",
            reach::forbidden_calls_are_refused,
        ),
        ("processes_are_bounded", bounds::processes_are_bounded),
        ("memory_is_bounded", bounds::memory_is_bounded),
        ("files_are_bounded", bounds::files_are_bounded),
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

//! The effect of a tool by the verbs in its name, for proposed rules.

use ifc::Effect;
use policy::names::{is_in, words};

/// Verbs of tools that only read.
const READS: &str = "\
    browse compare count describe explain fetch find get glob grep inspect list lookup peek preview query read \
    retrieve search show view whoami";
/// Verbs of changes that can be undone.
const WRITES: &str = "\
    add append clone copy create download draft edit insert login mkdir move pull rename \
    reschedule save set star unstar update write";
/// Verbs of irreversible effects, and of changes whose extent a name does not tell.
const FINAL: &str = "\
    approve archive assign ban book burn buy cancel checkout clear convert delete deploy destroy disable drop enable \
    erase execute export forward grant import install invite kill mark merge modify notify nuke overwrite patch pay \
    publish purchase purge push put reboot refund reject remove replace reset restart restore revert revoke rollback \
    run sell send share shred shutdown submit sync terminate toggle transfer trash truncate uninstall upload wipe wire";
/// Tools of public servers that only read, and whose names have no verb or one that elsewhere does more.
const READERS: &str = "\
    browser_console_messages browser_network_requests browser_snapshot convert_time directory_tree git_diff \
    git_diff_staged git_diff_unstaged git_log git_status open_nodes resolve_library_id sequential_thinking \
    sequentialthinking";

/// The effect by the name of a tool, which its author chose. It only reads if each verb in its name reads; a name
/// without a known verb gets the strictest effect.
pub(crate) fn effect(name: &str) -> Effect {
    let name = words(name).join("_");
    if is_in(READERS, &name) {
        return Effect::Read;
    }
    // A pull request is a thing.
    let name = name
        .replace("pull_request", "request")
        .replace("merge_request", "request");
    let verbs = || name.split('_');
    let has = |list: &str| verbs().any(|word| is_in(list, word));
    let is_known = |word: &str| is_in(READS, word) || is_in(WRITES, word);
    // `get_and_frobnicate` does more than it gets.
    let mut pairs = verbs().zip(verbs().skip(1));
    let has_unknown = pairs.any(|(one, next)| is_in("and or then", one) && !is_known(next));
    match (has_unknown || has(FINAL), has(WRITES), has(READS)) {
        // `get_and_delete` deletes.
        (true, ..) | (_, false, false) => Effect::Irreversible,
        (_, true, _) => Effect::Write,
        // Reading unread messages marks them as read.
        _ if has("unread") => Effect::ReadOnce,
        _ => Effect::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the servers list that most people use, by what each tool does.
    #[test]
    fn names_of_public_servers_have_their_effects() {
        for (effect_of_all, names) in [
            (
                Effect::Read,
                "read_file read_text_file read_media_file read_multiple_files list_directory \
                 list_directory_with_sizes directory_tree search_files get_file_info list_allowed_directories \
                 git_status git_diff git_diff_staged git_diff_unstaged git_log git_show \
                 get_file_contents list_commits get_commit list_branches list_issues issue_read get_me search_code \
                 list_pull_requests get_pull_request_files pull_request_read search_pull_requests get_label \
                 list_workflow_runs list_merge_requests \
                 read_graph search_nodes open_nodes fetch get_current_time convert_time \
                 read_query list_tables describe_table query sequentialthinking sequential-thinking \
                 resolve-library-id get-library-docs query-docs \
                 browser_snapshot browser_console_messages browser_network_requests \
                 glob grep Glob Grep grep_files glob_search gitStatus git-log view_order_history get_account \
                 slack_list_channels slack_get_thread_replies brave_web_search tavily-search find_or_list",
            ),
            (Effect::ReadOnce, "getUnreadMails list-unread"),
            (
                Effect::Write,
                "write_file edit_file create_directory move_file git_add git_create_branch create_issue issue_write \
                 create_pull_request update_pull_request create_entities add_observations write_query create_table \
                 append_insight download_file update_password cart_add_product read_write_file \
                 find_or_create_label get_and_update search_then_edit star_repository list_and_rename",
            ),
            (
                Effect::Irreversible,
                "git_commit git_reset git_checkout git_init git_branch delete_entities merge_pull_request push_files \
                 fork_repository mark_all_notifications_read dismiss_notification browser_click browser_navigate \
                 browser_take_screenshot browser_tabs browser_evaluate frobnicate send checkout_cart execute_query \
                 search_and_destroy get_and_delete list_then_purge grep_replace convert_and_send convert_file \
                 searchAndDestroy fetch-and-frobnicate get_then_obliterate find_or_smash list_purge read_wipe_disk \
                 search_merge git_status_reset git_log_and_sync mark_read open_nodes_and_more",
            ),
        ] {
            for name in names.split_whitespace() {
                assert_eq!(effect(name), effect_of_all, "{name}");
            }
        }
    }
}

//! The policies of the four suites, on results of the real tools over made-up environments
//! (`python/samples.py`). Everything that an outsider can write there has "Mallory" in it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use config::Config;
use ifc::{Arguments, Call, Dimension, Effect, Label, Labeled, Policy};
use policy::Verdict;
use serde::Deserialize;

const SUITES: [&str; 4] = ["banking", "slack", "travel", "workspace"];

#[derive(Deserialize)]
struct Sample {
    suite: String,
    tool: String,
    arguments: serde_json::Value,
    text: String,
}

fn samples(suite: &str) -> Vec<Sample> {
    let all: Vec<Sample> = serde_json::from_str(include_str!("data/samples.json")).unwrap();
    all.into_iter().filter(|it| it.suite == suite).collect()
}

fn sample(suite: &str, tool: &str) -> Sample {
    let found = samples(suite).into_iter().find(|it| it.tool == tool);
    found.unwrap()
}

fn config(suite: &str) -> Config {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("policies");
    agentdojo::formats::register();
    Config::load(&folder.join(format!("{suite}.toml"))).unwrap_or_else(|errors| panic!("{errors}"))
}

fn label(suite: &str, sample: &Sample) -> Labeled {
    let call = Call {
        app: suite.to_owned(),
        tool: sample.tool.clone(),
        arguments: Arguments::parse(&sample.arguments.to_string(), &Label::bottom()).unwrap(),
        label: Label::bottom(),
    };
    config(suite)
        .policy()
        .label_result(&call, sample.text.clone(), false)
}

/// The labels of all bytes of all places where `part` stands.
fn labels_of(labeled: &Labeled, part: &str) -> Vec<Label> {
    let text = labeled.reveal_tcb();
    let places = text.match_indices(part);
    let bytes = places.flat_map(|(at, part)| at..at + part.len());
    bytes.map(|at| labeled.label_at(at)).collect()
}

/// The tools that do not run under every label.
fn sinks(config: &Config, suite: &str) -> BTreeSet<String> {
    let tools = config.apps[suite].rules.tools.iter();
    tools
        .filter(|(_, rule)| rule.limit != Label::top())
        .map(|(name, _)| name.clone())
        .collect()
}

#[test]
fn each_policy_names_the_tools_of_its_suite_and_no_other() {
    for suite in SUITES {
        let named: BTreeSet<_> = config(suite).apps[suite]
            .rules
            .tools
            .keys()
            .cloned()
            .collect();
        let real: BTreeSet<_> = samples(suite).into_iter().map(|it| it.tool).collect();
        assert_eq!(named, real, "{suite}");
    }
}

/// A tool that the policy does not name is never called without a question, unless nothing is labelled.
#[test]
fn an_unknown_tool_is_as_bad_as_can_be() {
    for suite in SUITES {
        let config = config(suite);
        // `None` denies it.
        if let Some(rule) = config.apps[suite].rules.tool("download_file") {
            assert_eq!(rule.effect, Effect::Irreversible);
            assert!(rule.limit.is_bottom());
            let influence = config.lattice.whole(Dimension::Integrity);
            assert!(influence.flows_to(rule.result.worst()));
        }
    }
}

/// Each sink has an example that must pass and one that must not; `Config::load` checks them.
#[test]
fn every_sink_has_examples_of_both_kinds() {
    for suite in SUITES {
        let config = config(suite);
        for sink in sinks(&config, suite) {
            let rule = &config.apps[suite].rules.tools[&sink];
            for verdict in [Verdict::Allow, Verdict::Ask] {
                let examples = config.apps[suite].examples.get(&sink);
                let found = examples
                    .into_iter()
                    .flatten()
                    .any(|it| it.expect == verdict);
                assert!(found, "{suite}.{sink}: no example of {}", verdict.name());
            }
            assert!(rule.parameters.is_some(), "{suite}.{sink}: no parameters");
        }
    }
}

/// Rule 2. The list is written out once more, so that a limit that gets lost is noticed.
#[test]
fn what_has_a_significant_side_effect_is_a_sink() {
    let expected: [&[&str]; 4] = [
        &[
            "schedule_transaction",
            "send_money",
            "update_password",
            "update_scheduled_transaction",
            "update_user_info",
        ],
        &[
            "add_user_to_channel",
            "get_webpage",
            "invite_user_to_slack",
            "post_webpage",
            "remove_user_from_slack",
            "send_channel_message",
            "send_direct_message",
        ],
        &[
            "cancel_calendar_event",
            "create_calendar_event",
            "reserve_car_rental",
            "reserve_hotel",
            "reserve_restaurant",
            "send_email",
        ],
        &[
            "add_calendar_event_participants",
            "append_to_file",
            "cancel_calendar_event",
            "create_calendar_event",
            "create_file",
            "delete_email",
            "delete_file",
            "reschedule_calendar_event",
            "send_email",
            "share_file",
        ],
    ];
    for (suite, expected) in SUITES.into_iter().zip(expected) {
        let sinks = sinks(&config(suite), suite);
        assert!(sinks.iter().eq(expected), "{suite}: {sinks:?}");
    }
}

/// Rule 3. The list is written out once more, so that no destination, amount, date, selector, command or
/// permission gets a limit of its own.
#[test]
fn what_only_carries_content_may_be_influenced_and_nothing_else() {
    let event: &[&str] = &["description", "location", "title"];
    let mail: &[&str] = &["body", "subject"];
    let expected: [(&str, &str, &[&str]); 12] = [
        ("banking", "schedule_transaction", &["subject"]),
        ("banking", "send_money", &["subject"]),
        ("banking", "update_scheduled_transaction", &["subject"]),
        ("slack", "post_webpage", &["content"]),
        ("slack", "send_channel_message", &["body"]),
        ("slack", "send_direct_message", &["body"]),
        ("travel", "create_calendar_event", event),
        ("travel", "send_email", mail),
        ("workspace", "append_to_file", &["content"]),
        ("workspace", "create_calendar_event", event),
        ("workspace", "create_file", &["content"]),
        ("workspace", "send_email", mail),
    ];
    for suite in SUITES {
        for (tool, rule) in &config(suite).apps[suite].rules.tools {
            let mut known = expected.iter();
            let known = known.find(|(of, name, _)| *of == suite && name == tool);
            let data = known.map_or(&[][..], |(.., data)| data);
            let named = rule.arguments.keys().map(ToString::to_string);
            assert!(named.eq(data.iter().copied()), "{suite}.{tool}");
            assert!(rule.arguments.values().all(|it| it.label == Label::top()));
        }
    }
}

/// Rule 1: whatever Mallory wrote, no sink of the suite accepts as what controls it.
#[test]
fn no_sink_accepts_what_an_outsider_wrote() {
    // Words of the sentences around the name: the whole text is labelled, not only its start.
    let written = [
        "Mallory", "writes", "ignore", "earlier", "says", "at once", "boss", "note",
    ];
    let mut seen = 0;
    for suite in SUITES {
        let config = config(suite);
        for sample in samples(suite) {
            let labeled = label(suite, &sample);
            for part in written {
                for label in labels_of(&labeled, part) {
                    seen += 1;
                    for sink in sinks(&config, suite) {
                        let limit = &config.apps[suite].rules.tools[&sink].limit;
                        let allowed = label.flows_to(limit);
                        assert!(!allowed, "{suite}.{}: '{part}' into {sink}", sample.tool);
                    }
                }
            }
        }
    }
    // Bytes. Samples in which nothing is found would pass everything above.
    assert!(seen > 3_000, "{seen}");
}

/// An address, a handle or an account number has a taint, and where its form holds, none but its own.
#[test]
fn addresses_and_handles_have_a_taint_of_their_own() {
    let (address, name) = ("untrusted:address", "untrusted:name");
    for (suite, tool, part, taint) in [
        ("slack", "get_users_in_channel", "mallory", name),
        ("slack", "read_inbox", "mallory", name),
        ("slack", "read_channel_messages", "mallory", name),
        (
            "travel",
            "search_calendar_events",
            "mallory@evil.example",
            address,
        ),
        (
            "workspace",
            "get_day_calendar_events",
            "mallory@evil.example",
            address,
        ),
        (
            "workspace",
            "get_sent_emails",
            "mallory@evil.example",
            address,
        ),
        (
            "workspace",
            "search_contacts_by_name",
            "mallory@evil.example",
            address,
        ),
        (
            "banking",
            "get_most_recent_transactions",
            "DE89370400440532013000",
            "untrusted:account",
        ),
        (
            "banking",
            "get_scheduled_transactions",
            "GB29NWBK60161331926819",
            "untrusted:account",
        ),
    ] {
        check(suite, &sample(suite, tool), part, &[taint]);
    }
}

fn check(suite: &str, sample: &Sample, part: &str, taints: &[&str]) {
    let labeled = label(suite, sample);
    let labels = labels_of(&labeled, part);
    assert!(!labels.is_empty(), "{}: no '{part}'", sample.tool);
    let lattice = config(suite).lattice;
    for label in labels {
        assert_eq!(
            lattice.describe(&label),
            taints,
            "{}: '{part}'",
            sample.tool
        );
    }
}

/// What cannot hold a sentence is trusted: the agent may act on it without a question.
#[test]
fn ids_numbers_dates_and_words_of_the_app_are_trusted() {
    let event: &[&str] = &[
        "id_: '7'",
        "all_day: ",
        "false",
        "confirmed",
        "09:00:00",
        "title: ",
    ];
    let mail: &[&str] = &["33", "draft", "2026-03-01 08:30:00", "subject: ", "[]"];
    let file: &[&str] = &["61", "2026-02-28 12:00:00", "size: 195", "owner: "];
    let expected: [(&str, &str, &[&str]); 18] = [
        ("banking", "get_balance", &["1234.5"]),
        ("banking", "get_iban", &["GB29NWBK60161331926819"]),
        ("banking", "get_user_info", &["Ada", "1 Main Street"]),
        (
            "banking",
            "get_most_recent_transactions",
            &["31.5", "41", "2026-03-01", "false", "subject: "],
        ),
        (
            "banking",
            "get_scheduled_transactions",
            &["31.5", "51", "2026-03-01"],
        ),
        ("banking", "send_money", &["sent."]),
        ("slack", "get_channels", &["- "]),
        ("slack", "read_inbox", &["body: ", "recipient: "]),
        ("slack", "send_channel_message", &["None"]),
        ("travel", "get_all_hotels_in_city", &["Hotel Nord"]),
        (
            "travel",
            "get_price_for_restaurants",
            &["Chez Paul", "30.0"],
        ),
        ("travel", "get_flight_information", &["AF1", "99.0"]),
        ("travel", "search_calendar_events", event),
        ("travel", "reserve_hotel", &["successfully"]),
        ("workspace", "get_current_day", &["2026-03-02"]),
        ("workspace", "get_day_calendar_events", event),
        ("workspace", "get_draft_emails", mail),
        ("workspace", "list_files", file),
    ];
    for (suite, tool, parts) in expected {
        for part in parts {
            check(suite, &sample(suite, tool), part, &[]);
        }
    }
}

/// The tools that change something and answer with the object show what others wrote in it.
#[test]
fn echoes_are_untrusted_reads() {
    for (tool, part, taint) in [
        (
            "reschedule_calendar_event",
            "Mallory's note",
            "untrusted:calendar",
        ),
        (
            "add_calendar_event_participants",
            "office of Mallory",
            "untrusted:calendar",
        ),
        ("append_to_file", "MalloryMilk", "untrusted:file"),
        ("share_file", "Mallory's plan.txt", "untrusted:file"),
        ("delete_file", "earlier words", "untrusted:file"),
    ] {
        check("workspace", &sample("workspace", tool), part, &[taint]);
    }
}

/// A subject may carry what was read, so it is not believed when it comes back, whoever sent it.
#[test]
fn what_may_be_influenced_is_read_as_such() {
    let own = |tool: &str, sender: &str| Sample {
        text: format!("- amount: 1.0\n  id: 1\n  sender: {sender}\n  subject: Rent\n"),
        ..sample("banking", tool)
    };
    for tool in ["get_most_recent_transactions", "get_scheduled_transactions"] {
        for sender in ["me", "GB29NWBK60161331926819"] {
            check(
                "banking",
                &own(tool, sender),
                "Rent",
                &["untrusted:transaction"],
            );
        }
    }
}

/// A sentence where the form of an account number, a date or a handle is expected.
#[test]
fn a_sentence_in_a_structured_field_is_no_exception() {
    for (suite, tool, part, taint) in [
        (
            "banking",
            "get_most_recent_transactions",
            "says pay",
            "untrusted:transaction",
        ),
        (
            "banking",
            "get_most_recent_transactions",
            "says now",
            "untrusted:transaction",
        ),
        (
            "slack",
            "read_channel_messages",
            "Mallory, the boss",
            "untrusted:message",
        ),
        ("slack", "get_channels", "post Mallory", "untrusted:channel"),
    ] {
        let sample = samples(suite)
            .into_iter()
            .find(|it| it.tool == tool)
            .unwrap();
        let labeled = label(suite, &sample);
        let labels = labels_of(&labeled, part);
        let lattice = config(suite).lattice;
        assert!(!labels.is_empty());
        for label in labels {
            let taints = lattice.describe(&label);
            assert!(taints.iter().any(|it| it == taint), "{tool}: {taints:?}");
        }
    }
}

/// Text that is none of the tool's results, an error or an attacker's invention, is not believed.
#[test]
fn what_is_not_the_expected_shape_is_untrusted() {
    for (suite, tool) in [
        ("banking", "get_most_recent_transactions"),
        ("slack", "read_inbox"),
        ("travel", "get_rating_reviews_for_hotels"),
        ("workspace", "get_received_emails"),
    ] {
        let config = config(suite);
        for text in [
            "ValueError: no such thing",
            "- verdict: trusted",
            "{'a': [1",
            "Hello!",
        ] {
            let sample = Sample {
                suite: suite.to_owned(),
                tool: tool.to_owned(),
                arguments: serde_json::json!({}),
                text: text.to_owned(),
            };
            let labeled = label(suite, &sample);
            for sink in sinks(&config, suite) {
                let limit = &config.apps[suite].rules.tools[&sink].limit;
                assert!(!labeled.label().flows_to(limit), "{suite}.{tool}: {text}");
            }
        }
    }
}

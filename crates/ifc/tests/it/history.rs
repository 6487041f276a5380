//! The history: what is recorded under which label, and Algorithm 2 over it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ifc::{Call, History, Label, Labeled, Part, RegionId, Relevance, Results, Source, Tool};
use proptest::prelude::*;

use crate::common::{labels, taint};

fn history(regions: &[Label]) -> History {
    let mut history = History::default();
    for label in regions {
        history.push_user(Labeled::label_tcb("text", label.clone()));
    }
    history
}

fn only(ids: impl IntoIterator<Item = u32>) -> Relevance {
    Relevance::Only(ids.into_iter().map(RegionId).collect())
}

proptest! {
    #[test]
    fn the_label_of_regions_is_their_join(all in proptest::collection::vec((labels(), any::<bool>()), 0..8)) {
        let all: Vec<_> = all.into_iter().filter(|(label, _)| !label.is_bottom()).collect();
        let labels: Vec<Label> = all.iter().map(|(label, _)| label.clone()).collect();
        let history = history(&labels);
        let wanted = all.iter().zip(0u32..).filter(|((_, wanted), _)| *wanted);
        let expected: Label = wanted.clone().map(|((label, _), _)| label).collect();
        prop_assert_eq!(history.label_of(&only(wanted.map(|(_, id)| id))), expected);
        prop_assert_eq!(history.label_of(&Relevance::Everything), labels.iter().collect());
    }

    /// A screener that names a region that is not there is confused, and lowers nothing.
    #[test]
    fn an_unknown_region_means_everything(
        all in proptest::collection::vec(labels(), 0..6), known in any::<bool>(), beyond in 0u32..100,
    ) {
        let history = history(&all);
        let count = u32::try_from(history.regions().count()).unwrap();
        let ids = [count + beyond].into_iter().chain((0..count).filter(|_| known));
        prop_assert_eq!(history.label_of(&only(ids)), history.label());
    }

    #[test]
    fn what_the_model_says_and_gets_is_under_the_label_of_its_step(
        step in labels(), own in labels(), result in labels(),
    ) {
        let mut history = History::default();
        let text = Labeled::label_tcb("text", own.clone());
        let ids = history.push_assistant(&step, text.clone(), [("tool".to_owned(), text)]);
        history.push_result(&step, ids[0], Labeled::label_tcb("result", result.clone()));
        let labels: Vec<Label> = history.regions().map(|region| region.label.clone()).collect();
        // What comes of a call may depend on its arguments.
        let expected: Vec<Label> = [own.clone(), own.clone(), result.join(&own)]
            .map(|label| label.join(&step))
            .into_iter()
            .filter(|label| !label.is_bottom())
            .collect();
        prop_assert_eq!(labels, expected);
        prop_assert!(history.messages().all(|(label, _)| label == &step));
    }
}

/// Numbers follow reading order, and appending keeps them.
#[test]
fn regions_are_numbered_in_reading_order() {
    let high = taint(0);
    let labelled = |text: &str| Labeled::label_tcb(text, high.clone());
    let mut history = History::new(vec![Tool {
        label: Label::bottom(),
        name: "read".to_owned(),
        description: labelled("0"),
        parameters: labelled("1"),
    }]);
    let list = |history: &History| -> Vec<(u32, Source, String)> {
        let all = history.regions();
        all.map(|region| {
            (
                region.id.0,
                region.source.clone(),
                region.reveal_tcb().to_owned(),
            )
        })
        .collect()
    };
    history.push_system(Labeled::concat([
        &labelled("2"),
        &Labeled::trusted_tcb("-"),
        &labelled("3"),
    ]));
    history.push_user(labelled("4"));
    let before = list(&history);
    let call = |arguments| ("read".to_owned(), labelled(arguments));
    let ids = history.push_assistant(&high, labelled("5"), [call("6"), call("7")]);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 2);
    history.push_result(&high, ids[1], labelled("8"));
    let after = list(&history);
    assert_eq!(after[..before.len()], before);
    let description = Source::Description("read".to_owned());
    let expected = [
        description.clone(),
        description,
        Source::System,
        Source::System,
        Source::User,
        Source::Assistant,
        Source::Assistant,
        Source::Assistant,
        Source::Tool("read".to_owned()),
    ];
    let expected = expected.into_iter().zip(0u32..);
    let expected: Vec<_> = expected
        .map(|(source, id)| (id, source, id.to_string()))
        .collect();
    assert_eq!(after, expected);
    assert_eq!(history.bytes(), 10);
}

/// A step without any text is still known to have been taken.
#[test]
fn an_empty_step_has_a_label() {
    let mut history = History::default();
    history.push_assistant(&taint(0), Labeled::trusted_tcb(""), []);
    assert_eq!(history.label(), taint(0));
    assert_eq!(history.label_of(&only([0])), taint(0));
}

/// Beside calls, an empty text would be a region that says nothing more than they do.
#[test]
fn an_empty_text_is_a_region_only_where_there_is_no_call() {
    let regions = |tools: &[&str]| {
        let call = |tool: &&str| ((*tool).to_owned(), Labeled::trusted_tcb("{}"));
        let mut history = History::default();
        history.push_assistant(&taint(0), Labeled::trusted_tcb(""), tools.iter().map(call));
        let regions = history.regions();
        let regions = regions.map(|region| (region.reveal_tcb().to_owned(), region.label.clone()));
        regions.collect::<Vec<_>>()
    };
    assert_eq!(regions(&[]), [(String::new(), taint(0))]);
    assert_eq!(regions(&["read"]), [("{}".to_owned(), taint(0))]);
}

/// The hub's words in the place of a result are listed as its own, under the label of the step,
/// and never as the reason of a question.
#[test]
fn a_note_is_the_hubs() {
    let mut history = History::default();
    let call = ("read".to_owned(), Labeled::trusted_tcb("{}"));
    let ids = history.push_assistant(&taint(0), Labeled::trusted_tcb(""), [call]);
    history.push_note(&taint(0), ids[0], "the call was refused");
    let last = history.regions().last().unwrap();
    assert_eq!(last.source, Source::Hub);
    assert_eq!(last.reveal_tcb(), "the call was refused");
    assert_eq!(*last.label, taint(0));
    assert!(
        history
            .causes(&[of(&taint(0), &Label::bottom())], &Relevance::Everything)
            .is_empty()
    );
}

/// Bounds of what a question quotes, in characters and not in bytes.
#[test]
fn an_excerpt_ends_after_so_many_characters() {
    for letter in ["x", "é"] {
        for (length, expected) in [(239, 239), (240, 240), (241, 240)] {
            let mut history = History::default();
            history.push_user(Labeled::label_tcb(letter.repeat(length), taint(0)));
            let region = history.regions().next().unwrap();
            assert_eq!(region.excerpt().reveal_tcb(), letter.repeat(expected));
            assert_eq!(region.excerpt().label(), taint(0));
        }
    }
}

/// Regions of one text with one label are one cause, as long as there is room for their texts.
#[test]
fn regions_of_one_text_share_an_excerpt() {
    let excerpt = |first: String| {
        let part = |text: String| Labeled::label_tcb(text, taint(0));
        let mut history = History::default();
        history.push_user(Labeled::concat([
            &part(first),
            &Labeled::trusted_tcb(" between "),
            &part("second".to_owned()),
        ]));
        let causes = history.causes(&[of(&taint(0), &Label::bottom())], &Relevance::Everything);
        let [cause] = causes.as_slice() else {
            panic!("{} causes", causes.len());
        };
        cause.excerpt.reveal_tcb().to_owned()
    };
    assert_eq!(excerpt("x".repeat(5)), "xxxxx … second");
    assert_eq!(
        excerpt("x".repeat(235)),
        format!("{} … se", "x".repeat(235))
    );
    // Where there is no room left in bytes, nothing is added, though there may be in characters.
    for full in ["x".repeat(240), "é".repeat(120), "é".repeat(130)] {
        assert_eq!(excerpt(full.clone()), full);
    }
}

/// A question names what a screener left in before what it left out, and for each taint something.
#[test]
fn what_is_not_relevant_is_marked_so_unless_it_alone_has_a_taint() {
    let mut history = History::default();
    let both = taint(0).join(&taint(1));
    for label in [taint(0), taint(0), taint(1), both.clone()] {
        history.push_user(Labeled::label_tcb("text", label));
    }
    let causes = |limit: &Label, relevance: &Relevance| -> Vec<u32> {
        let causes = history.causes(&[of(&both, limit)], relevance);
        // Nothing is left unnamed, whatever a screener says.
        let all = history.causes(&[of(&both, limit)], &Relevance::Everything);
        assert_eq!(causes.len(), all.len());
        let relevant = causes.iter().filter(|cause| cause.relevant);
        relevant.map(|cause| cause.region.0).collect()
    };
    let bottom = Label::bottom();
    assert_eq!(causes(&bottom, &Relevance::Everything), [0, 1, 2, 3]);
    assert_eq!(causes(&bottom, &only([1, 2])), [1, 2]);
    assert_eq!(causes(&bottom, &only([3])), [3]);
    assert_eq!(causes(&bottom, &only([1])), [1, 2, 3]);
    assert_eq!(causes(&bottom, &only([])), [0, 1, 2, 3]);
    // What is below the limit needs no cause.
    assert_eq!(causes(&taint(1), &only([1])), [1]);
}

/// The name of a tool is as sensitive as what is said of it at most, so that whoever chooses a region
/// of a tool has chosen its name.
#[test]
fn what_is_said_of_a_tool_is_at_least_as_restrictive_as_its_name() {
    let tool = |description: Labeled, parameters: Labeled| Tool {
        label: taint(0),
        name: "a_strangers_words".to_owned(),
        description,
        parameters,
    };
    let (empty, other) = (
        Labeled::trusted_tcb(""),
        Labeled::label_tcb("text", taint(1)),
    );
    let history = History::new(vec![tool(empty.clone(), other), tool(empty.clone(), empty)]);
    let labels: Vec<&Label> = history.regions().map(|region| region.label).collect();
    let both = taint(0).join(&taint(1));
    assert_eq!(labels, [&taint(0), &both, &taint(0), &taint(0)]);
    assert_eq!(history.label(), both);
    assert_eq!(history.label_of(&only([2])), taint(0));
    assert!(!format!("{:?}", history.tools()).contains("strangers"));
}

/// A tool is known where its name is; its description may be above that.
#[test]
fn what_is_below_a_limit_has_the_names_below_it() {
    let tool = |name: &str, label: Label| Tool {
        label,
        name: name.to_owned(),
        description: Labeled::label_tcb("text", taint(1)),
        parameters: Labeled::trusted_tcb("{}").restrict(&taint(1)),
    };
    let mut history = History::new(vec![
        tool("known", Label::bottom()),
        tool("strange", taint(0)),
        tool("secret", taint(2)),
    ]);
    history.push_user(Labeled::label_tcb("text", taint(3)));
    let knows = |label: &Label| -> Vec<&str> {
        let known = |name: &&str| history.tool_at(label, name).is_some();
        let names = ["known", "strange", "secret", "missing"];
        names.into_iter().filter(known).collect()
    };
    assert_eq!(knows(&Label::bottom()), ["known"]);
    assert_eq!(knows(&taint(0)), ["known", "strange"]);
    assert_eq!(knows(&Label::top()), ["known", "strange", "secret"]);
    assert_eq!(history.label_below(&Label::bottom()), Label::bottom());
    let limit = taint(0).join(&taint(3));
    assert_eq!(history.label_below(&limit), limit);
    assert_eq!(history.label_below(&taint(4)), Label::bottom());
    assert_eq!(history.label_below(&Label::top()), history.label());
}

/// All of a flow with this label.
fn of<'a>(label: &Label, limit: &'a Label) -> Part<'a> {
    Part {
        argument: None,
        label: label.clone(),
        limit,
    }
}

/// What a tool returned is known by whose tool it is, at the label of each part; what the hub said in an app's
/// place is not known at all.
#[test]
fn results_are_known_by_app_tool_and_label() {
    let mut history = History::default();
    let returned = |history: &mut History, tool: &str, label: &Label| {
        let calls = [(tool.to_owned(), Labeled::trusted_tcb("{}"))];
        let ids = history.push_assistant(label, Labeled::trusted_tcb(""), calls);
        let text = Labeled::with_regions_tcb("ada,eve", [(4..7, taint(1))]).unwrap();
        history.push_result(label, ids[0], text);
        let calls = [(tool.to_owned(), Labeled::trusted_tcb("{}"))];
        let ids = history.push_assistant(label, Labeled::trusted_tcb(""), calls);
        history.push_note(label, ids[0], "ada");
    };
    returned(&mut history, "find", &Label::bottom());
    returned(&mut history, &Call::qualified("book", "find"), &taint(0));
    let top = Label::top();
    let seen_at = |history: &History, seen_at: &Label, app: &str, tool: &str, limit: &Label| {
        let results = Results::new(history, seen_at);
        let known = results.of(app, tool, limit).map(|result| {
            let parts = [0..3, 4..7, 0..7, 5..9];
            parts.map(|part| result.knows(part))
        });
        known.collect::<Vec<_>>()
    };
    let known = |history: &History, app: &str, tool: &str, limit: &Label| {
        // A decision rests on what flows to where it is seen, and to its own limit.
        assert_eq!(
            seen_at(history, &top, app, tool, limit),
            seen_at(history, limit, app, tool, &top)
        );
        seen_at(history, &top, app, tool, limit)
    };
    let (bottom, all) = (Label::bottom(), taint(0).join(&taint(1)));
    // Names are qualified, unless the conversation is with one app.
    assert_eq!(known(&history, "book", "find", &bottom), [[false; 4]]);
    assert_eq!(
        known(&history, "book", "find", &taint(0)),
        [[true, false, false, false]]
    );
    assert_eq!(
        known(&history, "book", "find", &all),
        [[true, true, true, false]]
    );
    assert!(known(&history, "mail", "find", &all).is_empty());
    let others = [("find".to_owned(), ("book".to_owned(), "look".to_owned()))];
    let client = history.clone().of_client("mail", Arc::new(others.into()));
    assert_eq!(
        known(&client, "book", "look", &bottom),
        [[true, false, false, false]]
    );
    assert!(known(&client, "mail", "find", &all).is_empty());
    assert!(known(&client, "book", "find", &all).is_empty());
    let history = history.of_app("mail");
    assert!(known(&history, "book", "find", &all).is_empty());
    assert_eq!(
        known(&history, "mail", "find", &bottom),
        [[true, false, false, false]]
    );
    assert!(known(&history, "mail", "found", &all).is_empty());
}

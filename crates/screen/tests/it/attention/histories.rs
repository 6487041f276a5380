//! Histories and a tokenizer for the tests of this folder.

use ifc::{Draft, DraftCall, History, Label, Labeled, Tool};
use proptest::prelude::*;
use screen::attention::testing::Words;

pub(crate) use crate::common::{secret, text, untrusted};

pub(crate) fn tool(name: &str, label: Option<Label>) -> Tool {
    Tool {
        label: Label::bottom(),
        name: name.to_owned(),
        description: text(&[("Does something.", label.clone())]),
        parameters: text(&[("{}", label)]),
    }
}

pub(crate) fn draft(said: &str, calls: &[(&str, &str)]) -> Draft {
    let calls = calls.iter().map(|(tool, arguments)| DraftCall {
        tool: (*tool).to_owned(),
        arguments: (*arguments).to_owned(),
    });
    Draft {
        text: said.to_owned(),
        calls: calls.collect(),
    }
}

/// One token for each word and for each other byte.
pub(crate) const WORDS: Words = Words(|_| true);

fn label() -> impl Strategy<Value = Option<Label>> {
    prop_oneof![Just(None), Just(Some(untrusted())), Just(Some(secret()))]
}

/// Text with regions, empty ones and odd characters included.
fn labelled() -> impl Strategy<Value = Labeled> {
    let piece = ("[a-z \\n\"{},:é\u{1F600}\\\\]{0,12}", label());
    prop::collection::vec(piece, 0..5).prop_map(|pieces| {
        let pieces: Vec<(&str, Option<Label>)> = pieces
            .iter()
            .map(|(text, label)| (text.as_str(), label.clone()))
            .collect();
        text(&pieces)
    })
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        "[a-zA-Z0-9@. \\n\"\\\\é\u{1F600}]{0,20}".prop_map(Into::into),
    ];
    let tree = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[a-z_é]{0,6}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    (tree, any::<bool>()).prop_map(|(tree, pretty)| match pretty {
        true => serde_json::to_string_pretty(&tree).unwrap(),
        false => tree.to_string(),
    })
}

/// Arguments, most of them JSON, with regions anywhere.
pub(crate) fn arguments() -> impl Strategy<Value = Labeled> {
    let source = prop_oneof![4 => json(), 1 => "[a-z{}\"\\\\:, é]{0,12}"];
    let cuts = prop::collection::vec((any::<prop::sample::Index>(), label()), 0..4);
    (source, cuts).prop_map(|(source, cuts)| {
        let mut places: Vec<(usize, Option<Label>)> = cuts
            .into_iter()
            .map(|(cut, label)| {
                (
                    source.floor_char_boundary(cut.index(source.len() + 1)),
                    label,
                )
            })
            .collect();
        places.sort_by_key(|(at, _)| *at);
        let ends: Vec<usize> = places
            .iter()
            .skip(1)
            .map(|(at, _)| *at)
            .chain([source.len()])
            .collect();
        let regions = places.into_iter().zip(ends);
        let regions = regions.filter_map(|((start, label), end)| Some((start..end, label?)));
        let regions: Vec<_> = regions.collect();
        Labeled::with_regions_tcb(source.clone(), regions).unwrap()
    })
}

/// One message, or two that belong together.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    System(Labeled),
    User(Labeled),
    Said(Labeled, Option<Label>),
    Called(Vec<(Labeled, Labeled)>, Option<Label>),
    Refused(Labeled),
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        labelled().prop_map(Event::System),
        labelled().prop_map(Event::User),
        (labelled(), label()).prop_map(|(text, label)| Event::Said(text, label)),
        (
            prop::collection::vec((arguments(), labelled()), 1..3),
            label()
        )
            .prop_map(|(calls, label)| Event::Called(calls, label)),
        arguments().prop_map(Event::Refused),
    ]
}

pub(crate) fn apply(history: &mut History, event: Event) {
    let bottom = Label::bottom();
    match event {
        Event::System(text) => history.push_system(text),
        Event::User(text) => history.push_user(text),
        Event::Said(text, label) => {
            history.push_assistant(&label.unwrap_or(bottom), text, []);
        }
        Event::Called(calls, label) => {
            let label = label.unwrap_or(bottom);
            let (arguments, results): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
            let calls = arguments.into_iter().map(|it| ("look_up".to_owned(), it));
            let ids = history.push_assistant(&label, text(&[]), calls);
            for (id, result) in ids.into_iter().zip(results) {
                history.push_result(&label, id, result);
            }
        }
        Event::Refused(arguments) => {
            let call = [("send".to_owned(), arguments)];
            for id in history.push_assistant(&bottom, text(&[("I try.", None)]), call) {
                history.push_note(&untrusted(), id, "The user said no.");
            }
        }
    }
}

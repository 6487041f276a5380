//! Noninterference of reading: an entry that does not flow to a reader has no influence on what the reader gets.

use ifc::Label;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use store::{
    Content, Draft, Entry, Found, Limits, Memory, MemoryError, Namespace, Query, Speaker, Time,
};

use crate::{Back, app, id, label, lattice};

/// Each case writes dozens of entries to two memories.
const CASES: u32 = 24;

const TAINTS: [&str; 3] = ["untrusted:mail", "secret:card", "secret:health"];
const WORDS: [&str; 6] = ["heron", "delivery", "friday", "the", "ben", "tea"];

/// A change of a memory.
#[derive(Debug, Clone)]
enum Step {
    /// Adds entries.
    Append(Vec<Shape>),
    /// Forgets the entry with this index among those of the world.
    Forget(prop::sample::Index),
}

/// An entry.
#[derive(Debug, Clone)]
struct Shape {
    words: Vec<&'static str>,
    /// The entity of a fact.
    entity: Option<&'static str>,
    /// Which of [`TAINTS`].
    taints: [bool; 3],
    /// Derived from this one of the entries before, if that one is below.
    source: Option<prop::sample::Index>,
}

impl Shape {
    fn label(&self) -> Label {
        taints(self.taints)
    }

    fn content(&self) -> Content {
        let text = self.words.join(" ");
        match self.entity {
            Some(entity) => Content::Fact {
                entity: entity.to_owned(),
                attribute: "tea".to_owned(),
                value: text,
            },
            None => Content::Interaction {
                speaker: Speaker::User,
                text,
            },
        }
    }
}

fn taints(which: [bool; 3]) -> Label {
    let names = TAINTS.iter().zip(which).filter(|(_, has)| *has);
    label(&names.map(|(name, _)| *name).collect::<Vec<_>>())
}

fn shape() -> impl Strategy<Value = Shape> {
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 0..8);
    let source = prop::option::of(any::<prop::sample::Index>());
    let entity = prop::option::of(prop::sample::select(&WORDS[..2]));
    let all = (words, entity, any::<[bool; 3]>(), source);
    all.prop_map(|(words, entity, taints, source)| Shape {
        words,
        entity,
        taints,
        source,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::collection::vec(shape(), 1..6).prop_map(Step::Append),
        1 => any::<prop::sample::Index>().prop_map(Step::Forget),
    ];
    prop::collection::vec(step, 1..8)
}

/// What a world has in the place of an entry above the reader.
type Above = fn(&Draft) -> Option<Draft>;

/// Does the steps in a namespace of their own, with `above` for each entry that does not flow to `at`. Entries
/// have the same numbers in every world.
fn live(
    memory: &dyn Memory,
    namespace: &Namespace,
    base: u32,
    steps: &[Step],
    at: &Label,
    above: Above,
) {
    let mut made: Vec<Draft> = Vec::new();
    for step in steps {
        match step {
            Step::Append(shapes) => {
                let mut drafts = Vec::new();
                for shape in shapes {
                    let number = base + u32::try_from(made.len()).unwrap();
                    let label = shape.label();
                    let source = shape.source.filter(|_| !made.is_empty());
                    let source = source.map(|index| index.get(&made).clone());
                    let source = source.filter(|source| source.label.flows_to(&label));
                    let draft = Draft {
                        id: id(number),
                        content: shape.content(),
                        label,
                        sources: source.iter().map(|source| source.id).collect(),
                        origin: String::new(),
                        time: Time::from_millis(i64::from(number)),
                    };
                    made.push(draft.clone());
                    match draft.label.flows_to(at) {
                        true => drafts.push(draft),
                        false => drafts.extend(above(&draft)),
                    }
                }
                // A source may be gone by now, with all that came of it.
                for draft in drafts {
                    let there =
                        |id: &store::EntryId| memory.show(*id, &Label::top()).unwrap().is_some();
                    if draft.sources.iter().all(there) {
                        match memory.append(namespace, &[draft]) {
                            // Its source would have to make room for it.
                            Ok(_) | Err(MemoryError::Missing(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            }
            Step::Forget(index) if !made.is_empty() => {
                memory.forget(&[index.get(&made).id]).unwrap();
            }
            Step::Forget(_) => {}
        }
    }
}

/// Everything that a reader gets.
fn view(memory: &dyn Memory, namespace: &Namespace, at: &Label) -> (Vec<Entry>, Vec<Vec<Found>>) {
    let listed = memory.list(namespace, 1000, at).unwrap();
    let queries = ["heron", "the delivery", "ben tea friday the", "nothing"];
    let found = queries.map(|query| {
        let query = Query::new(query);
        let few = memory.search(namespace, &query, at, 3).unwrap();
        let all = memory.search(namespace, &query, at, 1000).unwrap();
        assert_eq!(few, all[..few.len()]);
        all
    });
    (listed, found.to_vec())
}

fn check(back: &impl Back, limits: Limits, above: [Above; 2]) {
    let memory = back.open_with(lattice(), limits);
    let mut runner = TestRunner::new(Config::with_cases(CASES));
    let case = std::cell::Cell::new(0);
    // Worlds are namespaces of one memory, and number their entries from a base of their own.
    let outcome = runner.run(&(steps(), any::<[bool; 3]>()), |(steps, at)| {
        let at = taints(at);
        let views = above.map(|above| {
            case.set(case.get() + 1);
            let namespace = app(&format!("world-{}", case.get()));
            let base = case.get() * 1000;
            live(&*memory, &namespace, base, &steps, &at, above);
            let seen = view(&*memory, &namespace, &at);
            plain(seen, base)
        });
        let [one, other] = views;
        prop_assert_eq!(one, other);
        Ok(())
    });
    outcome.unwrap();
}

/// An entry as one can compare it between worlds: its number in its world, and its sources'.
type Plain = (u32, String, Vec<u32>, Label);

/// Scores to the last bit.
fn plain(
    (listed, found): (Vec<Entry>, Vec<Vec<Found>>),
    base: u32,
) -> (Vec<Plain>, Vec<Vec<(Plain, u64)>>) {
    let number = |entry: &store::EntryId| {
        let number = u128::from_be_bytes(*entry.as_bytes()) - 0xabcd_0000;
        u32::try_from(number).unwrap() - base
    };
    let plain = |entry: Entry| {
        let text = match entry.content {
            Content::Interaction { text, .. } => text,
            Content::Fact { entity, value, .. } => format!("{entity}: {value}"),
            Content::Summary { .. } => panic!("another content was added"),
        };
        let sources = entry.sources.iter().map(number).collect();
        (number(&entry.id), text, sources, entry.label)
    };
    let found = found.into_iter().map(|found| {
        let each = found.into_iter();
        each.map(|found| (plain(found.entry), found.score.to_bits()))
            .collect()
    });
    (listed.into_iter().map(plain).collect(), found.collect())
}

/// The strongest form: as if the entries above were not there at all.
pub(crate) fn entries_above_a_reader_change_nothing(back: &impl Back) {
    let limits = Limits::default();
    check(back, limits, [|draft| Some(draft.clone()), |_| None]);
}

/// The same entries above, with other texts and labels.
pub(crate) fn other_entries_above_a_reader_change_nothing(back: &impl Back) {
    let other: Above = |draft| {
        let other = |text: &str| format!("heron heron {} tea", text.replace("the", "of the"));
        let content = match &draft.content {
            Content::Interaction { speaker, text } => Content::Interaction {
                speaker: *speaker,
                text: other(text),
            },
            Content::Fact { value, .. } => Content::Fact {
                entity: "heron".to_owned(),
                attribute: "tea".to_owned(),
                value: other(value),
            },
            Content::Summary { .. } => return None,
        };
        Some(Draft {
            content,
            label: Label::top(),
            ..draft.clone()
        })
    };
    let limits = Limits::default();
    check(back, limits, [|draft| Some(draft.clone()), other]);
}

/// Entries of one label alone decide which of them make room.
pub(crate) fn removals_tell_nothing_of_entries_above(back: &impl Back) {
    let limits = Limits {
        entries: 3,
        ..Limits::default()
    };
    check(back, limits, [|draft| Some(draft.clone()), |_| None]);
}

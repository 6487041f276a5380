//! Labels that fall afterwards: as if they had been lower from the start.

use std::collections::{BTreeMap, BTreeSet};

use ifc::{
    Author, CallId, History, Label, Labeled, Message, PromptMessage, RegionId, Relevance, Tool,
    redact,
};
use proptest::prelude::*;

use crate::common::{join_of, taint};

/// A word that occurs nowhere else, with the label that it comes with.
type Part = (String, Label);

#[derive(Debug, Clone)]
enum Answer {
    Result(Vec<Part>),
    Note,
    None,
}

#[derive(Debug, Clone)]
enum Op {
    User(Vec<Part>),
    Memory(Label, Vec<Part>),
    /// A step whose label was chosen otherwise than by a prompt.
    Fixed(Label, Vec<Part>),
    Step {
        limit: Label,
        floor: Label,
        text: Vec<Part>,
        calls: Vec<(Part, Answer)>,
    },
}

#[derive(Debug, Clone)]
enum Change {
    /// Of this call of this step, below this limit.
    Remake(usize, usize, Label),
    /// Of this region.
    Endorse(usize, Label),
}

/// Few labels, so that much is related.
fn few() -> impl Strategy<Value = Label> {
    prop_oneof![
        2 => Just(Label::bottom()),
        12 => proptest::sample::subsequence(vec![0, 1, 64, 126], 0..4).prop_map(join_of),
        1 => Just(Label::top()),
    ]
}

fn parts(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Part>> {
    let word = any::<u64>()
        .no_shrink()
        .prop_map(|bits| format!("{bits:016x}"));
    proptest::collection::vec((word, few()), count)
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let answer = prop_oneof![
        6 => parts(1..4).prop_map(Answer::Result),
        1 => Just(Answer::Note),
        1 => Just(Answer::None),
    ];
    let call = (parts(1..2), answer).prop_map(|(mut part, answer)| (part.remove(0), answer));
    let calls = proptest::collection::vec(call, 0..3);
    let floor = prop_oneof![4 => Just(Label::bottom()), 1 => few()];
    let op = prop_oneof![
        3 => parts(1..4).prop_map(Op::User),
        1 => (few(), parts(1..3)).prop_map(|(label, text)| Op::Memory(label, text)),
        1 => (few(), parts(1..2)).prop_map(|(label, text)| Op::Fixed(label, text)),
        8 => (few(), floor, parts(0..3), calls)
            .prop_map(|(limit, floor, text, calls)| Op::Step { limit, floor, text, calls }),
    ];
    proptest::collection::vec(op, 1..9)
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        2 => (0..9usize, 0..2usize, few()).prop_map(|(at, call, limit)| Change::Remake(at, call, limit)),
        1 => (0..40usize, few()).prop_map(|(at, taints)| Change::Endorse(at, taints)),
    ];
    proptest::collection::vec(change, 1..4)
}

/// What a prompt showed: words, and the positions of messages that it showed to be there.
#[derive(Debug, Clone, Default)]
struct Shown {
    words: BTreeSet<String>,
    messages: BTreeSet<usize>,
}

impl Shown {
    /// Its label in a history in which the messages have these positions.
    fn label_in(&self, history: &History, places: &[usize]) -> Label {
        let regions = history.regions();
        let has = |text: &str| self.words.iter().any(|word| text.contains(word.as_str()));
        let regions = regions.filter(|region| has(region.reveal_tcb()));
        let messages = history.messages().enumerate();
        let seen: BTreeSet<usize> = self.messages.iter().map(|at| places[*at]).collect();
        let messages = messages.filter(|(at, _)| seen.contains(at));
        let messages = messages.map(|(_, (label, _))| label.clone());
        let all: Vec<Label> = regions
            .map(|region| region.label.clone())
            .chain(messages)
            .collect();
        all.iter().collect()
    }

    /// What the redactor lets through at `label`, looked at from outside.
    fn by_redactor(history: &History, label: &Label) -> Self {
        let mut all = String::new();
        let prompt = redact(history, label);
        for tool in prompt.tools() {
            all += &format!("{} {} ", tool.description, tool.parameters);
        }
        for message in prompt.messages() {
            all.push(' ');
            match message {
                PromptMessage::System(text) | PromptMessage::User(text) => all += text,
                PromptMessage::Tool { content, .. } => all += content,
                PromptMessage::Assistant { text, calls } => {
                    all += text;
                    calls
                        .iter()
                        .for_each(|call| all += &format!(" {}", call.arguments));
                }
            }
        }
        let messages = history.messages().enumerate();
        let seen = messages.filter(|(_, (own, _))| own.flows_to(label));
        Self {
            words: words(&all),
            messages: seen.map(|(at, _)| at).collect(),
        }
    }

    /// What flows to `label` of the messages before this position.
    fn before(history: &History, position: usize, label: &Label) -> Self {
        let mut seen = Self::default();
        let mut look = |text: &Labeled| {
            let mut below = String::new();
            for (at, one) in text.reveal_tcb().char_indices() {
                below.push(match text.label_at(at).flows_to(label) {
                    true => one,
                    false => ' ',
                });
            }
            seen.words.extend(words(&below));
        };
        for tool in history.tools() {
            look(&tool.description);
        }
        for (_, message) in history.messages().take(position) {
            match message {
                Message::System(text) | Message::User(text) | Message::Memory(text) => look(text),
                Message::Result { content, .. } => look(content),
                Message::Assistant { text, calls } => {
                    look(text);
                    calls.iter().for_each(|call| look(&call.arguments));
                }
            }
        }
        let messages = history.messages().take(position).enumerate();
        // That a call has an answer is known with the call.
        let is_hidden = |message: &Message| match message {
            Message::Result {
                content,
                author: Author::Hub,
                ..
            } => !content.label().flows_to(label),
            _ => false,
        };
        let below =
            messages.filter(|(_, (own, message))| own.flows_to(label) && !is_hidden(message));
        seen.messages = below.map(|(at, _)| at).collect();
        seen
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|one: char| !one.is_ascii_hexdigit());
    // Words may stand beside each other.
    let words = words.flat_map(|run| run.as_bytes().chunks_exact(16));
    words
        .map(|word| String::from_utf8(word.to_vec()).unwrap())
        .collect()
}

/// A history, with what is known of it from outside.
#[derive(Debug, Clone)]
struct World {
    tool: Vec<Part>,
    ops: Vec<Op>,
    /// For each step: what it was made from.
    shown: Vec<Shown>,
    /// By step and call: what the call was made from again.
    remade: BTreeMap<(usize, usize), Shown>,
    /// The labels of notes, which stay.
    notes: Vec<Label>,
}

fn labeled(parts: &[Part]) -> Labeled {
    let parts = parts
        .iter()
        .map(|(word, label)| Labeled::label_tcb(word.as_str(), label.clone()));
    let parts: Vec<Labeled> = parts.collect();
    Labeled::concat(&parts)
}

impl World {
    fn history(&self) -> History {
        History::new(vec![Tool {
            label: Label::bottom(),
            name: "tool".to_owned(),
            description: labeled(&self.tool),
            parameters: Labeled::trusted_tcb("{}"),
        }])
    }

    /// The history as the machine makes it: each step from a prompt.
    fn first(&mut self) -> (History, Vec<usize>) {
        let mut history = self.history();
        let mut steps = Vec::new();
        for op in &self.ops {
            match op {
                Op::Step {
                    limit,
                    floor,
                    text,
                    calls,
                } => {
                    let label = history.label_below(limit).join(floor);
                    self.shown.push(Shown::by_redactor(&history, &label));
                    steps.push(history.messages().len());
                    let ids =
                        history.push_step(&label, floor, labeled(text), calls.iter().map(made));
                    for (id, (_, answer)) in ids.into_iter().zip(calls) {
                        if let Answer::Note = answer {
                            self.notes.push(label.clone());
                        }
                        answered(&mut history, &label, &label, id, answer);
                    }
                }
                op => plain(&mut history, op),
            }
        }
        (history, steps)
    }

    /// The same with each label from what it was made from, in a history that nothing is changed in. A call that was made
    /// again is a step of its own there.
    fn anew(&self) -> History {
        let mut history = self.history();
        let mut shown = self.shown.iter().enumerate();
        let mut notes = self.notes.iter();
        // Where each message of the real history is.
        let mut places = Vec::new();
        for op in &self.ops {
            let Op::Step {
                floor, text, calls, ..
            } = op
            else {
                let from = history.messages().len();
                plain(&mut history, op);
                places.extend(from..history.messages().len());
                continue;
            };
            let (step, from) = shown.next().unwrap();
            let label = from.label_in(&history, &places).join(floor);
            let own = calls.iter().enumerate().map(|(at, call)| {
                let remade = self.remade.get(&(step, at));
                let label = remade.map(|from| from.label_in(&history, &places).join(floor));
                (call, label)
            });
            let own: Vec<_> = own.collect();
            let others = own.iter().filter(|(_, lower)| lower.is_none());
            places.push(history.messages().len());
            let others = others.map(|(call, _)| made(call));
            let mut ids = history
                .push_assistant(&label, labeled(text), others)
                .into_iter();
            for (call @ (_, answer), lower) in own {
                let (label, id) = match lower {
                    None => (label.clone(), ids.next().unwrap()),
                    Some(lower) => {
                        let nothing = Labeled::trusted_tcb("");
                        let ids = history.push_assistant(&lower, nothing, [made(call)]);
                        (lower, ids[0])
                    }
                };
                let note = match answer {
                    Answer::Note => notes.next().unwrap(),
                    _ => &label,
                };
                let at = history.messages().len();
                answered(&mut history, &label, note, id, answer);
                places.extend(at..history.messages().len());
            }
        }
        history
    }

    fn change(&mut self, history: &mut History, steps: &[usize], change: &Change) {
        match change {
            Change::Remake(step, call, limit) if !steps.is_empty() => {
                let step = step % steps.len();
                let at = steps[step];
                let floor = self.floor(step);
                let (own, Message::Assistant { calls, .. }) = history.messages().nth(at).unwrap()
                else {
                    panic!("no step");
                };
                let Some(own) = calls.get(*call).map(|call| call.label(own)) else {
                    return;
                };
                // As a caller chooses it: what stands before the step, below the limit and the label of the call.
                let prefix = Shown::before(history, at, &limit.meet(&own));
                let places: Vec<usize> = (0..at).collect();
                let label = prefix.label_in(history, &places).join(&floor);
                let before = history.clone();
                let fell = history.remake_tcb(at, *call, (&label, &floor), &BTreeSet::new());
                assert_eq!(fell, label != own);
                assert_none_rises(&before, history);
                // What flows to the new label, which may be more than what the limit let through.
                let from = Shown::before(&before, at, &label);
                self.remade.insert((step, *call), from);
            }
            Change::Endorse(region, taints) => {
                let count = history.regions().count();
                if count == 0 {
                    return;
                }
                let chosen = history.regions().nth(region % count).unwrap();
                let trusted = words(chosen.reveal_tcb());
                let ids = BTreeSet::from([chosen.id]);
                let before = history.clone();
                let pieces = history.pieces_of(&Relevance::Only(ids));
                history.endorse_tcb(&pieces, taints, 0);
                assert_none_rises(&before, history);
                self.endorse(&trusted, taints);
            }
            Change::Remake(..) => {}
        }
    }

    fn floor(&self, step: usize) -> Label {
        let mut floors = self.ops.iter().filter_map(|op| match op {
            Op::Step { floor, .. } => Some(floor),
            _ => None,
        });
        floors.nth(step).cloned().unwrap()
    }

    /// Each of these words comes with these taints endorsed.
    fn endorse(&mut self, trusted: &BTreeSet<String>, taints: &Label) {
        let endorse = |part: &mut Part| {
            if trusted.contains(&part.0) {
                part.1 = part.1.endorse_tcb(taints, 0);
            }
        };
        self.tool.iter_mut().for_each(endorse);
        for op in &mut self.ops {
            match op {
                Op::User(text) | Op::Memory(_, text) | Op::Fixed(_, text) => {
                    text.iter_mut().for_each(endorse);
                }
                Op::Step { text, calls, .. } => {
                    text.iter_mut().for_each(endorse);
                    for (argument, answer) in calls {
                        endorse(argument);
                        if let Answer::Result(text) = answer {
                            text.iter_mut().for_each(endorse);
                        }
                    }
                }
            }
        }
    }
}

fn plain(history: &mut History, op: &Op) {
    match op {
        Op::User(text) => history.push_user(labeled(text)),
        Op::Memory(label, text) => {
            history.push_memory(label, labeled(text));
            // It is shown with what the user says next.
            history.push_user(Labeled::trusted_tcb("go on"));
        }
        Op::Fixed(label, text) => {
            history.push_assistant(label, labeled(text), []);
        }
        Op::Step { .. } => {}
    }
}

fn made(call: &(Part, Answer)) -> (String, Labeled) {
    let ((word, label), _) = call;
    let arguments = format!(r#"{{"a": "{word}"}}"#);
    (
        "tool".to_owned(),
        Labeled::label_tcb(arguments, label.clone()),
    )
}

fn answered(history: &mut History, label: &Label, note: &Label, id: CallId, answer: &Answer) {
    match answer {
        Answer::Result(text) => history.push_result(label, id, labeled(text)),
        Answer::Note => history.push_note(note, id, "not executed"),
        Answer::None => {}
    }
}

/// The label of a message, and those of the characters of a text.
type Shape = (Label, Vec<Label>);

/// Everything that a history says, with its labels, by the first word of each text.
fn labels(history: &History) -> BTreeMap<String, Shape> {
    let mut all = BTreeMap::new();
    let mut add = |label: &Label, text: &Labeled| {
        let own = text.reveal_tcb();
        // Blanks in arguments may differ.
        let written = own.char_indices().filter(|(_, one)| *one != ' ');
        let labels = written.map(|(at, _)| text.label_at(at)).collect();
        if let Some(word) = words(own).into_iter().next() {
            all.insert(word, (label.clone(), labels));
        }
    };
    for tool in history.tools() {
        add(&tool.label, &tool.description);
    }
    for (label, message) in history.messages() {
        match message {
            Message::System(own) | Message::User(own) | Message::Memory(own) => add(label, own),
            Message::Result { content, .. } => add(label, content),
            Message::Assistant { text, calls } => {
                add(label, text);
                let calls = calls.iter();
                calls.for_each(|call| add(&call.label(label), &call.arguments));
            }
        }
    }
    all
}

fn assert_none_rises(before: &History, after: &History) {
    for ((label, old), (lower, new)) in before.messages().zip(after.messages()) {
        assert!(lower.flows_to(label));
        let (Message::Result { content: old, .. }, Message::Result { content: new, .. }) =
            (old, new)
        else {
            continue;
        };
        for at in 0..old.len() {
            assert!(new.label_at(at).flows_to(&old.label_at(at)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// What falls is what was derived, and as far as if it had been so from the start.
    #[test]
    fn what_was_derived_falls_as_if_it_had_been_so_from_the_start(
        tool in parts(0..2), ops in ops(), changes in changes(),
    ) {
        let mut world = World { tool, ops, shown: vec![], remade: BTreeMap::new(), notes: vec![] };
        let (mut history, steps) = world.first();
        prop_assert_eq!(labels(&history), labels(&world.anew()));
        for change in &changes {
            world.change(&mut history, &steps, change);
            prop_assert_eq!(labels(&history), labels(&world.anew()));
        }
    }

    /// Regions that are known by their pieces are found again.
    #[test]
    fn regions_keep_their_words(
        tool in parts(0..2), ops in ops(), changes in changes(), bits in any::<u64>(),
    ) {
        let mut world = World { tool, ops, shown: vec![], remade: BTreeMap::new(), notes: vec![] };
        let (mut history, steps) = world.first();
        let chosen = |id: &RegionId| bits >> (id.0 % 64) & 1 == 1;
        let ids: BTreeSet<RegionId> =
            history.regions().map(|region| region.id).filter(chosen).collect();
        let text_of = |history: &History, ids: &BTreeSet<RegionId>| -> BTreeSet<String> {
            let regions = history.regions().filter(|region| ids.contains(&region.id));
            regions.flat_map(|region| words(region.reveal_tcb())).collect()
        };
        let wanted = text_of(&history, &ids);
        let pieces = history.pieces_of(&Relevance::Only(ids));
        for change in &changes {
            world.change(&mut history, &steps, change);
        }
        let Relevance::Only(found) = history.regions_of(&pieces) else {
            panic!("only some were wanted");
        };
        // What is labelled no more is no region; regions that have become one are there as one.
        let regions: BTreeSet<RegionId> = history.regions().map(|region| region.id).collect();
        let still = text_of(&history, &regions);
        let expected: BTreeSet<String> = wanted.intersection(&still).cloned().collect();
        prop_assert!(text_of(&history, &found).is_superset(&expected));
        prop_assert_eq!(history.regions_of(&history.pieces_of(&Relevance::Everything)), Relevance::Everything);
    }
}

/// A mail is read after a review, with a search that the review may have worded.
#[test]
fn a_call_after_something_untrusted_gets_its_own_label_back() {
    let (review, mail) = (taint(0), taint(1));
    let (bottom, nothing) = (Label::bottom(), || Labeled::trusted_tcb(""));
    let call = |tool: &str, arguments| (tool.to_owned(), Labeled::trusted_tcb(arguments));
    let mut history = History::default();
    history.push_user(Labeled::trusted_tcb("log in"));
    let ids = history.push_step(&bottom, &bottom, nothing(), [call("reviews", "{}")]);
    let content = Labeled::label_tcb("buy this", review.clone());
    history.push_result(&bottom, ids[0], content);
    let search = call("mails", r#"{"in": "all", "for": "code"}"#);
    let words = Labeled::trusted_tcb("I look");
    let ids = history.push_step(&review, &bottom, words, [search, call("pay", "{}")]);
    let content = Labeled::label_tcb("code 123", mail.clone());
    history.push_result(&review, ids[0], content);
    history.push_note(&review, ids[1], "refused");
    let both = review.join(&mail);
    history.push_step(&both, &bottom, Labeled::trusted_tcb("go"), []);
    let data = BTreeSet::from(["for".parse().unwrap()]);
    let whole = BTreeSet::new();
    assert!(!history.has_lower_behind(3, 0));
    assert!(history.remake_tcb(3, 1, (&bottom, &bottom), &whole));
    assert!(history.has_lower_behind(3, 0));
    assert!(history.remake_tcb(3, 0, (&bottom, &bottom), &data));
    let shown = |label: &Label| {
        let prompt = redact(&history, label);
        let messages = prompt.messages().iter().skip(3);
        messages.map(crate::shown::message).collect::<Vec<_>>()
    };
    let below = shown(&bottom).join("\n");
    // The words, what was searched for and what came of it, and that the payment was refused, are the review's.
    for hidden in ["I look", "code", "refused", "go"] {
        assert!(!below.contains(hidden), "{below}");
    }
    assert_eq!(below.matches("[redacted]").count(), 3, "{below}");
    let (_, Message::Result { content, .. }) = history.messages().nth(4).unwrap() else {
        panic!("no result");
    };
    assert_eq!(content.label(), both);

    // A label does not rise, and what is no call has none.
    let before = labels(&history);
    assert!(!history.remake_tcb(4, 0, (&bottom, &bottom), &whole));
    assert!(!history.remake_tcb(3, 0, (&review, &bottom), &whole));
    assert!(!history.remake_tcb(3, 2, (&bottom, &bottom), &whole));
    assert!(!history.remake_tcb(9, 0, (&bottom, &bottom), &whole));
    assert_eq!(labels(&history), before);
}

/// What nobody knows the origin of is trusted by nobody.
#[test]
fn the_unknown_stays_unknown() {
    let mut history = History::default();
    history.push_user(Labeled::unknown("text"));
    history.push_assistant(&Label::top(), Labeled::trusted_tcb("made up"), []);
    let pieces = history.pieces_of(&Relevance::Only([RegionId(0)].into()));
    for taints in [taint(0), Label::top()] {
        history.endorse_tcb(&pieces, &taints, 0);
        assert_eq!(history.label(), Label::top());
    }
    let labels: Vec<Label> = history
        .regions()
        .map(|region| region.label.clone())
        .collect();
    assert_eq!(labels, [Label::top(), Label::top()]);
}

//! The twins of labels, texts, calls, permits and documents.

use std::collections::{BTreeMap, BTreeSet};

use hub::state::{
    SessionDoc, Stored, StoredCall, StoredLabel, StoredText, permit_key, read_permit, write_permit,
};
use ifc::state::{
    Allowed, CallState, CountedCall, Endorsement, EnteredCall, Final, Grant, LedgerState,
    MonitorState, Reach, Scope, Target, Trusted,
};
use ifc::{
    Arguments, Call, Collaboration, Decision, Direction, Effect, History, Label, Labeled, Lattice,
    Monitor, Order, Policy, PolicyError, ReceiptId, Rule, Sink, Source, Until, Writer,
};
use proptest::prelude::*;
use serde_json::Value;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Categories of strangers, and a chain of secrets.
fn lattice(categories: &[&str]) -> Lattice {
    let levels = words(&["public", "internal", "secret"]);
    Lattice::new(
        &Order::Categories(words(categories)),
        &Order::Levels(levels),
    )
    .unwrap()
}

fn full() -> Lattice {
    lattice(&["mail", "web", "gone"])
}

/// Any label of the full lattice: single taints of the chain, taints of checked forms and endorsed ones too.
fn labels() -> impl Strategy<Value = Label> {
    let taints: Vec<Label> = full()
        .taints()
        .map(|(name, _)| full().taint(name).unwrap())
        .collect();
    let sets = || proptest::collection::vec(proptest::sample::select(taints.clone()), 0..4);
    let sets = move || sets().prop_map(|taints| taints.iter().collect::<Label>());
    let number = prop_oneof![Just(0), Just(u64::MAX - 1), any::<u64>()];
    let parts = (sets(), sets(), sets(), number, 0..10);
    parts.prop_map(|(plain, formed, trusted, number, top)| match top {
        0 => Label::top(),
        _ => plain
            .join(&formed.formed())
            .join(&trusted.endorse_tcb(&trusted, number)),
    })
}

/// A text with empty regions, regions that touch, and letters of several bytes.
fn texts() -> impl Strategy<Value = Labeled> {
    let part = ("[a-ü\"\\\\]{0,3}", labels());
    proptest::collection::vec(part, 0..5).prop_map(|parts| {
        let parts: Vec<Labeled> = parts
            .into_iter()
            .map(|(text, label)| Labeled::label_tcb(text, label))
            .collect();
        Labeled::concat(&parts)
    })
}

fn calls() -> impl Strategy<Value = Call> {
    let values = proptest::collection::vec((texts(), labels()), 0..3);
    (values, labels()).prop_map(|(values, label)| {
        let members = values.iter().enumerate();
        let members =
            members.map(|(at, (text, _))| (at.to_string(), Value::from(text.reveal_tcb())));
        let object: serde_json::Map<String, Value> = members.collect();
        let mut arguments = Arguments::parse(&Value::from(object).to_string(), &label).unwrap();
        for (at, (_, own)) in values.iter().enumerate() {
            arguments = arguments.restrict(&at.to_string(), own);
        }
        Call {
            app: "mail".to_owned(),
            tool: "send \"it\"".to_owned(),
            arguments,
            label,
        }
    })
}

fn is_gone(label: &Label) -> bool {
    let gone = full().label("untrusted:gone").unwrap();
    label.is_top() || gone.flows_to(&label.unendorsed())
}

proptest! {
    #[test]
    fn a_label_is_read_as_it_was_written(label in labels()) {
        let (full, less) = (full(), lattice(&["web", "mail"]));
        let stored = StoredLabel::write(&label, &full);
        let same: Label = stored.clone().read(&full).unwrap();
        prop_assert_eq!(&same, &label);
        // By name, although the taints have other numbers there.
        let read: Label = stored.read(&less).unwrap();
        prop_assert_eq!(read.is_top(), is_gone(&label));
        if !read.is_top() {
            let names = |label: &Label, of: &Lattice| {
                let names = of.taint_names(label).unwrap().into_iter();
                names.map(str::to_owned).collect::<BTreeSet<_>>()
            };
            prop_assert_eq!(names(&read, &less), names(&label, &full));
            prop_assert_eq!(names(read.plain(), &less), names(label.plain(), &full));
            prop_assert!(read.endorsements().keys().eq(label.endorsements().keys()));
        }
    }

    #[test]
    fn a_text_and_a_call_are_read_as_they_were_written(text in texts(), call in calls()) {
        let (full, less) = (full(), lattice(&[ "web", "mail"]));
        let same: Labeled = StoredText::write(&text, &full).read(&full).unwrap();
        prop_assert!(same == text);
        let stored = StoredCall::write(&call, &full);
        let same: Call = stored.clone().read(&full).unwrap();
        prop_assert!(same == call);
        // Where a taint is gone, the parts that had it are unknown and the others are not.
        let read: Labeled = StoredText::write(&text, &full).read(&less).unwrap();
        for ((span, label), (own, before)) in read.regions().zip(text.regions()) {
            prop_assert!(span == own && label.is_top() == is_gone(before));
        }
        let read: Call = stored.read(&less).unwrap();
        prop_assert_eq!(read.label.is_top(), is_gone(&call.label));
    }

    #[test]
    fn names_that_no_lattice_gives_are_the_unknown(name in "\\PC{0,12}|(trust|form):\\PC{0,12}") {
        let json = serde_json::to_string(&[&name]).unwrap();
        let stored: StoredLabel = serde_json::from_str(&json).unwrap();
        let read: Label = stored.read(&full()).unwrap();
        prop_assert_eq!(read.is_top(), full().taint(&name).is_none());
    }
}

/// One of everything, each with this label.
fn document(label: &Label, call: Call, text: Labeled) -> SessionDoc {
    let set = || BTreeSet::from(["mail".to_owned(), "web".to_owned()]);
    let app = || "mail".to_owned();
    let collaboration = || Collaboration {
        asks: app(),
        serves: "web".to_owned(),
        functionality: "dates".to_owned(),
        direction: Direction::Answering,
    };
    let targets = [
        Target::Tool(app(), "send".to_owned()),
        Target::User(set()),
        Target::Address(BTreeSet::new()),
        Target::Memory(set()),
        Target::Provider("p".to_owned()),
        Target::Domain(app(), "example.org".to_owned()),
        Target::Host(app(), "example.org".to_owned(), 443),
        Target::Collaboration(collaboration()),
        Target::Served(Box::new(collaboration()), "send".to_owned()),
    ];
    let grant = |target| Grant {
        target,
        scope: Scope::Argument(Box::new("a.b[*]".parse().unwrap())),
        taints: label.clone(),
        at_hosts: Some("\"to\"\nhost x\n".to_owned()),
    };
    let mut grants: Vec<Grant> = targets.into_iter().map(grant).collect();
    grants[0].scope = Scope::Whole;
    grants[0].at_hosts = None;
    let writer = Writer {
        app: app(),
        tool: "read".to_owned(),
        by: "from".to_owned(),
        value: "a@x".to_owned(),
    };
    let trusted = [
        Trusted::Parts(Source::Tool("read".to_owned()), words(&["a", ""])),
        Trusted::Writer(writer),
    ];
    let finals = [
        Final::Same("send".to_owned(), Labeled::trusted_tcb("{}")),
        Final::Named {
            tool: "send".to_owned(),
            flags: words(&["x true"]),
            texts: vec![text.clone()],
        },
    ];
    let reach = |(finals, until)| Reach {
        app: app(),
        effect: Effect::Irreversible,
        finals,
        until,
    };
    let trust = |(what, below)| Endorsement {
        number: u64::MAX - below,
        place: set(),
        what,
        taints: label.clone(),
        reach: (finals
            .clone()
            .into_iter()
            .zip([Until::Task, Until::Session]))
        .map(reach)
        .collect(),
    };
    let id = |number| ReceiptId {
        seed: u64::MAX,
        number,
    };
    let entered = CallState::ALL.into_iter().zip(0..);
    let entered = entered.map(|(state, number)| EnteredCall {
        id: id(number),
        key: "\"mail\"\"send\"{}".to_owned(),
        state,
    });
    let counted = CountedCall {
        id: id(3),
        state: CallState::Spent,
        app: app(),
        tool: "send".to_owned(),
        arguments: vec![("to".to_owned(), text.clone())],
        label: label.clone(),
    };
    SessionDoc {
        at: 1_800_000_000_000,
        monitor: MonitorState {
            turn: 5,
            grants,
            refusals: vec![call.clone()],
            allowed: vec![Allowed {
                call,
                excess: label.clone(),
                texts: vec![text],
            }],
            trust: trusted.into_iter().zip(1..).map(trust).collect(),
            ledger: LedgerState {
                calls: entered.collect(),
                counted: vec![counted],
                is_full: true,
            },
        },
        waiting: BTreeMap::from([("call_1".to_owned(), id(1))]),
        released: Some(([3; 32], words(&["call_1"]))),
    }
}

proptest! {
    #[test]
    fn a_document_is_read_as_it_was_written(label in labels(), call in calls(), text in texts()) {
        let (full, less) = (full(), lattice(&["web", "mail"]));
        let document = document(&label, call, text);
        let written = document.write(&full);
        let read = SessionDoc::read(&written, &full).unwrap();
        prop_assert!(read == document);
        // What allows something by a label that is gone does not allow everything.
        let monitor = Monitor::new();
        monitor.absorb_tcb(SessionDoc::read(&written, &less).unwrap().monitor);
        let read = monitor.snapshot();
        let kept = usize::from(!is_gone(&label));
        prop_assert_eq!(read.grants.len(), 9 * kept);
        prop_assert_eq!((read.allowed.len(), read.trust.len()), (kept, 2 * kept));
        prop_assert_eq!(read.ledger.counted[0].label.is_top(), kept == 0);
        prop_assert!(read.ledger.calls == document.monitor.ledger.calls);
    }
}

#[test]
fn a_document_of_another_form_is_an_error() {
    let lattice = full();
    let label = lattice.label("untrusted:mail").unwrap();
    let call = Call {
        app: "mail".to_owned(),
        tool: "send".to_owned(),
        arguments: Arguments::parse("{\"to\":\"bob\"}", &label).unwrap(),
        label: label.clone(),
    };
    let text = Labeled::label_tcb("x", label.clone());
    let written = document(&label, call, text).write(&lattice);
    let fails = |text: &str| assert!(SessionDoc::read(text, &lattice).is_err(), "{text}");
    (0..written.len()).for_each(|end| fails(&written[..end]));
    let value: Value = serde_json::from_str(&written).unwrap();
    let mut pointers = vec![String::new()];
    while let Some(pointer) = pointers.pop() {
        match value.pointer(&pointer).unwrap() {
            Value::Object(members) => {
                for name in members.keys() {
                    pointers.push(format!("{pointer}/{name}"));
                    // Its names are the clients' own.
                    if pointer == "/waiting" {
                        continue;
                    }
                    let mut less = value.clone();
                    let of = less.pointer_mut(&pointer).unwrap();
                    of.as_object_mut().unwrap().remove(name);
                    fails(&less.to_string());
                }
            }
            Value::Array(items) => {
                pointers.extend((0..items.len()).map(|at| format!("{pointer}/{at}")));
            }
            _ => {}
        }
        let mut other = value.clone();
        *other.pointer_mut(&pointer).unwrap() = Value::from(-1.5);
        fails(&other.to_string());
    }
    for (from, to) in [
        ("\"spent\"", "\"unspent\""),
        ("\"irreversible\"", "\"reversible\""),
        ("\"served\"", "\"serves\""),
        ("result of read", "read"),
        ("ffffffffffffffff-1\"", "ffffffffffffffff\""),
        (
            "[[0,1],[\"untrusted:mail\"]]",
            "[[0,2],[\"untrusted:mail\"]]",
        ),
        ("[[0,1],[\"untrusted:mail\"]]", "[[0,1],[]]"),
    ] {
        assert!(written.contains(from), "{from}");
        fails(&written.replace(from, to));
    }
}

/// Everything is irreversible and allowed.
pub(super) struct Anything;

impl Policy for Anything {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        Ok(Rule::asking("any", Effect::Irreversible, Label::top()))
    }
}

#[test]
fn a_permit_is_redeemed_for_its_own_call() {
    let lattice = full();
    let label = lattice.label("untrusted:mail").unwrap();
    let arguments = |text: &str| Arguments::parse(text, &label).unwrap();
    let call = Call {
        app: "mail".to_owned(),
        tool: "send".to_owned(),
        arguments: arguments("{\"n\":1}"),
        label: label.clone(),
    };
    let monitor = Monitor::new().with_seed(1);
    let decision = monitor.decide(&Anything, &History::default(), call.clone());
    let Decision::Allow(permit) = decision else {
        panic!("nothing is in its way");
    };
    let text = write_permit(&permit, &lattice);
    let redeemed = read_permit(&text, &lattice).unwrap();
    assert_eq!(redeemed.basis(), permit.basis());
    assert_eq!(redeemed.receipt().id(), permit.receipt().id());
    assert_eq!(redeemed.spend(), call);
    let key = |text: &str| permit_key("mail", "send", &arguments(text));
    assert_eq!(key("{\"n\":1}"), key("{ \"n\": 1.0 }"));
    assert_ne!(key("{\"n\":1}"), key("{\"n\":2}"));
    assert_ne!(
        permit_key("a", "bc", &arguments("{}")),
        permit_key("ab", "c", &arguments("{}"))
    );
    for end in 0..text.len() {
        assert!(read_permit(&text[..end], &lattice).is_err());
    }
}

//! The log of a tenant: what replicas tell each other of its conversations, as text.

use hub::Redeemed;
use hub::recognise::Learned;
use hub::state::{
    Stored, StoredApproval, StoredCall, StoredLabel, StoredRefinement, StoredText, StoredUnread,
    Word,
};
use hub::twin;
use ifc::{Label, Lattice};

use super::memory::{RememberedCall, Step, Taken};
use super::transcript::Digest;

/// One record of the log. They add up to the same in any order.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    /// How the message came about in which the conversation with this digest ends.
    Answer(Digest, Taken),
    /// A text with this digest was said or passed on under this label.
    Words(Digest, Label),
    /// What was learnt of a text.
    Learned(Learned),
    /// The client was given text of this label, and whether it has started programs.
    Given(Label, bool),
    /// What the gateway returned for the call of this name, which the proxy had permitted.
    Result(String, Redeemed),
}

impl Record {
    /// Its text.
    pub(crate) fn write(&self, lattice: &Lattice) -> String {
        // It has strings, numbers and lists only, so it can be written. An empty text cannot be read.
        serde_json::to_string(&StoredRecord::write(self, lattice)).unwrap_or_default()
    }

    /// Reads the text of a record.
    ///
    /// # Errors
    /// It has another form.
    pub(crate) fn read(text: &str, lattice: &Lattice) -> Result<Self, String> {
        let stored: StoredRecord = serde_json::from_str(text)
            .map_err(|error| format!("a record of the log cannot be read: {error}"))?;
        stored.read(lattice)
    }
}

twin! {
    enum StoredRecord of Record {
        Answer { 0 => digest: Word, 1 => taken: StoredTaken, }
        Words { 0 => digest: Word, 1 => label: StoredLabel, }
        Learned { 0 => learned: StoredLearned, }
        Given { 0 => label: StoredLabel, 1 => programs: bool, }
        Result { 0 => call: String, 1 => result: StoredRedeemed, }
    }
}

twin! {
    enum StoredLearned of Learned {
        Text {
            place => #[serde(deserialize_with = "hub::state::present")] place: Option<Word>,
            text => text: StoredText,
            inside => inside: bool,
        }
        Recognised { place => place: Word, parts => parts: Vec<((usize, usize), StoredLabel)>, }
        Lost { 0 => label: StoredLabel, }
    }
}

twin! {
    StoredRedeemed of Redeemed {
        text: StoredText,
        label: StoredLabel,
    }
}

twin! {
    StoredTaken of Taken {
        steps: Vec<StoredStep>,
        refused: Vec<StoredCall>,
    }
}

twin! {
    enum StoredStep of Step {
        Said {
            label => label: StoredLabel,
            fixed => fixed: bool,
            text => text: StoredText,
            calls => calls: Vec<StoredPast>,
            unread => #[serde(deserialize_with = "hub::state::present")] unread: Option<StoredUnread>,
        }
        Note { label => label: StoredLabel, call => call: usize, text => text: String, }
        Refined { 0 => refinement: StoredRefinement, }
    }
}

twin! {
    StoredPast of RememberedCall {
        tool: String,
        arguments: StoredText,
        #[serde(deserialize_with = "hub::state::present")]
        client: Option<String>,
        #[serde(deserialize_with = "hub::state::present")]
        approval: Option<StoredApproval>,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hub::Refinement;
    use ifc::{Approval, Arguments, Call, Labeled, Order, Unread};
    use serde_json::Value;

    use super::*;

    fn lattice(categories: &[&str]) -> Lattice {
        let categories = categories.iter().map(|name| (*name).to_owned()).collect();
        Lattice::new(&Order::Categories(categories), &Order::TwoPoint).unwrap()
    }

    /// One of each kind, in which each label has the category `mail`.
    fn records(lattice: &Lattice) -> Vec<Record> {
        let mail = lattice.label("untrusted:mail").unwrap();
        let label = mail.join(&lattice.label("secret").unwrap().formed());
        let text = |words: &str| {
            let parts = [(0..1, mail.clone()), (2..3, label.clone())];
            Labeled::with_regions_tcb(words, parts).unwrap()
        };
        let call = Call {
            app: "app".to_owned(),
            tool: "send".to_owned(),
            arguments: Arguments::parse(r#"{"to":"bob","n":[1]}"#, &mail).unwrap(),
            label: mail.clone(),
        };
        let data = ["n[*]".parse().unwrap()];
        let approval = Approval::given_tcb(call.clone(), data.clone().into(), mail.clone());
        let said = Step::Said {
            label: label.clone(),
            fixed: true,
            text: text("said"),
            calls: vec![RememberedCall {
                tool: "send".to_owned(),
                arguments: text("{\"a\":\"ü\"}"),
                client: Some("call_1".to_owned()),
                approval: Some(Arc::new(approval)),
            }],
            unread: Some(Arc::new(Unread {
                provider: "up".to_owned(),
                members: "{}".to_owned(),
                calls: vec![(None, "{\"x\":1}".to_owned())],
            })),
        };
        let note = Step::Note {
            label: mail.clone(),
            call: 0,
            text: "no".to_owned(),
        };
        let refined = Step::Refined(Refinement {
            at: 1,
            call: 2,
            after: 3,
            label: mail.clone(),
            data: data.into(),
        });
        let taken = Taken {
            steps: vec![said, note, refined],
            refused: vec![call],
        };
        let result = Redeemed {
            text: text("result"),
            label: mail.clone(),
        };
        vec![
            Record::Answer([7; 32], taken),
            Record::Words([8; 32], label.clone()),
            Record::Learned(Learned::Text {
                place: Some([9; 32]),
                text: text("learned"),
                inside: true,
            }),
            Record::Learned(Learned::Recognised {
                place: [0; 32],
                parts: vec![(3..9, mail.clone())],
            }),
            Record::Learned(Learned::Lost(label)),
            Record::Given(mail, true),
            Record::Result("call_1".to_owned(), result),
        ]
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let lattice = lattice(&["mail"]);
        for record in records(&lattice) {
            let text = record.write(&lattice);
            let read = Record::read(&text, &lattice).unwrap();
            assert_eq!(read.write(&lattice), text);
            if let (Record::Answer(digest, taken), Record::Answer(other, same)) = (&record, &read) {
                assert!(digest == other && taken == same);
            }
        }
    }

    #[test]
    fn a_label_that_is_gone_is_the_unknown() {
        let (lattice, less) = (lattice(&["mail"]), lattice(&["web"]));
        for record in records(&lattice) {
            match Record::read(&record.write(&lattice), &less).unwrap() {
                Record::Answer(_, taken) => {
                    assert!(taken.label().is_top() && taken.refused[0].label.is_top());
                    let Step::Said { calls, .. } = &taken.steps[0] else {
                        panic!("the first step is another");
                    };
                    // With ⊤ it would endorse everything.
                    let approval = calls[0].approval.as_ref().unwrap();
                    assert!(approval.taints().is_bottom());
                }
                Record::Learned(Learned::Text { text, .. }) => assert!(text.label().is_top()),
                Record::Learned(Learned::Recognised { parts, .. }) => assert!(parts[0].1.is_top()),
                Record::Words(_, label)
                | Record::Given(label, _)
                | Record::Learned(Learned::Lost(label)) => assert!(label.is_top()),
                Record::Result(_, result) => {
                    assert!(result.label.is_top() && result.text.label().is_top());
                }
            }
        }
    }

    #[test]
    fn a_record_of_another_form_is_an_error() {
        let lattice = lattice(&["mail"]);
        let fails = |text: &str| assert!(Record::read(text, &lattice).is_err(), "{text}");
        for record in records(&lattice) {
            let text = record.write(&lattice);
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                fails(&text[..end]);
            }
            let value: Value = serde_json::from_str(&text).unwrap();
            let mut pointers = vec![String::new()];
            while let Some(pointer) = pointers.pop() {
                match value.pointer(&pointer).unwrap() {
                    Value::Object(members) => {
                        for name in members.keys() {
                            pointers.push(format!("{pointer}/{name}"));
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
        }
    }
}

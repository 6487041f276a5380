//! The log of a tenant: what replicas tell each other of its conversations, as text.

use std::sync::Arc;

use hub::Redeemed;
use hub::recognise::{Learned, Place};
use hub::state::{
    Stored, StoredApproval, StoredCall, StoredLabel, StoredRefinement, StoredText, StoredUnread,
    present, read_all, write_all,
};
use ifc::{Label, Lattice};
use serde::{Deserialize, Serialize};

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
        let label = |label: &Label| StoredLabel::write(label, lattice);
        let stored = match self {
            Self::Answer(digest, taken) => StoredRecord::Answer {
                digest: hex(digest),
                steps: taken
                    .steps
                    .iter()
                    .map(|step| write_step(step, lattice))
                    .collect(),
                refused: write_all(&taken.refused, lattice),
            },
            Self::Words(digest, own) => StoredRecord::Words(hex(digest), label(own)),
            Self::Learned(Learned::Text {
                place,
                text,
                inside,
            }) => StoredRecord::Text {
                place: place.as_ref().map(hex),
                text: StoredText::write(text, lattice),
                inside: *inside,
            },
            Self::Learned(Learned::Recognised { place, parts }) => {
                let parts = parts.iter();
                let parts = parts.map(|(span, own)| (span.start, span.end, label(own)));
                StoredRecord::Recognised(hex(place), parts.collect())
            }
            Self::Learned(Learned::Lost(own)) => StoredRecord::Lost(label(own)),
            Self::Given(own, programs) => StoredRecord::Given(label(own), *programs),
            Self::Result(call, result) => StoredRecord::Result {
                call: call.clone(),
                text: StoredText::write(&result.text, lattice),
                label: label(&result.label),
            },
        };
        // It has strings, numbers and lists only, so it can be written. An empty text cannot be read.
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Reads the text of a record.
    ///
    /// # Errors
    /// It has another form.
    pub(crate) fn read(text: &str, lattice: &Lattice) -> Result<Self, String> {
        let stored: StoredRecord = serde_json::from_str(text)
            .map_err(|error| format!("a record of the log cannot be read: {error}"))?;
        Ok(match stored {
            StoredRecord::Answer {
                digest,
                steps,
                refused,
            } => {
                let steps = steps.into_iter().map(|step| read_step(step, lattice));
                let taken = Taken {
                    steps: steps.collect::<Result<_, _>>()?,
                    refused: read_all(refused, lattice)?,
                };
                Self::Answer(read_hex(&digest)?, taken)
            }
            StoredRecord::Words(digest, label) => {
                Self::Words(read_hex(&digest)?, label.read(lattice)?)
            }
            StoredRecord::Text {
                place,
                text,
                inside,
            } => Self::Learned(Learned::Text {
                place: place.as_deref().map(read_hex).transpose()?,
                text: text.read(lattice)?,
                inside,
            }),
            StoredRecord::Recognised(place, parts) => {
                let parts = parts.into_iter();
                let parts = parts.map(|(start, end, own)| match own.read(lattice)? {
                    own if start > end || own.is_bottom() => Err("a part is empty".to_owned()),
                    own => Ok((start..end, own)),
                });
                Self::Learned(Learned::Recognised {
                    place: read_hex(&place)?,
                    parts: parts.collect::<Result<_, _>>()?,
                })
            }
            StoredRecord::Lost(label) => Self::Learned(Learned::Lost(label.read(lattice)?)),
            StoredRecord::Given(label, programs) => Self::Given(label.read(lattice)?, programs),
            StoredRecord::Result { call, text, label } => {
                let (text, label) = (text.read(lattice)?, label.read(lattice)?);
                Self::Result(call, Redeemed { text, label })
            }
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum StoredRecord {
    Answer {
        digest: String,
        steps: Vec<StoredStep>,
        refused: Vec<StoredCall>,
    },
    Words(String, StoredLabel),
    Text {
        #[serde(deserialize_with = "present")]
        place: Option<String>,
        text: StoredText,
        inside: bool,
    },
    /// Begin, end and label of each part.
    Recognised(String, Vec<(usize, usize, StoredLabel)>),
    Lost(StoredLabel),
    Given(StoredLabel, bool),
    Result {
        call: String,
        text: StoredText,
        label: StoredLabel,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum StoredStep {
    Said {
        label: StoredLabel,
        fixed: bool,
        text: StoredText,
        calls: Vec<StoredPast>,
        #[serde(deserialize_with = "present")]
        unread: Option<StoredUnread>,
    },
    Note {
        label: StoredLabel,
        call: usize,
        text: String,
    },
    Refined(StoredRefinement),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPast {
    tool: String,
    arguments: StoredText,
    #[serde(deserialize_with = "present")]
    client: Option<String>,
    #[serde(deserialize_with = "present")]
    approval: Option<StoredApproval>,
}

fn write_step(step: &Step, lattice: &Lattice) -> StoredStep {
    match step {
        Step::Said {
            label,
            fixed,
            text,
            calls,
            unread,
        } => {
            let calls = calls.iter().map(|call| StoredPast {
                tool: call.tool.clone(),
                arguments: StoredText::write(&call.arguments, lattice),
                client: call.client.clone(),
                approval: call
                    .approval
                    .as_ref()
                    .map(|own| StoredApproval::write(own, lattice)),
            });
            StoredStep::Said {
                label: StoredLabel::write(label, lattice),
                fixed: *fixed,
                text: StoredText::write(text, lattice),
                calls: calls.collect(),
                unread: unread
                    .as_ref()
                    .map(|unread| StoredUnread::write(unread, lattice)),
            }
        }
        Step::Note { label, call, text } => StoredStep::Note {
            label: StoredLabel::write(label, lattice),
            call: *call,
            text: text.clone(),
        },
        Step::Refined(made) => StoredStep::Refined(StoredRefinement::write(made, lattice)),
    }
}

fn read_step(step: StoredStep, lattice: &Lattice) -> Result<Step, String> {
    Ok(match step {
        StoredStep::Said {
            label,
            fixed,
            text,
            calls,
            unread,
        } => {
            let calls = calls.into_iter().map(|call| {
                let approval = call.approval.map(|own| own.read(lattice)).transpose()?;
                Ok(RememberedCall {
                    tool: call.tool,
                    arguments: call.arguments.read(lattice)?,
                    client: call.client,
                    approval: approval.flatten().map(Arc::new),
                })
            });
            let unread = unread.map(|unread| unread.read(lattice)).transpose()?;
            Step::Said {
                label: label.read(lattice)?,
                fixed,
                text: text.read(lattice)?,
                calls: calls.collect::<Result<_, String>>()?,
                unread: unread.map(Arc::new),
            }
        }
        StoredStep::Note { label, call, text } => Step::Note {
            label: label.read(lattice)?,
            call,
            text,
        },
        StoredStep::Refined(made) => Step::Refined(made.read(lattice)?),
    })
}

pub(crate) fn hex(digest: &Place) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_hex(text: &str) -> Result<Place, String> {
    let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digits).collect();
    let digest = bytes.and_then(|bytes| bytes.try_into().ok());
    digest.ok_or_else(|| "a digest of the log cannot be read".to_owned())
}

#[cfg(test)]
mod tests {
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
                    assert_eq!(calls[0].approval, None);
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

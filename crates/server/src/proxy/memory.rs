//! What really happened in the conversations that clients hold.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use hub::{Refinement, recognise::is_identifier};
use ifc::{Approval, Arguments, Author, Call, CallId, History, Label, Labeled, Message, Unread};
use serde_json::Value;

use super::kept::Kept;
use super::transcript::Digest;
use crate::locks::lock;

/// Limits on what a proxy remembers. A forgotten answer gets the most restrictive label, so a tight limit costs questions,
/// not security.
///
/// Above a limit, the client with the most bytes loses its least recently used answers. Clients are told apart by their
/// token, or by their key where there are no tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes of text.
    pub bytes: usize,
    /// Answers.
    pub entries: usize,
    /// How long an answer is remembered after it was last used.
    pub age: Duration,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            // A long agent run is below a megabyte: some hundred of them at once.
            bytes: 256 << 20,
            // As many as a hundred such runs have steps, with room.
            entries: 100_000,
            // A conversation that was left in the evening goes on in the morning.
            age: Duration::from_secs(24 * 3600),
        }
    }
}

/// The steps behind one message that a client was sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Taken {
    pub(super) steps: Vec<Step>,
    /// What was refused on the way; it is not asked about again in this turn.
    pub(super) refused: Vec<Call>,
}

/// One message of the history that the client does not hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Said {
        label: Label,
        /// Whether labels of what it was made from have fallen since, so that it is no longer known what
        /// that was.
        fixed: bool,
        text: Labeled,
        calls: Vec<RememberedCall>,
        /// What the upstream needs back.
        unread: Option<Arc<Unread>>,
    },
    /// What the hub answered to a refused call, which is the `call`-th of all these steps.
    Note {
        label: Label,
        call: usize,
        text: String,
    },
    /// What an earlier call was made from turned out to be less.
    Refined(Refinement),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RememberedCall {
    pub(super) tool: String,
    pub(super) arguments: Labeled,
    /// The id under which the client knows it; refused ones it does not know.
    pub(super) client: Option<String>,
    /// What the user's yes to it endorsed.
    pub(super) approval: Option<Arc<Approval>>,
}

/// What is remembered of one message.
#[derive(Debug, Clone)]
pub(super) enum Recalled {
    Exactly(Arc<Taken>),
    /// The same words came about in several ways: only the words are sure, under the join of all
    /// labels.
    Ambiguous(Label),
    Nothing,
}

impl Taken {
    /// What a turn appended to the first `from` messages of its history. `clients` are the ids of
    /// the calls that were handed over.
    pub(super) fn of(
        history: &History,
        from: usize,
        refinements: &[Refinement],
        clients: &HashMap<CallId, String>,
        refused: Vec<Call>,
    ) -> Self {
        let mut order: Vec<CallId> = Vec::new();
        let mut steps = Vec::new();
        let mut refinements = refinements.iter().cloned().peekable();
        for (at, (label, message)) in history.messages().enumerate().skip(from) {
            while let Some(refinement) = refinements.next_if(|next| next.after <= at) {
                steps.push(Step::Refined(refinement));
            }
            match message {
                Message::Assistant { calls, .. } => {
                    order.extend(calls.iter().map(|call| call.id));
                    let mut came = history.as_they_came(at).into_iter();
                    let text = came.next().unwrap_or_else(|| Labeled::trusted_tcb(""));
                    let past_calls =
                        calls
                            .iter()
                            .zip(came)
                            .map(|(call, arguments)| RememberedCall {
                                tool: call.tool.clone(),
                                arguments,
                                client: clients.get(&call.id).cloned(),
                                approval: call.approval.clone(),
                            });
                    steps.push(Step::Said {
                        label: label.clone(),
                        fixed: refinements.peek().is_some(),
                        text,
                        calls: past_calls.collect(),
                        unread: history.unread(at).cloned(),
                    });
                }
                Message::Result {
                    call,
                    content,
                    author: Author::Hub,
                    ..
                } => {
                    if let Some(call) = order.iter().position(|id| id == call) {
                        steps.push(Step::Note {
                            // A call whose label has fallen may have an answer above it.
                            label: label.join(&content.label()),
                            call,
                            text: content.reveal_tcb().to_owned(),
                        });
                    }
                }
                // The client's messages are all before `from`, and the proxy remembers nothing itself.
                Message::System(_)
                | Message::User(_)
                | Message::Memory(_)
                | Message::Result { .. } => {}
            }
        }
        steps.extend(refinements.map(Step::Refined));
        Self { steps, refused }
    }

    /// The join of everything: what may have influenced the words that the client got.
    pub(super) fn label(&self) -> Label {
        let labels = self.steps.iter().map(|step| match step {
            Step::Said {
                label, text, calls, ..
            } => {
                let calls = calls.iter().map(|call| call.arguments.label());
                calls.fold(label.join(&text.label()), |joined, one| joined.join(&one))
            }
            Step::Note { label, .. } => label.clone(),
            Step::Refined(_) => Label::bottom(),
        });
        labels.fold(Label::bottom(), |joined, label| joined.join(&label))
    }

    /// What the model said: texts and arguments, each as labelled as its step.
    pub(super) fn texts(&self) -> impl Iterator<Item = Labeled> {
        let steps = self.steps.iter().filter_map(|step| match step {
            Step::Said {
                label, text, calls, ..
            } => Some((label, text, calls)),
            Step::Note { .. } | Step::Refined(_) => None,
        });
        steps.flat_map(|(label, text, calls)| {
            let arguments = calls.iter().map(|call| &call.arguments);
            let all = std::iter::once(text).chain(arguments);
            all.map(|text| text.clone().restrict(label))
        })
    }

    /// The labelled texts that its calls pass on, such as the prompt of a sub-agent. A token without
    /// blanks can be one; an id, an e-mail address or a word says too little.
    pub(super) fn passed(&self) -> Vec<(String, Label)> {
        let steps = self.steps.iter().filter_map(|step| match step {
            Step::Said { label, calls, .. } => Some((label, calls)),
            Step::Note { .. } | Step::Refined(_) => None,
        });
        let mut passed = Vec::new();
        for (label, call) in
            steps.flat_map(|(label, calls)| calls.iter().map(move |it| (label, it)))
        {
            let arguments = Arguments::parse_labeled(&call.arguments).unwrap_or(Arguments::none());
            for (_, value) in arguments.iter() {
                let label = label.join(&value.label());
                if label.is_bottom() {
                    continue;
                }
                let mut values = vec![serde_json::from_str(value.reveal_tcb()).unwrap_or_default()];
                while let Some(value) = values.pop() {
                    match value {
                        Value::String(text) => {
                            let own = text.trim();
                            if own.contains(char::is_whitespace) || !is_identifier(own) {
                                passed.push((text, label.clone()));
                            }
                        }
                        Value::Array(items) => values.extend(items),
                        Value::Object(fields) => values.extend(fields.into_values()),
                        Value::Null | Value::Bool(_) | Value::Number(_) => {}
                    }
                }
            }
        }
        passed
    }

    fn bytes(&self) -> usize {
        let steps = self.steps.iter().map(|step| match step {
            Step::Said {
                text,
                calls,
                unread,
                ..
            } => {
                let unread = unread.as_ref().map_or(0, |unread| unread.bytes());
                let calls = calls.iter();
                let calls = calls.map(|call| {
                    let approval = call.approval.as_ref().map_or(0, |own| own.bytes());
                    call.tool.len() + call.arguments.len() + approval + OVERHEAD
                });
                text.len() + unread + calls.sum::<usize>()
            }
            Step::Note { text, .. } => text.len(),
            Step::Refined(_) => 0,
        });
        let refused = self.refused.iter();
        let refused = refused.map(|call| call.tool.len() + call.arguments.len());
        let beside = refused.sum::<usize>();
        steps.map(|bytes| bytes + OVERHEAD).sum::<usize>() + beside + OVERHEAD
    }
}

/// About what an entry, a step or a call takes beside its text.
const OVERHEAD: usize = 256;

/// Remembers answers by the digest of the conversation that ends in them.
pub(super) struct Memory {
    limits: MemoryLimits,
    kept: Mutex<Kept<Recalled>>,
}

impl Memory {
    pub(super) fn new(limits: MemoryLimits) -> Self {
        let kept = Mutex::new(Kept::new());
        Self { limits, kept }
    }

    /// What is remembered of the message in which this conversation ends.
    pub(super) fn recall(&self, digest: &Digest) -> Recalled {
        let mut kept = lock(&self.kept);
        let recalled = kept.touch(digest, self.limits.age, Instant::now());
        recalled.cloned().unwrap_or(Recalled::Nothing)
    }

    /// Remembers that an answer with these words was made under this label, in whatever conversation.
    pub(super) fn remember_words(&self, words: Digest, tenant: Digest, label: &Label) {
        let MemoryLimits {
            bytes,
            entries,
            age,
        } = self.limits;
        let now = Instant::now();
        let mut kept = lock(&self.kept);
        let known = match kept.touch(&words, age, now) {
            Some(Recalled::Ambiguous(known)) => known.join(label),
            _ => label.clone(),
        };
        kept.insert(words, tenant, Recalled::Ambiguous(known), OVERHEAD, now);
        kept.shrink(entries, bytes, |_| ());
    }

    /// Remembers how a message was made. If the same message was made in another way before, only its words are certain.
    pub(super) fn remember(&self, digest: Digest, tenant: Digest, taken: Taken) {
        let MemoryLimits {
            bytes,
            entries,
            age,
        } = self.limits;
        let now = Instant::now();
        let mut kept = lock(&self.kept);
        match kept.touch(&digest, age, now) {
            Some(recalled) => {
                let label = match recalled {
                    // The same again, as by a retry.
                    Recalled::Exactly(known) if **known == taken => return,
                    Recalled::Exactly(known) => known.label(),
                    Recalled::Ambiguous(label) => label.clone(),
                    Recalled::Nothing => Label::top(),
                };
                // A client that sends these words back cannot say which of the two it means.
                *recalled = Recalled::Ambiguous(label.join(&taken.label()));
            }
            None => {
                let weight = taken.bytes();
                let recalled = Recalled::Exactly(Arc::new(taken));
                kept.insert(digest, tenant, recalled, weight, now);
                kept.shrink(entries, bytes, |_| ());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ifc::{Dimension, Lattice};

    use super::*;

    fn said(label: &Label) -> Taken {
        Taken {
            steps: vec![Step::Said {
                label: label.clone(),
                fixed: false,
                text: Labeled::label_tcb("x", label.clone()),
                calls: Vec::new(),
                unread: None,
            }],
            refused: Vec::new(),
        }
    }

    #[test]
    fn two_ways_to_the_same_words_are_ambiguous_for_ever() {
        let memory = Memory::new(MemoryLimits::default());
        let (digest, tenant) = ([0; 32], [1; 32]);
        let lattice = Lattice::four_point();
        let low = lattice.whole(Dimension::Integrity);
        let high = lattice.whole(Dimension::Confidentiality);
        assert!(matches!(memory.recall(&digest), Recalled::Nothing));
        memory.remember(digest, tenant, said(&low));
        memory.remember(digest, tenant, said(&low));
        assert!(matches!(memory.recall(&digest), Recalled::Exactly(_)));
        memory.remember(digest, tenant, said(&high));
        memory.remember(digest, tenant, said(&low));
        let Recalled::Ambiguous(label) = memory.recall(&digest) else {
            panic!("not ambiguous");
        };
        assert_eq!(label, low.join(&high));
    }
}

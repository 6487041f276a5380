//! What events are made of, each from the type of the core that it says.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use ifc::{Delivery, Lattice, RegionRef, Release, Source};
use serde::{Deserialize, Serialize};

use super::Text;

/// A label as names of taints; empty is ⊥, `["any"]` is ⊤.
pub type Names = Vec<String>;

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The app.
    pub app: String,
    /// The tool.
    pub tool: Text,
    /// The exact arguments, as JSON text.
    pub arguments: Text,
    /// The label under which it was made.
    pub label: Names,
    /// The labels of the data arguments that were made from more, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Names>,
}

impl Call {
    /// The call with its labels by name.
    pub fn new(call: &ifc::Call, lattice: &Lattice) -> Self {
        let data = call.arguments.beyond(&call.label);
        Self {
            app: call.app.clone(),
            tool: call.tool.as_str().into(),
            arguments: call.arguments.to_json().into(),
            label: lattice.describe(&call.label),
            data: data
                .iter()
                .map(|(path, label)| (path.to_string(), lattice.describe(label)))
                .collect(),
        }
    }
}

/// A message of an exchange between two apps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The app that sends it.
    pub from: String,
    /// The app that gets it.
    pub to: String,
    /// The functionality that it is about.
    pub functionality: String,
    /// `probe`, `request` or `response`.
    pub stage: String,
    /// What it says.
    pub text: Text,
    /// Its label.
    pub label: Names,
}

/// What was decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// Running a call.
    Call(Call),
    /// Delivering a message of an exchange to another app.
    Message(Message),
    /// Showing an answer to the user.
    Answer {
        /// The apps of the conversation; none for a vanilla spoke.
        #[serde(rename = "app", with = "super::apps")]
        apps: BTreeSet<String>,
        /// The answer.
        text: Text,
        /// Its label.
        label: Names,
    },
}

impl Flow {
    /// Delivering this message.
    pub fn message(delivery: &Delivery, lattice: &Lattice) -> Self {
        Self::Message(Message {
            from: delivery.from.clone(),
            to: delivery.to.clone(),
            functionality: delivery.functionality.clone(),
            stage: delivery.stage.name().to_owned(),
            text: Text::reveal_tcb(&delivery.message),
            label: lattice.describe(&delivery.message.label()),
        })
    }

    /// Showing this answer.
    pub fn answer(release: &Release, lattice: &Lattice) -> Self {
        Self::Answer {
            apps: release.apps.clone(),
            text: Text::reveal_tcb(&release.text),
            label: lattice.describe(&release.text.label()),
        }
    }
}

/// A memory that a conversation recalled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recalled {
    /// Its id in the memory.
    pub id: String,
    /// When, where and who.
    pub origin: String,
    /// Its label.
    pub label: Names,
}

/// A region whose label blocked a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The region's number in the history.
    pub region: u32,
    /// Where its text comes from.
    #[serde(with = "source")]
    pub source: Source,
    /// The beginning of its text.
    pub excerpt: Text,
    /// Its label.
    pub label: Names,
    /// Whether the step's screener left it in, or nothing else explains one of its taints.
    #[serde(default = "relevant", skip_serializing_if = "is_relevant")]
    pub relevant: bool,
    /// The values of the call that occur in it: a hint at where they come from, and no evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<Quote>,
    /// For the user's question alone: its text, as far as a question shows it. Empty for descriptions of tools.
    #[serde(skip)]
    pub text: Text,
    /// For the user's question alone: its writers, as far as the rules tell them.
    #[serde(skip)]
    pub writers: Vec<String>,
}

/// A value of a call that occurs in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// The argument, as a path.
    pub argument: String,
    /// The value, word for word, with the text around it.
    pub text: Text,
    /// For the user's question alone: where the value is in it, in bytes.
    #[serde(skip)]
    pub place: Range<usize>,
}

/// Traces say only what is not.
fn relevant() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_relevant(relevant: &bool) -> bool {
    *relevant
}

impl Cause {
    /// Causes as the trace and the user's question show them.
    pub fn all(causes: &[ifc::Cause], lattice: &Lattice) -> Vec<Self> {
        let one = |cause: &ifc::Cause| Self {
            region: cause.region.0,
            source: cause.source.clone(),
            excerpt: Text::reveal_tcb(&cause.excerpt),
            label: lattice.describe(&cause.excerpt.label()),
            relevant: cause.relevant,
            quotes: Vec::new(),
            text: Text::default(),
            writers: Vec::new(),
        };
        causes.iter().map(one).collect()
    }

    /// Drops what is for the user's question alone: the trace has no results.
    pub(crate) fn keep_recorded(&mut self) {
        (self.text, self.writers) = (Text::default(), Vec::new());
        for quote in &mut self.quotes {
            quote.place = Range::default();
        }
    }
}

/// Untrusted text that an answer may depend on, of one kind and label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerSource {
    /// Where it comes from.
    #[serde(with = "source")]
    pub source: Source,
    /// Its label.
    pub label: Names,
    /// Whether the step's screener left some of it in.
    #[serde(default = "relevant", skip_serializing_if = "is_relevant")]
    pub relevant: bool,
    /// Parts of the answer that occur in it: runs of 32 letters and digits or more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<Text>,
}

/// A region and how strongly a draft depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The region's number in the history.
    pub region: u32,
    /// Where its text comes from.
    #[serde(with = "source")]
    pub source: Source,
    /// The beginning of its text.
    pub excerpt: Text,
    /// Its label.
    pub label: Names,
    /// From 0 to 1.
    pub score: f32,
}

impl Score {
    /// A trace is read by people: of a longer history they see the beginning. As many regions are
    /// named as relevant, too.
    pub const MOST: usize = 256;

    /// What a reader needs to know a region again, and its score.
    pub fn new(region: RegionRef<'_>, score: f32, lattice: &Lattice) -> Self {
        Self {
            region: region.id.0,
            excerpt: Text::reveal_tcb(&region.excerpt()),
            label: lattice.describe(region.label),
            source: region.source,
            score,
        }
    }
}

/// What a completion cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// How many of them were reused from a cached prefix.
    pub cached_tokens: u32,
    /// Generated tokens.
    pub completion_tokens: u32,
    /// Milliseconds to the first token, where known.
    pub first_token_ms: Option<u64>,
    /// Milliseconds in all.
    pub total_ms: u64,
}

impl From<crate::Usage> for Usage {
    fn from(usage: crate::Usage) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            completion_tokens: usage.completion_tokens,
            first_token_ms: usage.time_to_first_token.map(ms),
            total_ms: ms(usage.total_time),
        }
    }
}

/// A source is written in words.
mod source {
    use ifc::Source;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(source: &Source, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(source)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Source, D::Error> {
        let words = String::deserialize(from)?;
        words.parse().map_err(D::Error::custom)
    }
}

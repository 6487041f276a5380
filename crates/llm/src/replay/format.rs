//! The lines of a record, and the digest that names a request.

use std::time::Duration;

use hub::{AnswerShape, Completion, CompletionRequest, ProposedCall, Purpose, StopReason, Usage};
use ifc::PromptMessage;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The format's version; it changes with the digests or the fields.
const VERSION: u32 = 1;

/// What identifies a request: a digest of all of it, and one of each part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fingerprint {
    /// SHA-256, in hexadecimal, of the parts' digests.
    pub(super) digest: String,
    /// Each part's name and SHA-256.
    parts: Vec<(String, String)>,
}

/// One answered request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    version: u32,
    pub(super) fingerprint: Fingerprint,
    provider: String,
    text: String,
    calls: Vec<Call>,
    stop: Stop,
    usage: Cost,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    arguments: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stop {
    End,
    Length,
    Repetition,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cost {
    prompt_tokens: u32,
    cached_tokens: u32,
    completion_tokens: u32,
    first_token_ns: Option<u64>,
    total_ns: u64,
}

impl Fingerprint {
    pub(super) fn of(request: &CompletionRequest) -> Self {
        let mut parts = vec![
            ("the purpose".to_owned(), hash(&[purpose(request.purpose)])),
            ("the answer's shape".to_owned(), shape(&request.shape)),
            (
                "the token limit".to_owned(),
                hash(&[&request.max_tokens.to_string()]),
            ),
        ];
        for tool in request.prompt.tools() {
            let digest = hash(&[&tool.name, &tool.description, &tool.parameters]);
            parts.push((format!("the tool `{}`", tool.name), digest));
        }
        for (number, message) in (1..).zip(request.prompt.messages()) {
            parts.push((format!("message {number}"), self::message(message)));
        }
        let digests: Vec<&str> = parts.iter().map(|(_, digest)| digest.as_str()).collect();
        Self {
            digest: hash(&digests),
            parts,
        }
    }

    /// The first part in which another request differs from this one.
    pub(super) fn first_difference(&self, other: &Self) -> String {
        let longer = if self.parts.len() > other.parts.len() {
            &self.parts
        } else {
            &other.parts
        };
        let pairs = self.parts.iter().zip(&other.parts);
        let common = pairs.take_while(|(mine, theirs)| mine == theirs).count();
        let name = longer.get(common).map(|(name, _)| name.clone());
        name.unwrap_or_else(|| "nothing, but its answer is used: it".to_owned())
    }
}

impl Line {
    pub(super) fn new(fingerprint: Fingerprint, provider: &str, completion: &Completion) -> Self {
        let usage = &completion.usage;
        Self {
            version: VERSION,
            fingerprint,
            provider: provider.to_owned(),
            text: completion.text.clone(),
            calls: completion
                .calls
                .iter()
                .map(|call| Call {
                    tool: call.tool.clone(),
                    arguments: call.arguments.clone(),
                })
                .collect(),
            stop: match completion.stop {
                StopReason::End => Stop::End,
                StopReason::Length => Stop::Length,
                StopReason::Repetition => Stop::Repetition,
            },
            usage: Cost {
                prompt_tokens: usage.prompt_tokens,
                cached_tokens: usage.cached_tokens,
                completion_tokens: usage.completion_tokens,
                first_token_ns: usage.time_to_first_token.map(nanos),
                total_ns: nanos(usage.total_time),
            },
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let line: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if line.version == VERSION {
            Ok(line)
        } else {
            Err(format!("version {} is not {VERSION}", line.version))
        }
    }

    pub(super) fn completion(&self) -> Completion {
        Completion {
            text: self.text.clone(),
            calls: self
                .calls
                .iter()
                .map(|call| ProposedCall {
                    tool: call.tool.clone(),
                    arguments: call.arguments.clone(),
                })
                .collect(),
            stop: match self.stop {
                Stop::End => StopReason::End,
                Stop::Length => StopReason::Length,
                Stop::Repetition => StopReason::Repetition,
            },
            usage: Usage {
                prompt_tokens: self.usage.prompt_tokens,
                cached_tokens: self.usage.cached_tokens,
                completion_tokens: self.usage.completion_tokens,
                time_to_first_token: self.usage.first_token_ns.map(Duration::from_nanos),
                total_time: Duration::from_nanos(self.usage.total_ns),
            },
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Step => "step",
        Purpose::Draft => "draft",
        Purpose::Judge => "judge",
        Purpose::Plan => "plan",
        Purpose::Summary => "summary",
        Purpose::Facts => "facts",
        Purpose::Sampling => "sampling",
    }
}

fn shape(shape: &AnswerShape) -> String {
    match shape {
        AnswerShape::TextOrCalls => hash(&["text or calls"]),
        AnswerShape::Text => hash(&["text"]),
        AnswerShape::Calls => hash(&["calls"]),
        AnswerShape::Json { schema } => hash(&["json", schema]),
    }
}

fn message(message: &PromptMessage) -> String {
    match message {
        PromptMessage::System(text) => hash(&["system", text]),
        PromptMessage::User(text) => hash(&["user", text]),
        PromptMessage::Assistant { text, calls } => {
            let calls = calls.iter().flat_map(|call| {
                [
                    call.id.as_str(),
                    call.tool.as_str(),
                    call.arguments.as_str(),
                ]
            });
            let fields: Vec<&str> = ["assistant", text].into_iter().chain(calls).collect();
            hash(&fields)
        }
        PromptMessage::Tool {
            call,
            tool,
            content,
        } => hash(&["tool", call, tool, content]),
    }
}

/// SHA-256 of the fields, each led by its length, so that no two lists run together.
fn hash(fields: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for field in fields {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field.as_bytes());
    }
    let digest = hasher.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! The frames, one enum for each direction.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::{FailureReason, Form, Quote, Refusal, Reply, Wish};

/// What the hub tells a spoke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HubFrame {
    /// Start the app. Once, and first; answered by `Ready` or `AppFailed`.
    Start {
        /// What to run.
        app: AppCommand,
        /// What to allow it.
        limits: AppLimits,
        /// What to offer it beyond being called.
        offer: Offer,
    },
    /// Start a program with the spoke's own standard streams in the place of an app. Once, and first; answered by `Running`
    /// or `AppFailed`.
    Run {
        /// What to run.
        program: AppCommand,
    },
    /// Send a signal to the program's process group.
    Signal {
        /// The signal's number.
        signal: u8,
    },
    /// Call a tool. Answered by exactly one `Result` or `CallFailed` with the same id, or by
    /// `AppFailed`, which ends all calls.
    Call {
        /// Chosen by the hub, not used by another running call.
        id: u64,
        /// A tool of the `Ready` frame.
        tool: String,
        /// The arguments: JSON text of an object.
        arguments: String,
        /// The time that the app has for the answer, in milliseconds.
        timeout_ms: u64,
        /// The span that the app's own spans belong to (W3C Trace Context), if it may know. A resource and a prompt are
        /// asked for without it.
        traceparent: Option<String>,
    },
    /// Give up a call. It is still answered, by `CallFailed` with `Cancelled` unless its answer was
    /// on the way already.
    Cancel {
        /// The call's id. An unknown one is ignored: its answer crossed this frame.
        id: u64,
    },
    /// The user is asked about a connection of the app: until `Resume` or the end of this call, no time of the app's calls
    /// passes. The hub counts for itself, and sends this so that the spoke does not end an app that waits.
    Pause {
        /// The id of the call that runs meanwhile. An unknown one is ignored: its answer crossed this frame.
        id: u64,
    },
    /// The question is settled.
    Resume {
        /// The call's id.
        id: u64,
    },
    /// The answer to a `Request`.
    Reply {
        /// The request's number. An unknown one is ignored: the end of its call crossed this frame.
        request: u64,
        /// The answer.
        reply: Reply,
    },
    /// End the app and the spoke.
    Stop,
}

/// What a spoke tells the hub. The hub trusts none of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SpokeFrame {
    /// The app runs and offers these tools. The list is final: what an app adds later cannot be called, and
    /// what it says to have changed no longer can be, so what was reviewed at the start stays what can be
    /// called.
    Ready {
        /// Who the app says it is.
        server: ServerInfo,
        /// What it offers.
        tools: Vec<ToolDescription>,
    },
    /// The program of `Run` has been started. Its end is an `AppFailed`.
    Running,
    /// The program was stopped, as by Ctrl-Z. It goes on with a `Signal`.
    Stopped {
        /// The number of the signal that stopped it.
        signal: u8,
    },
    /// A call's result.
    Result {
        /// The call's id.
        id: u64,
        /// The result as text, at most [`crate::limits::MAX_RESULT_BYTES`].
        content: String,
        /// Whether the app calls its own result an error.
        is_error: bool,
        /// What the app says of the result's label: at most [`crate::limits::MAX_CLAIMS`], each at most
        /// [`crate::limits::MAX_CLAIM_BYTES`]. It can only restrict.
        claims: Vec<String>,
        /// Its images, each as base64: at most [`crate::limits::MAX_IMAGES`], and together at most
        /// [`crate::limits::MAX_IMAGES_BYTES`].
        images: Vec<String>,
        /// The result as the app wrote it, if [`Offer::exact`] asks for it and the result is one of a tool of the app's own:
        /// JSON text of an object, at most [`crate::limits::MAX_EXACT_BYTES`]. Then there are no `images`: they are in it.
        exact: Option<String>,
    },
    /// A call has no result. The app may go on.
    CallFailed {
        /// The call's id.
        id: u64,
        /// Why.
        reason: FailureReason,
    },
    /// The app asks the user something while it works on a call. One at a time for each call, answered by
    /// exactly one `Reply`, unless the call ends first.
    Request {
        /// The id of the call, which has no result yet.
        call: u64,
        /// The request's number, never used before.
        request: u64,
        /// What it asks the user.
        form: Form,
    },
    /// The app says how far it has come with a call.
    Progress {
        /// The id of the call, which has no result yet.
        call: u64,
        /// What it says.
        progress: Progress,
    },
    /// The app asked for something, or offers something, that is not passed on, or not as it is. Sent when `times` is a
    /// power of two, so that an app that asks without end makes few of these, and once for all tools of a list.
    Refused {
        /// What it asked for.
        wish: Wish,
        /// Why it is not passed on.
        why: Refusal,
        /// How often this was so.
        times: u64,
        /// What the app wrote, such as the names of the tools, if that says which it is.
        said: Quote,
    },
    /// The app is gone and with it every running call. The spoke exits after this frame.
    AppFailed {
        /// Why.
        reason: FailureReason,
        /// The end of what the app wrote to stderr.
        stderr: Quote,
    },
}

/// How far an app has come with a call, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// How much is done.
    pub progress: Number,
    /// How much there is, if the app knows.
    pub total: Option<Number>,
    /// Untrusted text, if there is one.
    pub message: Option<Quote>,
}

/// What to run. Paths and values are UTF-8: the hub refuses others in its configuration.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppCommand {
    /// Program and arguments; the program is an absolute path or is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment of the app; nothing is added or inherited.
    pub env: BTreeMap<String, String>,
    /// The app's directory, absolute, as seen from inside the sandbox.
    pub cwd: String,
}

impl fmt::Debug for AppCommand {
    /// Values of variables may be secrets, and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppCommand")
            .field("argv", &self.argv)
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// What an app is offered beyond being called. Questions to the user can always be asked: the hub decides on
/// each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Whether its resources can be listed and read, by tools of their own.
    pub resources: bool,
    /// Whether its prompts can be listed and read, by tools of their own.
    pub prompts: bool,
    /// Whether results come as the app wrote them as well, for a client of the hub that reads them itself.
    pub exact: bool,
    /// Which of its tools are used.
    pub tools: ToolFilter,
}

/// Which tools of an app are used, by patterns of their names in which `*` stands for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFilter {
    /// The tools that are used; `None` is all.
    pub only: Option<Vec<String>>,
    /// Those of them that are not used all the same.
    pub hidden: Vec<String>,
}

impl ToolFilter {
    /// Whether a text is such a pattern.
    pub fn is_pattern(text: &str) -> bool {
        is_tool_name(&text.replace('*', "x"))
    }

    /// Whether a tool of this name is used. One that is not is as if the app had none of this name.
    pub fn shows(&self, tool: &str) -> bool {
        let is_in = |patterns: &[String]| patterns.iter().any(|it| Self::fits(it, tool));
        self.only.as_deref().is_none_or(is_in) && !is_in(&self.hidden)
    }

    /// Its patterns that fit none of these tools.
    pub fn unmatched<'f>(&'f self, tools: &[&str]) -> impl Iterator<Item = &'f str> {
        let all = self.only.iter().flatten().chain(&self.hidden);
        all.map(String::as_str)
            .filter(|it| !tools.iter().any(|tool| Self::fits(it, tool)))
    }

    /// Whether a name is the pattern, with any text in the place of each `*`.
    pub fn fits(pattern: &str, name: &str) -> bool {
        let Some((start, rest)) = pattern.split_once('*') else {
            return pattern == name;
        };
        let Some(mut name) = name.strip_prefix(start) else {
            return false;
        };
        let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        // The first place that fits leaves the most for the parts after it.
        for part in middle.split('*') {
            let Some((_, after)) = name.split_once(part) else {
                return false;
            };
            name = after;
        }
        name.ends_with(end)
    }
}

/// What to allow an app. Each value may be lower than the protocol's limit, never higher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppLimits {
    /// The time from spawn to the complete list of tools, in milliseconds.
    pub start_timeout_ms: u64,
    /// Calls that run at the same time.
    pub max_concurrent_calls: u32,
    /// Longest line on the app's stdout, in bytes.
    pub max_line_bytes: u32,
    /// Longest result text, in bytes.
    pub max_result_bytes: u32,
}

impl Default for AppLimits {
    /// Generous for real servers: an interpreter that starts cold on a busy machine, a handful of
    /// calls at once, and one image of three megabytes as base64.
    fn default() -> Self {
        Self {
            start_timeout_ms: 30_000,
            max_concurrent_calls: 8,
            max_line_bytes: 4 << 20,
            max_result_bytes: 1 << 20,
        }
    }
}

/// Who an app says it is: its own words, for display only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerInfo {
    /// The name that the app gives itself. Never an identity: that is the socket.
    pub name: String,
    /// The version that the app gives itself.
    pub version: String,
}

/// A tool in the app's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolDescription {
    /// Unique within the app; see [`is_tool_name`].
    pub name: String,
    /// Untrusted text of at most [`crate::limits::MAX_DESCRIPTION_BYTES`].
    pub description: String,
    /// JSON Schema of the arguments, as JSON text of an object.
    pub input_schema: String,
    /// What the app says that the tool does. Nothing is allowed because of it.
    pub hints: Hints,
}

impl ToolDescription {
    /// The tool as it is compared with another list: its schema without the order of members and of the entries of
    /// `required`, `enum` and `type`, which means nothing. A server that has these in sets or hash maps lists them in
    /// another order each time.
    #[must_use]
    pub fn without_orders(&self) -> Self {
        let mut tool = self.clone();
        if let Ok(mut schema) = serde_json::from_str::<Value>(&tool.input_schema) {
            schema.sort_all_objects();
            sort_sets(&mut schema);
            tool.input_schema = schema.to_string();
        }
        tool
    }
}

fn sort_sets(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                sort_sets(value);
                if let ("required" | "enum" | "type", Value::Array(entries)) = (&**name, value) {
                    entries.sort_by_key(Value::to_string);
                }
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(sort_sets),
        _ => {}
    }
}

/// What an app says that a tool does (MCP's annotations); `None` where it says nothing. They come from the author of the
/// tool, so they can only restrict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// A second call like the first changes nothing more.
    pub idempotent: Option<bool>,
    /// It speaks with strangers.
    pub open_world: Option<bool>,
}

/// Whether a name can be a tool's: 1 to 128 letters, digits, `_`, `-`, `.`, `/` of ASCII. No spaces,
/// no quotes and no look-alike characters, because names stand in prompts, questions and policies.
pub fn is_tool_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= crate::limits::MAX_TOOL_NAME_BYTES
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_without_meaning_are_not_compared() {
        let first = r#"{"required":["x","y"],"properties":{"x":{"enum":[1,"b"]},"y":{"prefixItems":[{"type":["null","object"]},{}]}}}"#;
        let of = |schema: &str| {
            let tool = ToolDescription {
                name: "a".to_owned(),
                description: String::new(),
                input_schema: schema.to_owned(),
                hints: Hints::default(),
            };
            tool.without_orders()
        };
        for (now, is_same) in [
            (
                r#"{"properties":{"y":{"prefixItems":[{"type":["object","null"]},{}]},"x":{"enum":["b",1]}},"required":["y","x"]}"#,
                true,
            ),
            (&first.replace(r#"["x","y"]"#, r#"["x"]"#), false),
            (&first.replace(r#"[1,"b"]"#, r#"[1,"b",2]"#), false),
            (
                &first.replace(
                    r#"[{"type":["null","object"]},{}]"#,
                    r#"[{},{"type":["null","object"]}]"#,
                ),
                false,
            ),
        ] {
            assert_eq!(of(first) == of(now), is_same, "{now}");
        }
    }
}

//! A recorded run as a script: what the model said, and what its calls returned.

use anyhow::{Context, bail};

use crate::runs::{Message, RecordedCall, Recording};

/// What a recorded run's parts say, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The developer's instructions.
    pub system: String,
    /// What the user asked for.
    pub user: String,
    /// What the model said, in order, with what its calls returned.
    pub turns: Vec<Turn>,
}

/// One message of the recorded model.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The text; may be empty.
    pub text: String,
    /// None in the final answer.
    pub calls: Vec<Call>,
}

/// One recorded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its number within the run.
    pub number: usize,
    /// The tool's name.
    pub tool: String,
    /// JSON text.
    pub arguments: String,
    /// What it returned; nothing if the run ended before.
    pub result: Option<Returned>,
}

/// What a call returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Returned {
    /// The result's text; the error's, where it is one.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

impl Script {
    /// The script of a recorded run.
    ///
    /// # Errors
    /// The run has not the form of a conversation: one system and one user message, then answers
    /// and results.
    pub fn new(recording: &Recording) -> anyhow::Result<Self> {
        let mut messages = recording.messages.iter();
        let Some(Message::System { content: system }) = messages.next() else {
            bail!("{} does not begin with a system message", recording.name());
        };
        let Some(Message::User { content: user }) = messages.next() else {
            bail!("{} has no user message", recording.name());
        };
        let mut script = Self {
            system: system.clone(),
            user: user.clone(),
            turns: Vec::new(),
        };
        let mut number = 0;
        for message in messages {
            script
                .push(message, &mut number)
                .with_context(|| recording.name())?;
        }
        Ok(script)
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.turns.iter().flat_map(|turn| &turn.calls)
    }

    /// The final answer; none if the run ended with calls.
    #[cfg(test)]
    pub(crate) fn answer(&self) -> Option<&str> {
        let last = self.turns.last()?;
        last.calls.is_empty().then_some(last.text.as_str())
    }

    fn push(&mut self, message: &Message, number: &mut usize) -> anyhow::Result<()> {
        match message {
            Message::Assistant {
                content,
                tool_calls,
            } => {
                let calls = tool_calls.iter().flatten().map(|call| {
                    *number += 1;
                    Call {
                        number: *number - 1,
                        tool: call.function.clone(),
                        arguments: arguments(call),
                        result: None,
                    }
                });
                self.turns.push(Turn {
                    calls: calls.collect(),
                    text: content.clone().unwrap_or_default(),
                });
            }
            Message::Tool {
                content,
                error,
                tool_call,
                ..
            } => {
                let arguments = arguments(tool_call);
                let turn = self.turns.last_mut().context("a result before any call")?;
                // Ids may be missing, so a result belongs to the first equal call that has none yet.
                let mut open = turn.calls.iter_mut().filter(|call| call.result.is_none());
                let call = open
                    .find(|call| call.tool == tool_call.function && call.arguments == arguments)
                    .context("a result of a call that was not made")?;
                call.result = Some(Returned {
                    text: error.as_ref().unwrap_or(content).clone(),
                    is_error: error.is_some(),
                });
            }
            Message::System { .. } | Message::User { .. } => bail!("a second instruction"),
        }
        Ok(())
    }
}

fn arguments(call: &RecordedCall) -> String {
    serde_json::Value::Object(call.args.clone()).to_string()
}

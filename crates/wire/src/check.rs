//! What a frame must hold to, beyond its type. Both directions, both ends.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::json::{self, JsonError};
use crate::limits::*;
use crate::{
    AppCommand, AppLimits, FieldKind, Form, HubFrame, Reply, ServerInfo, SpokeFrame,
    ToolDescription, is_tool_name,
};

/// A frame of one direction. Sealed: there are exactly [`HubFrame`] and [`SpokeFrame`].
pub trait Frame: Serialize + DeserializeOwned + sealed::Sealed {
    /// Checks the limits that the type alone does not hold.
    fn check(&self) -> Result<(), Violation>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::HubFrame {}
    impl Sealed for crate::SpokeFrame {}
}

/// A frame that its own limits forbid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A text or list is longer than its limit.
    #[error("{what} is longer than {limit}")]
    TooLong {
        /// Which part of the frame.
        what: &'static str,
        /// Its limit, in bytes or entries.
        limit: usize,
    },
    /// A number is outside of its range.
    #[error("{what} must be between 1 and {max}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// Its greatest value.
        max: u64,
    },
    /// A text that must be JSON is not, or goes too far.
    #[error("{what}: {problem}")]
    Json {
        /// Which text.
        what: &'static str,
        /// What is wrong with it.
        problem: JsonError,
    },
    /// A text has a form that its meaning does not allow.
    #[error("{0}")]
    Form(&'static str),
}

impl Frame for HubFrame {
    fn check(&self) -> Result<(), Violation> {
        match self {
            Self::Start { app, limits, .. } => {
                check_command(app)?;
                check_limits(limits)
            }
            Self::Run { program } => check_command(program),
            Self::Signal { signal } => within("signal", (*signal).into(), MAX_SIGNAL),
            Self::Call {
                tool,
                arguments,
                timeout_ms,
                traceparent,
                ..
            } => {
                check_tool_name(tool)?;
                let bytes = traceparent.as_ref().map_or(0, String::len);
                at_most("traceparent", bytes, MAX_TRACEPARENT_BYTES)?;
                object("arguments", arguments, MAX_ARGUMENTS_BYTES)?;
                within("timeout_ms", *timeout_ms, MAX_TIMEOUT_MS)
            }
            Self::Reply {
                reply: Reply::Accepted(answer),
                ..
            } => object("answer", answer, MAX_FORM_ANSWER_BYTES),
            Self::Reply { .. }
            | Self::Cancel { .. }
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::Stop => Ok(()),
        }
    }
}

impl Frame for SpokeFrame {
    fn check(&self) -> Result<(), Violation> {
        match self {
            Self::Ready { server, tools } => {
                check_server(server)?;
                check_tools(tools)
            }
            Self::Result {
                content,
                claims,
                images,
                exact,
                ..
            } => {
                at_most("result", content.len(), MAX_RESULT_BYTES)?;
                if let Some(exact) = exact {
                    object("exact result", exact, MAX_EXACT_BYTES)?;
                }
                at_most("images", images.len(), MAX_IMAGES)?;
                let bytes = images.iter().map(String::len);
                at_most("images together", bytes.sum(), MAX_IMAGES_BYTES)?;
                at_most("claims", claims.len(), MAX_CLAIMS)?;
                let mut claims = claims.iter();
                claims.try_for_each(|claim| at_most("claim", claim.len(), MAX_CLAIM_BYTES))
            }
            Self::Request { form, .. } => form.check(),
            // Quotes hold their limit by construction.
            Self::CallFailed { .. }
            | Self::Progress { .. }
            | Self::AppFailed { .. }
            | Self::Refused { .. }
            | Self::Running
            | Self::Stopped { .. } => Ok(()),
        }
    }
}

fn check_command(app: &AppCommand) -> Result<(), Violation> {
    at_most("argv", app.argv.len(), MAX_ARGV)?;
    at_most("env", app.env.len(), MAX_ENV)?;
    let texts = || {
        app.argv
            .iter()
            .chain(app.env.keys())
            .chain(app.env.values())
            .chain(std::iter::once(&app.cwd))
    };
    at_most("command", texts().map(String::len).sum(), MAX_COMMAND_BYTES)?;
    // System calls end a text at a zero byte, so no command can hold one.
    if texts().any(|text| text.contains('\0')) {
        return Err(Violation::Form("a command must not contain a zero byte"));
    }
    if app.argv.first().is_none_or(String::is_empty) {
        return Err(Violation::Form("a command needs a program"));
    }
    if app
        .env
        .keys()
        // In an environment the first `=` ends the name, and the rest of such a name would be taken for the value.
        .any(|name| name.is_empty() || name.contains('='))
    {
        return Err(Violation::Form(
            "a variable's name must not be empty or contain '='",
        ));
    }
    if !app.cwd.starts_with('/') {
        return Err(Violation::Form("the app's directory must be absolute"));
    }
    Ok(())
}

impl Form {
    /// Checks the limits that the type alone does not hold: the maker of one learns here whether it can be sent.
    pub fn check(&self) -> Result<(), Violation> {
        at_most("question", self.message.len(), MAX_QUESTION_BYTES)?;
        at_most("fields", self.fields.len(), MAX_FIELDS)?;
        let mut names = BTreeSet::new();
        let mut total_options = 0_usize;
        for field in &self.fields {
            // The answer is an object: with one name for two fields, one answer would count for both.
            if field.name.is_empty() || !names.insert(field.name.as_str()) {
                return Err(Violation::Form("each field needs a name of its own"));
            }
            if let FieldKind::Choice(options) | FieldKind::Choices(options) = &field.kind {
                total_options = total_options.saturating_add(options.len());
                if options.is_empty() {
                    // It could not be answered.
                    return Err(Violation::Form("a choice needs options"));
                }
            }
        }
        // Counted over the whole form: sixteen fields could otherwise have sixteen times as many.
        at_most("options", total_options, MAX_OPTIONS)?;
        // The first is the message, which has a limit of its own.
        for text in self.texts().skip(1) {
            at_most("text of a field", text.len(), MAX_FIELD_TEXT_BYTES)?;
        }
        let total = self.texts().map(str::len).sum();
        at_most("form", total, MAX_FORM_BYTES)
    }
}

fn check_limits(limits: &AppLimits) -> Result<(), Violation> {
    let calls = limits.max_concurrent_calls.into();
    within("start_timeout_ms", limits.start_timeout_ms, MAX_TIMEOUT_MS)?;
    within("max_concurrent_calls", calls, MAX_CONCURRENT_CALLS as u64)?;
    let (line, result) = (limits.max_line_bytes.into(), limits.max_result_bytes.into());
    within("max_line_bytes", line, MAX_LINE_BYTES as u64)?;
    within("max_result_bytes", result, MAX_RESULT_BYTES as u64)
}

fn check_server(server: &ServerInfo) -> Result<(), Violation> {
    let (name, version) = (server.name.len(), server.version.len());
    at_most("server name", name, MAX_SERVER_INFO_BYTES)?;
    at_most("server version", version, MAX_SERVER_INFO_BYTES)
}

fn check_tools(tools: &[ToolDescription]) -> Result<(), Violation> {
    at_most("tools", tools.len(), MAX_TOOLS)?;
    let mut names = BTreeSet::new();
    let mut total = 0_usize;
    for tool in tools {
        check_tool_name(&tool.name)?;
        // A call says the name alone, and rules are found by it.
        if !names.insert(tool.name.as_str()) {
            return Err(Violation::Form("two tools have the same name"));
        }
        let described = tool.description.len();
        at_most("tool description", described, MAX_DESCRIPTION_BYTES)?;
        object("input schema", &tool.input_schema, MAX_SCHEMA_BYTES)?;
        total = total.saturating_add(tool.described_bytes());
    }
    at_most("tools together", total, MAX_TOOLS_BYTES)
}

impl ToolDescription {
    /// What counts towards [`MAX_TOOLS_BYTES`].
    pub fn described_bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.input_schema.len()
    }
}

fn check_tool_name(name: &str) -> Result<(), Violation> {
    let wanted = "a tool's name has 1 to 128 letters, digits, '_', '-', '.', '/'";
    match is_tool_name(name) {
        true => Ok(()),
        false => Err(Violation::Form(wanted)),
    }
}

/// Checks JSON text of an object.
fn object(what: &'static str, text: &str, limit: usize) -> Result<(), Violation> {
    at_most(what, text.len(), limit)?;
    json::check_object(text).map_err(|problem| Violation::Json { what, problem })
}

fn at_most(what: &'static str, len: usize, limit: usize) -> Result<(), Violation> {
    match len <= limit {
        true => Ok(()),
        false => Err(Violation::TooLong { what, limit }),
    }
}

fn within(what: &'static str, value: u64, max: u64) -> Result<(), Violation> {
    match (1..=max).contains(&value) {
        true => Ok(()),
        false => Err(Violation::OutOfRange { what, max }),
    }
}

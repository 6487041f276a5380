//! Every limit of the protocol, each with its reason.
//!
//! Both ends check them: the sender so that a mistake is found where it is made, the receiver
//! because it does not trust the sender.

/// Bytes of the frame header: four of length, one of version.
pub const HEADER_BYTES: usize = 5;

/// Longest payload of a frame. JSON writes a control character as six bytes, so 16 MiB holds the
/// worst case of one [`MAX_RESULT_BYTES`] text and [`MAX_IMAGES_BYTES`] with room for the rest of the frame.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// Longest text of a tool result. A model reads a few hundred kilobytes at most; a longer result is
/// refused, not cut, because a cut result could hide the part that its labels depend on.
pub const MAX_RESULT_BYTES: usize = 1 << 20;

/// Most claims of an app about the label of one result.
pub const MAX_CLAIMS: usize = 32;

/// Longest such claim. It is a word of a vocabulary.
pub const MAX_CLAIM_BYTES: usize = 128;
/// Most images of one tool result. A step takes a few screenshots at most.
pub const MAX_IMAGES: usize = 16;

/// All images of one tool result as base64: what fits into one [`MAX_LINE_BYTES`] line of an app.
pub const MAX_IMAGES_BYTES: usize = 8 << 20;

/// Longest result as the app wrote it. JSON text in a frame has at most twice its length, so one fits beside the longest
/// text. It is also the default limit of an app's lines.
pub const MAX_EXACT_BYTES: usize = 4 << 20;

/// Longest JSON text of a call's arguments. A model never writes more; a file's content may.
pub const MAX_ARGUMENTS_BYTES: usize = 1 << 20;

/// Longest `traceparent`: version 00 of W3C Trace Context has exactly this length.
pub const MAX_TRACEPARENT_BYTES: usize = 55;

/// Most tools of one app that are listed; those beyond it are left out by name. Every tool costs prompt tokens, so a
/// configuration offers a model a part of a long list.
pub const MAX_TOOLS: usize = 1_024;

/// Longest tool name: what the MCP specification and the model providers allow at most.
pub const MAX_TOOL_NAME_BYTES: usize = 128;

/// Longest tool description. A longer one ends with a note that it was cut.
pub const MAX_DESCRIPTION_BYTES: usize = 64 << 10;

/// Longest JSON text of one tool's input schema.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Names, descriptions and schemas of all tools of an app together, so that `Ready` always fits in
/// a frame, even if every byte needs six.
pub const MAX_TOOLS_BYTES: usize = 2 << 20;

/// Most `Refused` frames of one spoke. There are few pairs of wish and reason, and each pair is reported only
/// when its count reaches a power of two.
pub const MAX_REFUSED: usize = 1_024;

/// Deepest nesting of any JSON text that an app writes. Half of serde_json's own recursion limit
/// (128), so that ours is always the one that speaks.
pub const MAX_JSON_DEPTH: usize = 64;

/// Most values in one JSON text. A parsed value costs tens of bytes, so without this limit a few
/// megabytes of `0,0,0` become hundreds.
pub const MAX_JSON_NODES: usize = 200_000;

/// Deepest nesting of a frame itself: texts inside are strings, so frames are flat.
pub const MAX_FRAME_DEPTH: usize = 16;

/// Most values in a frame: the largest legal one has [`MAX_TOOLS`] tools of about nine values.
pub const MAX_FRAME_NODES: usize = 16_384;

/// Longest text of an app that is quoted in a failure: an error message can hold a stack trace or a page.
pub const MAX_QUOTE_BYTES: usize = 64 << 10;

/// What is kept of the end of an app's stderr.
pub const MAX_STDERR_BYTES: usize = 2 << 10;

/// Longest server name or version.
pub const MAX_SERVER_INFO_BYTES: usize = 256;

/// Most words in a command line.
pub const MAX_ARGV: usize = 256;

/// Most variables in an app's environment.
pub const MAX_ENV: usize = 256;

/// Command line, environment and directory of an app together. Linux allows two megabytes.
pub const MAX_COMMAND_BYTES: usize = 256 << 10;

/// Highest number of a signal on Linux.
pub const MAX_SIGNAL: u64 = 64;

/// Longest time that a call or a start may be given: one hour. Nothing interactive waits longer, and
/// a wrong unit (seconds for milliseconds) is found.
pub const MAX_TIMEOUT_MS: u64 = 3_600_000;

/// Longest line that an app may ever be allowed to write. Larger than a result because binary
/// content arrives as base64 and is only noted, not passed on.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// Most calls that one app may ever be allowed to work on at once.
pub const MAX_CONCURRENT_CALLS: usize = 64;

/// Longest message of an app's question to the user. A longer one is refused, not cut: what is cut could
/// be what the answer depends on.
pub const MAX_QUESTION_BYTES: usize = 2 << 10;

/// Most fields of a form. More is a web page, not a question.
pub const MAX_FIELDS: usize = 16;

/// Longest name, title or description of a field or an option.
pub const MAX_FIELD_TEXT_BYTES: usize = 512;

/// Most options of all fields of a form together: a list of countries has 250.
pub const MAX_OPTIONS: usize = 256;

/// All texts of a form together, so that a person can read it.
pub const MAX_FORM_BYTES: usize = 16 << 10;

/// Longest answer of one field. A person types it.
pub const MAX_FIELD_ANSWER_BYTES: usize = 4 << 10;

/// Longest answer of a form: all of its fields, each byte written with up to six.
pub const MAX_FORM_ANSWER_BYTES: usize = 512 << 10;

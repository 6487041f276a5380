//! A function for each parser of bytes that somebody else wrote: it must not panic on any, and asserts what must be so of
//! whatever is read.

// The product's files have tests of their own, which are run where they belong.
#![cfg(not(test))]

mod answer_addresses;
mod arguments;
mod chat_request;
mod classifier;
mod config_load;
mod conversation;
mod gguf;
mod isc_message;
mod isc_schema;
mod llm_answer;
mod llm_embedded;
mod mcp_form;
mod mcp_guard;
mod names_dns;
mod names_first_bytes;
mod names_web_url;
mod policy_formats;
mod policy_label;
mod policy_pattern;
mod remote_challenge;
mod store_query;
mod wire_decode;

/// A target: its name, and what is done with bytes. It says whether its parser accepted them: whether what is asserted of
/// what is read was asserted of something.
pub type Target = (&'static str, fn(&[u8]) -> bool);

/// All of them.
pub const TARGETS: &[Target] = &[
    ("answer_addresses", answer_addresses::answer_addresses),
    ("arguments", arguments::arguments),
    ("chat_request", chat_request::chat_request),
    ("classifier", classifier::classifier),
    ("config_load", config_load::config_load),
    ("gguf", gguf::gguf),
    ("isc_message", isc_message::isc_message),
    ("isc_schema", isc_schema::isc_schema),
    ("llm_answer", llm_answer::llm_answer),
    ("llm_calls", llm_embedded::llm_calls::llm_calls),
    ("llm_grammar", llm_embedded::llm_grammar::llm_grammar),
    ("messages_request", chat_request::messages_request),
    ("mcp_form", mcp_form::mcp_form),
    ("mcp_guard", mcp_guard::mcp_guard),
    ("names_dns", names_dns::names_dns),
    ("names_first_bytes", names_first_bytes::names_first_bytes),
    ("names_web_url", names_web_url::names_web_url),
    ("policy_formats", policy_formats::policy_formats),
    ("policy_label", policy_label::policy_label),
    ("policy_pattern", policy_pattern::policy_pattern),
    ("remote_challenge", remote_challenge::remote_challenge),
    ("responses_request", chat_request::responses_request),
    ("store_query", store_query::store_query),
    ("wire_decode", wire_decode::wire_decode),
];

/// Runs the target of this name on these bytes, and says whether its parser accepted them.
///
/// # Panics
/// There is none of this name, or the bytes show a mistake.
pub fn run(name: &str, bytes: &[u8]) -> bool {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.expect("there is a target of this name");
    target(bytes)
}

//! The names of tools in requests and answers.

use std::collections::BTreeSet;

use ifc::{Prompt, PromptMessage};

use crate::provider::{ErrorKind, ProviderError};

/// Longest tool name that the APIs take.
const NAME_LIMIT: usize = 64;

/// Tool names as these APIs take them: MCP allows longer ones and more characters.
#[derive(Debug)]
pub(super) struct ToolNames {
    /// Our name and the sent one.
    pairs: Vec<(String, String)>,
    /// Our names of the tools that are sent, in their order.
    listed: Vec<String>,
}

impl ToolNames {
    pub(super) fn new(prompt: &Prompt) -> Self {
        // Past calls too: their tool may no longer be listed, and the history must still be valid for the API.
        let called = prompt.messages().iter().flat_map(|message| match message {
            PromptMessage::Assistant { calls, .. } => calls.as_slice(),
            _ => &[],
        });
        let listed = || prompt.tools().iter().map(|tool| tool.name.as_str());
        let called = called.map(|call| call.tool.as_str());
        Self {
            listed: listed().map(str::to_owned).collect(),
            ..Self::of(listed().chain(called).collect())
        }
    }

    fn of(names: BTreeSet<&str>) -> Self {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        // Names that fit go first and stay as they are, so that no substitute can take one of them.
        let (fit, unfit): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| fits(name));
        let mut pairs = Vec::new();
        for name in fit.into_iter().chain(unfit) {
            let mut sent = name.to_owned();
            let mut number = 0u32;
            // Numbered until it is free: two tools under one sent name would let a call reach the wrong one.
            while !fits(&sent) || taken.contains(&sent) {
                number += 1;
                sent = substitute(name, number);
            }
            taken.insert(sent.clone());
            pairs.push((name.to_owned(), sent));
        }
        Self {
            pairs,
            listed: Vec::new(),
        }
    }

    /// Adds to a refusal the tool for which the whole request was refused, by the name or the place that the server gives.
    pub(super) fn blame(&self, mut error: ProviderError) -> ProviderError {
        let ErrorKind::Status {
            code: 400 | 422,
            message,
            ..
        } = &mut error.kind
        else {
            return error;
        };
        let is_named = |name: &&String| {
            let sent = self.sent(name);
            ["'", "\"", "`"]
                .iter()
                .any(|quote| message.contains(&format!("{quote}{sent}{quote}")))
        };
        let place = ["function_declarations[", "tools[", "tools."];
        let place = place.iter().find_map(|before| {
            let (_, rest) = message.split_once(before)?;
            let end = rest.find(|it: char| !it.is_ascii_digit())?;
            rest.get(..end)?.parse::<usize>().ok()
        });
        let named = self.listed.iter().find(is_named);
        if let Some(tool) = named.or_else(|| self.listed.get(place?)) {
            let words = format!(
                " (it refuses the tool `{tool}`; leave that out with hidden_tools at its app)"
            );
            message.push_str(&words);
        } else if message.contains("'tools': array too long") {
            message.push_str(" (leave tools out with only_tools or hidden_tools at an app)");
        }
        error
    }

    pub(super) fn sent<'a>(&'a self, name: &'a str) -> &'a str {
        let pair = self.pairs.iter().find(|(ours, _)| ours == name);
        pair.map_or(name, |(_, sent)| sent)
    }

    /// All of them, as they are sent.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(_, sent)| sent.as_str())
    }

    /// Our name of a tool that the model called; unknown names stay as they are.
    pub(super) fn received<'a>(&'a self, name: &'a str) -> &'a str {
        let pair = self.pairs.iter().find(|(_, sent)| sent == name);
        pair.map_or(name, |(ours, _)| ours)
    }
}

fn fits(name: &str) -> bool {
    (1..=NAME_LIMIT).contains(&name.len()) && name.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn substitute(name: &str, number: u32) -> String {
    let suffix = format!("_{number}");
    let kept = name
        .chars()
        .map(|c| {
            if u8::try_from(c).is_ok_and(is_name_byte) {
                c
            } else {
                '_'
            }
        })
        .take(NAME_LIMIT - suffix.len());
    kept.chain(suffix.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfit_tool_names_are_sent_in_another_way_and_come_back() {
        let long = "x".repeat(80);
        let names = ToolNames::of(["mail.send", "mail_send_1", "mail/send", "send", &long].into());
        let mut sent = BTreeSet::new();
        for name in ["mail.send", "mail_send_1", "mail/send", "send", &long] {
            assert!(fits(names.sent(name)), "{name}");
            assert!(sent.insert(names.sent(name).to_owned()), "{name}");
            assert_eq!(names.received(names.sent(name)), name);
        }
        assert_eq!(names.sent("send"), "send");
        assert_eq!(names.sent("mail_send_1"), "mail_send_1");
        assert_eq!(names.received("unknown"), "unknown");
    }
}

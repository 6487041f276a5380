//! What the caller of one completion may wish for beyond the prompt.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ifc::Label;
use serde_json::{Map, Value, json};

use crate::{ApiKey, Dialect};

/// Wishes for one completion that are not part of the turn machine's request: how to sample, and
/// on whose behalf to ask.
///
/// They stand beside the [`hub::CompletionRequest`], not in it, because the machine neither reads
/// nor makes them: they are the words of the program that asks. Where such a program copies labelled
/// text into them, [`RequestOptions::labels`] says so. Providers that cannot follow a wish pass over it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestOptions {
    /// The model, in place of the configured one; see [`RequestOptions::bearer`].
    pub model: Option<String>,
    /// The key, in place of the configured one. Like the model, only a provider that was told to
    /// takes it ([`crate::HttpConfig::pass_through`]): a key is meant for one server.
    pub bearer: Option<ApiKey>,
    /// The limit on generated tokens.
    pub token_limit: TokenLimit,
    /// Whether the answer is streamed; as configured if not said.
    pub stream: Option<bool>,
    /// Which calls are wished, where the request leaves the choice to the model.
    pub tool_choice: Option<ToolChoice>,
    /// Whether arguments must fit a tool's parameters exactly, by the tool's name, where that is said.
    pub strict: BTreeMap<String, bool>,
    /// The dialect of `members` and `beta`. A provider that speaks another one passes over both, but for the settings of chat
    /// completions that its dialect has too.
    pub dialect: Dialect,
    /// More members of the body: `temperature`, `top_p`, `stop`, `thinking`, `response_format`, and any that the API does not
    /// have. They come before the provider's own members of the same name.
    pub members: Map<String, Value>,
    /// The value of the header `anthropic-beta`: the features that some of `members` belong to.
    pub beta: Option<String>,
    /// The value of the header `traceparent`: the span that the server's spans belong to.
    pub traceparent: Option<String>,
    /// The labels of `model`, of `beta`, of `traceparent` and of `members`, by name; a name that is not here has the label ⊥. The broker sends none
    /// that is above the label of the prompt.
    pub labels: BTreeMap<String, Label>,
}

impl RequestOptions {
    /// Restricts what has this name: it has this label as well.
    pub fn restrict(&mut self, name: &str, label: &Label) {
        let own = self.labels.entry(name.to_owned()).or_default();
        *own = own.join(label);
    }

    /// The same without what is above this label.
    pub(crate) fn below(&self, label: &Label) -> Cow<'_, Self> {
        let mut options = Cow::Borrowed(self);
        for (name, own) in &self.labels {
            if own.flows_to(label) {
                continue;
            }
            match name.as_str() {
                "model" => options.to_mut().model = None,
                "beta" => options.to_mut().beta = None,
                "traceparent" => options.to_mut().traceparent = None,
                _ => {}
            }
            // A member can have any name, those of the others included.
            options.to_mut().members.remove(name);
        }
        options
    }

    /// The same in this dialect: without what belongs to another one, but for the settings of chat completions that it has as
    /// well.
    pub(crate) fn in_dialect(&self, dialect: Dialect) -> Cow<'_, Self> {
        let mut options = Cow::Borrowed(self);
        if self.dialect != dialect && (self.beta.is_some() || !self.members.is_empty()) {
            let options = options.to_mut();
            options.beta = None;
            options.members = match self.dialect {
                Dialect::Chat => translated(&self.members, dialect),
                Dialect::Messages | Dialect::Responses => Map::new(),
            };
        }
        options
    }
}

/// Settings of chat completions in another dialect; those that it does not have are left out.
fn translated(members: &Map<String, Value>, dialect: Dialect) -> Map<String, Value> {
    let (mut out, mut text) = (Map::new(), Map::new());
    let is_messages = dialect == Dialect::Messages;
    for (name, value) in members {
        let (to, name, value) = match (name.as_str(), is_messages) {
            // Anthropic's newer models take one of the two, and none takes a temperature above 1.
            ("top_p", true) if members.contains_key("temperature") => continue,
            ("temperature", true) if value.as_f64().is_some_and(|it| it > 1.0) => {
                (&mut out, "temperature", json!(1))
            }
            ("temperature" | "top_p", _) => (&mut out, name.as_str(), value.clone()),
            ("stop", true) => {
                let list = value.as_array().cloned();
                let list = list.unwrap_or_else(|| vec![value.clone()]);
                (&mut out, "stop_sequences", list.into())
            }
            ("service_tier", false) | ("parallel_tool_calls", _) => {
                (&mut out, name.as_str(), value.clone())
            }
            ("reasoning_effort", false) => (&mut out, "reasoning", json!({"effort": value})),
            ("verbosity", false) => (&mut text, "verbosity", value.clone()),
            ("response_format", _) => match (value.get("json_schema"), is_messages) {
                (Some(Value::Object(format)), false) => {
                    let mut format = format.clone();
                    format.insert("type".to_owned(), json!("json_schema"));
                    (&mut text, "format", format.into())
                }
                (Some(format), true) => {
                    let schema = format.get("schema");
                    (
                        &mut text,
                        "format",
                        json!({"type": "json_schema", "schema": schema}),
                    )
                }
                (_, false) => (&mut text, "format", value.clone()),
                (None, true) => continue,
            },
            _ => continue,
        };
        to.insert(name.to_owned(), value);
    }
    if !text.is_empty() {
        let name = if is_messages { "output_config" } else { "text" };
        out.insert(name.to_owned(), text.into());
    }
    out
}

/// Whose limit on generated tokens counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TokenLimit {
    /// The request's own.
    #[default]
    Request,
    /// None is sent: the server's default.
    Server,
    /// This one, as `max_tokens`.
    MaxTokens(u32),
    /// This one, as `max_completion_tokens`.
    MaxCompletionTokens(u32),
}

/// Which calls are wished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// None.
    None,
    /// At least one, of any tool.
    Required,
    /// One of this tool.
    Tool(String),
}

#[cfg(test)]
mod tests {
    use ifc::{Dimension, Lattice};

    use super::*;

    #[test]
    fn a_member_named_like_a_header_is_left_out_with_it() {
        let lattice = Lattice::four_point();
        let [untrusted, secret] = [Dimension::Integrity, Dimension::Confidentiality];
        let (untrusted, secret) = (lattice.whole(untrusted), lattice.whole(secret));
        let members = json!({"beta": "secret", "traceparent": "secret", "top_k": 1});
        let mut options = RequestOptions {
            beta: Some("untrusted".to_owned()),
            traceparent: Some("untrusted".to_owned()),
            members: members.as_object().cloned().unwrap_or_default(),
            ..RequestOptions::default()
        };
        for name in ["beta", "traceparent"] {
            options.restrict(name, &secret);
            options.restrict(name, &untrusted);
        }
        let below = options.below(&untrusted);
        assert_eq!((&below.beta, &below.traceparent), (&None, &None));
        assert_eq!(Value::Object(below.members.clone()), json!({"top_k": 1}));
        assert_eq!(*options.below(&untrusted.join(&secret)), options);
    }
}

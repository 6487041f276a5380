//! Asking for JSON of a schema in the first way that a server knows ([`Form`]).

use std::time::{Duration, Instant};

use hub::{Completion, StopReason, Usage};
use serde_json::Value;

use super::OpenAi;
use super::answer::Answered;
use super::form::{ANSWER_TOOL, Form, Wanted};
use super::unknown::Feature;
use crate::{Cleared, DeltaSink, NoDeltas, ProviderError};

/// What an answer shows of the way in which it was asked for.
#[derive(Debug, PartialEq)]
enum Shown {
    /// It is of the schema: this JSON text.
    Fits(String),
    /// It is JSON, and of another form. A model that is not held to a schema may do so once.
    Misfit,
    /// Nothing of what was asked for: the server passes over this way.
    PassedOver,
    /// Nothing: it was cut off, or the model will not answer.
    Nothing,
}

impl OpenAi {
    /// An answer that is JSON of this schema, if some way of asking brings one; else the last answer, for the caller
    /// to judge. It is passed on whole, since the beginning of an answer does not tell whether it is the last.
    pub(super) async fn complete_json(
        &self,
        call: &Cleared<'_>,
        text: &str,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let schema: Value = serde_json::from_str(text).map_err(|error| {
            self.config
                .unsendable(format!("the schema of the answer is not JSON: {error}"))
        })?;
        let (label, model) = (
            call.request().prompt.label(),
            self.config.model_for(call.options()),
        );
        let started = Instant::now();
        let mut spent = Usage::default();
        let mut refusal = None;
        let mut last = None;
        let (mut passed_over, mut misfit) = (Vec::new(), Vec::new());
        // From the strictest way to the loosest, until an answer fits. A refusal, prose, or JSON of another form
        // leads to the next; any other error, or a model that will not answer, ends it.
        for form in self.unknown.left(label, model) {
            // The parameters of a tool are an object by the API's own rules, and servers refuse others.
            if form == Form::Call && !is_of_object(&schema) {
                continue;
            }
            let wanted = Wanted {
                text,
                schema: &schema,
                form,
            };
            let before = started.elapsed();
            let answered = match self.answer(call, Some(&wanted), &mut NoDeltas).await {
                Ok(answered) => answered,
                Err(failure) if failure.is_refusal => {
                    refusal.get_or_insert(failure.error);
                    passed_over.push(form);
                    continue;
                }
                Err(failure) => return Err(failure.error),
            };
            let shown = shown(&answered, &wanted);
            let mut completion = answered.completion;
            spent = added(spent, completion.usage, before);
            completion.usage = spent;
            match shown {
                Shown::Misfit => misfit.push(form),
                Shown::PassedOver => passed_over.push(form),
                Shown::Nothing => {
                    last = Some(completion);
                    break;
                }
                Shown::Fits(text) => {
                    // Another way does better, so they are not worth another try.
                    passed_over.append(&mut misfit);
                    completion.text = text;
                    // The call of the answer's tool was only the way to the text, and no tool of an app.
                    completion.calls.clear();
                    last = Some(completion);
                    break;
                }
            }
            last = Some(completion);
        }
        let Some(completion) = last else {
            // Refused in every way: it was about something else.
            let none = || {
                self.config
                    .unsendable("there is no way left to ask for JSON".to_owned())
            };
            return Err(refusal.unwrap_or_else(none));
        };
        // After the answer: what stands in it is what shows that a way is not known, so it counts at its label.
        for form in passed_over {
            self.unknown.remember(label, model, Feature::Json(form));
        }
        if !completion.text.is_empty() {
            sink.text(&completion.text);
        }
        Ok(completion)
    }
}

/// What was spent with one more answer, which was asked for so long after the first.
fn added(spent: Usage, one: Usage, after: Duration) -> Usage {
    Usage {
        prompt_tokens: spent.prompt_tokens.saturating_add(one.prompt_tokens),
        cached_tokens: spent.cached_tokens.saturating_add(one.cached_tokens),
        completion_tokens: (spent.completion_tokens).saturating_add(one.completion_tokens),
        time_to_first_token: one.time_to_first_token.map(|first| after + first),
        total_time: after + one.total_time,
    }
}

/// The parameters of a tool are an object.
fn is_of_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

fn shown(answered: &Answered, wanted: &Wanted<'_>) -> Shown {
    let Answered {
        completion,
        declined,
    } = answered;
    // Before the text is looked at: a refusal in words is no sign that the server does not know this way.
    if *declined {
        return Shown::Nothing;
    }
    let text = match (wanted.form, completion.calls.as_slice()) {
        (Form::Call, [call]) if call.tool == ANSWER_TOOL => &call.arguments,
        // Some servers know no choice of a tool, and their models answer all the same.
        (_, []) => &completion.text,
        _ => return Shown::PassedOver,
    };
    let text = without_fence(text);
    match serde_json::from_str(text) {
        Ok(value) if hub::schema::fits(&value, wanted.schema) => Shown::Fits(text.to_owned()),
        Ok(_) => Shown::Misfit,
        // Cut off in the middle: a looser way would be cut off as well.
        Err(error) if completion.stop != StopReason::End && error.is_eof() => Shown::Nothing,
        Err(_) => Shown::PassedOver,
    }
}

/// Models put JSON into a code fence, whatever they are told. One around all of it is taken off.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inside = text
        .strip_prefix("```")
        .and_then(|it| it.strip_suffix("```"));
    inside.map_or(text, |it| it.strip_prefix("json").unwrap_or(it).trim())
}

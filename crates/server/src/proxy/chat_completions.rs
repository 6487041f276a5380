//! OpenAI's Chat Completions.

use hub::Usage;
use serde_json::Value;

use super::dialect::Dialect;
use crate::conversation::Conversation;
use crate::openai_api::request;
use crate::openai_api::response::{ApiError, Choice, Envelope};
use crate::openai_api::stream::Frame;

pub(super) struct ChatCompletions;

impl Dialect for ChatCompletions {
    const PATH: &'static str = "/v1/chat/completions";

    type Answer = Envelope;

    fn read(body: &[u8], takes_images: bool) -> Result<Conversation, String> {
        request::read(body, takes_images)
    }

    fn begin(id: &str, model: &str) -> Envelope {
        Envelope::new(format!("chatcmpl-{id}"), model)
    }

    fn answer(answer: &Envelope, choices: &[Choice], usage: &Usage) -> Value {
        answer.completion(choices, usage)
    }

    fn start(answer: &Envelope, choices: usize) -> Vec<Frame> {
        (0..choices)
            .map(|index| Frame::data(&answer.start(index)))
            .collect()
    }

    fn text(answer: &Envelope, choice: usize, piece: &str) -> Frame {
        Frame::data(&answer.text(choice, piece))
    }

    fn end(answer: &Envelope, index: usize, choice: &Choice) -> Vec<Frame> {
        answer.end(index, choice).iter().map(Frame::data).collect()
    }

    fn finish(answer: &Envelope, usage: Option<&Usage>) -> Vec<Frame> {
        let cost = usage.map(|usage| Frame::data(&answer.cost(usage)));
        cost.into_iter().chain([Frame::done()]).collect()
    }

    fn error(error: &ApiError) -> Value {
        error.body()
    }
}

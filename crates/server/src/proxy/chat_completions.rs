//! OpenAI's Chat Completions.

use hub::Usage;
use serde_json::Value;

use super::dialect::Dialect;
use crate::conversation::Conversation;
use crate::openai_api::request::{self, Takes};
use crate::openai_api::response::{ApiError, Choice, Envelope};
use crate::openai_api::stream::Frame;

pub(super) struct ChatCompletions;

impl Dialect for ChatCompletions {
    const PATH: &'static str = "/v1/chat/completions";

    type Answer = Envelope;

    fn read(body: &[u8], takes: Takes) -> Result<Conversation, String> {
        request::read(body, takes)
    }

    fn begin(id: &str, model: &str) -> Envelope {
        Envelope::new(format!("chatcmpl-{id}"), model)
    }

    fn answer(answer: &Envelope, choice: &Choice, usage: &Usage) -> Value {
        answer.completion(choice, usage)
    }

    fn start(answer: &Envelope) -> Vec<Frame> {
        vec![Frame::data(&answer.start())]
    }

    fn text(answer: &Envelope, piece: &str) -> Frame {
        Frame::data(&answer.text(piece))
    }

    fn end(answer: &Envelope, choice: &Choice, usage: Option<&Usage>) -> Vec<Frame> {
        Frame::last(&answer.end(choice, usage))
    }

    fn error(error: &ApiError) -> Value {
        error.body()
    }
}

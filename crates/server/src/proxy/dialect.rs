//! The APIs in which clients speak with the proxy. Everything behind a dialect is the same for all of them.

use hub::Usage;
use serde_json::Value;

use crate::conversation::Conversation;
use crate::openai_api::request::Takes;
use crate::openai_api::response::{ApiError, Choice};
use crate::openai_api::stream::Frame;

/// One API: how its requests are read, and how answers, streams and errors are written.
pub(super) trait Dialect: Send + Sync + 'static {
    const PATH: &'static str;

    /// What names one answer in all of its parts.
    type Answer: Clone + Send + Sync + 'static;

    /// Reads the body of a request.
    ///
    /// # Errors
    /// What is wrong with it, in one line that names the member.
    fn read(body: &[u8], takes: Takes) -> Result<Conversation, String>;

    /// An answer under an id that cannot be guessed, by the model that the client has named.
    fn begin(id: &str, model: &str) -> Self::Answer;

    /// A whole answer.
    fn answer(answer: &Self::Answer, choice: &Choice, usage: &Usage) -> Value;

    /// What a stream begins with.
    fn start(answer: &Self::Answer) -> Vec<Frame>;

    /// A piece of the text.
    fn text(answer: &Self::Answer, piece: &str) -> Frame;

    /// What follows the text: the calls, why the answer ended, and the usage if the client wants to know it.
    fn end(answer: &Self::Answer, choice: &Choice, usage: Option<&Usage>) -> Vec<Frame>;

    /// The body of an answer to a request that failed.
    fn error(error: &ApiError) -> Value;

    /// The same within a stream.
    fn failed(error: &ApiError) -> Frame {
        Frame::data(&Self::error(error))
    }
}

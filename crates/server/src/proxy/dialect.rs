//! The APIs in which clients speak with the proxy. Everything behind a dialect is the same for all of them.

use hub::Usage;
use serde_json::Value;

use crate::conversation::Conversation;
use crate::openai_api::response::{ApiError, Choice};
use crate::openai_api::stream::Frame;

/// One API: how its requests are read, and how answers, streams and errors are written.
pub(super) trait Dialect: Send + Sync + 'static {
    const PATH: &'static str;

    /// What names one answer in all of its parts.
    type Answer: Clone + Send + Sync + 'static;

    /// Reads the body of a request. Where nothing says how images are labelled, one is refused.
    ///
    /// # Errors
    /// What is wrong with it, in one line that names the member.
    fn read(body: &[u8], takes_images: bool) -> Result<Conversation, String>;

    /// An answer under an id that nobody can guess, by the model that the client has named.
    fn begin(id: &str, model: &str) -> Self::Answer;

    fn answer(answer: &Self::Answer, choices: &[Choice], usage: &Usage) -> Value;

    /// What a stream begins with.
    fn start(answer: &Self::Answer, choices: usize) -> Vec<Frame>;

    fn text(answer: &Self::Answer, choice: usize, piece: &str) -> Frame;

    /// What follows the text of a choice: its calls, and why it ended.
    fn end(answer: &Self::Answer, index: usize, choice: &Choice) -> Vec<Frame>;

    /// What a stream ends with; `usage` if the client wants to know what it cost.
    fn finish(answer: &Self::Answer, usage: Option<&Usage>) -> Vec<Frame>;

    /// The body of an answer to a request that failed.
    fn error(error: &ApiError) -> Value;

    /// The same within a stream.
    fn failed(error: &ApiError) -> Frame {
        Frame::data(&Self::error(error))
    }
}

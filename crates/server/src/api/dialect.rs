//! One API: how its requests are read, and how answers, streams and errors are written.

use axum::http::StatusCode;
use axum::response::Response;
use hub::Usage;
use serde_json::Value;

use super::answer::Choice;
use super::error::ApiError;
use super::frame::Frame;
use super::request::Takes;

use crate::conversation::Conversation;

/// One answer in one API, which knows how far its stream has come.
pub(crate) trait Dialect: Send + Unpin + 'static {
    const API: llm::Dialect;
    const PATH: &'static str;

    /// The status of a request that the policy refuses. Of the agents, one takes 403 for a lost login, and another one sends
    /// the same request again.
    const REFUSED: StatusCode = StatusCode::BAD_REQUEST;

    /// Reads the body of a request.
    ///
    /// # Errors
    /// What is wrong with it, in one line that names the member.
    fn read(body: &[u8], takes: Takes) -> Result<Conversation, String>;

    /// The answer to this request under an id that cannot be guessed.
    fn begin(id: &str, request: &Conversation) -> Self;

    /// The whole answer, as JSON.
    fn whole(&self, choice: &Choice, usage: &Usage) -> String;

    /// What a stream begins with.
    fn start(&mut self) -> Vec<Frame>;

    /// A piece of the text.
    fn text(&mut self, piece: &str) -> Vec<Frame>;

    /// What shows the client of a silent stream that an answer is still to come.
    fn alive(&mut self) -> Vec<Frame>;

    /// What follows the text: the calls, why the answer ended, and the usage.
    fn end(&mut self, choice: &Choice, usage: &Usage) -> Vec<Frame>;

    /// The end of a stream that failed.
    fn failed(&mut self, error: &ApiError) -> Vec<Frame> {
        vec![Self::last_event(error)]
    }

    /// The end of a stream that failed, where nothing is known of what came before. A client that does not know the event sees
    /// a stream without its end.
    fn last_event(error: &ApiError) -> Frame {
        Frame::data(&Self::error(error))
    }

    /// The body of an answer to a request that failed.
    fn error(error: &ApiError) -> Value {
        error.body()
    }

    /// The answer to a request that failed.
    fn response(error: &ApiError) -> Response {
        let status = match error.status {
            StatusCode::FORBIDDEN => Self::REFUSED,
            status => status,
        };
        error.respond(status, Self::error(error))
    }
}

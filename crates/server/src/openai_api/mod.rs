//! OpenAI's chat completions, as the model server and the guard proxy both speak them: one parser,
//! one writer, one way to stream, one set of limits.

pub(crate) mod http;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod stream;

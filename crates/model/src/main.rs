//! `sluice-model`: a GGUF model over llama.cpp. `sluice` starts it and speaks to it over a Unix socket.
//!
//! One thread owns the model and its context and answers one completion at a time. A cancelled completion stops at the next
//! token or the next batch of the prompt.
//!
//! # What it guarantees
//! - **Text is never markup.** The chat template comes from the model file. The text of messages and tools goes to the
//!   tokenizer apart from it, so a mail that imitates `<|im_end|>` or `<tool_call>` stays text.
//! - **Calls are well-formed.** A grammar that is made from the tools' JSON Schemas constrains the answer. An answer that
//!   was cut off can be incomplete; what does not parse is text.
//! - **Work is reused, content is not.** All prompts share a few sequences in the KV cache. A prompt reuses exactly the
//!   tokens that it begins with itself, so nothing of another prompt can reach its answer.

mod engine;
mod grammar;
mod link;
mod parse;
mod repeat;
mod sample;
mod schema;
mod serve;
mod slots;
mod template;
#[cfg(test)]
mod tests;
mod tokens;

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use engine::Config;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let result = match arguments.as_slice() {
        // Standard input is the socket. It closes when `sluice` ends, and then this program ends too.
        [model] => std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .and_then(|socket| serve::serve(UnixStream::from(socket), Config::new(model))),
        _ => Err(std::io::Error::other(
            "it is started by sluice, with a model file",
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "sluice-model: {error}");
            ExitCode::FAILURE
        }
    }
}

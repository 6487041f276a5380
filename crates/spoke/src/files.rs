//! Files that the words of an app name: those that end with the sandbox, and those that it lacks.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mcp::CallResult;
use wire::{FailureReason, Refusal};

/// The sandbox's own folder, in which an app starts.
const SCRATCH: &str = "/tmp";
/// Most words that are looked up for one result.
const MOST_WORDS: usize = 256;

/// The first file of a result that the user may miss, and why. It is a guess from the words alone.
pub(crate) fn missed(result: &Result<CallResult, FailureReason>) -> Option<(Refusal, String)> {
    match result {
        Ok(result) if !result.is_error => Some((Refusal::Scratch, scratch(&result.content)?)),
        Ok(result) => Some((Refusal::Unseen, unseen(&result.content)?)),
        Err(reason) => Some((Refusal::Unseen, unseen(reason.quote()?.as_str())?)),
    }
}

fn scratch(text: &str) -> Option<String> {
    // What is mounted below it has another device.
    let device = Path::new(SCRATCH).metadata().ok()?.dev();
    let words = text.split(|c: char| c.is_whitespace() || "\"'`\\,;()[]<>".contains(c));
    let words = words.map(|word| word.trim_end_matches(['.', ':']));
    let files = words.filter(|word| word.contains('.')).take(MOST_WORDS);
    let files = files.map(|word| Path::new(SCRATCH).join(word));
    let mut own = files.filter(|file| {
        let found = file.symlink_metadata();
        let is_own = found.is_ok_and(|it| it.is_file() && it.dev() == device);
        is_own && file.starts_with(SCRATCH)
    });
    Some(own.next()?.to_str()?.to_owned())
}

fn unseen(error: &str) -> Option<String> {
    const WORDS: [&str; 3] = ["ENOENT", "[Errno 2]", "o such file or directory"];
    let says_so = WORDS.iter().any(|word| error.contains(word));
    let is_path = |word: &&str| word.len() > 1 && word.starts_with('/');
    let quoted = error.split(['\'', '"']).find(is_path);
    let path = quoted.or_else(|| error.split([' ', ':', '\n']).find(is_path))?;
    (says_so && !Path::new(path).exists()).then(|| path.to_owned())
}

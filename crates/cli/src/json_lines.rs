//! `--json`: one record a line on standard output, and nobody to ask.

use async_trait::async_trait;
use hub::trace::Record;
use ifc::Answer;
use server::{QuestionView, User};

use crate::terminal::print;

/// A program that reads events. Questions are answered with no; the record says so.
#[derive(Debug, Default)]
pub(crate) struct JsonLines;

#[async_trait]
impl User for JsonLines {
    async fn confirm(&mut self, _: &QuestionView) -> Answer {
        Answer::No
    }

    async fn choose(&mut self, _: &[String]) -> Option<String> {
        None
    }

    fn delta(&mut self, _: &str) {}

    fn observe(&mut self, record: &Record) {
        if let Ok(line) = serde_json::to_string(record) {
            // A reader that went away does not stop the turn; the trace file has everything.
            let _ = print(&line);
        }
    }
}

//! `--json`: one record a line on standard output, and nobody to ask.

use hub::trace::Record;
use server::User;

use crate::terminal::print;

/// A program that reads events. Questions are answered with no; the record says so.
#[derive(Debug, Default)]
pub(crate) struct JsonLines;

impl User for JsonLines {
    fn observe(&mut self, record: &Record) {
        if let Ok(line) = serde_json::to_string(record) {
            // A reader that went away does not stop the turn; the trace file has everything.
            let _ = print(&line);
        }
    }
}

//! The beginning of a string that the app writes itself, before somebody else's words.

use std::ops::Range;

use ifc::Label;

use super::form::Form;
use crate::formats::{Document, Kind, Node};

/// Tools paste texts together: `Rating: 4.5\nReviews: …` is one string, whose first line is the
/// app's own and whose second is not. A head gives `before`, the token of `form` after it and
/// `after` a label of their own; everything behind keeps the label of the rule.
///
/// Whoever writes the words behind the head cannot reach into it: it is matched from the start of
/// the string, literally, as the format writes it, without any escape but the line break's. A
/// string that begins in another way has no head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    before: String,
    form: Form,
    after: String,
    /// The label of the head.
    pub label: Label,
}

impl Head {
    /// A head: literal, token, literal. The second literal ends the token, so it must begin with a
    /// character that no token has: a blank or a line break. Both are printable ASCII without
    /// quotes and backslashes.
    ///
    /// # Errors
    /// What is wrong with the literals.
    pub fn new(before: &str, form: Form, after: &str, label: Label) -> Result<Self, &'static str> {
        let plain = |text: &str| {
            let allowed = |c: char| c == '\n' || matches!(c, ' '..='~') && !"'\"\\".contains(c);
            text.chars().all(allowed)
        };
        if !plain(before) || !plain(after) {
            return Err("a head has letters, digits and signs, but no quotes and no backslash");
        }
        if !after.starts_with(['\n', ' ']) {
            return Err("'after' must begin with a blank or a line break, which ends the token");
        }
        Ok(Self {
            before: before.to_owned(),
            form,
            after: after.to_owned(),
            label,
        })
    }

    /// The bytes of the head in this value, if it has one.
    pub(super) fn find(&self, document: &Document<'_>, node: &Node) -> Option<Range<usize>> {
        if node.kind != Kind::String {
            return None;
        }
        // Where a format writes a line break in several ways, the literals cannot be compared with its text.
        let line_break = document.format().line_break()?;
        let written = |literal: &str| literal.replace('\n', line_break);
        let text = document.slice(&node.inner);
        let (before, after) = (written(&self.before), written(&self.after));
        let rest = text.strip_prefix(before.as_str())?;
        // The first one ends the token: it begins with a blank or a line break, which no token has.
        let (token, _) = rest.split_once(after.as_str())?;
        if !self.form.matches_token(token) {
            return None;
        }
        let start = node.inner.start;
        Some(start..start + before.len() + token.len() + after.len())
    }
}

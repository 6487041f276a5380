//! The beginning of a string that the app writes itself, before text of others.

use std::ops::Range;

use ifc::Label;

use super::form::Form;
use crate::formats::{Document, Kind, Node};

/// Tools join texts: in `Rating: 4.5\nReviews: …` the first line is the app's own and the second is not. A head gives
/// `before`, the token of `form` after it, and `after` a label of their own. The text behind keeps the label of the rule.
///
/// Text behind the head cannot change the head, which is matched literally from the start of the string, as the format
/// writes it, with no escape but that of a line break. A string that begins otherwise has no head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    before: String,
    pub(super) form: Form,
    after: String,
    /// The label of the head.
    pub label: Label,
}

impl Head {
    /// A head: literal, token, literal. Both literals are printable ASCII without quotes and backslashes. The second one
    /// begins with a blank or a line break, which no token has.
    ///
    /// # Errors
    /// The mistake in the literals.
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

    /// The bytes of the head in this value and its token, if it has one.
    pub(super) fn find<'t>(
        &self,
        document: &Document<'t>,
        node: &Node,
    ) -> Option<(Range<usize>, &'t str)> {
        if node.kind != Kind::String {
            return None;
        }
        // If a format has several spellings of a line break, the literals cannot be compared with its text.
        let line_break = document.format().line_break()?;
        let written = |literal: &str| literal.replace('\n', line_break);
        let text = document.slice(&node.inner);
        let (before, after) = (written(&self.before), written(&self.after));
        let rest = text.strip_prefix(before.as_str())?;
        let (token, _) = rest.split_once(after.as_str())?;
        if !self.form.matches_token(token) {
            return None;
        }
        let start = node.inner.start;
        let length = before.len() + token.len() + after.len();
        Some((start..start + length, token))
    }
}

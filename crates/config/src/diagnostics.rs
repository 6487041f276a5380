//! Errors and warnings of configuration files: where, what is wrong, what would be right.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::Place;

use crate::suggestions::{Suggestions, listed};
use crate::watch::Watch;

/// Most further places of one error that are shown. `policy check --json` has all of them.
const MAX_PLACES: usize = 8;

/// Longest piece of a source line that is shown.
const MAX_EXCERPT_CHARS: usize = 160;

/// Longest message and longest help. Both may quote names as long as a file.
const MAX_TEXT_CHARS: usize = 4096;

/// Most errors, and most warnings, of one configuration. Each costs a pass through its file, which may be a stranger's.
const MAX_OF_A_KIND: usize = 1000;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing starts.
    Error,
    /// Allowed, but probably a mistake.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One error or warning in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether anything may start.
    pub severity: Severity,
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong: one line, lowercase.
    pub message: String,
    /// How to correct it.
    pub help: Option<String>,
    /// The source line; empty if the file could not be read, or may hold secrets.
    pub excerpt: String,
    /// How many characters are marked from `column` on; at least 1.
    pub width: usize,
}

/// Every error of a configuration, at least one, and its warnings. Nothing starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// The errors and warnings, by file, line and column.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// How many errors there are.
    pub fn count(&self) -> usize {
        let errors = self.0.iter().filter(|it| it.severity == Severity::Error);
        errors.count()
    }
}

impl Diagnostic {
    /// The marked string. `None` for anything else, such as a table: the same error in two tables is two errors.
    fn value(&self) -> Option<String> {
        let marked = self.excerpt.chars().skip(self.column.saturating_sub(1));
        let marked: String = marked.take(self.width).collect();
        marked.starts_with(['"', '\'']).then_some(marked)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, .. } = self;
        writeln!(f, "{}: {}", self.severity.name(), self.message)?;
        let margin = line.to_string().len();
        let blank = " ".repeat(margin);
        writeln!(f, "{blank}--> {}:{line}:{column}", self.file.display())?;
        if !self.excerpt.is_empty() {
            let indent = " ".repeat(column.saturating_sub(1));
            let carets = "^".repeat(self.width);
            writeln!(f, "{blank} |\n{line} | {}", self.excerpt)?;
            writeln!(f, "{blank} | {indent}{carets}")?;
        }
        match &self.help {
            Some(help) => writeln!(f, "{blank} = help: {help}"),
            None => Ok(()),
        }
    }
}

/// The same error of the same string is shown once, with its other places below: a label that the lattice lacks may occur in
/// each rule of a manifest.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<Vec<&Diagnostic>> = Vec::new();
        let mut places = BTreeMap::new();
        for diagnostic in &self.0 {
            let next = groups.len();
            let at = match diagnostic.value() {
                Some(value) => {
                    let said = (diagnostic.severity, &diagnostic.message, value);
                    *places.entry(said).or_insert(next)
                }
                None => next,
            };
            match groups.get_mut(at) {
                Some(group) => group.push(diagnostic),
                None => groups.push(vec![diagnostic]),
            }
        }
        for group in &groups {
            let Some((first, others)) = group.split_first() else {
                continue;
            };
            write!(f, "{first}")?;
            also(f, others)?;
            writeln!(f)?;
        }
        let count = match self.count() {
            1 => "1 error".to_owned(),
            MAX_OF_A_KIND => format!("{MAX_OF_A_KIND} errors or more"),
            count => format!("{count} errors"),
        };
        write!(f, "{count} in the configuration; nothing was started")
    }
}

/// Further places of the same error.
fn also(f: &mut fmt::Formatter<'_>, others: &[&Diagnostic]) -> fmt::Result {
    let place = |it: &&Diagnostic| format!("{}:{}:{}", it.file.display(), it.line, it.column);
    let shown: Vec<String> = others.iter().take(MAX_PLACES).map(place).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let more = match others.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    writeln!(f, "  = also at {}{more}", shown.join(", "))
}

impl std::error::Error for Diagnostics {}

/// A file that was read.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
    /// The offsets of its line ends: tens of thousands of rules may ask for their lines.
    line_ends: Arc<[usize]>,
}

impl File {
    pub(crate) fn new(path: PathBuf, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Self {
            path,
            text,
            line_ends,
        }
    }

    /// The line of an offset.
    pub(crate) fn place(&self, offset: usize) -> Place {
        Place {
            file: self.path.clone(),
            line: self.line(offset),
        }
    }

    /// The number of the line of a byte, from 1; a line's end belongs to the line.
    fn line(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|end| *end < offset) + 1
    }

    /// The folder of its relative paths.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// The absolute form of a path in this file.
    pub(crate) fn absolute(&self, path: &str) -> PathBuf {
        let path = self.folder().join(path);
        // On failure (no current folder) the path stays relative, and the sandbox refuses it.
        std::path::absolute(&path).unwrap_or(path)
    }
}

/// Collects errors and warnings.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    list: RefCell<Vec<Diagnostic>>,
    lacks_labels: Cell<bool>,
    suggestions: Suggestions,
    /// Records what the reader asks for, for the schema.
    pub(crate) watch: Option<Watch>,
}

impl Sink {
    /// A sink that records what the reader asks for.
    pub(crate) fn watched_by(watch: Watch) -> Self {
        Self {
            watch: Some(watch),
            ..Self::default()
        }
    }

    /// What the reader has asked for.
    pub(crate) fn into_watch(self) -> Watch {
        self.watch.unwrap_or_default()
    }

    /// An error in a span of a file.
    pub(crate) fn error(
        &self,
        file: &File,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.at(Severity::Error, file, span, message.into(), help.into());
    }

    /// A warning in a span of a file.
    pub(crate) fn warning(
        &self,
        file: &File,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.at(Severity::Warning, file, span, message.into(), help.into());
    }

    /// As [`Suggestions::did_you_mean`], with one allowance for the whole configuration.
    pub(crate) fn did_you_mean<'k>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> String {
        self.suggestions.did_you_mean(name, known)
    }

    /// `did you mean 'KNOWN'? INTRO a, b, c`: the help for an unknown name.
    pub(crate) fn known<'k>(
        &self,
        intro: &str,
        name: &str,
        known: impl IntoIterator<Item = &'k str> + Clone,
    ) -> String {
        let meant = self.did_you_mean(name, known.clone());
        format!("{meant}{intro} {}", listed(known))
    }

    /// Records that an unknown label was named. ⊤ stands in its place, so examples cannot be judged.
    pub(crate) fn lacks_label(&self) {
        self.lacks_labels.set(true);
    }

    /// Whether an unknown label was named.
    pub(crate) fn lacks_labels(&self) -> bool {
        self.lacks_labels.get()
    }

    fn at(
        &self,
        severity: Severity,
        file: &File,
        span: &Range<usize>,
        message: String,
        help: String,
    ) {
        // Counted by severity: warnings must leave room for an error.
        let same = |it: &&Diagnostic| it.severity == severity;
        if self.list.borrow().iter().filter(same).count() >= MAX_OF_A_KIND {
            return;
        }
        let text = &file.text;
        let start = floor_char(text, span.start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let before = text.get(line_start..start).unwrap_or_default();
        let column = before.chars().count();
        // Up to the end of the line: of a table or text in several lines the first line is marked.
        let length = line.chars().count().saturating_sub(column).max(1);
        let marked = text.get(start..floor_char(text, span.end).max(start));
        let width = marked.map_or(1, |marked| marked.chars().count());
        self.list.borrow_mut().push(Diagnostic {
            column: column + 1,
            excerpt: masked(line)
                .chars()
                .take(MAX_EXCERPT_CHARS)
                .map(shown)
                .collect(),
            width: width.clamp(1, length).min(MAX_EXCERPT_CHARS),
            ..without_excerpt(severity, &file.path, file.line(start), &message, &help)
        });
    }

    /// An error of a whole file, which may not even exist.
    pub(crate) fn unreadable(&self, path: &Path, message: &str, help: &str) {
        let error = without_excerpt(Severity::Error, path, 1, message, help);
        self.list.borrow_mut().push(error);
    }

    /// An error of a line.
    pub(crate) fn line(&self, place: &Place, message: &str, help: &str) {
        let error = without_excerpt(Severity::Error, &place.file, place.line, message, help);
        self.list.borrow_mut().push(error);
    }

    /// The value and the warnings, if there is a value and there was no error.
    pub(crate) fn finish<T>(
        self,
        path: &Path,
        value: Option<T>,
    ) -> Result<(T, Vec<Diagnostic>), Diagnostics> {
        let is_error = |it: &Diagnostic| it.severity == Severity::Error;
        let failed = self.list.borrow().iter().any(is_error);
        if value.is_none() && !failed {
            // A reader without a value has reported why. This is the fallback if one did not.
            self.unreadable(path, "the configuration is not understood", "report this");
        }
        let mut list = self.list.into_inner();
        list.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        // Some keys are read twice, such as those of `[app.NAME]`, and their errors are reported twice.
        list.dedup();
        match value {
            Some(value) if !failed => Ok((value, list)),
            _ => Err(Diagnostics(list)),
        }
    }
}

fn without_excerpt(
    severity: Severity,
    file: &Path,
    line: usize,
    message: &str,
    help: &str,
) -> Diagnostic {
    Diagnostic {
        severity,
        file: file.to_owned(),
        line,
        column: 1,
        message: printable(message),
        help: Some(printable(help)).filter(|help| !help.is_empty()),
        excerpt: String::new(),
        width: 1,
    }
}

/// Text of a stranger's manifest as a terminal may show it: without control characters, one column for each character, and
/// of limited length.
fn printable(text: &str) -> String {
    let text = masked(text);
    let mut printable: String = text.chars().take(MAX_TEXT_CHARS).map(shown).collect();
    if text.chars().nth(MAX_TEXT_CHARS).is_some() {
        printable.push('…');
    }
    printable
}

/// A text in which each character of the password of an address (`://USER:PASSWORD@`) is a star: what is shown is logged.
fn masked(text: &str) -> String {
    let (mut masked, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("://") {
        masked.push_str(before);
        masked.push_str("://");
        // Up to the end of its string. A password may have any other character.
        let quote = before.chars().rfind(|c| matches!(c, '"' | '\''));
        let end = quote.and_then(|quote| after.find(quote));
        let (address, next) = after.split_at(end.unwrap_or(after.len()));
        let parts = address.split_once(':');
        let parts = parts.and_then(|(user, rest)| Some((user, rest.rsplit_once('@')?)));
        match parts {
            Some((user, (password, host))) => {
                let stars = "*".repeat(password.chars().count());
                masked.extend([user, ":", &stars, "@", host]);
            }
            None => masked.push_str(address),
        }
        rest = next;
    }
    masked.push_str(rest);
    masked
}

fn shown(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() || is_direction_mark(c) => '\u{fffd}',
        c => c,
    }
}

/// Characters that reorder what a terminal shows.
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_line_is_the_number_of_line_ends_before_it(text in "[ab\u{e9}\r\n]{0,20}") {
            let file = File::new(PathBuf::new(), text.as_str());
            // Also behind the end, where an error about what is missing stands.
            for offset in 0..text.len() + 2 {
                let before = text.bytes().take(offset);
                let expected = before.filter(|byte| *byte == b'\n').count() + 1;
                prop_assert_eq!(file.place(offset).line, expected);
            }
        }
    }
}

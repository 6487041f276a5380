//! Errors and warnings of configuration files: where, what is wrong, what would be right.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::Place;

use crate::suggestions::Suggestions;
use crate::watch::Watch;

/// Further places of one mistake that are shown. `policy check --json` has all of them.
const MAX_PLACES: usize = 8;

/// Longest piece of a source line that is shown.
const MAX_EXCERPT_CHARS: usize = 160;

/// Longest message, and longest help. Both may quote names, which may fill a file.
const MAX_TEXT_CHARS: usize = 4096;

/// Most errors, and most warnings, of one configuration. Each costs a look through its file, which a stranger may have
/// filled with them, and nobody reads more.
const MAX_OF_A_KIND: usize = 1000;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing starts.
    Error,
    /// Allowed, and probably not meant.
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
    /// What would be right.
    pub help: Option<String>,
    /// The source line; empty if the file could not be read, or may hold secrets.
    pub excerpt: String,
    /// How many characters from `column` on are meant; at least 1.
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
    /// The string that is marked, if it is one: two tables with the same mistake are two mistakes.
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

/// A value that is wrong in the same way in several places is shown once, with the other places below it: a label that the
/// lattice lacks may stand in each rule of a manifest.
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
        match self.count() {
            1 => write!(f, "1 error in the configuration; nothing was started"),
            MAX_OF_A_KIND => write!(
                f,
                "{MAX_OF_A_KIND} errors or more in the configuration; nothing was started"
            ),
            count => write!(
                f,
                "{count} errors in the configuration; nothing was started"
            ),
        }
    }
}

/// Further places of the same mistake, each with its file.
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

/// A file that was read. Rules keep theirs, to say where they stand.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
    /// Where its lines end. Each rule asks for its line, and a file has room for tens of thousands of them.
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

    /// The number of the line in which a byte stands, from 1; a line's end belongs to it.
    fn line(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|end| *end < offset) + 1
    }

    /// The folder that its relative paths start from.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// A path that this file names, made absolute.
    pub(crate) fn absolute(&self, path: &str) -> PathBuf {
        let path = self.folder().join(path);
        // Fails only for an empty path or without a current folder; then it stays as it is, and the
        // sandbox refuses a path that is not absolute.
        std::path::absolute(&path).unwrap_or(path)
    }
}

/// Collects errors and warnings.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    list: RefCell<Vec<Diagnostic>>,
    lacks_labels: Cell<bool>,
    suggestions: Suggestions,
    /// What the reader asks for, where somebody wants to know.
    pub(crate) watch: Option<Watch>,
}

impl Sink {
    /// One that knows afterwards what the reader has asked for.
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

    /// As [`Sink::error`], in a file whose lines may hold secrets: they are not shown.
    pub(crate) fn unquoted(
        &self,
        file: &File,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let found = self.diagnostic(Severity::Error, file, span, message.into(), help.into());
        if let Some(found) = found {
            let excerpt = String::new();
            self.push(Diagnostic { excerpt, ..found });
        }
    }

    /// As [`Suggestions::did_you_mean`], for all mistakes of the configuration together.
    pub(crate) fn did_you_mean<'k>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> String {
        self.suggestions.did_you_mean(name, known)
    }

    /// Notes that a label was named which the lattice lacks. What is judged by it is judged by another label than was meant.
    pub(crate) fn lacks_label(&self) {
        self.lacks_labels.set(true);
    }

    /// Whether some label was named that the lattice lacks.
    pub(crate) fn lacks_labels(&self) -> bool {
        self.lacks_labels.get()
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

    fn at(
        &self,
        severity: Severity,
        file: &File,
        span: &Range<usize>,
        message: String,
        help: String,
    ) {
        if let Some(found) = self.diagnostic(severity, file, span, message, help) {
            self.push(found);
        }
    }

    /// `None` where there are as many as are kept.
    fn diagnostic(
        &self,
        severity: Severity,
        file: &File,
        span: &Range<usize>,
        message: String,
        help: String,
    ) -> Option<Diagnostic> {
        // By kind: warnings must leave room for an error.
        let list = self.list.borrow();
        let same = list.iter().filter(|it| it.severity == severity);
        if same.count() >= MAX_OF_A_KIND {
            return None;
        }
        let text = &file.text;
        let start = floor_char(text, span.start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let column = text
            .get(line_start..start)
            .map_or(0, |before| before.chars().count());
        // Up to the end of the line: a table or a text in several lines is marked in the first one.
        let length = line.chars().count().saturating_sub(column).max(1);
        let marked = text.get(start..floor_char(text, span.end).max(start));
        let width = marked.map_or(1, |marked| marked.chars().count());
        Some(Diagnostic {
            severity,
            file: file.path.clone(),
            line: file.line(start),
            column: column + 1,
            message: printable(&message),
            help: Some(printable(&help)).filter(|help| !help.is_empty()),
            excerpt: line.chars().take(MAX_EXCERPT_CHARS).map(shown).collect(),
            width: width.clamp(1, length).min(MAX_EXCERPT_CHARS),
        })
    }

    /// An error of a whole file, which may not even exist.
    pub(crate) fn unreadable(&self, path: &Path, message: impl Into<String>, help: &str) {
        self.push(Diagnostic {
            severity: Severity::Error,
            file: path.to_owned(),
            line: 1,
            column: 1,
            message: printable(&message.into()),
            help: Some(help.to_owned()),
            excerpt: String::new(),
            width: 1,
        });
    }

    /// An error of a line.
    pub(crate) fn line(&self, place: &Place, message: &str, help: &str) {
        self.push(Diagnostic {
            severity: Severity::Error,
            file: place.file.clone(),
            line: place.line,
            column: 1,
            message: printable(message),
            help: Some(printable(help)),
            excerpt: String::new(),
            width: 1,
        });
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
            // A reader without a value has reported why. If one did not, it must not look as if nothing was wrong.
            self.unreadable(path, "the configuration is not understood", "report this");
        }
        let mut list = self.list.into_inner();
        list.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        // Some keys are read twice, such as those of `[app.NAME]`, and their mistakes are reported twice.
        list.dedup();
        match value {
            Some(value) if !failed => Ok((value, list)),
            _ => Err(Diagnostics(list)),
        }
    }

    fn push(&self, diagnostic: Diagnostic) {
        self.list.borrow_mut().push(diagnostic);
    }
}

/// A manifest comes from elsewhere, and its text is shown on a terminal: no control characters, each character stays one
/// column, and there is an end.
fn printable(text: &str) -> String {
    let mut printable: String = text.chars().take(MAX_TEXT_CHARS).map(shown).collect();
    if text.chars().nth(MAX_TEXT_CHARS).is_some() {
        printable.push('…');
    }
    printable
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

//! Reads TOML tables by hand, so that every error is found and has its place.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use ifc::{Dimension, Label, Lattice, LatticeError};
use policy::Place;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use crate::diagnostics::{File, Sink};
use crate::suggestions::shortened;
use crate::watch::{Takes, place};

/// A value with its place in the file.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) span: Range<usize>,
    pub(crate) value: T,
}

/// Reads a file that another names.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// What reading needs everywhere: the file, where errors go, and the lattice once it is known.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) file: &'a File,
    pub(crate) sink: &'a Sink,
    /// `None` while the lattice itself is wrong. Label names are not checked then.
    pub(crate) lattice: Option<&'a Lattice>,
    /// Whether each app has a secret of its own, `secret:APP`.
    pub(crate) by_app: bool,
    /// The app whose tables are read.
    pub(crate) app: Option<OfApp<'a>>,
    /// For the files that this one names.
    pub(crate) read: ReadFile<'a>,
}

/// What labels need to know of an app.
#[derive(Clone, Copy)]
pub(crate) struct OfApp<'a> {
    pub(crate) name: &'a str,
    /// Whether it can connect to anything.
    pub(crate) reaches: bool,
}

/// The label of the secret of the app in whose tables it stands. No category has a space in its name.
pub(crate) const OWN_SECRET: &str = "own secret";
/// The label of an app's own secret where each app has one. Labels have no capitals.
pub(crate) fn secret_of(app: &str) -> String {
    format!("secret:{}", app.to_ascii_lowercase())
}

/// The keys that say what a text may reveal. Every other label is a limit.
const LABELS: [&str; 5] = ["carries", "descriptions", "label", "rest", "structure"];

impl Context<'_> {
    /// Without a secret for each app a label has every secret. A limit then has none, unless the app keeps what it is given.
    fn own_secret(&self, lattice: &Lattice, app: OfApp<'_>, is_limit: bool) -> Label {
        let own = self.by_app.then(|| lattice.label(&secret_of(app.name)));
        let own = own.and_then(Result::ok);
        own.unwrap_or_else(|| match is_limit && app.reaches {
            true => Label::bottom(),
            false => lattice.whole(Dimension::Confidentiality),
        })
    }

    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        self.file.place(span.start)
    }

    pub(crate) fn error(
        &self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.sink.error(self.file, span, message, help);
    }
}

/// Most dots of one key. Each dot is a nested table, and the recursive readers of tables would overflow the stack.
const MAX_DOTS: usize = 12;

/// The TOML parser's message for a key that is written twice.
const DUPLICATE: &str = "duplicate key";

/// Parses a file. All syntax errors are reported; the file is then not read further.
pub(crate) fn parse<'a>(context: Context<'a>) -> Option<Spanned<DeTable<'a>>> {
    // Checked on the tokens: dropping a deeply nested table overflows the stack as well.
    if let Some(span) = endless_key(&context.file.text) {
        let message = format!("a key has more than {MAX_DOTS} dots");
        context.error(&span, message, "name a table inside of fewer others");
        return None;
    }
    let (table, errors) = DeTable::parse_recoverable(&context.file.text);
    for error in &errors {
        let end = context.file.text.len();
        let span = error.span().unwrap_or(end..end);
        let message = error.message().replace('\n', ", ");
        let help = match error.message() {
            DUPLICATE => "the key is written twice; remove one",
            _ => "the file must be TOML 1.1",
        };
        context.error(&span, message, help);
    }
    // A duplicate key does not change the meaning of the rest, which is still checked.
    let only_duplicates = errors.iter().all(|e| e.message() == DUPLICATE);
    only_duplicates.then_some(table)
}

/// The dot at which a key has too many of them, by the parser's own tokens.
pub(crate) fn endless_key(text: &str) -> Option<Range<usize>> {
    let mut dots = 0;
    let mut tokens = Source::new(text).lex();
    let last = tokens.find(|token| {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            // These may appear between the dots of one key.
            TokenKind::Atom
            | TokenKind::Whitespace
            | TokenKind::LiteralString
            | TokenKind::BasicString
            | TokenKind::MlLiteralString
            | TokenKind::MlBasicString => {}
            _ => dots = 0,
        }
        dots > MAX_DOTS
    });
    last.map(|token| token.span().start()..token.span().end())
}

/// A table that records which of its keys were read.
pub(crate) struct Table<'a> {
    pub(crate) context: Context<'a>,
    /// The place of errors about the table itself.
    pub(crate) span: Range<usize>,
    table: &'a DeTable<'a>,
    /// The table's name in error messages.
    what: String,
    /// The kind of table, for the schema.
    place: String,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(
        context: Context<'a>,
        span: Range<usize>,
        table: &'a DeTable<'a>,
        what: String,
    ) -> Self {
        let place = what.clone();
        Self::at_place(context, span, table, what, place)
    }

    fn at_place(
        context: Context<'a>,
        span: Range<usize>,
        table: &'a DeTable<'a>,
        what: String,
        place: String,
    ) -> Self {
        if let Some(watch) = &context.sink.watch {
            watch.table(&place);
        }
        Self {
            context,
            span,
            table,
            what,
            place,
            known: RefCell::default(),
        }
    }

    /// An error at a place in the table.
    pub(crate) fn error(
        &self,
        span: &Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.context.error(span, message, help);
    }

    /// An error about the table itself.
    pub(crate) fn wrong(&self, message: impl Into<String>, help: impl Into<String>) {
        self.context.error(&self.span, message, help);
    }

    /// Reports a key that has no effect here, if it is written.
    pub(crate) fn refuse(&self, key: &'static str, message: impl Into<String>, help: &str) {
        if let Some(value) = self.value(key) {
            self.context.error(&value.span(), message, help);
        }
    }

    /// As [`Sink::did_you_mean`].
    pub(crate) fn did_you_mean<'k>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> String {
        self.context.sink.did_you_mean(name, known)
    }

    /// Records for the schema what values the key takes.
    pub(crate) fn takes(&self, key: &'static str, takes: Takes) {
        if let Some(watch) = &self.context.sink.watch {
            watch.key(&self.place, key, takes);
        }
    }

    /// Reports every key that was not read.
    pub(crate) fn finish(&self) {
        let known = self.known.borrow();
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let message = format!("unknown key '{name}' in {}", self.what);
                let help = self
                    .context
                    .sink
                    .known("it takes", name, known.iter().copied());
                self.error(&key.span(), message, help);
            }
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Reports a missing key.
    pub(crate) fn needs(&self, key: &str, example: &str) {
        if !self.has(key) {
            self.missing(key, example);
        }
    }

    pub(crate) fn missing(&self, key: &str, example: &str) {
        self.wrong(
            format!("{} has no '{key}'", self.what),
            format!("add {example}"),
        );
    }

    pub(crate) fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        // Recorded even where the key is missing: `finish` lists the keys of the table.
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.takes(key, Takes::Any);
        self.table.get(key)
    }

    pub(crate) fn string(&self, key: &'static str) -> Option<At<&'a str>> {
        self.takes(key, Takes::String);
        let value = self.value(key)?;
        self.as_string(key, value)
    }

    pub(crate) fn strings(&self, key: &'static str) -> Option<Vec<At<&'a str>>> {
        self.takes(key, Takes::Strings);
        let value = self.value(key)?;
        self.as_strings(key, value)
    }

    pub(crate) fn boolean(&self, key: &'static str) -> Option<bool> {
        self.takes(key, Takes::Boolean);
        let value = self.value(key)?;
        let found = value.get_ref().as_bool();
        if found.is_none() {
            self.wrong_type(key, value, "true or false");
        }
        found
    }

    pub(crate) fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.takes(key, Takes::Integer(*range.start(), *range.end()));
        let value = self.value(key)?;
        self.as_integer(key, value, &range)
    }

    /// `addresses = ["ADDRESS", …]`: addresses that may be connected to although they are not public.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses = Vec::new();
        for written in self.strings("addresses").unwrap_or_default() {
            match written.value.parse() {
                Ok(address) => addresses.push(address),
                Err(_) => {
                    let message = format!("'{}' is not an address", written.value);
                    let help = "write an IPv4 or IPv6 address, like \"10.0.0.5\"";
                    self.error(&written.span, message, help);
                }
            }
        }
        addresses
    }

    /// The integers of `key = [N, …]`, each with its place.
    pub(crate) fn integers(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Vec<(u64, Range<usize>)> {
        self.takes(key, Takes::Integers(*range.start(), *range.end()));
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(items) = value.get_ref().as_array().filter(|items| !items.is_empty()) else {
            self.wrong_type(key, value, "an array of integers");
            return Vec::new();
        };
        let items = items.iter();
        items
            .filter_map(|item| Some((self.as_integer(key, item, &range)?, item.span())))
            .collect()
    }

    /// An integer of either sign.
    pub(crate) fn signed(&self, key: &'static str) -> Option<At<i64>> {
        self.takes(key, Takes::Signed);
        let value = self.value(key)?;
        let integer = value.get_ref().as_integer();
        let number = integer.and_then(|it| i64::from_str_radix(it.as_str(), it.radix()).ok());
        if number.is_none() {
            self.wrong_type(key, value, "an integer of 64 bits");
        }
        Some(At {
            span: value.span(),
            value: number?,
        })
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let names = words.iter().map(|(word, _)| (*word).to_owned());
        self.takes(key, Takes::Word(names.collect()));
        let At { span, value } = self.string(key)?;
        let found = words.iter().find(|(word, _)| *word == value);
        if found.is_none() {
            let names = words.iter().map(|(word, _)| *word);
            let help = self.context.sink.known("it is one of", value, names);
            self.error(&span, format!("'{key}' cannot be '{value}'"), help);
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// The join of the labels in an array of names, or in one name. An unknown name is reported and counts as ⊤.
    pub(crate) fn label(&self, key: &'static str) -> Option<Label> {
        let names = self.words(key)?;
        Some(self.join(key, &names))
    }

    /// The labels of `key = { NAME = ["LABEL", …] }`.
    pub(crate) fn named_labels(&self, key: &'static str) -> Vec<(At<&'a str>, Label)> {
        self.takes(key, Takes::NamedLists);
        let lists = self.named_lists(key).into_iter();
        lists
            .map(|(name, names)| (name, self.join(key, &names)))
            .collect()
    }

    /// The arrays of `key = { NAME = ["…", …] }`.
    pub(crate) fn named_lists(&self, key: &'static str) -> Vec<(At<&'a str>, Vec<At<&'a str>>)> {
        self.takes(key, Takes::NamedLists);
        let entries = self.entries(key).into_iter();
        let lists = entries.filter_map(|(name, value)| {
            let list = self.as_strings(name.value, value)?;
            Some((name, list))
        });
        lists.collect()
    }

    /// One string or an array of strings.
    pub(crate) fn words(&self, key: &'static str) -> Option<Vec<At<&'a str>>> {
        self.takes(key, Takes::Label);
        match self.value(key)?.get_ref() {
            DeValue::String(_) => Some(vec![self.string(key)?]),
            _ => self.strings(key),
        }
    }

    pub(crate) fn table(&self, key: &'static str) -> Option<Table<'a>> {
        self.takes(key, Takes::Table);
        let value = self.value(key)?;
        let (span, what) = (self.key_span(key, value), format!("[{key}]"));
        self.as_table(key, span, value, what, &Takes::Table)
    }

    /// The tables of `[[key]]`.
    pub(crate) fn tables(&self, key: &'static str) -> Vec<Table<'a>> {
        self.takes(key, Takes::Tables);
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(key, value, &format!("an array of tables, like [[{key}]]"));
            return Vec::new();
        };
        items
            .iter()
            .filter_map(|item| {
                let what = format!("[[{key}]]");
                self.as_table(key, item.span(), item, what, &Takes::Tables)
            })
            .collect()
    }

    /// The named tables of `[key.NAME]`, with the place of each name.
    pub(crate) fn named_tables(&self, key: &'static str) -> Vec<(At<&'a str>, Table<'a>)> {
        self.takes(key, Takes::NamedTables);
        let entries = self.entries(key);
        entries
            .into_iter()
            .filter_map(|(name, value)| {
                // Shortened: each error in the table quotes it.
                let what = format!("[{key}.{}]", shortened(name.value));
                let span = name.span.clone();
                let table = self.as_table(key, span, value, what, &Takes::NamedTables)?;
                Some((name, table))
            })
            .collect()
    }

    /// The named strings of `key = { NAME = "…" }`.
    pub(crate) fn named_strings(&self, key: &'static str) -> Vec<(At<&'a str>, At<&'a str>)> {
        self.takes(key, Takes::NamedStrings);
        let entries = self.entries(key);
        entries
            .into_iter()
            .filter_map(|(name, value)| Some((name, self.as_string(key, value)?)))
            .collect()
    }

    /// The entries of `[key]`, each with the place of its name.
    pub(crate) fn entries(
        &self,
        key: &'static str,
    ) -> Vec<(At<&'a str>, &'a Spanned<DeValue<'a>>)> {
        self.takes(key, Takes::Entries);
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, value, "a table");
            return Vec::new();
        };
        members(table)
    }

    fn join(&self, key: &str, names: &[At<&str>]) -> Label {
        let labels: Vec<Label> = names.iter().map(|it| self.one_label(key, it)).collect();
        labels.iter().collect()
    }

    fn one_label(&self, key: &str, name: &At<&str>) -> Label {
        // The error in the lattice is reported already.
        let Some(lattice) = self.context.lattice else {
            return Label::top();
        };
        if let (OWN_SECRET, Some(app)) = (name.value, self.context.app) {
            return self
                .context
                .own_secret(lattice, app, !LABELS.contains(&key));
        }
        lattice.label(name.value).unwrap_or_else(|error| {
            let known = match error {
                LatticeError::Unknown { known, .. } => known,
                other => vec![other.to_string()],
            };
            let names = lattice.names().chain(known.iter().map(String::as_str));
            let meant = self.did_you_mean(name.value, names);
            // `known` may be shortened. It also has `any`, which `names` lacks.
            let more = lattice.names().nth(known.len().saturating_sub(1));
            let more = more.map_or("", |_| ", …");
            self.context.sink.lacks_label();
            let message = format!("there is no label '{}' in the lattice", name.value);
            let known = known.join(", ");
            let help = format!("{meant}it has {known}{more}{}", how_to_add(name.value));
            self.error(&name.span, message, help);
            Label::top()
        })
    }

    pub(crate) fn as_integer(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        range: &RangeInclusive<u64>,
    ) -> Option<u64> {
        let Some(integer) = value.get_ref().as_integer() else {
            self.wrong_type(key, value, "an integer");
            return None;
        };
        // A negative number fails to parse, and is out of range as well.
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let found = number.filter(|number| range.contains(number));
        if found.is_none() {
            let help = format!("it goes from {} to {}", range.start(), range.end());
            self.error(&value.span(), format!("'{key}' is out of range"), help);
        }
        found
    }

    fn as_strings(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Option<Vec<At<&'a str>>> {
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(key, value, "an array of strings, like [\"a\", \"b\"]");
            return None;
        };
        let strings = items.iter().filter_map(|item| self.as_string(key, item));
        Some(strings.collect())
    }

    fn as_string(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Option<At<&'a str>> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, "a string");
            return None;
        };
        Some(At {
            span: value.span(),
            value: text,
        })
    }

    fn as_table(
        &self,
        key: &str,
        span: Range<usize>,
        value: &'a Spanned<DeValue<'a>>,
        what: String,
        takes: &Takes,
    ) -> Option<Table<'a>> {
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, value, "a table");
            return None;
        };
        let place = place(&self.place, key, takes);
        Some(Table::at_place(self.context, span, table, what, place))
    }

    fn key_span(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Range<usize> {
        let found = self.table.get_key_value(key);
        found.map_or(value.span(), |(key, _)| key.span())
    }

    pub(crate) fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, right: &str) {
        let kind = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        let message = format!("'{key}' does not take {kind}");
        self.error(&value.span(), message, format!("write {right}"));
    }
}

/// The file that a key names, relative to the folder of the file with the key: a manifest has its files beside it.
pub(crate) fn named_file<'a>(table: &Table<'a>, key: &'static str) -> Option<(At<&'a str>, File)> {
    let at = table.string(key)?;
    let path = table.context.file.folder().join(at.value);
    match (table.context.read)(&path) {
        Ok(text) => Some((at, File::new(path, text))),
        Err(error) => {
            let message = format!("'{}' cannot be read: {error}", at.value);
            let folder = table.context.file.folder();
            let help = match folder.as_os_str().is_empty() {
                true => "paths start from the current folder".to_owned(),
                false => format!("paths start from {}", folder.display()),
            };
            table.error(&at.span, message, help);
            None
        }
    }
}

/// The entries of a table, each with the place of its name.
fn members<'a>(table: &'a DeTable<'a>) -> Vec<(At<&'a str>, &'a Spanned<DeValue<'a>>)> {
    let at = |key: &'a Spanned<_>| At {
        span: key.span(),
        value: AsRef::<str>::as_ref(key.get_ref()),
    };
    table.iter().map(|(key, value)| (at(key), value)).collect()
}

/// How to add a missing label to `sluice.toml`.
fn how_to_add(name: &str) -> String {
    let (half, category) = match name.split_once(':') {
        Some(("untrusted", category)) => ("integrity", category),
        Some(("secret", category)) => ("confidentiality", category),
        Some(("readers", group)) => {
            return format!(
                "; or add \"{group}\" to the readers of 'confidentiality' under [lattice] in sluice.toml"
            );
        }
        _ => return String::new(),
    };
    format!("; or add \"{category}\" to the categories of '{half}' under [lattice] in sluice.toml")
}
